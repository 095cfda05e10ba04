"""The MLIR context of the process, and small helpers around jaxlib's MLIR bindings.

Nothing here imports JAX: parsing and printing a module must start fast.

There is one context for the process.  MLIR uniques types and attributes per context, so with a
single context they compare and hash by address everywhere.  A fact computed for a signature
(decoded parameters, a verified op) then holds for every program.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import re
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Literal

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, func, mpmd, sdy, stablehlo
from jaxlib.mlir.dialects._ods_common import _cext

from jaxmlir import _compat
from jaxmlir.errors import Diagnostic, DiagnosticError, ParseError, VerificationError

DIALECT = "jaxpr"
DIALECT_VERSION = "0.1"

TREES = ("jaxpr.in_tree", "jaxpr.out_tree")
"""The attributes of the public function that hold the pytrees."""

unknown_nodes: ContextVar[bool] = ContextVar("unknown_nodes", default=False)
"""Whether a pytree that is read may have nodes of classes that this process does not know.

For a Python program that is an error: arguments or results would have another class.  The command
line tools pass pytrees on without making such nodes, so they do not need the classes.
"""

_cext.globals.append_dialect_search_prefix("jaxmlir.dialect.mlir")


class _Context(ir.Context):
    def __init__(self) -> None:
        # ir.Context.__init__ would load every dialect linked into the binary.
        super(ir.Context, self).__init__()


@functools.cache
def context() -> ir.Context:
    """The process-wide context: jaxlib's dialects, and ``jaxpr`` as an open dialect."""
    # A cache alone would let threads that ask at the same time make two contexts.
    with _making:
        return _context()


_making = threading.Lock()


@functools.cache
def _context() -> ir.Context:
    ctx = _Context()
    registry = ir.DialectRegistry()
    _compat.jax_mlir_ext.register_dialects(registry)
    ctx.append_dialect_registry(registry)
    # Any pass, including a user's, may create ops of any dialect.
    ctx.load_all_available_dialects()
    for dialect in (sdy, mpmd, chlo, stablehlo):
        dialect.register_dialect(ctx)
    # Registered without its Python classes, which take long to import; its first op imports them.
    _compat.mlir_hlo.register_mhlo_dialect(ctx)
    ctx.allow_unregistered_dialects = True
    _cast_dense_elements(ctx)
    _cast_locations()
    return ctx


def _cast_dense_elements(ctx: ir.Context) -> None:
    """Lets the bindings read ``dense`` attributes of complex numbers.  Their own cast raises
    TypeError or, if called from ``NamedAttribute.attr``, ends the process."""
    typeid = ir.Attribute.parse("dense<true> : tensor<i1>", ctx).typeid

    @functools.cache
    def class_of(type_: ir.Type) -> type[ir.Attribute]:
        element = ir.ShapedType(type_).element_type
        if isinstance(element, ir.FloatType):
            return ir.DenseFPElementsAttr
        is_whole = isinstance(element, ir.IntegerType | ir.IndexType)
        return ir.DenseIntElementsAttr if is_whole else ir.DenseElementsAttr

    @ir.register_type_caster(typeid, replace=True)
    def cast(attr: ir.Attribute) -> ir.Attribute:
        return class_of(attr.type)(attr)


def _cast_locations() -> None:
    """Lets the bindings read locations that are attributes.  Otherwise this raises TypeError or, if
    it happens in ``NamedAttribute.attr``, ends the process."""

    def caster(cls: type[ir.Location]) -> Any:
        def cast(value: Any) -> Any:
            try:
                return cls(value)
            except TypeError:
                return value

        return cast

    for cls in (ir.UnknownLoc, ir.FileLineColLoc, ir.NameLoc, ir.CallSiteLoc, ir.FusedLoc):
        ir.register_type_caster(cls.static_typeid, replace=True)(caster(cls))


class scope:
    """The process-wide context, with an unknown location for what is built in it."""

    __slots__ = ("_context", "_location")

    def __enter__(self) -> None:
        self._context = context()
        self._context.__enter__()
        self._location = ir.Location.unknown(self._context)
        self._location.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._location.__exit__(*raised)
        self._context.__exit__(*raised)


def parse_module(
    source: str | bytes, filename: str = "-", *, is_shallow: bool = False, from_file: bool = False
) -> ir.Module:
    """Parses MLIR text (or bytecode that our own writer made) without verifying the dialect.

    Args:
      is_shallow: brackets are known not to be nested deep, so this is not checked.
      from_file: the text is the content of the file ``filename``, which locations then name.

    Raises:
      ParseError: with MLIR's diagnostics, located in ``filename``.
    """
    if isinstance(source, str) and not is_shallow:
        check_nesting(source, filename)
    with context():
        try:
            # A pipe cannot be read again, and MLIR takes no name that is not Unicode.
            again = from_file and os.path.isfile(filename) and filename.isprintable()
            module = ir.Module.parseFile(filename) if again else ir.Module.parse(source)
        except ir.MLIRError as e:
            raise parse_error(e, source, filename) from None
    if isinstance(source, str):
        check_arrays(module, source, filename)
        check_strings(module, source, filename)
    return module


_OTHER_TEXTS = {
    "{ lambda": "a jaxpr as JAX prints it, which cannot be read back; the text of "
    "jaxmlir.trace(f)(*args) can",
    "HloModule": "HLO text, which is not MLIR; jax.jit(f).lower(*args).as_text() is",
}


def parse_error(error: ir.MLIRError, source: str | bytes, filename: str) -> ParseError:
    """MLIR's error about a text, with a note on the format if the text is one of JAX's or XLA's."""
    diagnostics = diagnostics_of(error, filename)
    begins = source.lstrip()[:20] if isinstance(source, str) else ""
    for beginning, what in _OTHER_TEXTS.items():
        if diagnostics and begins.startswith(beginning):
            note = Diagnostic("note", f"this is {what}", filename)
            diagnostics[0] = diagnostics[0]._replace(notes=(*diagnostics[0].notes, note))
    return ParseError(diagnostics)


def check_nesting(source: str, filename: str) -> None:
    """Refuses text whose nesting would make the recursive parser end the process; a ParseError
    names the line."""
    line = first_too_deep(source.encode())
    if line is not None:
        message = f"brackets are nested too deep: expected at most {MAX_NESTING}"
        raise ParseError([Diagnostic("error", message, filename, line, 1)])


# The regex engine searches fast for a literal prefix, so the boundary is a look-behind after it.
_UNREADABLE = re.compile(r"array<(?<![\w.$]array<)\s*+(?!(?:i(?:1|8|16|32|64)|f(?:32|64))\s*+[:>])")
_STRING = r'"(?:[^"\\]|\\.)*"'


def check_arrays(module: ir.Module, source: str, filename: str) -> None:
    """Refuses ``array<f16: ...>`` and the like in a module that was parsed.  MLIR's Python bindings
    have no class for arrays of other element types.  Reading such an attribute raises an exception,
    or ends the process if a dictionary holds the attribute."""
    match = _UNREADABLE.search(source)
    # The source may have matches in comments or type aliases; the printed module has neither.
    if match is None or not _UNREADABLE.search(re.sub(_STRING, '""', module_text(module))):
        return
    before = source[: match.start()]
    line, col = before.count("\n") + 1, match.start() - before.rfind("\n")
    message = "expected i1, i8, i16, i32, i64, f32 or f64 as the element type of an array attribute"
    raise ParseError([Diagnostic("error", message, filename, line, col)])


def check_strings(module: ir.Module, source: str, filename: str) -> None:
    """Refuses strings that are not UTF-8, which MLIR's Python bindings cannot read.

    Raises:
      ParseError: names the string.
    """
    if re.search(r"\\[89A-Fa-f]", source) is None:
        return
    # Quotes in comments are not those of strings; the printed module has no comments.
    text = module_text(module, debug_info=True) if "//" in source else source
    for string in set(re.findall(_STRING, text)):
        try:
            _bytes_of(string).decode()
        except UnicodeDecodeError as e:
            message = f"expected strings in UTF-8, got {string}: {e.reason}"
            raise ParseError([Diagnostic("error", message, filename)]) from None


def verify_module(module: ir.Module, filename: str = "-") -> None:
    """MLIR's own verification: symbols, dominance, and every registered dialect's ops.

    Raises:
      DiagnosticError: with MLIR's diagnostics.
    """
    with context():
        try:
            module.operation.verify()
        except ir.MLIRError as e:
            raise DiagnosticError(diagnostics_of(e, filename)) from None


def diagnostics_of(error: ir.MLIRError, filename: str = "-") -> list[Diagnostic]:
    """MLIR's diagnostics as ours, about the file ``filename``."""

    diagnostics = [diagnostic_of(said).placed(filename) for said in error.error_diagnostics]
    return diagnostics or [Diagnostic("error", str(error))]


_HINTS = (
    (
        re.compile(r"Dialect `\w+' not found for custom op '(?P<op>[\w.$]+)'"),
        "the ops of dialects that are not in jaxlib's MLIR, such as jaxpr, are read only in the "
        'generic form, such as "{op}"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    ),
    (
        re.compile(r"!quant\.(?P<op>)"),
        "JAX has no quantised types; expected numbers, as "
        "stablehlo-opt --stablehlo-legalize-quant-to-math makes them",
    ),
)
"""What to do about diagnostics of MLIR's parser that do not say it, by patterns of messages."""


def diagnostic_of(said: ir.Diagnostic | ir.DiagnosticInfo) -> Diagnostic:
    """A diagnostic of MLIR's as ours."""
    place, notes = file_line_col(said.location), tuple(map(diagnostic_of, said.notes))
    for pattern, hint in _HINTS:
        if said.severity.name == "ERROR" and (match := pattern.search(said.message)):
            # In place of MLIR's list of all dialects.
            notes = (Diagnostic("note", hint.format(op=match["op"]), *place),)
    return Diagnostic(said.severity.name.lower(), said.message, *place, notes)


_FILE_LINE_COL = r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)'


def file_line_col(location: ir.Location) -> tuple[str, int, int]:
    """The innermost file, line and column of a location; ``("", 0, 0)`` if it has none."""
    inner = location
    while not isinstance(inner, ir.FileLineColLoc):
        if isinstance(inner, ir.NameLoc):
            inner = inner.child_loc
        elif isinstance(inner, ir.CallSiteLoc):
            inner = inner.callee
        else:
            break
    else:
        return inner.filename, inner.start_line, inner.start_col
    # The innermost location has no file, or is a fusion of several: takes the first in the text.
    match = re.search(_FILE_LINE_COL, str(location))
    return _frame(match) if match else ("", 0, 0)


def frames(location: ir.Location) -> list[tuple[str, int, int]]:
    """File, line and column of every frame of a location, innermost first."""
    return list(map(_frame, re.finditer(_FILE_LINE_COL, str(location))))


def _frame(match: re.Match[str]) -> tuple[str, int, int]:
    file = match[1]
    return _unescaped(file) if "\\" in file else file, int(match[2]), int(match[3])


def _unescaped(name: str) -> str:
    """A name printed by MLIR, which escapes all non-ASCII text, unescaped if that is printable."""
    try:
        decoded = _bytes_of(name).decode()
    except UnicodeDecodeError:
        return name
    return decoded if decoded.isprintable() else name


def _bytes_of(printed: str) -> bytes:
    """The bytes of a string that MLIR printed."""
    parts = re.split(rb"\\([0-9A-Fa-f]{2}|\\)", printed.encode())
    parts[1::2] = [code if code == b"\\" else bytes.fromhex(code.decode()) for code in parts[1::2]]
    return b"".join(parts)


def module_text(
    module: ir.Module, *, debug_info: bool = False, elide_over: int | None = None
) -> str:
    """The module in MLIR's textual form.

    Args:
      debug_info: also print locations.
      elide_over: print ``dense`` attributes with more elements than this as ``__elided__``.
    """
    text = module.operation.get_asm(enable_debug_info=debug_info, large_elements_limit=elide_over)
    return with_mesh_aliases(text)


_STRING_OR_MESH = re.compile(r'"(?:[^"\\]|\\.)*"|\{(?:Abstract)?Mesh = \{')
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')


def with_mesh_aliases(text: str) -> str:
    """The MLIR text with each mesh defined once, at the top, and referred to by an alias.  Inside
    ``shard_map`` every type and every op names the mesh."""
    if "Mesh = {" not in text:
        return text
    aliases: dict[str, str] = {}
    parts, position = [], 0
    for match in _STRING_OR_MESH.finditer(text):
        start = match.start()
        if match[0].startswith('"') or start < position:
            continue
        end = _end_of_braces(text, start)
        mesh = text[start:end]
        alias = aliases.setdefault(mesh, f"#mesh{len(aliases) or ''}")
        parts += text[position:start], alias
        position = end
    definitions = [f"{alias} = {mesh}\n" for mesh, alias in aliases.items()]
    return "".join([*definitions, *parts, text[position:]])


def _end_of_braces(text: str, start: int) -> int:
    """The end of the brace expression that begins at ``start`` or later."""
    depth = 0
    for match in _STRING_OR_BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    return len(text)


def bytecode(op: ir.Operation, version: int | None = None) -> bytes:
    """An op and its regions as MLIR bytecode of a version, by default the newest; a ValueError if
    there is no such version."""
    out = io.BytesIO()
    op.write_bytecode(out, desired_version=version)
    return out.getvalue()


def module_bytecode(module: ir.Module, version: int | None = None) -> bytes:
    """The module as MLIR bytecode; see :func:`bytecode`."""
    return bytecode(module.operation, version)


def clone_module(module: ir.Module, among: Container[str] | None = None) -> ir.Module:
    """A module with the same ops and attributes, by default with all functions."""
    with context():
        source = module.operation
        result = ir.Module.create(source.location)
        for name, attr in source.attributes.items():
            result.operation.attributes[name] = attr
        with ir.InsertionPoint(result.body):
            for op in module.body.operations:
                left_out = among is not None and isinstance(op, func.FuncOp)
                if not (left_out and op.name.value not in among):
                    op.operation.clone()
        return result


def functions(module: ir.Module) -> dict[str, func.FuncOp]:
    """The module's functions by symbol name, in order."""
    with context():
        return {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp)}


def functions_around(op: Any) -> dict[str, func.FuncOp]:
    """The functions of the module that an op is in; none around an op of a detached function."""
    outermost = op.operation
    while (parent := outermost.parent) is not None:
        outermost = parent.operation
    inside = outermost.regions[0].blocks[0].operations
    return {f.name.value: f for f in inside if isinstance(f, func.FuncOp)}


def dialect_ops(module: ir.Module) -> Iterator[ir.OpView]:
    """The ops of our dialect in a module's functions: those without a Python class."""
    for function in functions(module).values():
        for block in function.body:
            for op in block.operations:
                if type(op) is ir.OpView:
                    yield op


def new_function(
    name: str,
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    location: ir.Location,
    ip: ir.InsertionPoint | Literal[False],
    *,
    visibility: str = "private",
) -> tuple[func.FuncOp, ir.Block]:
    """A function and its empty body; the context must be entered.  The class of the bindings takes
    twice as long."""
    op = ir.Operation.create(
        "func.func",
        attributes={
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get(visibility),
        },
        regions=1,
        loc=location,
        ip=ip,
    )
    # Arguments are not ops, so they do not get the current location.
    nowhere = [ir.Location.unknown()] * len(inputs)
    return op.opview, op.regions[0].blocks.append(*inputs, arg_locs=nowhere)


def body_of(function: func.FuncOp) -> ir.Block:
    """The block of a function's ops, which must not be a declaration; the bindings' ``entry_block``
    takes twice as long."""
    try:
        return function.operation.regions[0].blocks[0]
    except IndexError:
        name, where = function.name.value, file_line_col(function.location)
        message = f"'func.func' op @{name}: expected a body of one block, got a declaration"
        raise VerificationError([Diagnostic("error", message, *where)]) from None


def is_private(function: func.FuncOp) -> bool:
    """Whether only the module itself can call a function; in text, the default is public."""
    return "sym_visibility" in function.attributes and function.visibility.value != "public"


def rename_symbol(module: ir.Module, old: str, new: str) -> None:
    """Renames a symbol (a function or a mesh) and its uses; a symbol in the way is renamed, too.
    The module's context must be entered."""
    if old == new:
        return
    named = [op for op in module.body.operations if "sym_name" in op.attributes]
    taken = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in named}
    for before, after in ((new, free_symbol(new, taken)), (old, new)):
        if before in taken:
            ir.SymbolTable.replace_all_symbol_uses(before, after, module.operation)
            taken[before].attributes["sym_name"] = ir.StringAttr.get(after)


def free_symbol(name: str, taken: Container[str], numbers: Iterator[int] | None = None) -> str:
    """``name``, or ``name_0`` ... (or the next of ``numbers``) if that is taken; dots are kept."""
    symbol, numbers = name, numbers or itertools.count()
    while symbol in taken:
        symbol = f"{name}_{next(numbers)}"
    return symbol


def is_foreign(name: str) -> bool:
    """Whether a name is that of another dialect's op, which may have regions and any effects."""
    return not name.startswith("jaxpr.")


def has_regions(op: Any, name: str) -> bool:
    """Whether an op of that name may contain ops."""
    return is_foreign(name) and len(op.operation.regions) > 0


def inner_ops(op: Any) -> Iterator[Any]:
    """The ops in an op's regions, recursively.  Ops of the jaxpr dialect have no regions."""
    for region in op.operation.regions:
        for block in region:
            for inner in block.operations:
                yield inner
                yield from inner_ops(inner)


def captured(op: Any) -> list[ir.Value]:
    """The values defined outside that the ops in an op's regions use, each once."""
    return captured_by(block for region in op.operation.regions for block in region)


def captured_by(blocks: Iterable[ir.Block]) -> list[ir.Value]:
    """The values defined outside of some blocks that the ops in these, and in the regions of these,
    use, each once."""
    used: dict[ir.Value, None] = {}
    defined: set[ir.Value] = set()
    for block in blocks:
        defined.update(block.arguments)
        for op in block.operations:
            used.update(dict.fromkeys(op.operands))
            used.update(dict.fromkeys(captured(op)))
            defined.update(op.results)
    return [value for value in used if value not in defined]


@functools.cache
def symbol_uses(attr: ir.Attribute) -> tuple[str, ...]:
    """The symbols that an attribute refers to, nested arrays and dictionaries included."""
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return (attr.value,)
    if isinstance(attr, ir.ArrayAttr):
        return tuple([use for item in attr for use in symbol_uses(item)])
    if isinstance(attr, ir.DictAttr):
        return tuple([use for item in attr for use in symbol_uses(item.attr)])
    return ()


MAX_NESTING = 512
"""The maximal nesting of brackets in a text to be parsed.  Programs need a dozen."""

_NO_BRACKETS = bytes(set(range(256)) - {*b"([{<>}])\n"})
_DEPTH = np.zeros(256, np.int8)
_DEPTH[[*b"([{<"]] = 1
_DEPTH[[*b")]}>"]] = -1
_STRING_OR_COMMENT = rb'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*+'


def without_strings(text: bytes) -> bytes:
    """Removes the quoted strings of a text that has no comments."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text
    return b"".join(plain.split(b'"')[::2])


def nesting(text: bytes) -> int:
    """The nesting depth of brackets in a text without strings and comments."""
    return int(_depths(text).max(initial=0))


def first_too_deep(text: bytes) -> int | None:
    """The first line of an MLIR text, from 1, with brackets nested deeper than ``MAX_NESTING``."""
    if sum(map(text.count, b"([{<")) <= MAX_NESTING:
        return None
    plain = re.sub(_STRING_OR_COMMENT, b"", text) if b"//" in text else without_strings(text)
    depths = _depths(plain)
    if depths.max(initial=0) <= MAX_NESTING:
        return None
    before = _brackets(plain)[: int(np.argmax(depths > MAX_NESTING))]
    return before.count(b"\n") + 1


def _depths(text: bytes) -> np.ndarray:
    return np.cumsum(_DEPTH[np.frombuffer(_brackets(text), np.uint8)], dtype=np.int32)


def _brackets(text: bytes) -> bytes:
    """The brackets and line breaks of a text; an arrow is not a bracket."""
    return text.replace(b"->", b"").translate(None, _NO_BRACKETS)

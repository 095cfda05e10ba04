"""Checks that a module is a program of the jaxpr dialect, before anything relies on it.

The checks run in this order, and each relies on the ones before:

1. MLIR's own verification: dominance, symbols, the operand types of ``func.return``.
2. Structure, from the op's record: numbers of operands and results, attributes, symbols.  For a
   function, its pytrees and the types of its arguments.
3. The functions that an op refers to: their signatures match what the op passes and expects
   (:mod:`jaxmlir.verify.signatures`).
4. Types: results have the types that JAX's abstract evaluation of the primitive computes from the
   operands' types and the parameters.  The abstract-evaluation rule *is* the type rule of the op,
   so no primitive needs another one, a user's own included.
5. The call graph: a function reaches itself only through a custom derivative rule.

The types that an op should have follow from its name, attributes and operand types alone, and these
are uniqued in the process-wide context.  So a signature is checked once in a process.  Every later
op that has it costs a look-up: a few microseconds.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from jaxmlir._compat import config, core, dtypes, effects, named_axes, pe
from jaxmlir.bridge import params
from jaxmlir.caching import configuration
from jaxmlir.dialect import codec, custom_rule_ops, effect_attributes, locations, op_signature, ops
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.custom_rule_ops import MARK
from jaxmlir.dialect.handles import UnreadArray
from jaxmlir.dialect.ir import context, func, ir, is_foreign, is_private, symbol_uses, verify_module
from jaxmlir.dialect.module import Module, version_faults
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of, element_of, type_of
from jaxmlir.errors import (
    Diagnostic,
    DiagnosticError,
    JaxmlirError,
    VerificationError,
    count,
    message_of,
    nearest,
)
from jaxmlir.passes.base import Pass
from jaxmlir.verify import signatures

# Further diagnostics add nothing to the first ones.
MAX_DIAGNOSTICS = 20

# Signatures known to be valid, by the JAX configuration that they were checked under.  For ops that
# refer to functions, with the checked properties of these in place of their symbols.
_valid: dict[Any, set[Any]] = {}


def verify(program: Module, filename: str = "-") -> None:
    """Checks a program, including the custom rules that were traced.

    Args:
      program: the program; its module is not changed.
      filename: the name that diagnostics give to the text that the module was parsed from.

    Raises:
      VerificationError: with up to ``MAX_DIAGNOSTICS`` diagnostics, each of which names the op, its
        place, what was expected and what was found.
    """
    # Another thread may be tracing rules, which are written into the module.
    with program.rule_tracing.lock:
        try:
            verify_module(program._module, filename)
        except DiagnosticError as e:
            raise VerificationError(e.diagnostics) from None
        with context():
            diagnostics = version_faults(program._module, filename)
            diagnostics = diagnostics or Verifier(program, filename).run()
    if diagnostics:
        raise VerificationError(diagnostics)


_CONSTANT = "jaxpr.constant"
# Attributes of a function that no op looks at.
_NAMES = ("sym_name", "sym_visibility", "function_type")


class _TooManyErrors(Exception):
    """Enough diagnostics were found."""


class Verifier:
    """Walks every function of one program once, callers before the functions they refer to."""

    def __init__(self, program: Module, filename: str):
        self.program = program
        self.filename = filename
        self.functions = program._functions
        self.diagnostics: list[Diagnostic] = []
        # The functions still to walk, and whether the enclosing shard_map tracks varying axes.
        self.pending: dict[str, bool] = {}
        self.calls: dict[str, dict[str, tuple[str, ir.Location]]] = {}
        self.interfaces: dict[str, Any] = {}
        self.configuration = configuration()
        # Whether functions without ops count as functions of the dialect.
        self.is_dialects = "jaxpr.version" in program._module.operation.attributes

    def run(self) -> list[Diagnostic]:
        with contextlib.suppress(_TooManyErrors):
            for op in self.program._module.body.operations:
                self.check_top_level(op)
            for symbol, function in self.functions.items():
                if not is_private(function):
                    self.pending[symbol] = False
            self.walk_pending()
            for symbol in self.functions:
                if symbol not in self.calls:
                    self.pending[symbol] = False
                    self.walk_pending()
            self.check_call_graph()
        return self.diagnostics

    def report(self, op: Any, message: str) -> None:
        self.report_at(op.location, message)

    def report_at(self, location: ir.Location, message: str) -> None:
        file, line, col = locations.position(location)
        if file == "-":
            file = self.filename
        self.diagnostics.append(Diagnostic("error", message, file, line, col))
        if len(self.diagnostics) == MAX_DIAGNOSTICS:
            raise _TooManyErrors

    # -- the walk --

    def check_top_level(self, op: Any) -> None:
        if isinstance(op, func.FuncOp):
            self.check_body(op)
            for error in _tree_errors(op):
                self.report(op, error)
        elif type(op) is ir.OpView and not is_foreign(op.name):
            error = f"'{op.name}' op: expected in the body of a func.func, got the body of a module"
            self.report(op, error)

    def check_body(self, function: func.FuncOp) -> None:
        """Reports a body that is not a list of ops and a return, and then stops all checks."""
        blocks = function.body.blocks
        if len(blocks) != 1:
            got = f"{len(blocks)} blocks" if blocks else "a declaration"
            error = f"expected a body of one block, got {got}"
        else:
            # MLIR accepts an unregistered op as a terminator. JAX's lowering writes functions that
            # end with StableHLO's.
            last = blocks[0].operations[-1].operation.name if len(blocks[0].operations) else ""
            if last in ("func.return", "stablehlo.return"):
                return
            got = f"'{last}'" if last else "nothing"
            error = f"expected a 'func.return' at the end, got {got}"
        self.report(function, f"'func.func' op @{function.name.value}: {error}")
        raise _TooManyErrors

    def walk_pending(self) -> None:
        while self.pending:
            symbol = next(iter(self.pending))
            self.walk(symbol, self.pending.pop(symbol))

    def walk(self, symbol: str, check_vma: bool) -> None:
        """Checks the ops of one function."""
        calls = self.calls[symbol] = {}
        valid = _valid.setdefault((self.configuration, check_vma), set())
        # Signatures that mean something in this program only, with the functions they refer to.
        callees_of: dict[Signature, list[tuple[str, bool]]] = {}
        function = self.functions[symbol]
        self.check_arguments(function)
        for op in itertools.chain.from_iterable(block.operations for block in function.body):
            # Ops of registered dialects have classes of their own; MLIR has checked them.
            if type(op) is not ir.OpView or is_foreign(name := op.name):
                continue
            if num_regions := len(op.regions):
                # A signature does not describe them.
                got = f"{num_regions}; functions are referred to by symbol"
                self.report(op, f"'{name}' op: expected no regions, got {got}")
                continue
            key = op_signature.of_op(op, name, op.operands)
            if key in valid:
                continue
            callees = callees_of.get(key)
            if callees is None:
                callees = self.check_signature(op, name, key, check_vma)
                if callees is None:
                    continue
                callees_of[key] = callees
            for callee, is_rule in callees:
                if callee not in self.calls:
                    self.pending.setdefault(callee, _tracks_axes(op, name, check_vma))
                if not is_rule:
                    calls.setdefault(callee, (name, op.location))

    def check_arguments(self, function: func.FuncOp) -> None:
        """Reports arguments of a function of the dialect whose types are not of the dialect."""
        first = function.entry_block.operations[0].operation.name
        if not self.is_dialects and is_foreign(first):
            return
        for i, type_ in enumerate(function.type.inputs):
            try:
                aval_of(type_)
            except JaxmlirError as e:
                self.report(function, f"'func.func' op argument #{i}: {_paragraph(e)}")

    def check_signature(
        self, op: Any, name: str, key: Signature, check_vma: bool
    ) -> list[tuple[str, bool]] | None:
        """The result of :meth:`check` for an op whose signature is not known to be valid.  A valid
        signature is remembered, for later programs too if it means the same in them."""
        valid = _valid[self.configuration, check_vma]
        checked: Any = key
        if not key.is_portable:
            # Programs have side tables of their own, so constants in these are checked each time.
            checked = None if name == _CONSTANT else self.with_functions(key)
        if checked in valid:
            return self.symbols(op)[0]
        callees = self.check(op, name, check_vma)
        if callees is not None and checked is not None and name in _known_ops():
            valid.add(checked)
        return callees

    def check(self, op: Any, name: str, check_vma: bool) -> list[tuple[str, bool]] | None:
        """The functions that an op names, and whether as rules; ``None`` if the op is wrong."""
        is_constant = name == _CONSTANT
        constant = _constant_errors(self.program, op)
        errors = _read(constant if is_constant else _structure_errors(op, name), name)
        callees: list[tuple[str, bool]] = []
        if not errors:
            callees, errors = self.symbols(op)
        if not errors:
            errors = _read(signatures.errors(op, name, self.functions), name)
        if not (errors or is_constant):
            errors = self.type_errors(op, name, check_vma)
        for error in errors:
            self.report(op, f"'{name}' op{error}")
        return None if errors else callees

    def with_functions(self, key: Signature) -> tuple[Any, ...] | None:
        """A signature with the checked properties of functions in place of their symbols.  ``None``
        if the check needs more than these: functions with effects, values that only this program
        has.  Marks of untraced rules are left out: each is another number."""
        parts: list[Any] = [key.name, key.operands, key.results]
        for name, attr in key.attributes:
            if name == MARK and isinstance(attr, ir.IntegerAttr):
                continue
            part = self.with_interfaces(attr)
            if part is None:
                return None
            parts += name, part
        return tuple(parts)

    def with_interfaces(self, attr: ir.Attribute) -> Any | None:
        """An attribute with the interfaces of functions in place of their symbols."""
        if not codec.depends_on_module(attr):
            return attr
        if isinstance(attr, ir.FlatSymbolRefAttr):
            return self.interface(attr.value)
        if isinstance(attr, ir.ArrayAttr):
            items = [(None, item) for item in attr]
        else:
            items = [(item.name, item.attr) for item in attr]
        parts = tuple((name, self.with_interfaces(item)) for name, item in items)
        return None if any(n in codec.OWN_TAGS or p is None for n, p in parts) else parts

    def interface(self, symbol: str) -> Any | None:
        """The type and attributes of the function with a symbol; ``None`` if it has effects."""
        if symbol not in self.functions:
            return None
        if symbol not in self.interfaces:
            function = self.functions[symbol]
            ops = itertools.chain.from_iterable(block.operations for block in function.body)
            pure = not any("jaxpr.effects" in op.attributes for op in ops)
            attributes = tuple(
                item for item in function.attributes.items() if item[0] not in _NAMES
            )
            self.interfaces[symbol] = (function.type, attributes) if pure else None
        return self.interfaces[symbol]

    def symbols(self, op: Any) -> tuple[list[tuple[str, bool]], list[str]]:
        """The functions that an op refers to, and the errors of unknown symbols."""
        callees, errors = [], []
        for key, attr in op.attributes.items():
            for symbol in symbol_uses(attr):
                if symbol not in self.functions:
                    errors.append(
                        f" attribute '{key}': expected the symbol of a func.func of this module, "
                        f"got @{symbol}{_nearest('@' + symbol, map('@{}'.format, self.functions))}"
                    )
                callees.append((symbol, key in custom_rule_ops.ATTRIBUTES))
        return callees, errors

    # -- types --

    def type_errors(self, op: Any, name: str, check_vma: bool) -> list[str]:
        """The errors of result types that differ from those that JAX computes."""
        errors = self.type_errors_here(op, name, check_vma)
        if errors and name in _known_ops():
            # A few rules depend on whether 64-bit types are enabled.  A program does not record
            # that setting, so it is valid if either setting gives its types.
            with jax.enable_x64(not config.enable_x64.value):
                if not self.type_errors_here(op, name, check_vma):
                    return []
        return errors

    def type_errors_here(self, op: Any, name: str, check_vma: bool) -> list[str]:
        # The rules of JAX and of users may raise any exception.
        differences = self.differences(op, name, check_vma)
        return _read(differences, name, functools.partial(_rejection, op))

    def differences(self, op: Any, name: str, check_vma: bool) -> Iterator[str]:
        """The errors of results or effects that differ from those that JAX computes."""
        primitive, expected, inferred = evaluate(self.program.stubs, op, name, check_vma)
        got = [aval_of(v.type) for v in op.results]
        given = op.attributes["jaxpr.effects"] if "jaxpr.effects" in op.attributes else None
        listed = [] if given is None else effect_attributes.listed(given)
        missing = _effects_of(inferred, op) - {*listed}
        by_rule = f"(by JAX's abstract evaluation of {primitive.name})"
        if len(expected) != len(got):
            yield f": expected {count(len(expected), 'result')} {by_rule}, got {len(got)}"
            return
        for effect in sorted(missing, key=str):
            yield (
                f" attribute 'jaxpr.effects': expected it to list {codec.encode(effect)} "
                f"{by_rule}; an op without its effects may be dropped or reordered"
            )
        if missing:
            return
        for effect in listed:
            if not 0 <= getattr(effect, "input", 0) < max(len(op.operands), 1):
                number = count(len(op.operands), "operand")
                yield (
                    f" attribute 'jaxpr.effects': expected effects on its {number}, "
                    f"got {codec.encode(effect)}"
                )
                return
        for i, (want, have) in enumerate(zip(expected, got, strict=True)):
            if not core.typematch(want, have):
                type_ = op.results[i].type
                yield f" result #{i}: expected {_type_text(want)} {by_rule}, got {type_}"

    # -- the call graph --

    def check_call_graph(self) -> None:
        """Reports every call that closes a cycle."""
        done: set[str] = set()
        for root in self.functions:
            path: dict[str, Iterator[str]] = {}
            if root not in done:
                path[root] = iter(self.calls[root])
            while path:
                caller = next(reversed(path))
                callee = next(path[caller], None)
                if callee is None:
                    path.pop(caller)
                    done.add(caller)
                elif callee in path:
                    self.report_cycle(caller, callee, list(path))
                elif callee not in done:
                    path[callee] = iter(self.calls[callee])

    def report_cycle(self, caller: str, callee: str, path: list[str]) -> None:
        name, location = self.calls[caller][callee]
        cycle = " -> ".join(f"@{symbol}" for symbol in [*path[path.index(callee) :], callee])
        self.report_at(
            location,
            f"'{name}' op: expected a function that does not reach itself, got @{callee}, which "
            f"does: {cycle}; only a custom derivative rule may name the function it belongs to",
        )


def evaluate(
    reader: codec.Reader, op: Any, name: str, check_vma: bool
) -> tuple[Any, list[Any], Any]:
    """The primitive, and the results' abstract values and effects that JAX computes."""
    primitive, parameters = params.of_op(op, name, reader)
    ctx = effect_attributes.ctx_of(op.attributes)
    variables: dict[ir.Value, Any] = {}
    atoms = [variables.setdefault(v, core.Var(aval_of(v.type))) for v in op.operands]
    with (
        ctx.manager,
        named_axes(ctx.cur_abstract_mesh),
        _unbound_axes(op, parameters),
        config._check_vma(check_vma),
    ):
        typecheck = core.custom_typechecks.get(primitive)
        if typecheck is not None:
            outs, inferred = typecheck(_printing, *atoms, **parameters)
        elif primitive.call_primitive:
            outs, inferred = core._check_call(_printing, primitive, atoms, parameters)
        else:
            outs, inferred = _abstract_eval(primitive, name, [v.aval for v in atoms], parameters)
            outs = outs if primitive.multiple_results else [outs]
    results = [getattr(aval, "aval", aval) for aval in outs]
    for aval in results:
        if not isinstance(aval, core.AbstractValue):
            raise TypeError(f"its abstract evaluation gives {aval!r}, not an abstract value")
    return primitive, results, inferred


def _abstract_eval(
    primitive: Any, name: str, avals: Sequence[Any], parameters: dict[str, Any]
) -> Any:
    """A primitive's abstract evaluation, through the cache that JAX uses for tracing: traced ops
    are verified next, and rules run on verified ops."""
    if ops.may_have_functions(name) or primitive.ref_allocating:
        return primitive.abstract_eval(*avals, **parameters)
    return pe._cached_abstract_eval(primitive, *avals, **parameters)


def _unbound_axes(op: Any, parameters: dict[str, Any]) -> Any:
    """Binds the axes of a collective that no mesh binds: a vmap of the program may bind them."""
    bound = core.get_axis_env()
    size = parameters.get("axis_size", 1)
    axes = [name for name in effect_attributes.axis_names(op) if not bound.axis_exists(name)]
    return core.extend_axis_env_nd([(name, size) for name in axes])


# --- structure --------------------------------------------------------------------------------


def _read(
    errors: Iterator[str], name: str, refused: Callable[[Exception], str] | None = None
) -> list[str]:
    """The errors that a check of an op finds; an exception that it raises counts as one, by default
    as attributes that cannot be read."""
    try:
        return list(errors)
    except JaxmlirError as e:
        return [_as_continuation(e, name)]
    except Exception as e:
        return [(refused or _unreadable)(e)]


def _structure_errors(op: Any, name: str) -> Iterator[str]:
    """The errors of an op by its record; a primitive without a record is not checked."""
    record = ops.record_of(name)
    if record is not None and "jaxpr.primitive" not in op.attributes:
        yield from _count_errors(op, record)
        yield from _attribute_errors(op, record)


def _count_errors(op: Any, record: ops.Op) -> Iterator[str]:
    """The errors of an op that has another number of operands or results than its record says."""
    operands = record.operands
    # One index for each dimension of the first operand: JAX's abstract evaluation does not check
    # their number.
    if ... in record.indices and len(op.operands) and hasattr(op.operands[0].type, "rank"):
        operands = record.indices[0] + op.operands[0].type.rank
    for what, expected, got in (
        ("operand", operands, len(op.operands)),
        ("result", record.results, len(op.results)),
    ):
        if expected is not None and expected != got:
            yield f": expected {count(expected, what)}, got {got}"


def _attribute_errors(op: Any, record: ops.Op) -> Iterator[str]:
    """The errors of attributes that an op's record does not have, or has otherwise."""
    attributes = op.attributes
    keys = [key for key in attributes if not key.startswith("jaxpr.")]
    known = {attr.name: attr for attr in record.attributes}
    for attr in record.attributes:
        if attr.mandatory and attr.name not in keys:
            got = ", ".join(map(repr, keys)) or "none"
            yield (
                f" requires attribute '{attr.name}': expected {attr.form}, got attributes {got}"
                f"{'' if attr.each else ops.spelling(attr.kind)}"
            )
    for key in keys:
        attr = known.get(key)
        if attr is None:
            takes = "one of " + ", ".join(map(repr, known)) if known else "no attributes"
            yield f": expected {takes}, got attribute '{key}'{_nearest(key, known)}"
            continue
        # An absent rule has no attribute, rather than `none`.
        kind = attr.kind.removesuffix("?") if key in custom_rule_ops.ATTRIBUTES else attr.kind
        for expected, got in signatures.unmet(op, attributes[key], kind, attr.each):
            hint = ops.spelling(kind) if expected == kind else ""
            yield f" attribute '{key}': expected {expected}, got {got}{hint}"


def _tree_errors(function: func.FuncOp) -> Iterator[str]:
    """The errors of a function's pytrees, whose leaves must match its arguments and results."""
    attributes = function.attributes
    for key, what in (("jaxpr.in_tree", "argument"), ("jaxpr.out_tree", "result")):
        if key not in attributes:
            continue
        types = function.type.inputs if what == "argument" else function.type.results
        try:
            tree = pytrees.decode(attributes[key])
        except JaxmlirError as e:
            yield f"'func.func' op attribute '{key}': {_paragraph(e)}"
            continue
        if tree.num_leaves != len(types):
            yield (
                f"'func.func' op attribute '{key}': expected a leaf for each of "
                f"{count(len(types), what)}, got {tree.num_leaves}"
            )
        elif what == "argument" and not pytrees.is_of_arguments(tree):
            yield (
                f"'func.func' op attribute '{key}': expected a tuple of arguments and a dict of "
                f"keyword arguments, got {attributes[key]}"
            )


def _constant_errors(program: Module, op: Any) -> Iterator[str]:
    """The errors of a ``jaxpr.constant``; an absent side-table value is an error only when used."""
    attributes = op.attributes
    operands, results = len(op.operands), len(op.results)
    if operands or results != 1:
        yield f": expected 0 operands and 1 result, got {operands} and {results}"
        return
    keys = [key for key in attributes if not key.startswith("jaxpr.")]
    if keys not in (["value"], ["name"]):
        got = ", ".join(map(repr, keys)) or "none"
        yield f" requires attribute 'value' or 'name': expected one of them, got attributes {got}"
        return
    want, attr = op.results[0].type, attributes[keys[0]]
    try:
        aval = aval_of(want)
        if keys == ["name"]:
            have = _stored_aval(program, ir.StringAttr(attr).value)
            if have is not None and _payload_type(have) != _payload_type(aval):
                yield f" result #0: expected {_type_text(have)}, the type of its value, got {want}"
        elif isinstance(attr, ir.DictAttr):
            codec.decode(attr)
        elif not isinstance(attr, ir.DenseElementsAttr):
            yield f" attribute 'value': expected an array or a handle, got {attr}"
        elif attr.type != (expected := _payload_type(aval)):
            yield f" attribute 'value': expected {expected} for a result {want}, got {attr.type}"
    except (JaxmlirError, TypeError, ValueError) as e:
        yield f": {_paragraph(e)}"


def _stored_aval(program: Module, name: str) -> Any | None:
    """The type of an entry of the side table, without reading its data from an artifact."""
    value = program._constants.unread(name)
    if isinstance(value, UnreadArray):
        return core.ShapedArray(value.shape, value.dtype)
    return None if value is None else core.typeof(value)


@functools.cache
def _payload_type(aval: Any) -> ir.Type:
    """The type of the dense attribute that holds a constant of type ``aval``."""
    if not isinstance(aval, core.ShapedArray):
        raise ValueError(f"expected a handle for a constant of type {type_of(aval)}, got an array")
    shape, dtype = aval.shape, aval.dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
        shape, dtype = data.shape, data.dtype
    elif dtype == dtypes.float0:
        dtype = np.dtype(bool)
    return ir.RankedTensorType.get(shape, element_of(dtype), loc=ir.Location.unknown())


# --- the surroundings of abstract evaluation -----------------------------------------------------


def _effects_of(inferred: Iterable[Any], op: Any) -> set[Any]:
    """The effects that an op must list, out of those that JAX computes.  An effect on an operand
    refers to its first position; those in terms of variables of functions are listed by the ops in
    these."""
    operands = list(op.operands)
    effect_set = set()
    for effect in inferred:
        if isinstance(effect, effects.JaxprInputEffect):
            if isinstance(effect.input, int):
                effect_set.add(effect.replace(operands.index(operands[effect.input])))
        else:
            effect_set.add(effect)
    return effect_set


def _tracks_axes(op: Any, name: str, around: bool) -> bool:
    """Whether the types in the functions of an op include the axes that values vary over."""
    if name != "jaxpr.shard_map":
        return around
    attributes = op.attributes
    return "check_vma" not in attributes or codec.decode(attributes["check_vma"])


def _printing() -> tuple[Any, Any]:
    """The context and settings for printing a jaxpr that JAX's type checks require."""
    return core.JaxprPpContext(), core.JaxprPpSettings()


@functools.cache
def _known_ops() -> frozenset[str]:
    return frozenset(f"jaxpr.{name}" for name in ops.OPS)


# --- words ------------------------------------------------------------------------------------


def _unreadable(error: Exception) -> str:
    return (
        ": expected attributes that fit its operands and functions, got "
        f"{type(error).__name__}: {_paragraph(error)}"
    )


def _rejection(op: Any, error: Exception) -> str:
    """JAX's reason for refusing the operands or parameters of an op."""
    got = ", ".join(str(v.type) for v in op.operands) or "none"
    return (
        f": expected operands that JAX's abstract evaluation accepts, got {got}: "
        f"{type(error).__name__}: {_paragraph(error)}"
    )


def _as_continuation(error: JaxmlirError, name: str) -> str:
    """The message of an error of another part of jaxmlir, as a text that follows the op's name."""
    message = _paragraph(error)
    prefix = f"'{name}' op"
    return message[len(prefix) :] if message.startswith(prefix) else f": {message}"


def _paragraph(error: Exception) -> str:
    text = message_of(error) if isinstance(error, JaxmlirError) else str(error)
    return " ".join(text.split())


def _type_text(aval: Any) -> str:
    strip = getattr(aval, "strip_weak_type", None)
    try:
        return str(type_of(strip() if strip else aval))
    except (JaxmlirError, ir.MLIRError, TypeError):
        # The aval is no valid type: an unknown dtype, or a negative size, or one over 64 bits.
        return str(aval)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near if near[0] == '@' else repr(near)}?" if near else ""


class Verify(Pass):
    """Verify the program: structure, symbols, and types by JAX's abstract evaluation.

    The same check runs after every pass unless ``--verify-each=0``; as a pass of its own it checks
    a file that was written by hand or by another tool.
    """

    name: ClassVar[str] = "jaxpr-verify"

    def run(self, program: Module) -> bool:
        program.verify()
        return False

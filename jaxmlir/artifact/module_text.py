"""The module of an artifact: compresses its text, and reads it back.

The text is a small subset of MLIR, which is checked before MLIR's parser sees it.

A digest shows that a file is what somebody wrote, not that its writer meant well. MLIR's parser
reports errors, but it recurses on nested brackets until the stack overflows and ends the process.
With the dialects of the context, it also accepts far more than a program needs. So the text may
only consist of what our own printer writes:

* ops in generic form, of the jaxpr dialect, ``func.func``, ``func.return`` and ``builtin.module``;
* attributes and types of the builtin dialect that programs use, and those of the jaxpr dialect,
  except those that name a Python object of the writing process;
* aliases for locations only, each defined after the ones that it uses;
* numbers of at most 64 digits, integers of less than 100 bits, some 255 dimensions;
* brackets at most ``MAX_NESTING`` deep.

A text that passes may still be wrong: then the parser or the verifier reports it.
"""

from __future__ import annotations

import lzma
import re

from jaxmlir.dialect.codec import node_fields
from jaxmlir.dialect.ir import (
    MAX_NESTING,
    TREES,
    context,
    ir,
    nesting,
    parse_module,
    without_strings,
)
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArtifactError, JaxmlirError

# Locations are trees that share branches; written out, one has at most this many parts.
MAX_LOCATION_PARTS = 4096

_STRING = r'"(?:[^"\\\x00-\x1f\x7f-\xff]|\\(?:[0-9A-Fa-f]{2}|["\\nt]))*+"'

# MLIR takes time that is quadratic in the digits of a number, and allocates as many bytes for an
# integer as its type has: no dtype is an integer type of three or more digits.
_DIGITS = r"\d{1,64}+(?!\d)"
_ELEMENT = r"(?!(?:x(?:\d++x)*+)?[su]?i\d{3,}+(?!\w|[ ]=))"

_TOKENS = rf"""
    [ \n,:=]++
  | tensor<(?:\d++x){{0,255}}+{_ELEMENT}[a-z]\w*+>            # most types
  | (?:%[\w$.\-]++(?:[:\#]\d++)?(?:,[ ])?)++                # values
  | "(?:jaxpr\.[\w.\-]++|func\.func|func\.return|builtin\.module)"(?=\()   # an op
  | {_STRING}(?![ \n]*[(=])                                 # not an op, not a key
  | @(?:[\w$.\-]++|{_STRING})                               # symbols
  | \^bb\d++
  | loc\((?:\#loc\d*+|unknown)\)
  | !jaxpr\.(?:key|ref|extended|float0|token|int1|uint1)\b  # not the types that name handles
  | (?:array|dense|tensor|complex|x(?:\d++x){{0,255}}+complex)(?=<)
  | 0x[0-9A-F]{{1,64}}+(?!\w)
  | {_DIGITS}(?:\.(?:{_DIGITS})?+(?!\d))?(?:[eE][+\-]?{_DIGITS})?
  | (?:(?:jaxpr|pallas|mosaic|cudnn)\.(?:\w++\.)*+)?{_ELEMENT}[A-Za-z_]\w{{0,511}}+
    (?![\w$.]|[ \n]*[<\[])(?!(?<=handle)[ \n]*=)           # a key, a keyword
  | -> | [()\[\]{{}}<>*?\-]
"""
_BODY = re.compile(f"(?:{_TOKENS})*+".encode(), re.VERBOSE)

_LOCATIONS = re.compile(
    rf"""(?:\#loc\d*+[ ]=[ ]loc\(
    (?:{_STRING}|[\d:,()\[\] ]++|\#loc\d*+|callsite|fused|unknown|at|to)++\n)*+
    """.encode(),
    re.VERBOSE,
)
_DEFINITIONS = re.compile(rb"^((?:\#loc\d*+ = .*\n)++)", re.MULTILINE)
# The parts of locations without strings: a name, marked if it is a definition, or a bracket.
_LOCATION_PARTS = re.compile(rb"#loc(\d*)( = loc\()?|(\()")


def check(text: bytes, what: str = "the module") -> None:
    """Checks a module's text.

    Args:
      text: in MLIR's generic form, with or without locations.
      what: the name of the text in errors.

    Raises:
      ArtifactError: says which rule the text breaks, and where.
    """
    pieces = _DEFINITIONS.split(text)
    body, definitions = b"".join(pieces[::2]), b"".join(pieces[1::2])
    end = _BODY.match(body).end()
    if end != len(body):
        line = body.count(b"\n", 0, end) + 1
        rest = body[end : end + 40].decode("ascii", "replace")
        raise ArtifactError(
            f"{what} has {rest!r} in line {line} (lines of locations are not counted): expected "
            "only what jaxmlir prints (ops of the jaxpr dialect in generic form, builtin "
            "attributes and types, no in-process handles)"
        )
    _check_location_tokens(definitions, what)
    depth = nesting(without_strings(text))
    if depth > MAX_NESTING:
        raise ArtifactError(f"{what} nests {depth} brackets; at most {MAX_NESTING} are allowed")
    _check_locations(without_strings(definitions), what)


def _check_location_tokens(lines: bytes, what: str) -> None:
    end = _LOCATIONS.match(lines).end()
    if end != len(lines):
        rest = lines[end : lines.index(b"\n", end)][:60].decode("ascii", "replace")
        raise ArtifactError(f"{what} has a malformed location: {rest!r}")


def _check_locations(lines: bytes, what: str) -> None:
    """Checks that aliases, defined in lines without strings, only use earlier ones, and that none
    is too large when written out."""
    sizes: dict[bytes | None, int] = {}
    current: bytes | None = None
    size = 0
    for name, defines, bracket in _LOCATION_PARTS.findall(lines):
        if bracket:
            size += 1
        else:
            if defines:
                sizes[current] = size
            if bool(defines) == (name in sizes):
                raise ArtifactError(
                    f"{what} defines the location #loc{name.decode()} twice, or uses it before its "
                    "definition"
                )
            current, size = (name, 1) if defines else (current, size + sizes[name])
        if size > MAX_LOCATION_PARTS:
            raise ArtifactError(
                f"{what} has a location of over {MAX_LOCATION_PARTS} parts: #loc{current.decode()}"
            )


# --- the text, compressed -------------------------------------------------------------------------

# A meaningful text is never larger than its compressed form by more than this factor.
MAX_EXPANSION = 1000
FREE_SIZE = 1 << 20
# How much the decompressor may allocate besides its output.
MEMORY_LIMIT = 64 << 20


_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_ARGUMENTS = re.compile(r"^ *\^bb\d+\(.*$", re.MULTILINE)
# The metadata of a fused location, which is any attribute.
_METADATA = re.compile(r"fused<.*?>(?=\[#loc)")
# The location of an argument that consists of others.
_COMPOSED = re.compile(
    rf"(?<=loc\()((?:fused|callsite|{_STRING})(?:\[#loc[^\]]*+\]|\(#loc[^)]*+\)))(?=\))"
)


def _with_plain_locations(text: str) -> str:
    """A module's text with aliases for the locations of arguments, too, and without metadata."""
    if "fused<" in text:
        for lines in (_DEFINED, _ARGUMENTS):
            text = lines.sub(lambda line: _METADATA.sub("fused", line[0]), text)
    aliases = {location: alias for alias, location in _DEFINED.findall(text)}

    def aliased(line: re.Match[str]) -> str:
        return _COMPOSED.sub(lambda place: aliases.get(place[1], "unknown"), line[0])

    return _ARGUMENTS.sub(aliased, text)


def compress(module: ir.Module, *, locations: bool) -> tuple[bytes, int]:
    """A module's text as an ``.xz`` stream, and the length of the text, which must pass
    :func:`check`."""
    with context():
        text = module.operation.get_asm(
            enable_debug_info=locations, print_generic_op_form=True, assume_verified=True
        )
    text = without_devices(text)
    data = (_with_plain_locations(text) if locations else text).encode()
    check(data)
    # Higher presets take ten times the time, for a tenth of the size.
    return lzma.compress(data, preset=1), len(data)


def decompress(data: bytes, size: int) -> ir.Module:
    """The module in a stream that :func:`compress` returned.

    Raises:
      ArtifactError: it is no such stream, or its text does not have ``size`` bytes.
      ParseError: the text is not MLIR.
    """
    if size > FREE_SIZE + MAX_EXPANSION * len(data):
        raise ArtifactError(
            f"the module is declared to decompress from {len(data)} to {size} bytes; at most a "
            f"factor of {MAX_EXPANSION} is accepted"
        )
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_LIMIT)
        text = decompressor.decompress(data, size + 1)
    except lzma.LZMAError as e:
        raise ArtifactError(f"the module cannot be decompressed: {e}") from None
    if len(text) != size or not decompressor.eof or decompressor.unused_data:
        raise ArtifactError(f"the module does not decompress to the declared {size} bytes")
    check(text)
    named = without_devices(text.decode("ascii"))
    return parse_module(named, "the artifact's module", is_shallow=True)


_LIST = rf"\[(?:{_STRING}|[^\]\"])*+\]"
_DEVICES = re.compile(
    rf"\{{Mesh = \{{axis_names = ({_LIST}), axis_types = ({_LIST}), devices = {_LIST}, "
    r"shape = (array<i64[^>]*+>)\}\}"
)
_KIND = re.compile(r"abstract_device = \{AbstractDevice = \{[^{}]*+\}\}, ")
_WITHOUT_DEVICES = r"{AbstractMesh = {axis_names = \1, axis_sizes = \3, axis_types = \2}}"


def without_devices(text: str) -> str:
    """A module's text with its meshes described by the names and sizes of axes, without devices.
    It replaces attributes, not the contents of strings, in which a quotation mark is escaped."""
    if "Mesh = {" not in text:
        return text
    return _DEVICES.sub(_WITHOUT_DEVICES, _KIND.sub("", text))


NODE_FIELDS = "jaxpr.node_fields"


def fields_of_nodes(program: Module) -> ir.Attribute | None:
    """The fields of the nodes of a program's pytrees that have classes of their own."""
    try:
        return node_fields.encode([program.in_tree, program.out_tree])
    except JaxmlirError:
        # The command line tools pass on pytrees of unknown nodes.
        return None


def write_trees(program: Module, as_flat: bool, fields: ir.Attribute | None = None) -> None:
    """Stores the fields of its pytrees' nodes in a program, in place, or removes the pytrees for a
    program that takes and returns flat values."""
    if not as_flat and fields is None:
        return
    with context():
        attributes = program.function(program.name).attributes
        for key in TREES:
            if as_flat and key in attributes:
                del attributes[key]
        if fields is not None:
            attributes[NODE_FIELDS] = fields
    program.changed()


def read_trees(program: Module, as_flat: bool) -> None:
    """Makes the nodes of a program's pytrees known, in place, or removes the pytrees."""
    with context():
        attributes = program.function(program.name).attributes
        fields = attributes[NODE_FIELDS] if NODE_FIELDS in attributes else None
        if fields is not None:
            del attributes[NODE_FIELDS]
            if not as_flat:
                node_fields.make_known(fields)
    if as_flat:
        write_trees(program, as_flat)

"""Which texts an artifact may hold: a small part of MLIR, checked before MLIR's parser sees it.

A digest says that a file is what somebody wrote, not that its writer meant well.  MLIR's parser
reports errors, but it recurses on nested brackets until the stack ends the process, and through the
dialects of the context it is far larger than what a program needs.  So the text has to be made of
what our own printer writes and of nothing else:

* ops in generic form, of the jaxpr dialect, ``func.func``, ``func.return`` and ``builtin.module``;
* attributes and types of the builtin dialect that programs use, and the jaxpr dialect's, without
  those that name a Python object of the writing process;
* aliases for locations only, each defined after the ones it is made of;
* numbers of at most 64 digits, integers of less than 100 bits, some 255 dimensions;
* brackets at most ``MAX_NESTING`` deep.

A text that passes may still be wrong: then the parser or the verifier say so.
"""

from __future__ import annotations

import re

from jaxmlir.errors import ArtifactError
from jaxmlir.support.nesting import MAX_NESTING, nesting, without_strings

# Locations are trees that share their branches; written out, one has at most so many parts.
MAX_LOCATION_PARTS = 4096

_STRING = r'"(?:[^"\\\x00-\x1f\x7f-\xff]|\\(?:[0-9A-Fa-f]{2}|["\\nt]))*+"'

# MLIR takes time that is quadratic in the digits of a number, and the bytes of an integer are those
# of its type: one of three digits, or more, is of no dtype.
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
# Of locations without strings: a definition's name and that it is one, a use's name, a bracket.
_LOCATION_PARTS = re.compile(rb"#loc(\d*)( = loc\()?|(\()")


def check(text: bytes, what: str = "the module") -> None:
    """Checks a module's text.

    Args:
      text: in MLIR's generic form, with locations or without.
      what: what an error calls it.

    Raises:
      ArtifactError: says which rule the text breaks, and where.
    """
    pieces = _DEFINITIONS.split(text)
    body, definitions = b"".join(pieces[::2]), b"".join(pieces[1::2])
    end = _BODY.match(body).end()
    if end != len(body):
        line = body.count(b"\n", 0, end) + 1
        found = body[end : end + 40].decode("ascii", "replace")
        raise ArtifactError(
            f"{what} has {found!r} in line {line}, not counting those of locations: expected only "
            "what jaxmlir prints (ops of the jaxpr dialect in generic form, builtin attributes and "
            "types, no in-process handles)"
        )
    _check_location_tokens(definitions, what)
    depth = nesting(without_strings(text))
    if depth > MAX_NESTING:
        raise ArtifactError(f"{what} nests {depth} brackets; at most {MAX_NESTING} are allowed")
    _check_locations(without_strings(definitions), what)


def _check_location_tokens(lines: bytes, what: str) -> None:
    end = _LOCATIONS.match(lines).end()
    if end != len(lines):
        found = lines[end : lines.index(b"\n", end)][:60].decode("ascii", "replace")
        raise ArtifactError(f"{what} has a malformed location: {found!r}")


def _check_locations(lines: bytes, what: str) -> None:
    """Each alias is made of earlier ones, and none is too large when it is written out.

    Args:
      lines: the definitions, without strings.
    """
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
                    f"{what} defines the location #loc{name.decode()} twice, or after one that is "
                    "made of it"
                )
            current, size = (name, 1) if defines else (current, size + sizes[name])
        if size > MAX_LOCATION_PARTS:
            raise ArtifactError(
                f"{what} has a location of over {MAX_LOCATION_PARTS} parts: #loc{current.decode()}"
            )

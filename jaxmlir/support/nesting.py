"""The nesting depth of the brackets of a text.

MLIR's parser recurses on brackets: some thousands of levels overflow the stack of the process.
"""

from __future__ import annotations

import re

import numpy as np

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

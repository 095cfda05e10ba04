"""Whether two executables have the same instructions: then their times differ by noise only."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

# Patterns of differences that have no effect: metadata, names, the order of a tuple's elements, and
# of a computation's parameters.
_METADATA = re.compile(r", (?:metadata|frontend_attributes)=\{[^}]*\}")
_INSTRUCTION = re.compile(r" +(?:ROOT )?%[\w.\-]+ = .*")
_NAME = re.compile(r"%[\w.\-]+")
_PLACE = re.compile(r", index=\d+|/\*index=\d+\*/|(?<= parameter)\(\d+\)")
_TUPLE = re.compile(r"(?<= = )\(.*?\)(?= )")
_SHAPE = re.compile(r"\w+\[[^\]]*\](?:\{[^}]*\})?")


def note(theirs: Any, ours: Any) -> str:
    """The note in a row if two executables have the same instructions; otherwise empty."""
    return "same instructions" if instructions(theirs) == instructions(ours) else ""


def instructions(compiled: Any) -> Counter[str]:
    """XLA's optimized instructions, with counts.

    An instruction is an operation with its shape, layout and settings.
    """
    text = _METADATA.sub("", compiled.as_text())
    return Counter(_anonymous(line) for line in text.splitlines() if _INSTRUCTION.fullmatch(line))


def _anonymous(instruction: str) -> str:
    return _TUPLE.sub(
        lambda shapes: str(sorted(_SHAPE.findall(shapes[0]))),
        _PLACE.sub("", _NAME.sub("%", instruction)),
    )

"""Numbers of bytes, as people write and read them."""

from __future__ import annotations

import numbers
import re
from typing import Any

from jaxmlir.errors import ArgumentError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def byte_count(text: str) -> float | None:
    """The bytes that a text such as ``"1.5 GiB"`` says; ``None`` if it says none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?)B", text.strip())
    return float(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None


def is_budget(number: float) -> bool:
    """Whether a number is a memory budget: a fraction up to 1, or bytes, from 2 on."""
    return 0 < number <= 1 or number >= 2


def check_budget(budget: Any) -> float:
    """A memory budget: a fraction of what a program takes, or bytes, which may have a unit.

    Raises:
      ArgumentError: it is neither.
    """
    count = byte_count(budget) if isinstance(budget, str) else budget
    is_number = isinstance(count, numbers.Real) and not isinstance(count, bool)
    # Text says bytes: "1 B" is no fraction.
    if not is_number or not is_budget(count) or (isinstance(budget, str) and count < 2):
        raise ArgumentError(
            "memory_budget: expected a fraction of what the program takes, above 0 and up to 1, "
            f"such as 0.5, or at least 2 bytes, such as '1.5 GiB', got {budget!r}"
        )
    return count


def in_units(count: float) -> str:
    """Bytes, to be read: ``"1.5 MiB"``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"

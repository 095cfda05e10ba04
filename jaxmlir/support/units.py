"""Numbers of bytes, as people write and read them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def byte_count(text: str) -> float | None:
    """The bytes that a text such as ``"1.5 GiB"`` says; ``None`` if it says none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?)B", text.strip())
    return float(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None


def in_units(count: float) -> str:
    """Bytes, to be read: ``"1.5 MiB"``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"

"""Checks of options that users give: integers, names of platforms, numbers of bytes."""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import xla_bridge
from jaxmlir.errors import ArgumentError


def integer(value: Any) -> int | None:
    """A value as an ``int``: an integer of Python or NumPy, an array of one integer ...  ``None``
    for anything else, including booleans: ``True`` in place of a number is a mistake."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_switch(name: str, value: Any) -> None:
    """Checks an option that is on or off.

    Raises:
      ArgumentError: the value is not a boolean: the text ``"no"`` would count as true.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name}: expected True or False, got {value!r}")


def check_platforms(platforms: Sequence[str] | None) -> None:
    """Checks the names of platforms to lower for.

    Raises:
      ArgumentError: it is not a sequence of names, JAX does not know one, or one occurs twice.
    """
    if isinstance(platforms, str) or not isinstance(platforms, Sequence | None):
        meant = f"; write [{platforms!r}]" if isinstance(platforms, str) else ""
        raise ArgumentError(f"platforms: expected a sequence of names, got {platforms!r}{meant}")
    for platform in platforms or ():
        if not xla_bridge.is_known_platform(platform):
            names = ", ".join(sorted(xla_bridge.known_platforms()))
            raise ArgumentError(f"expected platforms that JAX knows ({names}), got {platform!r}")
        if list(platforms or ()).count(platform) > 1:
            raise ArgumentError(f"platforms: {platform!r} is given twice")
        try:
            xla_bridge.canonicalize_platform(platform)
        except RuntimeError:
            # JAX only resolves such a name if one of the platforms is present.
            raise ArgumentError(
                f"{platform!r} stands for one of several platforms, none of which is here: name "
                "one, such as 'cuda' or 'rocm'"
            ) from None


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def byte_count(text: str) -> float | None:
    """The bytes of a text such as ``"1.5 GiB"``; ``None`` for other texts."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?)B", text.strip())
    return float(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None


def is_budget(number: float) -> bool:
    """Whether a number is a memory budget: a fraction up to 1, or bytes, from 2 on."""
    return 0 < number <= 1 or number >= 2


def check_budget(budget: Any) -> float:
    """A memory budget: a fraction of what a program takes, or bytes, possibly with a unit.

    Raises:
      ArgumentError: it is neither.
    """
    count = byte_count(budget) if isinstance(budget, str) else budget
    is_number = isinstance(count, numbers.Real) and not isinstance(count, bool)
    # A text gives bytes: "1 B" is not a fraction.
    if not is_number or not is_budget(count) or (isinstance(budget, str) and count < 2):
        raise ArgumentError(
            "memory_budget: expected a fraction of what the program takes, above 0 and up to 1, "
            f"such as 0.5, or at least 2 bytes, such as '1.5 GiB', got {budget!r}"
        )
    return count


def in_units(count: float) -> str:
    """Bytes in readable form: ``"1.5 MiB"``."""
    if count < 1024:
        return f"{round(count)} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.4g} {unit}"
    count /= 1024
    return f"{count:.3g} GiB"

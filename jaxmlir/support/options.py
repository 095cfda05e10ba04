"""Checks of what users give as options: integers, names of platforms."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import xla_bridge
from jaxmlir.errors import ArgumentError


def integer(value: Any) -> int | None:
    """The ``int`` that a value is: one of Python or NumPy, an array of one integer ...

    ``None`` of anything else, booleans included: where a number is asked for, ``True`` is a
    mistake.
    """
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_switch(name: str, value: Any) -> None:
    """Checks an option that is on or off.

    Raises:
      ArgumentError: it is no boolean: the text ``"no"`` would be on.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name}: expected True or False, got {value!r}")


def check_platforms(platforms: Sequence[str] | None) -> None:
    """Checks the names of platforms that something is to be lowered for.

    Raises:
      ArgumentError: they are no sequence of names, JAX does not know one, or one occurs twice.
    """
    if isinstance(platforms, str) or not isinstance(platforms, Sequence | None):
        meant = f"; write [{platforms!r}]" if isinstance(platforms, str) else ""
        raise ArgumentError(f"platforms: expected a sequence of names, got {platforms!r}{meant}")
    for platform in platforms or ():
        if not xla_bridge.is_known_platform(platform):
            known = ", ".join(sorted(xla_bridge.known_platforms()))
            raise ArgumentError(f"expected platforms that JAX knows ({known}), got {platform!r}")
        if list(platforms or ()).count(platform) > 1:
            raise ArgumentError(f"platforms: {platform!r} is given twice")
        try:
            xla_bridge.canonicalize_platform(platform)
        except RuntimeError:
            # Only where there is one of them does JAX know which is meant.
            raise ArgumentError(
                f"{platform!r} stands for one of several platforms, none of which is here: name "
                "one, such as 'cuda' or 'rocm'"
            ) from None

"""Elementwise ops that numpy computes exactly as every backend does.

These are ops on integers and booleans, comparisons, and the basic operations on floats, whose
rounding IEEE 754 specifies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., "np.ndarray | None"]
"""Computes an op of arrays; ``None`` where backends give other results."""


def _extreme(function: Callable[..., Any]) -> Function:
    """Does not compute that of two zeros of different signs: numpy takes them as equal and returns
    either."""

    def of_plain(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
        zeros = (x == 0) & (y == 0)
        return None if np.any(zeros & (np.signbit(x) != np.signbit(y))) else function(x, y)

    return of_plain


def _sign(x: np.ndarray) -> np.ndarray | None:
    """Does not compute the sign of -0.0: it is -0.0 in JAX, but not always where XLA folds it."""
    return None if np.any((x == 0) & np.signbit(x)) else np.sign(x)


def _rem(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    return np.fmod(x, y) if np.all(y) else None


def _div(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The quotient rounded towards zero; numpy rounds it down."""
    if not np.all(y):
        return None
    return (x - np.fmod(x, y)) // y


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(low, x), high)


LOGICAL: dict[str, Function] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
}
"""The functions of booleans, by the ops' names without the prefix of the dialect."""
_ANY: dict[str, Function] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
FLOATS: dict[str, Function] = _ANY | {
    "max": _extreme(np.maximum),
    "min": _extreme(np.minimum),
    "div": np.divide,
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": _sign,
}
"""The functions of floats; backends differ in whether they flush subnormal numbers to zero."""
INTEGERS: dict[str, Function] = (
    _ANY
    | LOGICAL
    | {
        "max": np.maximum,
        "min": np.minimum,
        "sign": np.sign,
        "square": np.square,
        "rem": _rem,
        "div": _div,
        "clamp": _clamp,
    }
)
"""The functions of integers."""


def functions_of(dtype: np.dtype) -> dict[str, Function]:
    """The functions of a type, by the ops' names; none of complex numbers and narrow floats."""
    return _BY_KIND.get(dtype.kind, {})


_BY_KIND = {"b": LOGICAL, "f": FLOATS, "i": INTEGERS, "u": INTEGERS}

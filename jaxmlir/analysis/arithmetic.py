"""Arithmetic on constants: exact ops, and the neutral elements of reductions.

Numpy computes some elementwise ops exactly as every backend does: ops on integers and booleans,
comparisons, and the basic operations on floats, whose rounding IEEE 754 specifies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes

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


# Of numbers and, bit by bit, of integers and booleans.
_IDENTITIES = {"add": 0, "mul": 1, "and": -1, "or": 0, "xor": 0}


@functools.cache
def identity(combine: str, dtype: Any) -> np.ndarray | None:
    """The number with which ``combine``, such as ``"add"``, leaves every element as it is, as JAX's
    reductions begin with it; ``None`` if there is none."""
    if combine in _IDENTITIES:
        return np.array(_IDENTITIES[combine]).astype(dtype)
    if combine not in ("max", "min") or dtypes.issubdtype(dtype, np.complexfloating):
        return None
    if dtype == np.bool_:
        return np.array(combine == "min")
    if dtypes.supports_inf(dtype):
        return np.array(-np.inf if combine == "max" else np.inf, dtype)
    # Some float types of eight bits have no infinity.
    is_whole = dtypes.issubdtype(dtype, np.integer)
    info = dtypes.iinfo(dtype) if is_whole else dtypes.finfo(dtype)
    return np.array(info.min if combine == "max" else info.max, dtype)


def additive_identity(dtype: Any) -> np.ndarray:
    """The number that changes no bit of another when it is added: for floats, a negative zero."""
    # NumPy's minus widens integers of less than 8 bits to 8.
    return (-np.zeros((), dtype)).astype(dtype)

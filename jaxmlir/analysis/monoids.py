"""The neutral elements of the operations by which reductions combine elements."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes

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

"""Folding of small constants: an op whose operands are all known is the constant that it computes.

Only what numpy computes exactly as every backend does: integers and booleans, comparisons, and the
basic operations on floats, which IEEE 754 rounds in one way.  Where a float is subnormal the op is
left alone, for backends differ on whether to flush it to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.simplify.canonicalize.indexing import numbered
from jaxmlir.optimize.simplify.canonicalize.rewriter import Node, Rewriter, kind_of, rewrite

MAX_ELEMENTS = 64
"""The size of the largest constants that are folded: shapes, strides, indices, counters."""


def _extreme(function: Callable[..., Any]) -> Callable[..., np.ndarray | None]:
    """Not of two zeros of different signs, which are equal to numpy: it gives either."""

    def of_plain(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
        zeros = (x == 0) & (y == 0)
        return None if np.any(zeros & (np.signbit(x) != np.signbit(y))) else function(x, y)

    return of_plain


ANY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "max": _extreme(np.maximum),
    "min": _extreme(np.minimum),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _sign(x: np.ndarray) -> np.ndarray | None:
    """Not of a negative zero, which has its sign by JAX, but not wherever XLA folds it."""
    return None if np.any((x == 0) & np.signbit(x)) else np.sign(x)


_FLOATS = {"div": np.divide, "floor": np.floor, "ceil": np.ceil, "sign": _sign}
INTEGERS = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "sign": np.sign,
    "square": np.square,
}


def _rem(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    return np.fmod(x, y) if np.all(y) else None


def _div(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The quotient rounded towards zero; numpy's own is rounded down."""
    if not np.all(y):
        return None
    return (x - np.fmod(x, y)) // y


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(low, x), high)


INTEGERS |= {"rem": _rem, "div": _div, "clamp": _clamp}
_WIDTHS = {np.dtype(t) for t in ("f4", "f8", "i4", "i8", "u4", "u8", "i1", "i2", "u1", "u2", "?")}


@rewrite(
    "op(c, ...) = c'; of integers, booleans, and the basic ones of floats",
    *{*ANY, *_FLOATS, *INTEGERS},
)
def fold_elementwise(r: Rewriter, node: Node) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or any(not name.startswith("jaxpr.") for name in node.attributes):
        return None
    name, kind = node.name.removeprefix("jaxpr."), kind_of(node.operands[0].type)
    if kind not in ("integer", "boolean", "float"):
        return None
    if kind == "boolean" and name not in ("and", "or", "xor", "not", "eq", "ne"):
        return None
    table = _FLOATS if kind == "float" else INTEGERS
    function = ANY.get(name) or table.get(name)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        found = function(*arrays)
    if found is None:
        return None
    return _constant(r, node, found, arrays)


@rewrite(
    "lt(iota, c) = 0 and ge(iota, c) = 1 where c is 0 or less, of any size; "
    "also where the iota is repeated",
    "lt",
    "ge",
)
def row_numbers_are_not_negative(r: Rewriter, node: Node) -> list[ir.Value] | None:
    """JAX asks so of every index, which counts from the end where it is negative."""
    numbers, bound = node.operands
    if numbered(r, numbers) is None:
        return None
    bound = r.number_of(bound)
    return None if bound is None or bound > 0 else [r.full(node.type, node.name == "jaxpr.ge")]


@rewrite("select_n(c, c0, c1, ...) = c'", "select_n")
def fold_select(r: Rewriter, node: Node) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None:
        return None
    which, *cases = arrays
    index = which.astype(np.int64)
    if index.size and not 0 <= index.min() <= index.max() < len(cases):
        return None
    # Not `np.choose`, which takes no more than 64.
    whole = np.broadcast_arrays(index, *cases)
    return _constant(r, node, np.take_along_axis(np.stack(whole[1:]), whole[0][None], 0)[0], ())


@rewrite("convert(c) = c' where it fits", "convert_element_type")
def fold_conversion(r: Rewriter, node: Node) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or node.get("sharding") is not None:
        return None
    (array,) = arrays
    dtype = aval_of(node.type).dtype
    if dtype not in _WIDTHS:
        return None
    with np.errstate(all="ignore"):
        found = array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind != "f" and not np.array_equal(found, array):
        return None
    return _constant(r, node, found, arrays)


@rewrite("reshape(c) = c'; also of squeeze", "reshape", "squeeze")
def fold_reshape(r: Rewriter, node: Node) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or any(node.get(a) is not None for a in ("sharding",)):
        return None
    if node.name == "jaxpr.reshape" and node.get("dimensions") is not None:
        return None
    return _constant(r, node, arrays[0].reshape(aval_of(node.type).shape), ())


def _constants(r: Rewriter, node: Node) -> list[np.ndarray] | None:
    """The operands' values if all are small constants of ordinary dtypes."""
    found = []
    for v in node.operands:
        array = r.constant_of(v)
        if array is None or array.size > MAX_ELEMENTS or kind_of(v.type) == "other":
            return None
        if array.dtype not in _WIDTHS:
            return None
        found.append(array)
    return found


def _constant(
    r: Rewriter, node: Node, array: Any, operands: list[np.ndarray] | tuple[()]
) -> list[ir.Value] | None:
    aval = aval_of(node.type)
    array = np.asarray(array)
    if array.dtype != aval.dtype or array.shape != aval.shape:
        return None
    if any(map(_has_subnormals, (array, *operands))):
        return None
    return [r.array(node.type, array)]


def _has_subnormals(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return False
    return bool(np.any((array != 0) & (np.abs(array) < np.finfo(array.dtype).tiny)))

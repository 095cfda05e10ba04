"""Integers and booleans that depend on sizes and on an element's indices, as formulas of these.

With symbolic shapes, the elements of ``jnp.arange(n)[::-1]`` cannot be listed.  Its *formula* is an
array with one element along each symbolic axis: an affine sum, in which parameter ``d`` is the
index along axis ``d``, here ``n - 1 - i``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.interpret.interpreter import Node
from jaxmlir.sparse.relations import AffineSum, Size, at_most, ends_of, larger, parameter, smaller
from jaxmlir.sparse.rules import Value

_STEEP, _FAR = 64, 2**24
_MOST = 128
"""A formula is an array of at most this many elements."""


class SymbolicArray(NamedTuple):
    """A known value, as an array of Python objects: sums, or booleans."""

    array: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.array


def of_result(node: Node, operands: Sequence[Value], shape: Sequence[Size]) -> SymbolicArray | None:
    """The formula of the only result of an op; ``None`` if it is not known."""
    name = node.name.removeprefix("jaxpr.")
    fixed = [size if core.is_constant_dim(size) else 1 for size in shape]
    dtype = getattr(node.avals()[0], "dtype", np.dtype(float))
    # Narrow and unsigned numbers wrap around.
    is_plain = dtype == np.bool_ or (dtype.kind == "i" and dtype.itemsize >= 4)
    if math.prod(fixed) > _MOST or not is_plain:
        return None
    if name == "dim_as_value":
        return SymbolicArray(_objects(AffineSum(node.get("dim"))))
    if name == "iota":
        return _iota(node, shape, fixed)
    formulas = [formula_of(x) for x in operands]
    if any(x is None for x in formulas):
        return None
    if name == "convert_element_type" and dtype == np.bool_ and _are_sums(formulas[0]):
        # A number is true unless it is 0.
        name, formulas = "ne", [*formulas, _objects(AffineSum(0))]
    if name in _MOVES:
        return _MOVES[name](node, operands, formulas, shape, fixed)
    rule = _RULES.get(name)
    if rule is None:
        return None
    try:
        ranges = [(0, size) for size in shape]
        sums = np.frompyfunc(functools.partial(rule, ranges), len(formulas), 1)(*formulas)
    except (core.InconclusiveDimensionOperation, _Undecidable):
        return None
    sums = _objects(sums)
    return None if any(map(_is_large, sums.reshape(-1))) else SymbolicArray(sums)


def _is_large(x: Any) -> bool:
    """Whether a sum may leave the range of its type at some sizes, e.g. a hash."""
    if not isinstance(x, AffineSum):
        return False
    numbers = [c for _, c in x.terms if core.is_constant_dim(c)]
    is_far = core.is_constant_dim(x.constant) and abs(x.constant) > _FAR
    return is_far or any(abs(c) > _STEEP for c in numbers)


def formula_of(x: Value) -> np.ndarray | None:
    """A value as an array of sums or booleans; ``None`` if it is not known."""
    if isinstance(x.known, SymbolicArray):
        return x.known.array
    if x.known is None or not core.is_constant_shape(x.shape) or math.prod(x.shape) > _MOST:
        return None
    array = np.asarray(x.known())
    if array.dtype.kind not in "biu":
        return None
    convert = bool if array.dtype.kind == "b" else lambda number: AffineSum(int(number))
    return _objects(np.frompyfunc(convert, 1, 1)(array))


def _objects(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


class _Undecidable(Exception):
    """A number is no affine sum, or a comparison is not decided at all sizes."""


def _iota(node: Node, shape: Sequence[Size], fixed: Sequence[int]) -> SymbolicArray:
    d = node.get("dimension")
    array = np.empty(fixed, object)
    for index in np.ndindex(*fixed):
        array[index] = AffineSum(index[d]) if core.is_constant_dim(shape[d]) else parameter(d)
    return SymbolicArray(array)


def _broadcast(
    node: Node, operands: Any, formulas: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> SymbolicArray:
    dims, (array,) = node.get("broadcast_dimensions"), formulas
    sizes = [1] * len(shape)
    for d, size in zip(dims, array.shape, strict=True):
        sizes[d] = size
    # An axis of one element that is repeated has no index.
    moved = {
        i: parameter(d) if not core.is_constant_dim(operands[0].shape[i]) else AffineSum(0)
        for i, d in enumerate(dims)
    }
    return SymbolicArray(np.broadcast_to(_put(array, moved).reshape(sizes), fixed))


def _rev(
    node: Node, operands: Any, formulas: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> SymbolicArray:
    (array,), dims = formulas, node.get("dimensions")
    back = {
        d: AffineSum(shape[d] - 1, ((d, -1),)) for d in dims if not core.is_constant_dim(shape[d])
    }
    return SymbolicArray(np.flip(_put(array, back), [d for d in dims if d not in back]))


def _put(array: np.ndarray, values: dict[int, AffineSum]) -> np.ndarray:
    """An array of sums, with other sums in place of some parameters."""
    sums = np.frompyfunc(lambda x: x.put(values) if isinstance(x, AffineSum) else x, 1, 1)(array)
    return _objects(sums)


def _concatenate(
    node: Node, operands: Any, formulas: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> SymbolicArray | None:
    d = node.get("dimension")
    return SymbolicArray(np.concatenate(formulas, d)) if core.is_constant_dim(shape[d]) else None


def _convert(
    node: Node, operands: Any, formulas: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> SymbolicArray | None:
    (array,) = formulas
    return SymbolicArray(array) if _are_sums(array) else None


def _are_sums(array: np.ndarray) -> bool:
    """Whether an array holds sums, not booleans."""
    return all(isinstance(x, AffineSum) for x in array.reshape(-1))


FormulaRule = Callable[..., "SymbolicArray | None"]
_MOVES: dict[str, FormulaRule] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "copy": lambda node, operands, given, shape, fixed: SymbolicArray(*given),
    "rev": _rev,
}


# --- arithmetic -----------------------------------------------------------------------------------


def _less(ranges: Any, x: AffineSum, y: AffineSum) -> bool:
    """Whether ``x < y``, for all elements."""
    ends = ends_of(x.plus(y, -1), ranges)
    if ends is not None and at_most(ends[1] + 1, 0):
        return True
    if ends is not None and at_most(0, ends[0]):
        return False
    raise _Undecidable


def _equal(ranges: Any, x: AffineSum, y: AffineSum) -> bool:
    if x == y:
        return True
    ends = ends_of(x.plus(y, -1), ranges)
    if ends is not None and (at_most(ends[1] + 1, 0) or at_most(1, ends[0])):
        return False
    raise _Undecidable


def _times(ranges: Any, x: AffineSum, y: AffineSum) -> AffineSum:
    if x.terms and y.terms:
        raise _Undecidable
    return y.times(x.constant) if y.terms else x.times(y.constant)


def _remainder(ranges: Any, x: AffineSum, y: AffineSum) -> AffineSum:
    if _less(ranges, x, AffineSum(0)) or not _less(ranges, x, y):
        raise _Undecidable
    return x


def _extreme(choose: Callable[[Size, Size], Size], sign: int) -> Callable[..., AffineSum]:
    def rule(ranges: Any, x: AffineSum, y: AffineSum) -> AffineSum:
        if not x.terms and not y.terms:
            return AffineSum(choose(x.constant, y.constant))
        return y if _less(ranges, x.times(sign), y.times(sign)) else x

    return rule


_greatest, _least = _extreme(larger, 1), _extreme(smaller, -1)

_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda ranges, x, y: x.plus(y),
    "and": lambda ranges, x, y: _booleans(x, y) and x and y,
    "clamp": lambda ranges, low, x, high: _greatest(ranges, low, _least(ranges, x, high)),
    "eq": _equal,
    "ge": lambda ranges, x, y: not _less(ranges, x, y),
    "gt": lambda ranges, x, y: _less(ranges, y, x),
    "le": lambda ranges, x, y: not _less(ranges, y, x),
    "lt": _less,
    "max": _greatest,
    "min": _least,
    "mul": _times,
    "ne": lambda ranges, x, y: not _equal(ranges, x, y),
    "neg": lambda ranges, x: x.times(-1),
    "not": lambda ranges, x: _booleans(x) and not x,
    "or": lambda ranges, x, y: _booleans(x, y) and (x or y),
    "rem": _remainder,
    "select_n": lambda ranges, which, *cases: cases[min(max(_case(which), 0), len(cases) - 1)],
    "sub": lambda ranges, x, y: x.plus(y, -1),
}


def _booleans(*values: Any) -> bool:
    if not all(isinstance(x, bool) for x in values):
        raise _Undecidable
    return True


def _case(which: Any) -> int:
    if isinstance(which, AffineSum) and (which.terms or not core.is_constant_dim(which.constant)):
        raise _Undecidable
    return int(which.constant if isinstance(which, AffineSum) else which)

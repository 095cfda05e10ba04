"""Integers and booleans that depend on sizes and on where an element is: formulas of its indices.

Where shapes are symbolic, ``jnp.arange(n)[::-1]`` is no array.  As a *formula* it is an array that
has one element along each symbolic axis: a sum in which the number of the axis is the parameter
that the index along it is, here ``n - 1 - i``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.interpret.interpreter import Node
from jaxmlir.sparse.relations import Size, Sum, at_most, ends_of, larger, parameter, smaller
from jaxmlir.sparse.rules import Value

_STEEP, _FAR = 64, 2**24
_MOST = 128
"""Formulas are made of arrays of at most so many elements."""


class Formula(NamedTuple):
    """What is known of a value: an array of sums, or of booleans, as Python objects."""

    array: np.ndarray

    def __call__(self) -> np.ndarray:
        return self.array


def of_result(node: Node, operands: Sequence[Value], shape: Sequence[Size]) -> Formula | None:
    """What the only result of an op is; ``None`` where that is not known."""
    name = node.name.removeprefix("jaxpr.")
    fixed = [size if core.is_constant_dim(size) else 1 for size in shape]
    dtype = getattr(node.avals()[0], "dtype", np.dtype(float))
    # Narrow and unsigned numbers wrap around.
    is_plain = dtype == np.bool_ or (dtype.kind == "i" and dtype.itemsize >= 4)
    if math.prod(fixed) > _MOST or not is_plain:
        return None
    if name == "dim_as_value":
        return Formula(_objects(Sum(node.get("dim"))))
    if name == "iota":
        return _iota(node, shape, fixed)
    given = [formula_of(x) for x in operands]
    if any(x is None for x in given):
        return None
    if name in _MOVES:
        return _MOVES[name](node, operands, given, shape, fixed)
    rule = _RULES.get(name)
    if rule is None:
        return None
    try:
        ranges = [(0, size) for size in shape]
        found = np.frompyfunc(functools.partial(rule, ranges), len(given), 1)(*given)
    except (core.InconclusiveDimensionOperation, _Unknown):
        return None
    found = _objects(found)
    return None if any(map(_is_large, found.reshape(-1))) else Formula(found)


def _is_large(x: Any) -> bool:
    """Whether a sum may be out of the range of its type where sizes are in it: a hash, say."""
    if not isinstance(x, Sum):
        return False
    numbers = [c for _, c in x.terms if core.is_constant_dim(c)]
    is_far = core.is_constant_dim(x.constant) and abs(x.constant) > _FAR
    return is_far or any(abs(c) > _STEEP for c in numbers)


def formula_of(x: Value) -> np.ndarray | None:
    """The value as an array of sums or booleans, if it is known."""
    if isinstance(x.known, Formula):
        return x.known.array
    if x.known is None or not core.is_constant_shape(x.shape) or math.prod(x.shape) > _MOST:
        return None
    array = np.asarray(x.known())
    if array.dtype.kind not in "biu":
        return None
    convert = bool if array.dtype.kind == "b" else lambda number: Sum(int(number))
    return _objects(np.frompyfunc(convert, 1, 1)(array))


def _objects(found: Any) -> np.ndarray:
    if isinstance(found, np.ndarray):
        return found
    array = np.empty((), object)
    array[()] = found
    return array


class _Unknown(Exception):
    """A number that is no sum, or a comparison that sizes do not decide."""


def _iota(node: Node, shape: Sequence[Size], fixed: Sequence[int]) -> Formula:
    d = node.get("dimension")
    array = np.empty(fixed, object)
    for index in np.ndindex(*fixed):
        array[index] = Sum(index[d]) if core.is_constant_dim(shape[d]) else parameter(d)
    return Formula(array)


def _broadcast(
    node: Node, operands: Any, given: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> Formula:
    dims, (array,) = node.get("broadcast_dimensions"), given
    sizes = [1] * len(shape)
    for d, size in zip(dims, array.shape, strict=True):
        sizes[d] = size
    # Where an axis of one element is repeated, there is no index along it.
    moved = {
        i: parameter(d) if not core.is_constant_dim(operands[0].shape[i]) else Sum(0)
        for i, d in enumerate(dims)
    }
    return Formula(np.broadcast_to(_put(array, moved).reshape(sizes), fixed))


def _rev(
    node: Node, operands: Any, given: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> Formula:
    (array,), dims = given, node.get("dimensions")
    back = {d: Sum(shape[d] - 1, ((d, -1),)) for d in dims if not core.is_constant_dim(shape[d])}
    return Formula(np.flip(_put(array, back), [d for d in dims if d not in back]))


def _put(array: np.ndarray, values: dict[int, Sum]) -> np.ndarray:
    """An array of sums with others in the place of some parameters."""
    found = np.frompyfunc(lambda x: x.put(values) if isinstance(x, Sum) else x, 1, 1)(array)
    return _objects(found)


def _concatenate(
    node: Node, operands: Any, given: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> Formula | None:
    d = node.get("dimension")
    return Formula(np.concatenate(given, d)) if core.is_constant_dim(shape[d]) else None


def _convert(
    node: Node, operands: Any, given: Any, shape: Sequence[Size], fixed: Sequence[int]
) -> Formula | None:
    (array,) = given
    return Formula(array) if all(isinstance(x, Sum) for x in array.reshape(-1)) else None


Move = Callable[..., "Formula | None"]
_MOVES: dict[str, Move] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "copy": lambda node, operands, given, shape, fixed: Formula(*given),
    "rev": _rev,
}


# --- arithmetic -----------------------------------------------------------------------------------


def _less(ranges: Any, x: Sum, y: Sum) -> bool:
    """Whether ``x < y``, for all elements."""
    ends = ends_of(x.plus(y, -1), ranges)
    if ends is not None and at_most(ends[1] + 1, 0):
        return True
    if ends is not None and at_most(0, ends[0]):
        return False
    raise _Unknown


def _equal(ranges: Any, x: Sum, y: Sum) -> bool:
    if x == y:
        return True
    ends = ends_of(x.plus(y, -1), ranges)
    if ends is not None and (at_most(ends[1] + 1, 0) or at_most(1, ends[0])):
        return False
    raise _Unknown


def _times(ranges: Any, x: Sum, y: Sum) -> Sum:
    if x.terms and y.terms:
        raise _Unknown
    return y.times(x.constant) if y.terms else x.times(y.constant)


def _remainder(ranges: Any, x: Sum, y: Sum) -> Sum:
    if _less(ranges, x, Sum(0)) or not _less(ranges, x, y):
        raise _Unknown
    return x


def _extreme(choose: Callable[[Size, Size], Size], sign: int) -> Callable[..., Sum]:
    def rule(ranges: Any, x: Sum, y: Sum) -> Sum:
        if not x.terms and not y.terms:
            return Sum(choose(x.constant, y.constant))
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
    "select_n": lambda ranges, which, *cases: cases[_case(which)],
    "sub": lambda ranges, x, y: x.plus(y, -1),
}


def _booleans(*values: Any) -> bool:
    if not all(isinstance(x, bool) for x in values):
        raise _Unknown
    return True


def _case(which: Any) -> int:
    if isinstance(which, Sum) and (which.terms or not core.is_constant_dim(which.constant)):
        raise _Unknown
    return int(which.constant if isinstance(which, Sum) else which)

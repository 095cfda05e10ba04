"""Integers that are known for every iteration of a loop before it runs.

A value of a loop's body is known as an array with one axis for each loop around it, outermost
first, of size 1 where it does not depend on that loop, and then the value's own axes.  So an index
``3 * i + j`` of two loops is a matrix, and whether it stays in bounds is a look at its extremes.

Few values are asked for, so each is computed on demand, with the values that it depends on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxmlir.analysis.arithmetic import INTEGERS, functions_of
from jaxmlir.analysis.moves import MOVES
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of

MAX_ELEMENTS = 1 << 20
"""The integers of larger arrays count as unknown."""


IntBounds = tuple[int, int]


class KnownIntegers:
    """The integers and booleans of a function that follow from its constants and from given values.

    Attributes:
      depth: the number of loops around the function.
    """

    def __init__(self, arrays: Mapping[ir.Value, np.ndarray], depth: int):
        self.depth = depth
        self._values = dict(arrays)
        self._unknown: set[ir.Value] = set()
        self._bounds: dict[ir.Value, IntBounds] = {}

    def __contains__(self, value: ir.Value) -> bool:
        return self.get(value) is not None

    def __getitem__(self, value: ir.Value) -> np.ndarray:
        return self._values[value]

    def get(self, value: ir.Value) -> np.ndarray | None:
        """A value's array, if it is known."""
        known, unknown = self._values, self._unknown
        array = known.get(value)
        if array is not None or value in unknown or not _can_be_known(value.type):
            return array
        pending = [value]
        while pending:
            v = pending[-1]
            missing = () if v in known or v in unknown else self._look_at(v)
            if missing:
                pending += missing
            else:
                pending.pop()
        return known.get(value)

    def bounds(self, value: ir.Value) -> IntBounds | None:
        """The least and the greatest value of a scalar over all iterations, if it is known."""
        bounds = self._bounds.get(value)
        if bounds is None and (array := self.get(value)) is not None:
            bounds = self._bounds[value] = bounds_of(array)
        return bounds

    def _look_at(self, value: ir.Value) -> list[ir.Value]:
        """Evaluates the op that gives a value; returns the operands to evaluate first, if any."""
        op, array = value.owner, None
        handler = None if isinstance(op, ir.Block) else _HANDLERS.get(op.name)
        if handler is not None and _can_be_known(value.type):
            operands = list(op.operands)
            missing = [v for v in operands if v not in self._values]
            if missing and self._unknown.isdisjoint(missing):
                return missing
            if not missing:
                arrays = [self._values[v] for v in operands]
                array = handler(op, arrays, aval_of(value.type), self.depth)
        if array is None or array.size > MAX_ELEMENTS or _is_huge(array):
            self._unknown.add(value)
        else:
            self._values[value] = array
        return []

    def give(self, value: ir.Value, array: np.ndarray) -> None:
        """Records the array of a value."""
        self._values[value] = array
        self._unknown.clear()

    def changed(self) -> None:
        """Has to be called when ops were added, or ops with unknown results were erased."""
        self._unknown.clear()


def bounds_of(array: np.ndarray) -> IntBounds:
    """The least and the greatest of some numbers; 0 if there are none, as no iteration runs."""
    if array.size > 1:
        return int(array.min()), int(array.max())
    # Most arrays have one element; NumPy's ``min`` and ``max`` take ten times as long for these.
    number = int(array.item()) if array.size else 0
    return number, number


def _is_huge(array: np.ndarray) -> bool:
    """Whether an array has numbers that int64, the type of positions, cannot hold."""
    return array.dtype == np.uint64 and array.size > 0 and bool(array.max() > _LIMITS.max)


_LIMITS = np.iinfo(np.int64)


def counted(start: np.ndarray, step: int, length: int) -> np.ndarray | None:
    """The values of a counter in ``length`` iterations, along a new last axis; ``None`` if there
    are too many, or if they leave the range of the counter's type or of int64."""
    if start.size * length > MAX_ELEMENTS:
        return None
    if length < 2 or not start.size:
        return start[..., None] + np.zeros(length, start.dtype)
    least, greatest = bounds_of(start)
    travel, info = step * (length - 1), np.iinfo(start.dtype)
    if min(least, least + travel) < max(info.min, _LIMITS.min):
        return None
    if max(greatest, greatest + travel) > min(info.max, _LIMITS.max):
        return None
    return (start[..., None].astype(np.int64) + step * np.arange(length)).astype(start.dtype)


def room(start: int, step: int, dtype: np.dtype) -> int | None:
    """The number of iterations for which a counter stays in the range of :func:`counted`; ``None``
    if it never leaves that range."""
    if not step:
        return None
    info = np.iinfo(dtype)
    end = min(info.max, _LIMITS.max) if step > 0 else max(info.min, _LIMITS.min)
    return max((end - start) // step + 1, 0)


@functools.cache
def _can_be_known(type_: ir.Type) -> bool:
    """Whether a type is an array of integers or booleans that is not too large."""
    aval = aval_of(type_)
    if getattr(getattr(aval, "dtype", None), "kind", "O") not in "iub":
        return False
    return all(type(d) is int for d in aval.shape) and math.prod(aval.shape) <= MAX_ELEMENTS


def _aligned(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The operands, with scalars reshaped to the rank of the other operands."""
    rank = max(a.ndim for a in arrays)
    return [a.reshape((*a.shape, *(1,) * (rank - a.ndim))) for a in arrays]


def _elementwise(name: str) -> Callable[..., np.ndarray | None]:
    def handler(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
        arrays = _aligned(arrays)
        function = functions_of(arrays[0].dtype).get(name)
        if function is None:
            return None
        if math.prod(a.size for a in arrays) > MAX_ELEMENTS:
            if np.broadcast(*arrays).size > MAX_ELEMENTS:
                return None
        with np.errstate(all="ignore"):
            out = function(*arrays)
        return out if out is not None and out.dtype == aval.dtype else None

    return handler


def _constant(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    attributes = op.attributes
    if "value" not in attributes or not isinstance(attributes["value"], ir.DenseElementsAttr):
        return None
    array = codec.decode(attributes["value"])
    return array.reshape((1,) * depth + array.shape)


def _iota(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    if arrays:
        return None
    axis = attribute(op, "dimension")
    array = np.arange(aval.shape[axis], dtype=aval.dtype)
    array = array.reshape([-1 if d == axis else 1 for d in range(len(aval.shape))])
    return np.broadcast_to(array, aval.shape).reshape((1,) * depth + aval.shape)


def _moved(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    """The elements in the places that an op of ``MOVES`` moves them to, in each iteration alike."""
    (x,) = arrays[:1]
    axes, shape = x.shape[:depth], x.shape[depth:]
    # Further operands are sizes that are not known.
    if len(arrays) > 1 or math.prod(axes) * math.prod(aval.shape) > MAX_ELEMENTS:
        return None
    move = MOVES[op.name.removeprefix("jaxpr.")]
    attributes = {name: attribute(op, name) for name in move.attributes}
    if math.prod(axes) == 1:
        (out,) = move.run(x.reshape(shape), **attributes)
        return out.reshape((*axes, *out.shape))
    (places,) = move.run(np.arange(math.prod(shape)).reshape(shape), **attributes)
    return x.reshape((*axes, math.prod(shape)))[..., places]


def _convert(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    out = arrays[0].astype(aval.dtype)
    return out if np.array_equal(out, arrays[0]) else None


def _select(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    which, *cases = _aligned(arrays)
    if len(cases) != 2 or np.broadcast(which, *cases).size > MAX_ELEMENTS:
        return None
    return np.where(which, cases[1], cases[0]).astype(aval.dtype)


def _concatenate(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    axes = {a.shape[:depth] for a in arrays}
    shape = (*(axes.pop() if len(axes) == 1 else np.broadcast_shapes(*axes)), *aval.shape)
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    # The assignment broadcasts each piece: to do so before takes longer than all the rest.
    out = np.empty(shape, aval.dtype)
    axis = depth + attribute(op, "dimension")
    place = [slice(None)] * len(shape)
    end = 0
    for a in arrays:
        place[axis] = slice(end, end := end + a.shape[axis])
        out[tuple(place)] = a
    return out


# The moves of a single array into another.
_MOVED = "broadcast_in_dim copy reshape rev slice squeeze tile transpose".split()

_HANDLERS: dict[str, Callable[..., np.ndarray | None]] = {
    **{f"jaxpr.{name}": _elementwise(name) for name in INTEGERS},
    "jaxpr.constant": _constant,
    "jaxpr.iota": _iota,
    **{f"jaxpr.{name}": _moved for name in _MOVED},
    "jaxpr.convert_element_type": _convert,
    "jaxpr.select_n": _select,
    "jaxpr.concatenate": _concatenate,
}


def vector(known: KnownIntegers, value: ir.Value, length: int) -> np.ndarray | None:
    """A scalar of a body as an array over its iterations, if it depends on no outer loop."""
    array = known.get(value)
    # The array has no elements if an outer loop has no iterations.
    if array is None or not array.ndim or not array.size:
        return None
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) > 1 and not (rows == rows[:1]).all():
        return None
    return np.broadcast_to(rows[0], (length,)).astype(np.int64)


def affine(numbers: np.ndarray) -> tuple[int, int] | None:
    """``(start, step)`` of evenly spaced numbers."""
    if not len(numbers):
        return None
    steps = np.diff(numbers)
    if len(steps) and not (steps == steps[0]).all():
        return None
    return int(numbers[0]), int(steps[0]) if len(steps) else 1

"""Strided views: which elements of another array a value consists of.

A slice, a reversal, a transpose, a result of a split or of an unstack, and a reshape that adds or
drops dimensions of size 1 compute nothing.  Each dimension of their result is a dimension of their
operand, read from some start at equal steps.  Such views compose.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import ASKED, is_plain_array
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir

SLICES = frozenset({"jaxpr.slice", "jaxpr.split", "jaxpr.unstack"})
"""Ops that give parts of an array at known positions."""
UNIT_DIMS = frozenset({"jaxpr.broadcast_in_dim", "jaxpr.reshape", "jaxpr.squeeze"})
"""Ops that may do nothing but add or drop dimensions of size 1."""
VIEWS = SLICES | UNIT_DIMS | {"jaxpr.rev", "jaxpr.transpose"}


class StridedView(NamedTuple):
    """A view of some elements of another array.

    Attributes:
      array: the array that is viewed.
      dims: for each dimension of the view, the dimension of ``array``, or ``None`` if its size is
        1; dimensions of ``array`` that are left out have one element.
      starts, steps, sizes: the elements taken, for each dimension of ``array``.
    """

    array: ir.Value
    dims: tuple[int | None, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def whole(cls, array: ir.Value) -> StridedView:
        """All of an array."""
        shape = tuple(array.type.shape)
        rank = len(shape)
        return cls(array, tuple(range(rank)), (0,) * rank, (1,) * rank, shape)

    @property
    def key(self) -> tuple[Any, ...]:
        """The view as a key that has the type of the array instead of the array."""
        return self.array.type, self.dims, self.starts, self.steps, self.sizes

    @property
    def is_box(self) -> bool:
        """Whether the view is contiguous in every dimension: all steps are 1."""
        return set(self.steps) <= {1}

    @property
    def limits(self) -> tuple[int, ...]:
        """The end of a box in each dimension."""
        return tuple(a + n for a, n in zip(self.starts, self.sizes, strict=True))

    @property
    def partial_dims(self) -> list[int]:
        """The dimensions of the array that the view does not cover completely."""
        return [d for d, n in enumerate(self.array.type.shape) if n != self.sizes[d]]

    def through(self, names: Collection[str] = VIEWS) -> StridedView | None:
        """This view as a view of the operand of the op (of one of the names) that gives the array;
        ``None`` if the op does more than move elements."""
        owner = self.array.owner
        if isinstance(owner, ir.Block) or owner.name not in names or len(owner.operands) != 1:
            return None
        node = OpView(owner, owner.name, [owner.operands[0]])
        (array,) = node.operands
        if not is_plain_array(array.type) or not ASKED.isdisjoint(node.attributes):
            return None
        if node.name == "jaxpr.slice":
            return self._sliced(array, node.get("start_indices"), node.get("strides"))
        if node.name in ("jaxpr.split", "jaxpr.unstack"):
            return self._part(node, array)
        if node.name == "jaxpr.rev":
            return self.reversed(array, node.get("dimensions"))
        if node.name == "jaxpr.transpose":
            return self.placed(array, node.get("permutation"))
        if node.name == "jaxpr.squeeze":
            return self.placed(array, _without(array, node.get("dimensions")))
        places = unit_dims(node, self.array.type.shape, array.type.shape)
        return None if places is None else self.placed(array, places)

    def moved(self, dim: int, by: int) -> StridedView:
        """The view moved by ``by`` elements along a dimension of the array."""
        starts = list(self.starts)
        starts[dim] += by
        return self._replace(starts=tuple(starts))

    def reversed(self, array: ir.Value, dimensions: Sequence[int]) -> StridedView:
        """This view as a view of ``array``, of which ``self.array`` is the reversal."""
        starts, steps = list(self.starts), list(self.steps)
        for d in dimensions:
            starts[d] = array.type.shape[d] - 1 - starts[d]
            steps[d] = -steps[d]
        return self._replace(array=array, starts=tuple(starts), steps=tuple(steps))

    def placed(self, array: ir.Value, places: Sequence[int | None]) -> StridedView:
        """This view as a view of ``array``, in which dimension i of ``self.array`` is dimension
        ``places[i]``, or ``None`` if its size is 1.  Other dimensions start at element 0."""
        rank = len(array.type.shape)
        groups = []
        for items, other in ((self.starts, 0), (self.steps, 1), (self.sizes, 1)):
            group = [other] * rank
            for place, item in zip(places, items, strict=True):
                if place is not None:
                    group[place] = item
            groups.append(tuple(group))
        dims = tuple(None if d is None else places[d] for d in self.dims)
        return StridedView(array, dims, *groups)

    def _sliced(
        self, array: ir.Value, starts: Sequence[int], strides: Sequence[int] | None
    ) -> StridedView:
        """This view as a view of ``array``, of which ``self.array`` is a slice."""
        steps = self.steps
        offsets = list(self.starts)
        if strides is not None:
            steps = tuple([by * step for by, step in zip(strides, steps, strict=True)])
            offsets = [by * start for by, start in zip(strides, offsets, strict=True)]
        begin = tuple([first + start for first, start in zip(starts, offsets, strict=True)])
        return StridedView(array, self.dims, begin, steps, self.sizes)

    def _part(self, node: OpView, array: ir.Value) -> StridedView:
        """This view as a view of ``array``, of which a split or an unstack gives ``self.array``."""
        axis, number = node.get("axis"), ir.OpResult(self.array).result_number
        if node.name == "jaxpr.split":
            by = _offsets(node.attributes["sizes"])[number]
            return self._replace(array=array).moved(axis, by)
        return self.placed(array, _without(array, [axis])).moved(axis, number)


def view_of(value: ir.Value, names: Collection[str] = VIEWS) -> StridedView | None:
    """The value as a view of the operand of its op, if that has one of the names; else ``None``."""
    return StridedView.whole(value).through(names)


def slice_of(node: OpView) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The starts, limits and strides of a ``jaxpr.slice``."""
    starts, limits = node.get("start_indices"), node.get("limit_indices")
    return starts, limits, node.get("strides") or (1,) * len(starts)


def unit_dims(node: OpView, shape: Sequence[int], other: Sequence[int]) -> list[int | None] | None:
    """For each dimension of ``shape``, the dimension of ``other``, or ``None`` if its size is 1.
    The whole result is ``None`` if the op between them does more than add or drop such
    dimensions."""
    if node.name not in UNIT_DIMS or len(node.operands) != 1 or "sharding" in node.attributes:
        return None
    if node.name == "jaxpr.reshape" and node.get("dimensions") is not None:
        return None
    left = [d for d, n in enumerate(other) if n != 1]
    if [n for n in shape if n != 1] != [other[d] for d in left]:
        return None
    places = iter(left)
    return [None if n == 1 else next(places) for n in shape]


def _without(array: ir.Value, dims: Collection[int]) -> list[int]:
    """The other dimensions of an array."""
    return [d for d in range(len(array.type.shape)) if d not in dims]


@functools.cache
def _offsets(sizes: ir.Attribute) -> list[int]:
    """Where each part of a split array begins."""
    return list(itertools.accumulate(codec.decode(sizes), initial=0))

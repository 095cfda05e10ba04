"""Strided views: which elements of another array those of a value are.

A slice, a reversal, a transpose, a result of a split or of an unstack, and a reshape that adds or
drops dimensions of size 1 compute nothing: each dimension of what they give is one of their
operand's, begun at some place and read at equal steps.  Such views compose.
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
"""Ops that give parts of an array, at places that are known."""
UNIT_DIMS = frozenset({"jaxpr.broadcast_in_dim", "jaxpr.reshape", "jaxpr.squeeze"})
"""Ops that may add or drop dimensions of size 1, and do nothing else."""
VIEWS = SLICES | UNIT_DIMS | {"jaxpr.rev", "jaxpr.transpose"}


class StridedView(NamedTuple):
    """An array whose elements are those of another one.

    Attributes:
      array: the other one.
      dims: its dimensions in the order of the view's, which is ``None`` for one of size 1; those
        left out have one element.
      starts, steps, sizes: which elements, by dimension of the array.
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
        """The view as a key in which only the type of the array counts."""
        return self.array.type, self.dims, self.starts, self.steps, self.sizes

    @property
    def is_box(self) -> bool:
        """Whether it leaves out nothing between where it begins and ends."""
        return set(self.steps) <= {1}

    @property
    def limits(self) -> tuple[int, ...]:
        """Where a box ends."""
        return tuple(a + n for a, n in zip(self.starts, self.sizes, strict=True))

    @property
    def partial_dims(self) -> list[int]:
        """The dimensions of the array of which it does not have all elements."""
        return [d for d, n in enumerate(self.array.type.shape) if n != self.sizes[d]]

    def through(self, names: Collection[str] = VIEWS) -> StridedView | None:
        """A view of the operand of the op that gives the array, of the elements that this one has;
        ``None`` if the op does more than move elements.

        Args:
          names: of the ops that are looked through.
        """
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
        """The view so many elements further along a dimension of the array."""
        starts = list(self.starts)
        starts[dim] += by
        return self._replace(starts=tuple(starts))

    def reversed(self, array: ir.Value, dimensions: Sequence[int]) -> StridedView:
        """The view as it is of an array that is its own reversed."""
        starts, steps = list(self.starts), list(self.steps)
        for d in dimensions:
            starts[d] = array.type.shape[d] - 1 - starts[d]
            steps[d] = -steps[d]
        return self._replace(array=array, starts=tuple(starts), steps=tuple(steps))

    def placed(self, array: ir.Value, places: Sequence[int | None]) -> StridedView:
        """The view of an array, in which the dimensions of its own are at ``places``; of the
        others, the first element.  A dimension of size 1 may be at none."""
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
        """The view of an array that its own is a slice of."""
        steps = self.steps
        offsets = list(self.starts)
        if strides is not None:
            steps = tuple([by * step for by, step in zip(strides, steps, strict=True)])
            offsets = [by * start for by, start in zip(strides, offsets, strict=True)]
        begin = tuple([first + start for first, start in zip(starts, offsets, strict=True)])
        return StridedView(array, self.dims, begin, steps, self.sizes)

    def _part(self, node: OpView, array: ir.Value) -> StridedView:
        """The view of an array that its own is a result of a split or of an unstack of."""
        axis, number = node.get("axis"), ir.OpResult(self.array).result_number
        if node.name == "jaxpr.split":
            by = _offsets(node.attributes["sizes"])[number]
            return self._replace(array=array).moved(axis, by)
        return self.placed(array, _without(array, [axis])).moved(axis, number)


def view_of(value: ir.Value, names: Collection[str] = VIEWS) -> StridedView | None:
    """The view of its operand that the op of some names gives; ``None`` of other values."""
    return StridedView.whole(value).through(names)


def slice_of(node: OpView) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The starts, limits and strides of a ``jaxpr.slice``."""
    starts, limits = node.get("start_indices"), node.get("limit_indices")
    return starts, limits, node.get("strides") or (1,) * len(starts)


def unit_dims(node: OpView, shape: Sequence[int], other: Sequence[int]) -> list[int | None] | None:
    """The places of the dimensions of one array in another, ``None`` for those of size 1; ``None``
    altogether if the op between the two does more than add or drop such."""
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

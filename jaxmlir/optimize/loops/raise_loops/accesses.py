"""Where a loop's body reads and writes an array: parts of it at positions that the loop's counter
determines in one dimension."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxmlir import toolbox
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import returned
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.raise_loops.known import Known, vector

_Span = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Access:
    """A ``dynamic_slice`` or ``dynamic_update_slice`` in a loop's body, or a scatter of a single
    window that is combined with what is there."""

    op: Any
    array: ir.Value
    starts: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the array."""
    writes: bool
    combine: str | None = None
    """The function in ``jax.lax`` of what is there and what is scattered; ``None`` where what is
    there is overwritten."""

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def update(self) -> ir.Value:
        """What is written, as it is now: what was read may have been replaced."""
        return self.op.operands[1 if self.combine is None else 2]


class Positions:
    """Where accesses begin, and from where to where they go, along the dimensions of their arrays.

    Many accesses have an index in common: each is looked at once.

    Args:
      length: how many iterations the loop has.
    """

    def __init__(self, known: Known, length: int):
        self._known = known
        self._length = length
        self._numbers: dict[tuple[ir.Value, int], np.ndarray] = {}
        self._spans: dict[tuple[ir.Value, int, int], _Span] = {}
        self._places: dict[tuple[ir.Value, int, int], Hashable] = {}
        self._zeros = np.zeros(length, np.int64)

    def numbers(self, access: Access, axis: int) -> np.ndarray | None:
        """Where it begins along a dimension in each iteration, if that is known."""
        start, last = access.starts[axis], access.shape[axis] - access.sizes[axis]
        if last == 0:
            return self._zeros
        found = self._numbers.get((start, last))
        if found is None:
            found = vector(self._known, start, self._length)
            if found is not None:
                # Positions out of bounds are moved inside.
                found = self._numbers[start, last] = _inside(found, last)
        return found

    def are_same(self, one: Access, other: Access, axis: int) -> bool:
        """Whether both begin at the same place along a dimension in each iteration."""
        if one.starts[axis] == other.starts[axis]:
            return True
        own, others = self._everywhere(one, axis), self._everywhere(other, axis)
        return own is not None and others is not None and bool((own == others).all())

    def span(self, access: Access, axis: int) -> _Span | None:
        """From where to where its iterations touch an array along a dimension, over those of the
        loops around this one."""
        size = access.sizes[axis]
        key = access.starts[axis], size, access.shape[axis]
        span = self._spans.get(key)
        if span is None:
            found = self._everywhere(access, axis)
            if found is not None and found.size:
                span = self._spans[key] = found.min(-1), found.max(-1) + size
        return span

    def place(self, access: Access, axis: int) -> Hashable:
        """The same of equal spans, and of those that are not known."""
        key = access.starts[axis], access.sizes[axis], access.shape[axis]
        place = self._places.get(key)
        if place is None:
            span = self.span(access, axis) or ()
            place = self._places[key] = tuple([(array.shape, array.tobytes()) for array in span])
        return place

    def _everywhere(self, access: Access, axis: int) -> np.ndarray | None:
        """Where it begins, as an array over the iterations of all loops around, this one last."""
        found = self._known.get(access.starts[axis])
        if found is None or not found.ndim:
            return None
        return _inside(found.astype(np.int64), access.shape[axis] - access.sizes[axis])


def _inside(numbers: np.ndarray, last: int) -> np.ndarray:
    """Numbers, moved to what is next to them of 0 to ``last``; ``np.clip`` takes ten times as long
    where they are few."""
    return np.minimum(np.maximum(numbers, 0), last)


def varies(numbers: np.ndarray | None) -> bool:
    """Whether positions are known, and not all the same."""
    return numbers is not None and len(numbers) > 1 and bool((numbers != numbers[0]).any())


# Scatters that combine, by their results.
Combined = Mapping[ir.Value, Access]


def access_of(
    op: Any, name: str, operands: Sequence[ir.Value], combined: Combined
) -> Access | None:
    """The access that an op is; ``None`` of one that touches nothing."""
    if name == "jaxpr.dynamic_slice":
        array, *starts = operands
        sizes = tuple(codec.decode(op.attributes["slice_sizes"]))
    elif name == "jaxpr.dynamic_update_slice":
        array, update, *starts = operands
        sizes = tuple(aval_of(update.type).shape)
    else:
        return combined.get(next(iter(op.results), None))
    shape = tuple(aval_of(array.type).shape)
    if len(starts) != len(shape) or not all(type(d) is int for d in (*shape, *sizes)):
        return None
    if 0 in sizes:
        return None
    return Access(op, array, tuple(starts), sizes, shape, name == "jaxpr.dynamic_update_slice")


def is_retyped(op: Any, name: str) -> bool:
    """Whether an op only says of an array that its type is weak, or is not, as JAX does where a
    carried array began as a Python number."""
    if name != "jaxpr.convert_element_type" or "sharding" in op.attributes:
        return False
    before, after = aval_of(op.operands[0].type), aval_of(op.results[0].type)
    return before.dtype == after.dtype and len(before.shape) > 0


class Uses:
    """The ops that use each value of a body, the return not counted; retyped arrays are one value.

    Attributes:
      returned: what the body returns.
    """

    def __init__(self, body: func.FuncOp):
        self._same: dict[ir.Value, ir.Value] = {}
        self.returned = [self.untyped(v) for v in returned(body)]

    def untyped(self, value: ir.Value) -> ir.Value:
        """The value that it is but for its type being weak or not."""
        op, name = toolbox.definition(value) or (None, "")
        while is_retyped(op, name):
            value = op.operands[0]
            op, name = toolbox.definition(value) or (None, "")
        return value

    def __getitem__(self, value: ir.Value) -> Sequence[tuple[Any, str, list[ir.Value]]]:
        """In order, each with its name and operands."""
        same, found, pending = self._same, {}, [value]
        while pending:
            for use in pending.pop().uses:
                op = use.owner.operation
                if is_retyped(op, op.name):
                    same[op.results[0]] = value
                    pending.append(op.results[0])
                elif op.name != "func.return":
                    found[op] = None
        ops = list(found)
        if len(ops) > 1:
            ops.sort(key=functools.cmp_to_key(_order))
        return [(op, op.name, [same.get(v, v) for v in op.operands]) for op in ops]


def _order(op: ir.Operation, other: ir.Operation) -> int:
    return -1 if op.is_before_in_block(other) else 1


def is_written(value: ir.Value, combined: Combined) -> bool:
    """Whether a value is an array that has just been written to."""
    if value in combined:
        return True
    op = value.owner
    return not isinstance(op, ir.Block) and op.name == "jaxpr.dynamic_update_slice"


@dataclass
class Chain:
    """All that a body does with a carried array: each write gives the next *version* of it."""

    versions: list[ir.Value]
    writes: list[Access]
    reads: list[tuple[int, Access]]
    """With the version that is read."""

    _spans: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray] | None] = field(
        default_factory=dict
    )
    _touched: dict[tuple[int, ...], set[Hashable]] = field(default_factory=dict)

    def accesses(self) -> Iterator[Access]:
        yield from self.writes
        yield from (access for _, access in self.reads)

    def is_apart(self, read: Access, axes: Sequence[int], positions: Positions) -> bool:
        """Whether for each write there is one of some dimensions along which no iteration of this
        loop touches what any touches of a read."""
        # Most of many reads are of what a write gives: that is found without asking all of them.
        place = tuple([positions.place(read, axis) for axis in axes])
        if place in self._places(tuple(axes), positions):
            return False
        spans = [positions.span(read, axis) for axis in axes]
        apart = np.zeros(len(self.writes), bool)
        for axis, own in zip(axes, spans, strict=True):
            written = self._written(axis, positions)
            if own is None or written is None:
                continue
            at, start, end = written
            found = (own[1] <= start) | (end <= own[0])
            apart[at] |= found.reshape(len(at), -1).all(-1)
        return bool(apart.all())

    def _places(self, axes: tuple[int, ...], positions: Positions) -> set[Hashable]:
        """What the writes touch along some dimensions."""
        if axes not in self._touched:
            self._touched[axes] = {
                tuple([positions.place(write, axis) for axis in axes]) for write in self.writes
            }
        return self._touched[axes]

    def _written(
        self, axis: int, positions: Positions
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Which of the writes touch what is known along a dimension, and from where to where."""
        if axis not in self._spans:
            spans = [positions.span(write, axis) for write in self.writes]
            at = [k for k, span in enumerate(spans) if span is not None]
            self._spans[axis] = None
            if at:
                starts, ends = zip(*[spans[k] for k in at], strict=True)
                self._spans[axis] = np.array(at), _stacked(starts), _stacked(ends)
        return self._spans[axis]


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*arrays))


def chain_of(arg: ir.Value, out: ir.Value, uses: Uses, combined: Combined) -> Chain | None:
    """What a body does with a carried array, if it does no more than read and write parts of it,
    and returns its last version, once."""
    chain = Chain([arg], [], [])
    while chain.versions[-1] != out:
        version = chain.versions[-1]
        if version in uses.returned:
            return None
        following = None
        for op, name, operands in uses[version]:
            access = access_of(op, name, operands, combined)
            if access is None or operands.count(version) > 1 or access.array != version:
                return None
            if not access.writes:
                chain.reads.append((len(chain.writes), access))
            elif following is not None:
                return None
            else:
                following = access
        if following is None:
            return None
        chain.writes.append(following)
        chain.versions.append(following.result)
    if uses.returned.count(out) != 1:
        return None
    for op, name, operands in uses[out]:
        access = access_of(op, name, operands, combined)
        if access is None or access.writes or operands.count(out) > 1:
            return None
        chain.reads.append((len(chain.writes), access))
    return chain if chain.writes else None

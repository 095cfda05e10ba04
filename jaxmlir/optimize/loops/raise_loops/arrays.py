"""Raising of accesses by a loop counter: a read ``x[i]`` becomes a slice (xs) of the scan, a write
``out.at[i].set(c)`` a stacked result (ys).

Along one dimension the positions must be known for every iteration.  A *slab* is the part of the
array that an iteration can touch: one block along that dimension, and all of the other dimensions.
Where all accesses begin at the same loop-invariant index of another dimension, the slab has only
the accessed part of it.

Each iteration writes another slab of a carried array.  A read of the array becomes

- a value of the body, if it is of the slab of this iteration, before or after a write;
- a carried value, if it is of the slab of some iterations before;
- a slice of the array before the loop, if it is of a slab that is not written yet;
- likewise, if no iteration writes it, because it is elsewhere along another dimension.

So the loop no longer carries the array, and the slabs are put together after it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.op_counts import is_array, size
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import (
    clone,
    converted,
    copy,
    filled,
    is_constant,
    is_used,
    named_ops,
    reshaped,
)
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.types import aval_of, with_shape
from jaxmlir.optimize.loops.known import KnownIntegers
from jaxmlir.optimize.loops.raise_loops import accesses as _rows
from jaxmlir.optimize.loops.raise_loops.accesses import (
    Access,
    AccessChain,
    CombinedAccesses,
    Positions,
    ValueUses,
    access_of,
    chain_of,
    is_written,
    untyped,
    varies,
)
from jaxmlir.optimize.loops.scan_editor import (
    CarriedValue,
    ConstantOperand,
    ScanEditor,
    SlicedOperand,
    StackedResult,
)
from jaxmlir.passes.remarks import remark
from jaxmlir.support.lazy import memoized

# How many iterations back a body may read: each is a carried slab.
MAX_LAG = 4
# Overlapping windows and repeated positions are read more than once, so their slices take more
# memory than the array: at most this many times as much, unless they fit into caches.
MAX_GROWTH = 4
# How many times as large as its accesses a slab may be.  Slabs of 200 integers, of which each
# iteration reads three and writes one, made a loop take 30 times as long.
MAX_WASTE = 8


class InvariantValues:
    """Values of a loop's body that are the same in every iteration, as values before the loop."""

    def __init__(self, editor: ScanEditor):
        self._editor = editor
        self._constants = {item.arg: item.operand for item in editor.consts}

    @memoized
    def __call__(self, value: ir.Value) -> ir.Value | None:
        """Recomputes a scalar before the loop; ``None`` if that is not possible."""
        if value in self._constants:
            return self._constants[value]
        op = value.owner
        if isinstance(op, ir.Block) or tuple(aval_of(value.type).shape):
            return None
        with ir.InsertionPoint(self._editor.op), self._editor.op.location:
            if is_constant(value):
                return clone(value)
            if op.name not in ELEMENTWISE:
                return None
            operands = [self(v) for v in op.operands]
            return None if any(v is None for v in operands) else copy(op, op.name, operands)[0]


class SlabLayout(NamedTuple):
    """The layout of the slabs in an array."""

    axis: int
    """The dimension along which they follow each other."""
    size: int
    """The length of the slabs along that dimension."""
    starts: list[ir.Value | None]
    """Where the slabs begin in the other dimensions, as values before the loop; ``None`` is 0."""
    part: tuple[int, ...]
    """The shape of the part of the array that contains all slabs."""

    @property
    def slab(self) -> tuple[int, ...]:
        return tuple(self.size if d == self.axis else n for d, n in enumerate(self.part))

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a slice of the loop: that of a slab, without a length of 1."""
        axis = self.axis
        return self.part[:axis] + self.part[axis + 1 :] if self.size == 1 else self.slab


def frame_of(
    accesses: Sequence[Access], axis: int, outside: InvariantValues, positions: Positions
) -> SlabLayout:
    """The smallest slabs along an axis that hold all accesses."""
    first = accesses[0]
    starts: list[ir.Value | None] = []
    part = list(first.shape)
    for d in range(len(part)):
        starts.append(None)
        size = first.sizes[d]
        if d == axis or size == part[d]:
            continue
        same = all(a.sizes[d] == size and positions.are_same(a, first, d) for a in accesses)
        start = outside(first.starts[d]) if same else None
        if start is not None:
            starts[d], part[d] = start, size
    # The ops need starts of one integer type.
    types = {v.type for v in starts if v is not None}
    if len({aval_of(t).dtype for t in types}) > 1:
        starts, part = [None] * len(part), list(first.shape)
    return SlabLayout(axis, first.sizes[axis], starts, tuple(part))


class ArrayRaiser:
    """Raises the arrays of one scan.

    Attributes:
      count: the number of accesses and arrays that are raised.
      overlapping: the ops that read overlapping parts of constants.
    """

    def __init__(self, editor: ScanEditor, known: KnownIntegers, combined: CombinedAccesses):
        self.count: int = 0
        self.overlapping: list[tuple[Any, ConstantOperand]] = []
        self.editor = editor
        self.rules = editor.rules
        self.combined = combined
        self.length: int = editor.scan.length
        self.positions: Positions = Positions(known, self.length)
        self.outside: InvariantValues = InvariantValues(editor)
        self._rows: dict[Any, ir.Value] = {}
        self._after: list[Callable[[], None]] = []

    # --- reads of constants ---

    def raise_reads(self) -> None:
        """Turns reads of constants into slices; those that overlap are kept for later."""
        consts = {item.arg: item for item in self.editor.consts}
        for op, name in named_ops(self.editor.body) if consts else ():
            if name == "jaxpr.dynamic_slice" and (item := consts.get(op.operands[0])) is not None:
                self._raise_read(op, item, overlapping=False)

    def raise_overlapping_reads(self) -> None:
        """Turns reads that overlap into slices: faster for batched loops only."""
        for op, item in self.overlapping:
            self._raise_read(op, item, overlapping=True)

    def _raise_read(self, op: Any, item: ConstantOperand, overlapping: bool) -> None:
        access = access_of(op, "jaxpr.dynamic_slice", list(op.operands), self.combined)
        if access is None or not is_array(access.array.type):
            return
        later, cached = False, self.rules.program.target.costs.cached
        for axis in range(len(access.shape)):
            numbers = self.positions.numbers(access, axis)
            if not varies(numbers):
                continue
            frame, rows = self._rows_of(access, axis)
            most = size(access.array.type)
            if rows > (max(MAX_GROWTH * most, cached) if overlapping else most):
                later = True
                continue
            slab = self._slab(item.operand, frame, numbers)
            remark(access.op, "indexed by the loop's counter: replaced by a slice of the scan")
            self._put(access, slab, frame)
            self.count += 1
            return
        if later and not overlapping:
            self.overlapping.append((op, item))

    def _rows_of(self, access: Access, axis: int) -> tuple[SlabLayout, float]:
        """The smallest slabs for a read along a dimension, and the bytes of all of them."""
        frame = frame_of([access], axis, self.outside, self.positions)
        return frame, self.length * size(with_shape(access.array.type, frame.slab))

    def _slab(self, array: ir.Value, frame: SlabLayout, numbers: np.ndarray) -> ir.Value:
        """The slab of an array at some positions, as a value of the body: a slice or a constant."""
        key = (array, frame.axis, frame.size, *frame.starts, frame.part, numbers.tobytes())
        if key not in self._rows:
            shape = frame.row if varies(numbers) else frame.slab
            argument = self.editor.new_argument(with_shape(array.type, shape))
            if varies(numbers):
                with ir.InsertionPoint(self.editor.op), self.editor.op.location:
                    source = _rows.part(self.rules, array, frame.starts, frame.part)
                    rows = _rows.take_rows(self.rules, source, numbers, frame.axis, frame.size)
                    rows = reshaped(rows, (len(numbers), *shape))
                self.editor.xs.append(SlicedOperand(rows, argument))
                begin = ir.InsertionPoint.at_block_begin(body_of(self.editor.body))
                with begin, self.editor.op.location:
                    argument = reshaped(argument, frame.slab)
            else:
                self.editor.consts.append(
                    ConstantOperand(self._block(array, frame, int(numbers[0])), argument)
                )
            self._rows[key] = argument
        return self._rows[key]

    def _block(self, array: ir.Value, frame: SlabLayout, at: int) -> ir.Value:
        """The slab of an array at a position, written before the loop."""
        axis, size = frame.axis, frame.size
        with ir.InsertionPoint(self.editor.op), self.editor.op.location:
            source = _rows.part(self.rules, array, frame.starts, frame.part)
            block = functools.partial(_slice, start=at, size=size, axis=axis)
            return self.rules.emit(block, [source])[0]

    def _put(self, access: Access, slab: ir.Value, frame: SlabLayout) -> None:
        """Replaces a read from the array by a read from a slab."""
        with ir.InsertionPoint(access.op), access.op.location:
            value = slab
            if access.sizes != frame.slab:
                within = self._within(access, frame)
                value = _rows.part(self.rules, slab, within, access.sizes)
            value = converted(value, access.result.type)
        access.result.replace_all_uses_with(value)
        access.op.operation.erase()

    def _within(self, access: Access, frame: SlabLayout) -> list[ir.Value]:
        """The start indices of an access within its slab."""
        return [
            filled(v.type, 0) if d == frame.axis or frame.starts[d] is not None else v
            for d, v in enumerate(access.starts)
        ]

    # --- carried arrays ---

    def raise_carried(self) -> None:
        """Turns arrays that are written slab by slab into stacked results."""
        uses: ValueUses | None = None
        for item in list(self.editor.carry):
            if not is_array(item.arg.type):
                continue
            uses = uses or ValueUses(self.editor.body)
            out = untyped(self.editor.out(item))
            if not is_written(out, self.combined):
                continue
            chain = chain_of(item.arg, out, uses, self.combined)
            if chain is None:
                continue
            plans = (self._plan(chain, axis) for axis in range(len(chain.writes[0].shape)))
            plan = next((p for p in plans if p is not None), None)
            if plan is not None:
                remark(
                    chain.writes[-1].op,
                    "indexed by the loop's counter: replaced by a stacked result of the scan, of "
                    f"{self.length} slabs of {list(plan.frame.slab)}",
                )
                self._raise_carried(item, chain, plan)
                self.count += 1
                # The body has changed.
                uses = None

    def _plan(self, chain: AccessChain, axis: int) -> _RaisePlan | None:
        """The plan to raise a carried array along a dimension; ``None`` if it cannot be."""
        first = chain.writes[0]
        if not varies(self.positions.numbers(first, axis)):
            return None
        size = first.sizes[axis]
        apart = [self._apart(chain, access, axis) for _, access in chain.reads]
        near = [
            access for (_, access), rows in zip(chain.reads, apart, strict=True) if rows is None
        ]
        near = [*chain.writes, *near]
        positions = []
        for access in near:
            numbers = self.positions.numbers(access, axis)
            if numbers is None or access.sizes[axis] != size:
                return None
            positions.append(numbers)
        written, count = positions[0], len(chain.writes)
        if any(not _are_equal(numbers, written) for numbers in positions[:count]):
            return None
        if len(np.unique(written)) != len(written):
            return None
        different = {id(numbers): numbers for numbers in positions}.values()
        if any(((numbers - written[0]) % size).any() for numbers in different):
            return None
        plan = _RaisePlan(frame_of(near, axis, self.outside, self.positions), written)
        if self._is_wasteful(plan.frame, chain):
            return None
        reads = iter(positions[count:])
        for rows in apart:
            if rows is not None:
                plan.reads.append(("apart", rows))
            elif not plan.add(next(reads), self.editor.scan.reverse):
                return None
        return plan

    def _is_wasteful(self, frame: SlabLayout, chain: AccessChain) -> bool:
        """Whether the slabs are much larger than the accesses, with no gain in the derivative.

        Raising saves a derivative from going through the whole array in each iteration.  Integers
        have no derivative, and that of additions alone does not go through the array.
        """
        touched = sum(math.prod(a.sizes) for a in chain.accesses())
        if math.prod(frame.slab) <= MAX_WASTE * touched:
            return False
        only_adds = not chain.reads and all(a.combine in ("add", "sub") for a in chain.writes)
        return only_adds or not dtypes.issubdtype(aval_of(chain.versions[0].type).dtype, np.inexact)

    def _apart(
        self, chain: AccessChain, read: Access, axis: int
    ) -> tuple[SlabLayout, np.ndarray] | None:
        """The slabs and their positions for a read that no iteration writes to; else ``None``."""
        others = [d for d in range(len(read.shape)) if d != axis]
        if not chain.is_apart(read, others, self.positions):
            return None
        numbers = self.positions.numbers(read, axis)
        if not varies(numbers):
            return None
        frame, rows = self._rows_of(read, axis)
        return (frame, numbers) if rows <= size(read.array.type) else None

    def _raise_carried(self, item: CarriedValue, chain: AccessChain, plan: _RaisePlan) -> None:
        frame = plan.frame
        slab_type = with_shape(item.arg.type, frame.slab)
        lagged = self._lagged(item, plan, slab_type)
        # This iteration's slab by the number of writes; before the first one only if it is read.
        first = chain.writes[0]
        overwritten = first.sizes == frame.slab and first.combine is None
        init_is_read = not overwritten or (0, "now") in [
            (version, kind) for (version, _), (kind, _) in zip(chain.reads, plan.reads, strict=True)
        ]
        slabs = [self._slab(item.init, frame, plan.written) if init_is_read else None]
        reads: dict[int, list[Any]] = {}
        for (version, access), planned in zip(chain.reads, plan.reads, strict=True):
            reads.setdefault(version, []).append((access, planned))
        for now in range(len(chain.writes) + 1):
            # In this order, because the next write may store a value that was read.
            if now:
                slabs.append(self._written(chain.writes[now - 1], slabs[-1], frame, slab_type))
            for access, (kind, detail) in reads.get(now, ()):
                within = frame
                if kind == "now":
                    source = slabs[now]
                elif kind == "before":
                    source = lagged[detail - 1].arg
                elif kind == "apart":
                    within, numbers = detail
                    source = self._slab(item.init, within, numbers)
                else:
                    source = self._slab(item.init, frame, detail)
                self._put(access, source, within)
        self._finish_lagged(lagged, slabs[-1])
        self._replace(item, plan, slabs[-1])

    def _written(
        self, write: Access, slab: ir.Value | None, frame: SlabLayout, type_: ir.Type
    ) -> ir.Value:
        """The slab after a write; ``slab`` is not read if the write overwrites all of it."""
        whole, combine, sizes = write.sizes == frame.slab, write.combine, write.sizes
        with ir.InsertionPoint(write.op), write.op.location:
            value = write.update
            if combine is not None or not whole:
                put = functools.partial(_put, combine=combine, whole=whole, sizes=sizes)
                (value,) = self.rules.emit(put, [slab, value, *self._within(write, frame)])
            return converted(value, type_)

    def _lagged(self, item: CarriedValue, plan: _RaisePlan, type_: ir.Type) -> list[CarriedValue]:
        """Adds carried values for the slabs of the iterations before, the last one first."""
        lagged = []
        for number in plan.initial:
            init = self._block(item.init, plan.frame, int(number))
            with ir.InsertionPoint(self.editor.op), self.editor.op.location:
                init = converted(init, type_)
            argument = self.editor.new_argument(type_)
            lagged.append(CarriedValue(init, argument, argument))
        self.editor.carry += lagged
        return lagged

    def _finish_lagged(self, lagged: list[CarriedValue], last: ir.Value) -> None:
        for item, earlier in zip(lagged, [last, *(i.arg for i in lagged)], strict=False):
            item.out = self.editor.give(earlier)

    def _replace(self, item: CarriedValue, plan: _RaisePlan, slab: ir.Value) -> None:
        """Replaces the carried array by a stacked result."""
        editor, frame = self.editor, plan.frame
        editor.carry.remove(item)
        result = item.result
        if is_used(result):
            rows = StackedResult(editor.give(slab))
            editor.ys.append(rows)

            def put_together() -> None:
                with ir.InsertionPoint(editor.op), editor.op.location:
                    source = _rows.part(self.rules, item.init, frame.starts, frame.part)
                    value = _rows.put_rows(
                        self.rules, source, rows.written, plan.written, frame.axis, frame.size
                    )
                    value = _rows.put_part(self.rules, item.init, value, frame.starts)
                    result.replace_all_uses_with(converted(value, result.type))

            self._after.append(put_together)

    def finish(self) -> None:
        """Puts together the arrays from their slabs, after the new loop is written."""
        for put_together in self._after:
            put_together()


@dataclass(eq=False)
class _RaisePlan:
    """The plan to raise a carried array."""

    frame: SlabLayout
    written: np.ndarray
    """The position that each iteration writes to."""
    reads: list[tuple[str, Any]] = field(default_factory=list)
    """The source of each read: ``now``, ``before`` with the number of iterations, ``initial`` with
    the positions, or ``apart`` with slabs of its own and their positions."""
    initial: list[int] = field(default_factory=list)
    """The positions of the slabs carried into the first iteration, the last one first."""

    def add(self, numbers: np.ndarray, reverse: bool) -> bool:
        """Adds the source of a read at some positions; returns whether there is one."""
        if _are_equal(numbers, self.written):
            self.reads.append(("now", None))
            return True
        if (numbers == self.written).any():
            return False
        order = slice(None, None, -1 if reverse else 1)
        read_at, written_at = numbers[order], self.written[order]
        by_position = np.argsort(written_at)
        places = np.searchsorted(written_at, read_at, sorter=by_position)
        found = by_position[places.clip(max=len(written_at) - 1)]
        # The iteration that writes each slab that is read; after the last one if none does.
        times = np.where(written_at[found] == read_at, found, len(read_at))
        if (times >= np.arange(len(times))).all():
            self.reads.append(("initial", numbers))
            return True
        for lag in range(1, min(MAX_LAG, len(read_at) - 1) + 1):
            if (read_at[lag:] == written_at[:-lag]).all():
                early = bool((times[:lag] >= np.arange(lag)).all())
                return early and self._look_back(lag, [int(r) for r in read_at[:lag]])
        return False

    def _look_back(self, lag: int, early: list[int]) -> bool:
        # In iteration t < lag, the slab of `lag` iterations before is the initial slab with number
        # lag - 1 - t.
        needed = {lag - 1 - t: number for t, number in enumerate(early)}
        merged = dict(enumerate(self.initial)) | needed
        if any(merged[i] != number for i, number in enumerate(self.initial)):
            return False
        if sorted(merged) != list(range(len(merged))):
            return False
        self.initial = [merged[i] for i in range(len(merged))]
        self.reads.append(("before", lag))
        return True


def _are_equal(numbers: np.ndarray, others: np.ndarray) -> bool:
    """Whether positions are equal; most often they are the same array."""
    return numbers is others or bool((numbers == others).all())


def _slice(x: Any, *, start: int, size: int, axis: int) -> list[Any]:
    return [lax.slice_in_dim(x, start, start + size, axis=axis)]


def _put(
    x: Any, u: Any, *at: Any, combine: str | None, whole: bool, sizes: tuple[int, ...]
) -> list[Any]:
    """A slab after a write of a part of it, or of all of it."""
    if combine is not None:
        slab = x if whole else _rows.dynamic_slice(x, at, sizes)
        u = getattr(lax, combine)(slab, lax.reshape(u, sizes))
    return [u if whole else _rows.dynamic_update_slice(x, u, at)]

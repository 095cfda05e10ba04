"""Rematerialization of straight-line code, segment by segment.

The forward pass, i.e. the ops before the point of peak memory, is cut into segments.  Only the
values that cross a cut stay in memory, as they would have to anyway.  The backward pass recomputes
the other values of a segment from these, one segment at a time (Chen et al. 2016)::

    a = f(x);  b = g(a);  ...  late(a, b, ct)
    ->   a = f(x);  b = g(a);  ...  x = wait(x, ct);  a = f(x);  b = g(a);  late(a, b, ct)

The recomputed ops wait for a value that the backward pass computes just before them.  So they do
not run early, and the compiler does not merge them with the ops of the forward pass.  Two other
kinds of values go through the same fence.  One is the partial sums of the backward pass, such as
gradients of weights that several layers share: they are stored there, where a compiler would keep
all summands until the sum is complete.  The other is the constants of filled arrays that the
backward pass writes into: a compiler would fill these arrays right at the start.

The last segment is not recomputed: it would be recomputed at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from jaxmlir import targets
from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_array
from jaxmlir.analysis.purity import CountedOps, is_pure
from jaxmlir.dialect.builder import is_used
from jaxmlir.dialect.ir import ir, module_bytecode
from jaxmlir.dialect.module import Module
from jaxmlir.errors import JaxmlirError, count, message_of
from jaxmlir.optimize.barriers import WaitFence, waiting
from jaxmlir.optimize.compared_arrays import rounded_in_ways
from jaxmlir.optimize.memory.profile import MemoryProfile, peak_beside_results
from jaxmlir.passes.remarks import remark, unheard
from jaxmlir.support.options import in_units
from jaxmlir.support.progress import ProgressReporter, progress
from jaxmlir.support.warn import warn

SEGMENTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""The numbers of segments that are tried: more segments recompute more, up to all ops."""


def in_segments(program: Module, symbol: str, number: int) -> bool:
    """Cuts a function into segments, in place; returns whether anything is recomputed."""
    line = StraightLine.of(program, symbol)
    again = line.segments(number)
    if again:
        line.write(program, again)
    return bool(again)


class Segment(NamedTuple):
    """Ops of a forward pass whose results are recomputed."""

    ops: list[int]
    """The ops that are run again."""
    values: list[int]
    """The results of these ops that the backward pass reads."""
    reads: list[int]
    """The values that the ops read and don't compute."""
    tied: list[int]
    """The reads that go through the fence, so that each op depends on one of them."""
    first: int
    """The first op of the backward pass that reads one of the values."""
    after: int
    """The value of the backward pass that the fence waits for."""


@dataclass(eq=False)
class StraightLine:
    """A function, and the op at its peak of memory.

    Attributes:
      turn: the op at which most memory is needed; the backward pass follows it.
      sizes: the bytes of each value.
      kernel: for each op, the op in whose kernel it is computed.
      fixed: the ops that must not run twice.
    """

    body: FunctionView
    turn: int
    sizes: list[float]
    kernel: list[int]
    fixed: set[int]

    @classmethod
    def of(cls, program: Module, symbol: str) -> StraightLine:
        body = analyses_of(program).body(program.function(symbol))
        every = range(len(body.ops))
        # The backward pass will store its partial sums.
        needed = MemoryProfile(body, stored=("jaxpr.add_any",), once=True).needed(every)
        turn = int(np.argmax(needed)) if body.ops else 0
        profile, counted = MemoryProfile(body, once=True), CountedOps(program)
        fixed = {
            index
            for index, signature in enumerate(body.signatures)
            # A policy stores values by their names.
            if signature.name == "jaxpr.name"
            or signature.effects is not None
            or not is_pure(signature.name)
            or counted(signature)
        }
        fixed.update(body.makers[v] for v in rounded_in_ways(body))
        return cls(body, turn, profile.sizes, [*map(profile.kernel, every)], fixed)

    def late(self, value: int) -> list[int]:
        """The ops after the turn that read a value."""
        return [index for index in self.body.users[value] if index > self.turn]

    def segments(self, number: int) -> list[Segment]:
        """The segments, in the order in which the backward pass reads them."""
        bounds = self._cuts(number)
        dependent = self._dependent(bounds[-2])
        segments = []
        earliest = self.turn
        for start, end in reversed([*itertools.pairwise(bounds[:-1])]):
            segment = self._segment(start, end, earliest, dependent)
            if segment is not None:
                segments.append(segment)
                earliest = segment.first
        return segments

    def _cuts(self, number: int) -> list[int]:
        """The ops at which segments begin, and the end of the last one.  Segments have about equal
        shares of the bytes read late; each cut is, within half a segment of its place, where the
        fewest bytes have to stay in memory."""
        body, turn = self.body, self.turn
        read_late = np.zeros(turn + 2)
        staying = np.zeros(turn + 2)
        for v in range(body.arity, len(body.types)):
            maker = body.makers[v]
            if maker is None or maker > turn:
                break
            if self.late(v):
                read_late[maker + 1] += self.sizes[v]
            early = [index for index in self.body.users[v] if index <= turn]
            if early:
                staying[maker + 1] += self.sizes[v]
                staying[early[-1] + 1] -= self.sizes[v]
        read_late, staying = np.cumsum(read_late), np.cumsum(staying)
        total, bounds = read_late[-1], [0]
        for k in range(1, number):
            low, high = np.searchsorted(
                read_late, [(k - 0.5) / number * total, (k + 0.5) / number * total]
            )
            low = max(int(low), bounds[-1] + 1)
            if low < high:
                bounds.append(low + int(np.argmin(staying[low:high])))
        return [*bounds, turn + 1]

    def _dependent(self, start: int) -> list[int]:
        """For each op, the last op of the backward pass before it that gives an array and depends
        on the last segment; -1: none."""
        body = self.body
        depends = [False] * len(body.types)
        latest, dependent = -1, []
        for index, (operands, (first, last)) in enumerate(
            zip(body.operands, body.results, strict=True)
        ):
            dependent.append(latest)
            if start <= index <= self.turn or any([depends[v] for v in operands]):
                depends[first:last] = [True] * (last - first)
                if index > self.turn and last > first and is_plain_array(body.types[first]):
                    latest = index
        return dependent

    def _segment(
        self, start: int, end: int, earliest: int, dependent: Sequence[int]
    ) -> Segment | None:
        """The part of a segment that is recomputed; ``None``: nothing.

        Args:
          earliest: the first op that reads a recomputed value of the segment after this one.
        """
        body = self.body
        values = [
            v
            for index in range(start, end)
            if index not in self.fixed
            for v in range(*body.results[index])
            if v not in body.outputs
            and (late := self.late(v))
            and late[0] > earliest
            and dependent[late[0]] >= 0
        ]
        if not values:
            return None
        makers, fixed, given = body.makers, self.fixed, body.outputs
        ops, reads = body.backward_slice(
            values, lambda v: makers[v] < start or makers[v] in fixed or v in given
        )
        first = min(self.late(v)[0] for v in values)
        after = body.results[dependent[first]][0]
        return Segment(ops, values, [*reads], self._tied(ops, reads), first, after)

    def _tied(self, ops: Sequence[int], reads: Iterable[int]) -> list[int]:
        """The reads that go through the fence: all values that ops have computed.  For an op that
        depends on none of these, its smallest function argument, such as a weight, as well."""
        tied = [v for v in reads if self.body.makers[v] is not None and self._is_computed(v)]
        waits = set(tied)
        for index in ops:
            operands = self.body.operands[index]
            if waits.isdisjoint(operands):
                arguments = [
                    v for v in operands if self.body.makers[v] is None and self._is_computed(v)
                ]
                if not arguments:
                    continue
                smallest = min(arguments, key=self.sizes.__getitem__)
                tied.append(smallest)
                waits.add(smallest)
            waits.update(range(*self.body.results[index]))
        return tied

    def _erase_unread(self) -> None:
        """Erases ops without readers: their only readers were late ones, which read copies now."""
        for index in reversed(range(len(self.body.ops))):
            op = self.body.ops[index].operation
            if index not in self.fixed and not any(map(is_used, op.results)):
                op.erase()

    def _begun(self, place: int) -> list[int]:
        """The values of the backward pass that would be fused into ops after a place, and are
        smaller than the inputs that would have to stay for that.  They count as stored from now on.
        """
        begun = []
        for index in range(self.turn + 1, place):
            (value, _), kernel = self.body.results[index], self.kernel[index]
            if kernel < place or self.body.users[value][0] < place:
                continue
            if not is_plain_array(self.body.types[value]):
                continue
            fused, freed = self._made_of(index, place)
            if sum(self.sizes[v] for v in freed) > self.sizes[value]:
                begun.append(value)
                for op in fused:
                    self.kernel[op] = index
        return begun

    def _made_of(self, index: int, place: int) -> tuple[set[int], set[int]]:
        """The ops in the fusion that computes an op before a place, and the inputs of the fusion
        that no other kernel reads after the place."""
        makers, kernel = self.body.makers, self.kernel
        ops, inputs = self.body.backward_slice(
            self.body.operands[index], lambda v: kernel[makers[v]] == makers[v]
        )
        fused = {index, *ops}
        freed = {
            v
            for v in inputs
            if makers[v] is not None
            and v not in self.body.outputs
            and all(r in fused or kernel[r] < place for r in self.body.users[v])
        }
        return fused, freed

    def _blank(self, start: int, end: int) -> dict[int, int]:
        """The filled arrays that are stored for ops between two places, each with its constant."""
        blank = {}
        for index in range(start, end):
            name = self.body.names[index]
            if name in FUSIBLE:
                continue
            for v in self.body.operands[index]:
                maker = self.body.makers[v]
                if maker is not None and self.body.names[maker] == "jaxpr.broadcast_in_dim":
                    number, *sizes = self.body.operands[maker]
                    is_of_number = not sizes and self._is_constant(number)
                    if is_of_number and self.sizes[v] > self.sizes[number]:
                        blank[v] = number
        return blank

    def _at(self, value: int, place: int) -> ir.Value:
        """A value, to be read at a place; a constant that is written later is copied there."""
        maker = self.body.makers[value]
        if maker is None or maker < place:
            return self.body.value(value)
        return self.body.copy(maker, [])[0]

    def _is_constant(self, value: int) -> bool:
        maker = self.body.makers[value]
        return maker is not None and self.body.names[maker] == "jaxpr.constant"

    def _is_computed(self, value: int) -> bool:
        return is_plain_array(self.body.types[value]) and not self._is_constant(value)

    def write(self, program: Module, segments: Sequence[Segment]) -> None:
        """Recomputes the values of all segments before they are read."""
        wait = waiting(program)
        ends = [*(segment.first for segment in segments[1:]), len(self.body.ops)]
        for segment, end in zip(segments, ends, strict=True):
            self._write(segment, end, wait)
        self._erase_unread()
        program.changed()

    def _write(self, segment: Segment, end: int, wait: WaitFence) -> None:
        """Recomputes the values of a segment before they are read.

        Args:
          end: the op before which the next segment is recomputed.
        """
        body = self.body
        size = sum(self.sizes[v] for v in segment.values)
        op = body.ops[segment.first]
        again = f"runs {count(len(segment.ops), 'op')} of the forward pass again"
        remark(op, f"{again}: {size:,.0f} bytes are not stored")
        begun = self._begun(segment.first)
        blank = self._blank(segment.first, end)
        values = {v: body.value(v) for v in segment.reads}
        with ir.InsertionPoint(op), op.location:
            others = [*dict.fromkeys((*begun, *blank.values()))]
            tied = [values[v] for v in segment.tied]
            waiting = [self._at(v, segment.first) for v in others]
            new, new_others = wait(tied, body.value(segment.after), waiting)
            values.update(zip(segment.tied, new, strict=True))
            waited = dict(zip(others, new_others, strict=True))
            body.copy_ops(segment.ops, values)
        for v in segment.values:
            body.replace_reads([v], self.late(v), values[v])
        for v in begun:
            body.replace_reads([v], self.body.users[v], waited[v])
        for v, number in blank.items():
            self._make_late(v, waited[number], segment.first, end)

    def _make_late(self, value: int, number: ir.Value, start: int, end: int) -> None:
        """Fills an array anew for each op between two places that reads it."""
        maker = self.body.makers[value]
        for reader in self.body.users[value]:
            if start <= reader < end:
                op = self.body.ops[reader]
                with ir.InsertionPoint(op):
                    (array,) = self.body.copy(maker, [number])
                self.body.replace_reads([value], [reader], array)


# -- The memory strategy that meets a budget --
#
# Strategies are tried until one meets the budget: the fastest programs first, those that take least
# memory last.  A program's memory is estimated by its memory profile, or reported by the compiler
# of JAX's default backend.  An estimate knows neither what a compiler fuses nor in which order it
# runs independent ops.  But the next estimate is off by about the same factor as the last one, so
# a strategy is compiled if the estimate times this factor is within the budget.


# An estimate of straight-line code has to be below the budget by this fraction of it.  At 0.05,
# programs took 0.41 to 0.60 of their memory for a budget of 0.5; at 0.2 up to 0.51, where they took
# less at all.
MARGIN = 0.25
# Saving less than this fraction of the least memory found is not worth a slower strategy.
MIN_GAIN = 0.005
# The most programs that are compiled besides the one as it is.  If none of them meets the budget,
# LAST strategies of the least estimates, two programs each, are compiled as well: these estimates
# can be off by less.
MOST = 8
LAST = 3
# The fractions of the budget that a tile of a batch may take.
TILES = (0.5, 0.125)


class MemoryStrategy(NamedTuple):
    """A way to make a program take less memory.

    Attributes:
      price: what a stored byte costs, beyond the time that it takes to store and read it.
      depth: how deep loops are segmented.
      tile_bytes: the bytes of a tile of a batch; ``None``: no batch is tiled.
      segments: the number of segments of straight-line code.
      fences: whether to store values that XLA would fuse into several ops and compute in each,
        unless their elements are cheap.  An op that such a value is fused into reads all that the
        value is computed from.  Memory of gradients with fences, as a fraction: stencils 0.14 to
        0.35, a residual network 0.6; but also 1.35.
    """

    price: float = 0.0
    depth: int = 0
    tile_bytes: int | None = None
    segments: int = 1
    fences: bool = True


# The strategies for loops.
_LOOPS = (
    *(MemoryStrategy(price) for price in (0.0, 1.0, 4.0, 16.0, 64.0, 1e3, 1e9)),
    *(MemoryStrategy(price, depth) for depth in (1, 2, 3) for price in (1.0, 64.0, 1e9)),
)


def within(
    program: Module, budget: float, measure: bool, apply: Callable[[Module, MemoryStrategy], bool]
) -> MemoryStrategy | None:
    """The first strategy that meets a budget, or else takes least memory; ``None``: none does
    better than the program as it is.

    Args:
      budget: a fraction of the memory that the program takes, or, from 2 on, bytes.
      measure: compile, rather than estimate.
      apply: applies a strategy to a program, in place.

    Warns where no strategy meets the budget.
    """
    said = budget if budget < 2 else in_units(budget)
    with progress(f"@{program.name} within a budget of {said}") as step:
        search = _BudgetSearch.of(program, budget, measure, apply, step)
        way = search.way()
    size, says = search.sizes.get(way), "the compiler"
    if size is None:
        size, says = search.estimates[way], "an estimate"
    message = (
        f"needs {in_units(size)} of temporary memory, by {says}; the budget is "
        f"{in_units(search.allowed)}"
    )
    remark(program.function(program.name).operation, message)
    if size > search.allowed:
        warn(f"@{program.name} {message}")
    return way


@dataclass(eq=False)
class _BudgetSearch:
    """The strategies that were tried for a program.

    Attributes:
      step: reports the progress.
      allowed: the bytes that the program may take.
      off: the factor that estimates are off by; ``None``: nothing is compiled.
      estimates: the estimated bytes of strategies, in the order in which these were tried.
      sizes: the bytes that the compiler reports for strategies.
      known: the bytes that the compiler reports for programs, by their bytecode.
      left: how many more programs may be compiled.
    """

    program: Module
    apply: Callable[[Module, MemoryStrategy], bool]
    step: ProgressReporter
    allowed: float
    off: float | None
    estimates: dict[MemoryStrategy | None, float]
    sizes: dict[MemoryStrategy | None, float] = field(default_factory=dict)
    known: dict[bytes, float] = field(default_factory=dict)
    left: int = MOST

    @classmethod
    def of(
        cls,
        program: Module,
        budget: float,
        measure: bool,
        apply: Callable[[Module, MemoryStrategy], bool],
        step: ProgressReporter,
    ) -> _BudgetSearch:
        estimate, size = peak_beside_results(program), None
        if measure:
            step("compiling the program as it is")
            try:
                size = _compiled(program)
            except _NOT_COMPILED as e:
                why = message_of(e).partition("\n")[0]
                remark(program.function(program.name).operation, f"memory is estimated: {why}")
        now = estimate if size is None else size
        allowed = budget if budget >= 2 else budget * now
        search = cls(program, apply, step, allowed, None, {None: estimate})
        if size is not None:
            search.off = size / max(estimate, 1.0)
            search.sizes[None] = search.known[module_bytecode(program.module)] = size
        return search

    def way(self) -> MemoryStrategy | None:
        """The first strategy that meets the budget, or else takes least memory."""
        for way in self._ways():
            chosen = self._estimated(way)
            if chosen is not None:
                return chosen
        if self.off is None:
            return _first_of_least(self.estimates)
        self.left = 2 * LAST
        for way in sorted(self.estimates, key=self.estimates.__getitem__)[:LAST]:
            chosen = None if way in self.sizes else self._measured(way)
            if chosen is not None:
                return chosen
        return _first_of_least(self.sizes)

    def _ways(self) -> Iterator[MemoryStrategy]:
        """The strategies, from the fastest programs to those that take least memory."""
        have_loops = analyses_of(self.program).graph.outside_kernels(SCANS)
        yield from _LOOPS if have_loops else _LOOPS[:1]
        least = self._least()
        for share in TILES:
            yield least._replace(tile_bytes=int(share * self.allowed))
        least = self._least()
        for segments in SEGMENTS:
            yield least._replace(segments=segments)

    def _least(self) -> MemoryStrategy:
        """The strategy with the least estimate."""
        return min(self.estimates, key=self.estimates.__getitem__) or MemoryStrategy()

    def _gone(self, way: MemoryStrategy) -> Module:
        trial = self.program.clone()
        with unheard():
            self.apply(trial, way)
        return trial

    def _estimated(self, way: MemoryStrategy) -> MemoryStrategy | None:
        """The strategy, if it meets the budget.  Only the first is compiled even if it is not
        expected to meet it, because estimates don't cover what fences do."""
        self.step(f"estimating strategy {len(self.estimates)}")
        trial = self._gone(way._replace(fences=False))
        estimate = self.estimates[way] = peak_beside_results(trial)
        if self.off is None:
            margin = MARGIN if way.segments > 1 else 0
            return way if estimate <= (1 - margin) * self.allowed else None
        is_first = len(self.sizes) == 1
        if not is_first and (estimate * self.off > self.allowed or not self.left):
            return None
        return self._measured(way)

    def _measured(self, way: MemoryStrategy) -> MemoryStrategy | None:
        """The strategy, with fences or else without, if the compiler says it meets the budget."""
        estimate, sizes = self.estimates[way], []
        for fences in (True, False):
            way = way._replace(fences=fences)
            trial = self._gone(way)
            code = module_bytecode(trial.module)
            if code not in self.known:
                if not self.left:
                    break
                self.left -= 1
                self.step(f"compiling strategy {len(self.estimates) - 1}")
                self.known[code] = _compiled(trial)
            self.sizes[way] = self.known[code]
            if self.sizes[way] <= self.allowed:
                return way
            sizes.append(self.sizes[way])
        if sizes:
            self.off = min(sizes) / max(estimate, 1.0)
        return None


def _first_of_least(sizes: dict[MemoryStrategy | None, float]) -> MemoryStrategy | None:
    least = min(sizes.values())
    return next(way for way, size in sizes.items() if size <= (1 + MIN_GAIN) * least)


# The errors of lowering and compiling a program that JAX's default backend cannot run: jaxmlir's
# own for ops, JAX's and XLA's.
_NOT_COMPILED = (JaxmlirError, RuntimeError, ValueError, NotImplementedError)


def _compiled(program: Module) -> float:
    """The bytes that a program takes besides arguments and results, as the compiler reports."""
    if not targets.is_here(program.target):
        raise NotImplementedError(f"there is no compiler for {program.target} here")
    analysis = program.lower().compile().memory_analysis()
    if analysis is None:
        raise NotImplementedError("the compiler does not report how much memory a program takes")
    return float(analysis.temp_size_in_bytes)

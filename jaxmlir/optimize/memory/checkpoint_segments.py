"""``jaxpr-checkpoint-segments``: a forward pass is run again, a segment at a time, where memory is
not at hand.

A C library keeps freed blocks of up to 32 MiB for the next call.  Where the values that a backward
pass reads take several times as much, each call maps memory anew, which is filled with zeros before
it is written, and that takes longer than to compute most of them a second time::

    a = f(x);  b = g(a);  ...  late(a, b, ct)
    ->   a = f(x);  b = g(a);  ...  x = wait(x, ct);  a = f(x);  b = g(a);  late(a, b, ct)

The segments are those of a memory budget (:mod:`jaxmlir.optimize.memory.straight`), in as
small a number as gets along with a block that is kept.  What is in memory when is known of the
steps of the function (:mod:`jaxmlir.optimize.memory.profile`): a value that is
computed again is not there from its last reader in the forward pass to its segment of the backward
pass; what its segment starts from is.

Time and temporary memory of gradients after and before, jax 0.10 and 0.12: a residual network 0.82
and 0.81, and 0.47; a transformer of 48 unrolled layers 0.89 and 0.78, and 0.12.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

import numpy as np

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.optimize.memory.profile import Timeline, is_short, total
from jaxmlir.optimize.memory.straight import SEGMENTS, Segment, StraightLine
from jaxmlir.passes.base import Amount, Count, Pass

# How many numbers of segments are looked at, from the least one that could do.
TRIED = 4


class CheckpointSegments(Pass):
    """Run straight-line forward passes again, a segment at a time, where that saves time.

    Options:
      min-peak: programs that need fewer bytes at once store what their derivative reads; by
        default twice of what the library keeps.
      calls: how often the program is taken to be called: what is computed again has to save the
        time that it takes to compile within so many calls.
    """

    name: ClassVar[str] = "jaxpr-checkpoint-segments"
    # Memory of other devices is not mapped anew.
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    # What is computed again may be a sum over devices.
    partitioned: ClassVar = False
    min_peak: Count | None = None
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        costs, min_peak, changed = program.target.costs, self.min_peak, False
        if min_peak is None:
            # How long mapping takes depends on whether the system has large pages left: attention
            # that takes 33 MiB takes 0.6 to 1.2 times as long in segments, from one process to the
            # next.
            min_peak = 2 * costs.kept_block
        if total(program) < min_peak:
            return False
        for symbol in analyses_of(program).graph.entry_points():
            if not is_short(program, program.function(symbol)):
                continue
            steps = Timeline(program, program.function(symbol))
            most = steps.peak
            if most < max(min_peak, 1):
                continue
            line = StraightLine.of(program, symbol)
            segments, saved = _paying(line, steps, most, Prices(program, fence=costs.call))
            again = sum(len(part.ops) for part in segments)
            if segments and CompileTime(program, self.calls).pays(symbol, again, saved):
                line.write(program, segments)
                changed = True
        return changed


def _paying(
    line: StraightLine, steps: Timeline, most: float, prices: Prices
) -> tuple[list[Segment], float]:
    """The segments that save most time, and how many nanoseconds; none, if none do."""
    costs = prices.program.target.costs
    enough = [number for number in SEGMENTS if most <= number * costs.kept_block]
    best, gain = list[Segment](), 0.0
    for number in enough[:TRIED] or SEGMENTS[-1:]:
        segments = line.segments(number)
        left = memory_in_segments(segments, line, steps).max()
        is_kept = left <= costs.kept_block
        again = sum(prices.at(line.body, index) for part in segments for index in part.ops)
        saved = (most if is_kept else most - left) * costs.mapped_byte - again
        if saved > gain:
            best, gain = segments, saved
        if is_kept:
            break
    return best, gain


def memory_in_segments(segments: list[Segment], line: StraightLine, steps: Timeline) -> np.ndarray:
    """What each step needs, if segments are run again."""
    placed = [(part, bisect_left(steps.view.tops, part.first)) for part in segments]
    early = steps.unread({steps.number(v): place for part, place in placed for v in part.values})
    change = np.zeros(len(steps.view.ops) + 1)
    for part, place in placed:
        spans = [(place, steps.ends[n], n) for n in map(steps.number, part.values)]
        spans += [(early.ends[n] + 1, place, n) for n in map(steps.number, part.reads)]
        for start, end, value in spans:
            if start <= end and steps.is_counted(value):
                change[start] += steps.sizes[value]
                change[end + 1] -= steps.sizes[value]
    return early.bytes + np.cumsum(change[:-1])

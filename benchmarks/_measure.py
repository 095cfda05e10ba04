"""Timing two implementations side by side, and what is kept of it.

The two take turns in one process, so that what the machine does meanwhile hits both.  What a
comparison reports is the ratio of their medians; the spread says how far to trust it.
"""

from __future__ import annotations

import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

Work = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds (or bytes) that the repetitions of one side took."""

    min: float
    median: float
    max: float

    @staticmethod
    def of(values: list[float]) -> Timing:
        return Timing(min(values), statistics.median(values), max(values))


NOTHING = Timing(math.nan, math.nan, math.nan)


class Sides(NamedTuple):
    """What JAX and jaxmlir took, in what respect they were compared, or why they were not."""

    jax: Timing
    jaxmlir: Timing
    note: str = ""
    error: str = ""
    bound: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One row of the results.

    Attributes:
      measure: what was measured: ``import``, ``lower`` ...
      program: the name of the program.
      jax, jaxmlir: what both sides took.
      target: the ratio of medians that jaxmlir promises not to exceed, if it does.
      equations: how many there are in the program, those of called functions not counted.
      group: the set that the program belongs to, ``plain``, ``naive`` ...; summaries are by set.
      unit: what the numbers are: seconds, ``s``, or bytes, ``B``.
      note: what else there is to say of the two.
      error: why a side's result is no good, or that it has none; then the timings are NaN.
      bound: the least that either could take (:mod:`benchmarks._bound`), where that is known.
    """

    measure: str
    program: str
    jax: Timing
    jaxmlir: Timing
    target: float | None
    equations: int
    group: str = "plain"
    unit: str = "s"
    note: str = ""
    error: str = ""
    bound: float | None = None

    @property
    def ratio(self) -> float:
        return self.jaxmlir.median / self.jax.median


def side_by_side(
    prepare: Callable[[], tuple[Work, Work]],
    repetitions: int,
    *,
    calls: int = 1,
    call_seconds: float = 0.0,
    in_order: bool = False,
    warm_up: int = 1,
    seconds: float = math.inf,
    least_seconds: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Sides:
    """Times two pieces of work in turn.

    Args:
      prepare: makes both, for one repetition; not timed.  It leaves nothing behind that would
        let a later repetition find its work done.
      repetitions: how many timings there are of each, and more until `least_seconds` are over.
      calls: how often one timing calls the work; the timing is their mean.
      call_seconds: one timing calls it until so long is over, after a call that is not counted: for
        work that is short, and slower the first time after something else was done.
      in_order: the second needs what the first leaves; otherwise each goes first in turn.
      warm_up: so many rounds come first and are not counted.
      seconds: no round is begun after so long, once one is counted.
      clock: ``time.thread_time`` for work that one thread does, ``time.process_time`` for work of
        several, as other processes slow these less than the clock on the wall.
    """
    times: tuple[list[float], list[float]] = ([], [])
    start = time.monotonic()
    for i in itertools.count(-warm_up):
        elapsed = time.monotonic() - start
        if i > 0 and (elapsed > seconds or (i >= repetitions and elapsed > least_seconds)):
            break
        works = prepare()
        for side in (0, 1) if in_order or i % 2 else (1, 0):
            timing = _seconds(works[side], calls, clock, call_seconds)
            if i >= 0:
                times[side].append(timing)
    return Sides(Timing.of(times[0]), Timing.of(times[1]))


def _seconds(
    work: Work, calls: int, clock: Callable[[], float], least_seconds: float = 0.0
) -> float:
    """Seconds per call; the garbage collector runs before, not meanwhile (as in ``timeit``)."""
    gc.collect()
    gc.disable()
    try:
        if least_seconds:
            work()
        start = clock()
        for count in itertools.count(1):
            work()
            seconds = clock() - start
            if count >= calls and seconds >= least_seconds:
                return seconds / count
    finally:
        gc.enable()

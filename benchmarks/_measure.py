"""Times two implementations side by side, and defines the results.

The two take turns in one process, so that other work on the machine affects both.  A comparison
reports the ratio of their medians; the spread shows how far to trust it.
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
    """The seconds (or bytes) of the repetitions of one side."""

    min: float
    median: float
    max: float

    @staticmethod
    def of(values: list[float]) -> Timing:
        return Timing(min(values), statistics.median(values), max(values))


NOTHING = Timing(math.nan, math.nan, math.nan)


class Sides(NamedTuple):
    """The timings of JAX and jaxmlir, with a note, or an error if they could not be compared."""

    jax: Timing
    jaxmlir: Timing
    note: str = ""
    error: str = ""
    bound: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One row of the results.

    Attributes:
      measure: the name of the measure: ``import``, ``lower`` ...
      program: the name of the program.
      jax, jaxmlir: the timings of both sides.
      target: the ratio of medians that jaxmlir promises not to exceed, if any.
      equations: the number of equations in the program, without those of called functions.
      group: the set that the program belongs to, ``plain``, ``naive`` ...; summaries are by set.
      unit: the unit of the numbers: seconds, ``s``, or bytes, ``B``.
      note: a remark about the two.
      error: why a side has a wrong result or none; then the timings are NaN.
      bound: a lower bound for either side (:mod:`benchmarks._bound`), if known.
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
    before: Callable[[], Any] = lambda: None,
) -> Sides:
    """Times two pieces of work in turn.

    Args:
      prepare: makes both pieces for one repetition; not timed.  It must not cache anything that
        would let a later repetition find its work done.
      repetitions: the number of timings of each, or more until `least_seconds` are over.
      calls: how often one timing calls the work; the timing is the mean of the calls.
      call_seconds: one timing calls the work for so long, after a call that is not counted: for
        short work that is slower the first time after other work.
      in_order: the first always runs first, because the second needs its result; otherwise each
        goes first in turn.
      warm_up: the number of rounds at the start that are not counted.
      seconds: no round begins after so much CPU time, once one is counted.
      clock: ``time.thread_time`` for work of one thread, ``time.process_time`` for work of several,
        because other processes affect these less than the wall clock.
      before: called before each timing of either; not timed.
    """
    times: tuple[list[float], list[float]] = ([], [])
    start = time.process_time()
    for i in itertools.count(-warm_up):
        elapsed = time.process_time() - start
        if i > 0 and (elapsed > seconds or (i >= repetitions and elapsed > least_seconds)):
            break
        works = prepare()
        for side in (0, 1) if in_order or i % 2 else (1, 0):
            before()
            timing = _seconds(works[side], calls, clock, call_seconds)
            if i >= 0:
                times[side].append(timing)
    return Sides(Timing.of(times[0]), Timing.of(times[1]))


def _seconds(
    work: Work, calls: int, clock: Callable[[], float], least_seconds: float = 0.0
) -> float:
    """Seconds per call; garbage is collected before, and not during calls (as in ``timeit``)."""
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

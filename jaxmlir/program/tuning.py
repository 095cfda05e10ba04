"""Measured choice: of a few forms of a function, the one that runs fastest on the device here.

A cost model may be wrong about a program or a machine.  So the candidates are compiled, called in
turns on the given arguments, and timed::

    jax.jit                          the function as it is: the reference for the others
    levels 1 and 2
    level 2 without a pass           the passes that made the most remarks, one left out each
    level 2 in half of the memory    for a program that needs much memory

Candidates that compile to the same code are timed once, and a candidate whose results differ from
those of ``jax.jit`` is dropped.  After some rounds, a candidate that is slower than another (by the
Mann-Whitney rank test on the times of both) is no longer timed.  When one is left, or the time is
up, the plainest candidate is chosen, unless another one is faster by the same test.  So whatever a
cost model predicts, the choice is no slower than ``jax.jit``, up to measurable differences.
"""

from __future__ import annotations

import collections
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jaxmlir.errors import Diagnostic
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.progress import is_seen, progress
from jaxmlir.support.warn import warn

if TYPE_CHECKING:
    from jaxmlir.passes.remarks import Sink

SECONDS = 10.0
"""How many seconds candidates are timed by default; compiling them comes on top."""
GAIN = 0.01
"""The fraction of a plainer candidate's time that a candidate has to save."""
SIGNIFICANCE = 0.005
"""The significance level of the test: the p-value below which a candidate counts as faster."""
LOOKS = (5, 8, 12, 18, 27, 40)
"""The rounds after which the times are compared; the last one ends the trial."""
_LONG = 2e-3
"""Seconds that the calls of one sample take together, so that the clock's resolution is enough."""
_HOPELESS = 1.5
"""A candidate that is slower by this factor is dropped after two rounds."""
_MUCH_MEMORY = 1 << 20
"""From this many bytes of temporaries on, a form that needs half of them may be faster."""


class Choice(NamedTuple):
    """A form of a function: how it is optimized before it is compiled.

    Attributes:
      level: the optimization level; 0 is the function as it is.
      without: passes of that level that do not run.
      memory_budget: the budget of ``jaxpr-remat``, if there is one.
    """

    level: int
    without: tuple[str, ...] = ()
    memory_budget: float | None = None

    def __str__(self) -> str:
        name = f"level {self.level}" if self.level else "jax.jit"
        if self.without:
            name += f" without {', '.join(self.without)}"
        return name if self.memory_budget is None else f"{name}, {self.memory_budget} of the memory"


class Candidate:
    """A choice while it is tried.

    Attributes:
      call: a function like one of ``jax.jit``.
      times: the seconds per call, one number for each round.
      note: the reason why it is no longer timed, if so.
      warned: the warnings made when it was lowered, which are shown if it is chosen.
    """

    def __init__(self, choice: Choice, call: Any):
        self.choice, self.call = choice, call
        self.times: list[float] = []
        self.note = ""
        self.warned: list[warnings.WarningMessage] = []

    @property
    def median(self) -> float:
        return float(np.median(self.times)) if self.times else math.inf

    def is_faster_than(self, other: Candidate) -> bool:
        """Whether the times show that a call is faster, by more than ``GAIN``."""
        # Imported here, since it takes long.
        from scipy.stats import mannwhitneyu

        times = [seconds * (1 - GAIN) for seconds in other.times]
        test = mannwhitneyu(self.times, times, alternative="less", method="exact")
        return test.pvalue < SIGNIFICANCE

    def is_hopeless_beside(self, other: Candidate) -> bool:
        return min(self.times) > _HOPELESS * max(other.times)


# -- the candidates --------------------------------------------------------------------------------


def plan(without: Iterable[str], said: Mapping[str, int], temporaries: int) -> Iterator[Choice]:
    """The choices to try after ``jax.jit`` and levels 1 and 2, at most three.

    Args:
      without: passes that run in no form.
      said: how many remarks each pass made about the program.
      temporaries: the bytes that ``jax.jit``'s form takes besides arguments and results.
    """
    from jaxmlir.passes.levels import CLEAN_UP

    without = tuple(without)
    names = [name for name, _ in collections.Counter(said).most_common() if name not in CLEAN_UP]
    if temporaries >= _MUCH_MEMORY:
        yield Choice(2, without, 0.5)
    for name in names[:2]:
        yield Choice(2, (*without, name))
    if len(names) > 2 and temporaries < _MUCH_MEMORY:
        yield Choice(2, (*without, names[0], names[1]))


CHOSEN = "chosen"


class Row(NamedTuple):
    """The findings for a candidate.

    Attributes:
      seconds: the median time of a call; infinite if it was not timed.
      ratio: the ratio of this time to ``jax.jit``'s.
      note: the reason why it was not timed to the end, or that it was chosen.
    """

    choice: Choice
    seconds: float
    ratio: float
    note: str

    def __str__(self) -> str:
        times = f"{self.seconds * 1e3:.3f} ms, {self.ratio:.2f} of jax.jit's"
        parts = [times] if math.isfinite(self.seconds) else []
        return f"{self.choice}: {', '.join([*parts, *filter(None, [self.note])])}"


class Trial:
    """Candidates, compiled and timed on some arguments.

    Args:
      name: the name of the function, for progress messages.
      make: makes the form of a choice, like a function of ``jax.jit``; its second argument takes
        the remarks of passes.
      arguments: gives positional and keyword arguments for one call, which it may consume.
      may_repeat: whether calls leave the arguments as they are.
      seconds: how long to time.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[Choice, Sink], Any],
        arguments: Callable[[], tuple[Sequence[Any], Mapping[str, Any]]],
        *,
        without: Iterable[str] = (),
        may_repeat: bool = True,
        seconds: float = SECONDS,
    ):
        self.candidates: list[Candidate] = []
        self._name, self._make, self._arguments = name, make, arguments
        self._without, self._seconds = tuple(without), seconds
        self._may_repeat = may_repeat
        self._by_code: dict[Any, Candidate] = {}
        self._reference: Any = None

    def run(self) -> Choice:
        """Compiles and times the candidates, and returns the choice.  An error in level 0 is passed
        on; other forms that cannot be compiled are left out."""
        with progress(f"tuning {self._name}") as say:
            temporaries = self._compile(Choice(0), say, {})
            said: dict[str, int] = {}
            for level in (1, 2):
                self._compile(Choice(level, self._without), say, said)
            for choice in plan(self._without, said, temporaries):
                self._compile(choice, say, {})
            self._reference = None
            best = self._time(say)
        is_fastest = best.median <= min(c.median for c in self.candidates)
        best.note = CHOSEN if is_fastest else f"no other is measurably faster, {CHOSEN}"
        for warning in best.warned:
            place = warning.filename, warning.lineno
            warnings.warn_explicit(warning.message, warning.category, *place)
        if is_seen():
            print(f"tune {self._name}", *self.rows(), sep="\n  ", file=sys.stderr)
        return best.choice

    def rows(self) -> list[Row]:
        """The findings for each candidate."""
        plain = self.candidates[0].median
        return [Row(c.choice, c.median, c.median / plain, c.note) for c in self.candidates]

    def _compile(self, choice: Choice, say: Callable[[str], None], said: dict[str, int]) -> int:
        """Adds a candidate, compiles it and calls it once; returns its bytes of temporaries, and
        enters the number of remarks of each pass into ``said``."""
        from jaxmlir.passes.remarks import heard_by

        say(f"compiling {choice}")

        def count(remark: Diagnostic) -> None:
            name, _, text = remark.message.removeprefix("[").partition("] ")
            if name.startswith("jaxpr-") and not text.startswith("skipped"):
                said[name] = said.get(name, 0) + 1

        candidate = Candidate(choice, None)
        self.candidates.append(candidate)
        try:
            candidate.call = self._make(choice, count)
            args, kwargs = self._arguments()
            heard = heard_by(lambda remark, op: count(remark), "jit")
            with heard, warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                lowered = candidate.call.lower(*args, **kwargs)
            # The budget is only a try, so a warning that it is exceeded is of no interest.
            candidate.warned = warned if choice.memory_budget is None else []
            if self._is_known(lowered.as_text(), candidate):
                return 0
            compiled = lowered.compile()
            if self._is_known(_code(compiled), candidate):
                return 0
            result = jax.block_until_ready(candidate.call(*args, **kwargs))
        except Exception as error:
            if choice.level == 0:
                raise
            candidate.note = f"cannot be compiled: {type(error).__name__}: {error}".split("\n")[0]
            return 0
        if choice.level == 0:
            self._reference = result
        else:
            candidate.note = difference(self._reference, result)
        if candidate.note:
            warn(
                f"tune: {self._name} at {choice} is left out, since its results differ from those "
                f"of jax.jit: {candidate.note}"
            )
        return _temporaries(compiled)

    def _is_known(self, code: Any, candidate: Candidate) -> bool:
        """Whether a plainer candidate has the same code."""
        other = self._by_code.setdefault(code, candidate)
        if other is not candidate:
            candidate.note = f"the same as {other.choice}"
        return other is not candidate

    def _time(self, say: Callable[[str], None]) -> Candidate:
        """Times the candidates; returns the one that is chosen."""
        running = [c for c in self.candidates if not c.note]
        best, until = running[0], time.monotonic() + self._seconds
        # The same number for all: a call right after others takes less time.
        repeats = self._repeats(min(self._sample(c, 1) for c in running))
        for number in range(1, LOOKS[-1] + 1):
            if len(running) == 1 or (number > LOOKS[0] and time.monotonic() > until):
                break
            say(f"timing {len(running)} candidates, round {number}")
            # Each candidate goes first in turn.
            start = number % len(running)
            for candidate in (*running[start:], *running[:start]):
                candidate.times.append(self._sample(candidate, repeats))
            if number == 2:
                fastest = min(running, key=lambda c: c.median)
                self._drop([c for c in running if c.is_hopeless_beside(fastest)], running)
            elif number in LOOKS:
                best = best_of(running)
                self._drop([c for c in running if best.is_faster_than(c)], running)
        return best_of(running) if len(running) > 1 else running[0]

    def _drop(self, dropped: list[Candidate], running: list[Candidate]) -> None:
        for candidate in dropped:
            candidate.note = "slower than the fastest"
            running.remove(candidate)

    def _repeats(self, seconds: float) -> int:
        """How many calls make a sample, for a given time per call."""
        return max(1, min(100, math.ceil(_LONG / seconds))) if self._may_repeat else 1

    @collector_paused
    def _sample(self, candidate: Candidate, repeats: int) -> float:
        """The seconds per call, measured over ``repeats`` calls."""
        args, kwargs = jax.block_until_ready(self._arguments())
        start = time.perf_counter()
        for _ in range(repeats):
            jax.block_until_ready(candidate.call(*args, **kwargs))
        return (time.perf_counter() - start) / repeats


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """The plainest candidate such that no later one is faster by the test."""
    best, *others = candidates
    for candidate in others:
        if candidate.is_faster_than(best):
            best = candidate
    return best


def _code(compiled: Any) -> Any:
    """The compiled HLO text without source locations; a unique object if there is no text."""
    try:
        return re.sub(r", metadata=\{[^{}]*\}", "", compiled.as_text())
    except Exception:  # Not all backends print.
        return object()


def _temporaries(compiled: Any) -> int:
    try:
        return compiled.memory_analysis().temp_size_in_bytes
    except Exception:  # Not all backends tell.
        return 0


def difference(expected: Any, actual: Any) -> str:
    """How results differ by more than rounding, in words; empty if they do not.  Floats may differ
    by the square root of their precision, relative to the array's largest number."""
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True)
    for number, (a, b) in enumerate(pairs):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = map(jax.random.key_data, (a, b))
        text = _difference(np.asarray(a), np.asarray(b))
        if text:
            return f"in result {number}, {text}"
    return ""


def _difference(expected: np.ndarray, actual: np.ndarray) -> str:
    dtype = expected.dtype
    if not jax.dtypes.issubdtype(dtype, np.inexact):
        wrong = np.count_nonzero(expected != actual)
        return f"{wrong} of {expected.size} {dtype} elements differ" if wrong else ""
    wide = np.complex128 if jax.dtypes.issubdtype(dtype, np.complexfloating) else np.float64
    expected, actual = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], actual[~finite], equal_nan=True):
        return "the non-finite elements differ"
    expected, actual = expected[finite], actual[finite]
    if not expected.size:
        return ""
    tolerance = math.sqrt(float(jax.numpy.finfo(dtype).eps))
    error, scale = np.max(np.abs(actual - expected)), np.max(np.abs(expected))
    # Negated, so that it is true for a NaN.
    if not error <= tolerance * scale:
        return f"elements differ by up to {error:.3g}, at magnitudes up to {scale:.3g}"
    return ""

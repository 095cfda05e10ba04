"""Measured choice: of a few forms of a function, the one that runs fastest on the device here.

A cost model may be wrong about a program, or a machine.  So the candidates are compiled, called on
the arguments that are given, in turns, and timed::

    jax.jit                          the function as it is: what the others are held against
    levels 1 and 2
    level 2 without a pass           those that said most about the program, one left out each
    level 2 in half of the memory    of a program that needs much

What compiles to the same code is timed once, and what gives other numbers than ``jax.jit`` is
dropped.  After some rounds, a candidate that is slower than another (by the rank test of Mann and
Whitney on the times of both) is timed no more; when one is left, or the time is up, the plainest is
chosen that no other is faster than by such a test.  So whatever a cost model believes, the choice
is no slower than ``jax.jit``, up to what can be told apart.
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
"""How long candidates are timed by default, besides what compiling them takes."""
GAIN = 0.01
"""What a candidate has to save of a plainer one's time."""
SIGNIFICANCE = 0.005
"""How probable such times may be of two candidates of which the plainer one is as fast."""
LOOKS = (5, 8, 12, 18, 27, 40)
"""The rounds after which the times are compared; the last one ends it."""
_LONG = 2e-3
"""Seconds that the calls of one sample take together, so that the clock does not matter."""
_HOPELESS = 1.5
"""How many times slower a candidate is that is timed no more after two rounds."""
_MUCH_MEMORY = 1 << 20
"""Bytes of temporaries from which a form that gets along with half may be faster."""


class Choice(NamedTuple):
    """A form of a function: what is done to it before it is compiled.

    Attributes:
      level: the optimization level; 0 is the function as it is.
      without: passes of that level that do not run.
      memory_budget: of ``jaxpr-remat``, where it has one.
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
      call: a function like that of ``jax.jit``.
      times: seconds of a call, one of each round.
      note: why it is not timed any more, if so.
      warned: what was warned of, which is of interest if it is chosen.
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
        """Whether times tell that a call takes less, by more than ``GAIN``."""
        # It takes long to import.
        from scipy.stats import mannwhitneyu

        times = [seconds * (1 - GAIN) for seconds in other.times]
        test = mannwhitneyu(self.times, times, alternative="less", method="exact")
        return test.pvalue < SIGNIFICANCE

    def is_hopeless_beside(self, other: Candidate) -> bool:
        return min(self.times) > _HOPELESS * max(other.times)


# -- what is tried ---------------------------------------------------------------------------------


def plan(without: Iterable[str], said: Mapping[str, int], temporaries: int) -> Iterator[Choice]:
    """The choices to try after ``jax.jit`` and levels 1 and 2, at most three.

    Args:
      without: passes that do not run in any.
      said: how many remarks each pass made about the program.
      temporaries: bytes that ``jax.jit``'s form takes besides arguments and results.
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
    """What was found of a candidate; the time of what was not timed is infinite.

    Attributes:
      seconds: the median of a call.
      ratio: that to ``jax.jit``'s.
      note: why it was not timed to the end, or that it was chosen.
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
      name: of the function, for progress.
      make: gives the form of a choice, like a function of ``jax.jit``; what passes say is handed to
        its second argument.
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
        """Compiles and times the candidates, and gives the choice.

        Raises what the function raises as it is; forms that cannot be compiled are left out.
        """
        with progress(f"tuning {self._name}") as say:
            temporaries = self._compile(Choice(0), say, {})
            said: dict[str, int] = {}
            for level in (1, 2):
                self._compile(Choice(level, self._without), say, said)
            for choice in plan(self._without, said, temporaries):
                self._compile(choice, say, {})
            self._reference = None
            best = self._time(say)
        best.note = CHOSEN
        for warning in best.warned:
            place = warning.filename, warning.lineno
            warnings.warn_explicit(warning.message, warning.category, *place)
        if is_seen():
            print(f"tune {self._name}", *self.rows(), sep="\n  ", file=sys.stderr)
        return best.choice

    def rows(self) -> list[Row]:
        """What was found of each candidate."""
        plain = self.candidates[0].median
        return [Row(c.choice, c.median, c.median / plain, c.note) for c in self.candidates]

    def _compile(self, choice: Choice, say: Callable[[str], None], said: dict[str, int]) -> int:
        """Adds a candidate, called once; how many bytes of temporaries it takes.

        Args:
          said: gets the number of remarks of each pass.
        """
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
            # That it takes more than a budget to be tried is no reason not to try.
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
                f"tune: {self._name} at {choice} is left out, since it gives other numbers than "
                f"jax.jit: {candidate.note}"
            )
        return _temporaries(compiled)

    def _is_known(self, code: Any, candidate: Candidate) -> bool:
        """Whether a plainer candidate has the same code."""
        other = self._by_code.setdefault(code, candidate)
        if other is not candidate:
            candidate.note = f"the same as {other.choice}"
        return other is not candidate

    def _time(self, say: Callable[[str], None]) -> Candidate:
        """The candidate that is chosen."""
        running = [c for c in self.candidates if not c.note]
        best, until = running[0], time.monotonic() + self._seconds
        # As many for all: a call that follows others takes less.
        repeats = self._repeats(min(self._sample(c, 1) for c in running))
        for number in range(1, LOOKS[-1] + 1):
            if len(running) == 1 or (number > LOOKS[0] and time.monotonic() > until):
                break
            say(f"timing {len(running)} candidates, round {number}")
            # Each goes first in turn.
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
        """How many calls make a sample, of such that take so long."""
        return max(1, min(100, math.ceil(_LONG / seconds))) if self._may_repeat else 1

    @collector_paused
    def _sample(self, candidate: Candidate, repeats: int) -> float:
        """Seconds of a call."""
        args, kwargs = jax.block_until_ready(self._arguments())
        start = time.perf_counter()
        for _ in range(repeats):
            jax.block_until_ready(candidate.call(*args, **kwargs))
        return (time.perf_counter() - start) / repeats


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """The plainest that none after it is told to be faster than."""
    best, *others = candidates
    for candidate in others:
        if candidate.is_faster_than(best):
            best = candidate
    return best


def _code(compiled: Any) -> Any:
    """What XLA has compiled, without where it came from; of what cannot tell, nothing else's."""
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
    """How results differ by more than rounding does; empty where they do not.

    Floats agree within the square root of their precision, relative to the largest of an array.
    """
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
        return f"{wrong} of {expected.size} {dtype} differ" if wrong else ""
    wide = np.complex128 if jax.dtypes.issubdtype(dtype, np.complexfloating) else np.float64
    expected, actual = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], actual[~finite], equal_nan=True):
        return "what is no finite number differs"
    expected, actual = expected[finite], actual[finite]
    if not expected.size:
        return ""
    tolerance = math.sqrt(float(jax.numpy.finfo(dtype).eps))
    error, scale = np.max(np.abs(actual - expected)), np.max(np.abs(expected))
    # Also where it is no number.
    if not error <= tolerance * scale:
        return f"by {error:.3g}, of numbers up to {scale:.3g}"
    return ""

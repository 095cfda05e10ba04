"""Looks at one op at a time: finds the first NaN, stops in a debugger, describes values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.dialect import ops, primitives
from jaxmlir.dialect.module import check_program
from jaxmlir.errors import ArgumentError, nearest
from jaxmlir.interpret.interpreter import Hook, Step

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def host(value: Any) -> np.ndarray | None:
    """A value as a numpy array; ``None`` if it has no numbers to look at (a key, a reference).

    For a value inside a ``shard_map``, the parts of all devices along a new first axis.
    """
    if isinstance(value, core.Tracer):
        value = getattr(value, "val", None)
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType) or dtype == dtypes.float0:
        return None
    return np.asarray(value) if isinstance(value, (jax.Array, np.ndarray, np.generic)) else None


def comparable(value: Any) -> np.ndarray | None:
    """A value as a numpy array, or the data of random keys; ``None`` if there is neither."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        value = value.val if isinstance(value, core.Tracer) else value
        return np.asarray(jax.random.key_data(value))
    return host(value)


def check(program: Any, args: Any, kwargs: Any) -> None:
    """Checks that there is a program, and that the arguments have numbers to look at.

    Raises:
      ArgumentError: the program is a function, or the arguments are values that JAX is tracing.
    """
    check_program(program)
    for value in jax.tree.leaves((args, kwargs)):
        if isinstance(value, core.Tracer):
            raise ArgumentError(
                f"expected arrays of known values, got {value}: look into the program outside of "
                "jax.jit, jax.grad and other transformations"
            )


def is_inexact(array: np.ndarray) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact))


@dataclass(frozen=True)
class Range:
    """The range of an array's numbers."""

    type: str
    """The array's type: ``f32[3,4]``."""
    size: int
    minimum: float
    """The smallest real part of the finite elements; NaN if none is finite."""
    maximum: float
    nans: int
    infs: int
    zeros: int
    first_nonfinite: tuple[int, ...] | None
    """The index of the first element that is not finite."""

    @classmethod
    def of(cls, value: Any) -> Range:
        array = host(value)
        name = core.typeof(value).str_short(short_dtypes=True)
        if array is None or array.size == 0:
            return cls(name, 0, np.nan, np.nan, 0, 0, 0, None)
        nans = infs = 0
        where = None
        finite = array.real if array.dtype.kind == "c" else array
        if is_inexact(array):
            is_finite = np.isfinite(array)
            nans = int(np.isnan(array).sum())
            infs = int(array.size - is_finite.sum() - nans)
            finite = finite[is_finite]
            if nans or infs:
                where = tuple(map(int, np.argwhere(~is_finite)[0]))
        low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
        zeros = int((array == 0).sum())
        return cls(name, array.size, float(low), float(high), nans, infs, zeros, where)

    def __str__(self) -> str:
        if not self.size:
            return self.type
        parts = [] if np.isnan(self.minimum) else [f"from {self.minimum:g} to {self.maximum:g}"]
        for count, what in ((self.nans, "NaN"), (self.infs, "Inf"), (self.zeros, "zero")):
            if count:
                parts.append(f"{count} of {self.size} {what}")
        if self.first_nonfinite:
            index = ", ".join(map(str, self.first_nonfinite))
            parts.append(f"the first non-finite element at [{index}]")
        return f"{self.type}: {', '.join(parts)}"


@dataclass(frozen=True)
class Place:
    """The place of an op in a program, and in its evaluation."""

    op: str
    """The op's name: ``"jaxpr.log"``."""
    file: str
    line: int
    column: int
    """File, line and column of the user's frame; ``("", 0, 0)`` where there is none."""
    source: str
    """The user's source line."""
    stack: tuple[str, ...]
    """The functions being evaluated, with the iterations of their loops, outermost first."""
    iterations: tuple[int, ...]
    """The iterations of the loops around the op, outermost first, from 0."""

    @classmethod
    def of(cls, step: Step) -> Place:
        stack = tuple(map(str, step.stack))
        return cls(step.name, *step.position, step.source, stack, step.iterations)

    def __str__(self) -> str:
        at = f" at {self.file}:{self.line}" if self.line else ""
        return f"'{self.op}' op{at}"

    def lines(self) -> list[str]:
        """The source line and the stack, for a report."""
        source = [f"    {self.source}"] if self.source else []
        return [*source, "  in " + "\n     ".join(reversed(self.stack))]


@dataclass(frozen=True)
class NonFinite:
    """An op with a NaN or Inf in a result that is not in any of its operands."""

    kind: str
    """``"NaN"`` or ``"Inf"``."""
    place: Place
    operands: tuple[Range, ...]
    results: tuple[Range, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind} made by {self.place}", *self.place.lines()]
        for what, ranges in (("operand", self.operands), ("result", self.results)):
            lines += [f"  {what} #{i}: {text}" for i, text in enumerate(ranges)]
        return "\n".join(lines)


class _NonFiniteFound(Exception):
    """Ends the evaluation."""

    def __init__(self, report: NonFinite):
        self.report = report


class _Watch(Hook):
    def __init__(self, inf: bool):
        self.kinds = {"NaN": np.isnan, "Inf": np.isinf} if inf else {"NaN": np.isnan}

    def after(self, step: Step) -> None:
        results = [x for x in map(host, step.results or ()) if x is not None and is_inexact(x)]
        if all(np.isfinite(x).all() for x in results):
            return
        operands = [x for x in map(host, step.operands) if x is not None and is_inexact(x)]
        for kind, holds in self.kinds.items():
            in_results = any(holds(x).any() for x in results)
            if in_results and not any(holds(x).any() for x in operands):
                ranges = (tuple(map(Range.of, of or ())) for of in (step.operands, step.results))
                raise _NonFiniteFound(NonFinite(kind, Place.of(step), *ranges))


def find_nan(program: Program, *args: Any, inf: bool = True, **kwargs: Any) -> NonFinite | None:
    """Evaluates a program until an op makes a NaN or Inf; ``None`` if none does.

    An op makes one if a result has a NaN (an Inf) and no operand has. Passing on a given ``-inf``,
    as a masked softmax does, does not count. Derivatives are programs, too:
    ``find_nan(program.grad(), x)``.

    Args:
      inf: look for Infs as well as NaNs.

    Returns:
      The op with the user's source line, its operands' ranges, and the iterations of the loops
      around it; ``print`` it.

    Raises:
      ArgumentError: it is no program, or the arguments do not fit it.
      EvaluationError: an op cannot be evaluated; names it and the user's line.
    """
    check(program, args, kwargs)
    try:
        program.eval(*args, hooks=[_Watch(inf)], **kwargs)
    except _NonFiniteFound as found:
        return found.report
    return None


def breakpoint_at(
    op: str | None = None,
    *,
    line: int | str | None = None,
    when: Callable[[Step], bool] | None = None,
    after: bool = False,
) -> Hook:
    """A hook for ``program.eval`` that stops in the debugger where all conditions hold.

    In the debugger, ``operands``, ``results``, ``step`` and ``stack`` are local variables.
    Assigning to an element of ``operands`` before the op, or of ``results`` after it, changes the
    value with which evaluation continues. The debugger is the one of Python's ``breakpoint()``.

    Args:
      op: the op's name, ``"exp"`` or ``"jaxpr.exp"``.
      line: the user's line, ``12`` or ``"model.py:12"``, in any of the op's frames.
      when: called with each step, e.g. ``lambda step: step.iterations == (317,)``.
      after: stop after the op, when its results are known; by default before it.

    Raises:
      ArgumentError: a condition is of the wrong kind, or there is no such op.
    """
    if not isinstance(op, str | None) or op == "":
        raise ArgumentError(f"op: expected the name of an op, got {op!r}")
    name = op and op.removeprefix("jaxpr.")
    if name and name not in ops.OPS and primitives.find(name) is None:
        meant = nearest(name, ops.OPS)
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise ArgumentError(f"op: no primitive makes an op 'jaxpr.{name}'{hint}")
    if line is not None and not re.fullmatch(r"(.*:)?0*[1-9]\d*", str(line)):
        raise ArgumentError(f"line: expected a line, 12 or 'model.py:12', got {line!r}")
    if when is not None and not callable(when):
        raise ArgumentError(f"when: expected a function of a Step, got {when!r}")
    file, _, number = str(line or "0").rpartition(":")
    return _Breakpoint(name and f"jaxpr.{name}", file, int(number), when, after)


@dataclass(eq=False)
class _Breakpoint(Hook):
    op: str | None
    file: str
    line: int
    when: Callable[[Step], bool] | None
    is_after: bool

    def holds(self, step: Step) -> bool:
        """Whether to stop; the most expensive condition is checked last."""
        if self.op is not None and step.name != self.op:
            return False
        if self.line and not any(
            line == self.line and self._names(file) for file, line, _ in step.frames
        ):
            return False
        return self.when is None or self.when(step)

    def _names(self, file: str) -> bool:
        """Whether a file is the one asked for: ``model.py`` is not ``other_model.py``."""
        return not self.file or f"/{file}".endswith(f"/{self.file.lstrip('/')}")

    def before(self, step: Step) -> None:
        if not self.is_after and self.holds(step):
            _stop(step)

    def after(self, step: Step) -> None:
        if self.is_after and self.holds(step):
            _stop(step)


def _stop(step: Step) -> None:
    """Stops in the debugger, with everything of interest in local variables."""
    operands: list[Any] = step.operands
    results: list[Any] | None = step.results
    stack = step.stack
    place = Place.of(step)
    print(
        "\n".join([f"stopped {'before' if results is None else 'after'} {place}"] + place.lines())
    )
    for what, values in (("operands", operands), ("results", results or [])):
        for i, value in enumerate(values):
            print(f"  {what}[{i}]: {Range.of(value)}")
    breakpoint()
    del stack  # The debugger stops at the line after the call, which has to be in this function.

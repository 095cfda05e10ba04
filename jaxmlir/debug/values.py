"""Arrays on the host, and what reports say of them and of places in a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.dialect.module import check_program
from jaxmlir.errors import ArgumentError

if TYPE_CHECKING:
    from jaxmlir.interpret.interpreter import Step


def host(value: Any) -> np.ndarray | None:
    """A value as a numpy array; ``None`` where it has no numbers to look at (a key, a reference).

    Of a value inside a ``shard_map``, the parts of all devices along a new first axis.
    """
    if isinstance(value, core.Tracer):
        value = getattr(value, "val", None)
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType) or dtype == dtypes.float0:
        return None
    return np.asarray(value) if isinstance(value, (jax.Array, np.ndarray, np.generic)) else None


def comparable(value: Any) -> np.ndarray | None:
    """The same, but for random keys: of these, their data."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        value = value.val if isinstance(value, core.Tracer) else value
        return np.asarray(jax.random.key_data(value))
    return host(value)


def check(program: Any, args: Any, kwargs: Any) -> None:
    """Sees to it that there is a program, and that there are numbers to look at.

    Raises:
      ArgumentError: it is a function, or the arguments are values that JAX is tracing.
    """
    check_program(program)
    for value in jax.tree.leaves((args, kwargs)):
        if isinstance(value, core.Tracer):
            raise ArgumentError(
                f"expected arrays, got {value}, of which no number is known: look into the program "
                "outside of jax.jit, jax.grad and the like"
            )


def is_inexact(array: np.ndarray) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.numpy.inexact))


@dataclass(frozen=True)
class Range:
    """What numbers an array has."""

    type: str
    """``f32[3,4]``"""
    size: int
    minimum: float
    """Of the finite elements' real parts, as is ``maximum``; NaN where none is finite."""
    maximum: float
    nans: int
    infs: int
    zeros: int
    first_nonfinite: tuple[int, ...] | None
    """The index of the first element that is no finite number."""

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
            parts.append(f"the first not finite at [{index}]")
        return f"{self.type}: {', '.join(parts)}"


@dataclass(frozen=True)
class Place:
    """Where in a program, and where in its evaluation, an op is."""

    op: str
    """``"jaxpr.log"``"""
    file: str
    line: int
    column: int
    """Of the user's frame; ``("", 0, 0)`` where there is none."""
    source: str
    """The user's source line."""
    stack: tuple[str, ...]
    """The functions that were being evaluated, with their loops' iterations, outermost first."""
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

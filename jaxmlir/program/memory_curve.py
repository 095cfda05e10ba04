"""``program.memory_curve(*args)``: the memory and time of one program under memory budgets."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import jax

from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.errors import ArgumentError
from jaxmlir.support.options import check_budget, in_units, integer
from jaxmlir.support.progress import progress

Form = TypeVar("Form", bound=Any)
"""The class of programs."""


class MemoryPoint(NamedTuple, Generic[Form]):
    """One form of a program, as it was measured.

    Attributes:
      budget: the budget that was asked for, a fraction or bytes; ``None`` for the original program.
      bytes: the memory besides arguments and results, as the compiler reports it.
      seconds: the median time of a run.
      program: the form itself.
    """

    budget: float | str | None
    bytes: int
    seconds: float
    program: Form


@dataclass(frozen=True)
class MemoryCurve(Generic[Form]):
    """The forms of a program under memory budgets; the original program comes first.

    Its text is a table; ``*`` marks the points of :attr:`pareto`.
    """

    points: tuple[MemoryPoint[Form], ...]

    @property
    def pareto(self) -> tuple[MemoryPoint[Form], ...]:
        """The Pareto front, by memory: each point is faster than all points with less memory."""
        front: list[MemoryPoint[Form]] = []
        for point in sorted(self.points, key=lambda p: (p.bytes, p.seconds)):
            if not front or point.seconds < front[-1].seconds:
                front.append(point)
        return tuple(front)

    def __str__(self) -> str:
        first, front = self.points[0], self.pareto
        rows = ["  {:>9} {:>12} {:>6} {:>12} {:>6}".format("budget", "memory", "", "time", "")]
        for point in self.points:
            rows.append(
                "{} {:>9} {:>12} {:6.2f} {:>9.3f} ms {:6.2f}".format(
                    "*" if point in front else " ",
                    "-" if point.budget is None else point.budget,
                    in_units(point.bytes),
                    point.bytes / max(first.bytes, 1),
                    1e3 * point.seconds,
                    point.seconds / first.seconds,
                )
            )
        return "\n".join(rows)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The curve as a plot of matplotlib, which has to be installed.

        Args:
          ax: the axes to plot in, by default the current ones.
          options: options of matplotlib's ``plot``, for the line through the best points.

        Returns:
          The axes.
        """
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.gca()
        front = self.pareto
        style = {"drawstyle": "steps-post", "zorder": 0} | options
        ax.plot([p.bytes / 2**20 for p in front], [1e3 * p.seconds for p in front], **style)
        for point in self.points:
            place = point.bytes / 2**20, 1e3 * point.seconds
            ax.plot(*place, "o" if point in front else "x", color="black")
            said = "as it is" if point.budget is None else str(point.budget)
            ax.annotate(said, place, textcoords="offset points", xytext=(5, 5))
        ax.set_xlabel("temporary memory, MiB")
        ax.set_ylabel("time, ms")
        return ax


def memory_curve(
    program: Form,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    budgets: Sequence[float | str],
    repetitions: int,
) -> MemoryCurve[Form]:
    """Compiles a program for each budget, and runs the forms alternately."""
    if isinstance(budgets, str) or not isinstance(budgets, Iterable):
        raise ArgumentError(
            f"budgets: expected a sequence, such as (0.5, '1 GiB'), got {budgets!r}"
        )
    budgets = tuple(budgets)
    for budget in budgets:
        check_budget(budget)
    if (integer(repetitions) or 0) < 1:
        raise ArgumentError(f"repetitions: expected a positive integer, got {repetitions!r}")
    # Check the arguments before anything slow.
    if program.is_symbolic:
        program = program.specialize(*args, **kwargs)
    program.flat_arguments(args, kwargs)
    if effects := call_signature(program, program.name).effects:
        raise ArgumentError(
            f"memory_curve runs @{program.name} many times, but it has effects "
            f"({', '.join(sorted(map(str, effects)))}); "
            "program.run_passes('jaxpr-drop-callbacks') removes prints and callbacks"
        )
    args, kwargs = jax.device_put((args, kwargs))
    forms: dict[Any, Form] = {None: program}
    with progress(f"memory curve of @{program.name}", len(budgets) + 1) as step:
        with warnings.catch_warnings():
            # The curve itself shows that a budget is not met.
            warnings.filterwarnings("ignore", ".*of temporary memory", UserWarning)
            for budget in budgets:
                step(f"budget {budget}")
                forms[budget] = program.remat(budget)
        compiled = {budget: form.lower().compile() for budget, form in forms.items()}
        step("running")
        seconds: dict[Any, list[float]] = {budget: [] for budget in compiled}
        for i in range(repetitions + 1):
            for budget, run in compiled.items():
                start = time.perf_counter()
                jax.block_until_ready(run(*args, **kwargs))
                # The first run is a warm-up.
                if i > 0:
                    seconds[budget].append(time.perf_counter() - start)
    points = []
    for budget, run in compiled.items():
        analysis = run.memory_analysis()
        if analysis is None:
            raise ArgumentError(
                "memory_curve: the compiler of JAX's default backend does not report the memory "
                "that a program takes"
            )
        temp, median = int(analysis.temp_size_in_bytes), statistics.median(seconds[budget])
        points.append(MemoryPoint(budget, temp, median, forms[budget]))
    return MemoryCurve(tuple(points))

"""``python -m benchmarks.memory``: memory against time, for budgets of ``jaxpr-remat``.

    python -m benchmarks.memory                      four programs with loops and two without
    python -m benchmarks.memory lstm_scan --budgets 0.5,0.1 --json out.json --plot out.svg

Each row is a compiled gradient: the temporary bytes that XLA reports, besides arguments and
results, and the CPU time of all threads, the median of runs that take turns with JAX's.  The first
row of a program is ``jax.jit(jax.grad(f))``; ``-`` is the pass without a budget.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxmlir
from benchmarks.programs import NAIVE, PROGRAMS

BY_DEFAULT = (
    *("lstm_scan", "n_body", "kalman_filter", "transformer_scanned"),
    *("transformer_unrolled", "resnet"),
)
BUDGETS = (None, 0.75, 0.5, 0.25, 0.1, 0.05)


@dataclass(frozen=True)
class Point:
    """One compiled gradient.

    Attributes:
      budget: the requested budget; ``None`` for the pass without one, ``"jax"`` for JAX.
      temp: bytes besides arguments and results.
      seconds: CPU time of a run.
      error: the greatest difference from JAX's gradient, relative to each array's greatest element.
    """

    program: str
    budget: float | str | None
    temp: int
    seconds: float
    error: float


def points(name: str, budgets: Sequence[float | None], repetitions: int) -> Iterator[Point]:
    """Measures one program, JAX's gradient first."""
    function, args = (PROGRAMS | NAIVE)[name].make("full")
    args = jax.tree.map(jax.device_put, args)
    theirs = jax.jit(jax.grad(function)).lower(*args).compile()
    program = jaxmlir.trace(function)(*args).grad().optimize(1)
    compiled = {"jax": theirs}
    for budget in budgets:
        compiled[budget] = program.remat(budget).lower().compile()
    seconds: dict[Any, list[float]] = {key: [] for key in compiled}
    for i in range(repetitions + 1):
        for key, run in compiled.items():
            elapsed = _cpu_time(lambda run=run: jax.block_until_ready(run(*args)))
            if i > 0:
                seconds[key].append(elapsed)
    want = theirs(*args)
    for key, run in compiled.items():
        temp = run.memory_analysis().temp_size_in_bytes
        yield Point(name, key, temp, statistics.median(seconds[key]), _error(run(*args), want))


def _cpu_time(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _error(got: Any, want: Any) -> float:
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)) for a, b in pairs)


HEADER = "{:24} {:>7} {:>9} {:>7} {:>9} {:>7} {:>8}".format(
    "program", "budget", "MiB", "of JAX", "CPU ms", "of JAX", "error"
)


def row(point: Point, of_jax: Point) -> str:
    budget = "-" if point.budget is None else point.budget
    return (
        f"{point.program:24} {budget:>7} {point.temp / 2**20:9.2f} "
        f"{point.temp / of_jax.temp:7.3f} {point.seconds * 1e3:9.1f} "
        f"{point.seconds / of_jax.seconds:7.2f} {point.error:8.0e}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    budgets = [None if b in ("-", None) else float(b) for b in options.budgets.split(",")]
    found: list[Point] = []
    print(HEADER)
    for name in options.programs or BY_DEFAULT:
        curve = list(points(name, budgets, options.repetitions))
        for point in curve:
            print(row(point, curve[0]), flush=True)
        found += curve
    if options.json:
        document = {"jax": jax.__version__, "points": [asdict(point) for point in found]}
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    if options.plot:
        Path(options.plot).write_text("\n".join(svg(found)) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("programs", nargs="*", help=f"default: {', '.join(BY_DEFAULT)}")
    default = ",".join("-" if b is None else f"{b:g}" for b in BUDGETS)
    parser.add_argument("--budgets", default=default, help=f"fractions of the memory ({default})")
    parser.add_argument("--repetitions", type=int, default=5, help="runs of each budget (5)")
    parser.add_argument("--json", metavar="FILE", help="write the points to a file")
    parser.add_argument("--plot", metavar="FILE", help="write the curves to an SVG file")
    return parser


_COLORS = ("#2b7a78", "#c8553d", "#3d5a80", "#8f6593", "#b08900", "#555555")
_LEFT, _SIDE = 60, 380


def svg(found: Sequence[Point]) -> Iterator[str]:
    """The curves as SVG: memory across, time upwards, both relative to JAX's."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in dict.fromkeys(point.program for point in found):
        (of_jax, *rest) = [point for point in found if point.program == name]
        at = {(p.temp / of_jax.temp, p.seconds / of_jax.seconds) for p in rest}
        curves[name] = sorted({*at, (1.0, 1.0)})
    most_x = max(x for curve in curves.values() for x, _ in curve)
    most_y = max(y for curve in curves.values() for _, y in curve) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + _SIDE * x / most_x, 20 + _SIDE * (1 - y / most_y)

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _SIDE + 180}" '
        f'height="{_SIDE + 70}" font-family="sans-serif" font-size="11">'
    )
    yield '<rect width="100%" height="100%" fill="white"/>'
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0):
        if tick <= most_x:
            x, _ = place(tick, 0)
            yield f'<path d="M{x:.1f} 20V{20 + _SIDE}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{36 + _SIDE}" text-anchor="middle">{tick:g}</text>'
        if tick <= most_y:
            _, y = place(0, tick)
            yield f'<path d="M{_LEFT} {y:.1f}H{_LEFT + _SIDE}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    caption = "memory across, CPU time upwards: parts of JAX's"
    yield f'<text x="{_LEFT}" y="{56 + _SIDE}">{escape(caption)}</text>'
    for i, (name, curve) in enumerate(curves.items()):
        color = _COLORS[i % len(_COLORS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        yield f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        for point in curve:
            x, y = place(*point)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
        yield (
            f'<text x="{_LEFT + _SIDE + 12}" y="{34 + 16 * i}" fill="{color}">{escape(name)}</text>'
        )
    yield "</svg>"


if __name__ == "__main__":
    sys.exit(main())

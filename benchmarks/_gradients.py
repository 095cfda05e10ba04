"""Measures each stage of a gradient, from the Python function to its numbers, beside JAX's.

Our stages are ``jaxmlir.trace``; passes, differentiation and passes again; ``lower``; ``compile``;
calls.  JAX's are ``jax.jit(f).trace``; tracing ``jax.grad`` of that jaxpr; ``lower`` and
``compile`` of ``jax.jit(jax.grad(f))``; calls.  Both compile anew for each repetition, until a time
limit, and run the first executable.  ``grad_run`` is wall-clock time.  ``grad_cpu`` is the CPU time
of all threads, which is more reliable on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import jaxmlir
from benchmarks import _bound, _code
from benchmarks._measure import NOTHING, Sides, Timing, Work, side_by_side
from jaxmlir._compat import core
from jaxmlir.passes import STORAGE

if TYPE_CHECKING:
    from benchmarks._comparisons import Case

# How far a gradient may be from JAX's, in the maximum norm, relative to each array's own size.
# Ours is computed in another order; on these programs, JAX's own results in 32 bits are up to 1e-4
# away from those in 64 bits.
TOLERANCE = 1e-3
NEGLIGIBLE = 1e-3

# The seconds after which a stage is not repeated any more; the seconds for which one timing calls
# an executable repeatedly; the least number of temporary bytes that is told apart.
_BUDGET = {"compile": 20.0, "run": 20.0}
_CALLS = 0.03
_PAGE = 4096

# The measured stages, with the promised ratio of jaxmlir to JAX, and the unit.
STAGES = {
    "grad_trace": (1.2, "s"),
    "grad_transform": (1.0, "s"),
    "grad_lower": (1.0, "s"),
    "grad_compile": (1.0, "s"),
    "grad_run": (1.03, "s"),
    "grad_cpu": (1.03, "s"),
    "grad_temp": (1.0, "B"),
}


class Mismatch(Exception):
    """A gradient differs from JAX's."""


def gradient(
    program: jaxmlir.Program,
    level: int,
    target: str | None = None,
    without: Collection[str] = (),
) -> jaxmlir.Program:
    """Runs passes, takes the gradient in the first argument, and runs passes again.

    ``jaxmlir.jit`` does the same for ``jax.grad`` of a function.
    """
    structured = program.optimize(level, without={*STORAGE, *without}, target=target)
    return structured.grad().optimize(level, without=without)


def stages(
    case: Case, repetitions: int, wanted: Collection[str], level: int
) -> Iterator[tuple[str, Sides]]:
    """Measures the wanted stages and yields them by name."""
    measured = {
        "grad_trace": lambda: _trace(case, repetitions),
        "grad_transform": lambda: _transform(case, repetitions, level),
        "grad_lower": lambda: _lower(case, repetitions, level),
    }
    compiled = set(wanted) - set(measured)
    for name, measure in measured.items():
        if name in wanted:
            yield from _guarded((name,), lambda measure=measure, name=name: {name: measure()})
    if compiled:
        yield from _guarded(
            [name for name in STAGES if name in compiled],
            lambda: _executables(case, repetitions, compiled, level),
        )


def _guarded(
    names: Collection[str], measure: Callable[[], dict[str, Sides]]
) -> Iterator[tuple[str, Sides]]:
    """The measurements, or the error for each name."""
    try:
        yield from measure().items()
    except Exception as e:
        reason = f"{type(e).__name__}: {e}".splitlines()[0]
        for name in names:
            yield name, Sides(NOTHING, NOTHING, error=reason)


def _trace(case: Case, repetitions: int) -> Sides:
    def prepare() -> tuple[Work, Work]:
        (of_jax, _), (of_jaxmlir, _) = case.make(), case.make()
        return (
            lambda: jax.jit(of_jax).trace(*case.abstract),
            lambda: jaxmlir.trace(of_jaxmlir)(*case.abstract),
        )

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _transform(case: Case, repetitions: int, level: int) -> Sides:
    n = len(jax.tree.leaves(case.abstract[0]))

    def prepare() -> tuple[Work, Work]:
        closed = case.trace()
        program = jaxmlir.trace(case.make()[0])(*case.abstract)
        of_jax = jax.grad(lambda *args: core.jaxpr_as_fun(closed)(*args)[0], tuple(range(n)))
        return (
            lambda: jax.make_jaxpr(of_jax)(*case.flat),
            lambda: gradient(program, level),
        )

    # Things that programs share are made for the second program; the third finds them made.
    return side_by_side(
        prepare,
        repetitions,
        warm_up=2,
        seconds=20.0,
        clock=time.thread_time,
        before=case.before_transforming,
    )


def _lower(case: Case, repetitions: int, level: int) -> Sides:
    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        of_jax = jax.jit(jax.grad(function)).trace(*case.abstract)
        program = gradient(jaxmlir.trace(function)(*case.abstract), level)
        # The first half of `program.lower()`: JAX traces the call.
        of_jaxmlir = program._jitted.trace(*case.abstract)
        return of_jax.lower, of_jaxmlir.lower

    return side_by_side(prepare, repetitions, seconds=20.0, clock=time.thread_time)


def _executables(
    case: Case, repetitions: int, wanted: Collection[str], level: int
) -> dict[str, Sides]:
    """Measures compilation, runs and memory; compares the results before the runs."""
    kept: list[Any] = []

    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        lowered = (
            jax.jit(jax.grad(function)).lower(*case.abstract),
            gradient(jaxmlir.trace(function)(*case.abstract), level).lower(),
        )
        compiled: list[Any] = [None, None]
        kept.append(compiled)

        def work(side: int) -> Work:
            def compile_() -> None:
                compiled[side] = lowered[side].compile()

            return compile_

        return work(0), work(1)

    found = {}
    times = side_by_side(
        prepare,
        repetitions if "grad_compile" in wanted else 1,
        warm_up=0,
        seconds=_BUDGET["compile"],
        clock=time.process_time,
    )
    if "grad_compile" in wanted:
        found["grad_compile"] = times
    of_jax, of_jaxmlir = kept[0]
    least = None
    if "grad_cpu" in wanted:
        function, _ = case.make()
        least = _bound.bound(gradient(jaxmlir.trace(function)(*case.abstract), level))
    args = jax.tree.map(jax.device_put, case.make()[1])
    check_equal(of_jaxmlir(*args), of_jax(*args))
    for name, clock in (("grad_run", time.perf_counter), ("grad_cpu", time.process_time)):
        if name in wanted:
            sides = runs(of_jax, of_jaxmlir, args, repetitions, clock)
            found[name] = sides._replace(bound=least if name == "grad_cpu" else None)
    if "grad_temp" in wanted:
        found["grad_temp"] = Sides(temporary(of_jax), temporary(of_jaxmlir))
    return found


def runs(
    of_jax: Any,
    of_jaxmlir: Any,
    args: Sequence[Any],
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Sides:
    """Times calls of two executables, and notes if both have the same instructions.

    Each is called repeatedly for a while before the other one, because the first call after a
    garbage collection, or after the other's call, takes up to a millisecond longer.
    """
    sides = side_by_side(
        lambda: (
            lambda: jax.block_until_ready(of_jax(*args)),
            lambda: jax.block_until_ready(of_jaxmlir(*args)),
        ),
        3 * repetitions,
        call_seconds=_CALLS,
        seconds=_BUDGET["run"],
        least_seconds=repetitions,
        clock=clock,
    )
    return sides._replace(note=_code.note(of_jax, of_jaxmlir))


def temporary(compiled: Any) -> Timing:
    """The temporary bytes of an executable, i.e. without arguments and results; at least a page."""
    size = max(_PAGE, compiled.memory_analysis().temp_size_in_bytes)
    return Timing(size, size, size)


def check_equal(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> float:
    """The distance of two pytrees of arrays, in the maximum norm, relative to each array's size.

    The size of an array counts as at least :data:`NEGLIGIBLE` times that of the largest one: a
    gradient may be zero up to rounding, such as that of a bias which a softmax cancels.

    Raises:
      Mismatch: the distance exceeds the tolerance, or there is a NaN.
    """
    pairs = [
        (np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    ]
    sizes = [np.max(np.abs(b), initial=np.finfo(np.float32).tiny) for _, b in pairs]
    worst = 0.0
    for i, ((a, b), own) in enumerate(zip(pairs, sizes, strict=True)):
        distance = np.max(np.abs(a - b), initial=0.0)
        size = max(own, NEGLIGIBLE * np.nanmax(sizes))
        # Not `>`: a NaN must be a mismatch.
        if not distance <= tolerance * size:
            raise Mismatch(
                f"array {i} of the gradient differs from JAX's by {distance / size:.2g} of its "
                f"greatest element; {tolerance:g} is allowed"
            )
        worst = max(worst, float(distance / size))
    return worst

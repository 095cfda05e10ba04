"""What is compared, and how both sides are made to do the same work.

A measure is a function ``(case, repetitions) -> (jax, jaxmlir)`` with the ratio it promises.  JAX
caches traces, jaxprs and lowerings by the identity of functions and jaxprs; so every repetition
makes these anew.  Both sides find the process warm: modules imported, rules met before.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

import jaxmlir
from benchmarks import _transforms
from benchmarks._measure import Comparison, Timing, Work, side_by_side
from benchmarks.programs import PROGRAMS, many_equations
from jaxmlir._compat import core


@dataclass(frozen=True)
class Case:
    """A program to measure; ``make()`` gives a new function object each time."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]

    @functools.cached_property
    def abstract(self) -> tuple[Any, ...]:
        """The arguments' shapes and dtypes."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), self.make()[1])

    @functools.cached_property
    def flat(self) -> list[Any]:
        return jax.tree.leaves(self.abstract)

    def trace(self) -> Any:
        """The program's jaxpr, traced anew."""
        return jax.make_jaxpr(self.make()[0])(*self.abstract)

    @functools.cached_property
    def equations(self) -> int:
        return len(self.trace().eqns)


def _import(case: Case, repetitions: int) -> tuple[Timing, Timing]:
    """JAX tracing the function in cleared caches, and importing the jaxpr that it has traced."""

    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        traced: list[Any] = []
        jax.clear_caches()
        return (
            lambda: traced.append(jax.make_jaxpr(function)(*case.abstract)),
            lambda: jaxmlir.from_jaxpr(traced[0]),
        )

    return side_by_side(prepare, repetitions, in_order=True, clock=time.thread_time)


def _lower(case: Case, repetitions: int) -> tuple[Timing, Timing]:
    """Lowering the same jaxpr to StableHLO, by JAX and from the dialect, in the warm process."""

    def prepare() -> tuple[Work, Work]:
        closed = case.trace()
        program = jaxmlir.from_jaxpr(closed)
        of_jax = jax.jit(core.jaxpr_as_fun(closed)).trace(*case.flat)
        # What `program.lower()` does, stopped after JAX has traced the call.
        of_jaxmlir = program._jitted.trace(*case.flat)
        return of_jax.lower, of_jaxmlir.lower

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _parse(case: Case, repetitions: int) -> tuple[Timing, Timing]:
    """JAX tracing the function in cleared caches; parsing and verifying the program's text."""
    text = jaxmlir.from_jaxpr(case.trace()).as_text()

    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        jax.clear_caches()
        return lambda: jax.make_jaxpr(function)(*case.abstract), lambda: jaxmlir.parse(text)

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _on_device(case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function, args = case.make()
    return function, jax.tree.map(jax.device_put, args)


def _calls(of_jaxmlir: Callable[..., Any]) -> Callable[[Case, int], tuple[Timing, Timing]]:
    """Dispatching a compiled function that has next to nothing to compute."""

    def measure(case: Case, repetitions: int) -> tuple[Timing, Timing]:
        function, args = _on_device(case)
        ours, theirs = of_jaxmlir(function, args), jax.jit(function)
        jax.block_until_ready((ours(*args), theirs(*args)))
        return side_by_side(
            lambda: (lambda: theirs(*args), lambda: ours(*args)),
            2 * repetitions,
            calls=2000,
            clock=time.thread_time,
        )

    return measure


def _run(case: Case, repetitions: int) -> tuple[Timing, Timing]:
    """Running the compiled programs, results waited for."""
    function, args = _on_device(case)
    program = jaxmlir.trace(function)(*args)
    theirs = jax.jit(function).lower(*args).compile()
    ours = program.lower().compile()
    return side_by_side(
        lambda: (
            lambda: jax.block_until_ready(theirs(*args)),
            lambda: jax.block_until_ready(ours(*args)),
        ),
        3 * repetitions,
    )


def _run_gradient(level: int) -> Callable[[Case, int], tuple[Timing, Timing]]:
    """Running compiled gradients; ours after the passes of an optimization level."""

    def measure(case: Case, repetitions: int) -> tuple[Timing, Timing]:
        function, args = _on_device(case)
        theirs = jax.jit(jax.grad(function)).lower(*args).compile()
        ours = jaxmlir.trace(function)(*args).grad().optimize(level).lower().compile()
        return side_by_side(
            lambda: (
                lambda: jax.block_until_ready(theirs(*args)),
                lambda: jax.block_until_ready(ours(*args)),
            ),
            repetitions,
        )

    return measure


def _tiny() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def tiny(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y + x

    return tiny, (jax.numpy.arange(4.0), jax.numpy.arange(4.0))


def _equations(n: int) -> Case:
    return Case(f"equations_{n}", lambda: many_equations(n))


_PROGRAMS = tuple(
    Case(name, functools.partial(benchmark.make, "full")) for name, benchmark in PROGRAMS.items()
)
_SMALL = tuple(
    Case(f"{name}_small", functools.partial(benchmark.make, "small"))
    for name, benchmark in PROGRAMS.items()
)
_GROWTH = tuple(map(_equations, (1_000, 5_000, 20_000, 100_000)))
_LARGE = _equations(20_000)
_TINY = Case("tiny", _tiny)


@dataclass(frozen=True)
class Measure:
    """What is timed, on which programs, and the promised ratio of jaxmlir's time to JAX's."""

    name: str
    target: float
    cases: tuple[Case, ...]
    time: Callable[[Case, int], tuple[Timing, Timing]]


MEASURES = (
    Measure("import", 0.25, (*_PROGRAMS, _LARGE), _import),
    # XLA takes a minute to compile the large program, so that it is lowered here, not run.
    Measure("lower", 1.0, (*_PROGRAMS, *_GROWTH), _lower),
    Measure("parse", 1.0, (_LARGE,), _parse),
    Measure("call", 1.1, (_TINY,), _calls(lambda f, args: jaxmlir.trace(f)(*args))),
    Measure("call_jit", 1.1, (_TINY,), _calls(lambda f, args: jaxmlir.jit(f))),
    Measure("run", 1.02, (*_PROGRAMS, _equations(1_000)), _run),
    Measure("run_grad", 1.05, _PROGRAMS, _run_gradient(0)),
    Measure("run_grad_O2", 1.03, _PROGRAMS, _run_gradient(2)),
    Measure("grad", 0.2, _GROWTH[:2], _transforms.grad),
    Measure("grad", 1.0, (*_PROGRAMS, *_SMALL), _transforms.grad),
    Measure("vmap", 0.2, _GROWTH[:2], _transforms.vmap),
    Measure("vmap", 1.0, (*_PROGRAMS, *_SMALL), _transforms.vmap),
)


def pairs(wanted: Callable[[str], bool]) -> Iterator[tuple[Measure, Case]]:
    """The measures and programs whose ``measure/program`` is wanted."""
    for measure in MEASURES:
        for case in measure.cases:
            if wanted(f"{measure.name}/{case.name}"):
                yield measure, case


def compare(measure: Measure, case: Case, repetitions: int) -> Comparison:
    """Measures one program."""
    of_jax, of_jaxmlir = measure.time(case, repetitions)
    return Comparison(measure.name, case.name, of_jax, of_jaxmlir, measure.target, case.equations)

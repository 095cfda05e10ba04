"""The measures of the benchmarks, in which both sides do the same work.

A measure is a function ``(case, repetitions) -> (jax, jaxmlir)`` with the promised ratio; the
stages of a gradient are measured together (see :mod:`benchmarks._gradients`).  JAX caches traces,
jaxprs and lowerings by the identity of functions and jaxprs; so every repetition makes these anew.
The process is warm for both sides: modules are imported, and rules were used before.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax

import jaxmlir
from benchmarks import _gradients, _transforms
from benchmarks._measure import Comparison, Sides, Work, side_by_side
from benchmarks.programs import (
    FORMULAS,
    NAIVE,
    PROGRAMS,
    Benchmark,
    deep_stencil,
    deep_transformer,
    many_equations,
)
from jaxmlir._compat import core


@dataclass(frozen=True)
class Case:
    """A program to measure.

    Attributes:
      make: gives a new function object each time, and the arguments.
      before_transforming: called before either side transforms the program; not timed.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    group: str = "plain"
    before_transforming: Callable[[], Any] = lambda: None

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


def _import(case: Case, repetitions: int) -> Sides:
    """JAX traces the function with cleared caches; jaxmlir imports the traced jaxpr."""

    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        traced: list[Any] = []
        jax.clear_caches()
        return (
            lambda: traced.append(jax.make_jaxpr(function)(*case.abstract)),
            lambda: jaxmlir.from_jaxpr(traced[0]),
        )

    return side_by_side(prepare, repetitions, in_order=True, clock=time.thread_time)


def _lower(case: Case, repetitions: int) -> Sides:
    """Both lower the same jaxpr to StableHLO in the warm process, ours from the dialect."""

    def prepare() -> tuple[Work, Work]:
        closed = case.trace()
        program = jaxmlir.from_jaxpr(closed)
        of_jax = jax.jit(core.jaxpr_as_fun(closed)).trace(*case.flat)
        # The first half of `program.lower()`: JAX traces the call.
        of_jaxmlir = program._jitted.trace(*case.flat)
        return of_jax.lower, of_jaxmlir.lower

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _parse(case: Case, repetitions: int) -> Sides:
    """JAX traces the function with cleared caches; jaxmlir parses and verifies the text."""
    text = jaxmlir.from_jaxpr(case.trace()).as_text()

    def prepare() -> tuple[Work, Work]:
        function, _ = case.make()
        jax.clear_caches()
        return lambda: jax.make_jaxpr(function)(*case.abstract), lambda: jaxmlir.parse(text)

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _on_device(case: Case) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function, args = case.make()
    return function, jax.tree.map(jax.device_put, args)


def _calls(of_jaxmlir: Callable[..., Any]) -> Callable[[Case, int], Sides]:
    """Measures the dispatch of a compiled function that computes almost nothing."""

    def measure(case: Case, repetitions: int) -> Sides:
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


def _run(case: Case, repetitions: int) -> Sides:
    """Runs the compiled programs and waits for the results."""
    function, args = _on_device(case)
    program = jaxmlir.trace(function)(*args)
    theirs = jax.jit(function).lower(*args).compile()
    ours = program.lower().compile()
    return _gradients.runs(theirs, ours, args, repetitions)


def _run_batched(case: Case, repetitions: int) -> Sides:
    """Runs the compiled programs on batches of arguments."""
    function, args = _on_device(case)
    batches = jax.tree.map(lambda x: jax.numpy.stack([x] * _transforms.BATCH), args)
    batched = jaxmlir.trace(function)(*args).vmap(axis_size=_transforms.BATCH)
    theirs = jax.jit(jax.vmap(function)).lower(*batches).compile()
    ours = batched.lower().compile()
    return _gradients.runs(theirs, ours, batches, repetitions)


def _tiny() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def tiny(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y + x

    return tiny, (jax.numpy.arange(4.0), jax.numpy.arange(4.0))


def _equations(n: int) -> Case:
    return Case(f"equations_{n}", lambda: many_equations(n))


def _cases(set_: Mapping[str, Benchmark], scale: str, group: str) -> tuple[Case, ...]:
    suffix = "" if scale == "full" else f"_{scale}"
    return tuple(
        Case(f"{name}{suffix}", functools.partial(benchmark.make, scale), group)
        for name, benchmark in set_.items()
    )


_PLAIN = _cases(PROGRAMS, "full", "plain")
_NAIVE = _cases(NAIVE, "full", "naive")
GRADIENTS = (*_PLAIN, *_NAIVE)
_SMALL = _cases(PROGRAMS, "small", "plain")
_FORMULAS = tuple(Case(name, make, "formulas") for name, make in FORMULAS.items())
_TRANSFORMED = (*_PLAIN, *_SMALL, *_FORMULAS)
# Programs for the growth of XLA's compile time: with more equal layers, or more stencil steps.
_DEEP = (
    Case("transformer_48_layers", lambda: deep_transformer(48), "deep"),
    Case("stencil_20_steps", lambda: deep_stencil(20), "deep"),
)
BENCHMARKS = (*_PLAIN, *_NAIVE)
"""The programs, not those that vary one."""
_GROWTH = tuple(map(_equations, (1_000, 5_000, 20_000, 100_000)))
_LARGE = _equations(20_000)
_TINY = Case("tiny", _tiny)

Row = tuple[str, Sides]


@dataclass(frozen=True)
class Measure:
    """One or more measures, and the programs that they are taken on.

    Attributes:
      targets: the promised ratio of jaxmlir to JAX (or ``None``) and the unit, by the name of the
        measure.
      cases: the programs.
      rows: takes the wanted measures on one of the programs.
    """

    targets: Mapping[str, tuple[float | None, str]]
    cases: tuple[Case, ...]
    rows: Callable[[Case, int, Collection[str]], Iterable[Row]]


def _measure(
    name: str,
    target: float | None,
    cases: tuple[Case, ...],
    time: Callable[[Case, int], Sides | None],
) -> Measure:
    """A single measure, which skips programs for which ``time`` returns ``None``."""

    def rows(case: Case, repetitions: int, _: Collection[str]) -> Iterator[Row]:
        sides = time(case, repetitions)
        if sides is not None:
            yield name, sides

    return Measure({name: (target, "s")}, cases, rows)


def measures(level: int) -> tuple[Measure, ...]:
    """All measures, with gradients at an optimization level."""
    of_gradients = functools.partial(_gradients.stages, level=level)
    return (
        _measure("import", 0.25, (*_PLAIN, _LARGE), _import),
        # XLA takes a minute to compile the large program: it is lowered here, but not run.
        _measure("lower", 1.0, (*_PLAIN, *_GROWTH), _lower),
        _measure("parse", 1.0, (_LARGE,), _parse),
        _measure("call", 1.1, (_TINY,), _calls(lambda f, args: jaxmlir.trace(f)(*args))),
        _measure("call_jit", 1.1, (_TINY,), _calls(lambda f, args: jaxmlir.jit(f))),
        _measure("run", 1.02, (*_PLAIN, _equations(1_000)), _run),
        _measure("grad", 0.2, _GROWTH[:2], _transforms.grad),
        _measure("grad", 1.0, _TRANSFORMED, _transforms.grad),
        _measure("grad_rules", None, _TRANSFORMED, _transforms.grad_rules),
        _measure("vmap", 0.2, _GROWTH[:2], _transforms.vmap),
        _measure("vmap", 1.0, _TRANSFORMED, _transforms.vmap),
        _measure("vmap_run", 1.02, _PLAIN, _run_batched),
        Measure(_gradients.STAGES, (*GRADIENTS, *_DEEP), of_gradients),
    )


Selected = tuple[Measure, Case, tuple[str, ...]]


def selection(wanted: Callable[[str], Any], level: int) -> Iterator[Selected]:
    """The measures and programs for which ``wanted("measure/program")`` holds."""
    for measure in measures(level):
        for case in measure.cases:
            names = tuple(name for name in measure.targets if wanted(f"{name}/{case.name}"))
            if names:
                yield measure, case, names


def compare(selected: Selected, repetitions: int) -> Iterator[Comparison]:
    """Takes the selected measures on one program."""
    measure, case, names = selected
    for name, sides in measure.rows(case, repetitions, names):
        target, unit = measure.targets[name]
        yield Comparison(
            name,
            case.name,
            sides.jax,
            sides.jaxmlir,
            target,
            case.equations,
            case.group,
            unit,
            sides.note,
            sides.error,
            sides.bound,
        )

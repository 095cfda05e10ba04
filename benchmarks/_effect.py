"""Measures the effect of each pass of a level: gradients compiled with it and without it.

A pass changes a program if its gradient, optimized without the pass, compiles to other XLA
instructions.  Then the two executables take turns.  Compared are the CPU time of all threads (the
least of several), and numbers that no other process disturbs: XLA's instructions, its own counts of
flops and bytes, and temporary memory.  All are ratios: with the pass to without it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import jax

import jaxmlir
from benchmarks import _code, _report
from benchmarks._comparisons import GRADIENTS, Case
from benchmarks._gradients import check_equal, runs, temporary
from jaxmlir.passes import LEVELS, STORAGE, Instrumentation, level_stages, parse_pipeline

PAYS = 1.02
"""A pass helps a program that takes so many times as long without it."""


class Effect(NamedTuple):
    """The effect of a pass on a gradient, as ratios: with the pass to without it.

    Attributes:
      run: CPU time, if it was measured.
      instructions, flops, bytes, temp: counts of the executable.
      compile: CPU time of XLA's compilation.
    """

    name: str
    program: str
    run: float | None
    instructions: float
    flops: float
    bytes: float
    temp: float
    compile: float


def effects(case: Case, names: Collection[str], level: int, repetitions: int) -> Iterator[Effect]:
    """The effects of those of the named passes that change the compiled gradient of a program."""
    function, args = case.make()
    program = jaxmlir.trace(function)(*case.abstract)

    def gradient(without: tuple[str, ...] = ()) -> jaxmlir.Program:
        before = program.optimize(level, without=(*STORAGE, *without))
        return before.grad().optimize(level, without=without)

    args = jax.tree.map(jax.device_put, args)
    compiled = None
    for name in _active(program, level) & {*names}:
        compiled = compiled or _compiled(gradient())
        without = _compiled(gradient((name,)))
        if _code.instructions(compiled[0]) == _code.instructions(without[0]):
            continue
        run = None
        if repetitions:
            check_equal(compiled[0](*args), without[0](*args))
            times = runs(without[0], compiled[0], args, repetitions, time.process_time)
            run = times.jaxmlir.min / times.jax.min
        counts = zip(_counts(compiled[0]), _counts(without[0]), strict=True)
        ratios = [a / max(b, 1.0) for a, b in counts]
        yield Effect(name, case.name, run, *ratios, compiled[1] / without[1])


def _active(program: jaxmlir.Program, level: int) -> Set[str]:
    """The passes that change the program, or its gradient."""
    found = set()

    def after(program: jaxmlir.Program, pipeline: str) -> jaxmlir.Program:
        copy = program.clone()
        for name in filter(None, pipeline.split(",")):
            before = copy.as_text()
            parse_pipeline(name).run(copy, Instrumentation(verify_each=False))
            if copy.as_text() != before:
                found.add(name)
        return copy

    structure, storage = level_stages(level)
    after(after(program, structure).grad(), f"{structure},{storage}")
    return found


def _compiled(program: jaxmlir.Program) -> tuple[Any, float]:
    """The executable, and the CPU seconds of its compilation."""
    lowered = program.lower()
    start = time.process_time()
    return lowered.compile(), time.process_time() - start


def _counts(compiled: Any) -> tuple[float, float, float, float]:
    costs = compiled.cost_analysis() or {}
    return (
        sum(_code.instructions(compiled).values()),
        costs.get("flops", 0.0),
        costs.get("bytes accessed", 0.0),
        temporary(compiled).min,
    )


def main(names: Collection[str], only: str, repetitions: int, path: str | None) -> int:
    """Prints, and writes, the effects of passes on the programs whose name matches."""
    found: list[Effect] = []
    programs = [case for case in GRADIENTS if re.search(only, case.name)]
    for n, case in enumerate(programs, 1):
        for effect in effects(case, names, 2, repetitions):
            found.append(effect)
            print(f"{case.name:24}{effect.name:32}{_shown(effect)}", flush=True)
        # Written after each program, so that an interrupted run leaves its results.
        document = {"jax": jax.__version__, "programs": n, "results": [e._asdict() for e in found]}
        if path:
            _report.dump(document, path)
    print("\n" + "\n".join(table(document)))
    return 0


def _shown(effect: Effect) -> str:
    """The ratios of one effect, as text."""
    run = "" if effect.run is None else f"time {effect.run:.2f}, "
    counts = {"flops": effect.flops, "bytes": effect.bytes, "memory": effect.temp}
    return run + ", ".join(f"{name} {ratio:.2f}" for name, ratio in counts.items())


def table(document: Mapping[str, Any], level: int = 2) -> Iterator[str]:
    """The effects as a Markdown table: for each pass and measure, the program it helps most."""
    yield "| pass | changes | time | flops | bytes | temporary memory | compile time |"
    yield "|---|---|---|---|---|---|---|"
    found = [Effect(**record) for record in document["results"]]
    for name in dict.fromkeys(LEVELS[level]):
        here = [e for e in found if e.name == name]
        cells = [_most(here, measure) for measure in ("run", "flops", "bytes", "temp", "compile")]
        yield f"| `{name}` | {len(here)} | {' | '.join(cells)} |"


def _most(effects: Sequence[Effect], measure: str) -> str:
    """The program on which a pass has the best ratio of one measure, and the ratio."""
    ratios = {e.program: getattr(e, measure) or 1.0 for e in effects}
    best = min(ratios, key=ratios.__getitem__, default="")
    return f"{1 / ratios[best]:.3g}x `{best}`" if best and ratios[best] * PAYS < 1 else ""

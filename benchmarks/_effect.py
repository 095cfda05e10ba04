"""What each pass of a level does for programs: gradients compiled with it, and without it.

A pass changes a program if its gradient, optimized without the pass, compiles to other
instructions of XLA's.  Then the two take turns, and what they take is compared: in CPU time of all
threads, least of several, and in what no other process disturbs: instructions of XLA's, its own
count of flops and bytes, and temporary memory.  All are ratios, with the pass to without it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from statistics import geometric_mean
from typing import Any, NamedTuple

import jax

import jaxmlir
from benchmarks import _code, _report
from benchmarks._comparisons import GRADIENTS, Case
from benchmarks._gradients import check_equal, runs, temporary
from jaxmlir.errors import JaxmlirError
from jaxmlir.passes import LEVELS, STORAGE

PAYS = 1.02
"""A pass helps a program that takes so many times as long without it."""


class Effect(NamedTuple):
    """What a pass does to a gradient: ratios, with the pass to without it.

    Attributes:
      run: CPU time.
      instructions, flops, bytes, temp: what is counted of the executable.
      compile: CPU time that XLA takes.
    """

    name: str
    program: str
    run: float
    instructions: float
    flops: float
    bytes: float
    temp: float
    compile: float


def effects(case: Case, names: Collection[str], level: int, repetitions: int) -> Iterator[Effect]:
    """The passes, of those named, that change what the gradient of a program compiles to."""
    function, args = case.make()
    program = jaxmlir.trace(function)(*case.abstract)

    def gradient(without: tuple[str, ...] = ()) -> jaxmlir.Program:
        before = program.optimize(level, without=(*STORAGE, *without))
        return before.grad().optimize(level, without=without)

    args = jax.tree.map(jax.device_put, args)
    whole = gradient()
    text = whole.as_text()
    compiled = None
    for name in names:
        try:
            other = gradient((name,))
        except JaxmlirError as e:
            raise RuntimeError(f"{case.name} without {name}: {e}") from e
        if other.as_text() == text:
            continue
        if compiled is None:
            compiled = _compiled(whole)
        without = _compiled(other)
        if _code.instructions(compiled[0]) == _code.instructions(without[0]):
            continue
        check_equal(compiled[0](*args), without[0](*args))
        times = runs(without[0], compiled[0], args, repetitions, time.process_time)
        counts = zip(_counts(compiled[0]), _counts(without[0]), strict=True)
        yield Effect(
            name,
            case.name,
            times.jaxmlir.min / times.jax.min,
            *(a / max(b, 1.0) for a, b in counts),
            compiled[1] / without[1],
        )


def _compiled(program: jaxmlir.Program) -> tuple[Any, float]:
    """The executable, and the seconds of CPU that XLA took."""
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
    """Prints, and writes, what passes do for the programs whose name matches."""
    found: list[Effect] = []
    programs = [case for case in GRADIENTS if re.search(only, case.name)]
    for n, case in enumerate(programs, 1):
        for effect in effects(case, names, 2, repetitions):
            found.append(effect)
            print(f"{case.name:24}{effect.name:32}{effect.run:8.3f}{effect.temp:8.3f}", flush=True)
        # Interrupted, it has what there is.
        document = {"jax": jax.__version__, "programs": n, "results": [e._asdict() for e in found]}
        if path:
            _report.dump(document, path)
    print("\n" + "\n".join(table(document)))
    return 0


def table(document: Mapping[str, Any], level: int = 2) -> Iterator[str]:
    """The effects as a table of Markdown: for each pass of the level, on which programs it pays."""
    yield "| pass | changes | geometric mean | faster | slower | temporary memory |"
    yield "|---|---|---|---|---|---|"
    found = [Effect(**record) for record in document["results"]]
    for name in dict.fromkeys(LEVELS[level]):
        here = sorted((e for e in found if e.name == name), key=lambda e: e.run)
        if not here:
            yield f"| `{name}` | 0 | | | | |"
            continue
        faster = [f"{e.program} {1 / e.run:.3g}x" for e in here if e.run * PAYS < 1][:3]
        slower = [f"{e.program} {e.run:.3g}x" for e in reversed(here) if e.run > PAYS][:2]
        less = min(here, key=lambda e: e.temp)
        memory = f"{less.program} {less.temp:.2f}" if less.temp < 0.98 else ""
        mean = geometric_mean(e.run for e in here)
        yield (
            f"| `{name}` | {len(here)} | {mean:.2f} | {', '.join(faster)} | {', '.join(slower)} "
            f"| {memory} |"
        )

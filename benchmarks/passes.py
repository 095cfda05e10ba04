"""``python -m benchmarks.passes``: what the passes of ``-O2`` cost, in microseconds per op.

    python -m benchmarks.passes                      all of them
    python -m benchmarks.passes jaxpr-cse --sizes 1000,10000

There are three programs.  The gradient of ``many_equations`` is a function without calls of about
three ops for every equation, a quarter of which the clean-up passes remove.  ``many_loops`` is a
sequence of loops before they are differentiated, each with a body of a dozen ops, some of them
invariant: once with bodies that differ in a number, and once with two bodies for all loops, which
are not counted more than once.  Each pass runs on what those before it leave, which may be little.
A pass whose cost is linear in the length of the program has one number in its row.  The clock is
that of the one thread that works; of several repetitions the fastest counts, as what else runs on
the machine makes them slower only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax

import jaxmlir
from benchmarks._measure import Timing, _seconds
from benchmarks.programs import many_equations, many_loops
from jaxmlir.passes import LEVELS, Instrumentation, Pipeline, parse_pipeline

SIZES = (1_000, 10_000, 100_000)
PROMISED = 25.0


def gradient(ops: int) -> jaxmlir.Program:
    """A straight program of about so many ops."""
    function, args = many_equations(ops // 3)
    return jaxmlir.trace(function)(*args).grad()


def loops(ops: int, *, alike: bool = False) -> jaxmlir.Program:
    """A program of loops with about so many ops."""
    function, args = many_loops(ops, alike=alike)
    return jaxmlir.trace(function)(*args)


PROGRAMS: dict[str, Callable[[int], jaxmlir.Program]] = {
    "gradient": gradient,
    "loops": loops,
    "alike": partial(loops, alike=True),
}


def count(program: jaxmlir.Program) -> int:
    return sum(len(list(f.entry_block.operations)) for f in program.functions.values())


def costs(
    program: jaxmlir.Program, names: Sequence[str], repetitions: int
) -> Iterator[tuple[str, float]]:
    """For each pass its microseconds per op that it finds.

    All passes of the level that come before those of ``names`` run too, so that each pass sees what
    it sees in the level's pipeline.
    """
    quiet = Instrumentation(verify_each=False)
    for name in dict.fromkeys((*LEVELS[2], *names)):
        pipeline, ops = parse_pipeline(name), count(program)
        if name in names:
            yield name, _seconds_of(pipeline, program, repetitions).min / ops * 1e6
        pipeline.run(program, quiet)


def _seconds_of(pipeline: Pipeline, program: jaxmlir.Program, repetitions: int) -> Timing:
    """How long passes take on copies of a program."""
    quiet, times = Instrumentation(verify_each=False), []
    for _ in range(repetitions):
        copy = program.clone()
        times.append(_seconds(lambda: pipeline.run(copy, quiet), 1, time.thread_time))  # noqa: B023
    return Timing.of(times)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("passes", nargs="*", default=LEVELS[2], help="by default those of -O2")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of ops")
    parser.add_argument("--program", choices=PROGRAMS, help="by default all")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(argv)
    names = tuple(dict.fromkeys(options.passes))
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"jax {jax.__version__}: microseconds per op, least of {options.repetitions}")
    for program in (options.program,) if options.program else PROGRAMS:
        _table(program, names, sizes, options.repetitions)
    return 0


def _table(program: str, names: Sequence[str], sizes: Sequence[int], repetitions: int) -> None:
    """Prints what each pass costs on a program of each size."""
    found: dict[str, list[float]] = {name: [] for name in names}
    # Modules are loaded and rules are met before anything is timed.
    list(costs(PROGRAMS[program](200), names, 1))
    for size in sizes:
        for name, cost in costs(PROGRAMS[program](size), names, repetitions):
            found[name].append(cost)
    print(f"\n| {program} |" + "".join(f" {size:,} ops |" for size in sizes))
    print("|---|" + "---|" * len(sizes))
    for name, row in found.items():
        late = "" if max(row) <= PROMISED else f" over {PROMISED:g}"
        print(f"| `{name}` |" + "".join(f" {cost:.1f} |" for cost in row) + late, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

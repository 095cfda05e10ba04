"""``python -m benchmarks.passes``: what the clean-up passes cost, in microseconds per op.

    python -m benchmarks.passes                      the passes of -O1
    python -m benchmarks.passes jaxpr-cse --sizes 1000,10000

The program is the gradient of ``many_equations``: a function without calls of about three ops for
every equation, a quarter of which the passes remove.  A pass whose cost is linear in the length of
the program has one number in its row.  The clock is that of the one thread that works.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import jax

import jaxmlir
from benchmarks._measure import Timing, _seconds
from benchmarks.programs import many_equations
from jaxmlir.passes import LEVELS, Instrumentation, parse_pipeline

SIZES = (1_000, 10_000, 100_000)


def program_of(ops: int) -> jaxmlir.Program:
    """A program of about so many ops."""
    function, args = many_equations(ops // 3)
    return jaxmlir.trace(function)(*args).grad()


def count(program: jaxmlir.Program) -> int:
    return sum(len(list(f.entry_block.operations)) for f in program.functions.values())


def seconds(program: jaxmlir.Program, name: str, repetitions: int) -> Timing:
    """How long a pass takes on copies of a program."""
    pipeline, quiet = parse_pipeline(name), Instrumentation(verify_each=False)
    times = []
    for _ in range(repetitions):
        copy = program.clone()
        times.append(_seconds(lambda: pipeline.run(copy, quiet), 1, time.thread_time))  # noqa: B023
    return Timing.of(times)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("passes", nargs="*", default=LEVELS[1], help="by default those of -O1")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of ops")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args(argv)
    programs = [program_of(int(size)) for size in options.sizes.split(",")]
    sizes = [count(program) for program in programs]
    print(f"jax {jax.__version__}: microseconds per op, median of {options.repetitions}\n")
    print("| pass |" + "".join(f" {size:,} ops |" for size in sizes))
    print("|---|" + "---|" * len(sizes))
    for name in options.passes:
        row = [
            seconds(program, name, options.repetitions).median / size * 1e6
            for program, size in zip(programs, sizes, strict=True)
        ]
        print(f"| `{name}` |" + "".join(f" {us:.1f} |" for us in row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m benchmarks.passes``: the cost of the passes of ``-O2``, in microseconds per op.

    python -m benchmarks.passes                      all of them
    python -m benchmarks.passes jaxpr-cse --sizes 1000,10000

All passes run on three programs.  The gradient of ``many_equations`` is a function without calls,
of about three ops for every equation; the clean-up passes remove a quarter of these.  The other two
are ``many_loops``: a sequence of undifferentiated loops, each with a body of a dozen ops, some of
them loop-invariant.  In one the bodies differ in a constant; in the other all loops share two
bodies, whose ops are counted once.  Each pass runs on the output of the passes before it, which may
be short.  If the cost of a pass is linear in the length of the program, the numbers in its row are
equal.

In the table of worst cases, each program is one that one pass rewrites most of, or examines longest
(:mod:`benchmarks.programs.worst_cases`).  The pass runs on the output of the clean-up passes.
Passes that transform gradients for compilation run on the output of all earlier passes of the
level.  A pass that looks through calls is measured per op with calls inlined.

With ``--effect`` it reports instead the effect of each pass on the plain and the naive programs:
for how many it changes the compiled gradient, and how much faster these are with it
(:mod:`benchmarks._effect`).

Times are CPU times of the one thread that works.  The fastest of several repetitions counts, as
other processes can only make one slower.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax

import jaxmlir
from benchmarks import _effect
from benchmarks._measure import Timing, _seconds
from benchmarks.programs import Program, deep_transformer, many_equations, many_loops, worst_cases
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.passes import LEVELS, STORAGE, Instrumentation, Pipeline, parse_pipeline

SIZES = (1_000, 10_000, 100_000)
PROMISED = 25.0
# Repetitions of a pass continue for this many seconds, up to this number.
SECONDS, MOST = 0.1, 20
# The arguments of the worst cases grow with these.
MOST_OPS_OF_WORST = 10_000
CLEAN_UP = "jaxpr-inline,jaxpr-canonicalize,jaxpr-cse,jaxpr-dce"


def gradient(ops: int) -> jaxmlir.Program:
    """A program of about so many ops, without calls and loops."""
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


def transformer(ops: int) -> jaxmlir.Program:
    """The gradient of a transformer, of about so many ops once its calls are inlined."""
    function, args = deep_transformer(max(1, ops // 200))
    return jaxmlir.trace(function)(*args).grad()


def compiled(make: Callable[[int], Program], name: str, ops: int) -> jaxmlir.Program:
    """The gradient of a program after all passes before ``name`` in the level's pipeline."""
    function, args = make(ops)
    program = jaxmlir.trace(function)(*args).optimize(2, without=STORAGE).grad()
    before = ",".join(LEVELS[2][: LEVELS[2].index(name)])
    parse_pipeline(before).run(program, Instrumentation(verify_each=False))
    return program


def cleaned(make: Callable[[int], Program], ops: int) -> jaxmlir.Program:
    """The program after the clean-up passes."""
    function, args = make(ops)
    program = jaxmlir.trace(function)(*args)
    parse_pipeline(CLEAN_UP).run(program, Instrumentation(verify_each=False))
    return program


def count(program: jaxmlir.Program) -> int:
    """The number of ops of a program."""
    return sum(len(list(f.entry_block.operations)) for f in program.functions.values())


def count_inlined(program: jaxmlir.Program) -> int:
    """The number of ops of a program's main function with its calls inlined."""
    with scope():
        return len(analyses_of(program).inlined(program.function(program.name)).ops)


def layers(ops: int) -> Program:
    """A transformer whose gradient has about so many ops once it is optimized, calls inlined."""
    return deep_transformer(max(1, ops // 250))


class Worst(NamedTuple):
    """A worst case: a pass, a maker of a program of about so many ops, and how ops are counted."""

    name: str
    make: Callable[[int], jaxmlir.Program]
    count: Callable[[jaxmlir.Program], int] = count
    options: str = ""

    @property
    def pipeline(self) -> Pipeline:
        return parse_pipeline(self.name + self.options)


WORST: dict[str, Worst] = {
    "linear chain": Worst("jaxpr-factor-linear-sums", partial(cleaned, worst_cases.linear_chain)),
    "linear chain of products": Worst(
        "jaxpr-factor-linear-sums",
        partial(cleaned, partial(worst_cases.linear_chain, products=True)),
    ),
    "products with sums": Worst(
        "jaxpr-reassociate", partial(cleaned, worst_cases.sums_of_products)
    ),
    "arrays filled in loops": Worst(
        "jaxpr-raise-loops", partial(cleaned, worst_cases.filled_arrays)
    ),
    "maps of six ops": Worst("jaxpr-raise-loops", partial(cleaned, worst_cases.small_maps)),
    "pairs of loops": Worst("jaxpr-fuse-scans", partial(cleaned, worst_cases.pairs_of_loops)),
    "written parts": Worst("jaxpr-slp-vectorize", partial(cleaned, worst_cases.written_parts)),
    "blocks for examples": Worst("jaxpr-vectorize-blocks", partial(cleaned, worst_cases.examples)),
    "loops of log-sum-exps": Worst(
        "jaxpr-factor-logsumexp", partial(cleaned, worst_cases.likelihoods)
    ),
    "one factor of many": Worst("jaxpr-reassociate", partial(cleaned, worst_cases.shared_factor)),
    "one term of many": Worst(
        "jaxpr-raise-convolutions", partial(cleaned, worst_cases.shared_term)
    ),
    "rows of one array": Worst("jaxpr-hoist-slices", partial(cleaned, worst_cases.selected_rows)),
    "places in a loop": Worst("jaxpr-raise-loops", partial(cleaned, worst_cases.places_in_a_loop)),
    "loops over one array": Worst(
        "jaxpr-inplace-scans",
        partial(cleaned, worst_cases.loops_over_one_array),
    ),
    "shrinking windows": Worst("jaxpr-materialize-shared", partial(cleaned, worst_cases.shrinking)),
    "values of a loop": Worst("jaxpr-materialize-shared", partial(cleaned, worst_cases.wide_loop)),
    "transformer": Worst("jaxpr-tile", transformer),
    "gradients of loops": Worst(
        "jaxpr-remat",
        partial(compiled, lambda n: many_loops(3 * n // 5), "jaxpr-remat"),
    ),
    "layers that are calls": Worst(
        "jaxpr-sink-recompute",
        partial(compiled, layers, "jaxpr-sink-recompute"),
        count_inlined,
    ),
    "forward passes of calls": Worst(
        "jaxpr-checkpoint-segments",
        partial(compiled, layers, "jaxpr-checkpoint-segments"),
        count_inlined,
        "{min-peak=0}",
    ),
    "forward passes": Worst("jaxpr-checkpoint-segments", transformer, options="{min-peak=0}"),
}


def costs(
    program: jaxmlir.Program, names: Sequence[str], repetitions: int
) -> Iterator[tuple[str, float]]:
    """Yields the microseconds of each named pass per op of its input.

    The other passes of the level run too, so that each pass gets the same input as in the level's
    pipeline.
    """
    quiet = Instrumentation(verify_each=False)
    for name in dict.fromkeys((*LEVELS[2], *names)):
        pipeline, ops = parse_pipeline(name), count(program)
        if name in names:
            yield name, seconds_of(pipeline, program, repetitions).min / ops * 1e6
        pipeline.run(program, quiet)


def seconds_of(pipeline: Pipeline, program: jaxmlir.Program, repetitions: int) -> Timing:
    """The time that passes take on copies of a program."""
    quiet, times = Instrumentation(verify_each=False), []
    most = MOST if repetitions > 1 else 1
    while len(times) < repetitions or (sum(times) < SECONDS and len(times) < most):
        copy = program.clone()
        times.append(_seconds(lambda: pipeline.run(copy, quiet), 1, time.thread_time))  # noqa: B023
    return Timing.of(times)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("passes", nargs="*", default=LEVELS[2], help="default: those of -O2")
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="numbers of ops of the programs"
    )
    parser.add_argument("--program", choices=(*PROGRAMS, "worst"), help="default: all")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--effect", action="store_true", help="measure the passes' effect instead")
    parser.add_argument("--only", default="", metavar="REGEX", help="with --effect: programs")
    parser.add_argument("--json", metavar="FILE", help="with --effect: write the results")
    options = parser.parse_args(argv)
    names = tuple(dict.fromkeys(options.passes))
    if options.effect:
        return _effect.main(names, options.only, options.repetitions, options.json)
    sizes = [int(size) for size in options.sizes.split(",")]
    print(f"jax {jax.__version__}: microseconds per op, least of {options.repetitions}")
    for program in (options.program,) if options.program else (*PROGRAMS, "worst"):
        table = _table_of_worst if program == "worst" else partial(_table, program)
        table(names, sizes, options.repetitions)
    return 0


def _table(program: str, names: Sequence[str], sizes: Sequence[int], repetitions: int) -> None:
    """Prints the cost of each pass on a program of each size."""
    found: dict[str, list[float]] = {name: [] for name in names}
    # Load modules and rules before anything is timed.
    list(costs(PROGRAMS[program](200), names, 1))
    for size in sizes:
        for name, cost in costs(PROGRAMS[program](size), names, repetitions):
            found[name].append(cost)
    _head(program, sizes)
    for name, row in found.items():
        _row(f"`{name}`", row)


def _table_of_worst(names: Sequence[str], sizes: Sequence[int], repetitions: int) -> None:
    """Prints the cost of passes on their worst cases."""
    sizes = [size for size in sizes if size <= MOST_OPS_OF_WORST]
    _head("worst cases", sizes)
    for title, worst in WORST.items():
        if worst.name not in names:
            continue
        pipeline, row = worst.pipeline, []
        seconds_of(pipeline, worst.make(200), 1)
        for size in sizes:
            program = worst.make(size)
            seconds = seconds_of(pipeline, program, repetitions).min
            row.append(seconds / worst.count(program) * 1e6)
        _row(f"`{worst.name}`, {title}", row)


def _head(title: str, sizes: Sequence[int]) -> None:
    print(f"\n| {title} |" + "".join(f" {size:,} ops |" for size in sizes))
    print("|---|" + "---|" * len(sizes))


def _row(title: str, row: Sequence[float]) -> None:
    late = "" if max(row, default=0) <= PROMISED else f" over {PROMISED:g}"
    print(f"| {title} |" + "".join(f" {cost:.1f} |" for cost in row) + late, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m benchmarks.device``: gradients on the local device, a GPU for example.

    python -m benchmarks.device                         eight minutes of programs
    python -m benchmarks.device --only attention --seconds 60
    python -m benchmarks.device --json out.json

It needs a checkout, JAX and numpy.  Each gradient is compiled by ``jax.jit``, and by
``jaxmlir.jit`` at levels 0, 1 and 2 and tuned.  Each executable takes turns with JAX's; times are
by the wall clock, until the results are ready.  A second row has the device memory that a call
needs at most: arguments, results and temporary bytes, as the compiler reports.  Arrays of floats
have 32 bits, and then ``bfloat16``; a program that fails in these is left out, with the reason.

Programs run in a shuffled but fixed order until the time is over, so that those which have run are
a sample of all.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxmlir
from benchmarks import _comparisons, _gradients, _report
from benchmarks._measure import NOTHING, Comparison, Sides, Timing

SECONDS = 480.0
# The promised ratios of time, by form.
FORMS: dict[Any, float | None] = {0: 1.05, 1: 1.03, 2: 1.03, "tune": 1.03}
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def measured(case: _comparisons.Case, dtype: str) -> Iterator[Comparison]:
    """Measures a gradient in arrays of a dtype: for each form the time, and the peak bytes."""

    def row(form: Any, sides: Sides, unit: str = "s") -> Comparison:
        name = form if form == "tune" else f"O{form}"
        measure = f"{dtype} {name}{' mem' * (unit == 'B')}"
        target = FORMS[form] if unit == "s" else None
        rest = (case.equations, case.group, unit, sides.note, sides.error)
        return Comparison(measure, case.name, sides.jax, sides.jaxmlir, target, *rest)

    function, args = case.make()
    args = jax.device_put(jax.tree.map(lambda x: _as(x, dtype), args))
    try:
        plain = jax.jit(jax.grad(function)).lower(*args).compile()
        expected = plain(*args)
    except Exception as error:
        yield row(0, Sides(NOTHING, NOTHING, error=f"jax.jit: {_first_line(error)}"))
        return
    for form in FORMS:
        try:
            ours = _compiled(function, args, form)
            tolerance = max(_gradients.TOLERANCE, float(jnp.finfo(DTYPES[dtype]).eps) ** 0.5)
            _gradients.check_equal(ours(*args), expected, tolerance)
            yield row(form, _gradients.runs(plain, ours, args, 1))
            yield row(form, Sides(_most(plain), _most(ours)), "B")
        except Exception as error:
            yield row(form, Sides(NOTHING, NOTHING, error=_first_line(error)))


def _as(x: Any, dtype: str) -> Any:
    is_float = jnp.issubdtype(jnp.result_type(x), jnp.floating)
    return jnp.asarray(x, DTYPES[dtype]) if is_float else jnp.asarray(x)


def _compiled(function: Any, args: Sequence[Any], form: Any) -> Any:
    """The executable of a gradient at a level, or tuned for the arguments."""
    jitted = jaxmlir.jit(jax.grad(function), optimize=form)
    if form == "tune":
        jax.block_until_ready(jitted(*args))
    return jitted.lower(*args).compile()


def _most(compiled: Any) -> Timing:
    memory = compiled.memory_analysis()
    kept = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return Timing.of([kept + memory.temp_size_in_bytes - memory.alias_size_in_bytes])


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures for a while, and prints a table."""
    options = _parser().parse_args(argv)
    start = time.monotonic()
    cases = [case for case in _comparisons.BENCHMARKS if re.search(options.only, case.name)]
    random.Random(0).shuffle(cases)
    results = []
    print(_report.HEADER)
    for case in cases:
        for dtype in options.dtypes.split(","):
            if time.monotonic() - start > options.seconds:
                continue
            for result in measured(case, dtype):
                results.append(result)
                print(_report.row(result), flush=True)
            if options.json:
                _report.dump(_report.to_json(results, 3, 2), options.json)
    print("\n" + "\n".join(_report.summary(results)))
    missing = len(cases) - len({result.program for result in results})
    if missing:
        print(f"{missing} of {len(cases)} programs were not reached in {options.seconds:.0f} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.device",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only programs whose name matches"
    )
    parser.add_argument("--dtypes", default="f32,bf16", help=f"out of {', '.join(DTYPES)}")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"start no program after so long ({SECONDS:g})",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to a file")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks.enzyme``: the same gradients by Enzyme-JAX, compared with JAX's.

    pip install enzyme-ad==0.0.16                    # for jax 0.10.2
    python -m benchmarks.enzyme --only newton

Enzyme-JAX differentiates and optimizes StableHLO.  A program that it cannot compile may kill the
process; so each has its own, in which Enzyme and JAX take turns.  The ratios to JAX can be compared
with those of ``python -m benchmarks --only '^grad_'``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks._measure import NOTHING, Comparison, Timing

SECONDS = 300
"""How long a program may take, compiling included."""


def main(argv: Sequence[str] | None = None) -> int:
    from benchmarks import _report
    from benchmarks.programs import NAIVE, PROGRAMS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.enzyme", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="only programs that match")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--scale", default="full", choices=("full", "small"))
    parser.add_argument("--json", metavar="FILE", help="also write the results to a file")
    parser.add_argument("--child", metavar="PROGRAM", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        made = {**PROGRAMS, **NAIVE}[options.child].make(options.scale)
        print(json.dumps(_measure(*made, options.repetitions)))
        return 0
    results = []
    print(_report.HEADER.replace("jaxmlir", " Enzyme"))
    for group, programs in (("plain", PROGRAMS), ("naive", NAIVE)):
        for name in filter(re.compile(options.only).search, programs):
            for result in _in_a_process(name, group, options):
                results.append(result)
                print(_report.row(result), flush=True)
    print("\n" + "\n".join(_report.summary(results)))
    if options.json:
        _report.dump(_report.to_json(results, options.repetitions, 0), options.json)
    return 0


def _in_a_process(name: str, group: str, options: argparse.Namespace) -> list[Comparison]:
    """The measurements of one program, or one row that says how its process ended."""
    command = [sys.executable, "-m", "benchmarks.enzyme", "--child", name, "--scale", options.scale]
    command += ["--repetitions", str(options.repetitions)]
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return [_failed(name, group, f"took more than {SECONDS} s")]
    if child.returncode:
        last = [line for line in child.stderr.splitlines() if "rror" in line][-1:]
        return [_failed(name, group, f"status {child.returncode} {' '.join(last)[:80]}")]
    measured = json.loads(child.stdout.splitlines()[-1])
    return [
        Comparison(
            f"enzyme_{measure}", name, Timing(*theirs), Timing(*enzyme), None, 0, group, unit
        )
        for measure, (theirs, enzyme, unit) in measured.items()
    ]


def _failed(name: str, group: str, error: str) -> Comparison:
    return Comparison("enzyme_run", name, NOTHING, NOTHING, None, 0, group, error=error)


def _measure(function: Any, args: Any, repetitions: int) -> dict[str, tuple[Any, Any, str]]:
    """The gradient's wall-clock time, CPU time and temporary memory, by Enzyme and by JAX."""
    import jax
    from enzyme_ad.jax import enzyme_jax_ir

    from benchmarks._gradients import check_equal, runs, temporary

    args = jax.tree.map(jax.device_put, args)
    theirs = jax.jit(jax.grad(function)).lower(*args).compile()
    enzyme = jax.jit(jax.grad(enzyme_jax_ir()(function))).lower(*args).compile()
    check_equal(enzyme(*args), theirs(*args))
    found = {}
    for name, clock in (("run", time.perf_counter), ("cpu", time.process_time)):
        sides = runs(theirs, enzyme, args, repetitions, clock)
        found[name] = (_numbers(sides.jax), _numbers(sides.jaxmlir), "s")
    return found | {"temp": (*map(_numbers, map(temporary, (theirs, enzyme))), "B")}


def _numbers(timing: Timing) -> tuple[float, float, float]:
    return timing.min, timing.median, timing.max


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks.raised``: programs that are lowered to StableHLO and raised again.

    python -m benchmarks.raised --only 'mlp|kalman' --json raised.json

Each program is exported by ``jax.export`` with its gradient (``vjp_order=1``), and raised.
jaxmlir's gradient of the raised program must equal the exported one.  A row has the cost of raising
per op, beside the time that JAX takes to trace and lower the source; and the run time of the raised
program's gradient at ``-O2`` beside that of the traced program's.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxmlir
from benchmarks import _gradients
from benchmarks.programs import NAIVE, PROGRAMS


class Row(NamedTuple):
    """The results of one program: ops, seconds, and ratios to the traced program."""

    ops: int
    trace: float
    raising: float
    distance: float
    cpu: float
    compile: float


def measure(make: Callable[[str], tuple[Any, Any]], repetitions: int) -> Row:
    """Measures one program at its full size.

    Raises:
      Mismatch: the gradient of the raised program differs from the exported one.
    """
    function, args = make("full")
    abstract = jax.tree.map(jax.typeof, args)
    traced = least(lambda: jax.jit(make("full")[0]).trace(*abstract), repetitions, fresh=True)
    exported = jax.export.export(jax.jit(function))(*abstract)
    exported = jax.export.deserialize(exported.serialize(vjp_order=1))
    raised = jaxmlir.from_exported(exported)
    raising = least(lambda: jaxmlir.from_exported(exported), repetitions)
    raised_gradient = _gradients.gradient(raised, 2)
    traced_gradient = _gradients.gradient(jaxmlir.trace(function)(*abstract), 2)
    compiled: list[Any] = []
    times = []
    for program in (traced_gradient, raised_gradient):
        lowered = program.lower()
        start = time.process_time()
        compiled.append(lowered.compile())
        times.append(time.process_time() - start)
    args = jax.tree.map(jax.device_put, args)
    # A VJP takes the flat arguments and the cotangent of the result.
    cotangent = jnp.ones(exported.out_avals[0].shape, exported.out_avals[0].dtype)
    cotangents = exported.vjp().call(*jax.tree.leaves(args), cotangent)
    first = len(jax.tree.leaves(args[0]))
    distance = _gradients.check_equal(compiled[1](*args), cotangents[:first])
    sides = _gradients.runs(*compiled, args, repetitions, time.process_time)
    return Row(
        exported.mlir_module().count(" = "),
        traced,
        raising,
        distance,
        sides.jaxmlir.min / sides.jax.min,
        times[1] / times[0],
    )


def least(work: Callable[[], object], repetitions: int, fresh: bool = False) -> float:
    """The least CPU time of the repetitions, in seconds; ``fresh`` clears JAX's caches before."""
    times = []
    for _ in range(repetitions):
        if fresh:
            jax.clear_caches()
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the selection; returns 1 if a gradient differs or a program fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raised", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="only programs that match")
    parser.add_argument("--repetitions", type=int, default=3, help="timings of each side (3)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to a file")
    options = parser.parse_args(argv)
    rows, failed = {}, 0
    print("| program | ops | trace us/op | raise us/op | distance | CPU time | compile |")
    print("|---|---|---|---|---|---|---|")
    for name, program in {**PROGRAMS, **NAIVE}.items():
        if not re.search(options.only, name):
            continue
        try:
            row = measure(program.make, options.repetitions)
        except Exception as e:
            failed += 1
            print(f"| {name} | {type(e).__name__}: {str(e).splitlines()[0]} |", flush=True)
            continue
        rows[name] = row
        trace, raising = (1e6 * seconds / row.ops for seconds in (row.trace, row.raising))
        print(
            f"| {name} | {row.ops} | {trace:.1f} | {raising:.1f} | {row.distance:.1g} "
            f"| {row.cpu:.3f} | {row.compile:.2f} |",
            flush=True,
        )
    if rows:
        for field in ("cpu", "compile"):
            ratios = [value for row in rows.values() if math.isfinite(value := getattr(row, field))]
            print(f"{field}: {geometric_mean(ratios):.3f} in the geometric mean, of {len(ratios)}")
    if options.json:
        text = json.dumps({name: row._asdict() for name, row in rows.items()}, indent=1)
        Path(options.json).write_text(text + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Compares the collectives in compiled sharded programs: jaxmlir's beside those of ``jax.jit``.

    python tools/collectives.py                        # the programs over a mesh
    python tools/collectives.py softmax_memory         # a benchmark program, its batch sharded
    python tools/collectives.py pipeline --without jaxpr-remat

The tool compiles each program's gradient for eight CPU devices, with ``jax.jit`` and at each level.
It prints how often a call runs each kind of collective, the bytes of their results, and the CPU
time of all devices.  It exits with 1 if a level has more collectives, or more bytes of them, than
JAX.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DEVICES = 8

KINDS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
CALLS = ("body", "condition", "to_apply", "calls")


class Collectives(NamedTuple):
    """How often a collective of a kind runs in a call, and the bytes of all its results."""

    count: int
    bytes: int


class Counts(dict[str, Collectives]):
    """The collectives of each kind."""

    def add(self, other: Counts, times: int = 1) -> None:
        """Adds other counts, multiplied by how often they run."""
        for kind, (count, size) in other.items():
            known = self.get(kind, Collectives(0, 0))
            self[kind] = Collectives(known.count + times * count, known.bytes + times * size)

    def total(self) -> Collectives:
        """The collectives of all kinds together."""
        return Collectives(*(sum(n) for n in zip((0, 0), *self.values(), strict=True)))

    def __str__(self) -> str:
        parts = [f"{count} {kind} ({size:,} B)" for kind, (count, size) in sorted(self.items())]
        return ", ".join(parts) or "none"


def collectives(text: str) -> Counts:
    """The collectives of each kind that a call of a compiled module runs.

    A loop body counts as many times as its known trip count, or once.  Of a conditional's branches
    the one with the most collectives counts.

    Args:
      text: of the module, as ``Compiled.as_text`` gives it.
    """
    # Imported here, because `main` first puts jaxmlir on the path.
    from jaxmlir.targets import hlo

    computations, entry = hlo.computations(text)

    @functools.cache
    def of_computation(name: str) -> Counts:
        found = Counts()
        for each in computations.get(name, ()):
            kind = each.op.removesuffix("-start")
            if kind in KINDS:
                found.add(Counts({kind: Collectives(1, hlo.bytes_of(each.type))}))
            if each.branches:
                found.add(max(map(of_computation, each.branches), key=Counts.total))
            for called in filter(None, map(each.called, CALLS)):
                count = each.trip_count
                found.add(of_computation(called), 1 if count is None else count)
        return found

    return of_computation(entry)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", help="names of programs (default: all over a mesh)")
    parser.add_argument(
        "--without", action="append", default=[], help="leave out a pass; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed calls, in turns (5)")
    options = parser.parse_args(argv)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from benchmarks.programs.sharded import SHARDED

    worse = [_print(name, options) for name in options.programs or SHARDED]
    return int(any(worse))


def _print(name: str, options: argparse.Namespace) -> bool:
    """Prints the rows of a program; returns whether one has more collectives than JAX's."""
    import jax

    import jaxmlir

    program = _program(name)
    gradient, arguments = jax.value_and_grad(program.loss), program.placed()
    forms = {"jax.jit": jax.jit(gradient)}
    for level in (0, 1, 2):
        forms[f"level {level}"] = jaxmlir.jit(
            gradient, optimize=level, without=options.without if level == 2 else ()
        )
    with program.context():
        compiled = {form: f.lower(*arguments).compile() for form, f in forms.items()}
        times: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(1 + options.rounds):
            for form, call in compiled.items():
                start = time.process_time()
                jax.block_until_ready(call(*arguments))
                times[form].append(time.process_time() - start)
    found = {form: collectives(call.as_text()) for form, call in compiled.items()}
    most, base = found["jax.jit"].total(), min(times["jax.jit"][1:])
    worse = False
    for form, counts in found.items():
        seconds, total = min(times[form][1:]), counts.total()
        is_more = total.count > most.count or total.bytes > most.bytes
        worse |= is_more
        more = "MORE: " if is_more else ""
        row = f"{name:20} {form:8} {seconds * 1e3:9.2f} ms {seconds / base:5.2f}  {more}{counts}"
        print(row, flush=True)
    return worse


def _program(name: str) -> Any:
    """A program over a mesh, or a benchmark program with all arguments but the first sharded."""
    import jax
    from jax.sharding import AxisType, Mesh
    from jax.sharding import PartitionSpec as P

    from benchmarks.programs import NAIVE, PROGRAMS
    from benchmarks.programs.sharded import SHARDED, Sharded

    if name in SHARDED:
        return SHARDED[name](jax.devices())
    loss, arguments = (PROGRAMS | NAIVE)[name].make("full")

    def spec(x: Any) -> P:
        return P("data") if np.ndim(x) and np.shape(x)[0] % DEVICES == 0 else P()

    mesh = Mesh(np.array(jax.devices()), ("data",), axis_types=(AxisType.Auto,))
    first, *rest = arguments
    specs = (jax.tree.map(lambda _: P(), first), *jax.tree.map(spec, rest))
    return Sharded(mesh, loss, arguments, specs)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m benchmarks.first_result``: from an imported JAX to the first gradient of a program.

    python -m benchmarks.first_result --only 'mlp|kalman' --repetitions 5

Fresh processes take turns: ``jax.jit(jax.grad(f))``, and ``jaxmlir.jit(jax.grad(f), optimize=2)``,
whose time includes the import of jaxmlir.  The *first* process of each finds no cache; the *second*
finds the caches of the first: XLA's executables (``JAX_COMPILATION_CACHE_DIR``), and in our case
also results of rules and passes.  Times are the least of the repetitions: CPU seconds of all
threads, and wall-clock seconds.  jaxmlir promises at most JAX's time plus 0.15 s, and at most 0.7
of JAX's in the geometric mean.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

LATER = 0.15
"""Seconds that a first result may come after JAX's."""

_CHILD = """
import json, sys, time
import jax
from benchmarks.programs import NAIVE, PROGRAMS
side, name, scale = sys.argv[1:]
function, args = {**PROGRAMS, **NAIVE}[name].make(scale)
args = jax.block_until_ready(jax.tree.map(jax.device_put, args))
cpu, wall = time.process_time(), time.perf_counter()
if side == "jax":
    jitted = jax.jit(jax.grad(function))
else:
    import jaxmlir
    jitted = jaxmlir.jit(jax.grad(function), optimize=2)
jax.block_until_ready(jitted(*args))
print(json.dumps((time.process_time() - cpu, time.perf_counter() - wall)))
"""


class Seconds(NamedTuple):
    """The CPU and wall-clock seconds of a process."""

    cpu: float
    wall: float


class Row(NamedTuple):
    """The least times of each side, in a first and in a second process."""

    jax: Seconds
    ours: Seconds
    jax_again: Seconds
    ours_again: Seconds


def measure(name: str, scale: str, repetitions: int) -> Row:
    """One program, in fresh processes that take turns."""
    times: dict[tuple[str, bool], list[Seconds]] = {}
    with tempfile.TemporaryDirectory() as kept:
        for side in ("jax", "ours"):
            _process(side, name, scale, _caches(f"{kept}/{side}"))
        for _ in range(repetitions):
            for side in ("jax", "ours"):
                for again in (False, True):
                    caches = _caches(f"{kept}/{side}") if again else {}
                    found = _process(side, name, scale, caches)
                    times.setdefault((side, again), []).append(found)
    # The least CPU and the least wall-clock time, each by itself: other processes only add time.
    least = {key: Seconds(*map(min, zip(*found, strict=True))) for key, found in times.items()}
    return Row(*(least[side, again] for again in (False, True) for side in ("jax", "ours")))


def _caches(folder: str) -> Mapping[str, str]:
    return {
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/xla",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "JAXMLIR_CACHE_DIR": f"{folder}/rules",
    }


def _process(side: str, name: str, scale: str, caches: Mapping[str, str]) -> Seconds:
    own = {key: value for key, value in os.environ.items() if key not in _caches("")}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, side, name, scale],
        env={"OPENBLAS_NUM_THREADS": "1", **own, **caches},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Seconds(*json.loads(done.stdout.splitlines()[-1]))


def main(argv: Sequence[str] | None = None) -> int:
    import jax

    from benchmarks.programs import NAIVE, PROGRAMS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_result", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="only programs that match")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--scale", default="full", choices=("full", "small"))
    options = parser.parse_args(argv)
    # Compile to bytecode, as pip does when it installs a package.
    compileall.compile_dir(Path(__file__).parent.parent / "jaxmlir", quiet=1)
    print(f"jax {jax.__version__}, seconds of CPU (of wall time), least of {options.repetitions}\n")
    print("| program | JAX | jaxmlir | | second: JAX | jaxmlir | |\n|---|---|---|---|---|---|---|")
    rows = []
    for name in filter(re.compile(options.only).search, (*PROGRAMS, *NAIVE)):
        row = measure(name, options.scale, options.repetitions)
        rows.append(row)
        late = " late" if row.ours.cpu > row.jax.cpu + LATER else ""
        print(
            f"| `{name}` | {_shown(row.jax)} | {_shown(row.ours)} "
            f"| {row.ours.cpu / row.jax.cpu:.2f}{late} | {_shown(row.jax_again)} "
            f"| {_shown(row.ours_again)} | {row.ours_again.cpu / row.jax_again.cpu:.2f} |",
            flush=True,
        )
    if not rows:
        print(f"no program matches {options.only!r}", file=sys.stderr)
        return 1
    first = geometric_mean(row.ours.cpu / row.jax.cpu for row in rows)
    second = geometric_mean(row.ours_again.cpu / row.jax_again.cpu for row in rows)
    against_first = geometric_mean(row.ours_again.cpu / row.jax.cpu for row in rows)
    print(
        f"\ngeometric mean {first:.2f}, second process {second:.2f}, which is "
        f"{against_first:.2f} of JAX's first"
    )
    return 0


def _shown(seconds: Seconds) -> str:
    return f"{seconds.cpu:.2f} ({seconds.wall:.2f})"


if __name__ == "__main__":
    sys.exit(main())

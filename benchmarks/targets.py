"""``python -m benchmarks.targets``: estimated costs of gradients on TPUs and GPUs.

    python -m benchmarks.targets                              every target whose compiler is here
    python -m benchmarks.targets --targets tpu:v5e --only sinkhorn
    python -m benchmarks.targets --json out.json --plot out.svg

Each gradient at an optimization level is compiled ahead of time (:func:`jaxmlir.aot`), beside that
of ``jax.jit``; no device is needed.  For TPUs the cycles that their compiler expects are compared;
for GPUs a lower bound of the kernels' time, from launches, bytes and products.  Loops count as
often as they run.  These are estimates, which rank programs; nothing is run.  Temporary bytes are
what the compiler reports.

Each program is compiled in a process of its own, for a limited time.  Results that the file
already has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

import jaxmlir
from benchmarks import _comparisons, _gradients, _plot, _report
from benchmarks._measure import NOTHING, Comparison, Sides, Timing
from jaxmlir import targets
from jaxmlir.targets import compilers

TARGETS = ("tpu:v5e", "cuda:h100")
# The promised ratio of times.  No more bytes than JAX's are promised if that ratio exceeds ENOUGH.
LIMIT, ENOUGH = 1.02, 0.9


def measured(name: str, target: str, level: int, without: Sequence[str]) -> Iterator[Comparison]:
    """One program on one target: the estimated time, and temporary bytes."""
    case = _case(name)
    function, _ = case.make()
    program = jaxmlir.trace(function)(*case.abstract)
    gradient = _gradients.gradient(program, level, target=target, without=without)
    of_jax = jaxmlir.aot(jax.grad(function), target, *case.abstract)
    ours = jaxmlir.aot(gradient, target)
    times = Sides(*map(_time, (of_jax, ours)), note=_unknown(of_jax, ours))
    yield _row(case, target, times)
    sizes = Sides(*(_gradients.temporary(side.compiled) for side in (of_jax, ours)))
    promised = times.jaxmlir.median > ENOUGH * times.jax.median
    yield _row(case, target, sizes, 1.0 if promised else None, " temp", "B")


def _time(executable: Any) -> Timing:
    found = executable.estimate
    return Timing.of([found.cycles if executable.target.platform == "tpu" else found.nanoseconds])


def _unknown(of_jax: Any, ours: Any) -> str:
    count = max(side.estimate.unknown_loops for side in (of_jax, ours))
    return f"{count} loops of unknown length" if count else ""


def _row(
    case: _comparisons.Case,
    target: str,
    sides: Sides,
    limit: float | None = LIMIT,
    suffix: str = "",
    unit: str = "",
) -> Comparison:
    unit = unit or ("cycles" if target.startswith("tpu") else "ns")
    rest = (limit, case.equations, case.group, unit, sides.note, sides.error)
    return Comparison(f"{target}{suffix}", case.name, sides.jax, sides.jaxmlir, *rest)


def _case(name: str) -> _comparisons.Case:
    return next(case for case in _comparisons.BENCHMARKS if case.name == name)


def _in_a_process(name: str, target: str, options: argparse.Namespace) -> list[Comparison]:
    """Measures one program in a process that is killed after a limit of CPU time."""
    command = [sys.executable, "-m", "benchmarks.targets", "--one", name, "--targets", target]
    command += ["--level", str(options.level), "--without", options.without]
    command += ["--seconds", str(options.seconds)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            # The wall clock's limit is longer: the machine may be busy.
            timeout=8 * options.seconds,
            check=False,
        )
        if done.returncode == 0:
            return [read(json.loads(line)) for line in done.stdout.splitlines()]
        lines = done.stderr.strip().splitlines() or [""]
        raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        late = done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
        error = "" if late else (raised or lines)[-1][:300]
    except subprocess.TimeoutExpired:
        error = ""
    error = error or f"not compiled in {options.seconds} s of CPU time"
    return [_row(_case(name), target, Sides(NOTHING, NOTHING, error=error))]


def read(record: dict[str, Any]) -> Comparison:
    """The row that a JSON record describes."""
    fields = {key: value for key, value in record.items() if key != "ratio"}
    for side in ("jax", "jaxmlir"):
        fields[side] = Timing(**fields[side]) if side in fields else NOTHING
    return Comparison(**fields)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the options select and prints a table."""
    options = _parser().parse_args(argv)
    names = options.targets.split(",") if options.targets else []
    if options.one:
        resource.setrlimit(resource.RLIMIT_CPU, (options.seconds, options.seconds))
        without = [name for name in options.without.split(",") if name]
        for row in measured(options.one, names[0], options.level, without):
            print(json.dumps(_report.record(row)))
        return 0
    for name in () if names else TARGETS:
        command = compilers.missing(targets.target(name))
        if command is None:
            names.append(name)
        else:
            print(f"{name}: no compiler here: {command}", file=sys.stderr)
    file = Path(options.json) if options.json else None
    results = []
    if file is not None and file.exists():
        results = [read(record) for record in json.loads(file.read_text())["results"]]
    known = {(result.measure, result.program) for result in results}
    print(_report.HEADER)
    for target in names:
        for case in _comparisons.BENCHMARKS:
            if (target, case.name) in known or not re.search(options.only, case.name):
                continue
            for result in _in_a_process(case.name, target, options):
                results.append(result)
                print(_report.row(result), flush=True)
            if file is not None:
                _report.dump(_document(results, options), file)
    print("\n" + "\n".join(_report.summary(results)))
    if options.plot:
        times = [result for result in results if result.unit != "B"]
        _plot.plot(_document(times, options), options.plot)
    return 0


def _document(results: Sequence[Comparison], options: argparse.Namespace) -> dict[str, Any]:
    compiled_by = {"libtpu": _version("libtpu"), "cuda": _version("jax-cuda12-plugin")}
    return {"compilers": compiled_by, **_report.to_json(results, 1, options.level)}


def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.targets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--targets", metavar="NAME,...", help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--only", default="", metavar="REGEX", help="only programs that match")
    parser.add_argument("--level", type=int, default=2, help="the optimization level (2)")
    parser.add_argument("--without", default="", metavar="PASS,...", help="passes to leave out")
    parser.add_argument("--seconds", type=int, default=180, help="CPU time for a program (180)")
    parser.add_argument("--json", metavar="FILE", help="results, kept and extended")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios, as SVG")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())

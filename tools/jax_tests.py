"""Runs JAX's own tests twice, plain and with every compilation going through the dialect.

With ``--transforms``, compilation stays JAX's.  Instead, functions that the tests differentiate or
batch go through the dialect, and the passes transform them.

    python tools/jax_tests.py ~/jax lax_test api_test pallas/pallas_test
    python tools/jax_tests.py ~/jax shard_map_test --round-trip --workers 2
    python tools/jax_tests.py ~/jax nn_test --pipeline jaxpr-canonicalize,jaxpr-cse -k softmax
    python tools/jax_tests.py ~/jax lax_test --level 2 --every 10
    python tools/jax_tests.py ~/jax linalg_test --x64
    python tools/jax_tests.py ~/jax lax_vmap_test --transforms

The checkout must be at the tag of the installed JAX (``jax-v0.10.2``): its tests run with the
installed package.  A test that passes with plain JAX must pass through the dialect, unless
``jax_tests_differ.toml`` names it, with the reason.  The exit status is 1 if one does not, or if no
test ran.

Outcomes are lines of ``build/jax_tests/<jax version>/<mode>/<file>.jsonl``, with ``--x64`` below
``<jax version>+x64``.  Outcomes of plain runs are reused.  With ``--resume`` the others are too, so
that an interrupted run continues.
Each file runs in a process of its own.  A test that kills its process, or takes longer than
``--timeout``, has failed, and the rest of the file continues in another process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / "build" / "jax_tests"
sys.path.insert(0, str(ROOT))

from jaxmlir.errors import PipelineError  # noqa: E402
from jaxmlir.passes import LEVELS, parse_pipeline  # noqa: E402
from tools.jax_tests_report import Comparison, Record, outcomes, progress, read, show  # noqa: E402
from tools.tool_options import positive  # noqa: E402


@dataclass(frozen=True)
class Mode:
    """How tests run: with plain JAX, or through the dialect with these settings."""

    name: str
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def through(cls, round_trip: bool, pipeline: str, level: int) -> Mode:
        words = ["dialect", *(["text"] if round_trip else [])]
        if level:
            words.append(f"O{level}")
        else:
            words += re.findall(r"[\w-]+", pipeline)
        env = {
            "JAXMLIR_BACKEND": "1",
            "JAXMLIR_OPTIMIZE": str(level),
            "JAXMLIR_ROUND_TRIP": str(int(round_trip)),
            "JAXMLIR_PIPELINE": pipeline,
        }
        return cls("+".join(words), env)


PLAIN = Mode("plain")
TRANSFORMS = Mode("transforms", {"JAXMLIR_BACKEND": "0", "JAX_TESTS_TRANSFORMS": "1"})


@dataclass
class Job:
    """One file in one mode."""

    checkout: Path
    file: str
    mode: Mode
    record: Path
    options: argparse.Namespace

    def outcomes(self) -> dict[str, Record]:
        return outcomes(self.record)

    def collected(self) -> int:
        return max((r["collected"] for r in read(self.record) if "collected" in r), default=0)

    def run(self) -> None:
        """Runs the tests without an outcome, in as many processes as it takes."""
        selection = [self.options.select, self.options.every, self.options.cases]
        if any(r.get("complete") == selection for r in read(self.record)):
            return
        self.record.parent.mkdir(parents=True, exist_ok=True)
        left = True
        while left:
            before = len(self.outcomes())
            lost = self._run_once()
            if lost is not None:
                self._fail(*lost)
            elif not any("collected" in r for r in read(self.record)):
                return self._fail(self.file, self._log().read_text()[-4000:])
            else:
                left = len(self.outcomes()) not in (before, self.collected())
        self._write(complete=selection)

    def _fail(self, test: str, why: str) -> None:
        limit = self.options.timeout
        self._write(id=test, outcome="failed", wall=limit, cpu=limit, why=why)

    def _write(self, **fields: Any) -> None:
        with self.record.open("a") as file:
            # The leading newline ends a line that may be truncated.
            file.write("\n" + json.dumps(fields) + "\n")

    def _log(self) -> Path:
        return self.record.with_suffix(".log")

    def _run_once(self) -> tuple[str, str] | None:
        """Runs one process; returns the test that ended it, if one did, and the reason."""
        with self._log().open("w") as output:
            process = subprocess.Popen(
                self._command(), env=self._env(), stdout=output, stderr=output, cwd=STATE
            )
            try:
                timed_out = self._watch(process)
            finally:
                process.kill()
                process.wait()
        running = self._running()
        if running is None:
            return None
        if timed_out:
            return running, f"took longer than {self.options.timeout} s"
        return running, f"the process ended with status {process.returncode}"

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits for the process to end; returns whether a test took too long."""
        current, since = None, time.monotonic()
        while process.poll() is None:
            time.sleep(0.5)
            running = self._running()
            if running != current:
                current, since = running, time.monotonic()
            if current is not None and time.monotonic() - since > self.options.timeout:
                return True
        return False

    def _running(self) -> str | None:
        records = [r for r in read(self.record) if "start" in r or "id" in r]
        return records[-1].get("start") if records else None

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
        command += ["-c", str(self.checkout / "pyproject.toml"), "--rootdir", str(self.checkout)]
        command += ["-p", "jax_tests_plugin"]
        if self.mode is not PLAIN:
            command += ["-p", "jaxmlir.backend"]
        if self.options.select:
            command += ["-k", self.options.select]
        return [*command, str(self.checkout / "tests" / f"{self.file}.py")]

    def _env(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.mode.env,
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": str(int(self.options.x64)),
            "JAX_NUM_GENERATED_CASES": str(self.options.cases),
            "JAX_TESTS_CHECKOUT": str(self.checkout),
            "JAX_TESTS_EVERY": str(self.options.every),
            "JAX_TESTS_RECORD": str(self.record),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tools")]),
            # The checkout has a package `jax` too.
            "PYTHONSAFEPATH": "1",
        }


def run(jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, int]]:
    """Runs the jobs; yields now and then how many tests have an outcome, and how many there are."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(job.run) for job in jobs]
        while not all(future.done() for future in futures):
            time.sleep(1)
            yield (
                sum(len(job.outcomes()) for job in jobs),
                sum(max(job.collected(), len(job.outcomes())) for job in jobs),
            )
        for future in futures:
            future.result()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="checkout of JAX at the installed version")
    parser.add_argument("files", nargs="+", help="test files, e.g. lax_test or pallas/pallas_test")
    parser.add_argument(
        "-k", dest="select", metavar="EXPR", help="only tests that pytest's -k selects"
    )
    parser.add_argument(
        "--every", metavar="N", type=positive, default=1, help="only every N-th test"
    )
    parser.add_argument(
        "--cases", metavar="N", type=positive, default=10, help="N generated cases (10)"
    )
    parser.add_argument("--workers", metavar="N", type=positive, default=2, help="N processes (2)")
    parser.add_argument(
        "--timeout", metavar="S", type=positive, default=300, help="time limit of a test (300 s)"
    )
    parser.add_argument("--round-trip", action="store_true", help="print and parse every program")
    passes = parser.add_mutually_exclusive_group()
    passes.add_argument(
        "--pipeline", metavar="PASSES", default="", help="passes to run on all programs"
    )
    passes.add_argument(
        "--level",
        type=int,
        default=0,
        choices=LEVELS,
        help="run the passes of a level, also before differentiation",
    )
    parser.add_argument(
        "--transforms", action="store_true", help="differentiate and batch by jaxmlir's passes"
    )
    parser.add_argument("--x64", action="store_true", help="with 64-bit types (JAX_ENABLE_X64)")
    parser.add_argument("--resume", action="store_true", help="continue an earlier run")
    parser.add_argument(
        "--slowest", metavar="N", type=int, default=10, help="list N slowest tests (10)"
    )
    options = parser.parse_args(argv)

    import jax

    try:
        parse_pipeline(options.pipeline)
    except PipelineError as e:
        parser.error(str(e))
    mode = Mode.through(options.round_trip, options.pipeline, options.level)
    if options.transforms:
        if mode.name != "dialect":
            parser.error("--transforms compiles as JAX does: no passes, no --round-trip")
        mode = TRANSFORMS
    version = jax.__version__ + ("+x64" if options.x64 else "")
    files = [name.removesuffix(".py").removeprefix("tests/") for name in options.files]
    needed = [options.checkout / "pyproject.toml"]
    needed += [options.checkout / "tests" / f"{file}.py" for file in files]
    if missing := [str(path) for path in needed if not path.is_file()]:
        parser.error(f"not a checkout of JAX with these tests: no {', '.join(missing)}")
    jobs = {
        (file, m.name): Job(
            options.checkout.resolve(),
            file,
            m,
            STATE / version / m.name / f"{file.replace('/', '.')}.jsonl",
            options,
        )
        for file in files
        for m in (PLAIN, mode)
    }
    STATE.mkdir(parents=True, exist_ok=True)
    for (_, name), job in jobs.items():
        if name == mode.name and not options.resume:
            job.record.unlink(missing_ok=True)
    progress(run(list(jobs.values()), options.workers))
    comparisons = [
        Comparison(file, jobs[file, "plain"].outcomes(), jobs[file, mode.name].outcomes())
        for file in files
    ]
    show(comparisons, options.slowest)
    if not any(c.tests for c in comparisons):
        print("error: no test was run both in plain JAX and through the dialect", file=sys.stderr)
        return 1
    return 1 if any(c.broken for c in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs programs of other people's libraries through the dialect and compares each step with JAX.

    python tools/ecosystem.py                        those without an outcome for this jaxmlir
    python tools/ecosystem.py --select 'optax|mctx' --again
    python tools/ecosystem.py --steps=trace,grad     some steps; the page keeps the others
    python tools/ecosystem.py --clean                deletes the environments
    python tools/ecosystem.py --page                 only writes the page

A program is a file of ``ecosystem/programs``: its requirements are in its header (PEP 723), and its
function ``make`` returns a function with a scalar result, and arguments.  ``ecosystem_steps.py``
defines the steps.  Each program runs in its own isolated environment below ``--environments``.  uv
(``pip install uv``) makes these by links into one cache of packages: forty environments take 3 GB.
The saved program is loaded in an environment that has only JAX and jaxmlir.  One process runs at a
time.

Outcomes are kept in ``build/ecosystem/<jax version>/<program>.json``, with a digest of the package,
of the tool and of the program.  If the digest changes, the program runs again, after those without
an outcome.
``docs/ecosystem-<jax version>.json`` has all outcomes, for use in a fresh checkout, and
``docs/ecosystem.md`` is made from these files.
The exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import ecosystem_report as report  # noqa: E402
from conformance_report import progress  # noqa: E402
from tool_options import positive, regex  # noqa: E402

Record = dict[str, Any]

PROGRAMS = ROOT / "ecosystem" / "programs"
DOCS = ROOT / "docs"
STATE = ROOT / "build" / "ecosystem"
# Run all of XLA's passes and few of LLVM's: code compiled only to compare numbers runs a few times.
QUICK_FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# In 0.10 also select emitters that produce less code; later versions do not have them.
QUICK_FLAGS_0_10 = f"{QUICK_FLAGS} --xla_cpu_use_fusion_emitters=false"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
# The sources of the package and of the steps.
DIGESTED = (
    *("jaxmlir/**/*.py", "jaxmlir/**/*.toml"),
    *("tools/ecosystem*.py", "tools/conformance_*.py", "benchmarks/_*.py"),
)
STEPS = ("trace", "text", "save", "load", *report.DERIVATIVES, "-O2", "times")
HEADER = re.compile(r"(?m)^# /// script\n(?P<content>(?:^#(?:| .*)\n)+?)^# ///$")


@dataclass(frozen=True)
class Program:
    """A program's file with the contents of its header."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def requirements(self) -> list[str]:
        """The requirements to install: the header's ``dependencies``."""
        match = HEADER.search(self.path.read_text())
        if match is None:
            raise SystemExit(
                f"error: {self.path} has no header `# /// script` with its dependencies"
            )
        content = "".join(line[2:] or "\n" for line in match["content"].splitlines(keepends=True))
        return tomllib.loads(content)["dependencies"]


@dataclass(frozen=True)
class Environments:
    """Virtual environments below a folder; each has one JAX and a program's requirements."""

    root: Path
    python: str
    jax: str

    def make(self, name: str, requirements: Sequence[str]) -> str:
        """The Python of an environment, which is created if it does not exist.

        Raises:
          CannotInstall: says why.
        """
        folder = self.root / f"{name}-jax-{self.jax}"
        wanted = "\n".join([*requirements, f"jax=={self.jax}"])
        stamp, python = folder / "requirements.txt", folder / "bin" / "python"
        if not stamp.exists() or stamp.read_text() != wanted:
            self._uv("venv", "--clear", "--python", self.python, str(folder))
            self._uv("pip", "install", "--python", str(python), *wanted.splitlines())
            stamp.write_text(wanted)
        return str(python)

    def versions(self, python: str, requirements: Sequence[str]) -> dict[str, str]:
        """The installed versions of the requirements."""
        names = {re.split(r"[^\w.-]", r)[0].lower() for r in requirements}
        listed = json.loads(self._uv("pip", "list", "--python", python, "--format", "json"))
        return {p["name"]: p["version"] for p in listed if p["name"].lower() in names}

    def _uv(self, *arguments: str) -> str:
        env = {**os.environ, "UV_CACHE_DIR": str(self.root / "cache")}
        process = subprocess.run(
            [*uv(), "--quiet", *arguments], env=env, capture_output=True, text=True
        )
        if process.returncode:
            raise CannotInstall(" ".join(process.stderr.split())[-400:])
        return process.stdout


class CannotInstall(Exception):
    """An environment cannot be made."""


def uv() -> list[str]:
    """The command ``uv``: the one beside this Python, or else the one on the PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise SystemExit("error: uv makes the environments, but is not installed: pip install uv")
    return [found]


def digest(program: Program) -> str:
    """A digest of everything that an outcome depends on, except the versions of libraries."""
    content = hashlib.sha256()
    for pattern in DIGESTED:
        for path in sorted(ROOT.glob(pattern)):
            content.update(path.read_bytes())
    content.update(program.path.read_bytes())
    return content.hexdigest()[:16]


def commit() -> str:
    """The checkout's commit, with a plus sign if files differ from it."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=10"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


# --- running --------------------------------------------------------------------------------------


def run(
    program: Program, environments: Environments, steps: Sequence[str], timeout: float
) -> Record:
    """The outcome of a program in some steps."""
    record: Record = {
        "name": program.name,
        "requirements": program.requirements,
        "digest": digest(program),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "jax": environments.jax,
    }
    try:
        bare = environments.make("bare", ())
        python = environments.make(program.name, program.requirements)
    except CannotInstall as e:
        return {**record, "excluded": f"cannot be installed: {e}"}
    record["versions"] = environments.versions(python, program.requirements)
    folder = STATE / environments.jax / "scratch" / program.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found: dict[str, Any] = {}
    # Steps that failed with quick flags; they run again without, as only rounding may be wrong.
    again: set[str] = set()
    lines = folder / "record.jsonl"
    while left := [step for step in steps if step not in found]:
        # Times are measured in a separate process, without the quick flags, as users compile.
        numbers = [step for step in left if step != "times" and step not in again]
        quick = QUICK_FLAGS_0_10 if environments.jax.startswith("0.10.") else QUICK_FLAGS
        failed = [step for step in left if step in again]
        left, flags = (numbers, quick) if numbers else (failed or left, "")
        lines.write_text("")
        command = [python, "-P", str(ROOT / "tools" / "ecosystem_steps.py"), str(program.path)]
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                [*command, str(lines), "--bare", bare, f"--steps={','.join(left)}"],
                env=_environ(flags),
                stdout=log,
                stderr=log,
                cwd=folder,
            )
            try:
                in_time = _watch(process, lines, timeout)
            finally:
                process.kill()
                process.wait()
        events = [json.loads(line) for line in lines.read_text().splitlines()]
        for event in events:
            if "excluded" in event:
                return {**record, "excluded": event["excluded"]}
            if "step" in event and flags and event["outcome"].startswith("failed"):
                again.add(event["step"])
            elif "step" in event:
                found[event["step"]] = event["outcome"]
        if process.returncode or not in_time:
            why = (
                f"the process ended with status {process.returncode}"
                if in_time
                else f"took longer than {timeout:g} s"
            )
            running = next((e["start"] for e in reversed(events) if "start" in e), None)
            if running is None or running in found or (flags and running in again):
                return {**record, "excluded": f"{why} before the first step"}
            found[running] = f"failed: {why}"
    times = found.pop("times", None)
    if isinstance(times, dict):
        record["times"] = times
    elif times is not None:
        found["times"] = times
    return {**record, "steps": found}


def _environ(xla_flags: str) -> dict[str, str]:
    # With cached bytecode, libraries are imported in a third of the time.
    dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    inherited = {k: v for k, v in os.environ.items() if k not in dropped}
    return {
        **inherited,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": xla_flags,
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONNOUSERSITE": "1",
    }


def _watch(process: subprocess.Popen[bytes], lines: Path, timeout: float) -> bool:
    """Waits for the process to end; returns False if a step took too long."""
    size, since = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        if lines.stat().st_size != size:
            size, since = lines.stat().st_size, time.monotonic()
        if time.monotonic() - since > timeout:
            return False
    return True


def run_all(
    programs: Iterable[Program],
    environments: Environments,
    steps: Sequence[str],
    timeout: float,
) -> Iterator[Record]:
    """Runs programs and saves their outcomes; steps that do not run keep their earlier outcomes."""
    for program in programs:
        before = load(program, environments.jax)
        record = report.updated(before, run(program, environments, steps, timeout))
        path = STATE / environments.jax / f"{program.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")
        yield record


def load(program: Program, jax: str) -> Record | None:
    """The kept outcome of a program, from the build folder or else the docs, if there is one."""
    path = STATE / jax / f"{program.name}.json"
    if path.exists():
        return json.loads(path.read_text())
    return report.saved(DOCS, jax).get(program.name)


def is_done(program: Program, record: Record | None, steps: Iterable[str]) -> bool:
    """Whether the kept outcome is of these sources, and has all these steps."""
    if record is None or record["digest"] != digest(program):
        return False
    have = {*record.get("steps", ()), *(("times",) if "times" in record else ())}
    return "excluded" in record or have.issuperset(steps)


# --- command line ---------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--select", metavar="REGEX", type=regex, help="only programs whose name matches"
    )
    parser.add_argument(
        "--steps", metavar="STEP,...", type=lambda text: text.split(","), help="only these steps"
    )
    parser.add_argument(
        "--again", action="store_true", help="also run programs that have an outcome"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=positive, default=600, help="time limit of a step (600 s)"
    )
    parser.add_argument(
        "--environments",
        metavar="DIR",
        type=Path,
        default=CACHE / "jaxmlir" / "ecosystem",
        help="folder of the environments and the package cache (the user's cache)",
    )
    parser.add_argument(
        "--python", default=sys.executable, help="Python of the environments (this one)"
    )
    parser.add_argument("--jax", metavar="VERSION", help="JAX of the environments (this Python's)")
    parser.add_argument("--clean", action="store_true", help="only delete the environments")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args(argv)

    steps = options.steps or STEPS
    if unknown := set(steps).difference(STEPS):
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    if options.clean:
        shutil.rmtree(options.environments, ignore_errors=True)
        return 0
    if options.jax is None:
        from importlib.metadata import version

        options.jax = version("jax")
    programs = [Program(path) for path in sorted(PROGRAMS.glob("*.py"))]
    chosen = [p for p in programs if not options.select or options.select.search(p.name)]
    if not chosen:
        parser.error(f"no program has a name that matches '{options.select.pattern}'")
    environments = Environments(options.environments.resolve(), options.python, options.jax)
    if not options.page:
        kept = {p: load(p, options.jax) for p in chosen}
        todo = [p for p in chosen if options.again or not is_done(p, kept[p], steps)]
        todo.sort(key=lambda p: kept[p] is not None)
        for record in progress(run_all(todo, environments, steps, options.timeout), len(todo)):
            report.show(record)
    records = [record for p in programs if (record := load(p, options.jax))]
    report.write_docs(DOCS, options.jax, records, STEPS)
    return 1 if any(report.failures(record) for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())

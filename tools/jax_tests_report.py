"""The output of ``jax_tests.py``, and the page of the docs made from its records.

    python tools/jax_tests_report.py        build/jax_tests -> docs/jax-tests.md

Sections of the page that do not belong to a version of JAX are written by hand, and are kept.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / "build" / "jax_tests"
PAGE = ROOT / "docs" / "jax-tests.md"
DIFFER = Path(__file__).with_name("jax_tests_differ.toml")

Record = dict[str, Any]


# A run polls its records: a file that did not grow is not read again.
_known: dict[Path, tuple[int, list[Record]]] = {}


def read(path: Path) -> list[Record]:
    """The lines of a record file; the last one may be truncated if a process died."""
    size = path.stat().st_size if path.exists() else 0
    if path not in _known or _known[path][0] != size:
        _known[path] = size, list(_parsed(path.read_text())) if size else []
    return _known[path][1]


def _parsed(text: str) -> Iterator[Record]:
    for line in text.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(line)


def outcomes(path: Path) -> dict[str, Record]:
    """The last outcome of each test."""
    return {r["id"]: r for r in read(path) if "id" in r}


def differ() -> dict[str, str]:
    """The tests that are not expected to pass through the dialect: pattern of the id -> why."""
    with DIFFER.open("rb") as file:
        return {
            pattern: reason
            for reason, patterns in tomllib.load(file).items()
            for pattern in patterns
        }


@dataclass
class Comparison:
    """The outcomes of the tests in one file, plain and through the dialect."""

    file: str
    plain: dict[str, Record]
    through: dict[str, Record]

    @cached_property
    def tests(self) -> list[str]:
        """The tests that were run both ways."""
        return [test for test in self.through if test in self.plain]

    @cached_property
    def passed(self) -> list[str]:
        """The tests that pass with plain JAX."""
        return [test for test in self.tests if self.plain[test]["outcome"] == "passed"]

    @cached_property
    def listed(self) -> dict[str, str]:
        """The tests that are expected to fail through the dialect, and do, with the reasons."""
        expected = {re.compile(pattern): why for pattern, why in differ().items()}
        found = {}
        for test in self.passed:
            why = next((why for pattern, why in expected.items() if pattern.search(test)), None)
            if why and self.through[test]["outcome"] != "passed":
                found[test] = why
        return found

    @cached_property
    def broken(self) -> list[Record]:
        """The tests that pass with plain JAX and fail unexpectedly through the dialect."""
        records = [self.through[test] for test in self.passed if test not in self.listed]
        return [record for record in records if record["outcome"] != "passed"]

    @cached_property
    def staged(self) -> tuple[int, int]:
        """How many tests had all their functions transformed by the passes, and how many some."""
        records = [self.through[test] for test in self.passed]
        reached = [record for record in records if record.get("programs")]
        partly = sum(bool(record["as_they_are"]) for record in reached)
        return len(reached) - partly, partly

    @cached_property
    def seconds(self) -> dict[str, tuple[float, float]]:
        """The ``wall`` and ``cpu`` times, plain and through, of the tests that pass both ways."""
        both = [test for test in self.passed if self.through[test]["outcome"] == "passed"]
        return {
            clock: (
                sum(self.plain[test][clock] for test in both),
                sum(self.through[test][clock] for test in both),
            )
            for clock in ("wall", "cpu")
        }


def ratio(comparisons: Sequence[Comparison], clock: str) -> str:
    """The ratio of the time through the dialect to the plain time."""
    plain, through = (sum(c.seconds[clock][i] for c in comparisons) for i in (0, 1))
    return f"{through / plain:.2f}" if plain else "-"


def progress(counts: Iterator[tuple[int, int]]) -> None:
    """Shows a progress bar: how many of the tests have an outcome."""
    columns = Progress.get_default_columns()[:1]
    with Progress(*columns, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("tests", total=None)
        for done, total in counts:
            bar.update(task, completed=done, total=total or None)


def show(comparisons: Sequence[Comparison], slowest: int) -> None:
    """Prints the broken tests, the table, and the tests that became slowest."""
    console = Console()
    for comparison in comparisons:
        for record in comparison.broken:
            console.rule(record["id"])
            console.print(record["why"], markup=False, highlight=False)
    table = Table("file", "tests", "pass plainly", "broken", "listed", "plain s", "dialect s")
    table.add_column("ratio")
    table.add_column("CPU ratio")
    for name, group in [*((c.file, [c]) for c in comparisons), ("total", comparisons)]:
        counts = [sum(len(getattr(c, what)) for c in group) for what in _COUNTED]
        walls = [sum(c.seconds["wall"][i] for c in group) for i in (0, 1)]
        ratios = ratio(group, "wall"), ratio(group, "cpu")
        table.add_row(name, *map(str, counts), *(f"{wall:.1f}" for wall in walls), *ratios)
    console.print(table)
    losses = [
        (c.through[t]["cpu"] - c.plain[t]["cpu"], c.plain[t]["cpu"], c.through[t]["cpu"], t)
        for c in comparisons
        for t in c.tests
    ]
    for _, before, now, test in sorted(losses, reverse=True)[:slowest]:
        console.print(f"{before:8.2f} s -> {now:8.2f} s  {test}", markup=False, highlight=False)


_COUNTED = ("tests", "passed", "broken", "listed")

# --- the page -------------------------------------------------------------------------------------

_INTRODUCTION = """\
# JAX's own tests

Test files of JAX's repository were run twice on CPU: in plain JAX, and with every compilation
through the dialect ([backend.md](backend.md)). They are those at the tag of the version, with ten
generated cases (`JAX_NUM_GENERATED_CASES`). `tools/jax_tests.py` ran them, and
`tools/jax_tests_report.py` wrote this page; the sections on runs with four generated cases are kept
by hand.

The tests of jax 0.12.0.1 are those of commit `cec06d116c05`, before 0.11.1, because tests that have
changed since do not pass in plain JAX. Names that no longer exist were removed from the imports of
`api_test` (`custom_remat`, `SaveOnlyTheseNames`) and `hijax_test` (`HiPrimitive`; `VJPHiPrimitive`
is `HiPrim` now).

- *run*: how many of the file's tests were run: all, or every n-th.
- *pass plainly*: how many of these pass in plain JAX. The others are mostly skipped, because they
  need an accelerator.
- *pass*: how many of these pass through the dialect. *listed*: how many cannot pass (see below).
- *by passes* and *in part*, where the passes take derivatives and batches: tests all of whose
  transformed functions went through the passes, and tests of which some did. The other functions
  could not be staged out, because they look at the values of their arguments. The rest of the tests
  transform nothing, or nothing that can be staged out.
- *time*: processor time through the dialect, divided by that in plain JAX, for the tests that pass
  in both, where the whole file was run.
"""


def page(state: Path, before: str = "") -> str:
    """The page, from all records: ``state/<jax version>/<mode>/<file>.jsonl``.

    Args:
      before: the old page; its sections that were written by hand are kept.
    """
    parts, listed = [_INTRODUCTION], {}
    for version in sorted(folder.parent for folder in state.glob("*/plain")):
        for mode in sorted(version.iterdir()):
            if mode.name == "plain":
                continue
            comparisons = list(_complete(version / "plain", mode))
            title = f"jax {version.name.replace('+x64', ' with 64-bit types')}, {_title(mode.name)}"
            parts += [f"## {title}\n", _markdown(comparisons, mode)]
            for comparison in comparisons:
                listed.update(comparison.listed)
    parts += _by_hand(before)
    parts += ["## Listed\n", *(f"- `{_short(test)}`: {why}" for test, why in listed.items())]
    return "\n".join(parts).rstrip() + "\n"


def _by_hand(page: str) -> list[str]:
    """The sections of a page that were written by hand: about no version of JAX, nor ``Listed``."""
    sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return [section for section in sections if not section.startswith(("## jax ", "## Listed"))]


def _complete(plain: Path, mode: Path) -> Iterator[Comparison]:
    for path in sorted(mode.glob("*.jsonl")):
        if any("complete" in record for record in read(path)):
            yield Comparison(path.stem, outcomes(plain / path.name), outcomes(path))


def _title(mode: str) -> str:
    if mode == "transforms":
        return "derivatives and batches by the passes"
    words = mode.split("+")
    text = ["printed and parsed"] if "text" in words else []
    level = [f"`-{w}`" for w in words if w.startswith("O")]
    names = ",".join(w for w in words if w.startswith("jaxpr-"))
    passes = [f"`{names}`"] if names else []
    return ", ".join(["through the dialect", *text, *level, *passes])


def _markdown(comparisons: Sequence[Comparison], mode: Path) -> str:
    staged = mode.name == "transforms"
    head = ["file", "tests", "run", "pass plainly", "pass", "listed", "time"]
    if staged:
        head[-1:-1] = ["by passes", "in part"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    totals, whole = [0] * (len(head) - 2), []
    for c in comparisons:
        records = [
            r for m in ("plain", mode.name) for r in read(mode.parent / m / f"{c.file}.jsonl")
        ]
        collections = [r for r in records if "collected" in r]
        there = max((r.get("of", r["collected"]) for r in collections), default=len(c.tests))
        passes = len(c.passed) - len(c.broken) - len(c.listed)
        counts = [there, len(c.tests), len(c.passed), passes, len(c.listed)]
        counts += c.staged if staged else ()
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        # Only whole files are timed: in a sample caches help less, as fewer tests run before one.
        timed = [c] if there == len(c.tests) else []
        whole += timed
        name = c.file.replace(".", "/")
        lines.append(f"| `{name}` | {' | '.join(map(str, counts))} | {ratio(timed, 'cpu')} |")
    lines.append(f"| all | {' | '.join(map(str, totals))} | {ratio(whole, 'cpu')} |")
    return "\n".join(lines) + "\n"


def _short(test: str) -> str:
    return test.rpartition("tests/")[2]


def main() -> int:
    if not any(STATE.glob("*/*/*.jsonl")):
        print(f"no records in {STATE}; tools/jax_tests.py writes them", file=sys.stderr)
        return 1
    PAGE.write_text(page(STATE, PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

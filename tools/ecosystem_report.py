"""The output of ``ecosystem.py``: outcomes as JSON, and a page of the docs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

Record = dict[str, Any]

DERIVATIVES = ("grad", "vmap(grad)", "jvp", "hvp", "reverse twice")
# The timed measures: column, promised ratio, and the least time of JAX's for which it is promised.
MEASURES = {
    "grad_cpu_O2": ("run", 1.05, 2e-4),
    "grad_compile_O2": ("compile", 1.15, 0.0),
    "grad_transform_O0": ("transform", 1.1, 0.05),
    "grad_transform_O2": ("transform, -O2", None, 0.0),
}


def failures(record: Record) -> dict[str, str]:
    """The steps that failed, with their outcomes."""
    return {s: o for s, o in record.get("steps", {}).items() if o.startswith("failed")}


def updated(before: Record | None, now: Record) -> Record:
    """The new record, completed by the earlier outcomes of steps that did not run now."""
    if before is None or "excluded" in now:
        return now
    steps = {**before.get("steps", {}), **now["steps"]}
    if "times" in now:
        steps.pop("times", None)
    record = {**now, "steps": steps}
    if "times" not in record and "times" in before and "times" not in steps:
        record["times"] = before["times"]
    return record


def show(record: Record) -> None:
    """Prints why a program was excluded, and which steps failed."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if "excluded" in record:
        console.print(f"{record['name']}: excluded: {record['excluded']}")
    for step, why in failures(record).items():
        console.print(f"{record['name']}: {step} {why}")


def saved(docs: Path, jax: str) -> dict[str, Record]:
    """The records that the docs have for a version of JAX, by program."""
    path = docs / f"ecosystem-{jax}.json"
    return {r["name"]: r for r in json.loads(path.read_text())} if path.exists() else {}


def write_docs(docs: Path, jax: str, records: Sequence[Record], steps: Sequence[str]) -> None:
    """Saves the records, one per line, and the page made from those of all versions of JAX."""
    lines = ",\n".join(json.dumps(_portable(r), separators=(",", ":")) for r in records)
    (docs / f"ecosystem-{jax}.json").write_text(f"[\n{lines}\n]\n")
    found = [path.stem.removeprefix("ecosystem-") for path in docs.glob("ecosystem-*.json")]
    versions = sorted(found, key=lambda version: [int(n) for n in version.split(".")])
    every = {version: list(saved(docs, version).values()) for version in versions}
    (docs / "ecosystem.md").write_text(markdown(every, steps))


def _portable(value: Any) -> Any:
    """A record in the form that is saved: rounded times, and messages without local paths."""
    if isinstance(value, dict):
        return {key: _portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    if isinstance(value, str):
        return re.sub(" at 0x[0-9a-f]+", "", re.sub(r"\S*/site-packages/", "", value))
    return float(f"{value:.4g}") if isinstance(value, float) else value


# --- the page -------------------------------------------------------------------------------------

_INTRODUCTION = """\
# Other people's programs

Each row is a small program of a library that knows nothing of jaxmlir, as its users would write it:
a function with a scalar loss ([the programs](../ecosystem/programs)). `tools/ecosystem.py` installs
each library in an environment of its own and runs its program. It generated this page.

| step | passes when |
|---|---|
| trace | the traced program gives JAX's value |
| text | printed, parsed and printed again it is the identical text, and gives JAX's value |
| save | it is written to a file |
| load | a process that has only JAX and jaxmlir loads it; value and gradient are JAX's |
| grad | `program.grad()` is `jax.grad(f)` |
| vmap(grad) | `program.grad().vmap(...)` is `jax.vmap(jax.grad(f))`, for a batch of 3 |
| jvp | `program.jvp()` gives the value and the tangent of `jax.jvp` |
| hvp | forward over reverse: `program.grad().jvp()` is `jax.jvp` of `jax.grad(f)` |
| reverse twice | `program.grad().vjp()` is `jax.vjp` of `jax.grad(f)` |
| -O2 | the optimized value and the optimized gradient are JAX's |

"Is" means: on the program's arguments, it gives the numbers that JAX gives for the original
function. These may differ by 64 roundings of an array's greatest element. If JAX's own numbers
differ by more when the arguments are changed by one rounding, ours may differ by 16 times that, up
to a thousandth of the result's greatest element. `n/a`: JAX itself gives no number; the reason is
below the table. `yes*`: the program takes and gives the leaves of its pytrees (`as_flat`). `yes†`:
its run-time checks, which are Python functions of the process, are left out (`effects="drop"`).
"""

_TIMES = """
Ratios of jaxmlir to JAX for the gradient: below 1, jaxmlir takes less. Both take turns in one
process. The first turns are not counted. A ratio compares the minima of at least three turns, or of
fewer if three would take more than 20 s. All times are CPU times, because the machine (two cores)
had other work to do. A ratio of calls of less than a millisecond can still be off by a tenth.

| column | what is compared |
|---|---|
| run | calls of the compiled gradient, with the passes of `-O2` before and after `grad` |
| compile | XLA's compilation of this gradient |
| transform | `program.grad()` of a program just traced; JAX traces `jax.grad` of a jaxpr |
| transform, -O2 | the same with all passes of `-O2` |

JAX's caches are cleared before each transformation, so that both differentiate the library's jitted
functions anew: a later program of the same process finds their derivatives.

`=`: both compile to the same instructions, and the ratio is noise. **Bold**: more than is promised,
which is {promises}.
"""


def markdown(every: dict[str, Sequence[Record]], steps: Sequence[str]) -> str:
    """The page, a section for each version of JAX."""
    columns = [step for step in steps if step != "times"]
    parts = [_INTRODUCTION]
    for jax, records in every.items():
        parts += _section(jax, records, columns)
    return "".join(parts)


def _section(jax: str, records: Sequence[Record], columns: Sequence[str]) -> Iterator[str]:
    run = [r for r in records if "excluded" not in r]
    first, last = (f(r["date"] for r in records) for f in (min, max))
    dates = f"on {first}" if first == last else f"from {first} to {last}"
    yield f"\n## JAX {jax}\n\n{len(run)} programs, run {dates}: "
    yield f"[outcomes and commits](ecosystem-{jax}.json).\n"
    yield _table(["program", *columns], (_outcomes(r, columns) for r in run))
    yield _table(
        ["", *columns], [["passed of what JAX can do", *(_total(run, step) for step in columns)]]
    )
    yield from _list("Failed", _reasons(run, "failed: "))
    yield from _list("What JAX cannot do", _reasons(run, "n/a (JAX: "))
    excluded = [f"{_name(r)}: {_code(r['excluded'])}" for r in records if "excluded" in r]
    yield from _list("Excluded", excluded)
    yield from _times(jax, [r for r in run if "times" in r])


def _name(record: Record) -> str:
    versions = record.get("versions", {})
    version = versions.get(record["name"].replace("_", "-")) or ", ".join(versions.values())
    return f"{record['name']} {version}".strip()


def _outcomes(record: Record, columns: Sequence[str]) -> list[str]:
    return [_name(record), *(_cell(record["steps"].get(step)) for step in columns)]


def _cell(outcome: str | None) -> str:
    if outcome is None:
        return "-"
    if outcome.startswith("passed"):
        return "yes" + "*" * ("as_flat" in outcome) + "†" * ("drop" in outcome)
    return "n/a" if outcome.startswith("n/a") else "**no**"


def _total(records: Iterable[Record], step: str) -> str:
    outcomes = [r["steps"].get(step, "n/a") for r in records]
    possible = [o for o in outcomes if not o.startswith("n/a")]
    return f"{sum(o.startswith('passed') for o in possible)} of {len(possible)}"


def _reasons(records: Iterable[Record], prefix: str) -> Iterator[str]:
    for record in records:
        reasons: dict[str, list[str]] = {}
        for step, outcome in record["steps"].items():
            if outcome.startswith(prefix):
                why = outcome.removeprefix(prefix)
                if prefix.endswith("(JAX: "):
                    why = why.removesuffix(")")
                reasons.setdefault(why, []).append(step)
        for why, failed in reasons.items():
            yield f"{record['name']}, {', '.join(failed)}: {_code(why)}"


def _code(why: str) -> str:
    """A message truncated and formatted as code, for a list."""
    line = " ".join(why.split()).replace("`", "'")
    return f"`{line[:240]}`"


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    lines = list(lines)
    if lines:
        yield f"\n{title}:\n\n" + "".join(f"- {line}\n" for line in lines)


def _times(jax: str, records: Sequence[Record]) -> Iterator[str]:
    if not records:
        return
    promised = ", ".join(
        f"{limit:g} for {name}" + (f" where JAX takes {_seconds(least)}" if least else "")
        for name, limit, least in MEASURES.values()
        if limit is not None
    )
    yield f"\n## Times, JAX {jax}\n"
    yield _TIMES.format(promises=promised)
    header = ["program", "JAX's call", "JAX's compilation", "JAX's transformation"]
    yield _table(
        [*header, *(name for name, _, _ in MEASURES.values())],
        [*map(_times_row, records), ["geometric mean", "", "", "", *_means(records)]],
    )


def _times_row(record: Record) -> list[str]:
    times = record["times"]
    of_jax = ("grad_cpu_O2", "grad_compile_O2", "grad_transform_O0")
    cells = [_seconds(times[name][0]) for name in of_jax]
    for name, (_, limit, least) in MEASURES.items():
        theirs, ours = times[name][:2]
        cell = f"{ours / theirs:.2f}"
        is_over = limit is not None and theirs >= least and ours > limit * theirs
        # If both executables have the same instructions, the difference is noise.
        same = len(times[name]) > 2
        cells.append(f"**{cell}**" if is_over and not same else cell + "=" * same)
    return [record["name"], *cells]


def _means(records: Sequence[Record]) -> Iterator[str]:
    for name in MEASURES:
        ratios = [r["times"][name][1] / r["times"][name][0] for r in records]
        yield f"{statistics.geometric_mean(ratios):.2f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)

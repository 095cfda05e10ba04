"""The output of ``conformance.py``: counts and tables of outcomes, and a page of the docs."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LEFT_OUT = "left out: "

Record = dict[str, Any]
Summary = dict[str, Any]


def load(state: Path) -> dict[str, Record]:
    """The last record of each harness in a state file; an interrupted run may truncate a line."""
    records: dict[str, Record] = {}
    for line in state.read_text().splitlines() if state.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            records[record["name"]] = record
    return records


def settled(record: Record | None, steps: Iterable[str]) -> bool:
    """Whether a harness need not run again: it is excluded, or every step ran and none failed."""
    if record is None or "excluded" in record:
        return record is not None
    done = record["steps"]
    return all(step in done and not done[step].startswith("failed") for step in steps)


def updated(before: Record | None, now: Record) -> Record:
    """The earlier record, with the outcomes of the steps that ran now replaced."""
    if before is None or "excluded" in before or "excluded" in now:
        return now
    return {**before, "steps": {**before["steps"], **now["steps"]}}


def progress(records: Iterable[Record], total: int) -> Iterator[Record]:
    """Yields the records, and shows a progress bar that counts records and failures."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    failed = 0
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("0 failed", total=total)
        for record in records:
            failed += bool(_failures(record))
            bar.update(task, advance=1, description=f"{failed} failed")
            yield record


def _failures(record: Record) -> dict[str, str]:
    outcomes = record.get("steps", {}).items()
    return {step: why for step, why in outcomes if why.startswith("failed")}


def summarise(records: Sequence[Record], jax_version: str, steps: list[str]) -> Summary:
    """Counts by group of primitives and by step, with the reasons for what did not pass."""
    groups: dict[str, dict[str, Any]] = {}
    excluded: Counter[str] = Counter()
    failures = []
    same_text: Counter[str] = Counter()
    op_by_op: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    left_out: dict[str, Counter[str]] = {}
    for record in records:
        row = groups.setdefault(record["group"], {"harnesses": 0})
        row["harnesses"] += 1
        if "excluded" in record:
            row["excluded"] = row.get("excluded", 0) + 1
            excluded[record["excluded"]] += 1
            continue
        for step, outcome in record["steps"].items():
            if step not in steps:
                continue
            counts = row.setdefault(step, {"passed": 0, "failed": 0})
            if outcome.startswith(_LEFT_OUT):
                left_out.setdefault(step, Counter())[outcome.removeprefix(_LEFT_OUT)] += 1
                continue
            counts["failed" if outcome.startswith("failed") else "passed"] += 1
            same_text[step] += outcome == "same text"
            op_by_op[step] += outcome == "op by op"
            refused[step] += outcome == "refused, as by JAX"
        for step, why in _failures(record).items():
            if step in steps:
                failures.append(
                    {"harness": record["name"], "step": step, "why": why[len("failed: ") :]}
                )
    return {
        "jax": jax_version,
        "steps": steps,
        "harnesses": len(records),
        "same_text": {step: n for step, n in same_text.items() if n},
        "op_by_op": {step: n for step, n in op_by_op.items() if n},
        "refused": {step: n for step, n in refused.items() if n},
        "left_out": {step: dict(n.most_common()) for step, n in left_out.items()},
        "excluded": dict(excluded.most_common()),
        "failures": failures,
        "groups": dict(sorted(groups.items())),
    }


def write_docs(docs: Path, summary: Summary, order: Sequence[str]) -> None:
    """Saves the summary, and the page made from the summaries of all versions.

    Steps missing from it are taken from the summary saved before; ``order`` is the order of all
    steps.
    """
    saved = docs / f"conformance-{summary['jax']}.json"
    if saved.exists() and set(summary["steps"]) != set(order):
        summary = joined(json.loads(saved.read_text()), summary, order)
    text = json.dumps(summary, separators=(",", ":"))
    # One line for each group keeps the file small and its diffs readable.
    text = text.replace('},"', '},\n"').replace("},{", "},\n{")
    (docs / f"conformance-{summary['jax']}.json").write_text(text + "\n")
    (docs / "conformance.md").write_text(markdown(saved_summaries(docs)))


def joined(before: Summary, now: Summary, order: Sequence[str]) -> Summary:
    """Merges the columns of two summaries; where both have a column, the second one's counts."""
    renewed = now["steps"]
    groups = {
        name: {**before["groups"].get(name, {}), **row} for name, row in now["groups"].items()
    }
    kept = [failure for failure in before["failures"] if failure["step"] not in renewed]
    result = {**now, "groups": groups, "failures": kept + now["failures"]}
    result["steps"] = [s for s in order if s in renewed or s in before["steps"]]
    for count in ("same_text", "op_by_op", "refused", "left_out"):
        old = {s: n for s, n in before.get(count, {}).items() if s not in renewed}
        result[count] = old | now[count]
    return result


def saved_summaries(docs: Path) -> list[Summary]:
    """The summaries of all versions, oldest first."""
    found = [json.loads(path.read_text()) for path in docs.glob("conformance-*.json")]
    return sorted(found, key=lambda summary: [int(n) for n in summary["jax"].split(".")])


_INTRODUCTION = """\
# Conformance

JAX has test harnesses (`jax._src.internal_test_util.test_harnesses`): each is one use of a
primitive with its arguments. Here, all of them go through every step of jaxmlir.
`tools/conformance.py` generated this page.

| step | passes when |
|---|---|
| import | the traced function becomes a module with JAX's result types |
| verify | the verifier accepts it |
| text | printed, parsed and printed again it is the identical text, with and without locations |
| export | the jaxpr of the parsed program is well formed, and jitted gives `jax.jit`'s result |
| lower | the parsed program lowers to StableHLO |
| run | calling the parsed program gives `jax.jit`'s result |
| eval | evaluated op by op, the parsed program gives `jax.jit`'s result, or JAX's own op by op |
| clean | `-O1` leaves a valid program with the same results |
| jvp | `program.jvp()` gives what `jax.jvp` gives, for random tangents |
| vjp | `program.vjp()` gives what `jax.vjp` gives, for random cotangents |
| vmap | `program.vmap(...)` gives what `jax.vmap` gives: batched over all operands, over each |
| raise | JAX's own StableHLO, raised to a program, gives `jax.jit`'s result |
| raise jvp, raise vjp, raise vmap | these, of the raised program |

Results are compared bit for bit (a NaN equals a NaN). Often the lowered text is the same as that of
`jax.jit`, except for names, locations and uses that share a constant. Then results are the same by
construction, and only one in twenty of these programs is compiled and run.

A step without a column below is run by the test suite, on a fixed sample. Batches are along the
first dimension and along the last. If a transformed program does not lower to JAX's text, results
may differ by 64 roundings of the largest number in a result. Where JAX refuses, jaxmlir refuses
too, with an error that names the op.

XLA fuses ops, so a program that is evaluated op by op may be rounded differently from the compiled
one. Where the two differ, the result is compared with JAX's own evaluation op by op
(`jax.disable_jit`), also bit for bit.
"""


def markdown(summaries: Sequence[Summary]) -> str:
    """The page: totals, exclusions, failures, and the counts of every group."""
    parts = [_INTRODUCTION, "\n## Totals\n"]
    parts.append(_table(["jax", "harnesses", "excluded", *_steps(summaries)], _totals(summaries)))
    parts.append(
        "\n`n (m)`: n passed, of which m lower to the text that `jax.jit` lowers to; `n [m]`: of "
        "which m\nare JAX's result op by op; `{m}`: of which m are refused, by JAX and by us.\n"
    )
    for summary in summaries:
        parts.append(f"\n## Excluded, jax {summary['jax']}\n\n")
        if not summary["excluded"]:
            parts.append("None.\n")
        for reason, n in summary["excluded"].items():
            parts.append(f"- {n}: {reason}\n")
    for summary in summaries:
        if left_out := summary.get("left_out"):
            parts.append(f"\n## Left out of a step, jax {summary['jax']}\n\n")
            for step, reasons in left_out.items():
                parts += (f"- {step}, {n}: {reason}\n" for reason, n in reasons.items())
    for summary in summaries:
        parts.append(f"\n## Failed, jax {summary['jax']}\n\n")
        if not summary["failures"]:
            parts.append("None.\n")
        for failure in summary["failures"]:
            parts.append(f"- `{failure['harness']}`, {failure['step']}: {failure['why']}\n")
    versions = " / ".join(summary["jax"] for summary in summaries)
    parts.append(f"\n## Passed by primitive ({versions})\n")
    parts.append(
        _table(["primitive", "harnesses", "excluded", *_steps(summaries)], _rows(summaries))
    )
    return "".join(parts)


def _steps(summaries: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(step for summary in summaries for step in summary["steps"]))


def _totals(summaries: Sequence[Summary]) -> Iterator[list[str]]:
    for summary in summaries:
        cells = [summary["jax"], str(summary["harnesses"]), str(sum(summary["excluded"].values()))]
        for step in _steps(summaries):
            if step not in summary["steps"]:
                cells.append("-")
                continue
            counts = [row[step] for row in summary["groups"].values() if step in row]
            passed, failed = (sum(c[kind] for c in counts) for kind in ("passed", "failed"))
            same = summary["same_text"].get(step)
            eager = summary.get("op_by_op", {}).get(step)
            refused = summary.get("refused", {}).get(step)
            notes = f" ({same})" if same else f" [{eager}]" if eager else ""
            notes += f" {{{refused}}}" if refused else ""
            cells.append(_cell(passed, failed) + notes)
        yield cells


def _rows(summaries: Sequence[Summary]) -> Iterator[list[str]]:
    for group in sorted({name for summary in summaries for name in summary["groups"]}):
        rows = [summary["groups"].get(group) for summary in summaries]

        def cell(read: Any, rows: Any = rows) -> str:
            values = [read(row) if row is not None else "-" for row in rows]
            return values[0] if len(set(values)) == 1 else " / ".join(values)

        yield [
            f"`{group}`",
            cell(lambda row: str(row["harnesses"])),
            cell(lambda row: str(row.get("excluded", 0))),
            *(cell(lambda row, step=step: _step_cell(row.get(step))) for step in _steps(summaries)),
        ]


def _step_cell(counts: dict[str, int] | None) -> str:
    return "-" if counts is None else _cell(counts["passed"], counts["failed"])


def _cell(passed: int, failed: int) -> str:
    return f"{passed}, **{failed} failed**" if failed else str(passed)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def show(summary: Summary) -> None:
    """Prints the groups, then the excluded and failed harnesses, then the totals."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print(
        _table(["primitive", "harnesses", "excluded", *summary["steps"]], _rows([summary]))
    )
    for reason, n in summary["excluded"].items():
        console.print(f"excluded {n}: {reason}")
    for failure in summary["failures"]:
        console.print(f"failed {failure['step']}: {failure['harness']}: {failure['why']}")
    console.print(_table(["jax", "harnesses", "excluded", *summary["steps"]], _totals([summary])))

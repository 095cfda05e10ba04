"""Runs JAX's own test harnesses through the dialect and compares every step with JAX.

    python tools/conformance.py                     all of them
    python tools/conformance.py --select '^scatter' those whose name matches
    python tools/conformance.py --sample 500        a fixed sample of all groups of primitives
    python tools/conformance.py --workers 2 --resume
    python tools/conformance.py --steps eval        one step; the page keeps the other columns

A harness (``jax._src.internal_test_util.test_harnesses``) is one configured use of a primitive:
a function and its arguments.  ``conformance_steps.py`` defines the steps.  Each worker is a process
of its own, so a crash costs one harness.

Every outcome is a line of ``build/conformance/<jax version>.jsonl``, which each run writes anew.
With ``--resume`` lines are appended, and harnesses that have passed are skipped.  A run of all
harnesses also writes ``docs/conformance-<jax version>.json`` and, from the summaries of all
versions, the page ``docs/conformance.md``.  The exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import conformance_report as report  # noqa: E402
from tool_options import positive, regex  # noqa: E402

Record = dict[str, Any]

STATE = ROOT / "build" / "conformance"
# Harnesses that jax.jit runs and that are not expected to pass: pattern of the name -> why.
EXCLUDED: dict[str, str] = {
    r"^conj_kwargs_": "the harness binds `conj` with a parameter `_input_dtype`; JAX's rules take "
    "`input_dtype`, and `grad` of the harness is a TypeError in JAX too",
}


def harnesses() -> list[Any]:
    """JAX's harnesses, sorted by name, because JAX's own order changes from run to run."""
    from jax._src.internal_test_util import test_harnesses  # noqa: TID251

    return sorted(test_harnesses.all_harnesses, key=lambda harness: harness.fullname)


def sample(groups: Sequence[str], size: int) -> list[int]:
    """About ``size`` indices: every k-th of each group, but at least one of each group."""
    step = max(1, len(groups) // size)
    seen: Counter[str] = Counter()
    chosen = []
    for i, group in enumerate(groups):
        if seen[group] % step == 0:
            chosen.append(i)
        seen[group] += 1
    return chosen


def run_harness(
    harness: Any, index: int, run_every: int, only: Sequence[str] | None = None
) -> Record:
    """The outcome of one harness in some steps; every ``run_every``-th harness is run even if its
    lowered text equals JAX's."""
    import conformance_steps as steps
    import numpy as np

    record = {"index": index, "name": harness.fullname, "group": harness.group_name}
    for pattern, reason in EXCLUDED.items():
        if re.search(pattern, harness.fullname):
            return {**record, "excluded": reason}
    args = harness.dyn_args_maker(np.random.RandomState(0))
    case = steps.Case(harness.dyn_fun, args, always_run=index % run_every == 0)
    return {**record, **steps.check(case, only or list(steps.STEPS))}


# --- processes ------------------------------------------------------------------------------------

# JAX caches every compiled program; clear the caches after so many harnesses.
_CLEAR_EVERY = 200


def _work(connection: Connection, run_every: int, only: Sequence[str]) -> None:
    """The loop of a worker: receives indices and sends records, until it receives ``None``."""
    import warnings

    import jax

    warnings.simplefilter("ignore")
    known = harnesses()
    done = 0
    while (index := connection.recv()) is not None:
        connection.send(run_harness(known[index], index, run_every, only))
        done += 1
        if done % _CLEAR_EVERY == 0:
            jax.clear_caches()


def run_all(
    indices: Sequence[int],
    names: Sequence[tuple[str, str]],
    workers: int,
    run_every: int,
    only: Sequence[str],
) -> Iterator[Record]:
    """Yields outcomes as they arrive; a harness whose process died has failed."""
    context = multiprocessing.get_context("spawn")
    left = iter(indices)
    running: dict[Connection, tuple[Any, int]] = {}

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, run_every, only), daemon=True)
        process.start()
        theirs.close()
        feed(ours, process)

    def feed(connection: Connection, process: Any) -> None:
        index = next(left, None)
        connection.send(index)
        if index is not None:
            running[connection] = (process, index)
        else:
            process.join()

    for _ in range(min(workers, len(indices))):
        start()
    while running:
        for connection in wait(list(running)):
            process, index = running.pop(connection)
            try:
                record = connection.recv()
            except EOFError:
                process.join()
                name, group = names[index]
                why = f"failed: the process ended with status {process.exitcode}"
                yield {"index": index, "name": name, "group": group, "steps": {only[0]: why}}
                start()
            else:
                yield record
                feed(connection, process)


# --- command line ---------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--select", metavar="REGEX", type=regex, help="only harnesses whose full name matches"
    )
    parser.add_argument("--sample", metavar="N", type=positive, help="only about N, spread out")
    parser.add_argument("--workers", metavar="N", type=positive, default=2, help="N processes (2)")
    parser.add_argument(
        "--run-every",
        metavar="K",
        type=positive,
        default=20,
        help="run only every K-th harness whose lowered text is the same as JAX's (20)",
    )
    parser.add_argument(
        "--steps", metavar="STEP,...", type=lambda text: text.split(","), help="only these steps"
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep earlier outcomes; skip what has passed"
    )
    options = parser.parse_args(argv)

    import conformance_steps as steps
    import jax

    only = options.steps or list(steps.STEPS)
    if unknown := set(only) - steps.STEPS.keys():
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(steps.STEPS)}")
    known = [(h.fullname, h.group_name) for h in harnesses()]
    chosen = [
        i for i, (name, _) in enumerate(known) if not options.select or options.select.search(name)
    ]
    if not chosen:
        parser.error(f"no harness has a name that matches '{options.select.pattern}'")
    if options.sample:
        groups = [known[i][1] for i in chosen]
        chosen = [chosen[i] for i in sample(groups, options.sample)]

    state = STATE / f"{jax.__version__}.jsonl"
    records = report.load(state) if options.resume else {}
    todo = [i for i in chosen if not report.settled(records.get(known[i][0]), only)]
    started = time.time()
    STATE.mkdir(parents=True, exist_ok=True)
    with state.open("a" if options.resume else "w") as file:
        if records and not state.read_text().endswith("\n"):
            # An interrupted run left a truncated line: end it.
            file.write("\n")
        for record in report.progress(
            run_all(todo, known, options.workers, options.run_every, only), len(todo)
        ):
            record = report.updated(records.get(record["name"]), record)
            records[record["name"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()

    outcomes = [records[known[i][0]] for i in chosen]
    summary = report.summarise(outcomes, jax.__version__, only)
    table = report.markdown([summary])
    (STATE / f"{jax.__version__}.md").write_text(table)
    if len(chosen) == len(known):
        report.write_docs(ROOT / "docs", summary, list(steps.STEPS))
    report.show(summary)
    print(
        f"{len(todo)} harnesses in {time.time() - started:.0f} s; the table is in "
        f"{(STATE / f'{jax.__version__}.md').relative_to(ROOT)}"
    )
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())

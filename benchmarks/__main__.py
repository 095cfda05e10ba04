"""``python -m benchmarks``: jaxmlir and JAX side by side."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _plot, _report

# The threads of the LAPACK library spin while they wait for each other: on few and busy cores, the
# same factorizations took from 1 to 100 times as long.  It reads this variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the options select and prints a table.

    Returns:
      1 if nothing is selected, or a program fails or computes something else than JAX.
    """
    options = _parser().parse_args(argv)
    if options.compare:
        before, after = (json.loads(Path(path).read_text()) for path in options.compare)
        print("\n".join(_report.compared(before, after)))
        return 0

    from benchmarks import _comparisons

    selected = list(_comparisons.selection(re.compile(options.only).search, options.level))
    if not selected:
        print(f"no measure/program matches {options.only!r}", file=sys.stderr)
        return 1
    repetitions = 3 if options.quick else options.repetitions
    results = []
    print(_report.HEADER)
    try:
        for one in selected:
            for result in _comparisons.compare(one, repetitions):
                results.append(result)
                print(_report.row(result), flush=True)
    finally:
        print("\n" + "\n".join(_report.summary(results)))
        document = _report.to_json(results, repetitions, options.level)
        if options.json:
            _report.dump(document, options.json)
        if options.plot:
            _plot.plot(document, options.plot)
    return int(any(result.error for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only what matches, as 'measure/program'"
    )
    parser.add_argument("--repetitions", type=int, default=9, help="timings of each side (9)")
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument(
        "--level", type=int, default=2, help="the optimization level of gradients (2)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results to a file")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios, as SVG")
    parser.add_argument(
        "--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="compare two files of --json"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

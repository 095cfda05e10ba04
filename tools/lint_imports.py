"""Lint: outside `jaxmlir/_compat.py`, `# noqa: TID251` may excuse one internal package only.

Ruff bans `jax._src` and its like everywhere (see pyproject.toml). Tools, tests and benchmarks may
lift that ban, line by line, for `jax._src.internal_test_util`: JAX's test harnesses are an oracle.
"""

import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# `noqa` naming the rule, for a line or a whole file, or silencing every rule.
EXCUSE = re.compile(r"#\s*(?:ruff:\s*|flake8:\s*)?noqa(?!:)|#.*noqa:.*\bTID251\b", re.IGNORECASE)
TEST_UTILITIES = re.compile(r"^\s*(from|import)\s+jax\._src\.internal_test_util\b")
CHECKED_FOLDERS = ("jaxmlir", "tools", "test", "benchmarks", "examples", "lit_tests")
FOLDERS_WITH_TEST_UTILITIES = ("tools", "test", "benchmarks")


def violations(root: Path) -> Iterator[str]:
    for folder in CHECKED_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for number, line in excused_lines(path):
                if folder in FOLDERS_WITH_TEST_UTILITIES and TEST_UTILITIES.match(line):
                    continue
                yield (
                    f"{path.relative_to(root)}:{number}: error: only tools, tests and benchmarks "
                    "may excuse a banned import, and only of jax._src.internal_test_util; import "
                    "the name from jaxmlir._compat"
                )


def excused_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with a comment, not a docstring, that silences the ban."""
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT and EXCUSE.search(token.string):
                yield token.start[0], token.line


def main() -> int:
    found = list(violations(Path(__file__).resolve().parent.parent))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

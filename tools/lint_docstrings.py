"""Lint of docstrings: the first sentence names its subject, and can be read alone in ``help()``.

A first word that refers to something said elsewhere (``Of the only result.``, ``Likewise, of a
module.``) is an error in every docstring: of a module, a class, a function, or an attribute (below
an assignment).  So is a first paragraph that does not end in a period, a question mark, or the
colon before an example (which ruff's D400 does not accept).
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

POINTING = re.compile(r"(Of|Those|Likewise|The same|That|These|Such|It|Its|They|Their|Them)\b")
FOLDERS = ("jaxmlir", "tools", "benchmarks")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """All docstrings in a module, also those below assignments, with their line numbers."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        can_have_one = isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        )
        before: ast.AST | None = None
        for index, item in enumerate(body):
            is_text = (
                isinstance(item, ast.Expr)
                and isinstance(item.value, ast.Constant)
                and isinstance(item.value.value, str)
            )
            describes = (index == 0 and can_have_one) or isinstance(
                before, (ast.Assign, ast.AnnAssign)
            )
            if is_text and describes:
                yield item.lineno, item.value.value.strip()
            before = item


def violations(root: Path) -> Iterator[str]:
    """The violations of the rule, as lines of a report."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            place = path.relative_to(root)
            for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
                first = text.partition("\n\n")[0]
                if pointing := POINTING.match(text):
                    message = (
                        f"a docstring begins with '{pointing[0]}': expected a sentence that names "
                        "its subject, as 'The type of the single result.'"
                    )
                elif not first.endswith((".", ":", "?")):
                    message = f"a docstring's first sentence has no end: {first[-40:]!r}"
                else:
                    continue
                yield f"{place}:{line}: error: {message}"


def main() -> int:
    """Prints the violations; returns the exit status."""
    found = list(violations(Path(__file__).resolve().parent.parent))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

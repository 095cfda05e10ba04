"""Writes ``docs/canonicalize.md``: every rewrite of ``jaxpr-canonicalize``, as an equation.

    python tools/generate_canonicalize.py            write the page
    python tools/generate_canonicalize.py --check    fail if the page is not what would be written

The equations of single ops are in the op table.  The others are decorators of the functions that
apply them, in ``jaxmlir/optimize/simplify/canonicalize/``, and are read from the source.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jaxmlir.dialect import ops  # noqa: E402

PAGE = Path("docs/canonicalize.md")
REWRITES = ROOT / "jaxmlir" / "optimize" / "simplify" / "canonicalize"

_HEADER = """\
# What canonicalization rewrites

For example, `sub(x, neg(y))` becomes `add(x, y)`. `jaxpr-canonicalize` replaces ops by simpler ones
of the same value. This page lists its equations; they are applied from left to right. They are
exact: NaN, infinities and the sign of zero stay the same, and integers wrap as before. A value
replaces another one only if both have the same type, weak types and shardings included. An equation
that holds for real numbers, but not for every float, is marked `fast-math`. It is used with
`--jaxpr-canonicalize=fast-math=true`.

A derivative that is taken afterwards is the derivative of the simpler program. It may be finite
where JAX multiplies zeros by infinities. For example, a loop of one iteration is replaced by its
body; in the loop, a carried value has a cotangent even if it is zero.

`tools/generate_canonicalize.py` generates this page from the equations in the source.

## Arithmetic, logic and comparison

`0` is the positive zero of floats, `-0.0` the negative one. `~0` has all bits set; for booleans it
is true. A variable that occurs twice is the same value in both places. Operands of commutative ops
may be in either order. The condition is about the type of the first variable.

| equation | where |
|---|---|
"""

_SECTIONS = {
    "movement": "Data movement, conversion, gathers and scatters",
    "equations": "Arrays that are written part by part",
    "control": "Calls, branches, loops, and constants of at most 64 elements",
}


def page() -> str:
    """The text of the page."""
    return _HEADER + "".join(_folds()) + "".join(map(_section, _SECTIONS))


def _folds() -> Iterator[str]:
    for record in ops.OPS.values():
        for text in record.folds:
            equation, _, condition = text.partition(" if ")
            yield f"| `{equation}` | {condition.replace(' or ', ', ') or 'always'} |\n"


def _section(module: str) -> str:
    lines = [f"\n## {_SECTIONS[module]}\n\n"]
    lines += [f"- `{equation}`{rest}\n" for equation, rest in _equations(module)]
    return "".join(lines)


def _equations(module: str) -> Iterator[tuple[str, str]]:
    """The equations in a module's decorators, each with the words that follow it."""
    tree = ast.parse((REWRITES / f"{module}.py").read_text())
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", ()):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "rewrite":
                text = ast.literal_eval(decorator.args[0])
                at = min((i for word in _WORDS if (i := text.find(word)) >= 0), default=len(text))
                yield text[:at], text[at:]


# The beginnings of the words after an equation.
_WORDS = ("; ", " where ", " without ")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    if parser.parse_args(argv).check:
        if stale():
            print(f"{PAGE} is stale: run python tools/generate_canonicalize.py", file=sys.stderr)
        return 1 if stale() else 0
    (ROOT / PAGE).write_text(page())
    return 0


def stale() -> bool:
    """Whether the page differs from what would be generated."""
    return not (ROOT / PAGE).exists() or (ROOT / PAGE).read_text() != page()


if __name__ == "__main__":
    sys.exit(main())

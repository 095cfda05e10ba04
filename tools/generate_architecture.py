"""Generates the docs pages about jaxmlir's rooms and passes from the source.

    python tools/generate_architecture.py            write the pages
    python tools/generate_architecture.py --check    fail if a page is not what would be written

In ``docs/architecture.md`` it writes the table and the diagram of the rooms.  The rooms are in the
order of ``tools/lint_imports.py``, each is described by the first line of its docstring, and the
arrows are its imports.  ``docs/passes.md`` lists the passes by purpose, i.e. by folder.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jaxmlir.passes import BUILTIN_PASSES, LEVELS, list_passes  # noqa: E402
from tools.lint_imports import ROOMS, room_imports  # noqa: E402

ARCHITECTURE = Path("docs/architecture.md")
PASSES = Path("docs/passes.md")
BEGIN, END = "<!-- generated: rooms -->\n", "<!-- end of what is generated -->\n"

_PURPOSES = {
    "rewriting": "Functions: calls, copies",
    "optimize.simplify": "Simplify",
    "optimize.loops": "Loops",
    "optimize.vectorize": "Vectorise",
    "optimize.algebra": "Algebra",
    "optimize.memory": "Memory",
    "runtime": "Constants",
    "optimize.cpu": "For XLA's CPU compiler",
    "optimize.tpu": "For XLA's TPU compiler",
    "transforms": "Differentiate, batch, invert",
    "analysis": "Analyse",
    "sparse": "Sparsity of derivatives",
    "verify": "Check",
    "lowering": "Lower",
}

_HEADER = """\
# Passes by what they are for

`jaxmlir-opt --help` has their options, `jaxmlir-opt --list-passes` also lists MLIR's. The levels
are those of `program.optimize(level)` and of `-O1`, `-O2`. This page is written by
`tools/generate_architecture.py`.
"""


def architecture() -> str:
    """The text of the architecture page with its generated part brought up to date."""
    text = (ROOT / ARCHITECTURE).read_text()
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "".join(_rooms()) + END + rest.partition(END)[2]


def _rooms() -> Iterator[str]:
    imports = room_imports(ROOT)
    yield "| room | what it is |\n|---|---|\n"
    for room in ROOMS:
        yield f"| `{room}` | {_summary(room)} |\n"
    yield "\n```mermaid\nflowchart BT\n"
    for room in ROOMS:
        for below in _nearest(room, imports):
            yield f"  {room} --> {below}\n"
    yield "```\n"


def _summary(room: str) -> str:
    path = ROOT / "jaxmlir" / room
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(doc.partition("\n\n")[0].split()).replace("``", "`")


def _nearest(room: str, imports: dict[str, set[str]]) -> list[str]:
    """The rooms that a room imports, without those that it also reaches through another one."""
    reached = {room: set(below) for room, below in imports.items()}
    for name in ROOMS:
        reached[name] |= {far for near in imports[name] for far in reached[near]}
    own = imports[room]
    return [r for r in ROOMS if r in own and not any(r in reached[o] for o in own - {r})]


def passes() -> str:
    """The text of the page of the passes."""
    return _HEADER + "".join(_passes())


def _passes() -> Iterator[str]:
    summaries = list_passes()["Passes of jaxmlir"]
    levels = {
        element.partition("{")[0]: level
        for level, elements in sorted(LEVELS.items(), reverse=True)
        for element in elements
    }
    for folder, purpose in _PURPOSES.items():
        prefix = f"jaxmlir.{folder}."
        rows = [name for name, target in BUILTIN_PASSES if target.startswith(prefix)]
        if rows:
            yield f"\n## {purpose}\n\n| pass | from level | |\n|---|---|---|\n"
            for name in rows:
                yield f"| `{name}` | {levels.get(name, '')} | {summaries[name]} |\n"


def stale() -> list[Path]:
    """The pages that differ from what would be generated."""
    pages = {ARCHITECTURE: architecture(), PASSES: passes()}
    return [p for p, text in pages.items() if not _is(ROOT / p, text)]


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    if parser.parse_args(argv).check:
        for page in stale():
            print(f"{page} is stale: run python tools/generate_architecture.py", file=sys.stderr)
        return 1 if stale() else 0
    (ROOT / ARCHITECTURE).write_text(architecture())
    (ROOT / PASSES).write_text(passes())
    return 0


if __name__ == "__main__":
    sys.exit(main())

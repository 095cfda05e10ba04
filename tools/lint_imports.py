"""Lint of imports: rooms import downwards, no import cycles, JAX's internals only in one file.

A room of `jaxmlir/` (a folder, or a module beside the folders) imports from itself and from rooms
before it in `ROOMS`. Modules do not import each other in a cycle. All imports count: those at
module level, inside functions, and under `TYPE_CHECKING`.

Ruff bans `jax._src` and its like everywhere (see pyproject.toml). Outside `jaxmlir/_compat.py`,
`# noqa: TID251` may lift that ban in tools, tests and benchmarks, line by line, for
`jax._src.internal_test_util`: JAX's test harnesses are an oracle.
"""

import ast
import graphlib
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# From bottom to top: a room may import only the rooms before it.
ROOMS = (
    "errors",
    "_compat",
    "support",
    "targets",
    "dialect",
    "caching",
    "passes",
    "analysis",
    "rewriting",
    "bridge",
    "verify",
    "raising",
    "transforms",
    "toolbox",
    "optimize",
    "lowering",
    "interpret",
    "sparse",
    "runtime",
    "artifact",
    "viewer",
    "program",
    "debug",
    "backend",
    "cli",
)

# `noqa` naming the rule, for a line or a whole file, or silencing every rule.
EXCUSE = re.compile(r"#\s*(?:ruff:\s*|flake8:\s*)?noqa(?!:)|#.*noqa:.*\bTID251\b", re.IGNORECASE)
TEST_UTILITIES = re.compile(r"^\s*(from|import)\s+jax\._src\.internal_test_util\b")
CHECKED_FOLDERS = ("jaxmlir", "tools", "test", "benchmarks", "ecosystem", "examples", "lit_tests")
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


def layer_violations(root: Path) -> Iterator[str]:
    """Imports of a room above the importing one, and import cycles of modules."""
    files = {_module(root, path): path for path in sorted((root / "jaxmlir").rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        graph[module] = set()
        for line, imported in _imports(module, path, files):
            graph[module].add(imported)
            own, other = _room(module), _room(imported)
            if own not in ROOMS:
                yield f"{path.relative_to(root)}:1: error: the room '{own}' is not in ROOMS"
                break
            if other not in ROOMS[: ROOMS.index(own) + 1]:
                yield (
                    f"{path.relative_to(root)}:{line}: error: {own} imports {imported}, of a room "
                    "above it; move what is needed down, or what needs it up"
                )
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as e:
        yield f"jaxmlir: error: modules import each other: {' <- '.join(e.args[1])}"


def room_imports(root: Path) -> dict[str, set[str]]:
    """The other rooms that each room imports."""
    files = {_module(root, path): path for path in (root / "jaxmlir").rglob("*.py")}
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, path in files.items():
        for _, imported in _imports(module, path, files):
            found[_room(module)].add(_room(imported))
    return {room: others - {room} for room, others in found.items()}


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    return module.split(".")[1]


def _imports(module: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """The modules of jaxmlir that a module imports, without the package itself, with lines."""
    if module == "jaxmlir":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name not in ("", "jaxmlir", module):
                yield node.lineno, name


def excused_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with a comment (docstrings don't count) that silences the ban."""
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT and EXCUSE.search(token.string):
                yield token.start[0], token.line


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    found = [*violations(root), *layer_violations(root)]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

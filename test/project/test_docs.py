"""Runs the code in the documentation, and checks the outputs that it shows.

Every ``python`` block of README.md and docs/ runs; those of a page share one namespace, in order.
A block must print the ``text`` or ``mlir`` block that follows it, and an expression with a comment
``# -> value`` must have that value.  The commands of ``console`` blocks run too, those of a page in
one folder, and must print the text below them; in docs/ that text may be absent.  A block that
imports a library which is not installed is skipped.

    python test/project/test_docs.py        writes what is printed today into the pages
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import inspect
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import generate_architecture
import pytest

import jaxmlir
from jaxmlir.cli import opt, translate
from jaxmlir.cli import run as run_tool
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.memory import price
from jaxmlir.targets import target

pytestmark = pytest.mark.compat

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<gap>\n```(?:text|mlir)\n)?(?P<output>(?(gap).*?^```\n))",
    re.MULTILINE | re.DOTALL,
)
CONSOLE = re.compile(r"^```console\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
WITH_COMMANDS = [page for page in PAGES[1:] if CONSOLE.search(page.read_text())]
LIBRARIES = re.compile(r"^ *(?:import|from) (flax|equinox|optax|diffrax|numpyro)\b", re.MULTILINE)
EXPECTED = re.compile(r"#\s*->\s*(.+)$")


def with_python_outputs(page: Path, text: str, namespace: dict | None = None) -> str:
    """The page with the current output of its Python blocks, which run in the namespace."""
    namespace = {} if namespace is None else namespace
    namespace["__name__"] = "documented"

    def rerun(block: re.Match) -> str:
        libraries = LIBRARIES.findall(block["code"])
        if not all(map(importlib.util.find_spec, libraries)):
            return block[0]
        line = text.count("\n", 0, block.start("code")) + 1
        printed = run(block["code"], line, page, namespace)
        code = f"```python\n{block['code']}```\n"
        if not printed:
            return code + (block["gap"] or "") + block["output"]
        return f"{code}{block['gap'] or chr(10) + '```text' + chr(10)}{printed.strip()}\n```\n"

    # Blocks run in a temporary folder, so that their files don't stay.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return PYTHON.sub(rerun, text)


@functools.cache
def run_once(page: Path) -> tuple[str, dict]:
    """A page with its current output, and the names of its code.

    A page runs only once in a process, because a primitive defined twice is two primitives.
    """
    namespace: dict = {}
    return with_python_outputs(page, page.read_text(), namespace), namespace


def run(source: str, line: int, page: Path, namespace: dict) -> str:
    """Runs a block that begins at a line; checks its ``# ->`` comments, returns what it prints."""
    # Blocks that print their own source need line numbers that count from the page's first line.
    source = "\n" * (line - 1) + source
    lines = source.splitlines()
    tree = ast.parse(source)
    # Without this file's `from __future__`.
    code = functools.partial(compile, filename=str(page), dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for statement in tree.body:
            expected = EXPECTED.search(lines[statement.end_lineno - 1])
            if expected and isinstance(statement, ast.Expr):
                value = eval(code(ast.Expression(statement.value), mode="eval"), namespace)
                where = f"{page.name}:{statement.lineno}"
                assert expected[1] in (repr(value), str(value)), f"{where}: {value!r}"
            else:
                exec(code(ast.Module([statement], []), mode="exec"), namespace)
    return printed.getvalue()


@contextlib.contextmanager
def shell(**files: str) -> Iterator[Callable[[str], subprocess.CompletedProcess]]:
    """Runs commands in a new folder with some files; jaxmlir's tools are first on the path."""
    with tempfile.TemporaryDirectory() as folder:
        tools, work = Path(folder, "bin"), Path(folder, "work")
        tools.mkdir()
        work.mkdir()
        (work / "examples").symlink_to(ROOT / "examples")
        for name, text in files.items():
            (work / name).write_text(text)
        for tool in ("opt", "translate", "run"):
            script = tools / f"jaxmlir-{tool}"
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jaxmlir.cli.{tool} "$@"\n')
            script.chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        yield functools.partial(
            subprocess.run, shell=True, cwd=work, env=env, capture_output=True, text=True
        )


def with_console_outputs(text: str) -> str:
    """The page with the current output of its commands."""
    with shell() as execute:

        def rerun(block: re.Match) -> str:
            if "sh tools/" in block["code"]:
                return block[0]
            return f"```console\n{COMMAND.sub(rerun_command, block['code'])}```\n"

        def rerun_command(match: re.Match) -> str:
            done = execute(match["command"])
            output = (done.stdout + done.stderr).strip()
            return f"$ {match['command']}\n{output}\n" if output else f"$ {match['command']}\n"

        return CONSOLE.sub(rerun, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page):
    assert run_once(page)[0] == page.read_text()


# A page's code as a module that prints nothing when a tool imports it.
AS_MODULE = """import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    exec({code!r}, globals())
"""


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands(page):
    """Commands run in a folder with the page's program, and with its code as a module."""
    text, namespace = page.read_text(), run_once(page)[1]
    commands = [m for block in CONSOLE.finditer(text) for m in COMMAND.finditer(block["code"])]
    assert commands
    modules = {name for m in commands for name in re.findall(r"--load (my_\w+)", m["command"])}
    code = "\n".join(block["code"] for block in PYTHON.finditer(text))
    files = {f"{name}.py": AS_MODULE.format(code=code) for name in modules}
    if "program" in namespace:
        files["program.mlir"] = str(namespace["program"])
    with shell(**files) as execute:
        for match in commands:
            done = execute(match["command"])
            assert (done.returncode != 0) == ("error: " in match["output"]), done.stderr
            if match["output"].strip():
                assert (done.stdout + done.stderr).strip() == match["output"].strip()


def test_session_in_the_debugger(monkeypatch, capsys):
    page = ROOT / "docs" / "debugging.md"
    text, namespace = page.read_text(), {}
    with_python_outputs(page, text.partition("## Stop there")[0], namespace)
    session = re.search(r"^>>> (?P<call>.*)\n(?P<shown>(?:(?!\(Pdb\)).*\n)*)", text, re.MULTILINE)
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    eval(session["call"], namespace)
    _, first, *_ = capsys.readouterr().out.split("stopped ")
    line = re.sub(r"(?<= at ).*$", "model.py:8", f"stopped {first}", count=1, flags=re.MULTILINE)
    assert line == session["shown"]


def test_console_blocks():
    text = README.read_text()
    assert with_console_outputs(text) == text
    assert COMMAND.search(text)


def test_lit_tests_of_a_users_own():
    """The README's lit test passes with the configuration of the page of the tools."""
    page = (ROOT / "docs" / "jaxmlir-opt.md").read_text()
    config = re.search(r"^```py\n(.*?)^```\n", page, re.MULTILINE | re.DOTALL)[1]
    config += f"config.environment['PYTHONPATH'] = {str(ROOT)!r}\n"
    test = re.search(r"^```mlir\n(// RUN.*?)^```\n", README.read_text(), re.MULTILINE | re.DOTALL)[
        1
    ]
    wrong = (
        "// RUN: not jaxmlir-opt --nope %s 2>&1 | FileCheck %s\n// CHECK: unknown command line\n"
    )
    programs = os.path.dirname(sys.executable)
    lit = f"'{sys.executable}' -c 'from lit.main import main; main()' -v ."
    with shell(**{"lit.cfg.py": config, "tanh.mlir": test, "wrong.mlir": wrong}) as execute:
        done = execute(f"PATH=$PATH:'{programs}' {lit}")
    assert done.returncode == 0, done.stdout
    assert re.search(r"Passed: +2 ", done.stdout)


FILE = re.compile(r"(?:`|\]\()(?:\.\./)?((?:jaxmlir|tools|examples|benchmarks|dialect)/[\w./-]*\w)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    assert [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


def test_modules_of_the_architecture_exist():
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", page)) - {"tools/lint_imports.py"}
    package = ROOT / "jaxmlir"
    assert len(names) > 20
    assert [name for name in names if not [*package.glob(f"**/{name}")]] == []


def test_rooms_and_passes_on_their_pages_are_those_of_the_source():
    assert generate_architecture.stale() == [], "run python tools/generate_architecture.py"


def test_prices_on_the_page_of_remat():
    """The last column of the page's table agrees with the target's table."""
    page = (ROOT / "docs" / "remat.md").read_text()
    table = page.partition("| taken |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    taken = [float(x) for row in rows for x in re.findall(r"[\d.]+", row.split("|")[-2])]
    costs, moves = target("cpu").costs, ("gather", "stack", "cumsum", "argmax", "sort")
    single = ("flop", "dot_flop", "read_byte", "unknown_byte", "stored_value")
    stored = ("stored_byte_cached", "stored_byte_kept", "stored_byte_mapped")
    prices = [getattr(costs, name) for name in (*single, *stored)]
    elements = dict(costs.elements)
    functions = {
        cost
        for name, cost in elements.items()
        if with_trait(Trait.TRANSCENDENTAL) & {f"jaxpr.{name}"}
    }
    of_elements = [*functions, *(elements[name] for name in moves)]
    assert sorted(taken) == sorted([*prices, *of_elements, price.MEMORY * costs.stored_byte_mapped])


def test_flags_on_the_page_of_the_tools_exist():
    page = (ROOT / "docs" / "jaxmlir-opt.md").read_text()
    flags = {flag.name for module in (opt, translate, run_tool) for flag in module.FLAGS}
    named = set(re.findall(r"`--([a-z][\w-]*)", page))
    # All passes, and the page's example of a user's pass.
    passes = {name for group in jaxmlir.passes.list_passes().values() for name in group}
    assert named - flags - passes == set()
    assert {flag for flag in named if flag in flags} >= {"remarks", "emit-artifact", "entry"}


def test_public_names_load_on_first_use():
    code = """
import jaxmlir
listed = dir(jaxmlir)
assert {"trace", "Program", "backend", "debug", "errors", "interpret", "passes"} <= {*listed}
for name in listed:
    getattr(jaxmlir, name)
# Nor do they grow when other modules are loaded, and nothing else is there to be taken for public.
assert dir(jaxmlir) == listed
public = [name for name in listed if not name.startswith("__")]
assert public == sorted(
    [*jaxmlir.__all__, "backend", "debug", "errors", "interpret", "passes", "toolbox"]
)
# No module that something else imports takes the place of a function.
assert all(callable(getattr(jaxmlir, name)) for name in jaxmlir.__all__)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


CALL = re.compile(
    r"`(?:(?P<of>debug|interpret|analysis\.cost|passes)\.)?(?P<name>\w+)\((?P<args>[^`]*?)\)"
)


def test_options_on_the_page_of_the_api_exist():
    found = 0
    for match in CALL.finditer((ROOT / "docs" / "api.md").read_text()):
        module = match["of"] and importlib.import_module(f"jaxmlir.{match['of']}")
        of = module or jaxmlir.Program
        function = getattr(of, match["name"], getattr(jaxmlir, match["name"], None))
        if callable(function):
            accepted = inspect.signature(function).parameters
            given = re.findall(r"(\w+)=", match["args"])
            assert {*given} <= {*accepted}, match[0]
            found += 1
    assert found > 30


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_python_outputs(page, page.read_text()))
    README.write_text(with_console_outputs(README.read_text()))

"""What the documentation shows is what happens.

Every ``python`` block of README.md and docs/ runs, those of a page one after the other in one
namespace.  What a block prints is the ``text`` or ``mlir`` block that follows it, and an expression
with a comment ``# -> value`` has that value.  The commands of ``console`` blocks of README.md run
too, in one folder, and print what stands below them.

    python test/test_docs.py        writes what is printed today into the pages
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import operator
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import jaxmlir

pytestmark = pytest.mark.compat

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PYTHON = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<gap>\n```(?:text|mlir)\n)?(?P<output>(?(gap).*?^```\n))",
    re.MULTILINE | re.DOTALL,
)
CONSOLE = re.compile(r"^```console\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
EXPECTED = re.compile(r"#\s*->\s*(.+)$")


def with_python_outputs(page: Path, text: str) -> str:
    """The page with what its Python blocks print today."""
    namespace: dict = {"__name__": "documented"}

    def rerun(block: re.Match) -> str:
        line = text.count("\n", 0, block.start("code")) + 1
        printed = run(block["code"], line, page, namespace)
        code = f"```python\n{block['code']}```\n"
        if not printed:
            return code + (block["gap"] or "") + block["output"]
        return f"{code}{block['gap'] or chr(10) + '```text' + chr(10)}{printed.strip()}\n```\n"

    return PYTHON.sub(rerun, text)


def run(source: str, line: int, page: Path, namespace: dict) -> str:
    """Runs a block that begins at a line; checks its ``# ->`` comments, returns what it prints."""
    # Lines count from the page's first, for what the block prints of its own source.
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


def with_console_outputs(text: str) -> str:
    """The page with what its commands print today, jaxmlir's tools first on the path."""
    with tempfile.TemporaryDirectory() as folder:
        tools, work = Path(folder, "bin"), Path(folder, "work")
        tools.mkdir()
        work.mkdir()
        for tool in ("opt", "translate", "run"):
            script = tools / f"jaxmlir-{tool}"
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jaxmlir.{tool} "$@"\n')
            script.chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

        def rerun(block: re.Match) -> str:
            if "sh tools/" in block["code"]:
                return block[0]
            return f"```console\n{COMMAND.sub(rerun_command, block['code'])}```\n"

        def rerun_command(match: re.Match) -> str:
            done = subprocess.run(
                match["command"], shell=True, cwd=work, env=env, capture_output=True, text=True
            )
            output = (done.stdout + done.stderr).strip()
            return f"$ {match['command']}\n{output}\n" if output else f"$ {match['command']}\n"

        return CONSOLE.sub(rerun, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page):
    text = page.read_text()
    assert with_python_outputs(page, text) == text


def test_console_blocks():
    text = README.read_text()
    assert with_console_outputs(text) == text
    assert COMMAND.search(text)


FILE = re.compile(r"(?:`|\]\()(?:\.\./)?((?:jaxmlir|tools|examples|benchmarks|dialect)/[\w./-]*\w)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    assert [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


def test_public_names_load_on_first_use():
    code = """
import jaxmlir
listed = dir(jaxmlir)
assert {"trace", "Program", "backend", "debug", "errors", "interpreter", "passes"} <= {*listed}
for name in listed:
    getattr(jaxmlir, name)
# Nor do they grow when other modules are loaded, and nothing else is there to be taken for public.
assert dir(jaxmlir) == listed
public = [name for name in listed if not name.startswith("__")]
assert public == sorted([*jaxmlir.__all__, "backend", "debug", "errors", "interpreter", "passes"])
# No module that something else imports takes the place of a function.
assert all(callable(getattr(jaxmlir, name)) for name in jaxmlir.__all__)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


CALL = re.compile(
    r"`(?:(?P<of>debug|interpreter|passes\.cost|passes)\.)?(?P<name>\w+)\((?P<args>[^`]*?)\)"
)


def test_options_on_the_page_of_the_api_exist():
    found = 0
    for match in CALL.finditer((ROOT / "docs" / "api.md").read_text()):
        of = operator.attrgetter(match["of"])(jaxmlir) if match["of"] else jaxmlir.Program
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

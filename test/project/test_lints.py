"""The lints find violations, and report nothing about correct lines."""

import pytest

from tools import lint_docstrings, lint_imports, lint_lit

RUN = "// RUN: jaxmlir-opt %s | FileCheck %s\n"


def messages(tmp_path, text, name="case.mlir"):
    path = tmp_path / name
    path.write_text(text)
    return [(finding.line, finding.message) for finding in lint_lit.lint(path)]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("// RUN jaxmlir-opt %s", "'RUN' without a colon"),
        ("// CHECK jaxpr.add", "'CHECK' without a colon"),
        ("// REQUIRES mlir-opt", "'REQUIRES' without a colon"),
        ("// CHECK_NEXT: jaxpr.add", "did you mean 'CHECK-NEXT:'"),
        ("// CHECK-NXT: jaxpr.add", "did you mean 'CHECK-NEXT:'"),
        ("// CHEK: jaxpr.add", "did you mean 'CHECK:'"),
        ("// JVP-NEXT: jaxpr.add", "no RUN line makes FileCheck look for 'JVP'"),
        ("// expected-error {{message}}", "no RUN line has --verify-diagnostics"),
        ("// expected-eror {{message}}", "did you mean 'expected-error'"),
    ],
)
def test_a_line_that_never_runs_is_found(tmp_path, line, expected):
    ((number, message),) = messages(tmp_path, RUN + line + "\n")
    assert number == 2
    assert expected in message


def test_lines_that_run_and_prose_are_left_alone(tmp_path):
    text = RUN + (
        "// RUN: jaxmlir-opt %s --jvp | \\\n"
        "// RUN:   FileCheck %s --check-prefix=JVP\n"
        "// REQUIRES: mlir-opt\n"
        "// CHECK-LABEL: @f\n"
        "// CHECK-COUNT-3: jaxpr.add\n"
        "// CHECK{LITERAL}: [[x]]\n"
        "// JVP-NOT: jaxpr.mul\n"
        "// COM: CHEK would be found\n"
        "// JAX adds in this order. NOTE: floats are not associative.\n"
        "func.func @f() { return }\n"
    )
    assert messages(tmp_path, text) == []


def test_a_file_without_a_run_line_is_found(tmp_path):
    ((number, message),) = messages(tmp_path, "func.func @f() { return }\n")
    assert number == 1
    assert "lit never runs this file" in message


def test_check_lines_without_filecheck_are_found(tmp_path):
    ((number, message),) = messages(tmp_path, "// RUN: jaxmlir-opt %s\n// CHECK: x\n")
    assert number == 2
    assert "no RUN line makes FileCheck look for 'CHECK'" in message


def test_a_test_file_needs_no_comment_signs(tmp_path):
    text = "RUN: jaxmlir-opt --help | FileCheck %s --check-prefix=HELP\nHELP usage\n"
    ((number, message),) = messages(tmp_path, text, "case.test")
    assert number == 2
    assert "'HELP' without a colon" in message


@pytest.mark.parametrize(
    "folder, line, allowed",
    [
        ("test", "from jax._src.internal_test_util import test_harnesses  # noqa: TID251", True),
        ("test", "from jax._src import core  # noqa: TID251", False),
        ("jaxmlir", "from jax._src.internal_test_util import jtu  # noqa: TID251", False),
        ("jaxmlir", "from jax._src import core  # noqa", False),
        ("jaxmlir", "# ruff: noqa: TID251", False),
        ("jaxmlir", "config  # noqa: F821", True),
        ("jaxmlir", "'A string: # noqa: TID251'", True),
    ],
)
def test_only_test_utilities_are_excused(tmp_path, folder, line, allowed):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "module.py").write_text(line + "\n")
    assert (list(lint_imports.violations(tmp_path)) == []) == allowed


@pytest.mark.parametrize(
    "line, message",
    [
        ("import jaxmlir.program", "dialect imports jaxmlir.program, of a room above it"),
        ("def f():\n    from jaxmlir import program", "dialect imports jaxmlir.program"),
        ("if TYPE_CHECKING:\n    from jaxmlir.program import Program", "imports jaxmlir.program"),
        ("from jaxmlir.dialect import b", "modules import each other: jaxmlir.dialect"),
        ("from jaxmlir.support import c", None),
    ],
)
def test_a_room_imports_downwards_and_modules_in_no_circle(tmp_path, line, message):
    for room in ("dialect", "program", "support"):
        (tmp_path / "jaxmlir" / room).mkdir(parents=True)
        (tmp_path / "jaxmlir" / room / "__init__.py").touch()
    (tmp_path / "jaxmlir" / "dialect" / "a.py").write_text(line + "\n")
    (tmp_path / "jaxmlir" / "dialect" / "b.py").write_text("from jaxmlir.dialect import a\n")
    found = list(lint_imports.layer_violations(tmp_path))
    assert found == [] if message is None else message in found[0]


@pytest.mark.parametrize(
    "text, message",
    [
        ('"""Of the only result."""', "a.py:1: error: a docstring begins with 'Of'"),
        ('"""Offers are sentences."""', None),
        ('def f():\n    """Likewise, of a module."""', "a.py:2: error: a docstring begins with"),
        ('class A:\n    x: int\n    """Those of the operands."""', "a.py:3: error: a docstring"),
        ('"""The result"""', "a.py:1: error: a docstring's first sentence has no end"),
        ('"""A decorator::\n\n    @f\n"""', None),
        ("'The rest of it.'.split()", None),
    ],
)
def test_a_docstring_names_its_subject(tmp_path, text, message):
    (tmp_path / "jaxmlir" / "dialect").mkdir(parents=True)
    (tmp_path / "jaxmlir" / "dialect" / "a.py").write_text(text + "\n")
    found = list(lint_docstrings.violations(tmp_path))
    assert found == [] if message is None else message in found[0]


def test_a_file_that_is_not_there_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        lint_lit.main([str(tmp_path), str(tmp_path / "no.mlir")])
    assert capsys.readouterr().err.endswith(f"no such file or folder: {tmp_path / 'no.mlir'}\n")

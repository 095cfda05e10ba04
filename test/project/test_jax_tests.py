"""The tool that runs JAX's own tests, on a checkout with tests of known outcome."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tools import jax_tests, jax_tests_report, jax_tests_transforms

TESTS = """
import os
import pytest
from jax._src import utility_of_the_checkout

def test_passes():
    assert utility_of_the_checkout.ANSWER == 42

def test_never_passes():
    assert False

def test_differs():
    assert "JAXMLIR_BACKEND" not in os.environ

def test_kills_its_process():
    if "JAXMLIR_BACKEND" in os.environ:
        os._exit(3)

def test_is_listed():
    assert "JAXMLIR_BACKEND" not in os.environ

def test_has_64_bit_types():
    assert os.environ["JAX_ENABLE_X64"] == "1"
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    (root / "tests").mkdir(parents=True)
    (root / "tests" / "small_test.py").write_text(TESTS)
    (root / "tests" / "broken_test.py").write_text("import no_such_module\n")
    (root / "jax" / "_src").mkdir(parents=True)
    (root / "jax" / "_src" / "utility_of_the_checkout.py").write_text("ANSWER = 42\n")
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    differ = tmp_path / "differ.toml"
    differ.write_text('"it looks at the environment" = ["test_is_listed$"]\n')
    monkeypatch.setattr(jax_tests, "STATE", tmp_path / "state")
    monkeypatch.setattr(jax_tests_report, "DIFFER", differ)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return root


def cells(shown: str, file: str) -> list[str]:
    """The cells of a file's row: tests, those that pass plainly, broken, listed."""
    row = next(line for line in shown.splitlines() if line.startswith(f"│ {file}"))
    return row.split()[3:11:2]


def test_tests_that_pass_plainly_and_not_through_the_dialect(checkout, capsys, monkeypatch):
    assert jax_tests.main([str(checkout), "small_test", "--every", "2"]) == 1
    assert cells(capsys.readouterr().out, "small_test") == ["3", "3", "1", "1"]

    assert jax_tests.main([str(checkout), "small_test", "broken_test"]) == 1
    shown = capsys.readouterr().out
    assert "tests/small_test.py::test_differs" in shown
    assert "tests/small_test.py::test_kills_its_process" in shown
    assert "the process ended with status 3" in shown
    assert "test_never_passes" not in shown.partition("┏")[0]
    assert cells(shown, "small_test") == ["6", "4", "2", "1"]
    assert cells(shown, "broken_test") == ["1", "0", "0", "0"]

    options = ["-k", "passes or 64_bit", "--x64", "--level", "2"]
    assert jax_tests.main([str(checkout), "small_test", *options]) == 0
    assert cells(capsys.readouterr().out, "small_test") == ["3", "2", "0", "0"]

    # Reporting a complete run again starts no process.
    monkeypatch.setattr(jax_tests.subprocess, "Popen", None)
    assert jax_tests.main([str(checkout), "small_test", "--resume"]) == 1
    assert cells(capsys.readouterr().out, "small_test") == ["6", "4", "2", "1"]

    page = jax_tests_report.page(jax_tests.STATE)
    assert re.search(r"^\| `small_test` \| 6 \| 6 \| 4 \| 1 \| 1 \| [\d.]+ \|$", page, re.MULTILINE)
    assert " with 64-bit types, through the dialect, `-O2`\n" in page
    assert "- `small_test.py::test_is_listed`: it looks at the environment" in page


def test_the_page_is_written_from_records_and_keeps_what_is_not_of_them(tmp_path, monkeypatch):
    written = tmp_path / "page.md"
    by_hand = "## By hand, with other cases\n\n| file |\n|---|\n| `small_test` |\n\n"
    written.write_text(f"# Title\n\n## jax 0.1, as it was\n\n{by_hand}## Listed\n\n- `old`\n")
    monkeypatch.setattr(jax_tests_report, "PAGE", written)
    monkeypatch.setattr(jax_tests_report, "STATE", tmp_path)
    before = written.read_text()
    assert jax_tests_report.main() == 1
    assert written.read_text() == before

    for mode in ("plain", "dialect"):
        record = tmp_path / "0.2" / mode / "small_test.jsonl"
        record.parent.mkdir(parents=True)
        test = '{"id": "test_passes", "outcome": "passed", "wall": 1, "cpu": 1}'
        record.write_text(f'{{"collected": 1, "of": 1}}\n{test}\n{{"complete": ["", 1, 10]}}\n')
    assert jax_tests_report.main() == 0
    _, *sections = re.split("^## ", written.read_text(), flags=re.MULTILINE)
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == ["jax 0.2, through the dialect", "By hand, with other cases", "Listed"]
    assert by_hand in written.read_text() and "`old`" not in written.read_text()


def test_files_that_are_not_there_are_an_error(checkout, capsys):
    (checkout / "pyproject.toml").unlink()
    with pytest.raises(SystemExit):
        jax_tests.main([str(checkout), "small_test", "no_test"])
    missing = f"{checkout / 'pyproject.toml'}, {checkout / 'tests' / 'no_test.py'}\n"
    assert capsys.readouterr().err.endswith(missing)


def test_that_no_test_was_run_is_an_error(checkout, capsys):
    assert jax_tests.main([str(checkout), "small_test", "-k", "no_such_test"]) == 1
    assert "no test was run" in capsys.readouterr().err


def test_options_that_make_no_sense(checkout, capsys):
    for options, message in (
        (["--every", "0"], "--every: expected 1 or more, got 0"),
        (["--pipeline", "jaxpr-sce"], "unknown pass 'jaxpr-sce'; did you mean 'jaxpr-cse'?"),
        (["--transforms", "--level", "2"], "--transforms compiles as JAX does: no passes"),
    ):
        with pytest.raises(SystemExit):
            jax_tests.main([str(checkout), "small_test", *options])
        assert message in capsys.readouterr().err


def test_functions_are_transformed_by_the_passes_or_counted():
    xs = jnp.array([1.0, 2.0])
    jax_tests_transforms.take_counts()

    def loss(slope):
        @jax_tests_transforms.staged
        def line(x, scale):
            # Closes over a value of the outer transformation, and also returns a string.
            return jnp.sin(x * slope) * scale, "line"

        assert line(3.0, 1.0)[1] == "line"
        return jax.vmap(lambda x: line(x, 2.0)[0])(xs).sum()

    np.testing.assert_allclose(jax.grad(loss)(3.0), (2 * xs * jnp.cos(3.0 * xs)).sum(), rtol=1e-6)
    assert "@line.vmap" in str(jax.make_jaxpr(loss)(3.0))
    assert jax_tests_transforms.take_counts() == {"programs": 2, "as_they_are": {}}

    looks = jax_tests_transforms.staged(lambda x: -x if x < 0 else x)
    assert jax.grad(looks)(-1.0) == -1.0
    expected = {"programs": 0, "as_they_are": {"TracerBoolConversionError": 1}}
    assert jax_tests_transforms.take_counts() == expected


def test_what_jax_refuses_is_refused_in_its_words():
    def refused(x):
        return jax.lax.while_loop(lambda x: x < 9, lambda x: x * x, x)

    grad = jax_tests_transforms.of_staged(jax.grad)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        grad(refused)(2.0)
    with pytest.raises(TypeError, match="requires real- or complex-valued inputs"):
        grad(refused)(2)

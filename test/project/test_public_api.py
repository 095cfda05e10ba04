"""The public interface: documented names, types for checkers, the package, and the site."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import jaxmlir

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "api.md"


def documented_names() -> set[str]:
    """The words of the code on the page of the API, without names of options."""
    code = " ".join(re.findall(r"`([^`\n]+)`", API.read_text()))
    return set(re.findall(r"\b[a-z]\w*\b(?!=)", code, re.IGNORECASE))


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_every_public_name_of_a_program_is_documented():
    program = jaxmlir.trace(jnp.sin)(1.0)
    assert public(dir(program)) - documented_names() == set()
    assert [name for name in dir(program) if re.match(r"_[^_]", name)] == []
    # Every name that is hidden as internal exists.
    hidden = {name for cls in type(program).__mro__ for name in getattr(cls, "_internal", ())}
    assert [name for name in hidden if not hasattr(program, name)] == []


def test_every_public_name_of_the_package_is_documented():
    assert public(dir(jaxmlir)) - documented_names() == set()


@pytest.mark.parametrize("package", ["", ".interpret", ".passes"])
def test_type_checkers_see_the_names_that_load_on_first_use(package):
    module = importlib.import_module(f"jaxmlir{package}")
    path = Path(module.__file__)
    imported = {
        f"{node.module}.{alias.name}"
        for branch in ast.walk(ast.parse(path.read_text()))
        if isinstance(branch, ast.If) and getattr(branch.test, "id", "") == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    submodules = getattr(module, "_SUBMODULES", ())
    exports = {f"{module.__name__}.{of}.{name}" for name, of in module._EXPORTS.items()}
    assert imported == exports | {f"{module.__name__}.{name}" for name in submodules}


IN_THE_WHEEL = {
    "jaxmlir/py.typed",
    "jaxmlir/dialect/jaxpr.irdl.mlir",
    "jaxmlir/cli/stock_verify.py",
    "jaxmlir/targets/tables/cpu.toml",
    "jaxmlir/viewer/assets/page.html",
}
RUN_README = """
import sys, jaxmlir
assert jaxmlir.__file__.startswith(sys.argv[1]), jaxmlir.__file__
import test_docs
text = test_docs.README.read_text()
assert test_docs.with_python_outputs(test_docs.README, text) == text
"""


def test_the_readme_runs_from_the_built_wheel(tmp_path):
    pytest.importorskip("build")
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "jaxmlir", source / "jaxmlir", ignore=leave)

    def python(*arguments: str, **environment: str) -> str:
        env = {**os.environ, **environment}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source))
    (wheel,) = tmp_path.glob("*.whl")
    options = ["--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check"]
    python("-m", "pip", "install", *options, "--target", str(target), str(wheel))
    assert [name for name in IN_THE_WHEEL if not (target / name).exists()] == []
    path = os.pathsep.join([str(target), *(str(ROOT / p) for p in ("test/project", "tools"))])
    python("-c", RUN_README, str(target), PYTHONPATH=path)
    version = subprocess.run(
        [target / "bin" / "jaxmlir-opt", "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(target)},
    )
    assert jaxmlir.__version__ in version.stdout, version.stderr


def test_the_site_is_built_without_warnings(tmp_path):
    for name in ("sphinx", "myst_parser", "furo", "sphinxcontrib.mermaid"):
        pytest.importorskip(name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "site")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference.html").read_text()
    documented = set(re.findall(r'id="jaxmlir\.Program\.(\w+)"', reference))
    program = jaxmlir.trace(jnp.sin)(1.0)
    assert public(dir(program)) - documented == set()

"""Artifacts of every released dialect version, made under several versions of JAX, still work."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmlir
from jaxmlir.artifact import container, decompose, description
from jaxmlir.dialect import ir

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from freeze_artifacts import FOLDER, PROGRAMS

pytestmark = pytest.mark.compat

FROZEN = sorted(FOLDER.glob("*.jaxmlir"))


def test_there_are_some_of_this_dialect_and_of_both_ends_of_jax():
    names = {path.name for path in FROZEN}
    for jax_version in ("0.10.2", "0.12.0.1"):
        for name in PROGRAMS:
            assert f"{name}-dialect{ir.DIALECT_VERSION}-jax{jax_version}.jaxmlir" in names


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: path.stem)
def test_loads_and_transforms(path):
    """Numbers equal those that JAX computed from the source when the file was made."""
    name = path.name.partition("-")[0]
    args = PROGRAMS[name][1]
    program = jaxmlir.load(path, allow_custom_calls=["pallas_call"])
    value, gradient = jax.jit(jax.value_and_grad(program))(*args)
    with np.load(path.with_suffix(".npz")) as expected:
        for got, key in zip([value, *jax.tree.leaves(gradient)], expected, strict=True):
            np.testing.assert_allclose(got, expected[key], rtol=2e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        program.grad()(*args),
        gradient,
    )
    batch = jax.tree.map(lambda x: np.stack([x, x]), args)
    batched = jax.jit(program.vmap(axis_size=2))(*batch)
    np.testing.assert_allclose(batched, np.stack([value, value]), rtol=1e-5)


UNKNOWN = """
module attributes {jaxpr.version = "0.1"} {
  func.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = "jaxpr.from_the_future"(%0) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = "jaxpr.from_the_future"(%1) : (tensor<3xf32>) -> tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
"""


def test_ops_of_another_jax_are_listed(tmp_path):
    jaxmlir.parse(UNKNOWN, filename="made.mlir", verify=False).save(tmp_path / "a")
    with pytest.raises(jaxmlir.errors.ArtifactError) as error:
        jaxmlir.load(tmp_path / "a")
    (diagnostic,) = error.value.diagnostics
    assert "'jaxpr.from_the_future' op (2 in the program) cannot be read" in diagnostic.message
    assert f"made with jax {jax.__version__}" in diagnostic.message
    assert "no imported module registers one" in diagnostic.message
    assert diagnostic.line == 5
    # The file can be inspected nevertheless.
    buffer = container.map_file(tmp_path / "a")
    assert "2 from_the_future" in description.describe(buffer, "a")


@pytest.mark.parametrize("name", decompose.EQUATIONS)
def test_equations(name):
    """The expansion of a primitive, against numpy and, if it has the primitive, JAX."""
    x = np.array([0.3, 0.7, 0.999], np.float32)
    args = (x, np.float32(1.0), np.float32(-2.0), np.float32(0.5)) if name == "polynomial" else (x,)
    expected = {
        "log2": lambda x: np.log2(x),
        "one_minus_square": lambda x: 1 - x.astype("float64") ** 2,
        "polynomial": lambda x, *c: np.polynomial.polynomial.polyval(x, c),
    }[name](*args)
    np.testing.assert_allclose(decompose.EQUATIONS[name](*args), expected, rtol=1e-6)


CALL = """
module attributes {{jaxpr.version = "0.1"}} {{
  func.func public @f(%r: !jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32> {{
    %0 = "jaxpr.{name}"(%r) {{call_jaxpr = @g, jaxpr.effects = [{{ReadEffect = 0 : i64}}]}}
        : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }}
  func.func private @g(%r: !jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32> {{
    %0 = "jaxpr.get"(%r) {{jaxpr.effects = [{{ReadEffect = 0 : i64}}], tree = {{pytree = []}}}}
        : (!jaxpr.ref<tensor<3xf32>>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }}
}}
"""


@pytest.mark.parametrize("name", ["closed_call", "eval_jaxpr"])
def test_calls_keep_their_effects(name, tmp_path):
    """JAX has several primitives that only call a function, some of them not in all versions."""
    jaxmlir.parse(CALL.format(name=name), verify=False).save(tmp_path / "a")
    value = np.arange(3, dtype=np.float32)
    program = jaxmlir.load(tmp_path / "a")
    np.testing.assert_array_equal(program(jax.new_ref(value)), value)

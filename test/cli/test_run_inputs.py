"""Arguments of ``jaxmlir-run`` from files."""

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.flax import save_file

import jaxmlir
from jaxmlir.cli import run

W, B, X = jnp.arange(6.0).reshape(2, 3), jnp.ones(2, jnp.bfloat16), jnp.array([1.0, 2.0, 3.0])


def model(params, x):
    return params["w"][0] @ x + params["b"].astype(jnp.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    program = jaxmlir.trace(model)({"w": [W], "b": B}, X)
    program.save(folder / "model.jaxmlir")
    save_file({"params.w.0": W, "params.b": B}, folder / "params.safetensors")
    np.savez(folder / "named.npz", **{"x": X, "params['w'][0]": W})
    np.savez(folder / "ordered.npz", first=np.ones(2, np.float32), second=W, third=X)
    np.savez(folder / "wrong.npz", x=X, params_b=np.ones(2))
    (folder / "broken.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    return folder


def ran(folder, capsys, *arguments):
    words = [str(folder / word) if (folder / word).exists() else word for word in arguments]
    status = run.main([str(folder / "model.jaxmlir"), *words])
    said = capsys.readouterr()
    return status, said.out + said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "params.safetensors", "--args", "[1, 2, 3]"),
        ("--args", "[1, 1]", "--input", "named.npz"),
    ],
    ids=["safetensors", "npz"],
)
def test_arrays_are_given_by_name(folder, capsys, arguments):
    expected = np.asarray(model({"w": [W], "b": B}, X))
    status, said = ran(folder, capsys, *arguments)
    assert (status, said) == (0, f"result: f32[2] = [{', '.join(map(str, expected))}]\n")


def test_names_that_are_no_arguments_are_said(folder, capsys):
    """The arrays are passed in their order, which a name might contradict."""
    expected = np.asarray(model({"w": [W], "b": B}, X))
    status, said = ran(folder, capsys, "--input", "ordered.npz")
    assert status == 0 and f"result: f32[2] = [{', '.join(map(str, expected))}]\n" in said
    assert "has the name of an argument of @model (params.b, params.w.0, x): its arrays are" in said
    np.savez(folder / "unnamed.npz", np.ones(2, np.float32), W, X)
    status, said = ran(folder, capsys, "--input", "unnamed.npz")
    assert (status, said) == (0, f"result: f32[2] = [{', '.join(map(str, expected))}]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "wrong.npz"), "'params_b', which is not an argument of @model; did you mean"),
        (("--input", "params.safetensors"), "none for x; --random-args uses random"),
        (("--input", "named.npz", "--input", "named.npz"), "is in two --input files"),
        (("--input", "broken.safetensors"), "is not a safetensors file"),
        (("--args", "abc"), "write values as in --args '1.5, [1, 2], true'"),
    ],
)
def test_what_does_not_fit_is_said(folder, capsys, arguments, message):
    status, said = ran(folder, capsys, *arguments)
    assert status == 1
    assert message in said


def test_effects_are_described(tmp_path, capsys):
    import jax

    from jaxmlir.cli import translate

    def f(x):
        jax.debug.print("x is {}", x)
        return {7: 2 * x, 8: x}

    text = str(jaxmlir.trace(f)(1.0))
    (tmp_path / "f.mlir").write_text(text)
    assert translate.main(["--describe", str(tmp_path / "f.mlir")]) == 0
    results, _, effects = capsys.readouterr().out.partition("callbacks and effects:\n")
    assert "    result[7]  tensor<f32" in results
    assert effects.startswith("  1 debug_print: DebugEffect, at ")
    (tmp_path / "f.mlir").write_text(text.replace("out_tree = {", "out_tree = {a = 1, "))
    assert translate.main(["--describe", str(tmp_path / "f.mlir")]) == 1
    assert "its program is malformed" in capsys.readouterr().err


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "empty").touch()
    for source in (tmp_path / "empty", b""):
        with pytest.raises(jaxmlir.errors.ArtifactError, match="the file is empty"):
            jaxmlir.load(source)

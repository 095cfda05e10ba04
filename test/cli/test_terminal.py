"""The tools' output at a terminal, and their hints about misspelt words."""

import os
import pty
import re
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir.cli import opt, run, translate
from jaxmlir.cli.command_line import highlighted

TEXT = """\
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.floor"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def without_codes(text):
    return re.sub(r"\x1b\[\d*m", "", text)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.mlir"
    path.write_text(TEXT)
    return str(path)


def on_terminal(*words, **environment):
    """The output of ``jaxmlir-opt``, whose stdout is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "jaxmlir.cli.opt", "--verify=none", *words]
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | environment
    subprocess.run(command, stdout=theirs, env=environment | {"TERM": "xterm"}, check=True)
    os.close(theirs)
    with os.fdopen(ours, "rb") as read:
        return os.read(read.fileno(), 10_000).decode().replace("\r\n", "\n")


def test_a_terminal_shows_the_module_in_colour(file, capfd):
    assert opt.main([file, "--verify=none", "--color"]) == 0
    plain = capfd.readouterr().out
    assert "\x1b" not in plain
    painted = on_terminal(file)
    assert '\x1b[1m"jaxpr.floor"\x1b[0m(' in painted
    assert without_codes(painted) == plain


@pytest.mark.parametrize(("words", "environment"), [(["--color=0"], {}), ([], {"NO_COLOR": "1"})])
def test_no_colour_where_it_is_not_wanted(file, words, environment):
    assert "\x1b" not in on_terminal(file, *words, **environment)


def test_colour_changes_no_letter():
    program = jaxmlir.trace(jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)))(jnp.ones(3))
    text = program.as_text(debug_info=True)
    assert "loc(" in text
    assert without_codes(highlighted(text)) == text


def test_a_reproducer_that_cannot_be_written_hides_no_error(file, capfd):
    words = [file, "--jaxpr-inverse", "--mlir-pass-pipeline-crash-reproducer=/nowhere/r.mlir"]
    assert opt.main(words) == 1
    said = capfd.readouterr().err
    assert "f.mlir:2:8: error: 'jaxpr.floor' op cannot be inverted" in said
    assert "note: cannot write the reproducer '/nowhere/r.mlir': No such file" in said


def test_what_is_read_once_is_read(file, tmp_path, capfd):
    """A pipe, and a file whose name MLIR does not take."""
    artifact, odd = str(tmp_path / "f.jaxmlir"), str(tmp_path / "\udcff.mlir")
    assert opt.main([file, "--emit-artifact", "-o", artifact]) == opt.main([file, "-o", odd]) == 0
    assert run.main([odd, "--args", "[1.5, 2, 3, 4]"]) == translate.main(["--describe", odd]) == 0
    for path in (file, artifact):
        pipe = f"{path}.pipe"
        os.mkfifo(pipe)
        with open(path, "rb") as source:
            writer = threading.Thread(target=_write, args=(pipe, source.read()))
        writer.start()
        assert run.main([pipe, "--args", "[1.5, 2, 3, 4]"]) == 0
        writer.join()
    assert capfd.readouterr().out.count("= [1.0, 2.0, 3.0, 4.0]") == 3


def _write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def test_without_stderr_diagnostics_are_dropped(file, capfd, monkeypatch):
    for words, status in (["--nope"], 1), (["--jaxpr-cost"], 0):
        monkeypatch.setattr(sys, "stderr", None)  # as Python has it where it is closed
        assert opt.main([file, *words]) == status
    assert capfd.readouterr().out.startswith("module {")


def test_an_empty_file_is_described_as_empty(tmp_path, capfd):
    (tmp_path / "empty").write_bytes(b"")
    assert translate.main(["--describe", str(tmp_path / "empty")]) == 1
    assert "empty is empty: writing it was interrupted" in capfd.readouterr().err


def test_a_description_names_no_line_of_the_file_itself(file, capfd):
    assert translate.main(["--describe", file]) == 0
    said = capfd.readouterr().out
    assert "1, with 1 ops" in said
    assert "sources" not in said


def test_arguments_are_one_word(file, capfd):
    assert run.main([file, "--args", "[1, 2, 3, 4]", "[5]"]) == 1
    assert "--args takes one word, in quotes: --args '[1, 2, 3, 4], ...'" in capfd.readouterr().err
    words = ["--import-python", "jax.numpy:add", "--args", "f32[3]", "f32[3]"]
    assert translate.main(words) == 1
    assert "--args takes one word, in quotes: --args 'f32[3], ...'" in capfd.readouterr().err


def test_of_many_arguments_a_few_are_named(tmp_path, capfd):
    program = jaxmlir.trace(lambda params: sum(params.values()))({f"p{i}": 1.0 for i in range(30)})
    program.save(tmp_path / "many.jaxmlir")
    assert run.main([str(tmp_path / "many.jaxmlir"), "--args", "1.0"]) == 1
    said = capfd.readouterr().err
    assert "takes 30 arguments" in said and len(said) < 400
    assert "21 more), 1 argument was given, none for params.p1, params.p10" in said
    assert "jaxmlir-translate --describe lists them" in said


def test_texts_and_files_of_jax_say_what_reads_them(tmp_path, capfd):
    (tmp_path / "f.jaxpr").write_text(str(jax.make_jaxpr(jnp.sin)(1.0)))
    exported = jax.export.export(jax.jit(jnp.sin))(1.0)
    (tmp_path / "f.bin").write_bytes(exported.serialize())
    assert opt.main([str(tmp_path / "f.jaxpr")]) == 1
    assert "note: this is a jaxpr as JAX prints it, which cannot" in capfd.readouterr().err
    assert translate.main(["--describe", str(tmp_path / "f.bin")]) == 1
    assert "read it with jaxmlir.from_exported(data)" in capfd.readouterr().err
    with pytest.raises(jaxmlir.errors.ArtifactError, match="from_exported"):
        jaxmlir.load(tmp_path / "f.bin")
    again = jax.export.deserialize((tmp_path / "f.bin").read_bytes())
    assert jaxmlir.from_exported(again)(0.5) == jnp.sin(0.5)


@pytest.fixture(scope="module")
def symbolic(tmp_path_factory):
    def f(w, x):
        return x @ w["a"]

    b, n = jax.export.symbolic_shape("b, n")
    shapes = {"a": jax.ShapeDtypeStruct((b, 4), "f")}, jax.ShapeDtypeStruct((n, b), "f")
    folder = tmp_path_factory.mktemp("symbolic")
    jaxmlir.trace(f)(*shapes).save(folder / "f.jaxmlir")
    return folder


def test_sizes_that_contradict_each_other(symbolic, capfd):
    np.savez(symbolic / "x.npz", **{"w.a": np.ones((3, 4)), "x": np.ones((2, 5))})
    assert run.main([str(symbolic / "f.jaxmlir"), "--input", str(symbolic / "x.npz")]) == 1
    said = capfd.readouterr().err
    assert "argument x is f32[n,b], with b = 3, n = 2 by the arguments' shapes; " in said
    assert "expected the shape [2, 3], got [2, 5]" in said
    np.savez(symbolic / "x.npz", **{"w.a": np.ones((3, 4)), "x": np.ones((2, 3))})
    assert run.main([str(symbolic / "f.jaxmlir"), "--input", str(symbolic / "x.npz")]) == 0
    assert "f32[2,4] = [[3.0, 3.0, 3.0, 3.0]" in capfd.readouterr().out


def test_sizes_that_are_not_known(symbolic, capfd):
    assert run.main([str(symbolic / "f.jaxmlir"), "--random-args"]) == 1
    assert "symbolic shapes; give these arguments with --args or --input" in capfd.readouterr().err
    assert run.main([str(symbolic / "f.jaxmlir"), "--args", '{"a": [1]}']) == 1
    assert "give its leaves one by one: w.a, x" in capfd.readouterr().err

"""Malicious artifacts: small files that expand enormously, or that name unusual files."""

import os
import re
import sys
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxmlir
from jaxmlir.artifact import container
from jaxmlir.cli import opt
from jaxmlir.errors import ArtifactError, JaxmlirError, LoweringError, VerificationError, nearest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import fuzz

TEXT = """"builtin.module"() ({{
"func.func"() <{{function_type = (tensor<f32>) -> {returns}, sym_name = "f"}}> ({{
^bb0(%arg0: tensor<f32>):
{lines}
"func.return"({result}) : ({returns}) -> ()
}}) : () -> ()
}}) {{jaxpr.version = "0.1"}} : () -> ()
{after}"""


@pytest.fixture
def forged(tmp_path):
    """Makes artifacts of one function, whose body begins with given lines."""
    path = tmp_path / "forged.jaxmlir"
    jaxmlir.trace(jnp.sin)(1.0).save(path)
    metadata, parts = container.unpack(container.map_file(path))

    def forge(lines, after="", returns="tensor<f32>", result="%arg0"):
        text = TEXT.format(lines=lines, after=after, returns=returns, result=result)
        forged = fuzz.sealed(metadata, parts, text.encode())
        path.unlink()
        path.write_bytes(forged)
        return path

    return forge


def with_attribute(value):
    op, types = "jaxpr.xla_metadata_value", "(tensor<f32>) -> tensor<f32>"
    return f'%0 = "{op}"(%arg0) {{xla_metadata_kvs = {value}}} : {types}'


def of_type(type_):
    return f'%0 = "jaxpr.constant"() {{value = dense<1> : {type_}}} : () -> {type_}'


# For each text, MLIR's parser would need a thousand times the memory or time of reading it.
@pytest.mark.parametrize(
    "lines",
    [
        with_attribute("1 : i16777215"),
        with_attribute("1 : si4096"),
        of_type("tensor<2xi16777215>"),
        of_type("tensor<2x2xui16777215, {weak_type}>"),
        with_attribute("9" * 100_000),
        with_attribute(f"1.{'9' * 100_000} : f64"),
        with_attribute(f"1.0e{'9' * 100_000} : f64"),
        with_attribute("0x" + "F" * 100_000),
        of_type(f"tensor<{'1x' * 50_000}f32>"),
        of_type(f"tensor<{'1x' * 50_000}f32, {{weak_type}}>"),
        of_type(f"tensor<{'1x' * 50_000}complex<f32>>"),
    ],
)
def test_numbers_and_types_of_no_program(forged, lines):
    with pytest.raises(ArtifactError, match="expected only what jaxmlir prints"):
        jaxmlir.load(forged(lines))


@pytest.mark.parametrize("dim", ["2^1000000000", "a^65", "2^ 1_000_000", r"2^\0A1000000"])
def test_powers_of_dimensions(forged, dim):
    with pytest.raises(VerificationError, match="expected powers up to 64"):
        jaxmlir.load(forged(with_attribute(f'{{dim = "{dim}"}}')))


def test_dimensions_of_their_own_powers(tmp_path):
    (b,) = jax.export.symbolic_shape("b")
    jaxmlir.trace(lambda x: x.reshape(-1))(jax.ShapeDtypeStruct((b,) * 5, "float32")).save(
        tmp_path / "a"
    )
    program = jaxmlir.load(tmp_path / "a")
    assert str(program.out_avals[0].shape[0]) == "b^5"
    assert program(jnp.ones((2,) * 5)).shape == (32,)


def test_a_mesh_of_more_devices_than_it_names(forged):
    mesh = (
        '{Mesh = {devices = [{Device = "cpu:0"}], shape = array<i64: 1000000000000>, '
        'axis_names = ["x"], axis_types = none}}'
    )
    with pytest.raises(VerificationError, match="cannot reshape array of size 1"):
        jaxmlir.load(forged(with_attribute(mesh)))


def test_many_long_names_that_are_nearly_the_same():
    assert nearest("ab" * 500, ["ba" * 500 + str(n) for n in range(5000)]) is None
    assert nearest("tahn", ["sinh", "tanh", "cosh"]) == "tanh"


INDEX = (
    '%0 = "jaxpr.axis_index"() {axis_name = "i", jaxpr.effects = [{NamedAxisEffect = "i"}]} : '
    "() -> tensor<i32> loc(#loc)"
)


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, which a reader waits for until somebody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["pipe", "/proc/kmsg"])
def test_a_traceback_reads_no_device(forged, pipe, name):
    """JAX puts the source location of an equation into the tracebacks of errors."""
    place = pipe if name == "pipe" else name
    path = forged(INDEX, f'#loc = loc("{place}":7:1)\n', "tensor<i32>", "%0")
    program = jaxmlir.load(path)
    message = re.escape(f"{place}:7:1: error: 'jaxpr.axis_index'")
    with pytest.raises(LoweringError, match=message) as error:
        program(1.0)
    text = "".join(traceback.format_exception(error.value))
    assert f'File "<{place}>", line 7' in text


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", r"/nul\00"])
def test_diagnostics_show_no_line_of_a_device(forged, pipe, name, capsys):
    place = pipe if name == "pipe" else name
    lines = with_attribute("1").replace("xla_metadata_kvs", "bogus") + " loc(#loc)"
    assert opt.main([str(forged(lines, f'#loc = loc("{place}":7:1)\n'))]) == 1
    shown = capsys.readouterr().err
    assert f"{place}:7:1: error: 'jaxpr.xla_metadata_value' op" in shown and "^" not in shown


def test_an_error_names_the_file(forged):
    """Errors of ops without a location name the file, too."""
    path = forged('%0 = "jaxpr.no_such_thing"(%arg0) : (tensor<f32>) -> tensor<f32>')
    with pytest.raises(JaxmlirError, match=f"^{re.escape(str(path))}:\\d+:\\d+: error: "):
        jaxmlir.load(path)

"""Programs compiled for absent devices; and the errors if their compilers are missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir import targets
from jaxmlir.errors import ArgumentError, CompilerError
from jaxmlir.targets import compilers, hlo

X = np.linspace(0.0, 1.0, 256 * 256, dtype=np.float32).reshape(256, 256)


def f(x):
    return jnp.sin(x) @ x


def needs(target):
    command = compilers.missing(targets.target(target))
    reason = "" if command is None else f"no compiler of {target}: {command}"
    return pytest.mark.skipif(command is not None, reason=reason)


@pytest.fixture
def no_compilers(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)


@pytest.mark.parametrize(
    "target, package, extra",
    [
        ("tpu:v5e:2x2", "libtpu", "aot-tpu"),
        ("cuda:h100", "jax_plugins.xla_cuda12", "aot-gpu"),
    ],
)
def test_a_missing_compiler_is_named_with_its_command(target, package, extra, no_compilers):
    with pytest.raises(CompilerError) as error:
        jaxmlir.aot(f, target, X)
    assert package in str(error.value)
    assert f"pip install 'jaxmlir[{extra}]'" in str(error.value)
    assert target in str(error.value)


def test_the_extras_exist():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for compiler in compilers.COMPILERS.values():
        assert compiler.extra in project["optional-dependencies"]


def test_a_target_that_cannot_be_compiled_for():
    with pytest.raises(ArgumentError, match="XLA compiles for cpu, tpu, cuda"):
        jaxmlir.aot(f, "rocm", X)
    with pytest.raises(ArgumentError, match="did you mean 'tpu:v5p'"):
        jaxmlir.aot(f, "tpu:v5", X)
    with pytest.raises(ArgumentError, match="expected a program or a function"):
        jaxmlir.aot(3.0, "cpu")


@pytest.mark.compat
@pytest.mark.parametrize("of", ["function", "jax.jit", "jaxmlir.jit", "program", "optimized"])
def test_what_is_compiled_for_the_cpu_runs(of):
    made = {
        "function": lambda: f,
        "jax.jit": lambda: jax.jit(f),
        "jaxmlir.jit": lambda: jaxmlir.jit(f, optimize=1),
        "program": lambda: jaxmlir.trace(f)(X),
        "optimized": lambda: jaxmlir.trace(f)(X).optimize(2),
    }[of]()
    found = jaxmlir.aot(made, "cpu", X)
    np.testing.assert_allclose(found.compiled(jnp.asarray(X)), f(X), rtol=1e-5)
    assert found.arguments == found.outputs == X.nbytes
    assert found.flops >= 2 * 256**3
    assert str(found).startswith("compiled for cpu")
    assert "256 KiB" in str(found)


def test_a_program_needs_no_arguments():
    program = jaxmlir.trace(f)(X)
    assert jaxmlir.aot(program, "cpu").arguments == X.nbytes


def test_a_program_of_symbolic_sizes_needs_arguments():
    rows = jax.export.symbolic_shape("rows")
    program = jaxmlir.trace(jnp.sin)(jax.ShapeDtypeStruct(rows, "float32"))
    with pytest.raises(ArgumentError, match=r"@sin\(f32\[rows\]\).*give arguments of the sizes"):
        jaxmlir.aot(program, "cpu")
    assert jaxmlir.aot(program, "cpu", jnp.ones(3)).arguments == 12


def test_a_topology_is_kept_and_written():
    assert str(targets.target("tpu:v5e:2x4")) == "tpu:v5e:2x4"
    assert targets.target("tpu:v5e:2x4").topology == (2, 4)
    assert targets.target("tpu:v5e:2x4").on(1) == targets.target("tpu:v5e")


def compiled(target, *made):
    """The output of a separate process that compiles programs, because compilers have per-process
    settings."""
    code = (
        "import numpy as np, jax, jaxmlir, jax.numpy as jnp\n"
        "X = np.ones((256, 256), np.float32)\n"
        "f = lambda x: jnp.sin(x) @ x\n"
    ) + "".join(f"print(jaxmlir.aot({one}, {target!r}, X))\n" for one in made)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert not done.returncode, done.stderr
    return done.stdout


@needs("tpu:v5e")
def test_the_compiler_of_a_tpu_says_its_cycles():
    text = compiled("tpu:v5e:2x2", "f", "jaxmlir.trace(f)(X).optimize(2)")
    assert text.count("compiled for tpu:v5e:2x2") == 2
    assert text.count("cycles") == 2
    assert "33,554,432" in text


@needs("cuda:h100")
def test_the_compiler_of_a_gpu_says_its_kernels():
    text = compiled("cuda:h100", "jaxmlir.jit(f, optimize=2)")
    assert "compiled for cuda:h100" in text
    assert "kernels" in text


HLO = """HloModule m

%body (p: (s32[], f32[8,64])) -> (s32[], f32[8,64]) {
  %p = (s32[], f32[8,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8,64]{1,0} get-tuple-element(%p), index=1
  %dot = f32[8,64]{1,0} dot(%x, %x), lhs_contracting_dims={1}, cost={"estimated_cycles":"70"}
  ROOT %t = (s32[], f32[8,64]{1,0}) tuple(%i, %dot)
}

%condition (q: (s32[], f32[8,64])) -> pred[] {
  %q = (s32[], f32[8,64]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %n = s32[] constant(5)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

%part (a: f32[100,64], k: s32[]) -> f32[1,64] {
  %a = f32[100,64]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %row = f32[1,64]{1,0} dynamic-slice(%a, %k, %zero), dynamic_slice_sizes={1,64}
}

ENTRY %main (y: (s32[], f32[8,64]), z: f32[100,64], at: s32[]) -> f32[1,64] {
  %y = (s32[], f32[8,64]{1,0}) parameter(0)
  %z = f32[100,64]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %loop = (s32[], f32[8,64]{1,0}) while(%y), condition=%condition, body=%body
  ROOT %fusion = f32[1,64]{1,0} fusion(%z, %at), calls=%part, cost={"estimated_cycles":"9"}
}
"""


def test_loops_count_as_often_as_they_run():
    found = hlo.estimate(HLO, targets.target("cuda:h100").costs)
    assert found.cycles == 5 * 70 + 9
    # The comparison of the loop's condition is a kernel, too.
    assert found.kernels == 5 * 2 + 1
    assert found.dot_flops == 5 * 2 * 8 * 64 * 64
    assert found.unknown_loops == 0
    of_dot, of_comparison = 3 * 8 * 64 * 4, 1 + 4 + 4
    # The fusion reads only the slice of the array that it slices.
    assert found.bytes == 5 * (of_dot + of_comparison) + (64 * 4 + 4) + 64 * 4


def test_the_time_of_cycles_is_by_the_clock():
    assert compilers.estimate(targets.target("tpu:v5e"), HLO).nanoseconds == 359 / 1.5


def test_a_loop_of_unknown_length_is_said():
    found = hlo.estimate(HLO.replace("direction=LT", "direction=NE"), targets.target("cuda").costs)
    assert found.unknown_loops == 1
    assert found.cycles == 70 + 9

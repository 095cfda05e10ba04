"""Every ``jax.jit`` through the dialect: numbers and calling convention equal plain JAX's."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.layout import Format, Layout
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.sparse import BCSR
from jax.experimental.sparse.linalg import spsolve
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir import _compat, backend
from jaxmlir.dialect import ir
from jaxmlir.errors import PassError, PipelineError
from jaxmlir.passes import Pass

compat = pytest.mark.compat
ROOT = Path(__file__).resolve().parents[2]


def stages(folder: Path) -> dict[str, list[str]]:
    """The files in a dump, by the folder of each function."""
    return {f.name: sorted(p.name for p in f.iterdir()) for f in sorted(folder.iterdir())}


def signature(lowered) -> str:
    """The line of a StableHLO module that has the calling convention."""
    return re.search(r"^ *func.func public @main.*$", lowered.as_text(), re.MULTILINE)[0]


def both(fun, *args, **options):
    """A function lowered by the dialect and by JAX."""
    with backend.enabled():
        ours = jax.jit(fun, **options).lower(*args)
    return ours, jax.jit(fun, **options).lower(*args)


def mlp(params, x):
    def layer(h, w):
        return jax.nn.relu(h @ w), None

    h, _ = lax.scan(layer, x, params)
    return jnp.sum(jax.jit(jnp.tanh)(h))


PARAMS = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)
X = np.ones((2, 4), np.float32)


@compat
def test_an_optimization_level_is_that_of_derivatives_too():
    def relaxation(w, x):
        return jnp.sum(lax.scan(lambda x, _: (jnp.tanh(w @ w.T @ x), None), x, None, length=5)[0])

    def step(w, x):
        value, gradient = jax.value_and_grad(relaxation)(w, x)
        return w - gradient, value, jax.hessian(relaxation, 1)(w, x)

    def has_calls(function):
        return "jaxmlir_call" in str(jax.make_jaxpr(function)(PARAMS[0], X[0]))

    jitted = jax.jit(step)
    expected = jitted(PARAMS[0], X[0])
    with backend.enabled(optimize=2):
        got = jitted(PARAMS[0], X[0])
        assert has_calls(jitted)
        with backend.disabled():
            assert not has_calls(jitted)
        # Outside of a trace a function may look at values.
        assert jax.grad(lambda x: x**2 if x > 0 else x)(3.0) == 6.0
    assert not has_calls(jitted)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_environment_says_the_optimization_level(monkeypatch):
    monkeypatch.setenv("JAXMLIR_OPTIMIZE", "2")
    backend.enable()
    try:
        assert "jaxmlir_call" in str(jax.make_jaxpr(jax.jit(jax.grad(jnp.sin)))(1.0))
    finally:
        backend.disable()
    assert "jaxmlir_call" not in str(jax.make_jaxpr(jax.jit(jax.grad(jnp.sin)))(1.0))
    for wrong in ("two", "17"):
        monkeypatch.setenv("JAXMLIR_OPTIMIZE", wrong)
        with pytest.raises(PipelineError, match=wrong):
            backend.enable()


@compat
@pytest.mark.parametrize(
    "settings",
    [{}, {"round_trip": True}, {"pipeline": "jaxpr-canonicalize,jaxpr-cse,jaxpr-dce"}],
    ids=["import", "text", "passes"],
)
def test_numbers_are_jaxs(settings):
    def step(params, x):
        loss, grads = jax.value_and_grad(mlp)(params, x)
        return loss, jax.vmap(lambda p, g: p - 0.1 * g)(params, grads)

    wanted = jax.jit(step)(PARAMS, X)
    with backend.enabled(**settings):
        got = jax.jit(step)(PARAMS, X)
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


@compat
def test_what_was_compiled_under_other_settings_is_not_used(tmp_path):
    f = jax.jit(lambda x: x + 1)
    f(1.0)
    with backend.enabled(dump_to=tmp_path):
        f(1.0)
        f(2.0)
        with backend.disabled():
            jax.jit(lambda x: x - 1)(1.0)
    f(1.0)
    assert list(stages(tmp_path)) == ["00001-jit_lambda"]


@compat
def test_operations_outside_of_jit_are_compiled_too(tmp_path):
    with backend.enabled(dump_to=tmp_path):
        x = jnp.arange(8.0).reshape(2, 4)
        np.testing.assert_array_equal(x @ X.T, [[6, 6], [22, 22]])
    assert any("matmul" in name for name in stages(tmp_path))


@compat
def test_a_folder_for_each_function_has_the_ir_of_each_stage(tmp_path):
    def double(x):
        return x * 2

    with backend.enabled(dump_to=tmp_path, round_trip=True, pipeline="jaxpr-verify"):
        jax.jit(double)(X)
        jax.jit(lambda x: x)(X)
    folders = stages(tmp_path)
    files = ["0-jaxpr.mlir", "1-jaxpr-verify.mlir", "2-stablehlo.mlir"]
    assert folders == {"00001-jit_double": files, "00002-jit_lambda": files}
    first = tmp_path / "00001-jit_double"
    imported = ir.parse_module((first / "0-jaxpr.mlir").read_text())
    assert '"jaxpr.mul"' in str(imported) and "@double" in str(imported)
    lowered = ir.parse_module((first / "2-stablehlo.mlir").read_text())
    assert "stablehlo.multiply" in str(lowered)


@compat
def test_a_pass_of_the_pipeline_changes_what_runs():
    @dataclasses.dataclass(frozen=True)
    class SinToCos(Pass):
        """Replaces every sine by a cosine."""

        name: ClassVar[str] = "test-sin-to-cos"

        def run(self, program):
            text = program.as_text().replace('"jaxpr.sin"', '"jaxpr.cos"')
            program.module = ir.parse_module(text)
            program.changed()

    f = jax.jit(lambda x: jax.nn.relu(jnp.sin(x)) + 1)
    try:
        with backend.enabled(pipeline="test-sin-to-cos"):
            assert f(0.0) == 2.0
    finally:
        Pass.loaded.pop("test-sin-to-cos", None)
    assert f(0.0) == 1.0


# --- the calling convention -----------------------------------------------------------------------


@compat
def test_donation_and_aliasing():
    def update(state, x):
        return {"a": state["a"] + x, "b": state["b"] * 2}

    state = {"a": jnp.ones((4, 4)), "b": jnp.ones(3)}
    ours, jaxs = both(update, state, 1.0, donate_argnums=0)
    assert "tf.aliasing_output" in signature(ours)
    assert signature(ours) == signature(jaxs)
    with backend.enabled():
        result = jax.jit(update, donate_argnums=0)(state, 1.0)
    assert state["a"].is_deleted() and not result["a"].is_deleted()


@compat
def test_unused_arguments_are_dropped_or_kept():
    for keep in (False, True):
        ours, jaxs = both(lambda x, y: x + 1, X, X, keep_unused=keep)
        assert signature(ours) == signature(jaxs)


@compat
def test_shardings_over_eight_devices():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    rows, columns = NamedSharding(mesh, P("x", None)), NamedSharding(mesh, P(None, "y"))

    def f(a, b):
        c = lax.with_sharding_constraint(a @ b, NamedSharding(mesh, P("x", "y")))
        total = jax.shard_map(
            lambda t: lax.psum(t, "x"), mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y")
        )
        return c, total(c)

    a, b = np.arange(64.0).reshape(8, 8), np.eye(8)
    options = {"in_shardings": (rows, columns), "out_shardings": (rows, columns)}
    ours, jaxs = both(f, a, b, **options)
    assert signature(ours) == signature(jaxs)
    with backend.enabled():
        got = jax.jit(f, **options)(a, b)
    wanted = jax.jit(f, **options)(a, b)
    for one, other in zip(got, wanted, strict=True):
        assert one.sharding == other.sharding
        np.testing.assert_array_equal(one, other)


@compat
def test_layouts():
    column_major = Format(Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    ours, jaxs = both(lambda x: x * 2, np.ones((3, 4)), out_shardings=column_major)
    assert "layout" in signature(ours)
    assert signature(ours) == signature(jaxs)


@compat
def test_ordered_effects_keep_their_order():
    seen = []

    def f(x):
        def body(i, x):
            io_callback(seen.append, None, i, ordered=True)
            return x + 1

        x = lax.fori_loop(0, 3, body, x)
        io_callback(lambda: seen.append("end"), None, ordered=True)
        return x

    with backend.enabled():
        assert jax.jit(f)(0.0) == 3.0
        jax.effects_barrier()
    assert list(map(str, seen)) == ["0", "1", "2", "end"]


@compat
def test_callbacks_and_debug_prints(capfd):
    def f(x):
        jax.debug.print("x = {}", x)
        return jax.pure_callback(lambda v: np.sin(v), jax.typeof(x), x)

    with backend.enabled():
        np.testing.assert_array_equal(jax.jit(f)(X), np.sin(X))
        jax.effects_barrier()
    assert capfd.readouterr().out.startswith("x = [[1. 1. 1. 1.]")


@compat
def test_export_with_dimension_variables():
    shape = export.symbolic_shape("b, 2*b")
    with backend.enabled():
        exported = export.export(jax.jit(lambda x: x.reshape(-1) + x.shape[0]))(
            jax.ShapeDtypeStruct(shape, jnp.float32)
        )
    x = np.arange(18.0, dtype=np.float32).reshape(3, 6)
    np.testing.assert_array_equal(exported.call(x), x.reshape(-1) + 3)


@compat
def test_several_platforms_in_one_module():
    def f(x):
        return lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x - 1)

    x = jax.ShapeDtypeStruct((), jnp.float32)
    with backend.enabled():
        ours = export.export(jax.jit(f), platforms=("cpu", "tpu"))(x)
    assert ours.platforms == ("cpu", "tpu")
    assert ours.call(np.float32(1)) == 2


@compat
def test_large_constants_are_in_the_module_once():
    table = np.arange(5000.0, dtype=np.float32)
    ours, _ = both(lambda x: lax.scan(lambda c, _: (c + table, table.sum()), x, length=3), table)
    constants = re.findall(r"stablehlo.constant dense<\"?0x\w+\"?>", ours.as_text())
    assert len(constants) == 1


@compat
def test_threads_compile_at_the_same_time():
    def f(n):
        return jax.jit(lambda x: lax.fori_loop(0, n, lambda _, v: jnp.sin(v) + n, x))(1.0)

    wanted = [f(n) for n in range(8)]
    backend.enable()
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert list(pool.map(f, range(8))) == wanted
    finally:
        backend.disable()


@compat
def test_a_lowering_rule_may_compile_another_function():
    inner = []
    p = Primitive("compiles_while_lowered")
    p.def_abstract_eval(lambda x: x)

    def rule(ctx, x):
        inner.append(jax.jit(lambda v: v * 2)(np.float32(21)))
        return [x]

    mlir.register_lowering(p, rule)
    with backend.enabled():
        assert jax.jit(lambda x: p.bind(jnp.sin(x)))(0.0) == 0.0
    assert inner == [42.0]


@compat
def test_what_a_rule_keeps_alive_is_kept_for_each_module(monkeypatch):
    kept = []
    add = _compat.mlir.ModuleContext.add_host_callback

    def recorded(module_context, callback):
        kept.append(callback)
        add(module_context, callback)

    monkeypatch.setattr(_compat.mlir.ModuleContext, "add_host_callback", recorded)
    # On CPU the rule calls scipy.
    matrix = BCSR.fromdense(jnp.array([[2.0, 1.0], [0.0, 4.0]]))
    solve = functools.partial(spsolve, matrix.data, matrix.indices, matrix.indptr)
    with backend.enabled():
        for n in range(3):
            jax.jit(lambda b, n=n: solve(b) + n).lower(jnp.ones(2))
    assert len(kept) == 3


@compat
def test_name_stacks_and_lines_are_jaxs():
    @jax.value_and_grad
    @jax.jit
    def f(x):
        @jax.jit
        def g(y):
            with jax.named_scope("inner"):
                return jnp.sin(y) * lax.fori_loop(0, 3, lambda _, c: c * y, y)

        return g(x)

    def places(lowered):
        text = lowered.compile().as_text()
        return sorted(re.findall(r'op_name="[^"]*" (?:source_\w+=\S+ )*', text))

    texts = []
    for within in (backend.enabled, backend.disabled):
        jax.clear_caches()
        with within():
            texts.append(places(jax.jit(f).lower(2.0)))
    ours, jaxs = texts
    assert any("transpose(jvp(jit(f)))/jit(g)/inner" in place for place in jaxs)
    assert ours == jaxs


@compat
def test_dimension_variables_of_two_scopes():
    def lower(f):
        shape = export.symbolic_shape("b, 5, 5", scope=export.SymbolicScope())
        return jax.jit(f).trace(jax.ShapeDtypeStruct(shape, jnp.float32)).lower()

    with backend.enabled():
        lower(lambda x: x.mT)
        lower(lambda x: jnp.linalg.eig(x)[1].mT)


@compat
def test_unreduced_shardings():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))

    def f(a, b):
        c = jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"x"}))
        return jax.reshard(c, P(None, None))

    with jax.set_mesh(mesh):
        a, b = jnp.arange(16.0).reshape(4, 4), jnp.eye(4)
        a, b = jax.device_put(a, P(None, "x")), jax.device_put(b, P("x", None))
        with backend.enabled(round_trip=True):
            np.testing.assert_array_equal(jax.jit(f)(a, b), a)


@compat
def test_a_pallas_kernel_with_views_of_references():
    def kernel(x_ref, y_ref, semaphore):
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], y_ref.at[pl.ds(8, 8)], semaphore)
        copy.start()
        y_ref[pl.ds(0, 8)] = x_ref[pl.ds(8, 8)]
        copy.wait()

    swap = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
        interpret=pltpu.InterpretParams(),
    )
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    with backend.enabled():
        np.testing.assert_array_equal(jax.jit(swap)(x), np.roll(x, 8, axis=0))


@compat
@pytest.mark.parametrize(
    "settings",
    [{}, {"round_trip": True}, {"pipeline": "jaxpr-inline,jaxpr-canonicalize,jaxpr-cse,jaxpr-dce"}],
    ids=["import", "text", "passes"],
)
def test_a_pallas_kernel_with_scopes_of_its_own(settings):
    factors = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)

    @jax.jit
    def scale(rows):
        return rows * factors

    def kernel(x_ref, y_ref, semaphore):
        pltpu.sync_copy(x_ref.at[pl.ds(0, 8)], y_ref.at[pl.ds(8, 8)])
        pl.semaphore_signal(semaphore)
        pl.semaphore_wait(semaphore)

        @functools.partial(pl.run_scoped, rows_ref=pltpu.VMEM((8, 128), jnp.float32))
        def _(rows_ref):
            rows_ref[...] = x_ref[pl.ds(8, 8)]
            y_ref[pl.ds(0, 8)] = scale(rows_ref[...])

    swap = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.REGULAR],
        interpret=pltpu.InterpretParams(),
    )
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    with backend.enabled(**settings):
        np.testing.assert_array_equal(jax.jit(swap)(x), [*x[8:] * factors, *x[:8]])


@compat
@pytest.mark.filterwarnings("ignore:.*(core_map|create_tensorcore_mesh) is deprecated")
def test_the_cores_of_a_pallas_mesh():
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)

    def copy(refs):
        x_ref, y_ref = refs

        @pl.core_map(mesh, interpret=pltpu.InterpretParams())
        def _():
            @functools.partial(pl.run_scoped, rows_ref=pltpu.VMEM((8, 128), jnp.float32))
            def _(rows_ref):
                core = lax.axis_index("core")
                rows = pl.ds(core * 8, 8)
                pltpu.sync_copy(x_ref.at[rows], rows_ref)
                rows_ref[...] += core.astype(jnp.float32)
                pltpu.sync_copy(rows_ref, y_ref.at[rows])

    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    with jax.enable_checks(True), backend.enabled():
        _, y = jax.jit(pl.run_state(copy))((x, jnp.zeros_like(x)))
    np.testing.assert_array_equal(y, x + np.repeat([[0], [1]], 8, axis=0))


# --- errors ---------------------------------------------------------------------------------------


def test_a_pipeline_that_does_not_exist():
    with pytest.raises(PipelineError, match="jaxpr-no-such-pass"):
        with backend.enabled(pipeline="jaxpr-no-such-pass"):
            pass


def test_a_pipeline_has_to_keep_the_signature():
    @dataclasses.dataclass(frozen=True)
    class Flatten(Pass):
        """Makes the program take and return vectors."""

        name: ClassVar[str] = "test-flatten"

        def run(self, program):
            program.module = ir.parse_module(str(program.module).replace("2x4x", "8x"))
            program.changed()

    with backend.enabled(pipeline="test-flatten"):
        with pytest.raises(PassError, match="'test-flatten' changes the types of @lambda's arg"):
            jax.jit(lambda x: jnp.sin(x))(X)


@compat
def test_the_errors_of_lowering_rules_are_jaxs_own():
    @jax.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    with backend.enabled(), pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(1.0)
    shape = jax.ShapeDtypeStruct((8,), jnp.int32)
    with backend.enabled(), pytest.raises(TypeError, match="does not have a value"):
        jax.jit(lambda x: (x, shape))(1.0)
    p = Primitive("without_lowering")
    p.def_abstract_eval(lambda x: x)
    with backend.enabled(), pytest.raises(NotImplementedError, match="without_lowering") as caught:
        jax.jit(lambda x: p.bind(x))(1.0)
    assert "'jaxpr.without_lowering' op cannot be lowered" in "".join(caught.value.__notes__)


def test_the_errors_of_lowering_rules_within_others_are_jaxs_own():
    axis_types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=axis_types)

    def inner(a):
        return lax.with_sharding_constraint(a, NamedSharding(mesh, P("x", "y")))

    rows = P("x", None)
    outer = jax.shard_map(inner, mesh=mesh, in_specs=rows, out_specs=rows, axis_names={"x"})
    for setting in (backend.disabled, backend.enabled):
        with setting(), pytest.raises(ValueError, match="manual"):
            jax.jit(outer)(jnp.ones((4, 8)))


# --- switches -------------------------------------------------------------------------------------

SCRIPT = """
import sys
import jax
print(jax.jit(lambda x: x + 1)(float(sys.argv[1])))
"""


@compat
def test_a_script_is_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setattr(sys, "argv", ["jaxmlir.backend", str(tmp_path / "script.py"), "1"])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("JAXMLIR_DUMP_TO", str(tmp_path / "dump"))
    try:
        runpy.run_module("jaxmlir.backend", run_name="__main__")
    finally:
        backend.disable()
    assert capsys.readouterr().out == "2.0\n"
    assert any("lambda" in name for name in stages(tmp_path / "dump"))


def test_the_environment_switches_it_on(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXMLIR_BACKEND", "1")
    monkeypatch.setenv("JAXMLIR_DUMP_TO", str(tmp_path))
    try:
        importlib.reload(jaxmlir)
        jax.jit(lambda x: x - 1)(1.0)
    finally:
        backend.disable()
    assert any("lambda" in name for name in stages(tmp_path))


def test_a_test_suite_is_run(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import jax\ndef test_it():\n    assert jax.jit(lambda x: x + 1)(1.0) == 2.0\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAXMLIR_DUMP_TO": str(tmp_path / "dump")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "jaxmlir.backend", "test_it.py"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout
    assert any("lambda" in name for name in stages(tmp_path / "dump"))

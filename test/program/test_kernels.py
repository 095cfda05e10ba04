"""Programs with Pallas kernels and cuDNN calls: saved, loaded elsewhere, transformed, and run."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import compat, same
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import jaxmlir
from jaxmlir._compat import batching, core
from jaxmlir.dialect import codec
from jaxmlir.errors import ArtifactError, ExportError, LoweringError, VerificationError

pytestmark = compat

RNG = np.random.RandomState(0)
ROWS = jax.ShapeDtypeStruct((32, 128), np.float32)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def call(kernel, out=ROWS, **options):
    options = {"grid": (4,), "in_specs": [BLOCK], "out_specs": BLOCK} | options
    return lambda *args: pl.pallas_call(kernel, out_shape=out, interpret=True, **options)(*args)


def sine(x_ref, out_ref):
    out_ref[...] = jnp.sin(x_ref[...]) * 3


def shifted(by_ref, x_ref, out_ref):
    out_ref[...] = x_ref[...] + by_ref[0].astype(jnp.float32)


def summed(x_ref, out_ref, acc):
    @pl.when(pl.program_id(1) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += x_ref[...] * 2

    @pl.when(pl.program_id(1) == 1)
    def _():
        out_ref[...] = acc[...]


# Kernels that Pallas' interpreter runs, with their arguments.
INTERPRETED = {
    "blocks": (call(sine), normal(32, 128)),
    "index_maps": (
        call(
            sine,
            in_specs=[pl.BlockSpec((None, 8, 128), lambda i: (i // 2, i % 2, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (3 - i, 0)),
        ),
        normal(2, 16, 128),
    ),
    "elements": (
        call(
            sine,
            jax.ShapeDtypeStruct((24, 128), np.float32),
            grid=(3,),
            in_specs=[pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 4, 0))],
        ),
        normal(32, 128),
    ),
    "aliases": (call(sine, input_output_aliases={0: 0}), normal(32, 128)),
    "dynamic_grid": (lambda n, x: call(sine, grid=(n,))(x), np.int32(4), normal(32, 128)),
    "scratch": (
        call(
            summed,
            jax.ShapeDtypeStruct((16, 128), np.float32),
            grid=(2, 2),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i * 2 + j, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, 0)),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        ),
        normal(32, 128),
    ),
    "prefetched": (
        lambda by, x: pl.pallas_call(
            shifted,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(4,),
                in_specs=[pl.BlockSpec((8, 128), lambda i, by: (by[i], 0))],
                out_specs=pl.BlockSpec((8, 128), lambda i, by: (i, 0)),
            ),
            out_shape=ROWS,
            interpret=True,
        )(by, x),
        np.array([2, 0, 3, 1], np.int32),
        normal(32, 128),
    ),
}


def saved(program, path):
    """The program as a process loads it that trusts the writer."""
    program.save(path)
    again = jaxmlir.load(path, allow_custom_calls=None)
    assert again.as_text(debug_info=True) == program.as_text(debug_info=True)
    again.verify()
    return again


@pytest.mark.sampled
@pytest.mark.parametrize("name", INTERPRETED)
def test_interpreted_kernels(name, tmp_path):
    """Derivatives are tested only if JAX has them: it has no rule for most kernels."""
    function, *args = INTERPRETED[name]
    expected = jax.jit(function)(*args)
    traced = jaxmlir.trace(function)(*args)
    assert not traced.handles
    for program in (traced, saved(traced, tmp_path / "a")):
        same(program(*args), expected)
        same(program.optimize(2)(*args), expected)
        same(jax.jit(jax.extend.core.jaxpr_as_fun(program.to_jaxpr()))(*args)[0], expected)
    stacked = jax.tree.map(lambda x: np.stack([x, x]), args)
    try:
        batched = jax.jit(jax.vmap(function))(*stacked)
    except NotImplementedError:
        return
    same(program.vmap()(*stacked), batched)
    same(saved(program.vmap(axis_size=2), tmp_path / "b")(*stacked), batched)


def test_the_derivative_of_a_kernel(tmp_path):
    function, x = INTERPRETED["index_maps"]
    program = saved(jaxmlir.trace(function)(x), tmp_path / "a")
    expected = jax.jit(lambda x, t: jax.jvp(function, (x,), (t,)))(x, x + 1)
    same(program.jvp()((x,), (x + 1,)), expected)
    same(saved(program.jvp(), tmp_path / "b")((x,), (x + 1,)), expected)


def flash_attention():
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    q = jax.ShapeDtypeStruct((1, 2, 256, 128), np.float32)
    return (lambda q, k, v: flash_attention(q, k, v, causal=True).sum()), q, q, q


def splash_attention():
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel,
        splash_attention_mask,
    )

    mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((256, 256))] * 2)
    kernel = splash_attention_kernel.make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    q = jax.ShapeDtypeStruct((2, 256, 128), np.float32)
    return (lambda q, k, v: kernel(q, k, v).sum()), q, q, q


def copied():
    """A copy that a semaphore waits for."""

    def kernel(x_ref, out_ref, acc, semaphore):
        acc[...] = x_ref[...] * 2
        pltpu.async_copy(acc, out_ref, semaphore).wait()

    def function(x):
        return pl.pallas_call(
            kernel,
            out_shape=ROWS,
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            scratch_shapes=[pltpu.VMEM(ROWS.shape, ROWS.dtype), pltpu.SemaphoreType.DMA],
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=2**20),
            cost_estimate=pl.CostEstimate(flops=8, bytes_accessed=64, transcendentals=0),
        )(x)

    return function, ROWS


def in_triton():
    def kernel(x_ref, out_ref):
        out_ref[...] = plt.approx_tanh(x_ref[...])
        plt.atomic_add(out_ref, (0,), x_ref[0])

    vector = jax.ShapeDtypeStruct((128,), np.float32)
    params = plt.CompilerParams(num_warps=2, num_stages=1)
    return (lambda x: pl.pallas_call(kernel, out_shape=vector, compiler_params=params)(x)), vector


def in_cudnn():
    def loss(q, k, v):
        attention = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
        return attention.astype(np.float32).sum()

    q = jax.ShapeDtypeStruct((2, 64, 4, 64), jnp.bfloat16)
    return loss, q, q, q


# Kernels that need other hardware: traced, saved, loaded, and differentiated if JAX can.
FOR_HARDWARE = {
    "flash_attention": (flash_attention, True),
    "splash_attention": (splash_attention, True),
    "copied": (copied, False),
    "in_triton": (in_triton, False),
    "in_cudnn": (in_cudnn, True),
}


@pytest.fixture
def with_cudnn(monkeypatch):
    """Makes JAX see a version of cuDNN, which tracing asks for."""
    attention = jaxmlir._compat.resolve("jax._src.cudnn", "fused_attention_stablehlo")
    monkeypatch.setattr(attention, "check_cudnn_version", lambda: 91000)


@pytest.mark.sampled
@pytest.mark.usefixtures("with_cudnn")
@pytest.mark.parametrize("name", FOR_HARDWARE)
def test_kernels_for_other_hardware(name, tmp_path):
    make, is_differentiable = FOR_HARDWARE[name]
    function, *args = make()
    program = saved(jaxmlir.trace(function)(*args), tmp_path / "a")
    program.to_jaxpr()
    paths = [tmp_path / "a"]
    if is_differentiable:
        saved(program.grad(), tmp_path / "grad")
        paths.append(tmp_path / "grad")
    code = (
        "import sys, jaxmlir\n"
        "for path in sys.argv[1:]:\n"
        "    program = jaxmlir.load(path, allow_custom_calls=None)\n"
        "    program.verify()\n"
        "    program.to_jaxpr()\n"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True)


@pytest.mark.parametrize("make", [flash_attention, splash_attention, copied])
def test_kernels_are_lowered_for_a_tpu(make, tmp_path):
    function, *args = make()
    program = saved(jaxmlir.trace(function)(*args), tmp_path / "a")
    ours = program.lower(["tpu"]).as_text()
    jaxs = jax.jit(function).trace(*args).lower(lowering_platforms=("tpu",)).as_text()
    assert ours.count("@tpu_custom_call") == jaxs.count("@tpu_custom_call") > 0


def test_kernels_of_others_are_refused(tmp_path):
    function, x = INTERPRETED["blocks"]
    jaxmlir.trace(function)(x).save(tmp_path / "a")
    program = jaxmlir.load(tmp_path / "a")
    with pytest.raises(LoweringError, match=r"load it with allow_custom_calls=\['pallas_call'\]"):
        program(x)


def test_index_maps_are_verified():
    function, x = INTERPRETED["blocks"]
    text = jaxmlir.trace(function)(x).as_text()
    # The index maps return pairs of integers.
    start = text.index("func.func private @lambda")
    broken = text[:start] + text[start:].replace("tensor<i32", "tensor<f32").replace(
        "dense<0>", "dense<0.0>"
    )
    with pytest.raises(VerificationError, match="expected a function that gives i32 or i64"):
        jaxmlir.parse(broken)


@pytest.mark.parametrize(
    "value",
    [
        pl.Blocked(8),
        pl.Buffered(2),
        pl.ANY,
        pl.CostEstimate(flops=1, bytes_accessed=2, transcendentals=3),
        plt.CompilerParams(num_warps=4),
        pltpu.CompilerParams(dimension_semantics=("parallel",)),
        jax.ShapeDtypeStruct((2, 3), np.float32),
        batching.AxisData(core.no_axis_name, 3, None, None),
        batching.AxisData("i", 3, None, ("x",)),
        jaxmlir._compat.resolve("jax._src.frozen_dict", "FrozenDict")({"a": 1, "b": (2,)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records(value):
    attr = codec.encode(value)
    assert "handle" not in str(attr)
    assert codec.decode(attr) == value


def test_arrays_of_objects():
    array = np.array([[pl.Blocked(1), "a"], [None, (2, 3)]], object)
    again = codec.decode(codec.encode(array))
    assert again.dtype == object and again.tolist() == array.tolist()
    # Items of equal length do not become another dimension.
    pair = np.empty(2, object)
    pair[:] = [(1, 2), (3, 4)]
    assert codec.decode(codec.encode(pair)).tolist() == [(1, 2), (3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "{pallas.core.importlib = {}}",
        "{pallas.core.PallasTracingEnv = {}}",
        "{pallas.mosaic_gpu.torch.Tensor = {}}",
        "{cudnn.os.system = {}}",
        "{pallas.core.Nothing = {}}",
    ],
)
def test_only_records_are_made(text):
    from jaxmlir.dialect.ir import context, ir

    before = set(sys.modules)
    with context():
        attr = ir.Attribute.parse(text)
    with pytest.raises(ExportError, match="this process knows no parameter type"):
        codec.decode(attr)
    assert not any("torch" in name for name in set(sys.modules) - before)


def test_a_malformed_record_is_an_error():
    from jaxmlir.dialect.ir import context, ir

    with context():
        attr = ir.Attribute.parse("{pallas.core.Blocked = {size = 3 : i64}}")
    with pytest.raises(ExportError, match="cannot be read"):
        codec.decode(attr)


def test_what_stays_with_the_process_is_named(tmp_path):
    def kernel(x_ref, out_ref):
        out_ref[...] = jax.pure_callback(lambda x: x, ROWS, x_ref[...])

    program = jaxmlir.trace(lambda x: pl.pallas_call(kernel, out_shape=ROWS)(x))(ROWS)
    with pytest.raises(ArtifactError, match=r"'jaxpr\.pure_callback' op cannot be saved"):
        program.save(tmp_path / "a")


def test_loops_in_kernels_are_not_checkpointed():
    """Kernel compilers do not support loops with checkpoints, and kernels have no derivative."""

    def kernel(x_ref, out_ref):
        state = 0, x_ref[...]
        out_ref[...] = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 2 * s[1]), state)[1]

    def f(x, n):
        scales = pl.pallas_call(kernel, out_shape=ROWS)(lax.stop_gradient(x))
        doubled = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, 2 * s[1]), (0, x))[1]
        return jnp.sum(scales * doubled)

    gradient = jaxmlir.trace(f)(ROWS, 2).grad(while_loops="checkpointed", checkpoints=2)
    assert "jaxpr.checkpointed_while" in str(gradient)
    assert "tpu_custom_call" in gradient.lower(platforms=("tpu",)).as_text()

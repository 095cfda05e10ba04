"""Values that are computed late: which ones, that XLA stores less, and that numbers stay equal."""

import re

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import examples

import jaxmlir
from jaxmlir.optimize.memory import profile
from jaxmlir.optimize.memory.sink_recompute import SinkRecompute
from jaxmlir.passes import STORAGE

RNG = np.random.RandomState(0)
X = RNG.uniform(0.1, 0.9, (6, 16)).astype(np.float32)
SQUARE = RNG.randn(16, 16).astype(np.float32) / 4
ALL = "jaxpr-sink-recompute{calls=inf min-peak=0 min-bytes=0 slowdown=1e9 min-gain=0}"


def with_late(program, options=ALL):
    """The program after the pass, and how many values it computes late."""
    remarks = []
    after = program.run_passes(options, remarks=remarks.append)
    after.verify()
    return after, len(remarks)


def long(w):
    """A computation that takes long and needs more memory than everything else."""
    y = w @ w.T @ jnp.ones((16, 64)) @ jnp.ones((64, 64))
    for _ in range(4):
        y = jnp.tanh(y @ y.T) @ y
    return y[:, :16]


def normalized(x):
    return x / jnp.sum(x, 1, keepdims=True)


def watched(x, w):
    p = normalized(x)
    jax.debug.callback(lambda _: None, p)
    return p @ (y := long(w @ p.T @ p)) + p @ y @ w


@pytest.mark.parametrize(
    ("function", "count"),
    [
        # Read before and after the long part, and computed from a small value and an argument.
        (lambda x, w: (p := normalized(x)) @ (y := long(w @ p.T @ p)) + p @ y @ w, 1),
        # An op without results reads it as well.
        (watched, 1),
        # Read after only: by a product, or in several kernels.
        (lambda x, w: (1 - x) @ long(w), 1),
        (lambda x, w: jnp.sum((q := x**-2) * (x @ long(w)), 0) + jnp.sum(q), 1),
        # Operands are not in memory any more, or would have to be kept in memory.
        (lambda x, w: jnp.tanh(x @ w) @ long(w), 0),
        # A result, and a value that its only kernel computes anyway.
        (lambda x, w: (q := 1 - x, q @ long(w)), 0),
        (lambda x, w: x @ long(w) * (1 - x), 0),
        # A value that takes long to compute.
        (lambda x, w: (s := jnp.sin(x)) @ long(w @ s.T @ s), 0),
        (lambda x, w: (s := jnp.tanh(jnp.exp(x))) @ long(w @ s.T @ s), 0),
        # A quotient by a scalar, which becomes a product.
        (lambda x, w: (p := x / jnp.sum(x)) @ (y := long(w @ p.T @ p)) + p @ y @ w, 0),
        # A value that is read immediately.
        (lambda x, w: (p := normalized(x)) @ (p.T @ p), 0),
    ],
)
def test_what_is_computed_late(function, count):
    program = jaxmlir.trace(function)(X, SQUARE).optimize(1)
    after, found = with_late(program)
    assert found == count
    for a, b in zip(*(jax.tree.leaves(p(X, SQUARE)) for p in (after, program)), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def one_minus(x, w):
    return (1 - x) @ long(w)


def test_what_is_left_alone():
    program = jaxmlir.trace(one_minus)(X, SQUARE).optimize(1)
    for passes, target in (("jaxpr-sink-recompute", "cpu"), (ALL, "tpu")):
        assert str(program.run_passes(passes, target=target)) == str(program)


def test_long_programs_are_left_alone(monkeypatch):
    program = jaxmlir.trace(one_minus)(X, SQUARE).optimize(1)
    monkeypatch.setattr(profile, "MAX_STEPS", 10)
    assert with_late(program)[1] == 0


def test_the_length_of_calls_of_calls():
    """In a chain of functions that each call the next one twice, the pass does not follow all."""
    type_ = "(%x: tensor<f32>) -> tensor<f32>"
    call = '%{} = "jaxpr.jit"(%{}) {{jaxpr = @f{}, name = "f"}} : (tensor<f32>) -> tensor<f32>\n'
    functions = [f"func.func private @f0{type_} {{ return %x : tensor<f32> }}"]
    for i in range(24):
        calls = call.format("y", "x", i) + call.format("z", "y", i)
        visible = "public" if i == 23 else "private"
        body = f"{{ {calls} return %z : tensor<f32> }}"
        functions.append(f"func.func {visible} @f{i + 1}{type_} {body}")
    program = jaxmlir.parse("\n".join(functions), verify=False)
    assert not profile.is_short(program, program.function("f24"))
    assert profile.is_short(program, program.function("f10"))


@pytest.mark.compat
def test_arrays_do_not_go_through_calls():
    """XLA would alias the call's result and its operand, and might overwrite it."""

    def quotient(x, w):
        p = normalized(x)
        y = long(w @ p.T @ p)
        return p @ y + p @ y @ w

    for function in (quotient, one_minus):
        after, _ = with_late(jaxmlir.trace(function)(X, SQUARE).optimize(1))
        results = re.findall(r"jaxpr = @wait.* -> (.*)", str(after))
        assert set(results) == {"tensor<i1>"}


def test_special_numbers_and_types():
    x = X.copy()
    x[0, :4] = np.nan, np.inf, -np.inf, -0.0

    for dtype in (np.float32, jnp.bfloat16, np.int32, np.complex64):
        args = x.astype(dtype) if dtype != np.int32 else (10 * X).astype(dtype), SQUARE
        program = jaxmlir.trace(lambda x, w: (x - 1) @ long(w).astype(x.dtype))(*args).optimize(1)
        after, found = with_late(program)
        assert found == 1
        common = np.promote_types(dtype, np.float32)
        got, want = (np.asarray(p(*args)).astype(common) for p in (after, program))
        np.testing.assert_array_equal(got, want)


def test_of_a_mask():
    def function(x, w):
        q = jnp.logical_not(x > 0.5)
        return jnp.where(q, 1.0, 2.0) @ long(w), jnp.any(q, 0)

    program = jaxmlir.trace(function)(X, SQUARE).optimize(1)
    after, _ = with_late(program)
    for a, b in zip(after(X, SQUARE), program(X, SQUARE), strict=True):
        np.testing.assert_array_equal(a, b)


def attention(x, w):
    """Softmaxes, one after another."""
    for _ in range(4):
        x = x + jax.nn.softmax(x @ x.T, -1) @ jnp.tanh(x @ w)
    return jnp.mean(x**2)


def newton(e, m):
    x = m
    for _ in range(6):
        x = x - (x - e * jnp.sin(x) - m) / (1 - e * jnp.cos(x))
    return jnp.mean(x**2)


def reaction(u, rate):
    """The derivative with respect to the rate reads differences from one."""
    for _ in range(8):
        shifted = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) - 2 * u
        u = u + 0.1 * shifted + rate * (1 - u) - u**3
    return jnp.mean(u**2)


@pytest.mark.compat
@pytest.mark.parametrize(
    ("loss", "args", "part"),
    [
        (attention, (RNG.randn(256, 64) / 4, RNG.randn(64, 64) / 8), 0.9),
        (newton, (RNG.uniform(0, 0.7, 40_000), RNG.uniform(0, 6, 40_000)), 0.9),
        (reaction, (RNG.uniform(size=(256, 256)), np.asarray(0.03)), 0.9),
    ],
    ids=["attention", "newton", "reaction"],
)
def test_the_compiler_stores_less(loss, args, part):
    args = tuple(a.astype(np.float32) for a in args)
    program = jaxmlir.trace(loss)(*args).optimize(2, without=STORAGE).grad(argnums=(0, 1))
    programs = [program.optimize(2, without=w) for w in (("jaxpr-sink-recompute",), ())]
    compiled = [p.lower().compile() for p in programs]
    before, after = (c.memory_analysis().temp_size_in_bytes for c in compiled)
    assert after < part * before
    want = jax.jit(jax.grad(loss, (0, 1)))(*args)
    for a, b in zip(compiled[1](*args), want, strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-4 * np.abs(b).max())


STEPS = {
    "softmax": lambda x, w: jax.nn.softmax(x, -1) @ w,
    "quotient": lambda x, w: x / (1 + jnp.sum(x * x)),
    "inverse": lambda x, w: (x * x + 1) ** -2 @ w,
    "scale": lambda x, w: (x * jnp.mean(w) + 0.5) @ w,
    "difference": lambda x, w: x + (1 - x) * jnp.mean(w * w),
    "tanh": lambda x, w: jnp.tanh(x @ w),
    "norm": lambda x, w: (x - jnp.mean(x, 1, keepdims=True)) @ w,
}


@pytest.mark.compat
@examples(10)
@hypothesis.given(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=8))
def test_random_programs(steps):
    def loss(x, w):
        for step in steps:
            x = STEPS[step](x, w)
        return jnp.sum(jnp.sin(x))

    gradient = jaxmlir.trace(loss)(X, SQUARE).optimize(1).value_and_grad(argnums=(0, 1)).optimize(1)
    after, _ = with_late(gradient, f"jaxpr-outline, jaxpr-materialize-shared, {ALL}")
    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(X, SQUARE)
    for a, b in zip(*map(jax.tree.leaves, (after(X, SQUARE), want)), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5 * max(1, np.abs(b).max()))


def test_options_are_those_of_the_pass():
    assert SinkRecompute.from_options({"slowdown": "0.5"}).slowdown == 0.5

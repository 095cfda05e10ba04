"""Values that are computed again: which are, that XLA does so, and that numbers are the same."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

X = np.random.RandomState(0).randn(6, 32).astype(np.float32)
ALL = "jaxpr-duplicate-producers{calls=inf min-peak=0 min-bytes=0}"


def recomputed(function, *args):
    """The program after the pass, and how many values it computes again."""
    remarks = []
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes(ALL, remarks=remarks.append)
    after.verify()
    return program, after, len(remarks)


def same_numbers(before, after, *args):
    for a, b in zip(jax.tree.leaves(after(*args)), jax.tree.leaves(before(*args)), strict=True):
        np.testing.assert_allclose(a, b, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        # A sum, and then something of it and what was summed.
        (lambda x: (e := jnp.exp(x - 1)) / jnp.sum(e), 1),
        (lambda x: jnp.sum((t := jnp.tanh(x)) * jnp.max(t, 1, keepdims=True), 1), 1),
        # One kernel has it all: nothing to do.
        (lambda x: (e := jnp.exp(x)) * (1 + e), 0),
        (lambda x: jnp.sum((e := jnp.exp(x)) * (1 + e)), 0),
        # Stored anyway: a result, an operand of a product, rows of a loop.
        (lambda x: ((e := jnp.exp(x)), e / jnp.sum(e)), 0),
        (lambda x: (e := jnp.exp(x)) @ e.T + jnp.sum(e), 0),
        (lambda x: jnp.cumsum(e := jnp.exp(x)) + jnp.sum(e), 0),
        # Of two large values one would be read more; a sine takes longer than memory.
        (lambda x: (e := jnp.exp(x * (x @ x.T @ x))) / jnp.sum(e), 0),
        (lambda x: (s := jnp.exp(jnp.sin(x))) / jnp.sum(s), 0),
    ],
)
def test_what_is_computed_again(function, count):
    before, after, found = recomputed(function, X)
    assert found == count
    same_numbers(before, after, X)


@pytest.mark.compat
def test_complex_infinities():
    """Times one they would not be what they are."""

    def function(z):
        return (e := jnp.exp(z)) / jnp.sum(e)

    z = np.array([1 + 2j, 1 + 1j, complex(-np.inf, 0.5)], np.complex64)
    before, after, found = recomputed(function, z)
    assert found == 1
    same_numbers(before, after, z)


def test_of_a_mask_alone():
    def function(mask):
        t = jnp.tanh(jnp.where(mask, 0.5, -1.0))
        return jnp.sum(t, 0), jnp.sum(t * t, 1)

    before, after, found = recomputed(function, X > 0)
    assert found == 1
    same_numbers(before, after, X > 0)


def test_functions_that_are_called_from_elsewhere():
    """A program that is lowered for the derivative of another one need not have a public one."""
    program = jaxmlir.trace(lambda x: (e := jnp.exp(x)) / jnp.sum(e))(X).optimize(1)
    private = jaxmlir.parse(str(program).replace("func.func public", "func.func private"))
    assert str(private.run_passes(ALL)).count("jaxpr.exp") == 2


def test_small_programs_store():
    program = jaxmlir.trace(lambda x: (e := jnp.exp(x)) / jnp.sum(e))(X).optimize(1)
    assert str(program.run_passes("jaxpr-duplicate-producers")) == str(program)


def test_the_compiler_does_not_find_out():
    """Less memory, of a loss of many exponentials."""

    def loss(x):
        s = x @ x.T
        return sum(
            jnp.sum(jax.nn.logsumexp(k * s, axis=i) ** 2) for k in (1.0, 2.0) for i in (0, 1)
        )

    x = np.random.RandomState(0).randn(600, 8).astype(np.float32) / 9
    gradient = jaxmlir.trace(loss)(x).optimize(1).grad().optimize(1)
    after = gradient.run_passes("jaxpr-duplicate-producers{calls=inf min-peak=0 min-bytes=100000}")
    sizes = [p.lower().compile().memory_analysis().temp_size_in_bytes for p in (gradient, after)]
    assert sizes[1] < 0.8 * sizes[0]
    np.testing.assert_allclose(after(x), gradient(x), 1e-3, 1e-3)


def test_special_numbers_and_types():
    x = X.copy()
    x[0, :4] = np.nan, np.inf, -np.inf, -0.0

    def function(x):
        t = jnp.tanh(x)
        return t * jnp.sum(jnp.abs(t), 1, keepdims=True)

    for dtype in (np.float32, jnp.bfloat16, np.complex64):
        before, after, found = recomputed(function, x.astype(dtype))
        assert found == 1
        got, want = (np.asarray(p(x.astype(dtype))) for p in (after, before))
        wide = np.complex64 if dtype == np.complex64 else np.float32
        got, want = got.astype(wide), want.astype(wide)
        # Fused otherwise, a function may differ in its last bit.
        np.testing.assert_allclose(got, want, 1e-2 if dtype == jnp.bfloat16 else 1e-5)
        signs = (np.signbit(y.real) & ~np.isnan(y) for y in (got, want))
        np.testing.assert_array_equal(*signs)
    before, after, _ = recomputed(function, x[:0])
    assert after(x[:0]).shape == (0, 32)


STEPS = {
    "exp": lambda x, y: jnp.exp(x - jnp.max(x, 1, keepdims=True)),
    "tanh": lambda x, y: jnp.tanh(x + y),
    "sum": lambda x, y: x / (1 + jnp.sum(jnp.abs(x), 1, keepdims=True)),
    "mean": lambda x, y: x - jnp.mean(x, 0),
    "scale": lambda x, y: x * jnp.sqrt(1 + jnp.sum(y * y)),
    "product": lambda x, y: x @ (x.T @ y),
    "logistic": lambda x, y: x * jax.nn.sigmoid(y),
}


@pytest.mark.compat
@hypothesis.settings(max_examples=10, deadline=None)
@hypothesis.given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6))
def test_random_programs(steps):
    def loss(x):
        y = x / 2
        for step in steps:
            x, y = STEPS[step](x, y), x
        return jnp.sum(jnp.sin(x))

    gradient = jaxmlir.trace(loss)(X).optimize(1).value_and_grad().optimize(1)
    after = gradient.run_passes(f"{ALL}, jaxpr-materialize-shared")
    after.verify()
    want = jax.jit(jax.value_and_grad(loss))(X)
    for a, b in zip(jax.tree.leaves(after(X)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-4 * max(1, np.abs(b).max()))

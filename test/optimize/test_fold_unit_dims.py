"""Arrays without their dimensions of size 1: results stay the same bit for bit."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

RNG = np.random.RandomState(0)
X = RNG.randn(5, 1, 3, 1).astype(np.float32)
Y = RNG.randn(1, 4, 3, 1).astype(np.float32)


def attention(x, y):
    scores = jnp.einsum("abcd,edcf->aebf", x, jnp.swapaxes(y, 1, 3))
    return jax.nn.softmax(scores, axis=-1) * jnp.max(x, (0, 1), keepdims=True)


FUNCTIONS = {
    "elementwise": lambda x, y: jnp.sin(x) * y + jnp.where(y > 0, y, x),
    "scalars": lambda x, y: jnp.exp(x[:1, :, :1] * 2) + y,
    "sums": lambda x, y: jnp.sum(x * x, (0, 1)) + jnp.max(y, 1, keepdims=True),
    "of one": lambda x, y: jnp.sum(x, 1) + jnp.sum(x, (1, 3), keepdims=True)[:, 0],
    "broadcast": lambda x, y: jnp.broadcast_to(x[:, 0], (2, 5, 3, 1)) * y[0, 0],
    "products": lambda x, y: jnp.einsum("abcd,aefd->bcef", x, x) @ jnp.ones((3, 1)),
    "batched": lambda x, y: jnp.einsum("abcd,abed->abce", x, x),
    "outer": lambda x, y: x[0, 0] @ y[0, 0].T,
    "transposed": lambda x, y: (
        jnp.transpose(jnp.cos(x), (3, 2, 0, 1)) + jnp.transpose(x, (1, 2, 0, 3))
    ),
    "attention": attention,
    "mapped": lambda x, y: jax.vmap(jax.vmap(jax.grad(lambda a: jnp.sum(jnp.tanh(a @ a.T)))))(
        x * y
    ),
    "integers": lambda x, y: jnp.cumsum((x > y).astype(jnp.int32), 2) ^ 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_bits(name):
    program = jaxmlir.trace(FUNCTIONS[name])(X, Y).optimize(1)
    after = program.run_passes("jaxpr-fold-unit-dims, jaxpr-canonicalize, jaxpr-dce")
    after.verify()
    again = after.run_passes("jaxpr-fold-unit-dims, jaxpr-canonicalize, jaxpr-dce")
    assert str(again) == str(after)
    a, b = np.asarray(after(X, Y)), np.asarray(program(X, Y))
    assert a.shape == b.shape and a.dtype == b.dtype
    if name in ("products", "batched", "attention", "mapped"):
        # The library multiplies matrices of another rank differently.
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    else:
        assert a.tobytes() == b.tobytes()


def test_products_of_halves_are_rounded_as_before():
    """Four heads share their keys and values: XLA sums other shapes less exactly."""
    args = [RNG.randn(2, 128, heads, 32).astype(jnp.bfloat16) for heads in (4, 1, 1, 4)]

    def f(q, k, v, ct):
        attention = functools.partial(jax.nn.dot_product_attention, implementation="xla")
        out, pullback = jax.vjp(attention, q, k, v)
        return out, *pullback(ct)

    want = f(*(x.astype(np.float32) for x in args))
    ours = jaxmlir.trace(f)(*args).optimize(2)(*args)
    theirs = jax.jit(f)(*args)
    for exact, got, other in zip(want, ours, theirs, strict=True):
        errors = [np.abs(np.asarray(x, np.float32) - exact).mean() for x in (got, other)]
        assert errors[0] < 1.1 * errors[1]


def test_reshapes_are_left_at_the_edges_only():
    def f(x):
        return jnp.sum(jnp.sin(x) * x + jnp.transpose(jnp.swapaxes(x, 0, 1), (1, 0, 2, 3)), 2)

    program = jaxmlir.trace(f)(X).optimize(1)
    after = program.run_passes("jaxpr-fold-unit-dims, jaxpr-canonicalize, jaxpr-dce")
    names = re.findall(r'= "jaxpr\.(\w+)"', str(after))
    assert names == ["reshape", "sin", "mul", "add", "reduce_sum", "reshape"]


@pytest.mark.compat
def test_a_negative_zero_stays_one():
    x = -np.zeros((2, 1), np.float32)
    program = jaxmlir.trace(lambda x: (jnp.sum(x, 1), x * 1.5, jnp.max(x, 1)))(x)
    after = program.run_passes("jaxpr-fold-unit-dims")
    for a, b in zip(after(x), program(x), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def stepwise(x, y):
    """Loops that drop dimensions of size 1 of their slices, and one that does not."""

    def add(carry, row):
        a, b = row
        return carry + jnp.squeeze(a, 1) @ b.reshape(4, 4), jnp.max(b, axis=0)

    rows = x.reshape(2, 3, 1, 4), y.reshape(2, 1, 4, 4)
    total, tops = jax.lax.scan(add, jnp.zeros((3, 4)), rows)
    again, _ = jax.lax.scan(add, total, rows, reverse=True)
    return again, tops


@pytest.mark.compat
def test_rows_of_loops():
    x, y = (np.random.RandomState(3).randn(*s).astype(np.float32) for s in ((6, 4), (8, 4)))
    program = jaxmlir.trace(stepwise)(x, y)
    for before in (program, program.optimize(1)):
        after = before.run_passes("jaxpr-fold-unit-dims")
        after.verify()
        assert "tensor<2x3x4xf32>" in str(after)
        assert "3x1x4xf32" not in str(after).replace("2x3x1x4xf32", "")
        for a, b in zip(after(x, y), jax.jit(stepwise)(x, y), strict=True):
            np.testing.assert_allclose(a, b, 1e-6, 1e-6)


def test_loops_that_nobody_needs():
    """Dead loops are removed with rewritten code, also loops that the pass has yet to visit."""

    def total(x):
        return jax.lax.scan(lambda c, row: (c + row.reshape(3)[0], row.reshape(3)), 0.0, x)

    def f(x):
        def step(c, row):
            total(x)
            return c + row.reshape(3)[1], row.reshape(3)

        total(x)
        results = total(x), jax.lax.scan(step, 0.0, x)
        total(x)
        return results

    x = np.arange(12, dtype=np.float32).reshape(4, 1, 3)
    after = jaxmlir.trace(f)(x).run_passes("jaxpr-fold-unit-dims")
    after.verify()
    jax.tree.map(np.testing.assert_array_equal, after(x), jax.jit(f)(x))

"""Cumulative ops computed in blocks, against JAX's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-cumulative{calls=inf min-saved=0}"
RNG = np.random.RandomState(0)
OPS = {
    name: getattr(lax, name) for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
}
# Lengths of one block, of full blocks, of others, and of blocks of blocks; rows of several sizes.
SHAPES = [
    *(((n,), 0) for n in (5, 16, 65, 300)),
    *(((2, 24, 3), 1), ((3, 2), 0), ((4, 37, 1, 20), 1)),
]


def expanded(function, *args):
    program = jaxmlir.trace(function)(*args).run_passes(EXPAND)
    program.verify()
    assert "jaxpr.cum" not in str(program)
    return program


@pytest.mark.compat
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_same_as_jax(name, reverse):
    for shape, axis in SHAPES:
        x = jnp.asarray(1 + 0.3 * RNG.randn(*shape), jnp.float32)
        function = functools.partial(OPS[name], axis=axis, reverse=reverse)
        after = expanded(lambda x, f=function: f(x), x)
        np.testing.assert_allclose(after(x), jax.jit(function)(x), 2e-5, 2e-5, err_msg=str(shape))


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "int32", "complex64"])
def test_other_types(name, dtype):
    is_inexact = dtype not in ("int8", "int32")
    if name == "cumlogsumexp" and (not is_inexact or dtype == "complex64"):
        pytest.skip("JAX has no such op, or it is left to JAX")
    with jax.enable_x64(dtype == "float64"):
        x = 1 + 0.1 * RNG.randn(3, 70) if is_inexact else RNG.randint(-3, 4, (3, 70))
        x = jnp.asarray(x + (0.2j * RNG.randn(3, 70) if dtype == "complex64" else 0), dtype)

        def function(x):
            return OPS[name](x, 1)

        after = expanded(function, x)(x)
        assert after.dtype == dtype
        # Rounded numbers are compared with what they are rounded from.
        wide = {"bfloat16": "float32", "float16": "float32"}.get(dtype, dtype)
        expected = jax.jit(function)(x.astype(wide))
        tolerance = {"bfloat16": 8e-3, "float16": 8e-3, "float64": 1e-13}.get(dtype, 1e-5)
        np.testing.assert_allclose(
            after.astype(wide), expected, tolerance * is_inexact, tolerance * is_inexact
        )


@pytest.mark.compat
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_special_values(name, reverse):
    x = RNG.choice([-np.inf, np.inf, 1.0, -0.0, np.nan], (400, 70), p=[0.1, 0.1, 0.28, 0.5, 0.02])
    x = x.astype(np.float32)

    def function(x):
        return OPS[name](x, 1, reverse)

    after, expected = expanded(function, x)(x), jax.jit(function)(x)
    np.testing.assert_allclose(after, expected, 1e-6)
    # JAX adds to zero, so its sums of negative zeros are positive.
    if name in ("cumprod", "cummax", "cummin"):
        number = ~np.isnan(expected)
        signs = np.signbit(after) == np.signbit(expected)
        assert signs[number].all()


@pytest.mark.parametrize("name", OPS)
def test_accuracy(name):
    x = RNG.rand(1 << 16).astype(np.float32) if name == "cumsum" else RNG.randn(1 << 16)
    if name not in ("cumsum", "cumlogsumexp"):
        x = 1 + 1e-3 * x
    x = jnp.asarray(x, jnp.float32)

    def function(x):
        return OPS[name](x)

    with jax.enable_x64(True):
        exact = np.asarray(function(jnp.asarray(x, jnp.float64)))
    error, of_jax = (
        np.max(np.abs(f(x) - exact) / np.abs(exact))
        for f in (expanded(function, x), jax.jit(function))
    )
    assert error <= 2 * of_jax + 1e-7


def test_derivatives_and_batches():
    """A derivative of a cumulative sum is one that starts from the end."""
    x = jnp.asarray(RNG.randn(6, 40), jnp.float32)

    def loss(x):
        rows = jax.vmap(lambda r: lax.cumsum(r) * lax.cummax(r))(x)
        rows, last = 0.1 * rows, rows[0]
        last, rows = lax.scan(lambda c, r: (jnp.tanh(lax.cumsum(c + r)), c), last, rows)
        return jnp.sum(jnp.sin(rows)) + jnp.sum(last)

    program = jaxmlir.trace(loss)(x)
    after = program.run_passes(EXPAND)
    np.testing.assert_allclose(after(x), loss(x), 1e-4)
    # JAX derives the maximum by another algorithm; the sums stay one op each.
    gradient = program.grad().run_passes(EXPAND)
    assert "jaxpr.cum" not in str(gradient)
    np.testing.assert_allclose(gradient(x), jax.grad(loss)(x), 1e-4, 1e-4)


def test_values_compared_with_themselves():
    """Elements that equal the running maximum are found although they are computed twice."""
    x = jnp.asarray(RNG.randn(300, 50), jnp.float32)

    def records(x):
        y = x * x + 0.1 * x
        return jnp.sum(lax.cummax(y, 1) == y, 1)

    after = jaxmlir.trace(records)(x).run_passes(EXPAND)
    np.testing.assert_array_equal(after(x), records(x))


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        *(((100,), 0, "float32"), ((40, 0), 0, "float32"), ((0, 40), 0, "float32")),
        *(((30_000, 2), 1, "float32"), ((64, 1000), 0, "float8_e4m3fn")),
    ],
)
def test_left_alone(shape, axis, dtype):
    program = jaxmlir.trace(lambda x: lax.cumsum(x, axis))(jnp.zeros(shape, dtype))
    assert str(program.run_passes("jaxpr-expand-cumulative{calls=inf}")) == str(program)

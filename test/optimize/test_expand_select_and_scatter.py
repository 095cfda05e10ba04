"""Gradients of max-pooling, element by element: equal to JAX's bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.passes import STORAGE

EXPAND = "jaxpr-expand-select-and-scatter{calls=inf}"
RNG = np.random.RandomState(0)


def pooled(window, strides=None, padding="VALID", largest=True):
    """The sum of an array's maxima or minima over windows, each with a weight of its own."""

    def function(x):
        start, combine = (-np.inf, lax.max) if largest else (np.inf, lax.min)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(x.dtype)
        found = lax.reduce_window(
            x, np.asarray(start, x.dtype), combine, window, strides or window, padding
        )
        return jnp.sum(found * jnp.arange(found.size, dtype=x.dtype).reshape(found.shape))

    return function


def expanded(function, x):
    gradient = jaxmlir.trace(function)(x).grad()
    after = gradient.run_passes(EXPAND)
    after.verify()
    return gradient, after


@pytest.mark.parametrize(
    ("shape", "window", "strides", "padding", "largest", "dtype"),
    [
        ((2, 6, 8, 3), (1, 2, 2, 1), None, "VALID", True, "float32"),
        ((2, 3, 7, 9), (1, 1, 3, 2), None, "SAME", False, "float32"),
        ((11,), (4,), None, "VALID", True, "bfloat16"),
        ((4, 3), (2, 3), None, "VALID", False, "bfloat16"),
        ((2, 9, 8, 2), (1, 3, 3, 1), (1, 2, 2, 1), "SAME", True, "float32"),
        ((7, 9), (3, 3), (1, 1), "SAME", False, "float32"),
        ((12, 11), (3, 2), (2, 5), ((2, 0), (1, 4)), True, "bfloat16"),
        ((5, 6, 7), (3, 2, 4), (1, 3, 3), "VALID", True, "float32"),
    ],
)
def test_same_as_jax(shape, window, strides, padding, largest, dtype):
    # The numbers are from a small range, so that many are equal.
    x = jnp.asarray(RNG.randint(-2, 3, shape), dtype)
    function = pooled(window, strides, padding, largest)
    gradient, after = expanded(function, x)
    assert [str(p).count("select_and_scatter") for p in (gradient, after)] == [1, 0]
    want = jax.jit(jax.grad(function))(x)
    np.testing.assert_array_equal(np.asarray(after(x), float), np.asarray(want, float))
    assert after(x).dtype == x.dtype


@pytest.mark.parametrize("strides", [(1, 2, 2), (1, 1, 1)])
def test_selects_what_jax_selects_of_nan_and_infinity(strides):
    x = RNG.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], (60, 4, 4)).astype(np.float32)
    function = pooled((1, 2, 2), strides, "SAME")
    _, after = expanded(function, x)
    np.testing.assert_array_equal(after(x), jax.jit(jax.grad(function))(x))


@pytest.mark.parametrize("window", [(9, 9), (1, 1)])
def test_left_alone(window):
    x = RNG.randn(19, 19).astype(np.float32)
    gradient, after = expanded(pooled(window), x)
    assert str(after) == str(gradient)


@pytest.mark.parametrize("shape", [(3, 2), (0, 6)])
def test_no_windows(shape):
    x = RNG.randn(*shape).astype(np.float32)
    gradient, after = expanded(pooled((2, 3), (2, 2)), x)
    assert str(after) == str(gradient)
    np.testing.assert_array_equal(after(x), np.zeros(shape))


@pytest.mark.compat
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
def test_second_derivative(strides):
    x, v = RNG.permutation(77).reshape(7, 11) / 50, RNG.randn(7, 11)

    def product(x, v):
        loss = pooled((3, 2), strides, "SAME")
        return jax.jvp(jax.grad(lambda x: loss(jnp.sin(x)) ** 2), (x,), (v,))[1]

    args = x.astype(np.float32), v.astype(np.float32)
    program = jaxmlir.trace(product)(*args)
    after = program.run_passes(EXPAND)
    assert "select_and_gather" in str(program)
    assert "select_and_" not in str(after)
    np.testing.assert_allclose(after(*args), jax.jit(product)(*args), 1e-5, 1e-3)


@pytest.mark.compat
def test_network():
    """Pooling in a batch, and in a loop, at the level that includes the pass."""
    # Small enough that tanh does not amplify errors.
    images, kernels = RNG.randn(4, 64, 64, 2), RNG.randn(2, 3, 3, 2, 2) / 4

    def loss(kernels, images):
        def layer(x, kernel):
            dims = ("NHWC", "HWIO", "NHWC")
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dims)
            x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            return jnp.repeat(jnp.repeat(jnp.tanh(x), 2, 1), 2, 2), None

        return jnp.sum(lax.scan(layer, images, kernels)[0] ** 2)

    args = kernels.astype(np.float32), images.astype(np.float32)
    before = jaxmlir.trace(loss)(*args).optimize(2, without=STORAGE).grad((0, 1))
    gradient = before.optimize(2)
    assert "select_and_scatter" in str(before)
    assert "select_and_scatter" not in str(gradient)
    for a, b in zip(gradient(*args), jax.grad(loss, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)

"""Scatters that set one element in each row of a constant array, against JAX's scatter."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

pytestmark = pytest.mark.compat

EXPAND = "jaxpr-canonicalize,jaxpr-expand-scatter"
RNG = np.random.RandomState(0)


def numbers(axis, batches=(), of_indices=(), windows=(), inserted=()):
    return lax.ScatterDimensionNumbers(windows, inserted, (axis,), batches, of_indices)


# The element of the array, the indices, and the update; then the scatter method.
FORMS = {
    "rows": ((5, 3, 7), (5, 3, 1), (5, 3), numbers(2, (0, 1), (0, 1), (), (2,))),
    "turned": ((3, 7, 5), (5, 3, 1), (5, 3, 1), numbers(1, (0, 2), (1, 0), (2,))),
    "slices": ((4, 7, 5, 2), (5, 1, 1), (5, 1, 4, 2), numbers(1, (2,), (0,), (2, 3), (1,))),
    "one": ((7,), (1,), (), numbers(0, inserted=(0,))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
@pytest.mark.parametrize("form", FORMS)
def test_same_as_jax(form, mode):
    shape, of_indices, of_update, dimensions = FORMS[form]
    inside = mode == "promise_in_bounds"
    cases = itertools.product((lax.scatter, lax.scatter_add), ("float32", "int8"), (0, 1))
    for kind, dtype, number in cases:

        def function(i, update, kind=kind, dtype=dtype, number=number):
            return kind(jnp.full(shape, number, dtype), i, update, dimensions, mode=mode)

        i = RNG.randint(0, 7, of_indices) if inside else RNG.randint(-2, 9, of_indices)
        update = jnp.asarray(RNG.randint(-3, 4, of_update), dtype)
        after = jaxmlir.trace(function)(i, update).run_passes(EXPAND)
        after.verify()
        assert "scatter" not in str(after)
        np.testing.assert_array_equal(after(i, update), jax.jit(function)(i, update))


@pytest.mark.parametrize(
    "take",
    [
        lambda x, i: jnp.take_along_axis(x, i[:, None], 1),
        lambda x, i: x[jnp.arange(5), i],
        jax.vmap(lambda row, i: row[i]),
        lambda x, i: jnp.log(jax.nn.softmax(x))[jnp.arange(5), i],
    ],
)
def test_gradients_of_one_element_of_each_row(take):
    x, i = RNG.randn(5, 4).astype(np.float32), RNG.randint(0, 4, 5)

    def loss(x, i):
        return jnp.sum(take(x, i) ** 2)

    gradient = jaxmlir.trace(loss)(x, i).optimize(2).grad().optimize(2)
    assert "scatter" not in str(gradient)
    np.testing.assert_allclose(gradient(x, i), jax.jit(jax.grad(loss))(x, i), 1e-5, 1e-6)


@pytest.mark.parametrize(
    "function",
    [
        # No constant array, several elements in a row, a long row, or a function of old elements.
        lambda x, i: x.at[jnp.arange(5), i].set(1.0),
        lambda x, i: jnp.zeros((5, 4)).at[0, i].add(1.0),
        lambda x, i: jnp.zeros((5, 100)).at[jnp.arange(5), i].set(1.0),
        lambda x, i: jnp.ones((5, 4)).at[jnp.arange(5), i].apply(jnp.sin),
        lambda x, i: jnp.ones((5, 4)).at[jnp.arange(5), i].max(0.5),
    ],
)
def test_left_alone(function):
    x, i = jnp.zeros((5, 4)), jnp.arange(5) % 4
    after = jaxmlir.trace(function)(x, i).run_passes(EXPAND)
    assert "jaxpr.scatter" in str(after)


def test_constants_of_other_bits_are_others():
    """Negative zeros stay negative where nothing is written."""
    i = np.array([1, 2])
    for number in (0.0, -0.0):

        def function(i, number=number):
            return jnp.full((2, 3), number).at[jnp.arange(2), i].set(1.0)

        after = jaxmlir.trace(function)(i).run_passes(EXPAND)
        assert "scatter" not in str(after)
        np.testing.assert_array_equal(np.signbit(after(i)), np.signbit(function(i)))


def test_rows_of_more_elements_than_indices_count():
    """These stay, and are not run here: JAX clips their indices to a bound that wraps around."""
    i, update = np.array([[-100], [127]], np.int8), np.ones((2,), np.float32)
    rows = numbers(1, (0,), (0,), (), (1,))

    for length in (128, 129, 200):

        def function(i, update, length=length):
            zeros = jnp.zeros((2, length), np.float32)
            return lax.scatter(zeros, i, update, rows, mode="clip")

        after = jaxmlir.trace(function)(i, update)
        after = after.run_passes("jaxpr-expand-scatter{max-length=300}")
        assert ("jaxpr.scatter" in str(after)) == (length > 128)
        if length == 128:
            np.testing.assert_array_equal(after(i, update), function(i, update))


def test_indices_of_four_bits():
    def function(i, update):
        return lax.scatter(jnp.zeros((2, 6)), i, update, numbers(1, (0,), (0,), (), (1,)))

    i, update = jnp.array([[5], [-2]]).astype(jnp.int4), np.ones((2,), np.float32)
    program = jaxmlir.trace(function)(i, update)
    after = program.run_passes("jaxpr-expand-scatter")
    assert "scatter" not in str(after)
    np.testing.assert_array_equal(after(i, update), [[0, 0, 0, 0, 0, 1], [0] * 6])

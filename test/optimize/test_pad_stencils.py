"""Shifts of an array as slices of the padded array: numbers equal JAX's for many stencils."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import examples

import jaxmlir
from jaxmlir.dialect.builder import only_user
from jaxmlir.optimize.cpu import pad_stencils

EAGER = "jaxpr-pad-stencils{min-elements=0 margin=100}"

shifts = st.tuples(st.integers(-2, 2), st.integers(-2, 2))


def shifted(x, by, kind):
    """``x[i - by]`` on a torus, or with zeros or ones beyond the bounds."""
    if kind == "roll":
        return jnp.roll(x, by, (0, 1))
    fill = np.array(kind == "ones", x.dtype)
    return jax.lax.pad(x, fill, [(b, -b, 0) for b in by])


@pytest.mark.compat
@examples(8)
@hypothesis.given(
    st.lists(st.tuples(shifts, st.sampled_from(["roll", "zeros", "ones"])), min_size=1, max_size=5),
    st.sampled_from([(3, 5), (4, 1), (2, 2)]),
)
def test_random_stencils_and_their_gradients(terms, shape):
    x = np.random.RandomState(0).randn(*shape).astype(np.float32)

    def stencil(x):
        for _ in range(2):
            x = sum((k + 1) * shifted(x, by, kind) for k, (by, kind) in enumerate(terms)) / 8
        return jnp.sum(jnp.sin(x))

    program = jaxmlir.trace(stencil)(x).optimize(1)
    after = program.run_passes(EAGER)
    after.verify()
    np.testing.assert_allclose(after(x), stencil(x), 1e-5)
    gradient = program.grad().optimize(1).run_passes(EAGER)
    gradient.verify()
    np.testing.assert_allclose(gradient(x), jax.grad(stencil)(x), 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.complex64])
def test_no_bit_of_a_shift_changes(dtype):
    x = (4 * np.random.RandomState(0).randn(6, 7)).astype(dtype)
    if dtype == np.float32:
        x[0, 0], x[1, 1], x[2, 2] = np.nan, -0.0, np.inf

    mask = np.random.RandomState(1).rand(6, 7) < 0.5

    def neighbours(x, mask):
        kinds = "roll", "zeros"
        return [jnp.where(mask, shifted(x, (a, 1), k), x) for a in (-1, 0, 2) for k in kinds]

    program = jaxmlir.trace(neighbours)(x, mask).optimize(1)
    after = program.run_passes(EAGER)
    assert str(after).count("jaxpr.concatenate") < str(program).count("jaxpr.concatenate")
    for a, b in zip(after(x, mask), neighbours(x, mask), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def parts_in_a_sum(x):
    """Sums of parts: the transposes of rolls, as JAX writes them."""
    return jax.grad(lambda x: jnp.sum(x * (jnp.roll(x, 1) - jnp.roll(x, -2))))(x)


def test_the_transpose_of_a_roll_is_a_roll():
    x = np.arange(9, dtype=np.float32) ** 2
    program = jaxmlir.trace(parts_in_a_sum)(x).optimize(1)
    after = program.run_passes(EAGER)
    assert "jaxpr.pad" in str(program)
    assert "jaxpr.pad" not in str(after)
    np.testing.assert_allclose(after(x), parts_in_a_sum(x))


def test_a_long_sum_of_parts_is_gone_through_once(monkeypatch):
    asked = 0

    def counted(value):
        nonlocal asked
        asked += 1
        return only_user(value)

    def gradient(length):
        def function(x):
            return sum(jnp.sum(jnp.sin(k * x) * jnp.roll(x, k % 3 + 1)) for k in range(length))

        return jaxmlir.trace(function)(np.arange(9.0, dtype=np.float32)).grad().optimize(1)

    monkeypatch.setattr(pad_stencils, "only_user", counted)
    found = []
    for length in (20, 40):
        asked = 0
        assert "jaxpr.pad" not in str(gradient(length).run_passes(EAGER))
        found.append(asked)
    assert found[1] < 2.5 * found[0]


def test_parts_that_are_not_in_one_sum_stay():
    def function(x):
        first, second = jnp.pad(x[1:], (0, 1)), jnp.pad(x[:1], (len(x) - 1, 0))
        return first + jnp.sin(x), second, jnp.cos(second)

    x = np.arange(9, dtype=np.float32)
    program = jaxmlir.trace(function)(x).optimize(1)
    assert str(program.run_passes("jaxpr-pad-stencils")) == str(program)


@pytest.mark.parametrize(("axis", "pads"), [(0, 0), (1, 2)])
def test_a_roll_without_a_margin_is_parted_again(axis, pads):
    """Along the last dimension."""
    x = np.random.RandomState(0).randn(5, 6).astype(np.float32)

    def function(x):
        return jnp.sum(jnp.sin(jnp.roll(x, 2, axis)) * x)

    program = jaxmlir.trace(function)(x).grad().optimize(1)
    after = program.run_passes("jaxpr-pad-stencils")
    after.verify()
    assert [str(p).count('"jaxpr.pad"') for p in (program, after)] == [2, pads]
    np.testing.assert_allclose(after(x), jax.grad(function)(x), 1e-5, 1e-6)

    def twice(x):
        return jnp.sum(jnp.sin(jnp.roll(jnp.roll(x, 2, 1), 1, axis)) * x)

    after = jaxmlir.trace(twice)(x).grad().optimize(1).run_passes("jaxpr-pad-stencils")
    after.verify()
    np.testing.assert_allclose(after(x), jax.grad(twice)(x), 1e-5, 1e-6)


@pytest.mark.compat
@pytest.mark.parametrize("fill", [0.0, -0.0, 1.0, np.nan])
def test_two_parts_are_a_roll_only_with_zeros_around_them(fill):
    x = np.arange(1, 13, dtype=np.float32)

    def parts(x):
        fills = np.float32(fill)
        return x + jax.lax.pad(x[5:], fills, [(0, 5, 0)]) + jax.lax.pad(x[:5], fills, [(7, 0, 0)])

    program = jaxmlir.trace(parts)(x).optimize(1)
    after = program.run_passes("jaxpr-pad-stencils")
    assert str(after).count("jaxpr.pad") == (2 if fill else 0)
    np.testing.assert_array_equal(after(x), parts(x))


@pytest.mark.parametrize("edges", [(1, -1), (-1, 1)])
def test_parts_that_are_shifted_along_another_dimension_are_no_roll(edges):
    x = np.arange(1, 41, dtype=np.float32).reshape(5, 8)

    def parts(x):
        first = jax.lax.pad(x[2:], np.float32(0), [(0, 2, 0), (*edges, 0)])
        second = jax.lax.pad(x[:2], np.float32(0), [(3, 0, 0), (1, -1, 0)])
        return x + first + second

    after = jaxmlir.trace(parts)(x).optimize(1).run_passes(EAGER)
    np.testing.assert_array_equal(after(x), parts(x))


@pytest.mark.parametrize("shifts", [(6, 6, 6), (5, 5, 5), (7, 7), (4, 5, 6, 9)])
def test_rolls_that_go_around_once(shifts):
    x = np.random.RandomState(0).randn(12, 3).astype(np.float32)

    def rolled(x):
        y = x
        for by in shifts:
            y = jnp.concatenate([y[by:], y[:by]])
        return jnp.sin(y) + jnp.sin(jnp.concatenate([x[1:], x[:1]]))

    after = jaxmlir.trace(rolled)(x).run_passes(f"jaxpr-inline,{EAGER}")
    after.verify()
    np.testing.assert_array_equal(after(x), jax.jit(rolled)(x))


def wide(x):
    return jnp.roll(x, 2000) + jnp.roll(x, 3000)


def alone(x):
    return x + jnp.roll(x, 1)


def small(x):
    return jnp.roll(x[:100], 1) + jnp.roll(x[:100], -1)


def test_arrays_of_nothing():
    program = jaxmlir.trace(lambda x: jnp.pad(x, 1) + jnp.pad(x, (2, 0)))(jnp.ones(0)).optimize(1)
    assert str(program.run_passes(EAGER)) == str(program)


@pytest.mark.parametrize("function", [wide, alone, small])
def test_left_alone(function):
    program = jaxmlir.trace(function)(np.zeros(6000, np.float32)).optimize(1)
    assert str(program.run_passes("jaxpr-pad-stencils")) == str(program)

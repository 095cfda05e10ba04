"""Sums of products with shifted slices as convolutions, with their derivatives, against JAX."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import examples

import jaxmlir

RAISE = "jaxpr-raise-convolutions"
RNG = np.random.RandomState(0)


def raised(function, *args):
    program = jaxmlir.trace(function)(*args).optimize(1).run_passes(RAISE)
    program.verify()
    return program


def count(program):
    return str(program).count("jaxpr.conv_general_dilated")


@st.composite
def windows(draw):
    """Parameters of a sum of products that is a convolution in 2 or 3 dimensions; and operands.

    The dimensions of the array and of the kernel are in any order, matrices may be transposed, and
    come first.
    """
    rank = draw(st.integers(2, 3))
    places = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    hypothesis.assume(sum(n > 1 for n in places) > 1)
    results, steps, apart = ([draw(st.integers(1, 2)) for _ in places] for _ in range(3))
    results = [n + max(r, 2) for n, r in zip(results, apart, strict=True)]
    sizes = [
        (n - 1) * s + (k - 1) * r + 1
        for n, s, k, r in zip(results, steps, places, apart, strict=True)
    ]
    channels, features = draw(st.sampled_from([(4, 8), (8, 4), (6, 7)]))
    batch = [2] * draw(st.integers(0, 1))
    array, kernel = [*sizes, channels, *batch], [*places, channels, features]
    order, order_of_kernel = (draw(st.permutations(range(len(x)))) for x in (array, kernel))
    matrix_first, turned = draw(st.booleans()), draw(st.booleans())

    def function(k, x):
        total = 0.0
        rows = order_of_kernel.index(rank) < order_of_kernel.index(rank + 1)
        for place in itertools.product(*map(range, places)):
            parts = [
                slice(i * r, i * r + (n - 1) * s + 1, s)
                for i, r, n, s in zip(place, apart, results, steps, strict=True)
            ]
            parts = [*parts, *(slice(None) for _ in array[rank:])]
            matrix = [*place, slice(None), slice(None)]
            matrix = k[tuple(matrix[d] for d in order_of_kernel)]
            pair = [matrix.T if turned else matrix, x[tuple(parts[d] for d in order)]]
            summed = [[0 if rows != turned else 1], [order.index(rank)]]
            if not matrix_first:
                pair, summed = pair[::-1], summed[::-1]
            total = total + jnp.moveaxis(jnp.tensordot(*pair, summed), 0, -1)
        return jnp.sin(total)

    k = RNG.randn(*(kernel[d] for d in order_of_kernel))
    x = RNG.randn(*(array[d] for d in order))
    return function, k.astype(np.float32), x.astype(np.float32)


@examples(5)
@hypothesis.given(windows())
def test_random_windows(window):
    function, k, x = window
    program = raised(function, k, x)
    assert count(program) == 1 and "dot_general" not in str(program)
    assert "concatenate" not in str(program), "the kernel is read as it is"
    np.testing.assert_allclose(program(k, x), function(k, x), 1e-4, 1e-4)
    ct = RNG.randn(*program.out_avals[0].shape).astype(np.float32)
    _, bwd = jax.vjp(program, k, x)
    _, want = jax.vjp(function, k, x)
    for a, b in zip(bwd(ct), want(ct), strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-3)


@pytest.mark.compat
def test_what_else_is_added_and_matrices_of_their_own():
    matrices = [RNG.randn(8, 4).astype(np.float32) for _ in range(4)]
    bias = RNG.randn(8).astype(np.float32)
    x, y = (RNG.randn(3, 6, 6, 4).astype(np.float32) for _ in range(2))

    def function(matrices, bias, x, y):
        total = bias
        for m, (i, j) in zip(matrices, itertools.product(range(2), range(2)), strict=True):
            total = total + x[:, i : i + 5, j : j + 5] @ m.T
            total = y[:, j : j + 5, i : i + 5] @ m.T + total
        return total + 1

    program = raised(function, matrices, bias, x, y)
    assert count(program) == 2 and "dot_general" not in str(program)
    want = function(matrices, bias, x, y)
    np.testing.assert_allclose(program(matrices, bias, x, y), want, 1e-4, 1e-4)


@pytest.mark.compat
def test_not_finite():
    """Infinite numbers are multiplied with the same numbers as before, and never with zeros."""
    k = RNG.randn(2, 2, 4, 8).astype(np.float32)
    x = RNG.randn(2, 6, 6, 4).astype(np.float32)
    k[1, 0, 2, 3], x[1, 2, 3, 0] = np.inf, np.nan

    def function(k, x):
        places = itertools.product(range(2), range(2))
        return sum(x[:, i : i + 5, j : j + 5] @ k[i, j] for i, j in places)

    program = raised(function, k, x)
    assert count(program) == 1
    np.testing.assert_allclose(program(k, x), function(k, x), 1e-4, 1e-4)


@pytest.mark.compat
@pytest.mark.parametrize(
    "function",
    [
        lambda k, x: sum(x[:, i : i + 4] @ k[i] for i in (0, 1, 3)),
        lambda k, x: sum(x[:, i : i + 4] @ k[i] for i in range(2)),
        lambda k, x: sum(x[:, i : i + 4, :2] @ k[i, :2] for i in range(4)),
        lambda k, x: sum(x[:, i : i + 4] @ k[i] for i in (0, 0, 1, 2)),
        lambda k, x: sum(x[:, i : i + 1] @ k[i] for i in range(4)),
        lambda k, x: sum((x[:, i : i + 4] * 2) @ k[i] for i in range(4)),
        lambda k, x: sum(x[:, i : i + 4] @ k[i] for i in range(4)),
        lambda k, x: sum(
            jnp.matmul(x[:, i : i + 4, None], k[i], precision="F32_F32_F32") for i in range(4)
        ),
    ],
    ids="hole few-places few-channels twice apart scaled one-dimension algorithm".split(),
)
def test_left_alone(function):
    k = RNG.randn(4, 4, 8).astype(np.float32)
    x = RNG.randn(2, 7, 4).astype(np.float32)
    assert count(raised(function, k, x)) == 0


@pytest.mark.parametrize(("batch", "on_tpu"), [(2, 0), (8, 1)])
def test_other_platforms(batch, on_tpu):
    k, x = RNG.randn(2, 2, 4, 8), RNG.randn(batch, 6, 6, 4)
    places = list(itertools.product(range(2), range(2)))
    program = jaxmlir.trace(
        lambda k, x: sum(x[:, i : i + 5, j : j + 5] @ k[i, j] for i, j in places)
    )(k, x)
    after = [program.run_passes(RAISE, target=name) for name in ("cpu", "cuda", "tpu")]
    assert list(map(count, after)) == [1, 0, on_tpu]


def test_long_sequences():
    """Windows along one dimension are raised if there is much work."""
    k = RNG.randn(3, 32, 32).astype(np.float32)
    x = RNG.randn(8, 300, 32).astype(np.float32)

    def function(k, x):
        return jnp.tanh(sum(x[:, 2 * i : 2 * i + 296] @ k[i] for i in range(3)))

    program = raised(function, k, x)
    assert count(program) == 1
    np.testing.assert_allclose(program(k, x), function(k, x), 1e-3, 1e-3)
    assert program.lower().compile().memory_analysis().temp_size_in_bytes <= (
        jax.jit(function).lower(k, x).compile().memory_analysis().temp_size_in_bytes
    )

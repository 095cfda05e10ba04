"""Factorizations of small matrices entry by entry: numbers equal JAX's, also if they fail."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir

EXPAND = "jaxpr-expand-factorizations{calls=inf}"
NAMES = ("jaxpr.cholesky", "jaxpr.triangular_solve", "jaxpr.lu")
RNG = np.random.RandomState(0)

BATCHES = st.sampled_from(((), (1,), (64,), (35, 2)))
SIZES = st.integers(1, 4)


def _check(function, *args, nan_is_any=False):
    """Checks that numbers equal JAX's; with ``nan_is_any``, not where JAX's are NaN."""
    program = jaxmlir.trace(function)(*args)
    after = program.run_passes(EXPAND)
    after.verify()
    assert not any(f'"{name}"' in str(after) for name in NAMES)
    assert str(after.run_passes(EXPAND)) == str(after)
    got, want = (jax.tree.leaves(f(*args)) for f in (after, jax.jit(function)))
    for x, y in zip(got, want, strict=True):
        assert x.dtype == y.dtype
        x = np.where(np.isnan(y), y, x) if nan_is_any else x
        np.testing.assert_allclose(x, y, 2e-3, 1e-4)


def _integers(*shape):
    """Matrices with equal pivots and zeros, some of them singular."""
    return RNG.randint(-2, 3, shape).astype(np.float32)


@examples(15)
@hypothesis.given(BATCHES, SIZES, st.sampled_from(("definite", "indefinite", "singular", "nan")))
def test_cholesky(batch, n, kind):
    a = _integers(*batch, n, n)
    a = (a @ np.swapaxes(a, -1, -2) + 0.5 * np.eye(n)).astype(np.float32)
    j = RNG.randint(n)
    if kind == "indefinite":
        a[..., j, j] -= 40
    elif kind == "singular":
        a[..., j] = a[..., j, :] = 0
    elif kind == "nan":
        a[..., n - 1, j] = np.nan
    _check(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), a)


@examples(15)
@hypothesis.given(BATCHES, SIZES, SIZES)
def test_lu(batch, rows, columns):
    # The numbers that pivots are chosen from are not rounded here, and many are equal.
    _check(lax.linalg.lu, np.sign(_integers(*batch, rows, columns)))


@examples(25)
@hypothesis.given(BATCHES, SIZES, SIZES, st.lists(st.booleans(), min_size=6, max_size=6))
def test_triangular_solve(batch, n, sides, flags):
    left, lower, transposed, conjugated, unit, is_singular = flags
    a = _integers(*batch, n, n)
    if not is_singular:
        a[..., range(n), range(n)] = 2.5
    # The other triangle is not read.
    a = np.where((np.tri(n) if lower else np.tri(n).T) > 0, a, np.nan)
    b = _integers(*batch, *((n, sides) if left else (sides, n)))
    params = {
        "left_side": left,
        "lower": lower,
        "transpose_a": transposed,
        "conjugate_a": conjugated,
        "unit_diagonal": unit,
    }
    # For a singular matrix the library also gives NaN for elements before the zero pivot.
    solve = functools.partial(lax.linalg.triangular_solve, **params)
    _check(solve, a, b, nan_is_any=is_singular and not unit)


@pytest.mark.parametrize("dtype", [np.complex64, np.float32])
def test_others_are_left_alone(dtype):
    n = 4 if dtype == np.complex64 else 5
    program = jaxmlir.trace(lax.linalg.lu)(jnp.eye(n, dtype=dtype))
    assert str(program.run_passes(EXPAND)) == str(program)


def test_few_matrices_are_left_to_the_library_but_in_loops():
    a = np.tile(4 * np.eye(3, dtype=np.float32), (16, 1, 1))
    program = jaxmlir.trace(jnp.linalg.cholesky)(a)
    assert str(program.run_passes(EXPAND)) == str(program)
    factored = jax.jit(jnp.linalg.cholesky)
    _check(lambda a: lax.fori_loop(0, 3, lambda i, a: factored(a) + i, a), a)


@pytest.mark.compat
@pytest.mark.parametrize("n", [2, 3, 4])
def test_gradients(n):
    """Gradients of a solution and of a density, in a loop and in batches."""
    a = RNG.randn(70, n, n).astype(np.float32)
    b = RNG.randn(70, n).astype(np.float32)

    def density(a, b):
        s = a @ a.T + jnp.eye(n)
        factor = jnp.linalg.cholesky(s)
        z = jax.scipy.linalg.solve_triangular(factor, b, lower=True)
        return z @ z + jnp.sum(jnp.log(jnp.diag(factor))) + jnp.sum(jnp.linalg.solve(s + a, b))

    def function(a, b):
        loop = lax.scan(lambda c, ab: (c + jnp.tanh(density(*ab)), None), 0.0, (a, b))[0]
        return loop + jnp.mean(jax.vmap(density)(a, b))

    after = jaxmlir.trace(function)(a, b).optimize(2).grad((0, 1)).optimize(2).run_passes(EXPAND)
    assert not any(f'"{name}"' in str(after) for name in NAMES)
    for x, y in zip(after(a, b), jax.jit(jax.grad(function, (0, 1)))(a, b), strict=True):
        np.testing.assert_allclose(x, y, 1e-3, 1e-4 * np.abs(y).max())

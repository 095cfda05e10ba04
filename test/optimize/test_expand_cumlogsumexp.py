"""Cumulative log-sum-exps expanded into steps, against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-cumlogsumexp{calls=inf min-length=2 min-elements=0}"
RNG = np.random.RandomState(0)


@pytest.mark.parametrize(
    ("shape", "axis", "reverse", "dtype", "tolerance"),
    [
        ((37,), 0, False, "float32", 1e-5),
        ((2, 24, 3), 1, True, "float32", 1e-5),
        ((3, 2), 0, False, "float32", 1e-5),
        ((5, 16), 1, True, "bfloat16", 5e-2),
    ],
)
def test_same_as_jax(shape, axis, reverse, dtype, tolerance):
    x = jnp.asarray(20 * RNG.randn(*shape), dtype)

    def function(x):
        return lax.cumlogsumexp(x, axis, reverse)

    program = jaxmlir.trace(function)(x)
    after = program.run_passes(EXPAND)
    after.verify()
    assert "cumlogsumexp" not in str(after.functions["function"].entry_block)
    np.testing.assert_allclose(
        np.asarray(after(x), float), np.asarray(jax.jit(function)(x), float), tolerance, tolerance
    )


@pytest.mark.compat
@pytest.mark.parametrize("reverse", [False, True])
def test_infinities_and_nan(reverse):
    x = RNG.choice([-np.inf, np.inf, 1.0, np.nan], (200, 5), p=[0.6, 0.1, 0.2, 0.1])

    def function(x):
        return lax.cumlogsumexp(x, 1, reverse)

    x = x.astype(np.float32)
    after = jaxmlir.trace(function)(x).run_passes(EXPAND)
    np.testing.assert_allclose(after(x), jax.jit(function)(x), 1e-6)


@pytest.mark.parametrize(("shape", "axis"), [((100,), 0), ((8, 1000), 0), ((40, 0), 0)])
def test_left_alone(shape, axis):
    program = jaxmlir.trace(lambda x: lax.cumlogsumexp(x, axis))(jnp.zeros(shape))
    assert str(program.run_passes("jaxpr-expand-cumlogsumexp{calls=inf}")) == str(program)

"""Sums of deviations from a mean: they vanish from gradients of normalizations, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

RNG = np.random.RandomState(0)
X = RNG.randn(4, 6, 6).astype(np.float32)
G = RNG.randn(6).astype(np.float32)


def normalized(x, axis, eps=1e-5):
    mean = x.mean(axis, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(axis, keepdims=True) + eps)


def by_hand(x, g):
    deviations = x - jnp.expand_dims(jnp.sum(x, 2) * (1 / 6), 2)
    return deviations * jax.lax.rsqrt(jnp.mean(deviations**2, 2)[..., None]) * g


NORMALIZATIONS = {
    "layer": lambda x, g: normalized(x, -1) * g,
    "batch": lambda x, g: normalized(x, (0, 1)) * g,
    "group": lambda x, g: normalized(x.reshape(4, 6, 2, 3), (1, 3)).reshape(x.shape) * g,
    "transposed": lambda x, g: normalized(jnp.moveaxis(x, 2, 0), 0).T * g[:, None, None],
    "by hand": by_hand,
    "library": lambda x, g: jax.nn.standardize(x, axis=-1, variance=jnp.var(x, -1, keepdims=True)),
    "twice": lambda x, g: normalized(normalized(x, -1) + x**2, 1) * g,
}


def gradients(f, pipeline):
    """The gradient before and after the pass, and its remarks."""
    loss = jaxmlir.trace(lambda x, g: jnp.sum(jnp.sin(f(x, g))))(X, G)
    before, remarks = loss.grad().optimize(1), []
    after = before.run_passes(pipeline, remarks=remarks.append)
    after.verify()
    return before, after, remarks


@pytest.mark.compat
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_gradients_of_normalizations(name):
    f = NORMALIZATIONS[name]
    before, after, remarks = gradients(f, "jaxpr-zero-sums,jaxpr-dce")
    assert len(remarks) == (2 if name == "twice" else 1)
    expected = jax.grad(lambda x, g: jnp.sum(jnp.sin(f(x, g))))(X, G)
    np.testing.assert_allclose(after(X, G), expected, rtol=1e-4, atol=1e-5)
    # The derivative of the sum that was left out is zero as well.
    second = [p.jvp()((X, G), (X, G)) for p in (before, after)]
    np.testing.assert_allclose(second[0][1], second[1][1], rtol=1e-3, atol=1e-4)


# Each violates one condition.
OTHER_SUMS = {
    "weighted": lambda x, g: (x - x.mean(-1, keepdims=True)) * g,
    "another mean": lambda x, g: x - x.mean(1, keepdims=True),
    "of the transpose": lambda x, g: x - jnp.mean(x, 2)[:, None],
    "of another array": lambda x, g: x - (x**2).mean(-1, keepdims=True),
    "of more dimensions": lambda x, g: x[0] - jnp.sum(x * 0.25, 0),
    "of a constant": lambda x, g: jnp.ones_like(x) - x * jnp.arange(6.0),
    "of part": lambda x, g: x - x.sum(-1, keepdims=True) / 5,
    "rounded": lambda x, g: (x := x.astype(jnp.bfloat16)) - x.mean(-1, keepdims=True),
    "infinite": lambda x, g: x - x.sum(-1, keepdims=True) * jnp.inf,
}


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_sums_that_are_not_zero_stay(name):
    program = jaxmlir.trace(lambda x, g: jnp.sum(OTHER_SUMS[name](x, g), -1))(X, G).optimize(1)
    remarks = []
    program.run_passes("jaxpr-zero-sums", remarks=remarks.append)
    assert not remarks


def test_sums_over_more_dimensions_than_the_mean():
    def f(x, g):
        c = jnp.sum(x[:, :, :1] ** 2, 0, keepdims=True)
        return jnp.sum(x**2 - 2.0 * c * (x.mean(-1, keepdims=True) - x) / 3 + x), jnp.sum(c)

    program = jaxmlir.trace(f)(X, G).optimize(1)
    after = program.run_passes("jaxpr-zero-sums,jaxpr-dce")
    assert str(after).count("jaxpr.div") == 0 < str(program).count("jaxpr.div")
    np.testing.assert_allclose(after(X, G), jax.jit(f)(X, G), rtol=1e-5)

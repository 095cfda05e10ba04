# /// script
# requires-python = ">=3.11"
# dependencies = ["distrax"]
# ///
"""Distrax: the evidence bound of an autoencoder whose posterior goes through a coupling flow."""

import distrax
import jax
import jax.numpy as jnp


def make():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "encoder": 0.3 * jax.random.normal(keys[0], (6, 8)),
        "decoder": 0.3 * jax.random.normal(keys[1], (4, 6)),
        "flow": 0.3 * jax.random.normal(keys[2], (4, 8)),
    }
    x = jax.random.normal(keys[3], (10, 6))

    def loss(params, x, key):
        mean, log_scale = jnp.split(x @ params["encoder"], 2, -1)
        base = distrax.MultivariateNormalDiag(mean, jnp.exp(log_scale))

        def conditioner(z):
            return (z @ params["flow"]).reshape(*z.shape, 2)

        coupling = distrax.MaskedCoupling(
            mask=jnp.arange(4) % 2 == 0,
            conditioner=conditioner,
            bijector=lambda p: distrax.ScalarAffine(p[..., 0], log_scale=jnp.tanh(p[..., 1])),
        )
        posterior = distrax.Transformed(base, coupling)
        z, log_q = posterior.sample_and_log_prob(seed=key)
        prior = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        likelihood = distrax.Independent(distrax.Normal(z @ params["decoder"], 1.0), 1)
        return -jnp.mean(likelihood.log_prob(x) + prior.log_prob(z) - log_q)

    return loss, (params, x, jax.random.key(1))

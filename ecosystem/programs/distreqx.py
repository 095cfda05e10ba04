# /// script
# requires-python = ">=3.11"
# dependencies = ["distreqx"]
# ///
"""distreqx: the likelihood of a small flow, and of a mixture, in their parameters."""

import jax
import jax.numpy as jnp
from distreqx import bijectors, distributions


def make():
    samples = jax.random.normal(jax.random.key(0), (8, 4))

    def loss(params, samples):
        affine = bijectors.ScalarAffine(shift=params["shift"], scale=jnp.exp(params["scale"]))
        flow = bijectors.Chain([bijectors.Block(bijectors.Tanh(), 1), bijectors.Block(affine, 1)])
        base = distributions.MultivariateNormalDiag(jnp.zeros(4), jnp.exp(params["shift"]))
        transformed = distributions.Transformed(base, flow)
        weights = distributions.Categorical(params["logits"])
        parts = jax.vmap(distributions.Normal)(params["means"], jnp.ones(3))
        mixture = distributions.MixtureSameFamily(weights, parts)
        of_flow = jax.vmap(transformed.log_prob)(0.9 * jnp.tanh(samples))
        of_mixture = jax.vmap(mixture.log_prob)(samples[:, 0])
        return weights.entropy() - jnp.mean(of_flow) - jnp.mean(of_mixture)

    params = {
        "shift": jnp.zeros(4),
        "scale": 0.3 * jax.random.normal(jax.random.key(1), (4,)),
        "logits": jnp.array([0.1, 0.2, 0.3]),
        "means": jnp.array([-1.0, 0.0, 1.0]),
    }
    return loss, (params, samples)

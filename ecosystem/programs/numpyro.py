# /// script
# requires-python = ">=3.11"
# dependencies = ["numpyro"]
# ///
"""numpyro: the potential energy of a hierarchical normal model, in its unconstrained parameters."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer.util import initialize_model

SIGMA = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
Y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


def schools(sigma, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", sigma.shape[0]):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def make():
    init, potential, _, _ = initialize_model(
        jax.random.key(0), schools, model_args=(SIGMA, Y), dynamic_args=True
    )

    def loss(params, sigma, y):
        return potential(sigma, y)(params)

    return loss, (init.z, SIGMA, Y)

# /// script
# requires-python = ">=3.11"
# dependencies = ["gpjax"]
# ///
"""GPJax: the marginal likelihood of a Gaussian process, in the parameters of its kernel."""

import equinox as eqx
import gpjax as gpx
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def make():
    x = jnp.linspace(0.0, 1.0, 15)[:, None]
    data = gpx.Dataset(X=x, y=jnp.sin(6 * x))
    prior = gpx.gps.Prior(
        mean_function=gpx.mean_functions.Constant(),
        kernel=gpx.kernels.RBF() + gpx.kernels.Matern32(),
    )
    model = prior * gpx.likelihoods.Gaussian()
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params, data):
        return -gpx.objectives.conjugate_mll(eqx.combine(params, static), data)

    return loss, (params, data)

# /// script
# requires-python = ">=3.11"
# dependencies = ["gpjax"]
# ///
"""GPJax: the marginal likelihood of a Gaussian process, in the parameters of its kernel."""

import gpjax as gpx
import jax
import jax.numpy as jnp
from flax import nnx

jax.config.update("jax_enable_x64", True)


def make():
    x = jnp.linspace(0.0, 1.0, 15)[:, None]
    data = gpx.Dataset(X=x, y=jnp.sin(6 * x))
    prior = gpx.gps.Prior(
        mean_function=gpx.mean_functions.Constant(),
        kernel=gpx.kernels.RBF() + gpx.kernels.Matern32(),
    )
    model = prior * gpx.likelihoods.Gaussian()
    graph, params = nnx.split(model)

    def loss(params, data):
        return -gpx.objectives.conjugate_mll(nnx.merge(graph, params), data)

    return loss, (params, data)

# /// script
# requires-python = ">=3.11"
# dependencies = ["pyhf"]
# ///
"""pyhf: the likelihood of a counting experiment, in its signal strength and nuisances."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import pyhf  # noqa: E402

pyhf.set_backend("jax")


def make():
    model = pyhf.simplemodels.uncorrelated_background(
        signal=[12.0, 11.0, 7.0], bkg=[50.0, 52.0, 40.0], bkg_uncertainty=[3.0, 7.0, 4.0]
    )
    data = jnp.asarray([60.0, 61.0, 44.0] + model.config.auxdata)

    def loss(params, data):
        return -2.0 * model.logpdf(params, data)[0]

    return loss, (jnp.asarray(model.config.suggested_init()) * 0.97, data)

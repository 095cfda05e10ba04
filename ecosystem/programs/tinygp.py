# /// script
# requires-python = ">=3.11"
# dependencies = ["tinygp"]
# ///
"""tinygp: the likelihood of a quasiseparable Gaussian process and of a dense one."""

import jax.numpy as jnp
from tinygp import GaussianProcess, kernels


def make():
    x = jnp.linspace(0, 3, 20)
    y = jnp.sin(3 * x)

    def loss(params, x, y):
        scale, sigma = jnp.exp(params["log_scale"]), jnp.exp(params["log_sigma"])
        dense = sigma**2 * kernels.ExpSquared(scale) + kernels.Matern32(2 * scale)
        fast = kernels.quasisep.Matern52(scale=scale, sigma=sigma)
        return -sum(
            GaussianProcess(kernel, x, diag=0.05, mean=params["mean"]).log_probability(y)
            for kernel in (dense, fast)
        )

    params = {
        "log_scale": jnp.float32(-0.2),
        "log_sigma": jnp.float32(0.1),
        "mean": jnp.float32(0.0),
    }
    return loss, (params, x, y)

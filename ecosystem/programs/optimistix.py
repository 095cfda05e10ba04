# /// script
# requires-python = ">=3.11"
# dependencies = ["optimistix"]
# ///
"""optimistix: the least squares fit of a decay, and the root of an implicit Euler step."""

import jax.numpy as jnp
import optimistix as optx


def make():
    times = jnp.linspace(0, 2, 12)
    values = 2.0 * jnp.exp(-0.7 * times) + 0.01 * jnp.cos(9 * times)

    def loss(params, times, values):
        def residuals(theta, args):
            times, values = args
            return (theta[0] * jnp.exp(-theta[1] * times) - values) * params["weight"]

        fit = optx.least_squares(
            residuals,
            optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5),
            jnp.array([1.0, 1.0]),
            args=(times, values),
        )

        def implicit(y, args):
            return y - (fit.value + 0.1 * jnp.tanh(params["rate"] * y))

        root = optx.root_find(implicit, optx.Newton(rtol=1e-5, atol=1e-5), fit.value)
        return jnp.sum(root.value**2)

    params = {"weight": jnp.linspace(1.0, 2.0, 12), "rate": jnp.float32(0.5)}
    return loss, (params, times, values)

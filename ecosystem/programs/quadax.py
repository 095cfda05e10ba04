# /// script
# requires-python = ">=3.11"
# dependencies = ["quadax"]
# ///
"""quadax: an integral by adaptive Gauss-Kronrod quadrature, in the integrand and its bounds."""

import jax.numpy as jnp
import quadax


def make():
    def loss(params, bounds):
        def integrand(t):
            return params["a"] * jnp.exp(-params["b"] * t**2) * jnp.cos(params["c"] * t)

        integral, _ = quadax.quadgk(integrand, bounds, epsabs=1e-5, epsrel=1e-5)
        return integral**2

    params = {"a": jnp.float32(1.5), "b": jnp.float32(0.7), "c": jnp.float32(2.0)}
    return loss, (params, jnp.array([0.0, 2.0]))

# /// script
# requires-python = ">=3.11"
# dependencies = ["quadax"]
# ///
"""quadax: integrals by adaptive Gauss-Kronrod and Clenshaw-Curtis quadrature, and by Romberg's."""

import jax.numpy as jnp
import quadax


def make():
    def loss(params, bounds):
        def integrand(t):
            return params["a"] * jnp.exp(-params["b"] * t**2) * jnp.cos(params["c"] * t)

        gauss, _ = quadax.quadgk(integrand, bounds, epsabs=1e-5, epsrel=1e-5)
        clenshaw, _ = quadax.quadcc(integrand, bounds, epsabs=1e-5, epsrel=1e-5)
        romberg, _ = quadax.romberg(integrand, bounds, epsabs=1e-4, epsrel=1e-4, divmax=8)
        return gauss**2 + clenshaw + romberg

    params = {"a": jnp.float32(1.5), "b": jnp.float32(0.7), "c": jnp.float32(2.0)}
    return loss, (params, jnp.array([0.0, 2.0]))

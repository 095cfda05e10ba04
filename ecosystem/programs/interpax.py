# /// script
# requires-python = ">=3.11"
# dependencies = ["interpax"]
# ///
"""interpax: monotonic and cubic interpolation in one dimension, and cubic interpolation in two."""

import interpax
import jax
import jax.numpy as jnp


def make():
    x = jnp.linspace(0, 1, 8)
    queries = jax.random.uniform(jax.random.key(0), (20,))
    table = jnp.sin(3 * x)[:, None] * jnp.cos(2 * x)[None, :]

    def loss(params, x, queries):
        one = interpax.interp1d(queries, x, params["values"], method="monotonic")
        two = interpax.interp1d(queries, x, params["values"], method="cubic2")
        plane = interpax.interp2d(queries, queries[::-1], x, x, params["table"], method="cubic")
        spline = interpax.CubicSpline(x, params["values"], check=False)(queries)
        return jnp.mean(one**2 + two * plane + spline**2)

    return loss, ({"values": jnp.exp(x), "table": table}, x, queries)

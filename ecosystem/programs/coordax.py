# /// script
# requires-python = ">=3.11"
# dependencies = ["coordax", "chex"]
# ///
"""coordax: reaction and diffusion on a grid with named axes, in their rates."""

import coordax as cx
import jax
import jax.numpy as jnp


def make():
    columns = cx.SizedAxis("x", 6)
    rows = cx.LabeledAxis("y", jnp.linspace(0, 1, 5))

    def laplacian(values):
        return jnp.roll(values, 1) + jnp.roll(values, -1) - 2 * values

    def loss(params, initial):
        def step(field, _):
            diffused = cx.cmap(laplacian)(field.untag("x")).tag("x")
            growth = params["growth"] * field * (1 - field)
            return field + params["diffusion"] * diffused + growth, None

        field, _ = jax.lax.scan(step, cx.field(initial, columns, rows), None, length=5)
        return jnp.sum(field.data**2)

    params = {"diffusion": jnp.float32(0.1), "growth": jnp.float32(0.2)}
    return loss, (params, jax.random.uniform(jax.random.key(0), (6, 5)))

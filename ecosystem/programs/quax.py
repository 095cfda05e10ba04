# /// script
# requires-python = ">=3.11"
# dependencies = ["quax"]
# ///
"""Quax: the layers of an Equinox network with low-rank updates, through arrays of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
import quax.examples.lora as lora


def make():
    model = eqx.nn.MLP(4, 1, 8, 2, key=jax.random.key(0))
    adapted = lora.loraify(model, rank=2, scale=0.1, key=jax.random.key(1))
    params, static = eqx.partition(adapted, eqx.is_array)
    x = jax.random.normal(jax.random.key(2), (5, 4))

    def loss(params, x):
        network = eqx.combine(params, static)
        outputs = jax.vmap(lambda row: quax.quaxify(type(network).__call__)(network, row))(x)
        return jnp.mean((outputs - jnp.sin(x[:, :1])) ** 2)

    return loss, (params, x)

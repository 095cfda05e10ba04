# /// script
# requires-python = ">=3.11"
# dependencies = ["penzai"]
# ///
"""Penzai: a network of named axes with attention, as a tree of its parameters."""

import jax
import jax.numpy as jnp
from penzai import pz


def make():
    network = pz.nn.Sequential(
        [
            pz.nn.Affine.from_config(
                "inner", init_base_rng=jax.random.key(0), input_axes={"x": 4}, output_axes={"y": 8}
            ),
            pz.nn.Elementwise(jax.nn.gelu),
            pz.nn.RMSLayerNorm.from_config(
                "norm", init_base_rng=jax.random.key(2), across_axes={"y": 8}
            ),
            pz.nn.Linear.from_config(
                "outer", init_base_rng=jax.random.key(1), input_axes={"y": 8}, output_axes={"z": 3}
            ),
            pz.nn.Softmax("z"),
        ]
    )
    frozen, variables = pz.unbind_variables(network, freeze=True)
    inputs = pz.nx.wrap(jax.random.normal(jax.random.key(3), (10, 4))).tag("batch", "x")
    labels = jnp.arange(10) % 3

    def loss(variables, inputs, labels):
        network = pz.bind_variables(frozen, variables)
        probabilities = network(inputs).unwrap("batch", "z")
        return -jnp.mean(jnp.log(jnp.take_along_axis(probabilities, labels[:, None], 1)))

    return loss, (variables, inputs, labels)

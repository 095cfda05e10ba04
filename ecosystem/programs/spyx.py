# /// script
# requires-python = ">=3.11"
# dependencies = ["spyx"]
# ///
"""spyx: a spiking network over time, with surrogate gradients of its spikes."""

import jax
import jax.numpy as jnp
import spyx.nn as snn
from flax import nnx


def make():
    network = snn.Sequential(
        nnx.Linear(4, 6, rngs=nnx.Rngs(0)),
        snn.LIF((6,), rngs=nnx.Rngs(1)),
        nnx.Linear(6, 3, rngs=nnx.Rngs(2)),
        snn.LI((3,), rngs=nnx.Rngs(3)),
    )
    graph, params = nnx.split(network)

    def loss(params, inputs):
        outputs, _ = snn.run(nnx.merge(graph, params), inputs)
        return jnp.mean(jax.nn.logsumexp(jnp.sum(outputs, 0), -1))

    return loss, (params, jax.random.normal(jax.random.key(0), (7, 2, 4)))

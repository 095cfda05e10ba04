# /// script
# requires-python = ">=3.11"
# dependencies = ["jraph"]
# ///
"""Jraph: two rounds of a graph network over a batch of padded graphs."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np


def graph(seed, nodes, edges):
    rng = np.random.default_rng(seed)
    return jraph.GraphsTuple(
        nodes=rng.normal(size=(nodes, 4)).astype(np.float32),
        edges=rng.normal(size=(edges, 2)).astype(np.float32),
        senders=rng.integers(0, nodes, edges),
        receivers=rng.integers(0, nodes, edges),
        n_node=np.array([nodes]),
        n_edge=np.array([edges]),
        globals=np.ones((1, 3), np.float32),
    )


def make():
    graphs = jraph.pad_with_graphs(jraph.batch([graph(0, 5, 8), graph(1, 3, 4)]), 12, 20, 3)
    graphs = jax.tree.map(jnp.asarray, graphs)
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "edge": jax.random.normal(keys[0], (2 + 4 + 4 + 3, 2)) / 3,
        "node": jax.random.normal(keys[1], (4 + 2 + 2 + 3, 4)) / 3,
        "global": jax.random.normal(keys[2], (4 + 2 + 3, 3)) / 3,
        "attention": jax.random.normal(keys[3], (4, 4)) / 2,
    }

    def loss(params, graphs):
        def layer(name):
            return lambda *inputs: jnp.tanh(jnp.concatenate(inputs, -1) @ params[name])

        network = jraph.GraphNetwork(layer("edge"), layer("node"), layer("global"))
        attention = jraph.GraphConvolution(lambda nodes: nodes @ params["attention"])
        out = attention(network(network(graphs)))
        mask = jraph.get_graph_padding_mask(graphs)
        pooled = jraph.segment_mean(
            out.nodes, jnp.repeat(jnp.arange(3), graphs.n_node, total_repeat_length=12), 3
        )
        return jnp.sum(jnp.where(mask, jnp.sum(out.globals**2, -1) + jnp.sum(pooled**2, -1), 0.0))

    return loss, (params, graphs)

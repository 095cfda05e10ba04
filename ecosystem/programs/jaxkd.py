# /// script
# requires-python = ">=3.11"
# dependencies = ["jaxkd"]
# ///
"""jaxkd: how far the nearest neighbours of some points are, by a k-d tree, in the neighbours."""

import jax
import jax.numpy as jnp
import jaxkd


def make():
    points = jax.random.normal(jax.random.key(0), (32, 2))
    queries = jax.random.normal(jax.random.key(1), (5, 2))

    def loss(points, queries):
        tree = jaxkd.build_tree(jax.lax.stop_gradient(points))
        nearest, _ = jaxkd.query_neighbors(tree, queries, k=4)
        squares = jnp.sum((points[nearest] - queries[:, None]) ** 2, axis=-1)
        return jnp.sum(jnp.log1p(squares))

    return loss, (points, queries)

# /// script
# requires-python = ">=3.11"
# dependencies = ["signax"]
# ///
"""signax: a linear model on the signatures and log-signatures of paths."""

import jax
import jax.numpy as jnp
import signax


def make():
    paths = jnp.cumsum(jax.random.normal(jax.random.key(0), (8, 12, 3)) / 4, 1)
    targets = paths[:, -1, 0] * paths[:, -1, 1]
    features = 3 + 9 + 27

    def loss(params, paths, targets):
        bent = jnp.tanh(paths @ params["bend"])
        signature = jax.vmap(lambda path: signax.signature(path, depth=3))(bent)
        logarithm = jax.vmap(lambda path: signax.logsignature(path, depth=2))(bent)
        predicted = signature @ params["w"] + jnp.sum(logarithm, -1)
        return jnp.mean((predicted - targets) ** 2)

    params = {"bend": jnp.eye(3), "w": jnp.linspace(-1, 1, features)}
    return loss, (params, paths, targets)

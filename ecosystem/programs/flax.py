# /// script
# requires-python = ">=3.11"
# dependencies = ["flax"]
# ///
"""Flax NNX: a transformer layer with dropout on a sequence of tokens, as its parameters."""

import jax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(20, 8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.1)
        self.head = nnx.Linear(8, 20, rngs=rngs)

    def __call__(self, tokens, rngs):
        x = self.embed(tokens)
        mask = nnx.make_causal_mask(tokens)
        x = x + self.attention(self.norm(x), mask=mask)
        return self.head(self.dropout(jax.nn.gelu(x), rngs=rngs))


def make():
    tokens = jnp.arange(24).reshape(3, 8) % 20
    graph, params = nnx.split(Model(nnx.Rngs(0)))

    def loss(params, tokens, key):
        logits = nnx.merge(graph, params)(tokens, nnx.Rngs(dropout=key))
        log_probabilities = jax.nn.log_softmax(logits[:, :-1])
        return -jnp.mean(jnp.take_along_axis(log_probabilities, tokens[:, 1:, None], -1))

    return loss, (params, tokens, jax.random.key(1))

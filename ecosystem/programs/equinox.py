# /// script
# requires-python = ">=3.11"
# dependencies = ["equinox"]
# ///
"""Equinox: a recurrent network over a sequence, with a stateful normalization before its head."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Model(eqx.Module):
    cell: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        keys = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(3, 8, key=keys[0])
        self.norm = eqx.nn.LayerNorm(8)
        self.head = eqx.nn.Linear(8, 1, key=keys[1])
        self.dropout = eqx.nn.Dropout(0.2)

    def __call__(self, xs, key):
        hidden, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(8), xs)
        return self.head(self.dropout(self.norm(hidden), key=key))[0]


def make():
    sequences = jax.random.normal(jax.random.key(1), (6, 10, 3))
    labels = jnp.arange(6) % 2

    @eqx.filter_jit
    def loss(model, sequences, labels, key):
        logits = jax.vmap(model)(sequences, jax.random.split(key, 6))
        return jnp.mean(jnp.logaddexp(0.0, logits) - labels * logits)

    params, static = eqx.partition(Model(jax.random.key(0)), eqx.is_inexact_array)

    def of_params(params, sequences, labels, key):
        return loss(eqx.combine(params, static), sequences, labels, key)

    return of_params, (params, sequences, labels, jax.random.key(2))

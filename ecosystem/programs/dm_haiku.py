# /// script
# requires-python = ">=3.11"
# dependencies = ["dm-haiku"]
# ///
"""Haiku: a convolutional network with an LSTM behind it, and dropout."""

import haiku as hk
import jax
import jax.numpy as jnp


def network(images):
    x = jax.nn.relu(hk.Conv2D(4, 3, stride=2)(images))
    x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
    x = x.reshape(x.shape[0], x.shape[1], -1).swapaxes(0, 1)
    core = hk.LSTM(8)
    x, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
    x = hk.dropout(hk.next_rng_key(), 0.2, x[-1])
    return hk.nets.MLP([8, 3])(x)


def make():
    images = jax.random.normal(jax.random.key(0), (4, 8, 8, 1))
    labels = jnp.array([0, 1, 2, 1])
    transformed = hk.transform(network)
    key = jax.random.key(1)
    params = transformed.init(key, images)

    def loss(params, key, images, labels):
        logits = transformed.apply(params, key, images)
        return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 3) * jax.nn.log_softmax(logits), -1))

    return loss, (params, key, images, labels)

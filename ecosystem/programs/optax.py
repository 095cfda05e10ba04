# /// script
# requires-python = ">=3.11"
# dependencies = ["optax"]
# ///
"""optax: the loss after some steps of Adam, in the parameters that it began with (unrolled)."""

import jax
import jax.numpy as jnp
import optax


def make():
    x = jax.random.normal(jax.random.key(0), (64, 8))
    y = jnp.sin(x @ jnp.arange(8.0))
    params = {"w": jnp.ones(8) / 8, "b": jnp.float32(0.1)}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.05))

    def loss(params, x, y):
        return optax.losses.huber_loss(jnp.tanh(x @ params["w"] + params["b"]), y).mean()

    def trained(params, x, y):
        def step(carry, _):
            params, state = carry
            updates, state = optimizer.update(jax.grad(loss)(params, x, y), state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), length=10)
        return loss(params, x, y)

    return trained, (params, x, y)

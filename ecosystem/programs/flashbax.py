# /// script
# requires-python = ">=3.11"
# dependencies = ["flashbax"]
# ///
"""Flashbax: a value function's error on transitions from a prioritised replay buffer."""

import flashbax as fbx
import jax
import jax.numpy as jnp


def make():
    buffer = fbx.make_prioritised_flat_buffer(
        max_length=16, min_length=4, sample_batch_size=5, priority_exponent=0.6
    )
    experience = {"state": jnp.zeros(3), "reward": jnp.float32(0)}
    empty = buffer.init(experience)
    states = jax.random.normal(jax.random.key(0), (9, 3))

    def loss(weights, states, key):
        def add(memory, state):
            transition = {"state": state, "reward": jnp.tanh(jnp.sum(state))}
            return buffer.add(memory, transition), None

        memory, _ = jax.lax.scan(add, empty, states)

        def learn(carry, key):
            memory, total = carry
            batch = buffer.sample(memory, key)
            pairs = batch.experience
            values = jnp.tanh(pairs.first["state"] @ weights)
            following = jnp.tanh(pairs.second["state"] @ weights)
            errors = pairs.first["reward"] + 0.9 * following - values
            memory = buffer.set_priorities(memory, batch.indices, jnp.abs(errors) + 0.1)
            return (memory, total + jnp.mean(errors**2 / batch.probabilities)), None

        (_, total), _ = jax.lax.scan(learn, (memory, 0.0), jax.random.split(key, 3))
        return total

    return loss, (jnp.array([0.3, -0.2, 0.5]), states, jax.random.key(1))

# /// script
# requires-python = ">=3.11"
# dependencies = ["brax"]
# ///
"""Brax: the reward of a pendulum under a policy, through the spring pipeline's steps."""

import jax
import jax.numpy as jnp
from brax import envs


def make():
    env = envs.get_environment("inverted_pendulum", backend="spring")
    state = jax.jit(env.reset)(jax.random.key(0))
    weights = 0.1 * jnp.ones((env.observation_size, env.action_size))

    def loss(weights, state):
        def step(state, _):
            state = env.step(state, jnp.tanh(state.obs @ weights))
            return state, state.reward - 0.1 * jnp.sum(state.obs**2)

        _, rewards = jax.lax.scan(step, state, length=4)
        return -jnp.mean(rewards)

    return loss, (weights, state)

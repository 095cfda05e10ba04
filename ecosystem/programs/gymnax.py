# /// script
# requires-python = ">=3.11"
# dependencies = ["gymnax", "six"]
# ///
"""Gymnax: the return of a policy that swings a pendulum up, through the environment's steps."""

import gymnax
import jax
import jax.numpy as jnp


def make():
    env, env_params = gymnax.make("Pendulum-v1")
    keys = jax.random.split(jax.random.key(0), 2)
    params = {"w": 0.3 * jax.random.normal(keys[0], (3, 4)), "v": jnp.ones((4, 1)) / 4}

    def loss(params, key):
        key, reset = jax.random.split(key)
        obs, state = env.reset(reset, env_params)

        def step(carry, key):
            obs, state = carry
            action = jnp.tanh(jnp.tanh(obs @ params["w"]) @ params["v"])
            obs, state, reward, *_ = env.step(key, state, action, env_params)
            return (obs, state), reward

        _, rewards = jax.lax.scan(step, (obs, state), jax.random.split(key, 10))
        return -jnp.mean(rewards)

    return loss, (params, keys[1])

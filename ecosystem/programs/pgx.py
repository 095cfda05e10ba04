# /// script
# requires-python = ">=3.11"
# dependencies = ["pgx"]
# ///
"""Pgx: the policy gradient of games of connect four that a network plays against itself."""

import jax
import jax.numpy as jnp
import pgx


def make():
    env = pgx.make("connect_four")
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "w": 0.1 * jax.random.normal(keys[0], (6 * 7 * 2, 16)),
        "policy": 0.1 * jax.random.normal(keys[1], (16, 7)),
    }

    def loss(params, key):
        start, play = jax.random.split(key)
        state = jax.vmap(env.init)(jax.random.split(start, 4))

        def step(state, key):
            hidden = jnp.tanh(state.observation.reshape(4, -1).astype(jnp.float32) @ params["w"])
            logits = jnp.where(state.legal_action_mask, hidden @ params["policy"], -1e9)
            action = jax.random.categorical(key, logits)
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
            player = state.current_player
            following = jax.vmap(env.step)(state, action)
            reward = jnp.take_along_axis(following.rewards, player[:, None], 1)[:, 0]
            return following, chosen * jnp.where(state.terminated, 0.0, reward + 0.1)

        _, gains = jax.lax.scan(step, state, jax.random.split(play, 8))
        return -jnp.mean(gains)

    return loss, (params, keys[2])

# /// script
# requires-python = ">=3.11"
# dependencies = ["rlax"]
# ///
"""RLax: losses of an actor and critic with V-trace, and of a distributional critic."""

import jax
import jax.numpy as jnp
import rlax


def make():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "policy": 0.3 * jax.random.normal(keys[0], (4, 3)),
        "value": 0.3 * jax.random.normal(keys[1], (4,)),
        "quantiles": 0.3 * jax.random.normal(keys[2], (4, 3 * 5)),
    }
    observations = jax.random.normal(keys[3], (9, 4))
    actions = jnp.arange(8) % 3
    rewards = jnp.sin(jnp.arange(8.0))

    def loss(params, observations, actions, rewards):
        logits, values = observations @ params["policy"], observations @ params["value"]
        behaviour = jax.lax.stop_gradient(0.9 * logits[:-1])
        ratios = rlax.categorical_importance_sampling_ratios(logits[:-1], behaviour, actions)
        discounts = jnp.full(8, 0.9)
        trace = rlax.vtrace_td_error_and_advantage(
            values[:-1], values[1:], rewards, discounts, ratios
        )
        policy = rlax.policy_gradient_loss(logits[:-1], actions, trace.pg_advantage, jnp.ones(8))
        entropy = rlax.entropy_loss(logits[:-1], jnp.ones(8))
        quantiles = (observations @ params["quantiles"]).reshape(9, 5, 3)
        levels = (jnp.arange(5) + 0.5) / 5
        learning = jax.vmap(rlax.quantile_q_learning, (0, None, 0, 0, 0, 0, 0, None))
        distribution = learning(
            quantiles[:-1],
            levels,
            actions,
            rewards,
            discounts,
            quantiles[1:],
            quantiles[1:],
            1.0,
        )
        return policy + 0.01 * entropy + jnp.mean(trace.errors**2) + jnp.mean(distribution)

    return loss, (params, observations, actions, rewards)

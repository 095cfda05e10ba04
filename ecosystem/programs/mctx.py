# /// script
# requires-python = ">=3.11"
# dependencies = ["mctx"]
# ///
"""mctx: a Gumbel MuZero search with a small network, and the loss of its policy and value."""

import jax
import jax.numpy as jnp
import mctx

BATCH, STATE, ACTIONS = 4, 8, 3


def make():
    keys = jax.random.split(jax.random.key(0), 5)
    params = {
        "dynamics": 0.3 * jax.random.normal(keys[0], (STATE + ACTIONS, STATE)),
        "policy": 0.3 * jax.random.normal(keys[1], (STATE, ACTIONS)),
        "value": 0.3 * jax.random.normal(keys[2], (STATE,)),
        "reward": 0.3 * jax.random.normal(keys[3], (STATE,)),
    }
    observation = jax.random.normal(keys[4], (BATCH, STATE))

    def predict(params, state):
        return state @ params["policy"], jnp.tanh(state @ params["value"])

    def recurrent(params, key, action, state):
        del key
        inputs = jnp.concatenate([state, jax.nn.one_hot(action, ACTIONS)], -1)
        state = jnp.tanh(inputs @ params["dynamics"])
        logits, value = predict(params, state)
        output = mctx.RecurrentFnOutput(
            reward=state @ params["reward"],
            discount=jnp.full((BATCH,), 0.9),
            prior_logits=logits,
            value=value,
        )
        return output, state

    def loss(params, observation, key):
        logits, value = predict(params, observation)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=observation)
        search = mctx.gumbel_muzero_policy(
            jax.lax.stop_gradient(params),
            key,
            jax.lax.stop_gradient(root),
            recurrent,
            num_simulations=8,
            max_num_considered_actions=ACTIONS,
        )
        target = search.search_tree.summary().value
        policy = -jnp.sum(search.action_weights * jax.nn.log_softmax(logits), -1)
        return jnp.mean(policy + (value - target) ** 2)

    return loss, (params, observation, jax.random.key(1))

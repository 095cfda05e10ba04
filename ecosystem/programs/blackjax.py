# /// script
# requires-python = ">=3.11"
# dependencies = ["blackjax"]
# ///
"""blackjax: a chain of HMC on a logistic regression; the loss is of the states that it visits."""

import blackjax
import jax
import jax.numpy as jnp


def make():
    x = jax.random.normal(jax.random.key(0), (50, 3))
    y = (x @ jnp.array([1.0, -2.0, 0.5]) > 0).astype(jnp.float32)

    def log_density(w, x, y):
        logits = x @ w
        return jnp.sum(y * logits - jnp.logaddexp(0.0, logits)) - 0.5 * jnp.sum(w**2)

    def loss(w, x, y, key):
        hmc = blackjax.hmc(
            lambda w: log_density(w, x, y),
            step_size=1e-2,
            inverse_mass_matrix=jnp.ones(3),
            num_integration_steps=5,
        )

        def step(state, key):
            state, info = hmc.step(key, state)
            return state, (state.position, info.acceptance_rate)

        _, (positions, rates) = jax.lax.scan(step, hmc.init(w), jax.random.split(key, 5))
        return jnp.mean(positions**2) + jnp.mean(rates)

    return loss, (jnp.array([0.5, -0.5, 0.1]), x, y, jax.random.key(1))

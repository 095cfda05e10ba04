# /// script
# requires-python = ">=3.11"
# dependencies = ["cuthbert"]
# ///
"""cuthbert: the likelihood of a track by a square-root Kalman filter, parallel in time."""

import jax
import jax.numpy as jnp
from cuthbert import filtering
from cuthbert.gaussian import kalman


def make():
    observations = jnp.cumsum(jax.random.normal(jax.random.key(0), (7, 1)), axis=0)

    def loss(params, observations):
        def dynamics(step):
            transition = jnp.array([[1.0, 0.1], [0.0, 1.0]])
            return transition, jnp.zeros(2), params["diffusion"] * jnp.eye(2)

        def observe(step):
            noise = params["noise"] * jnp.eye(1)
            return jnp.array([[1.0, 0.0]]), jnp.zeros(1), noise, observations[step - 1]

        model = kalman.build_filter(params["mean"], jnp.eye(2), dynamics, observe)
        steps = jnp.arange(1, len(observations) + 1)
        states = filtering.filter(model, steps, model.init_prepare(), parallel=True)
        return jnp.sum(states.mean[-1] ** 2) - states.log_normalizing_constant[-1]

    params = {"mean": jnp.zeros(2), "diffusion": jnp.float32(0.5), "noise": jnp.float32(0.8)}
    return loss, (params, observations)

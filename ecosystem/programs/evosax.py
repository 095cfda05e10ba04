# /// script
# requires-python = ">=3.11"
# dependencies = ["evosax"]
# ///
"""evosax: where some generations of CMA-ES and of OpenAI's strategy end, in where they begin."""

import jax
import jax.numpy as jnp
import optax
from evosax.algorithms import CMA_ES, Open_ES


def make():
    solution = jnp.zeros(4)

    def fitness(x):
        return jnp.sum(x**2) + 2 * jnp.sum(1 - jnp.cos(2 * x))

    def loss(mean, key):
        total = 0.0
        for strategy in (
            CMA_ES(population_size=8, solution=solution),
            Open_ES(population_size=8, solution=solution, optimizer=optax.adam(0.05)),
        ):
            params = strategy.default_params
            state = strategy.init(key, mean, params)

            def generation(state, key, strategy=strategy, params=params):
                ask, tell = jax.random.split(key)
                population, state = strategy.ask(ask, state, params)
                state, _ = strategy.tell(
                    tell, population, jax.vmap(fitness)(population), state, params
                )
                return state, None

            state, _ = jax.lax.scan(generation, state, jax.random.split(key, 4))
            total += fitness(state.mean)
        return total

    return loss, (jnp.array([1.0, -0.5, 0.3, 0.8]), jax.random.key(0))

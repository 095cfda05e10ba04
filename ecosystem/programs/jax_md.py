# /// script
# requires-python = ">=3.11"
# dependencies = ["jax-md"]
# ///
"""JAX MD: the energy of soft spheres after some steps of minimization, in their radii."""

import jax
import jax.numpy as jnp
from jax_md import energy, minimize, space


def make():
    box = 4.0
    displacement, shift = space.periodic(box)
    positions = box * jax.random.uniform(jax.random.key(0), (16, 2))
    species = jnp.where(jnp.arange(16) < 8, 0, 1)

    def loss(diameter, positions):
        sigma = jnp.array([[1.0, 1.0], [1.0, 1.0]]) * diameter
        pair = energy.soft_sphere_pair(displacement, species=species, sigma=sigma)
        init, apply = minimize.fire_descent(pair, shift)
        state = jax.lax.fori_loop(0, 5, lambda _, state: apply(state), init(positions))
        return pair(state.position)

    return loss, (jnp.float32(1.1), positions)

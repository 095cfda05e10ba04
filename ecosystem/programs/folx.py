# /// script
# requires-python = ">=3.11"
# dependencies = ["folx"]
# ///
"""folx: the kinetic energy of a small wave function by a forward Laplacian."""

import folx
import jax
import jax.numpy as jnp


def make():
    keys = jax.random.split(jax.random.key(0), 3)
    params = [jax.random.normal(keys[0], (6, 16)) / 3, jax.random.normal(keys[1], (16, 1)) / 4]
    electrons = jax.random.normal(keys[2], (8, 6))

    def log_psi(params, x):
        distance = jnp.linalg.norm(x[:3] - x[3:])
        return jnp.squeeze(jnp.tanh(x @ params[0]) @ params[1]) - distance

    def loss(params, electrons):
        def energy(x):
            laplacian = folx.forward_laplacian(lambda x: log_psi(params, x))(x)
            return -0.5 * (laplacian.laplacian + jnp.sum(laplacian.jacobian.dense_array**2))

        return jnp.mean(jax.vmap(energy)(electrons))

    return loss, (params, electrons)

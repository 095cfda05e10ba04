# /// script
# requires-python = ">=3.11"
# dependencies = ["jax-cfd"]
# ///
"""JAX-CFD: the enstrophy after some steps of an incompressible flow, in its initial velocity."""

import jax
import jax.numpy as jnp
import jax_cfd.base as cfd


def make():
    grid = cfd.grids.Grid((16, 16), domain=((0, 2 * jnp.pi), (0, 2 * jnp.pi)))
    velocity = cfd.initial_conditions.filtered_velocity_field(
        jax.random.key(0), grid, maximum_velocity=2.0, peak_wavenumber=2
    )
    step = cfd.equations.semi_implicit_navier_stokes(
        density=1.0, viscosity=1e-2, dt=0.02, grid=grid
    )

    def loss(velocity):
        velocity = cfd.funcutils.repeated(step, steps=3)(velocity)
        return jnp.mean(cfd.finite_differences.curl_2d(velocity).data ** 2)

    return loss, (velocity,)

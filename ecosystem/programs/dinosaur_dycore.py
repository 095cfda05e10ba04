# /// script
# requires-python = ">=3.11"
# dependencies = ["dinosaur-dycore"]
# ///
"""Dinosaur: some steps of the shallow water equations on the sphere, in the initial state."""

import jax
import jax.numpy as jnp
import numpy as np
from dinosaur import (
    coordinate_systems,
    layer_coordinates,
    scales,
    shallow_water,
    shallow_water_states,
    spherical_harmonic,
    time_integration,
)


def make():
    grid = spherical_harmonic.Grid.T21()
    coords = coordinate_systems.CoordinateSystem(grid, layer_coordinates.LayerCoordinates(1))
    specs = shallow_water.ShallowWaterSpecs.from_si(np.ones(1) * scales.WATER_DENSITY)
    random_state, features = shallow_water_states.barotropic_instability_tc(coords, specs)
    state = random_state(jax.random.key(0))
    dt = specs.nondimensionalize(600 * scales.units.s)
    orography = grid.to_modal(np.zeros(grid.nodal_shape))
    equation = shallow_water.ShallowWaterEquations(
        coords, specs, orography, features["reference_potential"]
    )
    step = time_integration.imex_rk_sil3(equation, dt)

    def loss(state):
        state = time_integration.repeated(step, 3)(state)
        return jnp.mean(grid.to_nodal(state.vorticity) ** 2)

    return loss, (jax.tree.map(jnp.asarray, state),)

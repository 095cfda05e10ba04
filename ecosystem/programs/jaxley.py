# /// script
# requires-python = ">=3.11"
# dependencies = ["jaxley"]
# ///
"""Jaxley: the voltage of a branched neuron with Hodgkin-Huxley channels, in its conductances."""

import jax.numpy as jnp
import jaxley as jx
from jaxley.channels import HH


def make():
    branch = jx.Branch(jx.Compartment(), ncomp=2)
    cell = jx.Cell(branch, parents=[-1, 0, 0])
    cell.insert(HH())
    cell.branch(0).loc(0.0).stimulate(jx.step_current(0.1, 0.5, 0.1, 0.025, 0.6))
    cell.branch(1).loc(1.0).record(verbose=False)
    cell.make_trainable("HH_gNa", verbose=False)
    cell.make_trainable("HH_gK", verbose=False)
    params = cell.get_parameters()

    def loss(params):
        voltage = jx.integrate(cell, params=params, delta_t=0.025)
        return jnp.mean((voltage + 65.0) ** 2)

    return loss, (params,)

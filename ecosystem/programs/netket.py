# /// script
# requires-python = ">=3.11"
# dependencies = ["netket"]
# ///
"""NetKet: the energy of a transverse field Ising model in a restricted Boltzmann machine."""

import jax
import jax.numpy as jnp
import netket as nk


def make():
    graph = nk.graph.Chain(length=6)
    space = nk.hilbert.Spin(s=0.5, N=graph.n_nodes)
    hamiltonian = nk.operator.IsingJax(space, graph=graph, h=1.0)
    machine = nk.models.RBM(alpha=1, param_dtype=float)
    samples = space.random_state(jax.random.key(0), 16)
    params = machine.init(jax.random.key(1), samples)

    def loss(params, samples):
        connected, elements = hamiltonian.get_conn_padded(samples)
        ratios = jnp.exp(machine.apply(params, connected) - machine.apply(params, samples)[:, None])
        return jnp.mean(jnp.real(jnp.sum(elements * ratios, -1)))

    return loss, (params, samples)

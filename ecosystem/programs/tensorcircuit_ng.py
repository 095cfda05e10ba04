# /// script
# requires-python = ">=3.11"
# dependencies = ["tensorcircuit-ng"]
# ///
"""TensorCircuit: the energy of a transverse field Ising chain under a layered circuit."""

import jax.numpy as jnp
import tensorcircuit as tc

tc.set_backend("jax")


def make():
    n = 4

    def loss(params, field):
        circuit = tc.Circuit(n)
        for layer in params:
            for i in range(n - 1):
                circuit.rzz(i, i + 1, theta=layer[i, 0])
            for i in range(n):
                circuit.rx(i, theta=layer[i, 1])
        zz = sum(circuit.expectation_ps(z=[i, i + 1]) for i in range(n - 1))
        x = sum(circuit.expectation_ps(x=[i]) for i in range(n))
        return jnp.real(zz + field * x)

    return loss, (jnp.linspace(0.1, 1.2, 16).reshape(2, n, 2), jnp.float32(-1.1))

# /// script
# requires-python = ">=3.11"
# dependencies = ["pennylane"]
# ///
"""PennyLane: a variational circuit of three qubits, in its angles."""

import jax.numpy as jnp
import pennylane as qml


def make():
    device = qml.device("default.qubit", wires=3)

    @qml.qnode(device, interface="jax", diff_method="backprop")
    def circuit(weights, inputs):
        qml.AngleEmbedding(inputs, wires=range(3))
        qml.StronglyEntanglingLayers(weights, wires=range(3))
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(2)), qml.var(qml.PauliY(1))

    def loss(weights, inputs):
        product, variance = circuit(weights, inputs)
        return product + 0.3 * variance**2

    weights = jnp.linspace(0.1, 1.8, 18).reshape(2, 3, 3)
    return loss, (weights, jnp.array([0.3, 0.7, -0.4]))

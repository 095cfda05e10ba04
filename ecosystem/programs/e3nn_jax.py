# /// script
# requires-python = ">=3.11"
# dependencies = ["e3nn-jax"]
# ///
"""e3nn: an equivariant convolution over the neighbours of points, and the norm of what it gives."""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp


def make():
    positions = jax.random.normal(jax.random.key(0), (6, 3))
    features = e3nn.normal("4x0e + 2x1o", jax.random.key(1), (6,))
    irreps = e3nn.Irreps("4x0e + 2x1o")
    linear = e3nn.FunctionalLinear(
        e3nn.tensor_product(irreps, e3nn.Irreps("1x0e + 1x1o + 1x2e")).regroup(), irreps
    )
    weights = jax.tree.map(
        lambda shape: jax.random.normal(jax.random.key(2), shape),
        [i.path_shape for i in linear.instructions],
        is_leaf=lambda shape: isinstance(shape, tuple),
    )

    def loss(inputs, features):
        weights, positions = inputs
        vectors = e3nn.IrrepsArray("1o", positions[:, None] - positions[None, :])
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", vectors, normalize=False)
        radial = jnp.exp(-jnp.sum(vectors.array**2, -1))
        x = e3nn.IrrepsArray(irreps, features)
        messages = e3nn.tensor_product(x[None, :], harmonics).regroup()
        aggregated = jnp.einsum("ij,ijk->ik", radial, messages.array)
        out = jax.vmap(lambda m: linear(weights, m))(e3nn.IrrepsArray(messages.irreps, aggregated))
        return jnp.mean(e3nn.norm(out, squared=True).array)

    return loss, ((weights, positions), features.array)

# /// script
# requires-python = ">=3.11"
# dependencies = ["kfac-jax"]
# ///
"""KFAC-JAX: a loss with registered layers, and the product of its Gauss-Newton matrix."""

import jax
import jax.numpy as jnp
import kfac_jax


def make():
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "w": jax.random.normal(keys[0], (4, 8)) / 2,
        "b": jnp.zeros(8),
        "v": jax.random.normal(keys[1], (8, 3)) / 3,
        "c": jnp.zeros(3),
    }
    inputs = jax.random.normal(keys[2], (10, 4))
    labels = jnp.arange(10) % 3

    def model(params, batch):
        inputs, labels = batch
        hidden = jnp.tanh(inputs @ params["w"] + params["b"])
        logits = hidden @ params["v"] + params["c"]
        kfac_jax.register_softmax_cross_entropy_loss(logits, labels)
        log_probabilities = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], 1))

    estimator = kfac_jax.ImplicitExactCurvature(model)

    def loss(params, inputs, labels):
        batch = (inputs, labels)
        gradient = jax.grad(model)(params, batch)
        product = estimator.multiply_ggn((params, batch), gradient)
        return model(params, batch) - 0.1 * kfac_jax.utils.inner_product(gradient, product)

    return loss, (params, inputs, labels)

# /// script
# requires-python = ">=3.11"
# dependencies = ["tfp-nightly"]
# ///
"""TensorFlow Probability on JAX: a Gaussian process and a hierarchical joint distribution."""

import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb, tfk = tfp.distributions, tfp.bijectors, tfp.math.psd_kernels


def make():
    x = jnp.linspace(0, 1, 12)[:, None]
    y = jnp.sin(6 * x[:, 0])

    def loss(params, x, y):
        kernel = tfk.MaternFiveHalves(
            amplitude=jnp.exp(params["amplitude"]), length_scale=jnp.exp(params["scale"])
        )
        process = tfd.GaussianProcess(kernel, index_points=x, observation_noise_variance=0.1)
        model = tfd.JointDistributionSequential(
            [
                tfd.Gamma(2.0, 1.0),
                lambda rate: tfd.Exponential(rate),
                lambda width, rate: tfd.StudentT(3.0, 0.0, width),
            ]
        )
        flow = tfb.Chain([tfb.Softplus(), tfb.Scale(2.0)])
        rate, width = flow.forward(params["unconstrained"])
        return -process.log_prob(y) - model.log_prob([rate, width, params["location"]])

    params = {
        "amplitude": jnp.float32(0.1),
        "scale": jnp.float32(-1.0),
        "unconstrained": jnp.array([0.3, -0.2]),
        "location": jnp.float32(0.4),
    }
    return loss, (params, x, y)

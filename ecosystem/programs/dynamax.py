# /// script
# requires-python = ">=3.11"
# dependencies = ["dynamax"]
# ///
"""Dynamax: likelihoods of a Gaussian hidden Markov model and of a linear dynamical system."""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM


def make():
    emissions = jnp.cumsum(jax.random.normal(jax.random.key(0), (15, 2)) / 2, 0)
    markov, linear = GaussianHMM(3, 2), LinearGaussianSSM(state_dim=2, emission_dim=2)
    markov_params, _ = markov.initialize(jax.random.key(1))
    linear_params, _ = linear.initialize(jax.random.key(2))

    def loss(params, emissions):
        markov_params, linear_params = params
        smoothed = linear.smoother(linear_params, emissions)
        return -(
            markov.marginal_log_prob(markov_params, emissions)
            + linear.marginal_log_prob(linear_params, emissions)
            + jnp.sum(smoothed.smoothed_means**2)
        )

    return loss, ((markov_params, linear_params), emissions)

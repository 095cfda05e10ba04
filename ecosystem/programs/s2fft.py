# /// script
# requires-python = ">=3.11"
# dependencies = ["s2fft"]
# ///
"""s2fft: filtering a signal on the sphere in harmonic space, and the error of what comes back."""

import jax
import jax.numpy as jnp
import numpy as np
import s2fft

jax.config.update("jax_enable_x64", True)

L = 6


def make():
    rng = np.random.default_rng(0)
    flm = s2fft.utils.signal_generator.generate_flm(rng, L, reality=True)
    signal = jnp.real(s2fft.inverse_jax(jnp.asarray(flm), L))

    def loss(weights, signal):
        coefficients = s2fft.forward_jax(signal, L)
        filtered = s2fft.inverse_jax(coefficients * weights[:, None], L)
        return jnp.mean(jnp.abs(filtered - signal) ** 2)

    return loss, (jnp.linspace(0.5, 1.5, L), signal)

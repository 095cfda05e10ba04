# /// script
# requires-python = ">=3.11"
# dependencies = ["exojax"]
# ///
"""ExoJAX: the emission spectrum of an atmosphere with Voigt lines, in its temperature."""

import jax.numpy as jnp
from exojax.atm.atmprof import atmprof_powerlow, pressure_layer_logspace
from exojax.opacity.lpf.lpf import xsmatrix
from exojax.rt.layeropacity import layer_optical_depth
from exojax.rt.planck import piBarr
from exojax.rt.rtransfer import rtrun_emis_pureabs_fbased2st


def make():
    wavenumbers = jnp.linspace(4300.0, 4302.0, 24)
    lines = jnp.array([4300.4, 4301.1, 4301.7])
    strengths = jnp.array([1e-20, 3e-20, 2e-20])
    pressure, thickness, _ = pressure_layer_logspace(log_pressure_top=-4.0, nlayer=6)

    def loss(params, wavenumbers, lines, strengths):
        temperature = atmprof_powerlow(pressure, params["t0"], params["alpha"])
        doppler = 1e-2 * jnp.sqrt(temperature / 1000.0)[:, None] * jnp.ones(3)
        lorentz = 0.05 * (pressure * (temperature / 296.0) ** -0.5)[:, None] * jnp.ones(3)
        intensity = strengths * jnp.exp(1.0 - 1000.0 / temperature)[:, None]
        matrix = xsmatrix(wavenumbers[None, :] - lines[:, None], doppler, lorentz, intensity)
        depth = layer_optical_depth(
            jnp.asarray(thickness), matrix, params["mixing"] * jnp.ones(6), 28.0, 2478.57
        )
        flux = rtrun_emis_pureabs_fbased2st(depth, piBarr(temperature, wavenumbers))
        return jnp.mean(flux) / 1e4

    params = {
        "t0": jnp.float32(1200.0),
        "alpha": jnp.float32(0.1),
        "mixing": jnp.float32(0.01),
    }
    return loss, (params, wavenumbers, lines, strengths)

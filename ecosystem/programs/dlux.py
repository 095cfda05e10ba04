# /// script
# requires-python = ">=3.11"
# dependencies = ["dLux"]
# ///
"""dLux: the image of a star through a telescope with aberrations, in their coefficients."""

import dLux as dl
import dLux.utils as dlu
import jax.numpy as jnp


def make():
    size, diameter = 32, 1.0
    coordinates = dlu.pixel_coords(size, diameter)
    circle = dlu.circle(coordinates, diameter / 2)
    basis = jnp.stack([dlu.zernike(j, coordinates, diameter) for j in (4, 5, 6)])

    def loss(coefficients, flux):
        layers = [
            ("aperture", dl.layers.BasisOptic(basis, circle, 1e-7 * coefficients, normalise=True))
        ]
        optics = dl.AngularOpticalSystem(size, diameter, layers, 16, 0.2)
        source = dl.PointSource(wavelengths=[1e-6, 1.1e-6], flux=flux)
        image = optics.model(source)
        return jnp.sum(image**2) / jnp.sum(image)

    return loss, (jnp.array([0.3, -0.2, 0.1]), jnp.float32(10.0))

# /// script
# requires-python = ">=3.11"
# dependencies = ["jax-galsim"]
# ///
"""JAX-GalSim: the image of a sheared galaxy through a point spread function, in its shape."""

import jax.numpy as jnp
import jax_galsim as galsim


def make():
    size = galsim.GSParams(minimum_fft_size=64, maximum_fft_size=64)

    def loss(params):
        galaxy = galsim.Gaussian(flux=params["flux"], sigma=params["radius"])
        galaxy = galaxy.shear(g1=params["g1"], g2=0.1)
        psf = galsim.Gaussian(flux=1.0, sigma=0.5)
        final = galsim.Convolve([galaxy, psf], gsparams=size)
        image = final.drawImage(nx=16, ny=16, scale=0.3)
        return jnp.sum(image.array**2)

    params = {"flux": jnp.float32(5.0), "radius": jnp.float32(1.0), "g1": jnp.float32(0.2)}
    return loss, (params,)

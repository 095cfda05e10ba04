# /// script
# requires-python = ">=3.11"
# dependencies = ["dm-pix"]
# ///
"""PIX: augmentations with random draws, a rotation, and how far the image is from another."""

import dm_pix as pix
import jax
import jax.numpy as jnp


def make():
    # With the contrast raised no pixel is negative, of which adjust_gamma has no gradient.
    image = jax.random.uniform(jax.random.key(0), (12, 12, 3), minval=0.2, maxval=0.8)
    target = jax.random.uniform(jax.random.key(1), (12, 12, 3))

    def loss(params, image, target, key):
        flip, hue = jax.random.split(key)
        image = pix.adjust_gamma(pix.adjust_contrast(image, params["contrast"]), params["gamma"])
        image = pix.random_hue(hue, pix.random_flip_left_right(flip, image), 0.2)
        image = pix.rotate(image, params["angle"], mode="nearest")
        blurred = pix.gaussian_blur(image, sigma=1.0, kernel_size=3)
        return pix.mse(blurred, target) - pix.ssim(image, target, filter_size=5)

    params = {"contrast": jnp.float32(1.2), "gamma": jnp.float32(0.8), "angle": jnp.float32(0.3)}
    return loss, (params, image, target, jax.random.key(2))

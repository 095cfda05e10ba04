"""Functions for jaxmlir-translate to import."""

import jax
import jax.numpy as jnp
import numpy as np


def scaled_sum(x, w, *, mode="plus"):
    return x * 2 + w["bias"] if mode == "plus" else x * 2 - w["bias"]


def power(x, n):
    return x**n


def uniform(key):
    return jax.random.uniform(key, (2,))


class Layer:
    @staticmethod
    def apply(x):
        return jnp.sin(x)


def fails(x):
    return x @ jnp.ones((3, 3))


CONSTANT = 3


def squares(i):
    return jnp.asarray(np.arange(2000.0, dtype="float32") ** 2)[i]


@jax.custom_vjp
def halved_gradient(x, y):
    return x * y


def halved_gradient_fwd(x, y):
    return halved_gradient(x, y), (x, y)


def halved_gradient_bwd(residuals, ct):
    x, y = residuals
    return ct * y / 2, ct * x / 2


halved_gradient.defvjp(halved_gradient_fwd, halved_gradient_bwd)


def shows(x):
    print("traced for", x.shape)
    return x

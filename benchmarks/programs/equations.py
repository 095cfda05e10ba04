"""A program of any length."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.programs._registry import Program, normal


def many_equations(n: int, size: int = 8) -> Program:
    """A program of `n` equations, eight elementwise ones and two matrix products over and over.

    It measures what a compiler does per equation, so its arrays are tiny. The equations are small
    steps of an oscillator followed by rotations, which neither grow nor vanish, and so neither do
    the derivatives. The last equation is a sum.
    """
    rng = np.random.RandomState(14)
    rotation = np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)
    step_size = np.full((size, size), 1e-3, np.float32)
    product = partial(lax.dot_general, dimension_numbers=(((1,), (0,)), ((), ())))

    def many_equations(x, v, h, r):
        equations = (
            lambda x, v, t: (x, v, lax.sin(x)),
            lambda x, v, t: (x, v, lax.mul(t, h)),
            lambda x, v, t: (x, lax.sub(v, t), t),
            lambda x, v, t: (x, v, lax.tanh(v)),
            lambda x, v, t: (x, v, lax.mul(t, h)),
            lambda x, v, t: (lax.add(x, t), v, t),
            lambda x, v, t: (product(x, r), v, t),
            lambda x, v, t: (x, product(v, r), t),
            lambda x, v, t: (lax.neg(x), v, t),
            lambda x, v, t: (x, lax.neg(v), t),
        )
        state = x, v, x
        for i in range(n - 1):
            state = equations[i % len(equations)](*state)
        return jnp.sum(state[0])

    x, v = normal(rng, size, size), normal(rng, size, size)
    return many_equations, (x, v, step_size, rotation)

"""A program of any length."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.programs._registry import Program, normal


def many_equations(n: int, size: int = 8) -> Program:
    """A program of `n` equations, eight elementwise ones and two matrix products over and over.

    It measures a compiler's cost per equation, so its arrays are tiny. The equations are small
    steps of an oscillator followed by rotations. Their values neither grow nor vanish, and so
    neither do the derivatives. The last equation is a sum.
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


def many_loops(n: int, size: int = 8, *, alike: bool = False) -> Program:
    """A program of about `n` equations, a dozen in the body of each of its loops.

    Every second loop stacks its states; every body computes a loop-invariant value. The bodies
    differ in a constant, unless they are to be alike.
    """
    rng = np.random.RandomState(15)

    def many_loops(x, weights, inputs):
        def body(x, row, rate):
            scaled = weights / (1.0 + jnp.sum(weights**2))
            x = jnp.tanh(scaled @ x) + 0.1 * row
            return x - rate * x**3, x

        loss = 0.0
        for i in range(n // 16):
            step = partial(body, rate=0.01 if alike else 0.01 / (1 + i))
            if i % 2:
                x, rows = lax.scan(lambda x, row, step=step: step(x, row), x, inputs)
                loss = loss + jnp.sum(rows * inputs)
            else:
                x, _ = lax.scan(lambda x, row, step=step: (step(x, row)[0], None), x, inputs)
        return loss + jnp.sum(x)

    return many_loops, (normal(rng, size), normal(rng, size, size), normal(rng, 4, size))

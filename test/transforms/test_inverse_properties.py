"""Random compositions of invertible steps: the inverse returns the argument, and the function of it
returns the result.

The inverses are evaluated op by op, without compiling them: 500 programs would take XLA minutes.
A step that would leave a moderate range is replaced by one that returns to it, so that float64 has
digits left to compare.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from sampling import number

import jaxmlir

SIZE = 4
COUNT, STEPS = 250, 16
PER_PROGRAM = 25
LARGEST = 3.0

MASK = np.array([True, False, False, True])
ORDER = np.array([2, 0, 3, 1])
MATRIX = 1.5 * np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0]


def coupling(x, c):
    a, b = jnp.split(x, 2)
    return jnp.concatenate([b * jnp.exp(jnp.tanh(c * a)) + jnp.sin(a), a])


def autoregressive_step(state, x):
    return jnp.tanh(state + x), x * jnp.exp(state / 2)


def loop_step(i, carry):
    x, c = carry
    return jnp.arcsinh(x) + i * c, c


def fourier(x, c):
    z = jnp.fft.fft(lax.complex(x[:2], x[2:])) * (1 + 0.5j)
    return jnp.concatenate([z.real, z.imag])


@jax.jit
def called(x, c):
    return jnp.arcsinh(x) + c


STEP = {
    "affine": lambda x, c: c + 1.5 * x,
    "asinh": lambda x, c: jnp.arcsinh(x),
    "atan": lambda x, c: 2 * jnp.arctan(x / 2),
    "autoregressive": lambda x, c: lax.scan(autoregressive_step, c, x)[1],
    "call": called,
    "checkpoint": lambda x, c: jax.checkpoint(called)(x, c),
    "cond": lambda x, c: lax.cond(c > 0, jnp.arcsinh, jnp.negative, x),
    "coupling": coupling,
    "cumsum": lambda x, c: jnp.cumsum(x) / 2,
    "division": lambda x, c: x / (1 + c * c),
    "erf": lambda x, c: 3 * lax.erf(x / 3),
    "even and odd": lambda x, c: jnp.concatenate([x[1::2] * jnp.exp(jnp.tanh(x[::2])), x[::2]]),
    "fourier": fourier,
    "integer_pow": lambda x, c: (x + 5) ** 2 / 9,
    "leaky_relu": lambda x, c: jax.nn.leaky_relu(x, 0.5),
    "logistic": lambda x, c: 6 * (jax.nn.sigmoid(x) - 0.5),
    "loop": lambda x, c: lax.fori_loop(0, 2, loop_step, (x, c))[0],
    "masked": lambda x, c: jnp.where(MASK, x, c - jnp.where(MASK, x, 0).sum() - x),
    "matmul": lambda x, c: MATRIX @ x,
    "pad": lambda x, c: jnp.pad(x, 1)[1:-1],
    "permutation": lambda x, c: x[ORDER],
    "pieces": lambda x, c: jnp.concatenate([x[2:] * 2, x[1:2] + x[0], x[:1] - c]),
    "pow": lambda x, c: (x + 5) ** 1.2 / 4,
    "reverse": lambda x, c: x[::-1],
    "roll": lambda x, c: jnp.roll(x, 1),
    "sinh": lambda x, c: jnp.sinh(x / 2),
    "softplus": lambda x, c: jax.nn.softplus(x) - 1,
    "tanh": lambda x, c: 3 * jnp.tanh(x / 3),
    "transpose": lambda x, c: x.reshape(2, 2).T.reshape(SIZE),
}


def composition(rng):
    """Random steps, an argument, and the result as JAX computes it step by step."""
    x = y = jnp.asarray(rng.standard_normal(SIZE))
    steps = []
    for name in rng.choice(list(STEP), STEPS):
        c = rng.uniform(-1, 1)
        after = STEP[name](y, c)
        if not np.max(np.abs(after)) < LARGEST:
            name, after = "asinh", STEP["asinh"](y, c)
        steps.append((str(name), c))
        y = after
    return steps, x, y


def test_random_compositions():
    rng = np.random.default_rng(0)
    seen = set()
    with jax.enable_x64(True):
        for _ in range(number(COUNT // PER_PROGRAM)):
            made = [composition(rng) for _ in range(PER_PROGRAM)]
            all_steps, xs, ys = map(list, zip(*made, strict=True))
            seen |= {name for steps in all_steps for name, _ in steps}

            def compositions(xs, all_steps=all_steps):
                for k, steps in enumerate(all_steps):
                    for name, c in steps:
                        xs[k] = STEP[name](xs[k], c)
                return xs

            program = jaxmlir.trace(compositions)(xs)
            found = program.inverse().eval(ys)
            again = program.eval(found)
            for steps, x, x_found, y, y_again in zip(all_steps, xs, found, ys, again, strict=True):
                np.testing.assert_allclose(x_found, x, rtol=1e-6, atol=1e-6, err_msg=str(steps))
                np.testing.assert_allclose(y_again, y, rtol=1e-8, atol=1e-8, err_msg=str(steps))
    assert seen == STEP.keys()

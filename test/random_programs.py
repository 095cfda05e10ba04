"""Random programs for property tests, as hypothesis strategies.

A random program is a list of steps over values of shape ``[3]``; loops and branches hold lists of
steps in turn.  Steps and their slopes are bounded, so that float32 has digits left to compare.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from jax import lax

MATRIX = np.array([[0.3, -0.7, 0.1], [0.6, 0.2, -0.4], [-0.2, 0.5, 0.8]], np.float32)


@jax.custom_jvp
def cubed(x):
    return x**3


# Not the derivative of the cube: a program that loses the rule gives other numbers.
@cubed.defjvp
def cubed_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return cubed(x), (1 + cubed(x)) * t / 2


UNARY = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "cubed": cubed,
    "softmax": jax.nn.softmax,
    "matvec": lambda x: MATRIX @ x,
    "cumsum": lambda x: jnp.cumsum(x) / 3,
    "gather": lambda x: x[np.array([2, 0, 0])],
    "scatter": lambda x: x.at[np.array([0, 0])].add(x[1:]),
    "stop": lambda x: x + lax.stop_gradient(x),
    "round": lambda x: x + x.astype(jnp.int32),
    "jit": jax.jit(lambda x: x * jnp.cos(x)),
    "remat": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
}
BINARY = {
    "add": lambda x, y: 0.5 * (x + y),
    "mul": jnp.multiply,
    "div": lambda x, y: x / (2 + y * y),
    "max": jnp.maximum,
    "outer": lambda x, y: jnp.einsum("i,j,j->i", x, y, y) / 4,
    "where": lambda x, y: jnp.where(x > 0, y, x),
}


def run(steps, x, y):
    """The value of a random program; each step sees the two values before it."""
    for step in steps:
        x, y = y, jnp.sin(apply(step, x, y))
    return y


def apply(step, x, y):
    match step:
        case ("cond", first, second):
            return lax.cond(
                x[0] > y[1], lambda x, y: run(first, x, y), lambda x, y: run(second, x, y), x, y
            )
        case ("scan", body):
            z, zs = lax.scan(lambda c, row: (run(body, c, row * y), c[0]), x, MATRIX)
            return jnp.tanh(z) + zs
        case ("fori", body):
            return lax.fori_loop(0, 2, lambda _, z: run(body, x, z), y)
        case ("vmap", body):
            return jax.vmap(lambda row: run(body, x, row * y).sum())(MATRIX)
        case name:
            return UNARY[name](y) if name in UNARY else BINARY[name](x, y)


def lists_of(step, most):
    return st.lists(step, min_size=1, max_size=most).map(tuple)


simple = st.sampled_from([*UNARY, *BINARY])


def nested(inner):
    body = lists_of(inner, 2)
    return st.one_of(
        st.tuples(st.just("cond"), body, body),
        *(st.tuples(st.just(kind), body) for kind in ("scan", "fori", "vmap")),
    )


step = st.one_of(simple, nested(st.one_of(simple, nested(simple))))
programs = lists_of(step, 3)

# Shrinking compiles hundreds of programs; the ones here are small enough to read.
budget = settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)

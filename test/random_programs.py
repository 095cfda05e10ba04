"""Random programs for property tests, as hypothesis strategies.

A random program is a list of steps over values of shape ``[3]``; loops, branches, calls and
functions with rules of their own hold lists of steps in turn.  Steps and their slopes are bounded,
so that float32 has digits left to compare.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from jax import lax
from sampling import examples

from jaxmlir._compat import jax_version

MATRIX = np.array([[0.3, -0.7, 0.1], [0.6, 0.2, -0.4], [-0.2, 0.5, 0.8]], np.float32)


@jax.custom_jvp
def cubed(x):
    return x**3


# Deliberately not the derivative of the cube: a program that loses the rule gives other numbers.
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
        case ("call", body):
            return jax.jit(lambda x, y: run(body, x, y))(x, y)
        case ("again", body):
            return jax.checkpoint(lambda x, y: run(body, x, y))(x, y)
        case ("solve", body):
            return jnp.linalg.solve(MATRIX + jnp.diag(2 + x * x), run(body, x, y))
        case ("kept", body):
            return kept(body, x, y)
        case ("pushed", body):
            return pushed(body)(x, y)
        case ("pulled", body):
            return pulled(body)(x, y)
        case ("while", body):
            return lax.while_loop(
                lambda c: c[0] < 2 + 2 * x[0], lambda c: (c[0] + 1, run(body, y, c[1])), (0.0, x)
            )[1]
        case name:
            return UNARY[name](y) if name in UNARY else BINARY[name](x, y)


def kept(body, x, y):
    """A loop with its state in a reference."""
    ref = jax.new_ref(x)

    def step(carry, row):
        ref[...] = run(body, ref[...], row * carry)
        return 0.5 * (carry + ref[0]), None

    carry, _ = lax.scan(step, y, MATRIX)
    return carry * jax.freeze(ref)


def carried(body, x, y):
    """The loop of :func:`kept` with its state in the carry, without a reference."""

    def step(carry, row):
        carry, state = carry
        state = run(body, state, row * carry)
        return (0.5 * (carry + state[0]), state), None

    (carry, state), _ = lax.scan(step, (y, x), MATRIX)
    return carry * state


def pushed(body):
    """A function whose JVP rule calls the function, and is not its derivative."""
    f = jax.custom_jvp(lambda x, y: run(body, x, y))

    @f.defjvp
    def _(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        value = f(x, y)
        return value, lax.cond(value[0] > 0, lambda t: t * f(y, x), jnp.negative, dx - dy * y)

    return f


def pulled(body):
    """A function whose VJP rule calls the function, and is not its derivative."""
    f = jax.custom_vjp(lambda x, y: run(body, x, y))

    def bwd(residuals, ct):
        x, value = residuals
        return ct * value, jnp.sum(ct) * jnp.cos(x)

    f.defvjp(lambda x, y: (f(x, y), (x, f(y, x))), bwd)
    return f


def lists_of(step, most):
    return st.lists(step, min_size=1, max_size=most).map(tuple)


simple = st.sampled_from([*UNARY, *BINARY])


def programs_of(*kinds):
    """Programs whose nested steps (loops, calls ...) are of those kinds, at most two deep."""

    def nested(inner):
        body = lists_of(inner, 2)
        return st.one_of(
            st.tuples(st.just("cond"), body, body),
            *(st.tuples(st.just(kind), body) for kind in kinds),
        )

    return lists_of(st.one_of(simple, nested(st.one_of(simple, nested(simple)))), 3)


programs = programs_of("scan", "fori", "vmap")
# Steps with calls, recomputation, linear solves and rules that call their own function.  Programs
# for reverse mode also have VJP rules, those for forward mode loops of unknown length.
_WITH_RULES = ("scan", "fori", "vmap", "call", "again", "solve", "pushed")
differentiable_programs = programs_of(*_WITH_RULES)
reverse_programs = programs_of(*_WITH_RULES, "pulled")
forward_programs = programs_of(*_WITH_RULES, "while")
# JAX cannot even trace a batched branch that writes a reference.
programs_with_references = programs_of("scan", "fori", "call", "again", "pushed", "kept")

# No shrinking, which compiles hundreds of programs: those here are small enough to read.  The newer
# JAX gets half as many examples as the older one.
budget = examples(
    6 if jax_version() < (0, 12) else 3, settings(phases=[Phase.explicit, Phase.generate])
)

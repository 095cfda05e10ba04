"""Second and third derivatives of functions whose custom rule computes another value.

If such a call has a tangent, its result is the rule's value, and the next derivative differentiates
the rule, whether the tangent is used or not.  The rules' values here differ much from the
functions', so a program that confuses them gives other numbers.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import MATRIX, budget, lists_of

import jaxmlir

pytestmark = pytest.mark.compat


@jax.custom_jvp
def pushed(x):
    return jnp.sin(x)


@pushed.defjvp
def _(primals, tangents):
    return 0.9 * jnp.tanh(primals[0]), 3 * tangents[0] * jnp.cos(primals[0])


@jax.custom_jvp
def calling_itself(x):
    return jnp.sin(x)


@calling_itself.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return calling_itself(x), 0.7 * t * calling_itself(x + 1)


@jax.custom_jvp
def pair(x, y):
    return jnp.sin(x) + y, jnp.cos(y) * x


@pair.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    values = pushed(x) * y, calling_itself(y) - x
    return values, (2 * dx * jnp.cos(y) + dy, pushed(y) * dy - dx * x)


@jax.custom_vjp
def pulled(x):
    return jnp.sin(x)


pulled.defvjp(
    lambda x: (1.1 * jnp.tanh(x), (x, calling_itself(x))),
    lambda residuals, ct: (2 * ct * jnp.cos(residuals[0]) * residuals[1],),
)

LEAVES = {
    "pushed": lambda x, y: pushed(y),
    "itself": lambda x, y: calling_itself(y),
    "pair": lambda x, y: sum(pair(x, y)),
    "first of pair": lambda x, y: pair(x, y)[0],
    "constant": lambda x, y: y * lax.stop_gradient(pushed(x)),
    "pulled": lambda x, y: pulled(y),
    "mul": lambda x, y: x * y,
    "sin": lambda x, y: jnp.sin(y),
}


def run(steps, x, y, loop=lax.scan):
    """The last two values of a program; each step sees the two values before it."""
    for step in steps:
        x, y = y, apply(step, x, y, loop)
    return x, y


def apply(step, x, y, loop):
    if isinstance(step, str):
        return LEAVES[step](x, y)
    kind, body = step

    def inner(x, y):
        return run(body, x, y, loop)

    match kind:
        case "checkpoint":
            return jax.checkpoint(inner)(x, y)[1]
        case "checkpoint, constant":
            unused, value = jax.checkpoint(inner)(x, y)
            return value * lax.stop_gradient(unused)
        case "jit, constant":
            unused, value = jax.jit(inner)(x, y)
            return value + lax.stop_gradient(unused)
        case "scan":
            carry, rows = loop(lambda c, row: (inner(c[0], c[1] * row), c[0]), (x, y), MATRIX[:2])
            return carry[1] + rows.sum(0)
        case "scan, last":
            return loop(lambda c, row: (inner(c[0], c[1] * row), None), (x, y), MATRIX[:2])[0][0]
        case "while":
            return lax.while_loop(
                lambda c: c[0] < 2, lambda c: (c[0] + 1, inner(*c[1])), (0, (x, y))
            )[1][1]
        case "cond":
            return lax.cond(x[0] > y[1], inner, lambda x, y: (y, x), x, y)[1]
        case "vmap":
            return jax.vmap(lambda row: inner(x, y * row)[1])(MATRIX[:2]).sum(0)


def unrolled(body, carry, xs):
    """An unrolled scan.  JAX's scan loses the rules inside when it is differentiated; ours keeps
    them for further derivatives, as JAX does for the unrolled loop."""
    ys = []
    for x in xs:
        carry, y = body(carry, x)
        ys.append(y)
    return carry, None if ys[0] is None else jnp.stack(ys)


ARGS = np.array([0.3, -0.5, 0.8], np.float32), np.array([0.9, 0.4, -0.2], np.float32)
TANGENTS = np.array([0.2, 0.7, -0.4], np.float32), np.array([0.5, -0.1, 0.3], np.float32)


def weighted(result):
    return sum(
        jnp.vdot(v, jnp.cos(jnp.arange(v.size))) for v in map(jnp.ravel, jax.tree.leaves(result))
    )


def derivative(kind, f, transform=None):
    """A derivative of ``f`` and the values computed with it, as a function of ``ARGS``.

    Args:
      transform: turns a function into a program, which is then transformed; by default JAX
        transforms the function.
    """
    scalar = lambda *args: weighted(f(*args))  # noqa: E731
    with_values = lambda *args: (scalar(*args), f(*args))  # noqa: E731
    match kind, transform:
        case "grad", None:
            return jax.value_and_grad(scalar, (0, 1))
        case "grad", _:
            return transform(scalar).value_and_grad((0, 1))
        case "aux", None:
            return jax.grad(with_values, (0, 1), has_aux=True)
        case "aux", _:
            return transform(with_values).grad((0, 1), has_aux=True)
        case "jvp", None:
            return lambda *args: jax.jvp(f, args, TANGENTS)
        case "jvp", _:
            pushed_forward = transform(f).jvp()
            return lambda *args: pushed_forward(args, TANGENTS)
        case "linearize", None:

            def linearized(*args):
                result, lin = jax.linearize(f, *args)
                return result, lin(*TANGENTS)

            return linearized
        case "linearize", _:
            fwd, lin = transform(f).linearize()

            def split(*args):
                result, residuals = fwd(*args)
                return result, lin(residuals, *TANGENTS)

            return split


def check(steps, kinds):
    """Checks that derivatives of derivatives equal JAX's."""

    def f(x, y, loop=lax.scan):
        return run(steps, x, y, loop)[1]

    theirs = functools.partial(f, loop=unrolled)
    ours = f
    for kind in kinds:
        theirs = derivative(kind, theirs)
        ours = derivative(kind, ours, lambda g: jaxmlir.trace(g)(*ARGS))
    close(jax.jit(ours)(*ARGS), jax.jit(theirs)(*ARGS), rtol=1e-4)


@pytest.mark.sampled
@pytest.mark.parametrize("kinds", [("grad", "grad"), ("aux", "jvp"), ("linearize", "grad")])
@pytest.mark.parametrize(
    "steps",
    [
        (("checkpoint", ("pushed", "mul")), "sin"),
        (("checkpoint, constant", ("pair", "pushed")),),
        (("jit, constant", ("pushed", "pair")), "sin"),
        (("scan, last", ("constant", "pushed")),),
        (("cond", (("checkpoint", ("pushed",)), "constant")), "sin"),
    ],
    ids=lambda steps: steps[0][0],
)
def test_what_is_differentiated_further_is_what_the_rule_computed(steps, kinds):
    check(steps, kinds)


@pytest.mark.parametrize(
    "kinds", [("jvp", "jvp"), ("linearize", "jvp"), ("linearize", "linearize")]
)
def test_a_loop_of_unknown_length_computes_what_its_rules_do(kinds):
    check((("while", ("pushed", "constant")), "sin"), kinds)


@pytest.mark.parametrize("recomputed", [False, True])
def test_a_reversed_loop_of_unknown_length_computes_what_its_rules_do(recomputed):
    def f(x, y, loop):
        def body(carry):
            i, x, y = carry
            return i + 1, sum(pair(x, y)), pushed(y) / 2 + lax.stop_gradient(calling_itself(x))

        body = jax.checkpoint(body) if recomputed else body
        return weighted(loop(lambda carry: carry[0] < 2, body, (0, x, y))[1])

    def twice(cond, body, carry):
        return body(body(carry))

    expected = derivative("grad", derivative("grad", lambda x, y: f(x, y, twice)))
    program = jaxmlir.trace(lambda x, y: f(x, y, lax.while_loop))(*ARGS)
    options = {"while_loops": "checkpointed", "checkpoints": 1}
    first = program.value_and_grad((0, 1), **options)
    again = jaxmlir.trace(lambda *args: weighted(first(*args)))(*ARGS)
    close(again.value_and_grad((0, 1), **options)(*ARGS), jax.jit(expected)(*ARGS), rtol=1e-4)


def test_a_function_with_a_forward_rule_in_a_recomputed_scan():
    check((("checkpoint", (("scan", ("pulled", "sin")),)), "pushed"), ("aux", "grad"))


def of(leaves, kinds):
    def nested(inner):
        return st.tuples(st.sampled_from(kinds), lists_of(inner, 2))

    leaf = st.sampled_from(leaves)
    return lists_of(st.one_of(leaf, nested(st.one_of(leaf, nested(leaf)))), 2)


FORWARD = [leaf for leaf in LEAVES if leaf != "pulled"]
KINDS = [
    "checkpoint",
    "checkpoint, constant",
    "jit, constant",
    "scan",
    "scan, last",
    "cond",
    "vmap",
]
orders = st.lists(st.sampled_from(["grad", "aux", "jvp", "linearize"]), min_size=2, max_size=3)
reverse_orders = st.lists(st.sampled_from(["grad", "aux"]), min_size=2, max_size=3)


@budget
@given(steps=of(FORWARD, KINDS), kinds=orders)
def test_second_and_third_derivatives_of_random_programs(steps, kinds):
    check(steps, kinds)


@budget
@given(steps=of([*LEAVES], KINDS), kinds=reverse_orders)
def test_second_and_third_derivatives_in_reverse_mode(steps, kinds):
    check(steps, kinds)

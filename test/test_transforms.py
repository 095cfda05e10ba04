"""Derivatives and batches of programs, made by the passes; JAX's own are the oracle."""

from collections import namedtuple
from functools import partial

import derivative_checks
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import check_derivatives, check_vmap, close, through_text, vector_like
from jax import lax

import jaxmlir
from jaxmlir.errors import ArgumentError, TransformError

pytestmark = pytest.mark.compat

Pair = namedtuple("Pair", "first second")

f32, i32 = np.float32, np.int32
X = np.array([0.3, -0.7, 1.1], f32)
MATRIX = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]], f32)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4], [-1.2, 0.6, 0.8]], f32)


# --- functions with custom rules --------------------------------------------------------------


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


@jax.custom_jvp
def cosine(x):
    return jnp.cos(x)


# Each rule calls the other's function, and its own for the value.
@sine.defjvp
def sine_jvp(primals, tangents):
    return sine(*primals), cosine(*primals) * tangents[0]


@cosine.defjvp
def cosine_jvp(primals, tangents):
    return cosine(*primals), -sine(*primals) * tangents[0]


@jax.custom_jvp
def twice(x):
    """2x, with the derivative of 5x: results tell whether the rule ran."""
    return 2 * x


@twice.defjvp
def twice_jvp(primals, tangents):
    return twice(*primals), 5 * tangents[0]


@jax.custom_vjp
def tripled(x):
    """2x, with the cotangent of 3x."""
    return 2 * x


tripled.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def scaled(tree, factor):
    return {"sum": tree[0] + tree[1], "product": tree[0] * tree[1] * factor}


def scaled_fwd(tree, factor):
    return scaled(tree, factor), tree


def scaled_bwd(factor, tree, ct):
    # Twice the true cotangent.
    x, y = tree
    return (
        (2 * (ct["sum"] + y * factor * ct["product"]), 2 * (ct["sum"] + x * factor * ct["product"])),
    )


scaled.defvjp(scaled_fwd, scaled_bwd)


# --- programs ---------------------------------------------------------------------------------

CASES = {}


def case(*args):
    def add(f):
        CASES[f.__name__] = (f, args)
        return f

    return add


@case({"w": X, "b": None}, i32(3), Pair(f32(0.5), (X,)))
def pytrees(d, n, pair):
    y = jnp.tanh(d["w"] * pair.first + pair.second[0] * n)
    return {"y": y, "n": n + 1, "none": None, "pair": Pair(y.sum(), d["w"])}


@case(ROWS, np.array([0, 2, 2], i32), X)
def gather_scatter(x, index, y):
    gathered = x[index] * x[:, 1]
    return gathered.at[index].add(y), y.at[index].set(x[0]), lax.dynamic_slice(y, index[:1], (2,))


@case(MATRIX, X)
def linear_algebra(a, b):
    symmetric = a @ a.T + 3 * jnp.eye(3)
    factor = jnp.linalg.cholesky(symmetric)
    return (
        jnp.linalg.solve(a, b),
        factor,
        jnp.linalg.slogdet(a)[1],
        jnp.linalg.eigh(symmetric)[0],
        jnp.linalg.inv(a),
    )


@case(np.array([0.5 + 1j, -0.25j, 1.0], np.complex64), X)
def complex_numbers(z, x):
    return jnp.sin(z) * x, jnp.abs(z * z), lax.complex(x, x) * jnp.conj(z), jnp.fft.fft(z).real


@case(i32(0), X)
def branches(i, x):
    y = lax.cond(i > 0, jnp.sin, lambda x: x**2, x)
    return lax.switch(i, [jnp.cos, lambda x: 3 * x, lambda x: jnp.zeros_like(x)], y)


@case(X, ROWS)
def scans(x, rows):
    def step(carry, row):
        total, count, unused = carry
        return (jnp.sin(total) * row, count + 1, unused), (total @ row, count)

    return lax.scan(step, (x, 0, x), rows, reverse=True, unroll=2)


@case(X, ROWS)
def nested_control_flow(x, rows):
    def step(carry, row):
        inner, _ = lax.scan(lambda c, r: (jnp.cos(c * r), None), carry[0], row)
        carry = lax.cond(inner > 0, sine, tripled, carry * row)
        return carry, lax.fori_loop(0, 2, lambda _, c: c * inner, inner)

    return lax.scan(jax.checkpoint(jax.jit(step)), x, rows)


@case(X)
def custom_rules_everywhere(x):
    def step(x, _):
        x = lax.cond(x[0] > 0, sine, tripled, x)
        return jax.checkpoint(jax.jit(twice))(x), scaled((x, x), 3.0)

    y, ys = lax.scan(step, x, None, length=2)
    return jax.vmap(tripled)(y), ys


@case(X)
def remat(x):
    policy = jax.checkpoint_policies.dots_saveable
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(ROWS @ x)), policy=policy)
    return jax.checkpoint(lambda x: f(f(x)))(x)


@case(f32(2.0))
def custom_root(a):
    def newton(f, x):
        return lax.fori_loop(0, 8, lambda _, x: x - f(x) / jax.grad(f)(x), x)

    return lax.custom_root(lambda x: x**2 - a, a, newton, lambda g, y: y / g(1.0))


@case(MATRIX, X)
def custom_linear_solve(a, b):
    def solve(matvec, b):
        def step(_, x):
            return x + 0.25 * (b - matvec(x))

        return lax.fori_loop(0, 40, step, b)

    return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


@case(X)
def activations(x):
    return jax.nn.relu(x), jax.nn.gelu(x), jax.nn.softmax(x), jax.nn.logsumexp(x), jax.nn.silu(x)


@case(np.array([1, 2], np.uint32), X)
def random_numbers(data, x):
    key = jax.random.wrap_key_data(data)
    first, second = jax.random.split(key)
    return x * jax.random.normal(first, (3,)), jax.random.uniform(second, (2,)) * x[0], second


@case(X, ROWS)
def reductions(x, rows):
    return (
        jnp.sort(x),
        jnp.max(rows, 0),
        jnp.cumsum(rows, 1),
        jnp.cumprod(rows, 0),
        lax.reduce_window(rows, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        jnp.prod(x),
        lax.top_k(x, 2)[0],
        jnp.einsum("ij,kj,k->i", rows, rows, x),
    )


@case(X)
def unused_and_constant(x):
    return jnp.ones(2), lax.stop_gradient(x), x.astype(int), jnp.sin(lax.stop_gradient(x)) * x


@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_jaxs(name):
    check_derivatives(*CASES[name])


@pytest.mark.parametrize("name", ["pytrees", "nested_control_flow", "custom_rules_everywhere"])
def test_derivatives_of_a_parsed_program(name):
    check_derivatives(*CASES[name], text=True)


def test_forward_mode_of_a_while_loop():
    def f(x, n):
        return lax.while_loop(lambda s: s[1] < n, lambda s: (jnp.sin(s[0]) * x, s[1] + 1), (x, 0))

    program = jaxmlir.trace(f)(X, i32(3))
    jvp = program.jvp()
    jvp.verify()
    args, tangents = (X, i32(3)), (ROWS[0], np.zeros((), jax.dtypes.float0))
    close(jvp(args, tangents), jax.jvp(f, args, tangents))

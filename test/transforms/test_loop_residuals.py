"""Loops in gradients carry and stack no more values than those in JAX's gradients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxprs_in_params

import jaxmlir

pytestmark = pytest.mark.compat

X = jnp.linspace(0.1, 0.9, 4)
W = jnp.linspace(-0.5, 0.5, 16).reshape(4, 4)


class Kept(NamedTuple):
    """The totals over all loops of a program."""

    carried: int
    """The number of carried values."""
    stacked: int
    """The number of stacked results, which have an element for each iteration."""
    bytes: int
    """The size of the stacked results."""


def kept_by(jaxpr):
    total = Kept(0, 0, 0)
    for eqn in jaxpr.eqns:
        found = [kept_by(getattr(j, "jaxpr", j)) for j in jaxprs_in_params(eqn.params)]
        if eqn.primitive.name in ("scan", "while"):
            stacked = stacked_by(eqn)
            carried = len(eqn.outvars) - len(stacked)
            size = sum(v.size * v.dtype.itemsize for v in stacked)
            found.append(Kept(carried, len(stacked), size))
        total = Kept(*map(sum, zip(total, *found, strict=True)))
    return total


def stacked_by(eqn):
    """The stacked results of a loop."""
    if eqn.primitive.name == "while":
        return []
    body = eqn.params["jaxpr"]
    results = zip(eqn.outvars, getattr(body, "jaxpr", body).outvars, strict=True)
    return [v.aval for v, of_one in results if v.aval.shape != of_one.aval.shape]


@jax.custom_jvp
def with_jvp(x):
    return jnp.sum(jnp.sin(x))


@with_jvp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return with_jvp(x), jnp.sum(jnp.cos(x) * t)


@jax.custom_vjp
def with_vjp(x):
    return jnp.tanh(x) * 2


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct * (1 - x),))


def running(x, w):
    """A loop with several results."""

    def step(carry, row):
        total, size = carry
        total = jnp.tanh(total + row @ x)
        return (total, size + jnp.abs(total) + jnp.sin(row[0])), total * size

    (total, size), rows = lax.scan(step, (0.0, 1.0), w)
    return total, size, rows


@jax.custom_jvp
def first_of_running(x, w):
    return running(x, w)[0]


@first_of_running.defjvp
def _(primals, tangents):
    _, (dtotal, *_) = jax.jvp(running, primals, tangents)
    return first_of_running(*primals), dtotal


def scan(x, w):
    return lax.scan(lambda c, row: (jnp.tanh(c * row + x), jnp.sum(c)), x, w)


def steps(x, w):
    return lax.scan(lambda c, row: (jnp.tanh(c * row + x), None), x, w)[0]


LOOPS = {
    "scan": lambda x, w: jnp.sum(scan(x, w)[0]),
    "scan, slices": lambda x, w: jnp.sum(scan(x, w)[1]),
    "reversed": lambda x, w: jnp.sum(
        lax.scan(lambda c, r: (jnp.sin(c + r @ x), c), 0.0, w, reverse=True)[1]
    ),
    "constants": lambda x, w: jnp.sum(
        lax.scan(lambda c, _: (jnp.tanh(jnp.exp(w) @ c) * jnp.cos(x), None), x, length=5)[0]
    ),
    "integers carried": lambda x, w: (
        lax.scan(lambda c, r: ((c[0] + 1, c[1] * jnp.sin(r[c[0]])), c[0]), (0, 1.0), w)[0][1] * x[0]
    ),
    "fori": lambda x, w: jnp.sum(
        lax.fori_loop(0, 4, lambda i, c: jnp.sin(c * w[i]) / (1.0 + c**2), x)
    ),
    "nested": lambda x, w: jnp.sum(
        lax.scan(
            lambda c, r: (lax.scan(lambda d, s: (jnp.sin(d * s), None), c, r[:, None])[0], None),
            x,
            w,
        )[0]
    ),
    "nested in a call": lambda x, w: jnp.sum(
        lax.scan(lambda c, r: (jax.jit(lambda c, r: steps(c * r, w))(c, r), None), x, w)[0]
    ),
    "cond": lambda x, w: jnp.sum(
        lax.scan(
            lambda c, r: (lax.cond(r[0] > 0, lambda v: jnp.sin(v) * r, jnp.exp, c), None), x, w
        )[0]
    ),
    "custom JVP": lambda x, w: lax.scan(lambda c, r: (with_jvp(c * r), None), 1.0, w)[0] * x[0],
    "custom VJP": lambda x, w: jnp.sum(lax.scan(lambda c, r: (with_vjp(c * r), None), x, w)[0]),
    "checkpoint": lambda x, w: jnp.sum(
        lax.scan(jax.checkpoint(lambda c, r: (jnp.sin(jnp.sin(c * r) * x), None)), x, w)[0]
    ),
    "loop in a checkpoint": lambda x, w: jnp.sum(jax.checkpoint(lambda x: steps(x, w))(x)),
    "loop in a custom JVP rule": jax.jit(first_of_running),
    "unused results": lambda x, w: running(x, w)[0],
    "jvp of a loop": lambda x, w: jax.jvp(lambda x: running(x, w)[0], (x,), (x,))[1],
    "while in front": lambda x, w: jnp.sum(
        scan(x * lax.while_loop(lambda i: i < 3.0, lambda i: i + 1.0, 0.0), w)[0]
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_a_gradient_hold_no_more_than_those_of_jax(name):
    loss = LOOPS[name]
    gradient = jaxmlir.trace(loss)(X, W).grad()
    here = kept_by(gradient.to_jaxpr().jaxpr)
    jaxs = kept_by(jax.make_jaxpr(jax.grad(loss))(X, W).jaxpr)
    assert all(map(int.__le__, here, jaxs)), (here, jaxs)
    np.testing.assert_allclose(gradient(X, W), jax.grad(loss)(X, W), rtol=1e-5, atol=1e-6)

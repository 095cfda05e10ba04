"""Functions within functions within functions: as deep as JAX goes, and what stands in for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same
from jax import lax

import jaxmlir
from jaxmlir import _waiting_bodies

pytestmark = pytest.mark.compat

X = jnp.arange(3.0)


def within_jit(inner, _):
    return jax.jit(lambda x: jnp.cos(inner(x * 0.5)))


def within_cond(inner, i):
    return lambda x: lax.cond(x[0] < i, lambda x: jnp.cos(inner(x)), lambda x: x * 2.0, x)


def nest(around, depth):
    function = jnp.sin
    for i in range(depth):
        function = around(function, i)
    return function


@pytest.mark.parametrize(("around", "depth"), [(within_jit, 85), (within_cond, 60)])
def test_what_jax_lowers_is_not_too_deep(around, depth):
    function = nest(around, depth)
    expected = jax.jit(function)(X)
    same(jaxmlir.trace(function)(X).lower().compile()(X), expected)


def loop(x, y):
    return lax.scan(lambda c, a: (c * a + jnp.sum(y), jnp.sin(c)), x, y)


def of_keys(key, x):
    draw = jax.jit(lambda k: jax.random.uniform(k, x.shape))
    return jax.jit(lambda k: (draw(k) * x, jax.random.key_data(jax.random.split(k))))(key)


def with_unused(x, y):
    both = jax.jit(lambda x, y: (jnp.sin(x), lax.cumsum(y)))
    return jax.jit(lambda x, y: both(x, y)[0])(x, y)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: nest(within_cond, 4)(nest(within_jit, 4)(x)), (X,)),
        (lambda x, y: jax.jit(lambda x, y: loop(*loop(x, y)))(x, y), (1.0, X)),
        (of_keys, (jax.random.key(3), X)),
        (with_unused, (X, X)),
    ],
    ids=["nested", "loops", "keys", "unused"],
)
def test_bodies_that_wait_are_the_same(function, arguments, monkeypatch):
    expected = jax.jit(function)(*arguments)
    monkeypatch.setattr(_waiting_bodies, "_DEEP", 1)
    lowered = jaxmlir.trace(function)(*arguments).lower()
    assert "jaxmlir.nested_body" not in lowered.as_text()
    same(lowered.compile()(*arguments), expected)


def test_effects_of_bodies_that_wait_stay_in_order(monkeypatch):
    monkeypatch.setattr(_waiting_bodies, "_DEEP", 1)
    seen = []

    def note(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)

    @jax.jit
    def twice(x):
        note(x)
        note(x + 1)
        return x + 2

    def function(x):
        note(x)
        return jax.jit(lambda x: twice(twice(x)))(x)

    result = jaxmlir.trace(function)(0.0)(0.0)
    jax.effects_barrier()
    assert (float(result), seen) == (4.0, [0.0, 0.0, 1.0, 2.0, 3.0])


def test_bodies_of_any_size_wait(monkeypatch):
    monkeypatch.setattr(_waiting_bodies, "_DEEP", 1)
    (n,) = jax.export.symbolic_shape("n")
    argument = jax.ShapeDtypeStruct((n,), np.float32)
    program = jaxmlir.trace(lambda x: nest(within_jit, 4)(x) + x.shape[0])(argument)
    same(program(X), jax.jit(lambda x: nest(within_jit, 4)(x) + 3)(X))

"""JVP rules of JAX's own functions are traced once per process, users' rules once per program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import special

import jaxmlir
from jaxmlir.bridge.custom_rules import tracing

pytestmark = pytest.mark.compat


def traced(function, *args):
    """The traced rule of a function's equation, in a new program."""
    (eqn,) = jax.make_jaxpr(lambda *a: function(*a))(*args).eqns
    in_avals = [v.aval for v in eqn.invars]
    return tracing.trace_jvp(eqn, in_avals, (False,) * len(in_avals))


def vector(n=3, dtype=jnp.float32):
    return jnp.linspace(0.1, 0.9, n, dtype=dtype)


@pytest.mark.parametrize(
    ("function", "count"),
    [(jax.nn.relu, 1), (jax.nn.relu6, 1), (special.logit, 1), (special.xlogy, 2)],
)
def test_rules_of_jax_are_traced_once_per_type_and_configuration(function, count):
    args = [vector()] * count
    first = traced(function, *args)
    assert traced(function, *args) is first
    assert traced(function, *[vector(4)] * count) is not first
    assert traced(function, *[vector(dtype=jnp.bfloat16)] * count) is not first
    with jax.default_matmul_precision("highest"):
        assert traced(function, *args) is not first


# The rules below read this value when they are traced.
slope = 1.0


@jax.custom_jvp
def sloped(x):
    return x


@sloped.defjvp
def sloped_jvp(primals, tangents):
    return sloped(*primals), slope * tangents[0]


@jax.custom_jvp
def sloped_by_jax(x):
    return x


# The rule is a function of JAX's that wraps a user's function.
sloped_by_jax.defjvps(lambda tangent, result, x: slope * tangent)


@pytest.mark.parametrize("function", [sloped, sloped_by_jax])
def test_users_rules_are_traced_anew(function, monkeypatch):
    for value in (1.0, 2.0):
        monkeypatch.setitem(globals(), "slope", value)
        gradient = jaxmlir.trace(lambda x: jnp.sum(function(x)))(vector()).grad()
        np.testing.assert_array_equal(gradient(vector()), np.full(3, value, np.float32))


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_a_rule_that_closes_over_a_users_function_is_the_users(factor):
    def loss(x):
        relu = jax.custom_jvp(jax.nn.relu.__wrapped__)
        relu.defjvps(lambda t, y, x: factor * t)
        return jnp.sum(relu(x))

    gradient = jaxmlir.trace(loss)(vector()).grad()
    np.testing.assert_array_equal(gradient(vector()), jax.grad(loss)(vector()))


def test_few_traces_are_kept(monkeypatch):
    monkeypatch.setattr(tracing, "LIMIT", 4)
    monkeypatch.setattr(tracing, "traced_rules", {})
    for n in range(1, 10):
        gradient = jaxmlir.trace(lambda x: jnp.sum(jax.nn.relu(x)))(vector(n)).grad()
        np.testing.assert_array_equal(gradient(vector(n)), np.ones(n, np.float32))
    assert len(tracing.traced_rules) == 4


@jax.custom_jvp
def circle(x):
    return jnp.sin(x), jnp.cos(x)


@circle.defjvp
def circle_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    sine, cosine = circle(x)
    # Deliberately not the derivative: a program that loses the rule gives other numbers.
    return (sine, cosine), (3 * circle(x)[1] * t, -2 * sine * t)


@pytest.mark.sampled
@pytest.mark.parametrize("optimize", [0, 2])
@pytest.mark.parametrize(
    "function", [lambda x: circle(x)[0], lambda x: jnp.hypot(x, 2 * x), lambda x: circle(x)[1]]
)
def test_rules_of_functions_of_which_some_results_are_not_used(function, optimize):
    """JAX drops unused results, and wraps the rule in a function that drops them too."""

    def loss(x):
        return jnp.sum(function(x))

    jitted = jaxmlir.jit(loss, optimize=optimize)
    for transform in (jax.grad, jax.hessian):
        close = np.testing.assert_allclose
        close(transform(jitted)(vector()), transform(loss)(vector()), rtol=1e-5, atol=1e-6)

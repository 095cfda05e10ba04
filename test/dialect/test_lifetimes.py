"""A program without references is freed, whatever JAX has done with it."""

import gc

import jax
import jax.numpy as jnp
import pytest

import jaxmlir
from jaxmlir import backend
from jaxmlir._compat import core

pytestmark = pytest.mark.compat

X = jnp.ones(3)


@jax.custom_vjp
def sine(x):
    return jnp.sin(x)


sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))


def program_of(power):
    """A different program for each power, because functions that many programs call are kept."""
    return jaxmlir.trace(lambda x: jnp.sum(jax.nn.relu(x) * sine(x) ** power))(X)


def in_backend(program):
    with backend.enabled():
        jax.jit(lambda x: 2 * program(x))(X)


USES = {
    "called": lambda p: p(X),
    "jit": lambda p: jax.jit(p)(X),
    "in_jit": lambda p: jax.jit(lambda x: 2 * p(x))(X),
    "grad": lambda p: jax.grad(p)(X),
    "jit_of_grad": lambda p: jax.jit(jax.grad(p))(X),
    "vjp": lambda p: jax.vjp(p, X)[1](1.0),
    "vmap": lambda p: jax.vmap(p)(X[None]),
    "checkpoint": lambda p: jax.grad(jax.checkpoint(p))(X),
    "in_scan": lambda p: jax.jit(lambda: jax.lax.scan(lambda c, _: (c + p(X), 1), 0.0, None, 2))(),
    "to_jaxpr": lambda p: core.jaxpr_as_fun(p.to_jaxpr())(X),
    "in_jaxpr": lambda p: core.jaxpr_as_fun(jax.make_jaxpr(p)(X))(X),
    "compiled": lambda p: p.lower().compile()(X),
    "eval": lambda p: p.eval(X),
    "its_grad": lambda p: p.grad()(X),
    "its_vmap": lambda p: p.vmap(axis_size=2)(jnp.ones((2, 3))),
    "optimized": lambda p: p.optimize(2).grad().optimize(2)(X),
    "backend": in_backend,
}


def alive():
    # JAX drops a cached trace only after its function is gone.
    gc.collect()
    gc.collect()
    return {id(o) for o in gc.get_objects() if isinstance(o, jaxmlir.Program)}


@pytest.mark.sampled
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_programs_are_freed(use):
    # From the second program on, functions that programs share become separate programs.
    for power in range(2):
        use(program_of(power))
    before = alive()
    for power in range(3):
        use(program_of(2 + power))
    assert not alive() - before


def test_a_jaxpr_keeps_the_program_that_it_calls():
    def traced():
        program = program_of(7)
        return jax.make_jaxpr(program)(X), program(X)

    jaxpr, expected = traced()
    gc.collect()
    (got,) = core.jaxpr_as_fun(jaxpr)(X)
    assert got == expected


def test_a_changed_program_is_called_as_it_is_now():
    program = jaxmlir.trace(lambda x: jnp.sin(x) + 1)(X)
    inside = jax.jit(lambda x: 2 * program(x))
    assert jnp.allclose(program(X), jnp.sin(X) + 1)
    (add,) = (op for op in program.function(program.name).entry_block if op.name == "jaxpr.add")
    operand = add.operands[0]
    add.results[0].replace_all_uses_with(operand)
    program.changed()
    assert jnp.array_equal(program(X), jnp.sin(X))
    assert jnp.array_equal(inside(X), 2 * jnp.sin(X))
    assert jnp.array_equal(program.lower().compile()(X), jnp.sin(X))

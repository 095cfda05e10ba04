"""Programs called inside ``jax.checkpoint`` save and recompute the same values as JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import jaxmlir

pytestmark = pytest.mark.compat

X = np.array([0.3, -0.7, 1.1], np.float32)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4], [-1.2, 0.6, 0.8]], np.float32)
POLICIES = jax.checkpoint_policies


def layer(x, w):
    y = checkpoint_name(jnp.tanh(x @ w), "y")
    z, _ = lax.scan(lambda c, row: (jnp.sin(c * row), None), y, w)
    return jnp.cos(z @ w) * x


def once(g):
    return lambda x, w: jnp.sum(g(g(x, w), w))


def in_loop(g):
    return lambda x, w: jnp.sum(lax.scan(lambda c, row: (g(c, w) * row, c), x, w)[0])


def in_branch(g):
    return lambda x, w: jnp.sum(lax.cond(x[0] > 0, g, lambda x, w: x, x, w))


def in_batch(g):
    return lambda x, w: jnp.sum(jax.vmap(g, (0, None))(w * x, w))


def both(around, policy=None):
    """The same JAX function with the program and with the Python function in it."""
    return [
        around(jax.checkpoint(f, policy=policy)) for f in (jaxmlir.trace(layer)(X, ROWS), layer)
    ]


def derivatives(f):
    """Derivatives in reverse mode, with forward mode over it, and linearized."""
    gradient = jax.grad(f, (0, 1))

    def all_of(x, w):
        second = jax.jvp(lambda x: gradient(x, w), (x,), (x,))[1]
        return gradient(x, w), second, jax.linearize(f, x, w)[1](x, w)

    return jax.jit(all_of)(X, ROWS)


def kept(f):
    """The number of elements in the residuals of the backward pass."""
    residuals = jax.eval_shape(lambda *args: jax.vjp(f, *args)[1], X, ROWS)
    return sum(x.size for x in jax.tree.leaves(residuals))


@pytest.mark.sampled
@pytest.mark.parametrize("around", [once, in_loop, in_branch, in_batch])
def test_derivatives_equal_jaxs(around):
    ours, theirs = both(around)
    close(derivatives(ours), derivatives(theirs), rtol=1e-4)


@pytest.mark.parametrize(
    ("around", "policy"),
    [
        (once, POLICIES.everything_saveable),
        (in_loop, POLICIES.dots_saveable),
        (once, POLICIES.save_only_these_names("y")),
    ],
    ids=["everything", "dots in a loop", "names"],
)
def test_a_policy_is_asked_about_the_ops_of_the_program(around, policy):
    ours, theirs = both(around, policy)
    close(derivatives(ours), derivatives(theirs), rtol=1e-4)
    assert kept(ours) <= kept(theirs)


def test_values_are_computed_again_behind_a_barrier():
    ours, theirs = (jax.jit(jax.grad(f)).lower(X, ROWS).as_text() for f in both(once))
    assert ours.count("optimization_barrier") == theirs.count("optimization_barrier") == 2


def test_effects_happen_as_often_as_in_jax(capfd):
    def loud(x):
        jax.debug.print("here")
        return jnp.sin(x)

    seen = []
    for f in (jaxmlir.trace(loud)(X), loud):
        jax.grad(lambda x, f=f: jnp.sum(jax.checkpoint(f)(x)))(X).block_until_ready()
        jax.effects_barrier()
        seen.append(capfd.readouterr().out)
    assert seen[0] == seen[1] != ""


def test_a_program_in_partial_evaluation_of_other_kinds():
    """In a loop that is differentiated in forward mode first, and transposed then."""
    program = jaxmlir.trace(layer)(X, ROWS)

    def pulled(f):
        def pushed(x):
            g = partial(jax.checkpoint(lambda x, w: f(jnp.sin(x), w)), w=ROWS)
            return jax.jvp(g, (X,), (x,))[1]

        return jax.linear_transpose(pushed, X)(X)

    close(jax.jit(lambda: pulled(program))(), jax.jit(lambda: pulled(layer))(), rtol=1e-4)

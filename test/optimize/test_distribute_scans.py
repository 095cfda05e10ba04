"""Results that a loop only stacks are computed after it: equal numbers, and fewer kernels in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

RNG = np.random.RandomState(0)
XS, W = RNG.randn(9, 3, 4).astype(np.float32), RNG.randn(4, 4).astype(np.float32)


def state_space(xs, w):
    """Each output is a product of the state with a row of an input."""

    def step(h, x):
        h = jnp.tanh(h * w + x[0, :, None])
        return h, (h @ x[1], jnp.max(h))

    h, (ys, tops) = lax.scan(step, jnp.zeros((4, 4)), xs)
    return jnp.sum(h) + jnp.sum(jnp.sin(ys)) + jnp.sum(tops**2)


def head(xs, w):
    """A recurrent cell with a loss in each step, backwards."""

    def step(h, x):
        h = jnp.tanh(h @ w + x)
        p = jax.nn.softmax(h @ w[:, :2] + 1)
        return h, (h, -jnp.log(p[:, 0]).sum() * x[0, 0])

    h, (hs, losses) = lax.scan(step, jnp.zeros((3, 4)), xs, reverse=True)
    return jnp.sum(h) + jnp.sum(hs[2]) + jnp.mean(losses)


def previous(xs, w):
    """The outputs are of the state before the step."""

    def step(h, x):
        return jnp.sin(h + x), (h, jnp.sum(h @ w, 0), x)

    _, (hs, sums, _) = lax.scan(step, XS[0], xs)
    return jnp.sum(hs**2) + jnp.sum(sums)


LOOPS = {f.__name__: f for f in (state_space, head, previous)}


def distributed(program):
    remarks = []
    after = program.run_passes(
        "jaxpr-distribute-scans,jaxpr-dce", target="tpu:v5e", remarks=remarks.append
    )
    after.verify()
    return after, [remark.message for remark in remarks]


@pytest.mark.compat
@pytest.mark.parametrize("name", LOOPS)
def test_results_and_gradients(name):
    f = LOOPS[name]
    gradient = jaxmlir.trace(f)(XS, W).value_and_grad((0, 1)).optimize(1)
    after, remarks = distributed(gradient)
    assert remarks
    got, want = after(XS, W), jax.value_and_grad(f, (0, 1))(XS, W)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


# In each, one condition is not met.
STAYING = {
    "the state is not stacked": lambda h, x: (h + x, jnp.sum(h @ W)),
    "no product": lambda h, x: (h + x, (h, jnp.sum(jnp.sin(h) * x))),
    "the loop needs it": lambda h, x: ((y := h @ W) + x, (h, y)),
    "an effect": lambda h, x: (h + x, (h, jax.debug.print("{}", h) or h @ W)),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_stays_in_the_loop(name):
    program = jaxmlir.trace(lambda xs: lax.scan(STAYING[name], XS[0], xs))(XS).optimize(1)
    assert distributed(program)[1] == []


def test_a_batch_that_does_not_fit_in_fast_memory_is_not_made():
    def f(xs):
        def step(h, x):
            return h + x, (h, jnp.sin(jnp.outer(h, h)) @ h)

        return lax.scan(step, xs[0], xs)

    for size, moves in ((100, True), (10_000, False)):
        program = jaxmlir.trace(f)(jax.ShapeDtypeStruct((9, size), np.float32)).optimize(1)
        assert bool(distributed(program)[1]) is moves

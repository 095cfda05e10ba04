"""Derivatives and batches of random programs, against JAX and against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close, vector_like
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_programs import (
    budget,
    differentiable_programs,
    forward_programs,
    lists_of,
    programs,
    programs_of,
    reverse_programs,
    run,
    simple,
)

import jaxmlir

pytestmark = pytest.mark.compat


def arguments(seed):
    return vector_like((np.zeros(3, np.float32),) * 2, seed)


@budget
@given(steps=differentiable_programs)
def test_derivatives_agree_with_jax_and_each_other(steps):
    """jvp and vjp are JAX's, and ``<vjp(ct), t> == <ct, jvp(t)>``."""

    def f(x, y):
        return run(steps, x, y)

    args, tangents, ct = arguments(0), arguments(1), arguments(2)[0]
    program = jaxmlir.trace(f)(*args)
    jvp, (fwd, bwd) = program.jvp(), program.vjp()
    for made in (jvp, fwd, bwd):
        made.verify()

    @jax.jit
    def ours(args, tangents, ct):
        out, residuals = fwd(*args)
        return jvp(args, tangents), (out, bwd(residuals, ct))

    @jax.jit
    def theirs(args, tangents, ct):
        out, pullback = jax.vjp(f, *args)
        return jax.jvp(f, args, tangents), (out, pullback(ct))

    forward, reverse = ours(args, tangents, ct)
    close((forward, reverse), theirs(args, tangents, ct), rtol=1e-4, atol=1e-5)
    pulled = sum(np.vdot(a, b) for a, b in zip(reverse[1], tangents, strict=True))
    scale = 1 + sum(np.abs(a * b).sum() for a, b in zip(reverse[1], tangents, strict=True))
    np.testing.assert_allclose(pulled, np.vdot(ct, forward[1]), atol=1e-4 * scale)


@settings(budget, max_examples=20)
@given(steps=programs_of("scan", "fori", "call", "again", "solve", "pushed", "pulled"))
@example(steps=(("again", (("again", ("remat", "sin")),)), "sin"))
def test_residuals_are_at_most_those_of_jax(steps):
    """In number and in bytes, those of loops, branches, calls and custom rules included."""
    kept = []

    def theirs(x, y):
        out, pullback = jax.vjp(lambda x, y: run(steps, x, y), x, y)
        kept.extend({id(leaf): leaf for leaf in jax.tree.leaves(pullback)}.values())
        return out

    args = arguments(0)
    jax.eval_shape(theirs, *args)
    forward, _ = jaxmlir.trace(lambda x, y: run(steps, x, y))(*args).vjp()
    residuals = jax.tree.leaves(jax.eval_shape(forward, *args)[1])
    assert len(residuals) <= len(kept)
    assert sum(map(size_in_bytes, residuals)) <= sum(map(size_in_bytes, kept))


def size_in_bytes(x):
    return x.size * x.dtype.itemsize


@budget
@given(steps=programs, in_axes=st.sampled_from([(0, None), (None, 1), (1, 0)]))
def test_a_batch_holds_the_value_of_each_element(steps, in_axes):
    """``vmap(f)(xs)[i] == f(xs[i])``, and ``vmap`` commutes with ``jvp``."""
    args = arguments(0)
    batch = vector_like((np.zeros((3, 3), np.float32),) * 2, 3)
    batch = tuple(
        x if axis is None else xs for x, xs, axis in zip(args, batch, in_axes, strict=True)
    )
    program = jaxmlir.trace(lambda x, y: run(steps, x, y))(*args)
    batched = program.vmap(in_axes, axis_size=3)
    commuted = program.jvp().vmap((in_axes, in_axes), axis_size=3)
    batched.verify()
    commuted.verify()

    def one(i):
        return [
            x if axis is None else jnp.take(x, i, axis)
            for x, axis in zip(batch, in_axes, strict=True)
        ]

    @jax.jit
    def both():
        together = batched(*batch), batched.jvp()(batch, batch)
        apart = jnp.stack([program(*one(i)) for i in range(3)]), commuted(batch, batch)
        return together, apart

    together, apart = both()
    close(together, apart, rtol=1e-4, atol=1e-5)


@budget
@given(steps=reverse_programs)
def test_batched_gradients_with_backward_rules_agree_with_jax(steps):
    def total(x, y):
        return jnp.sum(run(steps, x, y) ** 2)

    batch = vector_like((np.zeros((3, 3), np.float32),) * 2, 3)
    made = jaxmlir.trace(total)(*arguments(0)).grad((0, 1)).vmap((0, 1), axis_size=3)
    made.verify()
    expected = jax.vmap(jax.grad(total, (0, 1)), (0, 1))
    close(made(*batch), jax.jit(expected)(*batch), rtol=1e-4, atol=1e-5)


@budget
@given(steps=forward_programs)
def test_batched_tangents_through_loops_agree_with_jax(steps):
    batch = vector_like((np.zeros((3, 3), np.float32),) * 2, 3)
    program = jaxmlir.trace(lambda x, y: run(steps, x, y))(*arguments(0))
    made = program.jvp().vmap(((0, 1), (0, 1)), axis_size=3)
    made.verify()

    def pushed(primals, tangents):
        return jax.jvp(lambda x, y: run(steps, x, y), primals, tangents)

    expected = jax.vmap(pushed, ((0, 1), (0, 1)))
    close(made(batch, batch), jax.jit(expected)(batch, batch), rtol=1e-4, atol=1e-5)


@budget
@given(steps=lists_of(simple, 3))
def test_weakly_typed_is_what_is_so_in_jax(steps):
    """Weak types of values, tangents, cotangents and batches, tested by promotion with bfloat16."""

    def f(x, y):
        return jnp.concatenate([jnp.ravel(run(steps, x, y))] * 2) ** 2

    def pulled(x, y):
        return fwd(x, y)[0], bwd(fwd(x, y)[1], fwd(x, y)[0])

    def pulled_by_jax(x, y):
        out, pullback = jax.vjp(f, x, y)
        return out, pullback(out)

    x, rows = (jax.ShapeDtypeStruct(shape, np.float32, weak_type=True) for shape in ((3,), (2, 3)))
    program = jaxmlir.trace(f)(x, x)
    fwd, bwd = program.vjp()
    for ours, theirs, args in (
        (program.optimize(2), f, (x, x)),
        (program.jvp(), lambda *pairs: jax.jvp(f, *pairs), ((x, x), (x, x))),
        (pulled, pulled_by_jax, (x, x)),
        (program.vmap(), jax.vmap(f), (rows, rows)),
    ):
        assert weak_types(ours, args) == weak_types(theirs, args)


def weak_types(function, args):
    return [leaf.weak_type for leaf in jax.tree.leaves(jax.eval_shape(function, *args))]

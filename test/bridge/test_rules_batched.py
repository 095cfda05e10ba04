"""Custom rules of batched programs: which can stay untraced, and which cannot."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir.bridge.custom_rules import pending
from jaxmlir.errors import TransformError

pytestmark = pytest.mark.compat


def test_rules_of_results_that_may_have_to_be_batched_are_traced_at_once():
    @jax.custom_jvp
    def pair(x, y):
        return x * 2, y * 3

    @pair.defjvp
    def pair_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        # The second result's tangent depends on both arguments, so it and the result are batched.
        return pair(x, y), (2 * dx, 3 * dy + x * dx)

    xs, y = np.arange(3, dtype=np.float32), np.float32(2)
    program = jaxmlir.trace(lambda x, y: pair(x, y))(xs[0], y)
    batched = program.vmap(in_axes=(0, None), axis_size=3)
    want = jax.vmap(pair, in_axes=(0, None))
    tangents = np.ones_like(xs), np.float32(1)
    for ours, theirs in zip(
        jax.tree.leaves(jax.jvp(batched, (xs, y), tangents)),
        jax.tree.leaves(jax.jvp(want, (xs, y), tangents)),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_rules_of_results_that_the_batch_shares_wait(shift):
    """The forward rule's own total is batched; a backward rule's cotangent of it counts once."""
    traced = []

    @jax.custom_vjp
    def total_and_product(x, y, n):
        return jnp.sum(x), x * y, n + 1

    def fwd(x, y, n):
        traced.append(x)
        return (jnp.sum(x) + 0 * y * shift, x * y, n + 1), (x, y)

    def bwd(residuals, ct):
        x, y = residuals
        return ct[0] + ct[1] * y, jnp.sum(ct[1] * x), None

    total_and_product.defvjp(fwd, bwd)

    def f(x, y, n):
        total, product, n = total_and_product(x, y, n)
        return jnp.sin(total) + jnp.sum(jnp.sin(product)) * n

    def plain(x, y, n):
        return jnp.sin(jnp.sum(x)) + jnp.sum(jnp.sin(x * y)) * (n + 1)

    x, ys, n = np.arange(2, dtype=np.float32), np.linspace(0, 1, 3, dtype=np.float32), 2
    program = jaxmlir.trace(f)(x, ys[0], n)
    batched = program.vmap((None, 0, None), axis_size=3)
    np.testing.assert_allclose(batched(x, ys, n), jax.vmap(plain, (None, 0, None))(x, ys, n), 1e-6)
    assert not traced

    def weighed(f):
        return lambda x, ys: jnp.vdot(jnp.arange(1.0, 4.0), f(x, ys, n))

    theirs = weighed(jax.vmap(plain, (None, 0, None)))
    for ours in (batched, jaxmlir.parse(program.as_text()).vmap((None, 0, None), axis_size=3)):
        for derivative in (jax.grad, lambda f, argnums: jax.jacrev(jax.grad(f, 0), argnums)):
            for got, want in zip(
                derivative(weighed(ours), argnums=(0, 1))(x, ys),
                derivative(theirs, argnums=(0, 1))(x, ys),
                strict=True,
            ):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    empty = program.vmap((None, 0, None), axis_size=0)
    for got in jax.grad(lambda x, ys: jnp.sum(empty(x, ys, n)), (0, 1))(x, ys[:0]):
        assert not np.any(got)


def test_a_rule_within_a_rule_waits_for_its_derivative():
    """If it turns out then that a shared result has a tangent for each element, that is an error:
    JAX's own, of staged functions, is about ``broadcast_in_dim``."""

    @jax.custom_jvp
    def inner(x, y):
        return x * 2, y * 3

    @inner.defjvp
    def inner_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return inner(x, y), (2 * dx, 3 * dy + x * dx)

    @jax.custom_jvp
    def outer(x, y):
        return x * y

    @outer.defjvp
    def outer_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        a, b = inner(x, y)
        return outer(x, y), dx * a + dy * b

    xs, y = np.arange(1, 4, dtype=np.float32), np.float32(2)

    def gradient(f):
        return jax.grad(lambda xs, y: jnp.sum(jnp.sin(f(xs, y))), (0, 1))

    def close(f, derivative):
        theirs = derivative(gradient(jax.vmap(outer, (0, None))))(xs, y)
        for got, want in zip(derivative(gradient(f))(xs, y), theirs, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)

    def batched(program):
        return program.vmap((0, None), axis_size=3)

    program = jaxmlir.trace(lambda x, y: outer(x, y))(xs[0], y)
    close(batched(program), lambda g: g)
    with pytest.raises(TransformError, match=r"not batched; trace the rules before batching"):
        jax.jacfwd(gradient(batched(program)))(xs, y)
    program = jaxmlir.trace(lambda x, y: outer(x, y))(xs[0], y)
    program.trace_rules()
    close(batched(program), jax.jacfwd)


def test_a_rule_that_cannot_be_batched_fails_when_it_is_used():
    opaque = jax.extend.core.Primitive("opaque")
    opaque.def_impl(lambda x: x)
    opaque.def_abstract_eval(lambda x: x)

    @jax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), opaque.bind(tangents[0])

    xs = np.arange(3, dtype=np.float32)
    batched = jaxmlir.trace(lambda x: f(x))(xs[0]).vmap(axis_size=3)
    np.testing.assert_array_equal(batched(xs), xs * 2)
    assert "jvp_error = " in batched.as_text()
    batched.verify()
    with pytest.raises(TransformError, match="opaque.*cannot be batched"):
        batched.jvp()


def test_a_rule_that_cannot_be_batched_is_there_for_who_does_not():
    """One function is called on a batch and on a single element; its rule has another rule."""
    opaque = jax.extend.core.Primitive("opaque")
    opaque.def_impl(lambda x: x)
    opaque.def_abstract_eval(lambda x: x)
    jax.interpreters.ad.deflinear(opaque, lambda ct: [ct])
    jax.interpreters.mlir.register_lowering(opaque, lambda ctx, x: [x])

    @jax.custom_jvp
    def inner(x):
        return jnp.sin(x)

    inner.defjvp(lambda primals, tangents: (inner(*primals), 2 * tangents[0]))

    @jax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), opaque.bind(inner(primals[0]) * tangents[0])

    xs, y = np.arange(3, dtype=np.float32), np.float32(0.5)
    program = jaxmlir.trace(lambda x, y: (f(x), f(y)))(xs[0], y)
    batched = program.vmap(in_axes=(0, None), out_axes=(0, None), axis_size=3)
    text = batched.as_text()
    assert text.count("jvp_error = ") == 1 and text.count("jvp_jaxpr = @f_jvp") >= 1
    batched.verify()
    with pytest.raises(TransformError, match="opaque.*cannot be batched"):
        batched.jvp()
    tangent = jax.jvp(lambda y: batched(xs, y)[1], (y,), (np.float32(1),))[1]
    np.testing.assert_allclose(tangent, np.sin(y), rtol=1e-6)


def test_a_rule_that_a_batch_asks_for_is_traced_alone(monkeypatch):
    def half(number):
        @jax.custom_jvp
        def f(x, y):
            return number * x, jnp.sin(y)

        f.defjvp(lambda p, t: (f(*p), (number * t[0], jnp.cos(p[1]) * t[1])))
        return f

    def f(x, y):
        for number in range(1, 5):
            x, y = half(number)(x, y)
        return x * y

    program = jaxmlir.trace(f)(1.0, 2.0)
    reads = []
    monkeypatch.setattr(pending, "marked_ops", lambda found: reads.extend(found) or iter(()))
    batched = program.vmap((0, None), axis_size=3)
    assert not reads
    monkeypatch.undo()
    xs = jnp.arange(3.0)
    np.testing.assert_allclose(batched(xs, 2.0), jax.vmap(f, (0, None))(xs, 2.0), rtol=1e-6)
    of_program = jax.grad(lambda xs, y: batched(xs, y).sum(), (0, 1))(xs, 2.0)
    of_jax = jax.grad(lambda xs, y: jax.vmap(f, (0, None))(xs, y).sum(), (0, 1))(xs, 2.0)
    for got, wanted in zip(of_program, of_jax, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)

"""Rules with symbolic zeros, which fail unless exactly the expected (co)tangents are zero."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.experimental import io_callback

import jaxmlir
from jaxmlir.bridge.custom_rules import pending
from jaxmlir.errors import JaxmlirError

pytestmark = pytest.mark.compat


def close(ours, jaxs):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), ours, jaxs)


def strict_jvp(allowed):
    """The product of six numbers; its rule fails if other tangents than ``allowed`` are nonzero."""

    @jax.custom_jvp
    def product(*xs):
        return math.prod(xs), xs[0]

    def product_jvp(primals, tangents):
        given = {i for i, t in enumerate(tangents) if type(t) is not SymbolicZero}
        if not given <= allowed:
            raise RuntimeError("unexpected tangent")
        value, first = product(*primals)
        slope = sum((tangents[i] * value / primals[i] for i in given), jnp.zeros_like(value))
        return (value, first), (slope, jnp.zeros_like(first))

    product.defjvp(product_jvp, symbolic_zeros=True)
    return product


def strict_vjp(cotangents):
    """A function with two results, whose rules fail if other cotangents than ``cotangents`` are
    nonzero, or if the last argument has a tangent."""

    def value(x, y, fixed):
        return x * y * fixed, y + 1.0

    @jax.custom_vjp
    def f(x, y, fixed):
        return value(x, y, fixed)

    def f_fwd(x, y, fixed):
        if fixed.perturbed:
            raise RuntimeError("unexpected tangent")
        return value(x.value, y.value, fixed.value), (x.value, y.value, fixed.value)

    def f_bwd(residuals, ct):
        given = {i for i, c in enumerate(ct) if type(c) is not SymbolicZero}
        if not given <= cotangents:
            raise RuntimeError("unexpected cotangent")
        zero = jnp.zeros_like
        cts = [zero(c) if type(c) is SymbolicZero else c for c in ct]
        x, y, _ = jax.vjp(value, *residuals)[1](tuple(cts))
        return x, y, None

    f.defvjp(f_fwd, f_bwd, symbolic_zeros=True)
    return f


def agrees(f, args, argnums):
    """Checks that our derivatives equal JAX's, before and after a round trip through text."""

    def alone(*xs):
        return f(*(x if i in argnums else lax.stop_gradient(x) for i, x in enumerate(xs)))

    program = jaxmlir.trace(f)(*args)
    expected = jax.jit(jax.grad(f, argnums))(*args)
    close(program.grad(argnums)(*args), expected)
    close(jax.grad(program, argnums)(*args), expected)
    assert "untraced" not in program.as_text()
    close(program.grad(argnums)(*args), expected)
    close(program.optimize(2).grad(argnums)(*args), expected)
    rows = [np.stack([a, 0.5 * a]).astype(np.float32) for a in args]
    for axes in ((0,) * len(args), (0, *[None] * (len(args) - 1))):
        given = [
            r if axis == 0 else np.float32(a) for r, a, axis in zip(rows, args, axes, strict=True)
        ]
        batched = jax.vmap(alone, axes)
        forward, backward = jaxmlir.trace(alone)(*args).vmap(axes, axis_size=2).vjp()
        _, residuals = forward(*given)
        ones = np.ones(2, np.float32)
        close(backward(residuals, ones), jax.vjp(batched, *given)[1](ones))
        derivative = program.grad(argnums).vmap(axes, axis_size=2)
        close(derivative(*given), jax.vmap(jax.grad(f, argnums), axes)(*given))


def test_a_jvp_rule_is_asked_for_the_tangents_that_there_are():
    """More arguments than a rule is traced for every combination of."""
    product = strict_jvp({1, 3})
    args = (0.5, 0.7, 1.3, 1.1, 0.9, 2.0)
    agrees(lambda *xs: product(*xs)[0] ** 2, args, (1, 3))
    agrees(
        lambda *xs: lax.fori_loop(0, 3, lambda i, x: product(xs[0], x, *xs[2:])[0], xs[1]),
        args,
        (1,),
    )

    def f(*xs):
        return product(*xs)[0]

    program = jaxmlir.trace(f)(*args)
    second = jax.grad(jax.grad(f, 1), 3)(*args)
    close(program.grad(1).grad(3)(*args), second)
    for derivative in (program.grad, reread(program).grad):
        with pytest.raises(JaxmlirError, match="unexpected tangent"):
            derivative((1, 2))


def test_a_jvp_rule_in_a_call_with_effects_is_asked_for_the_tangents_that_there_are():
    """JAX differentiates the call, and the program knows no rule for all tangents."""
    product = strict_jvp({1, 3})
    args = (0.5, 0.7, 1.3, 1.1, 0.9, 2.0)

    @jax.jit
    def observed(*xs):
        io_callback(lambda x: None, None, xs[5])
        return product(*xs)[0]

    program = jaxmlir.trace(observed)(*args)
    assert "jvp_error" in program.as_text()
    close(program.grad((1, 3))(*args), jax.grad(observed, (1, 3))(*args))


def test_a_program_that_was_read_says_where_its_rule_can_be_asked():
    """A loaded rule may lack a combination of tangents that the original rule accepts."""
    product = strict_jvp({1, 3})
    args = (0.5, 0.7, 1.3, 1.1, 0.9, 2.0)
    program = jaxmlir.trace(lambda *xs: product(*xs)[0])(*args)
    expected = program.grad((1, 3))(*args)
    with pytest.raises(JaxmlirError, match="unexpected tangent; .* differentiate the traced"):
        reread(program).grad((1, 3))
    close(reread(program.grad((1, 3)))(*args), expected)
    with pytest.raises(JaxmlirError, match="unexpected tangent$"):
        program.grad((1, 2))


def test_a_long_vjp_rule_is_told_what_is_zero(monkeypatch):
    monkeypatch.setattr(pending, "SHORT", 1)
    f = strict_vjp({0})
    args = (0.5, 0.7, 1.3)
    agrees(lambda *xs: f(*xs)[0] ** 2, args, (0, 1))
    agrees(lambda *xs: lax.fori_loop(0, 3, lambda i, x: f(x, *xs[1:])[0], xs[0]), args, (0, 1))
    # An unbatched result has a zero cotangent, so nothing is counted twice.
    agrees(lambda *xs: f(*xs)[0] + f(xs[0], 1.0, xs[2])[0], args, (0,))
    with pytest.raises(JaxmlirError, match="unexpected cotangent"):
        jaxmlir.trace(lambda *xs: sum(f(*xs)))(*args).grad()


def test_a_rule_in_another_rule_is_told_what_is_zero():
    inner = strict_jvp({2})

    @jax.custom_jvp
    def outer(x, y):
        return x * y

    @outer.defjvp
    def outer_jvp(primals, tangents):
        x, y = primals
        slope = inner(1.0, 1.0, y, 1.0, 1.0, 1.0)[0]
        return outer(x, y), slope * tangents[0] + x * tangents[1]

    def f(x, y):
        return outer(x, y) * y

    program = jaxmlir.trace(f)(0.3, 0.7)
    close(program.grad(0).grad(1)(0.3, 0.7), jax.grad(jax.grad(f, 0), 1)(0.3, 0.7))


def test_a_rule_that_is_asked_for_is_prepared_as_those_before():
    """Its loops are given a reverse derivative; what passes did to the others it lacks."""

    @jax.custom_jvp
    def cubed(x, *others):
        return x**3

    def cubed_jvp(primals, tangents):
        def step(state):
            n, y = state
            return n + 1, y * primals[0]

        _, square = lax.while_loop(lambda s: s[0] < 2, step, (0, primals[1]))
        return cubed(*primals), 3 * square * tangents[0]

    cubed.defjvp(cubed_jvp, symbolic_zeros=True)
    args = (2.0, *np.ones(5, np.float32))
    program = jaxmlir.trace(lambda *xs: cubed(*xs))(*args)
    close(program.grad(while_loops="checkpointed", checkpoints=2).grad()(*args), np.float32(12))
    with pytest.raises(JaxmlirError, match="while_loops"):
        program.grad().grad()
    changed = program.run_passes("jaxpr-checkpoint-while{checkpoints=2}")
    close(changed.grad().grad()(*args), np.float32(12))


def test_in_a_checkpoint_of_a_program():
    """JAX splits the derivative, and the part with the rule is imported again."""

    @jax.custom_vjp
    def times(x, y):
        return x * y

    def times_fwd(x, y):
        return x.value * y.value, (x.value, y.value)

    def times_bwd(residuals, ct):
        x, y = residuals
        return 10 * ct * y, 100 * ct * x

    times.defvjp(times_fwd, times_bwd, symbolic_zeros=True)
    xs = np.array([1.0, 2.0, 3.0], np.float32)

    def product(xs):
        return lax.scan(lambda c, x: (times(c, x), None), 1.0, xs)[0]

    want = jax.grad(jax.checkpoint(product))(xs)
    program = jaxmlir.trace(product)(xs)
    for f in (program, jaxmlir.jit(product), reread(program)):
        close(jax.grad(jax.checkpoint(f))(xs), want)

"""Programs with internal references are transformed like equivalent pure programs.

Every program is written twice, with references and without; JAX transforms the pure one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import given
from jax import lax

import jaxmlir
from jaxmlir.errors import JaxmlirError

pytestmark = pytest.mark.compat

X = np.array([0.3, -0.7, 1.1, 0.4], np.float32)


def product(x):
    r = jax.new_ref(x)
    r[...] = r[...] * jnp.sin(x)
    return jnp.sum(r[...])


def pure_product(x):
    return jnp.sum(x * jnp.sin(x))


def scanned(x):
    """A loop writes an outer reference, and creates another reference in every iteration."""
    r = jax.new_ref(jnp.zeros_like(x))

    def body(c, i):
        s = jax.new_ref(jnp.zeros_like(x))
        s[i] = jnp.sin(c * x[i])
        r[i] = jax.freeze(s)[i]
        return c * 1.1 + r[i], c

    c, ys = lax.scan(body, jnp.float32(1), jnp.arange(4))
    return jnp.sum(r[...] * ys) + c


def pure_scanned(x):
    def body(c, i):
        y = jnp.sin(c * x[i])
        return c * 1.1 + y, (y, c)

    c, (r, ys) = lax.scan(body, jnp.float32(1), jnp.arange(4))
    return jnp.sum(r * ys) + c


def called(x):
    """One function is called twice with the reference; another creates one of the same type."""
    r = jax.new_ref(jnp.float32(0))

    @jax.jit
    def add(y):
        r[...] += jnp.sum(y**2)

    @jax.jit
    def own(y):
        s = jax.new_ref(jnp.float32(3))
        s[...] *= y[0]
        return s[...]

    add(x)
    add(x * own(x))
    return r[...]


def pure_called(x):
    return jnp.sum(x**2) + jnp.sum((x * (3 * x[0])) ** 2)


def branching(x):
    r, s = jax.new_ref(x), jax.new_ref(x * 2)

    def one():
        r[0] = r[0] * 3
        s[1] += 1

    def other():
        r[1] = jnp.cos(r[1])

    lax.cond(x[0] > 0, one, other)
    first = jax.freeze(r)
    return jnp.sum(first**2 * s[...])


def pure_branching(x):
    then = jnp.sum(x.at[0].mul(3) ** 2 * (2 * x).at[1].add(1))
    other = jnp.sum(x.at[1].set(jnp.cos(x[1])) ** 2 * 2 * x)
    return lax.cond(x[0] > 0, lambda: then, lambda: other)


@jax.custom_jvp
def sine_with_rule(x):
    r = jax.new_ref(x)
    r[...] = jnp.sin(r[...])
    return r[...]


@sine_with_rule.defjvp
def _sine_rule(primals, tangents):
    r = jax.new_ref(tangents[0])
    # Twice the derivative shows that the rule is used.
    r[...] *= 2 * jnp.cos(primals[0])
    return sine_with_rule(*primals), r[...]


def ruled(x):
    r = jax.new_ref(x)
    r[0] = sine_with_rule(r[1])
    return jnp.sum(r[...] ** 2)


@jax.custom_jvp
def pure_sine_with_rule(x):
    return jnp.sin(x)


@pure_sine_with_rule.defjvp
def _pure_sine_rule(primals, tangents):
    return pure_sine_with_rule(*primals), 2 * jnp.cos(primals[0]) * tangents[0]


def pure_ruled(x):
    return jnp.sum(x.at[0].set(pure_sine_with_rule(x[1])) ** 2)


def ruled_loop(x):
    """A custom rule in a loop that writes a reference."""
    r = jax.new_ref(x)

    def body(i, c):
        r[i] = pure_sine_with_rule(r[i] * c)
        return c * 0.9

    c = lax.fori_loop(0, 3, body, jnp.float32(1))
    return c * jnp.sum(jax.freeze(r))


def pure_ruled_loop(x):
    c = jnp.float32(1)
    for i in range(3):
        x = x.at[i].set(pure_sine_with_rule(x[i] * c))
        c = c * 0.9
    return c * jnp.sum(x)


PROGRAMS = [
    (product, pure_product),
    (scanned, pure_scanned),
    (called, pure_called),
    (branching, pure_branching),
    (jax.checkpoint(scanned), pure_scanned),
    (ruled, pure_ruled),
    (ruled_loop, pure_ruled_loop),
]
NAMES = ["product", "scanned", "called", "branching", "checkpointed", "ruled", "ruled_loop"]


def close(ours, theirs):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), ours, theirs)


@pytest.mark.sampled
@pytest.mark.parametrize(("f", "pure"), PROGRAMS, ids=NAMES)
def test_derivatives_and_batches(f, pure):
    program = jaxmlir.parse(str(jaxmlir.trace(f)(X)))
    batch = np.stack([X, -X, X * 2])
    close(program.jvp()((X,), (X * X,)), jax.jit(lambda x: jax.jvp(pure, (x,), (x * x,)))(X))
    gradient = program.grad()
    gradient.verify()
    close(gradient(X), jax.jit(jax.grad(pure))(X))
    close(program.vmap(axis_size=3)(batch), jax.jit(jax.vmap(pure))(batch))
    close(gradient.vmap(axis_size=3)(batch), jax.jit(jax.vmap(jax.grad(pure)))(batch))
    # JAX cannot compute the Hessian of the function with references.
    close(gradient.jacfwd()(X), jax.jit(jax.hessian(pure))(X))


@pytest.mark.parametrize(("f", "pure"), PROGRAMS, ids=NAMES)
def test_the_pass_leaves_no_reference(f, pure):
    program = jaxmlir.trace(f)(X)
    discharged = program.run_passes("jaxpr-discharge-refs,symbol-dce")
    assert "!jaxpr.ref" in str(program) and "InternalMutableArrayEffect" in str(program)
    assert "!jaxpr.ref" not in str(discharged)
    assert "InternalMutableArrayEffect" not in str(discharged)
    assert discharged.name == program.name and discharged.in_tree == program.in_tree
    discharged.verify()
    np.testing.assert_array_equal(discharged(X), jax.jit(pure)(X))


def test_a_reference_is_passed_once():
    """JAX refuses to trace such a call; since 0.12 its abstract evaluation does, too."""
    read = "{jaxpr.effects = [{ReadEffect = 0 : i64}]"
    text = f"""
    func.func public @f(%x: tensor<f32>) -> tensor<f32> {{
      %r = "jaxpr.new_ref"(%x) {{jaxpr.effects = [{{InternalMutableArrayEffect = none}}]}}
        : (tensor<f32>) -> !jaxpr.ref<tensor<f32>>
      %0 = "jaxpr.jit"(%r, %r) {read}, jaxpr = @sum, name = "sum"}}
        : (!jaxpr.ref<tensor<f32>>, !jaxpr.ref<tensor<f32>>) -> tensor<f32>
      return %0 : tensor<f32>
    }}
    func.func private @sum(
      %r: !jaxpr.ref<tensor<f32>>, %s: !jaxpr.ref<tensor<f32>>
    ) -> tensor<f32> {{
      %0 = "jaxpr.get"(%s) {read}, tree = {{pytree = []}}}}
        : (!jaxpr.ref<tensor<f32>>) -> tensor<f32>
      return %0 : tensor<f32>
    }}"""
    with pytest.raises(
        JaxmlirError, match="same reference is passed to it twice|same Ref as more than one operand"
    ):
        jaxmlir.parse(text).run_passes("jaxpr-discharge-refs")


def test_a_call_without_results_makes_no_reference_any_more():
    @jax.jit
    def printed(x):
        ref = jax.new_ref(x)
        ref[...] += 1
        jax.debug.print("{}", ref[0])

    def f(x):
        printed(x)
        return x * 2

    discharged = str(jaxmlir.trace(f)(X).run_passes("jaxpr-discharge-refs"))
    assert "DebugEffect" in discharged and "InternalMutableArrayEffect" not in discharged


@pytest.mark.parametrize(("f", "pure"), [PROGRAMS[3], PROGRAMS[5]], ids=["branching", "ruled"])
def test_inside_other_code(f, pure):
    """JAX has no Hessian of the first function with references, and cannot compile the second."""
    program = jaxmlir.trace(f)(X)
    np.testing.assert_array_equal(program(X), jax.jit(pure)(X))
    close(jax.jit(jax.hessian(program))(X), jax.jit(jax.hessian(pure))(X))
    assert "ref" not in program.lower().as_text()


def test_a_condition_reads_what_the_body_writes():
    def f(x):
        total, count = jax.new_ref(x[0]), jax.new_ref(jnp.int32(0))

        def body(c):
            total[...] += c * x[1]
            count[...] += 1
            return c * 1.5

        c = lax.while_loop(lambda c: (total[...] + c < 9) & (count[...] < 7), body, x[2])
        return total[...] * c + count[...]

    def pure(x):
        def body(carry):
            total, count, c = carry
            return total + c * x[1], count + 1, c * 1.5

        start = x[0], jnp.int32(0), x[2]
        going = lambda s: (s[0] + s[2] < 9) & (s[1] < 7)  # noqa: E731
        total, count, c = lax.while_loop(going, body, start)
        return total * c + count

    program = jaxmlir.trace(f)(X)
    batch = np.stack([X, -X, X * 2])
    close(program.run_passes("jaxpr-discharge-refs")(X), jax.jit(pure)(X))
    close(program.jvp()((X,), (X * X,)), jax.jit(lambda x: jax.jvp(pure, (x,), (x * x,)))(X))
    close(program.vmap(axis_size=3)(batch), jax.jit(jax.vmap(pure))(batch))


@random_programs.budget
@given(steps=random_programs.programs_with_references)
def test_random_programs(steps):
    def f(x, y):
        return jnp.sum(random_programs.run(steps, x, y))

    x, y = X[:3], X[1:]
    program = jaxmlir.trace(f)(x, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_programs, "kept", random_programs.carried)
        value = jax.jit(lambda x, y: f(x, y))(x, y)
        gradient = jax.jit(jax.grad(lambda x, y: f(x, y), (0, 1)))(x, y)
        batch = jax.jit(jax.vmap(lambda x, y: f(x, y), (0, None)))(np.stack([x, y]), y)
    close(program.run_passes("jaxpr-discharge-refs")(x, y), value)
    close(program.grad((0, 1))(x, y), gradient)
    close(program.vmap((0, None), axis_size=2)(np.stack([x, y]), y), batch)


def test_references_of_the_arguments_stay():
    def f(r, x):
        s = jax.new_ref(x)
        r[...] += s[...]
        return s[...] * 2

    ref = jax.new_ref(jnp.asarray(X))
    program = jaxmlir.trace(f)(ref, X)
    discharged = program.run_passes("jaxpr-discharge-refs")
    np.testing.assert_array_equal(discharged(ref, X), X * 2)
    np.testing.assert_array_equal(ref[...], X * 2)


def test_references_of_another_kind_have_another_type():
    """A reference of kind ``no_grad_no_remat`` is written once."""

    def count(ref):
        @jax.remat
        def f(y):
            out = y * ref[...]
            ref[...] += 1
            return out

        return f

    plain, once = (jax.new_ref(1.0, kind=kind) for kind in (None, "no_grad_no_remat"))
    jaxmlir.trace(count(plain))(2.0)
    assert jax.grad(jaxmlir.trace(count(once))(2.0))(2.0) == 1.0
    assert once[...] == 2.0

"""Derivatives that JAX takes while ``jaxmlir.jit`` traces are derivatives of optimized programs."""

from __future__ import annotations

import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import jaxmlir
from benchmarks._code import instructions
from benchmarks.programs import NAIVE, PROGRAMS
from jaxmlir.passes import STORAGE

pytestmark = pytest.mark.compat

W = np.random.RandomState(0).rand(3, 3).astype(np.float32) / 2
X = np.linspace(0.5, 1.5, 3).astype(np.float32)


def relaxation(w, x):
    """A loop with a loop-invariant matrix product, which the passes hoist."""

    def step(x, _):
        return jnp.tanh(w @ w.T @ x), None

    return jnp.sum(lax.scan(step, x, None, length=5)[0] ** 2)


def checked(function, *args, level=2, **options):
    """Checks that our function gives JAX's results; returns the remarks."""
    said = []
    ours = jaxmlir.jit(function, optimize=level, remarks=said.append, **options)
    got, expected = ours(*args), jax.jit(function, **options)(*args)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    return said


def staged(function, *args, **options):
    """Checks that all derivatives were taken of programs, and are correct."""
    assert [str(d) for d in checked(function, *args, **options) if "jaxmlir.jit" in d.message] == []


def as_jax_does(function, *args, **options):
    """Checks that a derivative was JAX's own, and is correct; returns the remark."""
    said = [d for d in checked(function, *args, **options) if "jaxmlir.jit" in d.message]
    assert said[0].severity == "remark" and said[0].file == __file__ and said[0].line > 0
    return said[0].message


def test_the_passes_run_before_the_derivative():
    said = []
    ours = jaxmlir.jit(jax.grad(relaxation), optimize=2, remarks=said.append)
    np.testing.assert_allclose(ours(W, X), jax.grad(relaxation)(W, X), rtol=1e-4)
    assert any("[jaxpr-licm]" in d.message for d in said)
    inside = jax.make_jaxpr(ours)(W, X).jaxpr.eqns[0].params["jaxpr"].eqns
    assert {e.primitive.name for e in inside} == {"jaxmlir_call"}


GRADIENT = jax.grad(relaxation)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "derivative",
    [
        GRADIENT,
        jax.grad(relaxation, (0, 1)),
        jax.value_and_grad(relaxation, argnums=1),
        jax.jacrev(relaxation, argnums=1),
        jax.jacfwd(relaxation, argnums=1),
        jax.hessian(relaxation, argnums=1),
        jax.jacrev(jax.jacrev(relaxation, argnums=1), argnums=1),
        lambda w, x: jax.jvp(relaxation, (w, x), (w, jnp.ones_like(x))),
        lambda w, x: jax.vjp(relaxation, w, x)[1](2.0),
        lambda w, x: jax.linearize(relaxation, w, x)[1](w, x),
        lambda w, x: jax.grad(lambda x: jnp.sum(GRADIENT(w, x) ** 2))(x),
        lambda w, x: jax.jvp(lambda x: GRADIENT(w, x), (x,), (x,)),
        lambda w, x: jax.vmap(GRADIENT, (None, 0))(w, jnp.stack([x, 2 * x])),
        lambda w, x: jax.grad(
            lambda w: jnp.sum(jax.vmap(relaxation, (None, 0))(w, x[:, None] * w))
        )(w),
    ],
)
def test_derivatives(derivative):
    staged(derivative, W, X)


@pytest.mark.parametrize("name", ["mlp", "lstm_scan", "states_in_place", "chain_times_vector"])
def test_the_obvious_form_compiles_to_what_is_made_by_hand(name):
    function, args = (PROGRAMS | NAIVE)[name].make("small")
    by_hand = jaxmlir.trace(function)(*args).optimize(2, without=STORAGE).grad().optimize(2)
    obvious = jaxmlir.jit(jax.grad(function), optimize=2)
    forms = [form.compile() for form in (by_hand.lower(), obvious.lower(*args))]
    assert instructions(forms[0]) == instructions(forms[1])


def test_auxiliary_results_of_all_kinds():
    def loss(w, x):
        y = w @ x
        kinds = {"y": y, "n": jnp.argmax(y), "static": 3, "name": "a", "none": None}
        return jnp.sum(y**2), kinds

    def step(w, x):
        (value, aux), gradient = jax.value_and_grad(loss, has_aux=True)(w, x)
        assert aux.pop("name") == "a" and aux["static"] == 3
        _, jacobian_aux = jax.jacrev(lambda w: loss(w, x), has_aux=True)(w)
        _, pullback, more = jax.vjp(lambda w: loss(w, x), w, has_aux=True)
        return value, aux, gradient, jacobian_aux["y"], pullback(value), more["n"]

    staged(step, W, X)


def test_an_auxiliary_result_that_has_no_derivative_in_reverse_mode():
    def loss(x):
        steps = lax.while_loop(lambda s: jnp.sum(s) < 10, lambda s: s * 1.5, x)
        return jnp.sum(x**2), steps

    staged(jax.value_and_grad(loss, has_aux=True), X)


def test_integers_keys_and_static_arguments():
    def loss(w, n, key, mode):
        noise = jax.random.normal(key, w.shape)
        return jnp.sum((w * noise) ** n) if mode == "power" else jnp.sum(w)

    def step(w, n, key, mode):
        by_integers = jax.grad(loss, (0, 1), allow_int=True)(w, n, key, mode)[0]
        pulled = jax.vjp(lambda w, n: loss(w, n, key, mode), w, n)[1](1.0)[0]
        return by_integers, pulled, jax.grad(loss)(w, 2, key=key, mode=mode)

    for mode in ("power", "sum"):
        staged(step, W, 3, jax.random.key(0), mode, static_argnums=3)

    def chosen(x, n):
        return x**n if n > 2 else x

    # The function looks at an integer, which is known because it has no tangent.
    staged(lambda x: jax.vjp(chosen, x, 3)[1](1.0)[0], 2.0)


def test_what_is_closed_over_is_an_operand():
    def step(w, x, scale):
        data = jnp.outer(x, x) * scale

        def inner(w):
            rows = lax.map(lambda row: jnp.dot(row, x) * scale, w @ data)
            return jnp.sum(rows**2)

        def outer(s):
            # Of another derivative, too.
            return jnp.sum(jax.grad(lambda w: inner(w) * s)(w) ** 2)

        return jax.grad(inner)(w), jax.grad(outer)(scale), jnp.sum(data)

    staged(step, W, X, 2.0)


def test_an_inner_gradient_within_an_outer_one():
    def adapted(w, x):
        return w - 0.1 * jax.grad(relaxation)(w, x)

    def meta(w, xs):
        return jnp.mean(jax.vmap(lambda x: relaxation(adapted(w, x), x))(xs))

    for level in (1, 2):
        staged(jax.value_and_grad(meta), W, np.stack([X, X + 1]), level=level)


def test_training_steps_in_a_scan_of_an_ensemble():
    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    @jax.jit
    def step(w, x):
        value, gradient = jax.value_and_grad(loss)(w, x)
        return w - 0.1 * gradient, value

    def train(w, xs):
        return lax.scan(step, w, xs)

    xs = np.random.RandomState(1).rand(4, 5, 3).astype(np.float32)
    staged(train, W, xs)
    staged(jax.vmap(train, (0, None)), np.stack([W, 2 * W]), xs)


def test_names_of_axes():
    mesh = Mesh(np.array(jax.devices()), "i")
    xs = np.random.RandomState(1).rand(8 * mesh.size, 3).astype(np.float32)

    def loss(w, x):
        return jnp.mean((x @ w) ** 2)

    def mean_of_gradients(w, x):
        return lax.pmean(jax.grad(loss)(w, x), "i")

    def gradient_of_mean(w, x):
        return jax.grad(lambda w: lax.pmean(loss(w, x), "i"))(w)

    for step in (mean_of_gradients, gradient_of_mean):
        sharded = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
        staged(sharded, W, xs)
        batched = jax.vmap(step, (None, 0), axis_name="i")
        staged(batched, W, xs.reshape(4, -1, 3))


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


log1pexp.defjvp(lambda x, t: (log1pexp(*x), t[0] * (1 - 1 / (1 + jnp.exp(x[0])))))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(function, x):
    return function(x)


scaled.defvjp(
    lambda function, x: jax.vjp(function, x),
    lambda function, pullback, g: tuple(3 * x for x in pullback(g)),
)


def test_custom_rules():
    def loss(w, x):
        return jnp.sum(log1pexp(100 * clipped(w @ x))) + jnp.sum(scaled(jnp.sin, x))

    staged(jax.grad(loss, (0, 1)), W, X)
    staged(jax.jvp, lambda x: jnp.sum(log1pexp(x)), (X,), (X,), static_argnums=0)


def test_a_rule_that_closes_over_a_value_of_the_function_around():
    def step(w, x):
        @jax.custom_vjp
        def f(y):
            return y

        f.defvjp(lambda y: (y, y), lambda y, g: (g * x,))
        return jax.grad(lambda w: jnp.sum(f(w @ x) ** 2))(w)

    assert "a custom rule in it closes over a traced f32[3]" in as_jax_does(step, W, X)


@pytest.mark.parametrize("policy", ["nothing_saveable", "dots_saveable", None])
def test_checkpoints(policy):
    policy = policy and getattr(jax.checkpoint_policies, policy)
    layer = jax.checkpoint(lambda w, x: jnp.tanh(w @ x), policy=policy)

    def loss(w, x):
        for _ in range(3):
            x = layer(w, x)
        return jnp.sum(x**2)

    staged(jax.value_and_grad(loss), W, X)
    staged(jax.grad(jax.checkpoint(lambda w, x: jnp.sum(jax.grad(loss)(w, x) ** 2))), W, X)


def test_effects(capfd):
    def loss(x):
        jax.debug.print("x = {}", x, ordered=False)
        return x**2

    staged(jax.grad(loss), 3.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x = 3.0") == 2


def test_a_function_that_leaves_values_behind_is_differentiated_as_it_is():
    def step(w, x):
        kept = {}

        def loss(w):
            kept["norm"] = jnp.sum(x**2)
            return jnp.sum(w @ x) * kept["norm"]

        return jax.grad(loss)(w) * kept["norm"]

    assert (
        "step is traced with JAX's derivatives: JaxmlirError: it uses a traced f32[] that another "
        "function leaked" in as_jax_does(step, W, X)
    )


def test_a_function_that_asks_for_tracers_of_the_derivative_is_differentiated_as_it_is():
    def step(x):
        def loss(y):
            # As libraries do that know nothing of a trace in between.
            assert not type(y).__name__.startswith("DynamicJaxpr")
            return y**2

        return jax.grad(loss)(x)

    assert "loss is differentiated by JAX: AssertionError" in as_jax_does(step, 2.0)


def test_errors_are_those_of_jax():
    def looks(x):
        return x if x > 0 else -x

    def through_a_loop(x):
        return jnp.sum(lax.while_loop(lambda s: jnp.sum(s) < 9, lambda s: 2 * s, x))

    for function, args in [
        (jax.grad(looks), (2.0,)),
        (jax.grad(through_a_loop), (X,)),
        (jax.grad(lambda w, x: w @ x), (W, X)),
        (jax.grad(lambda n: n), (3,)),
        (jax.grad(lambda x: 1j * x), (2.0,)),
    ]:
        raised = []
        for jitted in (jax.jit(function), jaxmlir.jit(function, optimize=2)):
            with pytest.raises(Exception) as info:
                jitted(*args)
            raised.append((info.type, str(info.value).partition(" at ")[0]))
        assert raised[0] == raised[1]


def test_what_jax_keeps_is_not_mixed_up():
    traces = []

    @jax.jit
    def gradient(w, x):
        traces.append(None)
        return jax.grad(relaxation)(w, x)

    def primitives(jaxpr):
        for eqn in jaxpr.eqns:
            yield eqn.primitive.name
            for inner in jax.extend.core.jaxprs_in_params(eqn.params):
                yield from primitives(inner)

    def has_calls(function):
        return "jaxmlir_call" in primitives(jax.make_jaxpr(function)(W, X).jaxpr)

    ours = jaxmlir.jit(gradient, optimize=2)
    assert not has_calls(gradient)
    np.testing.assert_allclose(ours(W, X), gradient(W, X), rtol=1e-4)
    assert not has_calls(gradient) and len(traces) == 2
    other = jax.jit(lambda w, x: jax.grad(relaxation)(w, x))
    jaxmlir.jit(other, optimize=2)(W, X)
    assert not has_calls(other)


def test_disabled_jit():
    with jax.disable_jit():
        np.testing.assert_allclose(
            jaxmlir.jit(jax.grad(relaxation), optimize=2)(W, X),
            jax.grad(relaxation)(W, X),
            rtol=1e-5,
        )


def test_programs_within():
    def step(w, x):
        program = jaxmlir.trace(relaxation)(w, x)
        assert "jaxmlir_call" not in str(program)
        return program.grad()(w, x), jax.grad(program)(w, x), program.hessian(1)(w, x)

    staged(step, W, X)

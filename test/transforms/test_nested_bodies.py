"""Deeply nested functions: as deep as JAX can trace, and stand-ins for nested functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same
from jax import lax
from jax.extend.core import Primitive, jaxpr_as_fun

import jaxmlir
from jaxmlir.analysis import liveness
from jaxmlir.bridge import exporter, importer
from jaxmlir.dialect.codec.registry import encoders
from jaxmlir.errors import EvaluationError, ImportingError, TransformError
from jaxmlir.lowering import functions

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
    monkeypatch.setattr(functions, "MAX_DEPTH", 1)
    lowered = jaxmlir.trace(function)(*arguments).lower()
    assert "jaxmlir.nested_body" not in lowered.as_text()
    same(lowered.compile()(*arguments), expected)


def test_effects_of_bodies_that_wait_stay_in_order(monkeypatch):
    monkeypatch.setattr(functions, "MAX_DEPTH", 1)
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
    monkeypatch.setattr(functions, "MAX_DEPTH", 1)
    (n,) = jax.export.symbolic_shape("n")
    argument = jax.ShapeDtypeStruct((n,), np.float32)
    program = jaxmlir.trace(lambda x: nest(within_jit, 4)(x) + x.shape[0])(argument)
    same(program(X), jax.jit(lambda x: nest(within_jit, 4)(x) + 3)(X))


def near(ours, jaxs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(jaxs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def around_jit(inner, _):
    return jax.jit(lambda x: jnp.sin(inner(x)) + x)


def around_cond(inner, i):
    return lambda x: lax.cond(x[0] < i + 1, lambda x: jnp.sin(inner(x)) + x, lambda x: x * 2.0, x)


DEPTH = 160


def flat(x, depth=DEPTH):
    y = jnp.sin(x)
    for _ in range(depth):
        y = jnp.sin(y) + x
    return y


def deeper(around, depth=DEPTH):
    """A program nested deeper than JAX traces at once: each level wraps the traced level inside."""
    closed = jax.make_jaxpr(jnp.sin)(X)
    for i in range(depth):
        inner = jaxpr_as_fun(closed)
        closed = jax.make_jaxpr(around(lambda x, inner=inner: inner(x)[0], i))(X)
    return jaxmlir.from_jaxpr(closed, "main")


@pytest.mark.parametrize("around", [around_jit, around_cond])
def test_programs_may_be_nested_deeper_than_pythons_stack(around):
    program = deeper(around)
    program.verify()
    assert str(jaxmlir.parse(str(program))) == str(program)
    again = jaxmlir.from_jaxpr(program.to_jaxpr(), "main")
    program.lower()
    for found in (program, again, program.optimize(2)):
        near(found.eval(X), flat(X))


def test_values_are_stored_in_functions_nested_deeper_than_pythons_stack():
    program = deeper(around_jit, 500).run_passes("jaxpr-materialize-shared")
    near(program.run_passes("jaxpr-inline").eval(X), flat(X, 500))


def test_functions_that_are_too_deep_to_be_transformed_are_an_error():
    program = deeper(around_jit)
    with pytest.raises(TransformError, match="recursion limit.*jaxpr-inline"):
        program.vjp()
    (fwd, bwd) = program.run_passes("jaxpr-inline").vjp()
    result, residuals = fwd(X)
    near(bwd(residuals, result), jax.vjp(flat, X)[1](flat(X)))


def test_functions_that_are_too_deep_to_be_evaluated_are_an_error():
    program = deeper(around_jit, 300)
    with pytest.raises(EvaluationError, match="recursion limit.*jaxpr-inline"):
        program.eval(X)


def test_functions_that_wait_are_written_as_others_are(monkeypatch):
    def function(x):
        return loop(x[0], nest(within_cond, 3)(nest(within_jit, 3)(x)))

    closed = jax.make_jaxpr(function)(X)
    program = jaxmlir.from_jaxpr(closed, "main")
    monkeypatch.setattr(importer, "MAX_DEPTH", 0)
    waited = jaxmlir.from_jaxpr(closed, "main")
    waited.verify()
    assert len(waited.functions) == len(program.functions)
    near(waited(X), function(X))


@pytest.mark.parametrize("deep", [0, 1, 10])
def test_a_rule_with_a_function_that_cannot_be_written_leaves_nothing(deep, monkeypatch):
    class Unwritable:
        pass

    def refuse(value, writer):
        raise ImportingError("this has no form")

    monkeypatch.setattr(importer, "MAX_DEPTH", deep)
    monkeypatch.setitem(encoders, Unwritable, refuse)
    odd = Primitive("odd")
    odd.def_abstract_eval(lambda x, **_: x)

    @jax.custom_vjp
    def function(x):
        return jnp.sin(x)

    def bwd(_, ct):
        return (nest(within_jit, 2)(jax.jit(lambda x: odd.bind(x, how=Unwritable()))(ct)),)

    function.defvjp(lambda x: (function(x), ()), bwd)
    program = jaxmlir.trace(function)(X)
    program.verify()
    assert program.module.operation.verify()
    assert all(len(f.entry_block.operations) for f in program.functions.values())
    with pytest.raises(TransformError, match="this has no form"):
        program.vjp()


@jax.custom_jvp
def twofold(x):
    return jax.jit(lambda x: x * x)(x)


@twofold.defjvp
def _(primals, tangents):
    return twofold(*primals), jax.jit(jax.jit(lambda t: 5.0 * t))(tangents[0])


@jax.custom_vjp
def threefold(x):
    return jax.checkpoint(jnp.sin)(x)


threefold.defvjp(lambda x: (threefold(x), x), lambda x, ct: (ct * jax.jit(twofold)(x),))


def varied(x):
    y = nest(within_cond, 3)(jax.jit(jax.jit(threefold))(x))
    y, ys = lax.scan(lambda c, a: (jax.jit(twofold)(c) + a, jax.jit(threefold)(c)), y, x)
    return jnp.sum(lax.fori_loop(0, 3, lambda i, c: jax.checkpoint(jax.jit(jnp.cos))(c), y) + ys)


@pytest.mark.parametrize("deep", [1, 3, 4])
def test_what_is_too_deep_is_looked_at_first(deep, monkeypatch):
    monkeypatch.setattr(liveness, "MAX_DEPTH", deep)
    monkeypatch.setattr(exporter, "MAX_DEPTH", deep)
    program, xs = jaxmlir.trace(varied)(X), jnp.stack([X, X + 1.0])
    near(program.grad()(X), jax.grad(varied)(X))
    near(program.vmap(axis_size=2)(xs), jax.vmap(varied)(xs))
    near(program.grad().vmap(axis_size=2)(xs), jax.vmap(jax.grad(varied))(xs))
    near(jaxpr_as_fun(program.to_jaxpr())(X), [varied(X)])
    near(program.optimize(2)(X), varied(X))

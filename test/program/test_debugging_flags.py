"""JAX's debugging flags: under each flag, a program behaves like its function."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import compat
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxmlir

VECTOR = np.linspace(0.2, 0.5, 4, dtype=np.float32)
MATRIX = np.eye(4, dtype=np.float32) + np.outer(VECTOR, VECTOR)


@jax.custom_jvp
def softplus(x):
    return jnp.log1p(jnp.exp(x))


@softplus.defjvp
def _softplus_jvp(primals, tangents):
    return softplus(*primals), tangents[0] * jax.nn.sigmoid(primals[0])


@jax.custom_vjp
def clipped(x):
    return x * 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct, -x, x),))


def layer(x):
    return jnp.tanh(MATRIX @ x)


def scanned(x):
    def body(carry, row):
        return jnp.sin(carry) + row * x, carry.sum()

    carry, sums = lax.scan(body, x, MATRIX)
    return carry.sum() + sums


def looped(x):
    return lax.fori_loop(0, 3, lambda i, v: jax.jit(layer)(v) * v[i], x)


def halved(x):
    # No gradient goes through the loop.
    divided = lax.while_loop(lambda v: (v > 0.1).any(), lambda v: v / 2, lax.stop_gradient(x))
    return x * divided


def branches(x):
    return lax.cond(x.sum() > 2, jnp.exp, lambda v: v * v, x)


def rules(x):
    return softplus(x) + clipped(x)


def rematerialized(x):
    return jax.checkpoint(lambda v: jnp.sin(layer(v)))(x)


def dropout(x):
    first, second = jax.random.split(jax.random.key(3))
    kept = jax.random.bernoulli(first, 0.5, x.shape)
    return jnp.where(kept, x * 2, 0) + jax.random.uniform(second, x.shape)


def moved(x):
    order = jnp.argsort(-x)
    return x.at[order[:2]].multiply(3)[order] + jnp.take(x, jnp.array([1, 0, 3, 2]))


def solved(x):
    return jnp.linalg.solve(MATRIX, x) + jnp.linalg.norm(x)


def told(x):
    jax.debug.callback(lambda v: None, x)
    seen = jax.pure_callback(np.cos, x, lax.stop_gradient(x), vmap_method="expand_dims")
    return seen * x


CORE = [
    layer,
    scanned,
    looped,
    halved,
    branches,
    rules,
    rematerialized,
    dropout,
    moved,
    solved,
    told,
]


def core(x):
    return {function.__name__: function(x) for function in CORE}


def loss(x):
    return sum(value.sum() for value in core(x).values())


FLAGS = [
    pytest.param("jax_enable_checks", True, marks=compat),
    pytest.param("jax_debug_nans", True, marks=compat),
    ("jax_debug_infs", True),
    ("jax_disable_jit", True),
    ("jax_check_tracer_leaks", True),
    ("jax_numpy_dtype_promotion", "strict"),
    ("jax_numpy_rank_promotion", "raise"),
    pytest.param("jax_debug_key_reuse", True, marks=compat),
    ("jax_enable_x64", True),
    ("jax_default_matmul_precision", "bfloat16"),
    ("jax_include_full_tracebacks_in_locations", False),
]


@pytest.fixture
def flag(name, value):
    before = jax.config.values[name]
    jax.config.update(name, value)
    yield name
    jax.config.update(name, before)


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "value"), FLAGS)
def test_the_core_under_a_flag(flag):
    """A program is traced, called, staged out, transformed, optimized, saved and loaded."""
    x = jnp.asarray(VECTOR)
    xs = jnp.stack([x, x + 0.25])

    def everything(f, g):
        return jax.jit(lambda xs: (f(xs[0]), jax.vmap(jax.grad(g))(xs)))(xs)

    values, slopes = everything(core, loss)
    program, scalar = jaxmlir.trace(core)(x), jaxmlir.trace(loss)(x)
    called = program(x)
    staged = everything(program, scalar)
    optimized = scalar.grad().optimize(2)
    again = jaxmlir.parse(optimized.as_text(), constants=optimized.constants)
    assert jax.tree.map(jax.typeof, called) == jax.tree.map(jax.typeof, values)
    jax.tree.map(
        lambda got, expected: np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5),
        (called, staged, again(x)),
        (values, (values, slopes), slopes[0]),
    )


def _placed(kind):
    """A function that prints, inside an op that determines where it runs."""
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def body(x):
        jax.debug.print("x {}", x)
        return x * 2

    if kind == "shard_map":
        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    sharding = jax.NamedSharding(mesh, P("x"))
    if kind == "jit":
        return lambda x: jax.jit(body, in_shardings=sharding)(x) + 1

    def inspected(x):
        jax.debug.inspect_array_sharding(x, callback=print)
        return lax.with_sharding_constraint(x, sharding) * 2

    return inspected


@compat
@pytest.mark.parametrize("kind", ["shard_map", "jit", "inspect"])
def test_what_has_a_place_says_its_effects(kind, capfd):
    """JAX checks the effects of equations that determine where a program runs."""
    function, x = _placed(kind), jnp.arange(2.0)
    seen = []
    with jax.enable_checks(True):
        program = jaxmlir.trace(function)(x)
        for f in (jax.jit(function), jaxmlir.jit(function), program, jax.jit(program)):
            value = np.asarray(f(x))
            jax.effects_barrier()
            seen.append((value.tolist(), capfd.readouterr().out))
    assert seen[0][1] and seen == seen[:1] * 4


WAYS = {
    "call": lambda f: f,
    "jit": jax.jit,
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x])),
    "grad": jax.grad,
}


@compat
@pytest.mark.parametrize("way", WAYS)
def test_a_nan_is_jaxs_error(way):
    """The error has the op and the line as a note."""

    def function(x):
        return jnp.log(x) * 2

    x = jnp.float32(-1.0)
    program = jaxmlir.trace(function)(x)
    where = rf"test_debugging_flags.py:{function.__code__.co_firstlineno + 1}:\d+: note: raised by"
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
            WAYS[way](jax.jit(function))(x)
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\)") as raised:
            WAYS[way](program)(x)
    assert re.search(where + " 'jaxpr.log' op", "\n".join(raised.value.__notes__))


@compat
@pytest.mark.parametrize("way", WAYS)
def test_a_nan_that_no_result_has_is_none(way):
    def function(x):
        return jnp.where(
            x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), lax.stop_gradient(jnp.log(x)) > x
        )

    x = jnp.float32(-1.0)
    program = jaxmlir.trace(function)(x)
    with jax.debug_nans(True):
        expected = WAYS[way](jax.jit(function))(x)
        np.testing.assert_array_equal(WAYS[way](program)(x), expected)


@compat
@pytest.mark.parametrize("nans", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_a_callback_is_jaxs(way, nans):
    def fails(x):
        raise KeyError("no such value")

    @jax.custom_jvp
    def function(x):
        return jax.pure_callback(fails, x, x, vmap_method="expand_dims")

    function.defjvp(lambda primals, tangents: (function(*primals), tangents[0]))
    x = jnp.float32(1.0)
    program = jaxmlir.trace(function)(x)
    raised = []
    for f in (jax.jit(function), program):
        with jax.debug_nans(nans), pytest.raises(Exception, match="no such value") as e:
            jax.block_until_ready(WAYS[way](f)(x))
        raised.append(type(e.value))
    assert raised[0] is raised[1]

"""Calls with their own transpose, batching rule or distribution over devices, under the passes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import check_derivatives, check_vmap, close, vector_like
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import linear_call
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.errors import JaxmlirError, TransformError

pytestmark = pytest.mark.compat

X = np.array([0.3, -0.7, 1.1], np.float32)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4], [-1.2, 0.6, 0.8]], np.float32)


# --- linear_call ------------------------------------------------------------------------------


def scaled(scale, xs):
    return {"y": scale * xs[0] + xs[1], "total": jnp.sum(xs[0])}


def scaled_transpose(scale, ct):
    return [scale * ct["y"] + ct["total"], ct["y"]]


def around(call):
    def f(x, scale):
        out = call(jnp.cos(lax.stop_gradient(scale)), [jnp.sin(x), x * 2])
        return out["y"] * x + out["total"]

    return f


with_transpose = around(lambda *args: linear_call(scaled, scaled_transpose, *args))
plain = around(scaled)


def test_a_linear_call_is_its_own_derivative():
    """The backward pass has the call with its transpose swapped; it can be differentiated again."""
    program = jaxmlir.trace(with_transpose)(X, X + 1)
    fwd, bwd = program.vjp()
    assert "callee = @scaled_transpose, num_res = 1 : i64, transpose = @scaled}" in bwd.as_text()
    ct = vector_like(X, 1)

    def first_and_second(program, pushed, pulled):
        second = jax.jvp(lambda x: pulled(x, X + 1), (X,), (ct,))
        return pushed((X, X + 1), (ct, ct)), second

    ours = first_and_second(program, program.jvp(), lambda *args: bwd(fwd(*args)[1], ct))
    theirs = first_and_second(
        plain,
        lambda primals, tangents: jax.jvp(plain, primals, tangents),
        lambda *args: jax.vjp(plain, *args)[1](ct),
    )
    close(ours, theirs)


@pytest.mark.parametrize("axes", [(1, None), (None, 0)])
def test_a_linear_call_is_batched_with_its_transpose(axes):
    """JAX cannot batch one.  The cotangent of an unbatched operand is summed over the batch."""
    args = [X if axis is None else ROWS for axis in axes]
    batched = jaxmlir.trace(with_transpose)(X, X).vmap(axes, axis_size=3)
    assert "jaxpr.linear_call" in batched.as_text()
    fwd, bwd = batched.vjp()

    def ours(*args):
        out, residuals = fwd(*args)
        return out, bwd(residuals, ROWS)

    def theirs(*args):
        out, pullback = jax.vjp(jax.vmap(plain, axes), *args)
        return out, pullback(ROWS)

    close(jax.jit(ours)(*args), jax.jit(theirs)(*args))


def test_a_linear_call_of_integers():
    """Integers have no derivative, but a linear function of them has a transpose."""

    def thrice(x):
        return linear_call(lambda _, x: 3 * x, lambda _, ct: 3 * ct, (), x)

    n = np.arange(3, dtype=np.int32)
    program = jaxmlir.trace(thrice)(n[0])
    for p in (program, program.vmap(axis_size=3)):
        p.verify()
        p.run_passes("jaxpr-transpose")
    (found,) = jax.linear_transpose(jax.vmap(jaxmlir.jit(thrice)), n)(n)
    np.testing.assert_array_equal(found, 3 * n)


def test_a_linear_call_of_an_integer_among_others():
    """JAX cannot differentiate such a call."""

    def f(x, n):
        x, n = linear_call(
            lambda _, v: (2 * v[0], 3 * v[1]), lambda _, ct: (2 * ct[0], 3 * ct[1]), (), (x, n)
        )
        return jnp.sum(x * n)

    found = jaxmlir.trace(f)(X, 2).grad()(X, 2)
    np.testing.assert_array_equal(found, np.full_like(X, 12))


def test_a_linear_call_says_nothing_of_its_residuals():
    def f(x):
        return jnp.sum(linear_call(jnp.multiply, jnp.multiply, x, x))

    with pytest.raises(TransformError, match=r"test_calls_with_own_rules.py.*a residual"):
        jaxmlir.trace(f)(X).grad()


# --- results of custom_vjp functions that are the same for the whole batch ----------------------


def test_the_cotangent_of_a_shared_result_is_counted_once():
    """Older versions of JAX count the cotangent once per element; newer ones refuse."""

    @jax.custom_vjp
    def f(x, y):
        return jnp.sum(x), x * y

    f.defvjp(
        lambda x, y: (f(x, y), (x, y)),
        lambda residuals, ct: (ct[0] + ct[1] * residuals[1], ct[1] * residuals[0]),
    )
    batched = jaxmlir.trace(f)(X, X).vmap((None, 0), axis_size=3)
    fwd, bwd = batched.vjp()
    ct = vector_like(jax.eval_shape(batched, X, ROWS), 1)
    close(
        bwd(fwd(X, ROWS)[1], ct),
        jax.vjp(jax.vmap(lambda x, y: (jnp.sum(x), x * y), (None, 0)), X, ROWS)[1](ct),
    )


# --- custom_vmap ------------------------------------------------------------------------------


@custom_vmap
def wave(x, y):
    return jnp.sin(x) * y, y


# Deliberately not the batched function: a program that loses the rule gives other numbers.
@wave.def_vmap
def wave_rule(size, batched, x, y):
    assert size == 3
    y = y if batched[1] else jnp.broadcast_to(y, (3, *y.shape))
    return (jnp.cos(x) * y, 2 * y), (True, True)


def with_wave(x, y):
    a, b = wave(x, y)
    c, _ = lax.scan(lambda c, row: (wave(c, row)[0], None), a + b, ROWS)
    return lax.cond(jnp.sum(ROWS) > 0, lambda c: wave(c, x)[0], jnp.tanh, c)


def test_a_rule_for_batches_is_kept():
    check_vmap(with_wave, (ROWS, X), (0, None))
    program, ct = jaxmlir.trace(with_wave)(X, X), ROWS
    batched = program.vmap(axis_size=3)
    expected = jax.vmap(with_wave)
    fwd, bwd = batched.vjp()
    args, tangents = (ROWS, ROWS + 1), (ROWS, ROWS)
    close(bwd(fwd(*args)[1], ct), jax.vjp(expected, *args)[1](ct), rtol=1e-4)
    # After a jvp, the pass must batch the jvp of the function by the jvp of the rule.
    pushed = program.jvp().vmap(axis_size=3)
    theirs = jax.vmap(lambda primals, tangents: jax.jvp(with_wave, primals, tangents))
    close(pushed(args, tangents), theirs(args, tangents), rtol=1e-4)


# --- devices ----------------------------------------------------------------------------------


def on_devices(f, out):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return jax.shard_map(f, mesh=mesh, in_specs=P("x", "y"), out_specs=out)


def to_the_right(x):
    return lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)])


@jax.checkpoint
def summed(x):
    return lax.psum(jnp.sin(jnp.sin(x)), "x")


COLLECTIVES = {
    "psum": on_devices(lambda x: lax.psum(jnp.sin(x) * x, "x"), P(None, "y")),
    "all_gather": on_devices(lambda x: lax.all_gather(jnp.sin(x), "x", tiled=True), P("x", "y")),
    "ppermute": on_devices(lambda x: to_the_right(jnp.sin(x)) * x, P("x", "y")),
    "remat": on_devices(summed, P(None, "y")),
    "scan": on_devices(
        lambda x: lax.scan(lambda c, _: (c * to_the_right(jnp.sin(c)), None), x, None, 2)[0],
        P("x", "y"),
    ),
    "custom rule": on_devices(lambda x: jax.nn.relu(x) * lax.axis_index("y"), P("x", "y")),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", COLLECTIVES)
def test_functions_on_devices(name):
    f = COLLECTIVES[name]
    x = jnp.asarray(np.random.RandomState(0).standard_normal((8, 8)), jnp.float32)
    batch = jnp.stack([x, x + 1, -x])
    program = jaxmlir.trace(f)(x)
    batched = program.vmap(axis_size=3)
    batched.verify()
    (fwd, bwd), (batch_fwd, batch_bwd) = program.vjp(), batched.vjp()

    def ours(x, batch):
        (out, residuals), (outs, batch_residuals) = fwd(x), batch_fwd(batch)
        one = out, program.jvp()((x,), (x,)), bwd(residuals, out)
        return one, (outs, batched.jvp()((batch,), (batch,)), batch_bwd(batch_residuals, outs))

    def theirs(x, batch):
        def of(f, x):
            out, pullback = jax.vjp(f, x)
            return out, jax.jvp(f, (x,), (x,)), pullback(out)

        return of(f, x), of(jax.vmap(f), batch)

    close(jax.jit(ours)(x, batch), jax.jit(theirs)(x, batch), rtol=1e-4)


def test_shardings_of_arguments_results_and_values():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    rows, columns = NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P(None, "y"))

    @jax.jit(in_shardings=rows, out_shardings=columns)
    def f(x):
        return jnp.sin(lax.with_sharding_constraint(x @ x, rows)) * x

    x = np.random.RandomState(0).standard_normal((8, 8)).astype(np.float32)
    check_derivatives(f, (x,))
    check_vmap(f, (np.stack([x, x, x], 1),), 1)


def test_a_cotangent_that_varies_over_other_axes_is_named_once():
    """The error of the backward rule is not wrapped a second time by the rule that runs it."""

    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (sine(x), None), lambda _, g: (lax.psum(g, "x"),))
    program = jaxmlir.trace(lambda x: jnp.sum(on_devices(sine, P("x", "y"))(x)))(jnp.ones((8, 8)))
    with pytest.raises(JaxmlirError, match="could not be traced: ValueError: Custom VJP") as error:
        jax.grad(program)(jnp.ones((8, 8)))
    assert str(error.value).count("could not be traced") == 1


# --- VJP rules that are not linear ---------------------------------------------------------------


@jax.custom_vjp
def squares_cotangents(x):
    return x * 1.0


squares_cotangents.defvjp(
    lambda x: (squares_cotangents(x), x),
    lambda x, ct: (ct**2 * x,),
)


def called_twice(x):
    return jnp.sum(squares_cotangents(x) ** 2 * jnp.sin(squares_cotangents(x)))


def called_in_functions(x):
    f = jax.jit(lambda x: squares_cotangents(jnp.sin(x)) * 2)
    return jnp.sum(f(x) ** 2 * f(x))


def called_in_each_iteration(x):
    f = jax.jit(lambda x: jnp.exp(squares_cotangents(x * 2)))

    def step(c, a):
        return c * 0.5 + jnp.sum(f(x) * a * c), None

    return lax.scan(step, jnp.float32(0.1), jnp.arange(1.0, 4.0))[0]


def mapped(x):
    def row(a):
        return jnp.tanh(jnp.tanh(a * x @ squares_cotangents(jnp.outer(x, x))) @ jnp.outer(x, x))

    return jnp.sum(lax.map(row, jnp.linspace(0.0, 1.0, 50)))


def in_lanes(x):
    def lane(i):
        first, second = (jnp.full((3, 3), c * (i + 1)) for c in (0.1, 0.2))
        return jnp.sum(jnp.tanh(jnp.tanh(squares_cotangents(x) @ first) @ second) * x[i])

    return sum(map(lane, range(3)))


def in_lanes_of_functions(x):
    f = jax.jit(lambda x, a: jnp.sin(squares_cotangents(x)) * a)

    def lane(i):
        first, second = (jnp.full((3, 3), c * (i + 1)) for c in (0.1, 0.2))
        return jnp.sum(jnp.tanh(jnp.tanh(f(x, x[i]) @ first) @ second))

    return sum(map(lane, range(3)))


def in_loops(x):
    def loop(a):
        def step(c, _):
            return jnp.tanh(c * a + jnp.sum(squares_cotangents(x)) * 0.1), None

        return lax.scan(step, jnp.float32(0.1), None, length=20)[0]

    return sum(loop(x[i]) ** 2 for i in range(3))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "function",
    [
        called_twice,
        called_in_functions,
        called_in_each_iteration,
        mapped,
        in_lanes,
        in_lanes_of_functions,
        in_loops,
    ],
)
def test_a_vjp_rule_is_run_as_often_as_the_function_is_called(function):
    program = jaxmlir.trace(function)(X).optimize(2)
    close(program.grad()(X), jax.grad(function)(X), rtol=1e-4)
    close(jax.grad(jaxmlir.jit(function, optimize=2))(X), jax.grad(function)(X), rtol=1e-4)


def test_loops_whose_calls_differ_are_one_loop():
    def loop(x):
        def step(c, _):
            return jnp.tanh(c * 0.5 + squares_cotangents(c * x)), None

        return lax.scan(step, x * 0.1, None, length=20)[0]

    def function(x):
        return sum(loop(x[i]) ** 2 for i in range(3))

    program = jaxmlir.trace(function)(X).optimize(2)
    assert program.as_text().count('"jaxpr.scan"') == 1
    close(program.grad()(X), jax.grad(function)(X))

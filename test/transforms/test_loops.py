"""Loops by the passes against JAX: random nests of them, and their corner cases.

A random program is a list of steps over three values, ``x`` and ``y`` of shape ``[3]`` and an
integer ``n``.  A loop carries some of them and closes over the others.  So there are carries with
and without tangents, batched and unbatched, and carries that change from one to the other.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close, vector_like
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import budget

import jaxmlir
from jaxmlir.errors import TransformError

pytestmark = pytest.mark.compat

STEPS = {
    "mix": lambda x, y, n: (jnp.sin(x) * y, y, n),
    "swap": lambda x, y, n: (y, x, n),
    "count": lambda x, y, n: (x * n / 3, y, n + 1),
    "stop": lambda x, y, n: (x + lax.stop_gradient(y), y, n),
    "reset": lambda x, y, n: (x + y, jnp.ones(3), n),
    "matvec": lambda x, y, n: (x, jnp.tanh(jnp.outer(x, y) @ x) + y, n),
    "round": lambda x, y, n: (x, y, n + x[0].astype(jnp.int32) % 3),
}


def run(steps, state):
    for step in steps:
        state = STEPS[step](*state) if isinstance(step, str) else loop(step, state)
    return state


def loop(spec, state):
    """Runs a loop that carries the values marked by ``carried``, and closes over the others."""
    kind, carried, body, *options = spec

    def merge(carry):
        given = iter(carry)
        return tuple(next(given) if c else v for v, c in zip(state, carried, strict=True))

    def carry_of(state):
        return tuple(v for v, c in zip(state, carried, strict=True) if c)

    init = carry_of(state)
    if kind == "scan":
        length, reverse, unroll, slices, out = options
        xs = jnp.cos(jnp.arange(3.0 * length)).reshape(length, 3) + state[1] if slices else None

        def one(carry, row):
            x, y, n = merge(carry)
            x, y, n = run(body, (x if row is None else x * row, y, n))
            return carry_of((x, y, n)), {"none": None, "float": (y, row), "int": n}[out]

        final, ys = lax.scan(one, init, xs, length, reverse, unroll)
        x, y, n = merge(final)
        return (x + ys[0].sum(0) if out == "float" else x, y, n)
    if kind == "fori":
        return merge(lax.fori_loop(0, options[0], lambda i, c: carry_of(run(body, merge(c))), init))
    # The trip count depends on data, but not differentiably.
    bound = 1 + (jnp.abs(state[0][0]) * 4).astype(jnp.int32) % 3
    _, *final = lax.while_loop(
        lambda c: c[0] < bound,
        lambda c: (c[0] + 1, *carry_of(run(body, merge(c[1:])))),
        (0, *init),
    )
    return merge(final)


def value(steps, x, y, n):
    """A bounded scalar, so that derivatives of any order can be compared."""
    x, y, n = run(steps, (x, y, n))
    return jnp.sum(jnp.sin(x) * jnp.cos(y)) + n % 5


def lists_of(step, most):
    return st.lists(step, min_size=1, max_size=most).map(tuple)


simple = st.sampled_from([*STEPS])
carried = st.tuples(*[st.booleans()] * 3)


def scans(body):
    return st.tuples(
        st.just("scan"),
        carried,
        body,
        st.sampled_from([3, 1, 0]),
        st.booleans(),
        st.sampled_from([1, 2]),
        st.booleans(),
        st.sampled_from(["none", "float", "int"]),
    )


def nested(inner, *, forward_only=False):
    body = lists_of(inner, 2)
    kinds = [scans(body), st.tuples(st.just("fori"), carried, body, st.sampled_from([2, 0]))]
    if forward_only:
        kinds.append(st.tuples(st.just("while"), carried, body))
    return st.one_of(kinds)


def programs(**options):
    return lists_of(st.one_of(simple, nested(st.one_of(simple, nested(simple, **options)))), 3)


ARGS = (
    np.array([0.3, -0.7, 0.9], np.float32),
    np.array([0.5, 0.2, -0.4], np.float32),
    np.int32(2),
)
BATCH = (np.stack([ARGS[0], ARGS[1]], 1), np.stack([ARGS[1], ARGS[0]]), np.array([2, 3], np.int32))


def program_of(steps):
    def f(x, y, n):
        return value(steps, x, y, n)

    return f, jaxmlir.trace(f)(*ARGS)


def batch_of(in_axes):
    return tuple(
        one if axis is None else many for one, many, axis in zip(ARGS, BATCH, in_axes, strict=True)
    )


@budget
@given(steps=programs())
def test_derivatives_of_loops(steps):
    """jvp, vjp, reverse over reverse and forward over reverse."""
    f, program = program_of(steps)
    tangents = vector_like(ARGS, 1)
    gradient = program.value_and_grad((0, 1))
    fwd, bwd = program.vjp()
    inner = program.grad(0)
    second = jaxmlir.trace(lambda *args: (inner(*args) ** 2).sum())(*ARGS).grad(1)
    made = program.jvp(), gradient, fwd, bwd, second, inner.jvp()
    for new in made:
        new.verify()

    def ours(*args):
        jvp, grad, _, _, second, forward = (p for p in made)
        out, residuals = fwd(*args)
        return (
            jvp(args, tangents),
            grad(*args),
            bwd(residuals, out)[:2],
            second(*args),
            forward(args, tangents),
        )

    def theirs(*args):
        out, pullback = jax.vjp(f, *args)
        dx = jax.grad(f, 0)
        return (
            jax.jvp(f, args, tangents),
            jax.value_and_grad(f, (0, 1))(*args),
            pullback(out)[:2],
            jax.grad(lambda *args: (dx(*args) ** 2).sum(), 1)(*args),
            jax.jvp(dx, args, tangents),
        )

    close(jax.jit(ours)(*ARGS), jax.jit(theirs)(*ARGS), rtol=1e-4, atol=1e-5)


@budget
@given(
    steps=programs(forward_only=True),
    in_axes=st.sampled_from([(1, None, None), (None, 0, 0), (1, 0, None)]),
)
def test_batches_of_loops(steps, in_axes):
    """vmap, jvp of vmap and vmap of jvp, also of loops with data-dependent trip counts."""
    f, program = program_of(steps)
    args = batch_of(in_axes)
    tangents, many = vector_like(ARGS, 1), vector_like(args, 2)
    batched = program.vmap(in_axes, axis_size=2)
    made = batched, batched.jvp(), program.jvp().vmap((in_axes, None), axis_size=2)
    for new in made:
        new.verify()

    def ours(*args):
        return batched(*args), made[1](args, many), made[2](args, tangents)

    def theirs(*args):
        vmapped = jax.vmap(f, in_axes)
        pushed = jax.vmap(lambda *args: jax.jvp(f, args, tangents), in_axes)
        return vmapped(*args), jax.jvp(vmapped, args, many), pushed(*args)

    close(jax.jit(ours)(*args), jax.jit(theirs)(*args), rtol=1e-4, atol=1e-5)


@budget
@given(steps=programs(), in_axes=st.sampled_from([(1, None, None), (None, 0, 0), (1, 0, None)]))
def test_batches_of_gradients(steps, in_axes):
    """vmap of grad, and grad of vmap."""
    f, program = program_of(steps)
    args = batch_of(in_axes)
    batched = program.vmap(in_axes, axis_size=2)
    total = jaxmlir.trace(lambda *args: batched(*args).sum())(*args)
    made = program.grad((0, 1)).vmap(in_axes, axis_size=2), total.grad((0, 1))
    for new in made:
        new.verify()

    def theirs(*args):
        def total(*args):
            return jax.vmap(f, in_axes)(*args).sum()

        return jax.vmap(jax.grad(f, (0, 1)), in_axes)(*args), jax.grad(total, (0, 1))(*args)

    ours = jax.jit(lambda *args: tuple(p(*args) for p in made))
    close(ours(*args), jax.jit(theirs)(*args), rtol=1e-4, atol=1e-5)


ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) / 10


def masked(w, x):
    """Some residuals of the iterations are available anyway, and some are loop-invariant."""
    mask = jnp.tril(jnp.ones((3, 3), bool))

    def body(c, row):
        scores = jnp.where(mask, jnp.exp(w) * jnp.outer(c, row), -1.0)
        return jnp.tanh(scores @ c) + x, c

    c, cs = lax.scan(body, x, ROWS)
    return c.sum() + (cs**2).sum()


def with_a_constant_in_a_call(w, x):
    """The trace in the derivative of a determinant has a mask, a constant, inside a call."""

    def body(c, row):
        matrix = jnp.eye(3) + w * jnp.outer(c, row)
        return jnp.tanh(matrix @ c) + x, jnp.linalg.slogdet(matrix)[1]

    c, cs = lax.scan(body, x, ROWS)
    return c.sum() + cs.sum()


@pytest.mark.parametrize("f", [masked, with_a_constant_in_a_call])
def test_a_gradient_keeps_no_more_than_jaxs(f):
    """Residuals that are loop-invariant, or available anyway, are not stacked."""
    args = np.float32(0.3), ARGS[0]
    ours = jaxmlir.trace(f)(*args).grad((0, 1)).lower().compile()
    theirs = jax.jit(jax.grad(f, (0, 1))).lower(*args).compile()
    size, limit = (p.memory_analysis().temp_size_in_bytes for p in (ours, theirs))
    assert size <= limit
    close(ours(*args), theirs(*args))


def test_a_loop_with_effects_is_left_to_jax(capfd):
    def f(x):
        def body(c, row):
            jax.debug.print("{}", c[0])
            return jnp.sin(c) * row, None

        return lax.scan(body, x, ROWS)[0].sum()

    gradient = jaxmlir.trace(f)(ARGS[0]).grad()
    out = gradient(ARGS[0])
    jax.effects_barrier()
    assert len(capfd.readouterr().out.split()) == len(ROWS)
    close(out, jax.grad(f)(ARGS[0]))


def doubled_until(x, bound):
    return lax.while_loop(lambda c: c[0] < bound, lambda c: (c[0] * 2, c[1] + 1), (x, 0))


def test_reverse_mode_through_while_is_an_error_where_a_tangent_goes_through():
    program = jaxmlir.trace(lambda x, bound: doubled_until(x, bound)[0])(1.0, 9.0)
    with pytest.raises(TransformError, match="'jaxpr.while' op cannot be transposed") as e:
        program.grad()
    (diagnostic,) = e.value.diagnostics
    source = doubled_until.__code__
    assert diagnostic.file == source.co_filename
    assert diagnostic.line == source.co_firstlineno + 1


def test_reverse_mode_around_while_is_none():
    """Reverse mode needs no derivative of the loop: only integers and its bound depend on ``x``."""

    def f(x, bound):
        return x * doubled_until(lax.stop_gradient(x), bound)[1] * bound

    gradient = jaxmlir.trace(f)(1.0, 9.0).grad((0, 1))
    close(gradient(1.0, 9.0), jax.grad(f, (0, 1))(1.0, 9.0))


def test_linearized_while_is_jaxs():
    fwd, lin = jaxmlir.trace(lambda x, bound: doubled_until(x, bound)[0])(3.0, 20.0).linearize()
    out, residuals = fwd(3.0, 20.0)
    theirs, push = jax.linearize(lambda x: doubled_until(x, 20.0)[0], 3.0)
    close((out, lin(residuals, 0.5, 1.0)), (theirs, push(0.5)))


@jax.custom_jvp
def sine_and_scaled(c, x):
    return jnp.sin(c), c * x


sine_and_scaled.defjvp(
    lambda p, t: (sine_and_scaled(*p), (100.0 * t[0], 10.0 * t[1] * p[1] + t[0]))
)


@jax.custom_jvp
def squashed(x):
    return jnp.tanh(x)


squashed.defjvp(lambda p, t: (squashed(*p), 5.0 * squashed(*p) * t[0]))


@jax.custom_jvp
def scaled(c, x):
    return jnp.sin(c) * x


scaled.defjvp(lambda p, t: (scaled(*p), 3.0 * t[0] + 7.0 * t[1] * p[0]))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "step",
    [
        lambda c, x, loop: sine_and_scaled(c, x),
        lambda c, x, loop: jax.jit(lambda c, x: (jnp.sin(c), squashed(x)))(c, x),
        lambda c, x, loop: (c, jax.jit(lambda c, x: jnp.sin(c) * squashed(x))(c, x)),
        lambda c, x, loop: (c, jax.jit(lambda c, x: jnp.sin(c) * scaled(c, x))(c, x)),
        lambda c, x, loop: (
            c,
            jax.jit(
                lambda c, x: jnp.sin(c) * loop(lambda y, _: (scaled(c, y), None), x, None, 2)[0]
            )(c, x),
        ),
    ],
    ids=["two results", "constant result", "constant residual", "mixed operands", "inner loop"],
)
def test_what_is_taken_out_of_a_loop_leaves_custom_rules_to_the_next_derivative(step):
    def f(w, c, x, loop):
        def body(carry, _):
            total, x = carry
            a, b = step(c, x, loop)
            return (total * w + a + b, b), a

        (total, _), ys = loop(body, (w, x), None, 3)
        return total + jnp.sum(ys)

    def unrolled(body, carry, xs, length):
        ys = []
        for _ in range(length):
            carry, y = body(carry, None)
            ys.append(y)
        return carry, None if ys[0] is None else jnp.stack(ys)

    args = 1.3, 0.7, 0.4
    # Unrolled, because JAX's own loop loses the rules.
    expected = jax.hessian(lambda *args: f(*args, unrolled), (0, 1, 2))(*args)
    program = jaxmlir.trace(lambda *args: f(*args, lax.scan))(*args)
    close(program.hessian((0, 1, 2))(*args), expected)
    for i, row in enumerate(expected):
        close(tuple(program.grad(i).grad((0, 1, 2))(*args)), row)


@pytest.mark.parametrize(
    ("dtype", "start", "step", "goes_on"),
    [
        (np.uint32, 20, -1, lambda i: i > 0),
        (np.uint8, 7, 3, lambda i: i < 250),
        (np.int8, 100, -5, lambda i: i >= -120),
        (np.int8, 0, 1, lambda i: i != 127),
    ],
)
def test_a_while_whose_counter_comes_near_the_end_of_its_range(dtype, start, step, goes_on):
    def function(x):
        def body(state):
            i, other, x = state
            i = i + dtype(step) if step > 0 else i - dtype(-step)
            return i, other - np.uint8(1), jnp.sin(x)

        return lax.while_loop(lambda state: goes_on(state[0]), body, (dtype(start), np.uint8(9), x))

    program = jaxmlir.trace(function)(1.0).optimize(1).run_passes("jaxpr-raise-loops")
    assert "jaxpr.while" not in str(program)
    for a, b in zip(program(1.0), function(1.0), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_while_that_stops_only_by_what_wraps_around():
    def function(x):
        def body(state):
            return state[0] + np.uint8(3), jnp.sin(state[1])

        return lax.while_loop(lambda state: state[0] != 2, body, (np.uint8(10), x))

    program = jaxmlir.trace(function)(1.0).optimize(1)
    assert str(program.run_passes("jaxpr-raise-loops")) == str(program)

"""Reverse mode through loops of unknown length.  The oracle is JAX's derivative of the same loop as
a longer scan, whose surplus steps do nothing."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close
from jax import lax
from round_trip import reread

import jaxmlir
from jaxmlir.errors import ArgumentError, PipelineError, TransformError, VerificationError

pytestmark = pytest.mark.compat

f32, i32 = np.float32, np.int32
X = np.array([0.3, -0.7], f32)
W = np.array([0.9, 1.1], f32)
MOST = 60


def step(w, x):
    return jnp.sin(w * x + 0.3) + 0.1 * x[::-1]


def looped(w, x, n):
    return lax.while_loop(lambda s: s[1] < n, lambda s: (step(w, s[0]), s[1] + 1), (x, 0))[0]


def scanned(w, x, n, most=MOST):
    def body(x, i):
        return jnp.where(i < n, step(w, x), x), None

    return lax.scan(body, x, jnp.arange(most))[0]


def of_loop(f):
    """Scalar functions of a loop, which the tests differentiate."""
    return lambda w, x, n: jnp.sum(jnp.cos(f(w, x, n)) * np.array([1.0, 2.0], f32))


LOSS, ORACLE = of_loop(looped), of_loop(scanned)


def gradient(f, args, argnums=(0, 1), checkpoints=3):
    program = jaxmlir.trace(f)(*args)
    made = program.grad(argnums, while_loops="checkpointed", checkpoints=checkpoints)
    made.verify()
    return made


# --- every trip count ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gradients_of_scan():
    """The gradients for each trip count."""
    every = jax.vmap(jax.grad(ORACLE, (0, 1)), (None, None, 0))
    return jax.jit(every)(W, X, np.arange(MOST + 1))


@pytest.mark.sampled
@pytest.mark.parametrize("checkpoints", range(1, 13))
def test_every_trip_count_with_every_number_of_checkpoints(checkpoints, gradients_of_scan):
    made = gradient(LOSS, (W, X, i32(0)), checkpoints=checkpoints)
    ours = [made(W, X, i32(n)) for n in range(MOST + 1)]
    close(jax.tree.map(lambda *leaves: jnp.stack(leaves), *ours), gradients_of_scan)


def least_steps(length, checkpoints, known={}):  # noqa: B006
    """The least number of steps to reverse a loop, found by trying every place for a checkpoint.

    It counts the forward steps to the last state and the recomputed ones, for a known length.
    """
    if length <= 1:
        return 0
    if checkpoints == 1:
        return length * (length - 1) // 2
    key = (length, checkpoints)
    if key not in known:
        known[key] = min(
            at + least_steps(length - at, checkpoints - 1) + least_steps(at, checkpoints)
            for at in range(1, length)
        )
    return known[key]


@pytest.mark.parametrize("checkpoints", [1, 2, 3, 5, 9])
def test_as_few_steps_are_computed_as_if_the_length_had_been_known(checkpoints):
    count = 0

    def tick(i):
        nonlocal count
        count += 1
        return np.asarray(i + 1, i32)

    def f(x, n):
        def body(s):
            i = jax.pure_callback(tick, jax.ShapeDtypeStruct((), i32), s[1])
            return jnp.sin(s[0]), i

        return lax.while_loop(lambda s: s[1] < n, body, (x, i32(0)))[0]

    made = gradient(f, (f32(0.5), i32(0)), 0, checkpoints)
    limit = (checkpoints + 1) * (checkpoints + 2) // 2
    for n in (*range(1, limit + 1), limit + 5, 2 * limit):
        count = 0
        jax.block_until_ready(made(f32(0.5), i32(n)))
        # The loop also computes the state after the last step, which a reversal does not need.
        best = least_steps(n, checkpoints) + 1
        assert count == best if n <= limit else count <= 1.14 * best, (n, count, best)


def test_gradient_through_a_hundred_thousand_steps():
    def f(w, x, n):
        def body(s):
            return s[0] + 1e-4 * jnp.sin(w * s[0]), s[1] + 1

        return lax.while_loop(lambda s: s[1] < n, body, (x, 0))[0]

    def oracle(w, x):
        def body(x, _):
            return x + 1e-4 * jnp.sin(w * x), None

        return lax.scan(body, x, None, length=100_000)[0]

    args = f32(0.9), f32(0.3)
    made = gradient(f, (*args, i32(0)), checkpoints=30)
    # A sum of so many float32 terms depends on their order.
    close(made(*args, i32(100_000)), jax.grad(oracle, (0, 1))(*args), rtol=1e-3)


@pytest.mark.parametrize("checkpoints", [2, 20])
def test_memory_is_that_of_the_checkpoints(checkpoints):
    """Memory does not depend on the trip count, which is an argument of the compiled program."""
    size = 100_000
    x = jax.ShapeDtypeStruct((size,), f32)

    def f(x, n):
        return lax.while_loop(lambda s: s[1] < n, lambda s: (jnp.sin(s[0]), s[1] + 1), (x, 0))[0][0]

    made = gradient(f, (x, i32(0)), 0, checkpoints)
    states = made.lower().compile().memory_analysis().temp_size_in_bytes / (4 * size)
    assert checkpoints < states < checkpoints + 8


# --- derivatives of derivatives, and batches ----------------------------------------------------


def total(tree):
    return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(tree))


ORDERS = {
    "reverse over reverse": lambda g: jax.grad(
        lambda w, x, n: total(jax.grad(g, (0, 1))(w, x, n)), (0, 1)
    ),
    "forward over reverse": lambda g: (
        lambda w, x, n: jax.jvp(lambda w, x: jax.grad(g, (0, 1))(w, x, n), (w, x), (x, w))
    ),
    "reverse over forward": lambda g: jax.grad(
        lambda w, x, n: total(jax.jvp(lambda w, x: g(w, x, n), (w, x), (x, w))), (0, 1)
    ),
    "reverse, three times": lambda g: jax.grad(
        lambda w, x, n: total(jax.grad(lambda x: total(jax.grad(g, 1)(w, x, n)))(x)), 1
    ),
}


def marked(f, args, checkpoints=3):
    """A program with reverse-differentiable loops, which JAX transforms."""
    program = jaxmlir.trace(f)(*args)
    return program.run_passes(f"jaxpr-checkpoint-while{{checkpoints={checkpoints}}}")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "order",
    [
        *(o for o in ORDERS if "three" not in o),
        pytest.param("reverse, three times", marks=pytest.mark.slow),
    ],
)
def test_derivatives_of_derivatives(order):
    args = (W, X, i32(7))
    ours = jax.jit(ORDERS[order](marked(LOSS, args)))
    theirs = jax.jit(ORDERS[order](functools.partial(of_loop(functools.partial(scanned, most=8)))))
    for n in (0, 1, 7):
        close(ours(W, X, i32(n)), theirs(W, X, i32(n)), rtol=2e-4)


def test_programs_are_differentiated_again_without_the_option():
    args = (W, X, i32(7))
    first = reread(gradient(LOSS, args, 1))
    hessian = jaxmlir.trace(lambda w, x, n: total(first(w, x, n)))(*args).grad((0, 1))
    hessian.verify()
    expected = jax.grad(lambda w, x, n: total(jax.grad(ORACLE, 1)(w, x, n)), (0, 1))
    close(reread(hessian)(*args), jax.jit(expected)(*args), rtol=2e-4)


def test_jacobian_and_hessian():
    args = (W, X, i32(5))
    options = {"while_loops": "checkpointed", "checkpoints": 2}
    jacobian = jaxmlir.trace(looped)(*args).jacrev((0, 1), **options)
    close(jacobian(*args), jax.jit(jax.jacrev(scanned, (0, 1)))(*args))
    hessian = jaxmlir.trace(LOSS)(*args).hessian(1, **options)
    close(hessian(*args), jax.jit(jax.hessian(ORACLE, 1))(*args), rtol=2e-4)


def test_the_linear_function_runs_forwards_and_its_transpose_backwards():
    args = (W, X, i32(9))
    program = jaxmlir.trace(looped)(*args)
    options = {"while_loops": "checkpointed", "checkpoints": 2}
    fwd, lin = map(reread, program.linearize(**options))
    out, residuals = fwd(*args)
    none = np.zeros((), jax.dtypes.float0)
    expected = jax.jvp(lambda w, x: scanned(w, x, 9), args[:2], (X, W))
    close((out, lin(residuals, X, W, none)), expected)
    fwd, bwd = map(reread, program.vjp(**options))
    out, residuals = fwd(*args)
    expected, pullback = jax.vjp(scanned, *args)
    close((out, bwd(residuals, X)), (expected, pullback(X)))


BATCHES = {
    "trip counts": ((None, None, 0), (W, X, np.array([0, 7, 3], i32))),
    "states": ((None, 0, None), (W, np.stack([X, -X]), i32(7))),
    "all": ((0, 0, 0), (np.stack([W, X]), np.stack([X, W]), np.array([4, 6], i32))),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name):
    axes, args = BATCHES[name]
    one = tuple(a if axis is None else a[0] for a, axis in zip(args, axes, strict=True))
    size = next(len(a) for a, axis in zip(args, axes, strict=True) if axis == 0)
    program = jaxmlir.trace(LOSS)(*one)
    options = {"while_loops": "checkpointed", "checkpoints": 2}
    of_gradients = program.grad((0, 1), **options).vmap(axes, axis_size=size)
    of_gradients.verify()
    batched = program.vmap(axes, axis_size=size)
    of_batch = jaxmlir.trace(lambda *args: total(batched(*args)))(*args).grad((0, 1), **options)
    fwd, bwd = program.vjp(**options)
    fwd, bwd = fwd.vmap(axes, axis_size=size), bwd.vmap(axis_size=size)

    def theirs(*args):
        gradients = jax.vmap(jax.grad(ORACLE, (0, 1)), axes)
        return (
            gradients(*args),
            jax.grad(lambda *args: total(jax.vmap(ORACLE, axes)(*args)), (0, 1))(*args),
            gradients(*args),
        )

    pulled = bwd(fwd(*args)[1], np.ones(size, f32))[:2]
    close((of_gradients(*args), of_batch(*args), pulled), jax.jit(theirs)(*args), rtol=1e-4)


def test_hessian_of_a_batch():
    axes, args = BATCHES["trip counts"]
    ours = jax.vmap(ORDERS["reverse over reverse"](marked(LOSS, (W, X, i32(0)))), axes)
    theirs = jax.vmap(ORDERS["reverse over reverse"](ORACLE), axes)
    close(jax.jit(ours)(*args), jax.jit(theirs)(*args), rtol=2e-4)


def test_a_batched_loop_that_has_ended_adds_nothing():
    """The step's derivative is infinite at 0, where one loop of the batch has already ended."""

    def f(w, x):
        def body(s):
            return s[0] + w * jnp.sqrt(s[1]), s[1] - 1

        return lax.while_loop(lambda s: s[1] > 0, body, (f32(0), x))[0]

    x = np.array([1, 3], f32)
    made = gradient(f, (f32(2), x[0]), checkpoints=2).vmap((None, 0), axis_size=2)
    roots = [[1], [3, 2, 1]]
    close(
        made(f32(2), x),
        (
            jnp.array([np.sum(np.sqrt(r)) for r in roots], f32),
            jnp.array([np.sum(1 / np.sqrt(r)) for r in roots], f32),
        ),
    )


@pytest.mark.parametrize("order", ["reverse", "reverse over reverse", "reverse over batches"])
def test_an_ended_element_adds_nothing_to_the_derivative_of_a_batch(order):
    """It adds neither to its own derivatives nor to those of shared arguments."""

    def f(w, c, x):
        def body(s):
            return s[0] + jnp.sin(w * jnp.sqrt(c * s[1])), s[1] - c

        return lax.while_loop(lambda s: s[1] > 0, body, (f32(0), x))[0]

    def unrolled(w, c, x, n):
        return sum(jnp.sin(w * jnp.sqrt(c * (x - i * c))) for i in range(n))

    # The second element takes no step, where the derivatives in x and c would be infinite.
    args = f32(2), np.array([1, 0, 0.5], f32), np.array([1, 0, 1.5], f32)
    loop = marked(f, (f32(2), f32(1), f32(1)), 2)

    def ours(w, c, x):
        return jnp.sum(jax.vmap(loop, (None, 0, 0))(w, c, x))

    def theirs(w, c, x):
        return sum(unrolled(w, c[i], x[i], n) for i, n in ((0, 1), (2, 3)))

    def derivative(f, one):
        first = jax.grad(f, (0, 1, 2))
        if order == "reverse over batches":
            first = one
        if order == "reverse":
            return jax.jit(first)(*args)
        return jax.jit(jax.grad(lambda *args: total(first(*args)), (0, 1, 2)))(*args)

    def of_elements(w, c, x):
        return jax.vmap(jax.grad(loop, (0, 1, 2)), (None, 0, 0))(w, c, x)

    def of_unrolled(w, c, x):
        each = [
            jax.grad(unrolled, (0, 1, 2))(w, c[i], x[i], n) if n else (f32(0),) * 3
            for i, n in enumerate((1, 0, 3))
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)

    close(derivative(ours, of_elements), derivative(theirs, of_unrolled), rtol=2e-4)


# --- loops of all kinds -------------------------------------------------------------------------


def masked(cond, body, init, most):
    """A while loop as a scan of ``most`` steps."""

    def one(carry, _):
        return jax.tree.map(lambda a, b: jnp.where(cond(carry), a, b), body(carry), carry), None

    return lax.scan(one, init, None, length=most)[0]


def loops(while_loop):
    """Functions of ``(x, y, n)`` by name, which use ``while_loop``."""

    def pytrees(x, y, n):
        def body(s):
            return {"z": s["z"] * y, "n": s["n"] - 1, "x": (s["x"][0] + jnp.abs(s["z"]), None)}

        init = {"z": x[0] + 1j * x[1], "n": n, "x": (x[0], None)}
        out = while_loop(lambda s: s["n"] > 0, body, init)
        return jnp.abs(out["z"]) * out["x"][0]

    def condition_of_the_state(x, y, n):
        return while_loop(lambda x: jnp.sum(x * x) < 4 + y, lambda x: x * (1 + y * y), x)[0]

    def nested(x, y, n):
        def outer(s):
            x, i = s
            inner = while_loop(lambda t: t[1] < i, lambda t: (jnp.sin(t[0] * y), t[1] + 1), (x, 0))
            return inner[0] + x, i + 1

        return jnp.sum(while_loop(lambda s: s[1] < n, outer, (x, 0))[0])

    def in_other_control_flow(x, y, n):
        def body(x, i):
            def many(x):
                return while_loop(
                    lambda s: s[1] < i + n, lambda s: (jnp.sin(s[0] * y), s[1] + 1), (x, 0)
                )[0]

            return jax.checkpoint(lambda x: lax.cond(i > 1, many, lambda x: x * y, x))(x), x.sum()

        x, sums = lax.scan(jax.jit(body), x, jnp.arange(4))
        return jnp.sum(x) + jnp.sum(sums**2)

    def control_flow_inside(x, y, n):
        def body(s):
            x, i = s
            x = lax.cond(i % 2 == 0, lambda x: jnp.sin(x * y), lambda x: x**2, x)
            x, _ = lax.scan(lambda x, _: (jnp.tanh(x + y), None), x, None, length=2)
            return x, i + 1

        return jnp.sum(while_loop(lambda s: s[1] < n, body, (x, 0))[0])

    def unused_and_constant(x, y, n):
        out = while_loop(
            lambda s: s[2] < n,
            lambda s: (s[0] * y, lax.stop_gradient(s[0]), s[2] + 1, s[3]),
            (x, x, 0, y),
        )
        return jnp.sum(out[0] * out[1]) * out[3]

    return {
        f.__name__: f for k, f in locals().items() if inspect.isfunction(f) and k != "while_loop"
    }


ARGS = (X, f32(1.3), i32(5))


@pytest.mark.sampled
@pytest.mark.parametrize("name", loops(None))
def test_loops_of_all_kinds(name):
    ours = marked(loops(lax.while_loop)[name], ARGS, 2)
    theirs = loops(functools.partial(masked, most=9))[name]

    def derivatives(f):
        def both(x, y, n):
            first = jax.grad(f, (0, 1))
            return first(x, y, n), jax.grad(lambda x, y: total(first(x, y, n)), (0, 1))(x, y)

        return jax.jit(both)

    close(derivatives(ours)(*ARGS), derivatives(theirs)(*ARGS), rtol=2e-4)


def test_custom_rules_are_used_in_every_derivative():
    """This includes a rule whose backward function is not the transpose of anything symmetric."""

    @jax.custom_vjp
    def rotated(x):
        return jnp.sin(x)

    rotated.defvjp(
        lambda x: (jnp.sin(x), x), lambda x, ct: (jnp.stack([ct[1] * x[0], ct[0] * x[1] ** 2]),)
    )

    def f(while_loop):
        def g(x, y, n):
            out = while_loop(lambda s: s[1] < n, lambda s: (rotated(s[0]) * y, s[1] + 1), (x, 0))
            return jnp.sum(jnp.sin(out[0]) * W)

        return g

    def twice(g):
        return jax.jit(
            lambda x, y, n: jax.grad(lambda x, y: total(jax.grad(g, (0, 1))(x, y, n)), (0, 1))(x, y)
        )

    ours = marked(f(lax.while_loop), ARGS, 2)
    close(twice(ours)(*ARGS), twice(f(functools.partial(masked, most=6)))(*ARGS), rtol=2e-4)


def test_random_keys_in_the_carry():
    def f(while_loop, select=None):
        def g(x, n):
            def body(s):
                key, x, i = s
                key, now = jax.random.split(key)
                return key, x * jax.random.normal(now, (2,)), i + 1

            return jnp.sum(while_loop(lambda s: s[2] < n, body, (jax.random.key(3), x, 0))[1])

        return g

    made = gradient(f(lax.while_loop), (X, i32(0)), 0, 2)

    def unrolled(cond, body, carry):
        for _ in range(5):
            carry = body(carry)
        return carry

    close(made(X, i32(5)), jax.grad(f(unrolled))(X, 5))


# --- options ------------------------------------------------------------------------------------


def test_options_are_checked():
    program = jaxmlir.trace(LOSS)(W, X, i32(3))
    with pytest.raises(TransformError, match=r"while.*checkpoints=N") as error:
        program.grad()
    assert "test_checkpointing.py" in str(error.value)
    for options, message in (
        ({"while_loops": "checkpoint"}, "'error', 'checkpointed', got 'checkpoint'"),
        ({"while_loops": "checkpointed"}, "needs checkpoints=N.* got None"),
        ({"while_loops": "checkpointed", "checkpoints": 0}, "at least 1; got 0"),
        ({"while_loops": "checkpointed", "checkpoints": True}, "at least 1; got True"),
        ({"while_loops": "checkpointed", "checkpoints": "3"}, "at least 1; got '3'"),
        ({"checkpoints": 3}, "needs while_loops='checkpointed'"),
    ):
        for method in (program.grad, program.vjp, program.linearize, program.hessian):
            with pytest.raises(ArgumentError, match=message):
                method(**options)
    program.grad(while_loops="checkpointed", checkpoints=np.int64(3))
    with pytest.raises(PipelineError, match="error|checkpointed"):
        program.run_passes("jaxpr-grad{while=unrolled}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nconsts = 1 : i64, step", "nconsts = 2 : i64, step", "arguments of the condition"),
        ("record = true", "record = false", "results"),
        ("step_jaxpr = @", "step_jaxpr = @body.fwd, jaxpr.was = @", "arguments of the step"),
        ("checkpoints = 3", "checkpoints = 0", "at least 1"),
    ],
)
def test_malformed_ops_are_found(old, new, message):
    def f(w, x, n):
        def body(s):
            return step(w, s[0]), s[1] + 1

        return lax.while_loop(lambda s: s[1] < n, body, (x, 0))[0].sum()

    text = gradient(f, (W, X, i32(0))).as_text()
    assert old in text
    with pytest.raises(VerificationError, match=message):
        jaxmlir.parse(text.replace(old, new)).verify()


def test_a_loop_with_side_effects_stays_an_error():
    def f(x):
        def body(x):
            jax.debug.print("{}", x)
            return x * x

        return lax.while_loop(lambda x: x < 9, body, x)

    with pytest.raises(
        TransformError, match="jaxpr.while.* it would repeat the loop's side effects"
    ) as error:
        jaxmlir.trace(f)(f32(2)).grad(while_loops="checkpointed", checkpoints=2)
    assert "checkpoints=N" not in str(error.value)


# --- a real user --------------------------------------------------------------------------------


def test_adaptive_solver():
    """diffrax's loop, which is a plain while loop if it is traced for forward mode."""
    diffrax = pytest.importorskip("diffrax")

    def solve(theta, y0, adjoint, max_steps):
        term = diffrax.ODETerm(lambda t, y, theta: -theta * jnp.sin(y[::-1]) + t)
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Heun(),
            t0=0.0,
            t1=2.0,
            dt0=0.1,
            y0=y0,
            args=theta,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
            max_steps=max_steps,
            adjoint=adjoint,
        )
        return jnp.sum(solution.ys[0] ** 2), solution.stats["num_steps"]

    args = W, X
    program = jaxmlir.trace(lambda w, x: solve(w, x, diffrax.ForwardMode(), None))(*args)
    options = {"argnums": (0, 1), "has_aux": True}
    made = program.value_and_grad(**options, while_loops="checkpointed", checkpoints=4)
    made.verify()

    def oracle(w, x):
        return solve(w, x, diffrax.RecursiveCheckpointAdjoint(), 100)

    ours, theirs = made(*args), jax.jit(jax.value_and_grad(oracle, **options))(*args)
    assert int(ours[0][1]) > 15, "more steps than may be computed twice"
    close(ours, theirs)

"""Loop-invariant code motion: which ops leave a loop, and that numbers equal JAX's."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from jax import export, lax

import jaxmlir
from jaxmlir.analysis.cost import costs

W = np.random.RandomState(0).randn(4, 4).astype(np.float32) / 2
X = np.linspace(-1, 1, 4, dtype=np.float32)


def repeated(step):
    """A function of a matrix and a vector that applies ``step(matrix, carry)`` three times."""
    return lambda w, x: lax.scan(lambda c, _: (step(w, c), None), x, None, length=3)[0]


def moved(function, *args):
    """The program after code motion, and the moved ops according to the remarks."""
    remarks = []
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes("jaxpr-licm", remarks=lambda r: remarks.append(str(r)))
    return after, [r.split("'")[1] for r in remarks]


def same_as_jax(program, function, *args):
    def total(f):
        return lambda *args: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(f(*args)))

    for transform in (lambda f: f, lambda f: jax.grad(total(f))):
        got, want = (jax.jit(transform(f))(*args) for f in (program, function))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 2e-5, 2e-5), got, want)


@pytest.mark.compat
@pytest.mark.parametrize("start, count", [(0, 1), (1, 0)])
def test_a_scan_of_symbolic_length_that_may_be_empty(start, count):
    """If the loop is empty, a hoisted root of zero would make a derivative zero times infinity."""

    def function(w, x):
        def step(c, r):
            return c * r + jnp.sum(jnp.sqrt(w[:, None] * w)), None

        return lax.scan(step, 1.0, x[start:])[0]

    shapes = (4,), export.symbolic_shape("n")
    program, found = moved(function, *[jax.ShapeDtypeStruct(s, np.float32) for s in shapes])
    assert len(found) == count
    for w, n in ((0, 1), (1, 3)):
        same_as_jax(program, function, np.full(4, w, np.float32), np.ones(n, np.float32))


def test_a_condition_that_draws_numbers_is_not_asked_twice():
    def function(w, x):
        def runs(state):
            return (state[0] < 3) & (lax.rng_uniform(0.0, 1.0, ()) < 0.5)

        return lax.while_loop(runs, lambda state: (state[0] + 1, w @ w @ state[1]), (0, x))[1]

    assert moved(function, np.eye(32, dtype=np.float32), np.ones(32, np.float32))[1] == []


@pytest.mark.parametrize(
    ("step", "ops"),
    [
        (lambda w, c: jnp.tanh(w @ w.T @ c), ["jaxpr.dot_general"]),
        (lambda w, c: jnp.exp(w) @ c, ["jaxpr.exp"]),
        (lambda w, c: c * jnp.linalg.norm(w), ["jaxpr.sqrt"]),
        (lambda w, c: c * w[1], ["jaxpr.slice"]),
        # The call moves as a whole, with its rule.
        (
            lambda w, c: c + jax.nn.relu(random_programs.cubed(w)[0]),
            ["jaxpr.custom_jvp_call_jaxpr"],
        ),
        (lambda w, c: jnp.where(jnp.tri(4, dtype=bool), w, 0) @ c, ["jaxpr.select_n"]),
        # Small parts of a matrix stay, and so do masks, and wide products of narrow operands.
        (lambda w, c: jnp.where(jnp.tri(4, dtype=bool), jnp.outer(c, c), 0) @ c, []),
        (lambda w, c: w @ c + (0.5 * w) @ c, []),
        # Ops in branches stay, because the branch may not run.
        (lambda w, c: lax.cond(c[0] > 0, lambda c: jnp.sin(w @ w) @ c, lambda c: c, c), []),
        # Prints do not move.
        (lambda w, c: (jax.debug.print("{}", w[0, 0]), c)[1], []),
    ],
)
def test_what_is_moved(step, ops):
    function = repeated(step)
    program, found = moved(function, W, X)
    assert [name for name in found if name != "jaxpr.squeeze"] == ops
    same_as_jax(program, function, W, X)


def test_out_of_all_loops():
    """Ops that are invariant in both loops leave both of them."""

    def function(w, x):
        def outer(c, row):
            inner = repeated(lambda v, c: jnp.tanh(jnp.exp(w @ w) @ (jnp.sin(v).sum() * c)))
            return inner(jnp.outer(row, row), c), None

        return lax.scan(outer, x, w)[0]

    program, found = moved(function, W, X)
    assert found.count("jaxpr.exp") == 2 and "jaxpr.reduce_sum" in found
    main = next(iter(program.functions.values()))
    assert "jaxpr.exp" in str(main)
    same_as_jax(program, function, W, X)


def test_the_gradient_does_the_work_once():
    function = repeated(lambda w, c: jnp.tanh(w @ w.T @ c))
    program, _ = moved(function, W, X)
    before = jaxmlir.trace(function)(W, X)

    def flops(f):
        gradient = jax.grad(lambda *args: f(*args).sum())
        return costs(jaxmlir.trace(gradient)(W, X).optimize(1)).total.flops

    # The cotangent of each factor is a product, computed once instead of three times.
    assert flops(before) - flops(program) >= 2 * 2 * 2 * 4**3


def test_calls_are_split():
    @jax.jit
    def layer(w, c):
        for _ in range(4):
            c = jnp.tanh(jnp.exp(w @ w) @ c) + jnp.sin(c)
        return c

    def step(w, c):
        return jax.checkpoint(layer)(w, layer(w, layer(w, c)))

    program, found = moved(repeated(step), W, X)
    assert "jaxpr.exp" in found
    assert str(program).count("jaxpr.exp") == 2, "once for both calls, once for the checkpoint"
    same_as_jax(program, repeated(step), W, X)


def test_a_shared_body_is_taken_apart_once():
    """Loops still share the body afterwards, and hoisted ops of the same constants."""

    def function(w, x):
        loop = repeated(lambda w, c: jnp.exp(w @ w) @ c)
        return loop(w, x) + loop(w, loop(2 * w, x))

    program, found = moved(function, W, X)
    assert found == 3 * ["jaxpr.exp"]
    (main,) = (f for f in program.functions.values() if f.visibility.value == "public")
    assert len(program.functions) == 2, "one body"
    assert str(main).count("jaxpr.scan") == 3 and str(main).count("jaxpr.exp") == 2
    same_as_jax(program, function, W, X)


@pytest.mark.parametrize("length", [0, 1])
def test_loops_that_do_not_repeat_are_left_alone(length):
    def function(w, x):
        return lax.scan(lambda c, _: (jnp.exp(w @ w) @ c, None), x, None, length)[0]

    program = jaxmlir.trace(function)(W, X)
    assert str(program.run_passes("jaxpr-licm")) == str(program)


def forever(x):
    return lax.while_loop(lambda x: x == x, lambda x: x, x)


@pytest.mark.compat
@pytest.mark.parametrize("steps", [0, 2])
def test_random_keys_are_moved_out_of_a_while(steps):
    """If the loop does not run, the keys have arbitrary values that nothing reads."""

    def function(seed, steps):
        def body(state):
            i, c = state
            key = jax.random.split(jax.random.key(seed))[0]
            return i + 1, c + jax.random.uniform(jax.random.fold_in(key, i))

        return lax.while_loop(lambda state: state[0] < steps, body, (0, 1.0))

    program, found = moved(function, 3, steps)
    assert found == ["jaxpr.slice"] and "jaxpr.cond" in str(program)
    np.testing.assert_allclose(program(3, steps), jax.jit(function)(3, steps))


@pytest.mark.parametrize("steps", [0, 2])
def test_what_a_while_may_not_need_is_computed_if_it_does(steps):
    """Hoisted code that does not terminate must run only if the loop runs."""

    def function(w, x, steps):
        def body(state):
            i, c = state
            return i + 1, c + jnp.exp(w @ w)[0] + jnp.where(steps == 0, forever(w[0, 0]), 0)

        def cond(state):
            return state[0] < steps + jnp.maximum(0, 0 * w.sum()).astype(int)

        return lax.while_loop(cond, body, (0, x))

    program, found = moved(function, W, X, 0)
    assert {"jaxpr.exp", "jaxpr.squeeze", "jaxpr.add"} & set(found) and "jaxpr.cond" in str(program)
    if steps == 0:
        assert program(W, X, 0)[0] == 0


@pytest.mark.parametrize("steps", [0, 2])
def test_indices_are_computed_whether_a_while_needs_them_or_not(steps):
    """Indices cost no more than the condition, and have no derivative."""

    def function(x, indices, steps):
        def body(state):
            i, c = state
            return i + 1, jnp.sin(c)[jnp.where(indices < 0, indices + len(x), indices)]

        return lax.while_loop(lambda state: state[0] < steps, body, (0, x))

    args = X, np.arange(len(X)) - 2, steps
    program, found = moved(function, *args)
    assert "jaxpr.select_n" in found and "jaxpr.cond" not in str(program)
    np.testing.assert_allclose(program(*args)[1], function(*args)[1], rtol=1e-6)


def test_whiles():
    def function(w, x):
        def cond(state):
            return jnp.sum(state) < jnp.sum(jnp.square(w))

        return lax.while_loop(cond, lambda c: c + 0.1 + jnp.exp(w @ w)[0], x)

    w, x = np.tile(W, (2, 2)), np.tile(X, 2)
    program, found = moved(function, w, x)
    assert "jaxpr.reduce_sum" in found and len(found) == 2
    np.testing.assert_allclose(program(w, x), function(w, x), rtol=1e-6)
    tangents = [jax.jvp(f, (w, x), (w, x))[1] for f in (program, function)]
    np.testing.assert_allclose(*tangents, rtol=1e-5)


@pytest.mark.parametrize(("size", "count"), [(4, 0), (64, 1)])
def test_what_leaves_a_while_saves_more_than_asking_whether_it_runs(size, count):
    def function(w, x):
        return lax.while_loop(lambda c: jnp.sum(c) < 1, lambda c: c + 0.1 + w @ w[0], x)

    w, x = np.ones((size, size), np.float32), np.zeros(size, np.float32)
    program, found = moved(function, w, x)
    assert len(found) == str(program).count("jaxpr.cond") == count
    np.testing.assert_allclose(program(w, x), function(w, x), rtol=1e-6)


@pytest.mark.compat
@pytest.mark.parametrize("counts", [(0, 3, 1), (0, 0, 0)])
def test_a_batch_of_whiles(counts):
    """The batched loop runs while any of its loops does: its condition is an array."""

    def function(w, x, counts):
        def loop(w, x, count):
            def body(state):
                i, c = state
                return i + 1, c + jnp.exp(w @ w)[0]

            return lax.while_loop(lambda state: state[0] < count, body, (0, x))[1]

        return jax.vmap(loop)(w, x, counts)

    args = np.stack([W, 2 * W, W.T]), np.stack([X, 2 * X, -X]), np.array(counts)
    program, found = moved(function, *args)
    assert found and "jaxpr.cond" in str(program)
    np.testing.assert_allclose(program(*args), function(*args), rtol=1e-6)


@pytest.mark.compat
@random_programs.budget
@hypothesis.given(steps=random_programs.programs)
def test_random_programs(steps):
    x, y = np.float32([0.3, -0.8, 1.1]), np.float32([0.7, 0.2, -0.5])
    program = jaxmlir.trace(lambda x, y: random_programs.run(steps, x, y))(x, y)
    after = program.run_passes("jaxpr-licm{growth=0}")
    np.testing.assert_allclose(after(x, y), program(x, y), rtol=1e-5, atol=1e-5)
    got, want = (jax.grad(lambda x, p=p: jnp.sum(p(x, y)))(x) for p in (after, program))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_work_of_symbolic_sizes_stays_in_its_loop():
    """The amount of work is unknown; once the sizes are known, the work leaves the loop."""

    def f(x):
        return lax.scan(lambda c, r: (c + jnp.sin(x[0]) * r + x.sum(), None), x[0], x)[0]

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    sizes = jax.ShapeDtypeStruct(export.symbolic_shape("b, n"), x.dtype)
    program = jaxmlir.from_exported(export.export(jax.jit(f))(sizes))
    for form in (program, program.specialize(x)):
        same_as_jax(form.optimize(2), f, x)


def test_a_generator_with_a_state_draws_anew_each_time():
    """JAX gives the generator no effect, but each loop that draws, and each iteration of an outer
    loop, must draw anew, even with the same operands."""

    def drawn(x):
        return lax.fori_loop(0, 3, lambda _, c: 2 * c + lax.rng_uniform(0.0, 1.0, ()), x)

    def twice(x):
        return jnp.stack([drawn(x), drawn(x)])

    def again(x):
        return lax.scan(lambda c, _: (c, drawn(x)), 0.0, None, length=2)[1]

    def batched(x):
        w = jnp.full((8, 8), x)
        return lax.map(lambda row: (w @ lax.broadcast(drawn(x), (8,)), row @ w), jnp.ones((2, 8)))[
            0
        ][:, 0]

    for function in (twice, again, batched):
        first, second = jaxmlir.trace(function)(1.0).optimize(2)(1.0)
        assert first != second

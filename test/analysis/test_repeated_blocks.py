"""Repeated structure: outlined, rolled-up and batched programs give JAX's results."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import given
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir._compat import core
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.repeated_blocks import OpString
from jaxmlir.dialect.ir import scope
from jaxmlir.passes import STORAGE

RNG = np.random.RandomState(0)


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32) / 2


def ops(program, symbol=""):
    """The names of a function's ops, without the dialect."""
    function = program.functions[symbol or program.name]
    return [op.operation.name.removeprefix("jaxpr.") for op in function.entry_block.operations]


def calls(program):
    """The number of calls of blocks."""
    function = program.functions[program.name]
    return sum(
        op.operation.name == "jaxpr.jit" and ".block" in str(op.attributes["jaxpr"])
        for op in function.entry_block.operations
    )


def after(pipeline, function, *args, target=None):
    """The program before and after passes."""
    program = jaxmlir.trace(function)(*args).optimize(1)
    return program, program.run_passes(pipeline, target=target)


def gradient(function):
    def total(*args):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(*args)))

    return jax.grad(total)


def same_as_jax(program, function, *args, tolerance=2e-5):
    for transform in (lambda f: f, gradient):
        got, want = (jax.jit(transform(f))(*args) for f in (program, function))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, tolerance, tolerance), got, want)


def layers(ws, x):
    """Layers, each with separate weights and a separate constant."""
    for i, w in enumerate(ws):
        h = jnp.tanh(x @ w)
        h = h * (i + 0.5) + jnp.exp(-h) * 0.1
        h = (h - h.mean(-1, keepdims=True)) / (1 + h.std(-1, keepdims=True))
        x = x + jnp.where(jnp.tri(4, dtype=bool), h, 0.0)
    return x.sum()


def diffusion(u):
    for _ in range(4):
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        u = u + 0.1 * (around - 4 * u) + 0.01 * u * (1 - u**2)
    return jnp.sum(u**2)


LAYERS = ([normal(4, 4) for _ in range(5)], normal(4, 4))


@pytest.mark.parametrize(("function", "args"), [(layers, LAYERS), (diffusion, (normal(8, 8),))])
@pytest.mark.parametrize("differentiated", [False, True])
def test_outlined_blocks_are_the_same_code(function, args, differentiated):
    plain = jaxmlir.trace(function)(*args).optimize(1)
    if differentiated:
        plain = plain.grad().optimize(1)
    outlined = plain.run_passes("jaxpr-outline")
    assert calls(outlined) >= 3
    assert len(ops(outlined)) < 0.7 * len(ops(plain))
    for a, b in zip(*(jax.tree.leaves(p(*args)) for p in (plain, outlined)), strict=True):
        assert np.array_equal(a, b)
    assert str(outlined.run_passes("jaxpr-outline")) == str(outlined)


@pytest.mark.compat
def test_derivatives_of_calls_are_calls():
    plain, outlined = after("jaxpr-outline", layers, *LAYERS)
    assert calls(outlined) >= 4
    before, gradient = (p.grad().optimize(1) for p in (plain, outlined))
    assert calls(gradient) >= 8 > calls(before) == 0
    assert len(ops(gradient)) < 0.6 * len(ops(before))
    want = jax.grad(layers)(*LAYERS)
    got = gradient(*LAYERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), got, want)


def test_calls_that_are_kept_are_kept():
    _, outlined = after("jaxpr-outline{keep-calls=true}", layers, *LAYERS)
    _, inlined = after("jaxpr-outline", layers, *LAYERS)
    kept, gone = (p.lower().compile().as_text().count(" call(") for p in (outlined, inlined))
    assert kept >= 4 + gone
    gradient = outlined.grad().run_passes("jaxpr-materialize-shared")
    assert gradient.lower().compile().as_text().count(" call(") >= 8
    want = jax.grad(layers)(*LAYERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), gradient(*LAYERS), want)


def test_blocks_apart_from_each_other_are_found():
    def f(w, x, y):
        def net(x):
            x = jnp.tanh(x @ w)
            x = x - x.mean()
            x = x * lax.rsqrt((x**2).mean() + 1e-3)
            x = jnp.exp(-jnp.abs(x)) + jnp.sin(x) * jnp.cos(x) @ w
            return jnp.sqrt(1 + x**2) - jnp.tanh(x) * jnp.sin(1 - x)

        a = net(x)
        b = net(jnp.cumsum(y) + a[0])
        return a.sum() * b.sum() + net(jnp.sort(b)).sum()

    args = normal(4, 4), normal(4), normal(4)
    plain, outlined = after("jaxpr-outline{min-ops=8}", f, *args)
    assert calls(outlined) == 3
    assert plain(*args) == outlined(*args)


def attention(ws, x):
    """The first layer computes the mask from constants, and all layers read it."""
    for w in ws:
        scores = jnp.sin(x @ w) @ x.T
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, -9.0)
        x = x + jax.nn.softmax(scores) @ jnp.tanh(x)
    return x


def from_a_constant_state(ws, x):
    """The first step consists of constants up to the op that reads an argument."""
    state = jnp.linspace(0.0, 1.0, 16).reshape(4, 4)
    for w in ws:
        state = jnp.sin(state * 0.9) + jnp.cos(state * state) @ w - jnp.exp(-state)
        state = state / (1 + jnp.sum(state * state)) + jnp.tanh(state)
    return state @ x


@pytest.mark.compat
@pytest.mark.parametrize("function", [attention, from_a_constant_state])
def test_blocks_begin_with_the_first_layer(function):
    program, outlined = after("jaxpr-outline", function, *LAYERS)
    assert calls(outlined) == len(LAYERS[0])
    same_as_jax(outlined, function, *LAYERS)
    same_as_jax(program.run_passes("jaxpr-reroll{stored=1e9}"), function, *LAYERS)


@pytest.mark.compat
def test_prints_stay_where_they_are():
    def f(x):
        for _ in range(8):
            x = jnp.sin(x) * jnp.cos(x) + jnp.exp(-x) * jnp.tanh(x) - jnp.sqrt(jnp.abs(x))
            jax.debug.print("{}", x)
            x = jnp.sin(x) * jnp.cos(x) + jnp.exp(-x) * jnp.tanh(x) - jnp.sqrt(jnp.abs(x))
        return x

    _, outlined = after("jaxpr-outline{min-ops=8}", f, np.float32(1))
    assert ops(outlined).count("debug_print") + ops(outlined).count("debug_callback") == 8


FORCED = "jaxpr-reroll{stored=1e9 min-length=4}"


def unrolled(step, length=6):
    """``step(w, c, row, i)`` unrolled over the rows of an array."""

    def f(w, c, rows):
        outs = []
        for i in range(length):
            c, out = step(w, c, rows[i], i)
            outs.append(out)
        return c, outs

    return f


STEPS = {
    "rows": lambda w, c, row, i: (jnp.tanh(w @ c + jnp.sin(row) * jnp.cos(c) + row), None),
    "numbers": lambda w, c, row, i: (
        jnp.tanh(w @ c * (1.5 + i) + jnp.sin(c) * (c - (i + 0.5))),
        None,
    ),
    "results": lambda w, c, row, i: (jnp.tanh(w @ c + jnp.sin(row) * jnp.cos(c)), jnp.exp(c - row)),
    "states": lambda w, c, row, i: (jnp.tanh(w @ c + jnp.sin(row) + jnp.sin(row * c)), c),
}


@pytest.mark.parametrize("name", STEPS)
def test_rolled_up(name):
    f = unrolled(STEPS[name])
    args = normal(3, 3), normal(3), normal(6, 3)
    _, rolled = after(f"{FORCED}, jaxpr-dce", f, *args)
    assert ops(rolled).count("scan") == 1
    assert "dot_general" not in ops(rolled)
    assert ops(rolled).count("slice") <= 6 * (name in ("results", "states"))
    same_as_jax(rolled, f, *args)


@pytest.mark.compat
def test_rolled_up_with_two_carried_values_and_weights_of_their_own():
    def f(ws, x, v):
        for w in ws:
            v = v - 0.1 * jnp.sin(w @ x) * jnp.cos(v)
            x = x + 0.1 * jnp.tanh(v) * jnp.exp(-v)
        return x, v

    args = [normal(3, 3) for _ in range(6)], normal(3), normal(3)
    _, rolled = after(FORCED, f, *args)
    assert ops(rolled).count("scan") == 1
    same_as_jax(rolled, f, *args)


def hoisted(ws, xs):
    """The inputs of all steps are multiplied at once, and then sliced."""
    inputs, h = xs @ ws[0], jnp.zeros(8)
    for t in range(len(xs)):
        h = jnp.tanh(inputs[t] + h @ ws[1]) - 0.1 * jnp.sin(h)
    return h


def two_layers(ws, xs):
    """Two kinds of blocks alternate, which differ in the origin of the hidden state."""
    g = h = jnp.zeros(8)
    for x in xs:
        g = jnp.tanh(x @ ws[0] + g @ ws[1])
        h = jnp.tanh(g @ ws[0] + h @ ws[1])
    return h


def both_ways(ws, xs):
    """Two loops read two tables of one type, one of the loops backwards."""
    ahead, back = jnp.sin(xs @ ws[0]), jnp.sin(xs @ ws[1])
    g = h = jnp.zeros(8)
    for t in range(len(xs)):
        g = jnp.tanh(ahead[t] + g @ ws[0]) - jnp.sin(g)
    for t in reversed(range(len(xs))):
        h = jnp.cos(back[t] + h @ ws[1]) * jnp.exp(-h * h)
    return g, h


@pytest.mark.compat
@pytest.mark.parametrize(("function", "loops"), [(hoisted, 1), (two_layers, 1), (both_ways, 2)])
def test_what_loops_read_of_is_made_before(function, loops):
    args = [normal(8, 8), normal(8, 8)], normal(20, 8)
    _, rolled = after("jaxpr-reroll{stored=1e9}", function, *args)
    assert ops(rolled).count("scan") == loops
    assert ops(rolled).count("dot_general") <= 8
    same_as_jax(rolled, function, *args)


@pytest.mark.parametrize("steps", [2, 6, 18])
def test_what_blocks_take_apart_themselves(steps):
    """Slices of the block's result, so many that they look like rows of a table."""

    def f(w, x):
        for _ in range(steps):
            y = jnp.tanh(x @ w)
            x = jnp.concatenate([jnp.sin(y[i]) * y[-i - 1 :][0] for i in range(8)]).reshape(8, 4)
        return x

    args = normal(4, 4), normal(8, 4)
    for pipeline in (FORCED, "jaxpr-outline", "jaxpr-vectorize-blocks{min-gain=0 stacked=1e9}"):
        _, changed = after(pipeline, f, *args)
        changed.verify()
        same_as_jax(changed, f, *args)


@pytest.mark.compat
@pytest.mark.parametrize("pipeline", [FORCED, "jaxpr-vectorize-blocks{min-gain=0 stacked=1e9}"])
def test_keys_of_blocks(pipeline):
    """Known random keys are stacked into a constant."""
    keys, weights = [jax.random.key(i) for i in range(6)], normal(4, 4)

    def chain(x):
        for key in keys:
            x = jnp.tanh(x @ weights) + jax.random.normal(key, x.shape)
        return x

    def apart(x):
        return sum(jnp.tanh((x * jax.random.normal(key, x.shape)) @ weights) for key in keys)

    function = chain if pipeline == FORCED else apart
    before, changed = after(pipeline, function, normal(4))
    changed.verify()
    assert ops(changed).count("dot_general") < ops(before).count("dot_general")
    same_as_jax(changed, function, normal(4))


def test_weights_are_not_put_together_for_a_loop():
    def f(ws, x):
        for w in ws:
            x = x + 0.1 * jnp.tanh(w @ x) * jnp.exp(-x) - jnp.sin(x)
        return x

    vector = jax.ShapeDtypeStruct((64,), np.float32)
    weights = [jax.ShapeDtypeStruct((64, 64), np.float32)] * 16
    plain, rolled = after("jaxpr-reroll", f, weights, vector)
    assert str(plain) == str(rolled)


def test_few_blocks_are_not_rolled_up():
    f, args = recurrent(8, 64, length=8)
    plain, rolled = after("jaxpr-reroll", f, *args)
    assert str(plain) == str(rolled)
    _, rolled = after("jaxpr-reroll{min-length=8}", f, *args)
    assert "scan" in ops(rolled)


def test_only_the_cpu_gains_by_loops():
    f, args = recurrent(8, 64, length=24)
    _, rolled = after("jaxpr-reroll", f, *args)
    assert "scan" in ops(rolled)
    plain, left = after("jaxpr-reroll", f, *args, target="cuda")
    assert str(plain) == str(left)
    _, rolled = after("jaxpr-reroll{min-length=24}", f, *args, target="cuda")
    assert "scan" in ops(rolled)


def further_back(w, x, y):
    for _ in range(8):
        x, y = y, jnp.tanh(w @ x + jnp.sin(y) * jnp.cos(x) - jnp.exp(-y))
    return y, x


def three_back(w, x, y):
    z = x + y
    for _ in range(9):
        x, y, z = y, z, jnp.tanh(w @ x + jnp.sin(y) * jnp.cos(z))
    return z


@pytest.mark.parametrize(("f", "carried"), [(further_back, 2), (three_back, 3)])
def test_what_reads_further_back_is_carried_with_what_is_between(f, carried):
    args = normal(3, 3), normal(3), normal(3)
    _, rolled = after(FORCED, f, *args)
    assert f"num_carry = {carried} " in str(rolled)
    same_as_jax(rolled, f, *args)


def recurrent(rows, columns, length=16):
    def f(w, u, xs):
        h = jnp.zeros((rows, columns), np.float32)
        for x in xs:
            h = jnp.tanh(x @ u + h @ w) + 0.1 * jnp.sin(h)
        return jnp.sum(h**2)

    shapes = (columns, columns), (columns, columns), (length, rows, columns)
    return f, tuple(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes)


@pytest.mark.parametrize(("size", "pays"), [((1, 4), True), ((8, 64), True), ((128, 512), False)])
def test_short_kernels_are_rolled_up(size, pays):
    f, args = recurrent(*size)
    _, rolled = after("jaxpr-reroll", f, *args)
    assert ("scan" in ops(rolled)) == pays


def test_what_xla_fuses_is_not_rolled_up():
    plain, rolled = after("jaxpr-reroll", diffusion, normal(8, 8))
    assert str(plain) == str(rolled)


def relaxed(y, i):
    return y.at[i].set(jnp.tanh(y[i] + 0.1 * (y[i - 1] - 2 * y[i] + y[i + 1])))


def read_when_written(y, i):
    new = y.at[i].set(jnp.tanh(y[i - 1]))
    return new.at[i + 1].add(y[i])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("step", "pays"),
    [
        (relaxed, True),
        (lambda y, i: y.at[i].add(jnp.sin(y[i + 1])), True),
        (lambda y, i: lax.dynamic_update_slice(y, 1.5 * y[:2], (i, 0)), True),
        (read_when_written, False),
        (lambda y, i: y.at[i].set(jnp.sum(y, axis=0)), False),
        (lambda y, i: y.at[i].multiply(y[i - 1]), False),
    ],
)
def test_arrays_that_are_written_in_place_are_stored_once(step, pays):
    def f(x, start):
        for i in range(1, 21):
            x = step(x, start + i)
        return x

    x = np.linspace(0, 1, 4000, dtype=np.float32).reshape(100, 40)
    _, rolled = after("jaxpr-reroll", f, x, 3)
    assert ("scan" in ops(rolled)) == pays
    rolled.verify()
    np.testing.assert_allclose(rolled(x, 3), jax.jit(f)(x, 3), rtol=1e-5)


def scans(count, body, shared=False):
    def f(w, rows):
        total = 0.0
        for i in range(count):
            c, ys = lax.scan(
                lambda c, x, i=i: body(w, c, x, i), rows[0], rows if shared else rows + i
            )
            total = total + jnp.sum(jnp.sin(ys)) * c
        return total

    return f


@pytest.mark.parametrize(
    "body",
    [
        lambda w, c, x, i: (jnp.tanh(w @ c + x), c * x),
        lambda w, c, x, i: (jnp.tanh(c * (0.5 + i) + x), c),
        lambda w, c, x, i: (random_programs.cubed(jnp.sin(c)) + x, jnp.float32(1.0)),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_batched_scans(body, shared):
    f = scans(3, body, shared)
    args = normal(3, 3), normal(5, 3)
    plain, batched = after("jaxpr-fuse-scans", f, *args)
    assert ops(batched).count("scan") == 1 <= ops(plain).count("scan")
    same_as_jax(batched, f, *args)


@pytest.mark.compat
def test_batches_of_scans_whose_bodies_differ_in_constants():
    def f(w, xs, ys):
        for rate in (0.5, 0.25, 2.0):

            def final(h, rows, rate=rate):
                def step(h, x):
                    return jnp.tanh(h @ w * rate - (1 - rate) * x), h * rate

                return lax.scan(step, h, rows)

            pairs = [final(rows[0], rows) for rows in (xs, ys)]
            xs, ys = (rows + h for h, rows in pairs)
        return xs, ys

    args = normal(4, 4), normal(5, 4), normal(5, 4)
    plain, batched = after("jaxpr-fuse-scans", f, *args)
    assert ops(batched).count("scan") == 3 and ops(plain).count("scan") == 6
    same_as_jax(batched, f, *args)


@pytest.mark.compat
def test_derivatives_of_batched_scans_read_what_these_have_stacked():
    """The derivatives come in reverse order, and are batched in the order of the scans."""

    def f(ws, xs):
        def final(w):
            return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(4), xs)[0]

        return sum(map(final, ws))

    args = [normal(4, 4) for _ in range(3)], normal(5, 4)
    of_jax = jax.grad(lambda *args: jnp.sum(jnp.sin(f(*args))))
    program = jaxmlir.trace(of_jax)(*args)
    batched = program.optimize(2, without=STORAGE)
    assert ops(batched).count("scan") == 2
    assert not {"rev", "transpose"} & set(ops(batched))
    same_as_jax(batched, of_jax, *args)


def test_scans_that_depend_on_each_other_stay():
    def f(x, xs):
        def step(c, x):
            return jnp.tanh(c + x), c

        a, _ = lax.scan(step, x, xs)
        b, _ = lax.scan(step, 2 * x, xs)
        # A scan that reads the first ones, and is read by the last one.
        c, _ = lax.scan(step, jnp.sin(a) + b, xs)
        return a, jnp.cos(b), c

    args = normal(3), normal(5, 3)
    _, batched = after("jaxpr-fuse-scans", f, *args)
    assert ops(batched).count("scan") == 2
    same_as_jax(batched, f, *args)


def test_groups_of_scans():
    """Pairs of scans that depend on one another; and crossed pairs, of which either one can be
    batched, but not both."""

    def sine(c, x):
        return jnp.sin(c) + x, c

    def cosine(c, x):
        return jnp.cos(c) * x, c

    def last(body, c, xs):
        return lax.scan(body, c, xs)[0]

    def in_layers(x, xs):
        for _ in range(3):
            x = last(sine, x, xs) * last(sine, 2 * x, xs)
        return x

    def crosswise(x, xs):
        a, b = last(sine, x, xs), last(cosine, x, xs)
        return last(sine, 2 * b, xs) * last(cosine, 2 * a, xs)

    args = normal(3), normal(5, 3)
    for f in (in_layers, crosswise):
        _, batched = after("jaxpr-fuse-scans", f, *args)
        assert ops(batched).count("scan") == 3
        same_as_jax(batched, f, *args)


def test_a_batch_that_is_like_another_scan():
    """Scans over single rows, and over two rows at a time, which equal a batch of the former."""

    def f(x, rows):
        def last(c):
            return lax.scan(lambda c, _: (jnp.sin(c), None), c, None, length=3)[0]

        return last(x), last(2 * x), last(rows), last(jnp.cos(last(rows[::-1])))

    args = normal(3), normal(2, 3)
    _, batched = after("jaxpr-fuse-scans", f, *args)
    assert ops(batched).count("scan") == 2
    same_as_jax(batched, f, *args)


@pytest.mark.parametrize(
    "body",
    [
        lambda c, x: (lax.cond(c[0] > 0, jnp.sin, jnp.cos, c) + x, None),
        lambda c, x: (jnp.linalg.inv(jnp.outer(c, x)) @ c, jax.debug.print("{}", c)),
    ],
)
def test_bodies_that_batches_make_dearer_stay(body):
    def f(x, xs):
        return lax.scan(body, x, xs)[0] + lax.scan(body, 2 * x, xs)[0]

    plain, batched = after("jaxpr-fuse-scans", f, normal(3), normal(5, 3))
    assert ops(batched).count("scan") == ops(plain).count("scan") == 2


@pytest.mark.compat
def test_scans_that_call_python_stay_apart():
    """Only the user can say what a callback does with a batch, and may not have done so."""

    def f(x):
        def step(c, row):
            return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), c + row), c

        return lax.scan(step, x[0], x), lax.scan(step, x[1], x)

    x = normal(5)
    plain, batched = after("jaxpr-fuse-scans", f, x)
    assert str(batched) == str(plain)
    for a, b in zip(jax.tree.leaves(batched(x)), jax.tree.leaves(f(x)), strict=True):
        np.testing.assert_array_equal(a, b)


PASSES = ("jaxpr-outline{min-ops=4}", FORCED, "jaxpr-fuse-scans{max-work=1e9}")


@pytest.mark.compat
@examples(4, random_programs.budget)
@given(steps=random_programs.programs)
def test_random_programs(steps):
    x, y = np.float32([0.3, -0.8, 1.1]), np.float32([0.7, 0.2, -0.5])

    def f(x, y):
        both = random_programs.run(steps, y, x) + 0.5
        for _ in range(4):
            x, y = y, random_programs.run(steps, x, y)
        return x, y, both

    plain = jaxmlir.trace(f)(x, y).optimize(1)
    want = jax.jit(gradient(f))(x, y)
    for passes in PASSES:
        got = jax.jit(gradient(plain.run_passes(passes)))(x, y)
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)
    # Evaluated op by op, results are equal bit for bit.
    programs = (plain, plain.run_passes(PASSES[0]), plain.run_passes(PASSES[1]))
    with jax.disable_jit():
        want, *found = (core.jaxpr_as_fun(p.to_jaxpr())(x, y) for p in programs)
    assert all(np.array_equal(a, b) for got in found for a, b in zip(got, want, strict=True))


def chain(count):
    def f(x):
        for i in range(count):
            x = jnp.sin(x) * jnp.cos(x) + jnp.exp(-x) if i % 7 else jnp.tanh(x) - 1
        return x

    return jaxmlir.trace(f)(np.float32(1))


def test_repeats_are_found_in_linear_time():
    def seconds(program):
        with scope():
            start = time.thread_time()
            assert OpString(FunctionView(program.functions[program.name])).words is not None
            return time.thread_time() - start

    small, large = chain(300), chain(2400)
    assert min(seconds(large) for _ in range(3)) < 24 * min(seconds(small) for _ in range(3))

"""Batched blocks that occur several times in a program: numbers equal JAX's."""

import itertools
from functools import partial

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse
from jax.extend.core import Primitive
from jax.interpreters import mlir
from sampling import examples

import jaxmlir

EAGER = "jaxpr-vectorize-blocks{min-gain=0 stacked=1e9}"
RNG = np.random.RandomState(0)


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32) / 2


def after(function, *args, pipeline=EAGER):
    """The program before and after the pass."""
    program = jaxmlir.trace(function)(*args).optimize(1)
    return program, program.run_passes(f"{pipeline},jaxpr-dce")


def same_as_jax(program, function, *args):
    def total(*args):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(*args)))

    def of_program(*args):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(program(*args)))

    want = function(*args), jax.grad(total)(*args)
    got = program(*args), jax.grad(of_program)(*args)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


# Steps of a block, with its own vector, the shared matrix and vector, and a matrix for each turn.
STEPS = {
    "shared": lambda x, w, b, own: jnp.tanh(w @ x),
    "own": lambda x, w, b, own: own @ x,
    "add": lambda x, w, b, own: x + b,
    "softmax": lambda x, w, b, own: jax.nn.softmax(x),
    "scale": lambda x, w, b, own: 0.5 * jnp.sin(x),
    "reverse": lambda x, w, b, own: x[::-1] * b[0],
    "sort": lambda x, w, b, own: jnp.sort(x),
    "outer": lambda x, w, b, own: jnp.sum(jnp.outer(x, b) * own, 1),
}
# How the results are combined.
ENDS = {
    "sum": sum,
    "from an array": lambda ys: sum(ys, jnp.ones(3)),
    "concatenated": lambda ys: jnp.concatenate(ys),
    "stacked": lambda ys: jnp.stack(ys, 1),
    "one after another": lambda ys: [jnp.sin(y + k) for k, y in enumerate(ys)],
    "backwards": lambda ys: jnp.concatenate(ys[::-1]),
    "running": lambda ys: [sum(ys[: k + 1]) * ys[0] for k in range(len(ys))],
    "sums on the way": lambda ys: list(itertools.accumulate(ys))[1:],
}


@pytest.mark.compat
@examples(8)
@hypothesis.given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=3, max_size=5),
    st.sampled_from(sorted(ENDS)),
    st.integers(2, 4),
)
def test_random_blocks(steps, end, count):
    args = normal(count, 3), normal(3, 3), normal(3), [normal(3, 3) for _ in range(count)]

    def blocks(xs, w, b, own):
        found = []
        for i in range(count):
            x = xs[i]
            for step in steps:
                x = STEPS[step](x, w, b, own[i])
            found.append(x)
        return ENDS[end](found)

    program, batched = after(blocks, *args)
    batched.verify()
    same_as_jax(batched, blocks, *args)


@pytest.mark.compat
@examples(8)
@hypothesis.given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=3),
    st.sampled_from(sorted(ENDS)),
    st.integers(2, 4),
    st.integers(2, 4),
    st.sampled_from(["anew", "from a row", "one goes on", "all go on"]),
)
def test_random_blocks_of_several_turns(steps, end, count, turns, start):
    """Several turns for each of several examples, or a state that passes between the examples."""
    args = normal(count, 3), normal(3, 3), normal(3), [normal(3, 3) for _ in range(turns)]

    def blocks(xs, w, b, own):
        found, state = [], jnp.ones(3)
        for i in range(count):
            if start != "all go on" and not (start == "one goes on" and i == count - 1):
                state = xs[i] if start == "from a row" else jnp.ones(3)
            for turn in range(turns):
                state = state + xs[i]
                for step in steps:
                    state = STEPS[step](state, w, b, own[turn])
            found.append(state)
        return ENDS[end](found)

    _, batched = after(blocks, *args)
    batched.verify()
    same_as_jax(batched, blocks, *args)


def test_sums_of_half_precision_keep_their_order():
    """The sum of the terms alone overflows, the partial sums do not."""

    def function(total, terms):
        return sum((x * jnp.cos(x * 0) for x in terms), total)

    args = np.full(1, 6e4, np.float16), np.full((4, 1), -3e4, np.float16)
    _, batched = after(function, *args)
    np.testing.assert_array_equal(batched(*args), function(*args))


def written(ys, xs):
    out = jnp.ones((5, 8))
    for i, y in enumerate(ys):
        out = out.at[i + 1].set(y)
    return out


# How the results are combined, together with other values.
MEETING = {
    "written": written,
    "stacked between others": lambda ys, xs: jnp.stack([xs[0], *ys, xs[2]]),
    "concatenated between others": lambda ys, xs: jnp.concatenate([xs[0], *ys, xs[2]]),
    "added in turns": lambda ys, xs: sum(y + jnp.cos(y) for y in ys),
    "added with what is made of them": lambda ys, xs: sum(v for y in ys for v in (y, jnp.cos(y))),
    "added and stacked": lambda ys, xs: (ys[0] + ys[1] + ys[2], jnp.stack(ys), ys[1]),
}


@pytest.mark.parametrize("name", MEETING)
def test_results_meet_among_others(name):
    def f(w, xs):
        return MEETING[name]([jnp.tanh(w @ jnp.tanh(w @ x)) for x in xs], xs)

    args = normal(8, 8), normal(3, 8)
    _, batched = after(f, *args, pipeline="jaxpr-vectorize-blocks")
    assert products(batched) == 2
    same_as_jax(batched, f, *args)


@pytest.mark.compat
@pytest.mark.parametrize("turns", [2, 5])
@pytest.mark.parametrize("summed", [False, True])
def test_several_steps_of_each_example(turns, summed):
    """Only the state of an example's first step shows where the example begins."""

    def loss(w, xs):
        states, total = [], 0.0
        for i in range(6):
            state = jnp.ones(8)
            for turn in range(turns):
                state = jnp.tanh(w @ (state + xs[i, turn]))
                total = total + jnp.max(state) if summed else total
            states.append(state)
        return jnp.stack(states) + total

    args = normal(8, 8), normal(6, turns, 8)
    _, batched = after(loss, *args, pipeline="jaxpr-vectorize-blocks")
    # The very first step adds to zero, unlike all others: its example is not batched.
    assert products(batched) == (2 * turns if summed else turns)
    same_as_jax(batched, loss, *args)


def network(x, weights):
    for w in weights:
        x = jnp.tanh(w @ x) + jnp.sin(x)
    return x


def products(program):
    return str(program).count("jaxpr.dot_general")


def test_examples():
    xs, weights = normal(6, 4), [normal(4, 4), normal(4, 4)]

    def examples(xs, weights):
        return sum(jnp.sum(network(xs[i], weights) ** 2) for i in range(6))

    program, batched = after(examples, xs, weights)
    assert [products(program), products(batched)] == [12, 2]
    assert "split" not in str(batched)
    assert "stack" not in str(batched)
    same_as_jax(batched, examples, xs, weights)


@pytest.mark.compat
@pytest.mark.parametrize("end", [sum, jnp.array])
def test_an_element_of_each_result(end):
    """Each block may slice at another position."""
    labels = RNG.randint(0, 5, 12).tolist()

    def losses(x, w):
        rows = [jax.nn.logsumexp(w @ x[i]) - (w @ x[i])[label] for i, label in enumerate(labels)]
        return end(rows)

    args = normal(12, 5), normal(5, 5)
    before, program = after(losses, *args)
    assert products(before) == 12
    assert products(program) == 1
    same_as_jax(program, losses, *args)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("step", [1, 2])
def test_slices_of_each_result(width, step):
    """Strided slices have other elements than a dynamic slice."""

    def blocks(x, w):
        ys = [jnp.tanh(w @ x[i]) for i in range(8)]
        return sum(jnp.sum(y[i % 3 : i % 3 + width * step : step] ** 2) for i, y in enumerate(ys))

    args = normal(8, 5), normal(9, 5)
    _, program = after(blocks, *args)
    same_as_jax(program, blocks, *args)
    same_as_jax(jaxmlir.trace(blocks)(*args).optimize(2), blocks, *args)


def test_elements_of_results_that_stay():
    """The text is as it was, and other passes go on."""

    def steps(x, w):
        total = 0.0
        for i in range(12):
            x = jnp.tanh(w @ x)
            total += x[i % 5]
        return total

    args = normal(5), normal(5, 5)
    before, program = after(steps, *args)
    assert str(program) == str(before)
    same_as_jax(jaxmlir.trace(steps)(*args).optimize(2), steps, *args)


def convolved(image, kernels):
    for kernel in kernels:
        dims = ("NHWC", "HWIO", "NHWC")
        image = jnp.tanh(
            jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=dims)
        )
    return jnp.mean(image**2)


@pytest.mark.compat
def test_images():
    """A common kernel convolves a batch; one of each image's own would take groups."""
    images, kernels = normal(4, 6, 5, 3), [normal(3, 3, 3, 4), normal(2, 3, 4, 4)]

    def each(images, kernels):
        return sum(convolved(images[i][None], kernels) for i in range(4))

    def scaled(images, kernels):
        own = [[(1 + jnp.max(images[i])) * k for k in kernels] for i in range(4)]
        return sum(convolved(images[i][None], own[i]) for i in range(4))

    found = []
    for function in (each, scaled):
        program, batched = after(function, images, kernels, pipeline="jaxpr-vectorize-blocks")
        found.append([str(p).count("conv_general_dilated") for p in (program, batched)])
        same_as_jax(batched, function, images, kernels)
    assert found == [[8, 2], [8, 8]]


@pytest.mark.parametrize(("features", "left"), [(16, 1), (17, 4)])
def test_wide_images_gain_nothing(features, left):
    images, kernel = normal(4, 40, 40, 8), normal(3, 3, 8, features)

    def each(images, kernel):
        return sum(convolved(images[i][None], [kernel]) for i in range(4))

    _, batched = after(each, images, kernel, pipeline="jaxpr-vectorize-blocks")
    assert str(batched).count("conv_general_dilated") == left


def test_a_sum_that_is_looked_at_on_the_way():
    xs, weights = normal(6, 4), [normal(4, 4), normal(4, 4)]

    def examples(xs, weights):
        losses = [jnp.sum(network(xs[i], weights) ** 2) for i in range(6)]
        return jnp.stack(list(itertools.accumulate(losses))[1:])

    program, batched = after(examples, xs, weights)
    assert [products(program), products(batched)] == [12, 2]
    same_as_jax(batched, examples, xs, weights)


@pytest.mark.parametrize("between", [lambda x: x, lambda x: x @ x.T])
def test_blocks_of_which_others_use_the_results(between):
    """Both are found when the function is read once; the sums of the first stand in the second."""
    xs, weights = normal(4, 3, 3), [normal(3, 3), normal(3, 3)]

    def layers(xs, weights):
        first = [network(xs[i], 2 * weights) + 1.0 for i in range(4)]
        found, total = [], jnp.zeros((3, 3))
        for x in first:
            y = between(x) - xs[0]
            found.append(jnp.exp(jnp.sin(y @ weights[1] + 0.5)) * y)
            total = total + x
        return found, total

    program, batched = after(layers, xs, weights)
    batched.verify()
    assert products(program) > products(batched)
    same_as_jax(batched, layers, xs, weights)


def test_what_blocks_share_is_made_of_the_first_ones_constants():
    """The first step of a solver's loop has constants where the others have states."""
    w, xs = normal(8, 8), normal(6, 8)

    def blocks(w, xs):
        total, shift = 0.0, None
        for k, x in enumerate(xs):
            start = jnp.sin(jnp.full(8, 0.1 * k))
            shift = jnp.cos(start) if shift is None else shift
            h = jnp.tanh(w @ jnp.tanh(w @ (start + x)) + shift)
            total = total + jnp.sum(jnp.tanh(w @ h) * jnp.exp(h))
        return total

    program, batched = after(blocks, w, xs)
    batched.verify()
    assert products(batched) < products(program)
    same_as_jax(batched, blocks, w, xs)


@pytest.mark.parametrize("count", [2, 4])
def test_two_sums_in_one_chain(count):
    """The first sum is a term in the chain of the second one."""
    xs, weights = normal(count, 5), [normal(5, 5), normal(5, 5)]

    def blocks(xs, weights):
        found = []
        for x in xs:
            y = jnp.sin(jnp.tanh(x @ weights[0])) @ weights[0]
            found.append((jnp.exp(y) * y + x, jnp.cos(y @ weights[1]) + 1.0))
        first, second = zip(*found, strict=True)
        return sum(second[1:], sum(first, second[0]))

    program, batched = after(blocks, xs, weights)
    batched.verify()
    assert products(program) > products(batched)
    same_as_jax(batched, blocks, xs, weights)


def test_heads():
    x = normal(5, 8)
    heads = [[normal(8, 2) for _ in "qkv"] for _ in range(4)]

    def attention(x, heads):
        outs = []
        for q, k, v in heads:
            scores = jax.nn.softmax(x @ q @ (x @ k).T / jnp.sqrt(2))
            outs.append(scores @ (x @ v))
        return jnp.concatenate(outs, -1)

    program, batched = after(attention, x, heads)
    assert [products(program), products(batched)] == [20, 5]
    assert "split" not in str(batched)
    same_as_jax(batched, attention, x, heads)


def test_what_needs_the_block_before_stays():
    xs, weights = normal(6, 4), [normal(4, 4), normal(4, 4)]

    def recurrent(xs, weights):
        h = jnp.zeros(4)
        for i in range(6):
            h = network(h + xs[i], weights)
        return h

    program, batched = after(recurrent, xs, weights)
    assert products(batched) == products(program)


@pytest.mark.compat
def test_prints_stay_where_they_are(capfd):
    xs, weights = normal(4, 4), [normal(4, 4), normal(4, 4)]

    def noisy(xs, weights):
        total = 0.0
        for i in range(4):
            total = total + jnp.sum(network(xs[i], weights))
            jax.debug.print("{}", total, ordered=True)
        return total

    _, batched = after(noisy, xs, weights)
    jax.block_until_ready(batched(xs, weights))
    jax.effects_barrier()
    got = [float(line) for line in capfd.readouterr().out.split()]
    each = [jnp.sum(network(x, weights)) for x in xs]
    np.testing.assert_allclose(got, np.cumsum(each), 1e-4)


def uniform(seed, kind):
    return jax.random.uniform(jax.random.key(seed, impl=kind), (8,))


def in_blocks(seeds, weights, kind):
    return sum(jnp.sum(network(uniform(seeds[i], kind), weights)) for i in range(4))


def in_a_loop(seeds, weights, kind):
    def add(total, seed):
        return total + jnp.sum(network(uniform(seed, kind), weights)), None

    return jax.lax.scan(add, 0.0, seeds)[0]


def in_several_loops(seeds, weights, kind):
    def simulate(seed):
        def step(x, k):
            return x + uniform(seed + k, kind), None

        return jax.lax.scan(step, jnp.zeros(8), jnp.arange(3, dtype=seeds.dtype))[0]

    return jnp.sum(simulate(seeds[0]) * simulate(seeds[1]))


@pytest.mark.compat
@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("function", [in_blocks, in_a_loop, in_several_loops])
def test_random_numbers_stay_the_same(function, kind):
    """A batch of keys draws the same numbers as each single key, but not with all generators."""
    seeds, weights = np.arange(16, dtype=np.uint32), [normal(8, 8), normal(8, 8)]

    def sampled(seeds, weights):
        return function(seeds, weights, kind)

    batching = f"jaxpr-raise-loops,jaxpr-fuse-scans,{EAGER}"
    program, batched = after(sampled, seeds, weights, pipeline=batching)
    assert (str(batched) == str(program)) == (kind == "rbg")
    np.testing.assert_allclose(batched(seeds, weights), sampled(seeds, weights), 1e-5)


def large(weights, xs):
    return sum(jnp.sum(network(x, weights)) for x in xs)


def with_weights_of_their_own(weights, x):
    return sum(jnp.sum(network(x, ws)) for ws in weights)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (large, ([normal(256, 256)] * 2, [normal(256, 128) for _ in range(4)])),
        (with_weights_of_their_own, ([[normal(64, 64)] * 2 for _ in range(4)], normal(64))),
    ],
)
def test_blocks_that_gain_nothing_are_left_alone(function, args):
    program, batched = after(function, *args, pipeline="jaxpr-vectorize-blocks")
    assert products(batched) == products(program)


def test_slices_start_no_kernels():
    def block(matrices, x):
        first, second, _ = jnp.split(matrices, 3, 1)
        a, b, _ = jnp.split(first, 3, 2)
        c, d, _ = jnp.split(second, 3, 2)
        return (a + d).sum((1, 2)) * x + (c - b).sum((1, 2))

    def blocks(matrices, xs):
        return jnp.stack(list(map(block, matrices, xs)))

    args = [normal(20, 3, 3) for _ in range(2)], [normal(20) for _ in range(2)]
    program, batched = after(blocks, *args, pipeline="jaxpr-vectorize-blocks")
    assert str(batched) == str(program)


def with_an_own_primitive(rule):
    """Doubles a row by a primitive that has only a lowering rule.

    Args:
      rule: whether only the derivative uses the primitive.
    """
    double = Primitive("double_of_a_row")
    double.def_abstract_eval(lambda x: x)
    mlir.register_lowering(double, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))
    sine = jax.custom_jvp(jnp.sin)
    sine.defjvp(lambda x, t: (sine(*x), double.bind(jnp.cos(*x)) * t[0]))
    return sine if rule else double.bind


def with_a_sparse_matrix():
    matrix = sparse.CSR.fromdense(2 * jnp.eye(4))
    return lambda row: matrix @ row


@pytest.mark.compat
@pytest.mark.parametrize(
    "pipeline",
    [EAGER, EAGER.replace("batch-blocks", "slp-vectorize"), "jaxpr-raise-loops"],
)
@pytest.mark.parametrize(
    "function",
    [
        partial(with_an_own_primitive, False),
        partial(with_an_own_primitive, True),
        with_a_sparse_matrix,
    ],
)
def test_what_has_no_rule_for_batches_stays(function, pipeline):
    of_a_row, w = function(), normal(4, 4)

    def rows(x):
        def row(x):
            return jnp.tanh(of_a_row(x @ w) @ w)

        return jax.lax.map(row, x), jnp.stack([row(x[i]) for i in range(6)])

    x = normal(6, 4)
    program = jaxmlir.trace(rows)(x).run_passes(pipeline, target="cuda")
    for got, want in zip(program(x), jax.jit(rows)(x), strict=True):
        np.testing.assert_allclose(got, want, 1e-5)

"""Stacked or summed values, computed as a batch: numbers equal JAX's."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import examples

import jaxmlir
from jaxmlir._compat import jax_version

EAGER = "jaxpr-slp-vectorize{min-gain=0 stacked=1e9}"
RNG = np.random.RandomState(0)


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32) / 2


def packed(function, *args, pipeline=EAGER):
    """The program before and after the pass."""
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes(f"{pipeline},jaxpr-canonicalize,jaxpr-dce")
    after.verify()
    return program, after


def same_as_jax(program, function, *args):
    def total(function, *args):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(*args)))

    want = jax.jit(function)(*args), jax.grad(total, 1)(function, *args)
    got = program(*args), jax.grad(total, 1)(program, *args)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def count(program, *names):
    """How many ops of some names the main function has."""
    function = program.functions[program.name]
    found = [op.operation.name.removeprefix("jaxpr.") for op in function.entry_block.operations]
    return [found.count(name) for name in names]


# The starts of windows, as nested loops: each has a dimension, a step, and a count.
loops = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-3, -1, 1, 2, 5]), st.integers(2, 4)),
    min_size=1,
    max_size=2,
)


@pytest.mark.compat
@examples(5)
@hypothesis.given(loops, st.tuples(st.integers(1, 4), st.integers(1, 4)), st.booleans())
def test_windows(loops, size, is_first):
    starts = np.zeros((1, 2), int)
    for axis, step, turns in loops:
        steps = step * np.arange(turns)[:, None] * (np.arange(2) == axis)
        starts = (starts[:, None] + steps).reshape(-1, 2)
    starts -= starts.min(0)
    hypothesis.assume(len(starts) >= 4 and len(np.unique(starts, axis=0)) == len(starts))
    # The array is exactly as large as the windows need, or larger.
    shape = starts.max(0) + size + [0, 0 if is_first else 7]

    def stacked(x):
        found = [jax.lax.slice(x, start, start + size) for start in starts]
        return jnp.stack([jnp.sin(window.reshape(-1)) for window in found], 1)

    x = normal(*shape)
    program, after = packed(stacked, x, pipeline="jaxpr-slp-vectorize{stacked=1e9}")
    np.testing.assert_array_equal(after(x), program(x))
    _, after = packed(stacked, x)
    same_as_jax(after, stacked, x)


@pytest.mark.parametrize("end", [0, 1])
def test_windows_of_nothing(end):
    def windows(x, w):
        return jnp.concatenate([jnp.sin(x[i:i] @ w) for i in range(5)], end)

    program, after = packed(windows, normal(6, 3), normal(3, 4))
    assert count(after, "dot_general") == [1] != count(program, "dot_general")
    same_as_jax(after, windows, normal(6, 3), normal(3, 4))


@pytest.mark.skipif(jax_version() < (0, 12), reason="operands have one shape there")
@pytest.mark.compat
@pytest.mark.parametrize(("total", "term"), [((4,), (1,)), ((1, 4), (4, 1)), ((2, 3), (1, 1))])
def test_terms_that_are_repeated(total, term):
    def repeated(xs, a):
        for x in xs:
            a = jax.lax.add(a, jnp.tanh(jnp.sum(x) * jnp.ones(term)) @ jnp.eye(term[-1]))
        return a

    xs, a = normal(5, 4), normal(*total)
    program, after = packed(repeated, xs, a)
    assert count(after, "tanh") == [1] != count(program, "tanh")
    same_as_jax(after, repeated, xs, a)


def test_windows_that_begin_anywhere():
    x, starts = normal(9, 3), [4, 0, 5, 1, 1, 2]

    def gathered(x):
        return sum(jnp.sort(x[start : start + 3] @ x[0]) for start in starts)

    program, after = packed(gathered, x)
    assert count(program, "sort", "gather") == [5, 0]  # One of them is added twice.
    assert count(after, "sort", "gather") == [2, 1]
    same_as_jax(after, gathered, x)


# Steps of a lane, with its own vector, the shared matrix and vector, and the lane's number.
STEPS = {
    "shared": lambda x, w, b, i: jnp.tanh(w @ x),
    "add": lambda x, w, b, i: x + i * b,
    "softmax": lambda x, w, b, i: jax.nn.softmax(x),
    "part": lambda x, w, b, i: b[i % 2] * x,
    "sort": lambda x, w, b, i: jnp.sort(x),
    "outer": lambda x, w, b, i: jnp.sum(jnp.outer(x, b), 1),
    "inner loop": lambda x, w, b, i: sum(w[j] * x[j] for j in range(4)),
    "call": lambda x, w, b, i: jax.jit(lambda x: jnp.cos(x) * 2)(x),
}


def written(ys, rows=lambda i: i, write="set"):
    out = jnp.ones((12, 4))
    for i, y in enumerate(ys):
        out = getattr(out.at[rows(i)], write)(y)
    return out


def columns(ys):
    out = jnp.zeros((4, 5))
    for i, y in enumerate(ys):
        out = out.at[:, 4 - i].set(y)
    return out


def moved_inside(ys, first):
    """Writes that are out of bounds are clamped, so they overlap: the last one counts."""
    out = jnp.ones((12, 4))
    for i, y in enumerate(ys):
        places = jnp.array([first + i])
        numbers = jax.lax.ScatterDimensionNumbers((0,), (0,), (0,))
        out = jax.lax.scatter(out, places, y, numbers, mode="clip")
    return out


def scattered(ys, place, scatter):
    """Scalars written to an array of one dimension, or of none."""
    out, places = jnp.ones((3,) * np.size(place)), jnp.reshape(jnp.asarray(place, np.uint32), -1)
    dims = tuple(range(out.ndim))
    for i, y in enumerate(ys):
        numbers = jax.lax.ScatterDimensionNumbers((), dims, dims)
        out = scatter(out, places + np.uint32(i), jnp.sum(y), numbers, mode="drop")
    return out


# How the results are combined.
ENDS = {
    "sum": sum,
    "sum from the right": lambda ys: ys[0] + (ys[1] + (ys[2] + (ys[3] + ys[4]))),
    "added to": lambda ys: jnp.ones(4) + sum(ys),
    "sum with others": lambda ys: jnp.ones(4) + ys[0] + ys[1] + jnp.sin(ys[0]) + sum(ys[2:]),
    "numbers added to an array": lambda ys: jnp.ones(4) + sum(map(jnp.sum, ys)),
    "an array added to numbers": lambda ys: sum(map(jnp.sum, ys)) + jnp.ones(4),
    "stacked": lambda ys: jnp.stack(ys, -1),
    "concatenated": lambda ys: jnp.concatenate(ys),
    "between others": lambda ys: jnp.stack([jnp.ones(4), *ys[1:], ys[0] * 2]),
    "concatenated between": lambda ys: jnp.concatenate([jnp.ones(2), *ys, jnp.ones(1)]),
    "backwards": lambda ys: jnp.stack(ys[::-1]),
    "twice": lambda ys: [jnp.stack(ys), sum(jnp.sin(y) for y in ys), ys[2]],
    "used between": lambda ys: jnp.stack([ys[0], ys[1] + ys[0], *ys[2:]]),
    "in turns": lambda ys: [jnp.stack([y * jnp.sum(z) for y in ys]) for z in ys[:2]],
    "written": written,
    "written to columns": columns,
    "written to some rows": lambda ys: written(ys, lambda i: 3 * i),
    "written beyond the end": lambda ys: written(ys, lambda i: i + 9),
    "written again": lambda ys: written(ys, lambda i: i // 2),
    "moved to the end": lambda ys: moved_inside(ys, 8),
    "moved to the beginning": lambda ys: moved_inside(ys, -4),
    "written far beyond": lambda ys: scattered(ys, np.uint32(2**32 - 9), jax.lax.scatter),
    "added to a number": lambda ys: scattered(ys, (), jax.lax.scatter_add),
    "added": lambda ys: written(ys, write="add"),
    "added to few rows": lambda ys: written(ys, lambda i: i % 2, "add"),
    "with one of what they are of": lambda ys: jnp.stack([*map(jnp.sin, ys), ys[0]]),
    "plus one of what they are of": lambda ys: sum(map(jnp.sin, ys), ys[1]),
    "written to what they are of": lambda ys: columns([ys[0], *map(jnp.sin, ys[1:])]),
    "twice the same": lambda ys: jnp.stack([*ys, ys[0]]),
}


# The number of products left, if it is not one: one lane differs from the others, or another op
# before the end needs a value that the lanes compute.
LEFT = {
    "added to a number": 5,
    "between others": 2,
    "in turns": 5,
    "moved to the beginning": 5,
    "moved to the end": 5,
    "plus one of what they are of": 5,
    "sum with others": 5,
    "twice the same": 2,
    "used between": 5,
    "with one of what they are of": 5,
    "written again": 5,
    "written far beyond": 5,
    "written to what they are of": 2,
}


def lanes_of(steps, end):
    def lanes(xs, w, b):
        found = []
        for i in range(5):
            x = xs[i]
            for step in steps:
                x = STEPS[step](x, w, b, i)
            found.append(x)
        return ENDS[end](found)

    args = normal(5, 4), normal(4, 4), normal(4)
    program, after = packed(lanes, *args)
    same_as_jax(after, lanes, *args)
    return program, after


@pytest.mark.sampled
@pytest.mark.parametrize("end", ENDS)
def test_ends(end):
    program, after = lanes_of(["shared"], end)
    assert count(program, "dot_general") == [5]
    assert count(after, "dot_general") == [LEFT.get(end, 1)]


@examples(5)
@hypothesis.given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=4), st.sampled_from(sorted(ENDS))
)
def test_random_lanes(steps, end):
    lanes_of(steps, end)


@pytest.mark.compat
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("mode", ["clip", "drop"])
@pytest.mark.parametrize(
    "dtype, places, is_packed",
    [
        (np.int32, (2, 9, 4, 7), {"clip": True, "drop": True}),
        # Clamped, the last two are one position.
        (np.int32, (10, 11, 13, 30), {"clip": False, "drop": True}),
        (np.int32, (-1, -2, 3, 4), {"clip": False, "drop": True}),
        (np.int64, (2**40, 1, 2, 3), {"clip": True, "drop": False}),
        (np.uint32, (2**32 - 1, 5, 6, 7), {"clip": True, "drop": False}),
    ],
)
def test_writes_out_of_bounds(dtype, places, is_packed, mode, add):
    with jax.enable_x64(True):
        numbers = jax.lax.ScatterDimensionNumbers((0,), (0,), (0,))
        scatter = jax.lax.scatter_add if add else jax.lax.scatter

        def function(xs, w):
            out = jnp.ones((10, 3), np.float32)
            for place, x in zip(places, xs, strict=True):
                out = scatter(out, np.array([place], dtype), jnp.tanh(w @ x), numbers, mode=mode)
            return out

        args = normal(4, 3), normal(3, 3)
        before, after = packed(function, *args)
        if not add:
            assert (str(after).count("dot_general") == 1) == is_packed[mode]
        np.testing.assert_allclose(after(*args), jax.jit(function)(*args), 1e-6)


def test_what_nothing_is_added_to_keeps_its_sign():
    """A negative zero stays negative."""

    def function(x, xs, w):
        for i, row in enumerate(xs):
            x = x.at[i + 2].add(jnp.tanh(w @ row))
        return x

    args = np.full((9, 3), -0.0, np.float32), normal(4, 3), normal(3, 3)
    before, after = packed(function, *args)
    assert count(before, "scatter_add") == [4] and count(after, "scatter_add") == [0]
    np.testing.assert_array_equal(*(np.signbit(f(*args)) for f in (after, jax.jit(function))))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint8", "float8_e4m3fn", "complex64"])
def test_what_is_added_to_parts_is_of_any_type(dtype):
    def function(x, rows):
        for i, row in enumerate(rows):
            x = x.at[2 * i : 2 * i + 2].add(row * row)
        return x

    args = jnp.arange(8).astype(dtype), jnp.arange(8).reshape(4, 2).astype(dtype)
    before, after = packed(function, *args)
    assert count(before, "scatter_add") == [4] and count(after, "scatter_add") == [0]
    for got, want in zip(after(*args), jax.jit(function)(*args), strict=True):
        assert got.dtype == want.dtype and got == want


def test_loops_in_loops_are_one_batch():
    x, w = normal(6, 3), normal(3, 3)

    def pairs(x, w):
        rows = []
        for i in range(6):
            row = [jnp.tanh(w @ (x[i] - x[j])) for j in range(6) if j != i]
            rows.append(jnp.sum(sum(row)))
        return jnp.stack(rows)

    program, after = packed(pairs, x, w)
    assert count(program, "dot_general", "tanh") == [30, 30]
    assert count(after, "dot_general", "tanh") == [1, 1]
    same_as_jax(after, pairs, x, w)


def test_members_of_an_ensemble_and_not_their_steps():
    """The pass packs members: a member's sum over steps cannot be packed once its states are."""
    xs, w = normal(6, 4), normal(4, 4)

    def ensemble(xs, w):
        def costs(x):
            cost = 0.0
            for _ in range(5):
                x = jnp.tanh(w @ x)
                cost += jnp.sum(x**2)
            return cost

        return sum(costs(xs[i]) for i in range(6))

    program, after = packed(ensemble, xs, w)
    assert count(program, "dot_general") == [30]
    assert count(after, "dot_general") == [5]
    same_as_jax(after, ensemble, xs, w)


def test_what_two_loops_need_is_packed_with_the_first_of_them():
    def variances(x, w):
        waves = [jnp.sin(x[i]) for i in range(20)]
        mean = sum(waves) / 20
        return sum((wave - mean) ** 2 for wave in waves) @ w

    args = normal(20, 5), normal(5)
    program, after = packed(variances, *args, pipeline="jaxpr-slp-vectorize")
    assert count(program, "sin", "sub") == [20, 20]
    assert count(after, "sin", "sub") == [1, 1]
    same_as_jax(after, variances, *args)


def test_heads_that_read_the_same_rows():
    """The products of one matrix with several narrow ones become a single product."""

    def attention(x, w):
        heads = []
        for h in range(8):
            q, k, v = (x @ w[i, h] for i in range(3))
            heads.append(jax.nn.softmax(q @ k.T) @ v)
        return jnp.concatenate(heads, -1)

    args = normal(128, 100), normal(3, 8, 100, 16)
    program, after = packed(attention, *args, pipeline="jaxpr-slp-vectorize")
    assert count(program, "dot_general", "exp") == [40, 8]
    assert count(after, "dot_general", "exp") == [5, 1]


def test_images_of_a_list():
    """The images are stacked, which pays for convolutions with a common kernel."""
    images, kernel = [normal(1, 9, 8, 3) for _ in range(5)], normal(3, 3, 3, 6)

    def convolved(images, kernel):
        dims = ("NHWC", "HWIO", "NHWC")
        results = [
            jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dims)
            for x in images
        ]
        return jnp.stack([jnp.mean(jnp.tanh(y), (0, 1, 2)) for y in results])

    program, after = packed(convolved, images, kernel, pipeline="jaxpr-slp-vectorize")
    assert count(program, "conv_general_dilated") == [5]
    assert count(after, "conv_general_dilated") == [1]
    same_as_jax(after, convolved, images, kernel)


@pytest.mark.compat
def test_random_keys_draw_what_each_of_them_draws():
    def drawn(seed, w):
        keys = jax.random.split(jax.random.key(seed), 5)
        return sum(w @ jax.random.normal(keys[i], (4,)) for i in range(5))

    args = np.uint32(7), normal(4, 4)
    program, after = packed(drawn, *args)
    assert count(program, "dot_general") == [5]
    assert count(after, "dot_general") == [1]
    np.testing.assert_allclose(after(*args), drawn(*args), 1e-5)


def weights_of_their_own(ws, x):
    return sum(jnp.sum(jnp.tanh(w @ x)) for w in ws)


def large(w, xs):
    return sum(jnp.sum(jnp.tanh(x @ w)) for x in xs)


def wide_layers_of_few_inputs(x, layers):
    """A single product would give a matrix whose columns must be split for the next product."""
    return sum(jnp.sum(jnp.tanh(x @ a) @ b) for a, b in layers)


def few_terms(x):
    return x[0:30] * 2 + x[1:31] * 2 + x[2:32] * 2 + x[3:33] * 2


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (weights_of_their_own, ([normal(64, 64) for _ in range(4)], normal(64))),
        (large, (normal(256, 256), [normal(256, 256) for _ in range(4)])),
        (
            wide_layers_of_few_inputs,
            (normal(400, 16), [(normal(16, 32), normal(32, 1)) for _ in range(8)]),
        ),
        (few_terms, (normal(40),)),
    ],
)
def test_lanes_that_gain_nothing_are_left_alone(function, args):
    program, after = packed(function, *args, pipeline="jaxpr-slp-vectorize")
    assert str(after) == str(program)


def test_what_each_computed_and_the_derivative_takes_apart():
    """A chain of steps adds up values that its derivative does not need: they are not packed."""

    def chain(xs, x):
        total = 0.0
        for i in range(24):
            x = jnp.sin(x[::-1])
            scale = jnp.max(x, -1, keepdims=True)
            total += jnp.log(scale**2 + 1.0).sum() + xs[i]
            x = x / scale
        return total

    program, after = packed(chain, normal(24), normal(5, 4))
    assert count(after, "log") == count(program, "log") == [24]

"""Raising loops: results equal JAX's bit for bit, and no loop carries an array that it updates."""

import re
import tracemalloc

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import strategies as st
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir._compat import core
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.ir import scope
from jaxmlir.optimize.loops.known import KnownIntegers

X = np.linspace(-1, 1, 8, dtype=np.float32)
M = np.random.RandomState(0).randn(8, 3).astype(np.float32)
W = np.random.RandomState(1).randn(3, 3).astype(np.float32)
W2 = np.random.RandomState(2).randn(8, 8).astype(np.float32)
LOOPS = "jaxpr-raise-loops{batch-bytes=0}"


def raised(function, *args, passes=LOOPS, target=None):
    """The program with its loops raised, and the remarks."""
    remarks = []
    program = jaxmlir.trace(function)(*args).optimize(1).run_passes("jaxpr-licm")
    options = {"target": target, "remarks": lambda r: remarks.append(str(r))}
    after = program.run_passes(passes, **options).optimize(1)
    return after, remarks


def carries_arrays(program):
    """Whether any loop still updates an array that it carries."""
    bodies = [str(f) for name, f in program.functions.items() if name != program.name]
    return any("dynamic_update_slice" in body or "scatter" in body for body in bodies)


def same_bits(program, function, *args):
    got, want = jax.jit(program)(*args), jax.jit(function)(*args)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), got, want)


def same_gradient(program, function, *args):
    def total(f):
        return lambda *args: sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(f(*args)))

    got, want = (jax.jit(jax.grad(total(f)))(*args) for f in (program, function))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def for_loop(low, high, body, out):
    return lax.fori_loop(low, high, body, out)


def distances(x):
    def row(i, out):
        def entry(j, out):
            return out.at[i, j].set(jnp.sum((x[i] - x[j]) ** 2))

        return for_loop(0, 8, entry, out)

    return for_loop(0, 8, row, jnp.zeros((8, 8)))


def two_step(x):
    start = jnp.zeros(8).at[:2].set(x[:2])
    return for_loop(2, 8, lambda t, u: u.at[t].set(jnp.sin(u[t - 1]) + u[t - 2]), start)


def backwards_scan(x):
    def body(out, i):
        return out.at[i].set(jnp.sin(x[i])), out[i] * 2

    return lax.scan(body, x, jnp.arange(8), reverse=True)


def windows(low, step, width):
    """Sums over overlapping windows."""

    def function(x):
        def body(i, out):
            return out.at[i].set(lax.dynamic_slice(x, (low + step * i,), (width,)).sum())

        return for_loop(0, 5, body, jnp.zeros(5))

    return function


def blocks(x):
    def body(i, out):
        block = lax.dynamic_slice(x, (2 * i,), (2,))
        return lax.dynamic_update_slice(out, jnp.sin(block), (2 * i,))

    return for_loop(0, 4, body, jnp.zeros(8))


def copied(where):
    """A loop that writes the values that it has read."""

    def function(x):
        def body(i, out):
            return lax.dynamic_update_slice(out, lax.dynamic_slice(out, where(i), (2,)), (2 * i,))

        return for_loop(1, 3, body, x)

    return function


def copied_from_another(x):
    def body(i, carried):
        first, second = carried
        block = lax.dynamic_slice(second, (2 * i,), (2,))
        first = lax.dynamic_update_slice(first, block, (2 * i,))
        again = lax.dynamic_slice(first, (2 * i,), (2,))
        return first, lax.dynamic_update_slice(second, again + jnp.sin(block), (2 * i,))

    return for_loop(0, 4, body, (0 * x, x))


def from_a_constant(x):
    first = lax.reshape(lax.iota(jnp.int32, 1), ())
    return for_loop(0, 8, lambda i, o: o.at[first + i].set(x[i]), 0 * x)


def table(x):
    """Each entry depends on three neighbours, as in the edit distance of two sequences."""

    def row(i, d):
        def entry(j, d):
            near = jnp.minimum(d[i - 1, j], d[i, j - 1]) + jnp.sin(d[i - 1, j - 1])
            return d.at[i, j].set(near + x[i, j])

        return for_loop(1, 3, entry, d)

    return for_loop(1, 8, row, x)


def table_of_sums(x):
    """Goes through columns, from the last row up, and adds to the existing entries."""

    def column(j, d):
        def entry(i, d):
            return d.at[6 - i, j].add(jnp.sin(d[7 - i, j]) * d[6 - i, j - 1])

        return for_loop(0, 7, entry, d)

    return for_loop(1, 3, column, x)


def from_a_number(x):
    """The carried array is weakly typed, and retyped in each iteration."""
    start = jnp.full(8, 2.0)
    return for_loop(1, 8, lambda i, o: o.at[i].set(jnp.sin(o[i - 1]) + x[i]).at[i].add(x[i]), start)


RAISED = {
    "rows": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(x[i] @ W), 0 * x), M),
    "columns": (lambda x: for_loop(0, 3, lambda i, o: o.at[:, i].set(jnp.sin(x[:, i])), 0 * x), M),
    "distances": (distances, M),
    "one behind": (lambda x: for_loop(0, 7, lambda i, o: o.at[i + 1].set(jnp.sin(o[i])), x), X),
    "two behind": (two_step, X),
    "table": (table, M),
    "table of sums": (table_of_sums, M),
    "from a number": (from_a_number, X),
    "in place": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(jnp.sin(o[i])), x), X),
    "added": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].add(jnp.sin(x[i])), x), X),
    "multiplied": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].mul(jnp.sin(x[i])), x), X),
    "from a constant": (from_a_constant, X),
    "backwards": (lambda x: for_loop(0, 8, lambda i, o: o.at[7 - i].set(x[i]), 0 * x), X),
    "every other": (lambda x: for_loop(0, 4, lambda i, o: o.at[2 * i].set(x[2 * i + 1]), x), X),
    "permuted": (lambda x: for_loop(0, 8, lambda i, o: o.at[i * 3 % 8].set(x[i]), 0 * x), X),
    "stencil": (lambda x: for_loop(1, 7, lambda i, o: o.at[i].set(x[i - 1] + x[i + 1]), x), X),
    "gauss-seidel": (lambda x: for_loop(1, 7, lambda i, o: o.at[i].set(o[i - 1] + o[i + 1]), x), X),
    "components": (
        lambda x: for_loop(0, 8, lambda i, o: o.at[i, 0].set(x[i, 1]).at[i, 2].set(o[i, 0]), x),
        M,
    ),
    "taken": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(jnp.take(x, i)), 0 * x), X),
    "counter": (lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(x[i] * i), 0 * x), X),
    "scan, reversed": (backwards_scan, X),
    "blocks": (blocks, X),
    "copied in place": (copied(lambda i: (2 * i,)), X),
    "copied from one behind": (copied(lambda i: (2 * i - 2,)), X),
    "copied from one ahead": (copied(lambda i: (2 * i + 2,)), X),
    "copied from another": (copied_from_another, X),
    "windows": (windows(0, 1, 3), X),
    "windows, backwards": (windows(4, -1, 3), X),
    "wide windows": (windows(1, 2, 20), np.tile(X, 4)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", RAISED)
def test_raised(name):
    function, x = RAISED[name]
    program, remarks = raised(function, x)
    assert any("replaced by a stacked result" in remark for remark in remarks)
    # A row whose components are written one by one is still updated, as a row.
    assert not carries_arrays(program) or name == "components" or name.startswith("table")
    assert not name.startswith("table") or any("slabs of [1, 1]" in remark for remark in remarks)
    same_bits(program, function, x)
    same_gradient(program, function, x)


@pytest.mark.parametrize(
    "function",
    [
        # Elements are written twice, or out of bounds.
        lambda x: for_loop(0, 8, lambda i, o: o.at[i // 2].set(x[i]), 0 * x),
        lambda x: for_loop(0, 8, lambda i, o: o.at[i + 3].set(x[i]), 0 * x),
        # The position depends on the data.
        lambda x: for_loop(0, 8, lambda i, o: o.at[jnp.abs(x[i]).astype(int)].set(1), x),
        # The body reads the whole array.
        lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(o.sum()), x),
        lambda x: for_loop(0, 8, lambda i, o: o.at[i].set(o[7 - i]), x),
        lambda x: lax.scan(lambda o, i: (o.at[i].set(1), o), x, jnp.arange(8)),
        # The body swaps the carried arrays.
        lambda x: for_loop(0, 8, lambda i, o: (o[1].at[i].set(1), o[0]), (x, x)),
        # The whole array is written, by an index without dimensions.
        lambda x: for_loop(0, 8, lambda i, o: o.at[:].set(o[i] + x), x),
        lambda x: for_loop(0, 8, lambda i, o: o.at[:].add(x[i]), x),
    ],
)
def test_left_alone(function):
    program, remarks = raised(function, X)
    assert not any("stacked result" in remark for remark in remarks)
    same_bits(program, function, X)


@pytest.mark.parametrize("above", [lambda i: jnp.maximum(i - 1, 2), lambda i: i // 2])
def test_rows_that_may_be_the_one_that_is_written(above):
    def function(x):
        def row(i, d):
            def entry(j, d):
                return d.at[i, j].set(jnp.sin(d[above(i), j - 1]) + x[i, j])

            return for_loop(1, 3, entry, d)

        return for_loop(0, 8, row, x)

    program, _ = raised(function, M)
    same_bits(program, function, M)
    same_gradient(program, function, M)


def test_what_is_added_to_an_array_that_stays_is_scattered():
    """The derivative of a scatter is a read; that of an update is an array of the same size."""

    def function(x):
        def element(i, k):
            k = k.at[i, i].add(x[i, 0]).at[i + 1, i + 1].add(x[i, 1])
            return k.at[i, i + 1].add(x[i, 2])

        return for_loop(0, 7, element, W2)

    program, _ = raised(function, M)
    assert "scatter_add" in str(program) and "dynamic_update_slice" not in str(program)
    same_bits(program, function, M)
    same_gradient(program, function, M)


def test_columns_of_which_little_is_touched():
    """Raising pays only for the derivative, which would otherwise go through the whole array."""
    rows = np.arange(32) * 5 % 32

    def function(x, rows):
        def body(i, d):
            piece = lax.dynamic_slice(d, (rows[i], i), (1, 1))
            return lax.dynamic_update_slice(d, piece * 2, (rows[i], i))

        return for_loop(0, 32, body, x)

    for dtype, stays in ((np.float32, False), (np.int32, True)):
        x = np.arange(1024, dtype=dtype).reshape(32, 32)
        program, remarks = raised(function, x, rows)
        assert any("stacked result" in remark for remark in remarks) != stays
        same_bits(program, function, x, rows)


def test_positions_are_clamped_as_before():
    def function(x):
        def body(i, out):
            piece = lax.dynamic_slice(x, (i + 5,), (2,))
            return lax.dynamic_update_slice(out, piece, (2 * i - 1,))

        return for_loop(0, 4, body, x)

    program, remarks = raised(function, X)
    assert any("a slice of the scan" in remark for remark in remarks)
    same_bits(program, function, X)


@pytest.mark.parametrize("known", [True, False])
def test_loops_that_share_a_body(known):
    """Loops with equal starts are raised once, and each has a remark; one has an unknown start."""

    def sums(first, x):
        return for_loop(first, 8, lambda i, out: out.at[i].set(out[i] + jnp.sin(x[i])), x)

    def function(x, first):
        x = sums(0, sums(0, x))
        return sums(3, sums(3, x)) if known else sums(first, x)

    program, remarks = raised(function, X, 5)
    bodies = re.findall(r"(?<!cond_)jaxpr = @(\w+)", str(program))
    assert len(remarks) == (8 if known else 4)
    assert (len(bodies), len(set(bodies))) == ((4, 1) if known else (3, 2))
    same_bits(program, function, X, 5)
    if known:
        same_gradient(program, function, X, 5)


@pytest.mark.compat
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_whiles_of_known_length(steps):
    def loop(x):
        def body(state):
            i, out = state
            return i + 2, out.at[i].set(jnp.sin(x[i]))

        return lax.while_loop(lambda state: state[0] + 1 < 2 * steps - 1, body, (0, x))

    def scan(x):
        return lax.scan(lambda o, i: (o.at[i].set(jnp.sin(x[i])), None), x, 2 * np.arange(steps))[0]

    program, remarks = raised(lambda x: loop(x)[1], X[:5] if steps == 0 else np.tile(X, 2))
    args = X[:5] if steps == 0 else np.tile(X, 2)
    assert "a scan" in remarks[0] and "while" not in str(program)
    same_bits(program, lambda x: loop(x)[1], args)
    if steps > 1:
        steps -= 1
        same_gradient(program, scan, args)


@pytest.mark.compat
@pytest.mark.parametrize(
    "limit",
    [
        lambda n: lax.squeeze(n, (0,)),
        lambda n: lax.rev(n, (0,))[0],
        lambda n: lax.concatenate([n, n], 0)[1],
        lambda n: lax.broadcast_in_dim(n, (2, 1), (1,))[1, 0],
    ],
)
@pytest.mark.parametrize("number", [6, 0])
def test_whiles_whose_condition_has_arrays(limit, number):
    n = jnp.array([number])

    def function(x):
        def body(state):
            i, out = state
            return i + 1, out.at[i].set(jnp.sin(x[i]))

        return lax.while_loop(lambda state: state[0] < limit(n), body, (0, x))

    program = jaxmlir.trace(function)(X).run_passes(LOOPS)
    assert "jaxpr.while" not in str(program)
    same_bits(program, function, X)


def test_a_while_that_depends_on_data_is_left_alone():
    def function(x):
        return lax.while_loop(
            lambda s: (s[0] < 8) & (s[1] < 1), lambda s: (s[0] + 1, s[1] + x), (0, x)
        )

    program, remarks = raised(function, X[5])
    assert not remarks and "while" in str(program)


@pytest.mark.compat
@pytest.mark.parametrize(
    "body",
    [
        lambda x, i, out: out + lax.dynamic_slice(x, (i,), (0,)).sum(),
        lambda x, i, out: lax.dynamic_update_slice(out, x[:0], (i,)),
        lambda x, i, out: out.at[lax.dynamic_slice(jnp.arange(8), (i,), (0,))].add(x[:0]),
    ],
)
def test_parts_of_no_elements(body):
    def function(x):
        return lax.fori_loop(0, 5, lambda i, out: body(x, i, out), jnp.ones(8))

    program, _ = raised(function, X)
    same_bits(program, function, X)


@pytest.mark.compat
@pytest.mark.parametrize("start, step", [(2**63 + 5, 1), (5, 2**64 - 1), (2**62, 2**62)])
def test_counters_of_unsigned_integers(start, step):
    """The counters exceed the range of a signed integer with as many bits."""
    with jax.enable_x64(True):

        def function(x):
            def body(state, _):
                i, out = state
                one = lax.dynamic_slice(x, (i % np.uint64(8),), (1,))
                return (i + np.uint64(step), out + one * lax.dynamic_slice(x, (i,), (1,))), None

            return lax.scan(body, (jnp.uint64(start), jnp.zeros(1)), None, length=5)[0]

        program, _ = raised(function, X)
        same_bits(program, function, X)
        low, high = np.uint64(start), np.uint64(min(start + 4, 2**64 - 1))

        def loop(x):
            return lax.while_loop(
                lambda s: s[0] < high, lambda s: (s[0] + np.uint64(1), s[1] * 2), (low, x)
            )

        program, _ = raised(loop, X)
        same_bits(program, loop, X)


@pytest.mark.compat
@pytest.mark.parametrize(("start", "step", "reverse"), [(11, -1, False), (0, 1, True)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_counters_of_unsigned_integers_whose_rows_run_down(dtype, start, step, reverse):
    """The body reads the counter, which is computed with a step that wraps around."""

    def function(x):
        def body(i, _):
            return (i + dtype(1) if step > 0 else i - dtype(1)), (jnp.sin(x), i)

        return lax.scan(body, dtype(start), None, length=10, reverse=reverse)[1]

    program = jaxmlir.trace(function)(X).run_passes(LOOPS)
    assert "num_carry" not in str(program)
    same_bits(program, function, X)


@pytest.mark.compat
def test_one_row_that_no_iteration_writes():
    """The row is the same in all iterations, and is not stacked."""

    def function(x):
        def body(i, out):
            row = lax.dynamic_slice(out, (7,), (1,))
            return lax.dynamic_update_slice(out, row + jnp.sin(x[i]), (i,))

        return for_loop(0, 6, body, x)

    program = jaxmlir.trace(function)(X).run_passes(LOOPS)
    assert not carries_arrays(program)
    same_bits(program, function, X)
    same_gradient(program, function, X)


@pytest.mark.compat
def test_loops_in_a_loop_of_no_iterations():
    def function(x):
        def row(i, out):
            return for_loop(0, 4, lambda j, out: out.at[2 * i + j].set(x[i] * out[j]), out)

        return for_loop(0, 0, row, x)

    program = jaxmlir.trace(function)(X).run_passes(LOOPS)
    same_bits(program, function, X)


@pytest.mark.compat
def test_a_while_that_carries_nothing():
    def function(x):
        lax.while_loop(lambda _: False, lambda nothing: nothing, ())
        return x

    program = jaxmlir.trace(function)(X).run_passes(LOOPS)
    same_bits(program, function, X)


def test_loops_of_very_many_iterations():
    """An array of all counters, or of a number for each pair of counters, would take gigabytes."""

    def function(x):
        def row(i):
            return for_loop(0, 9999, lambda j, out: out + x[lax.clamp(0, j, i) % 8], x[0])

        return for_loop(0, 10**9, lambda i, y: y + x[i % 8], x[0]), lax.map(row, jnp.arange(9999))

    program = jaxmlir.trace(function)(X).optimize(1)
    tracemalloc.start()
    after = program.run_passes(LOOPS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(after) == str(program) and peak < 1 << 26


def test_the_gradient_is_linear():
    """Limits the bytes that the gradient's loops carry: unraised, two arrays of the size of x."""
    function, x = RAISED["rows"]
    program, _ = raised(function, x)
    _, pullback = program.linearize()
    for loop in [line for line in str(pullback).splitlines() if '"jaxpr.scan"' in line]:
        assert "num_carry" not in loop or "num_carry = 1" in loop, "but for the sum of w's, nothing"


@jax.custom_vjp
def swish(x):
    return x * jax.nn.sigmoid(x)


# Deliberately not the derivative, to see that the rule is kept.
swish.defvjp(lambda x: (swish(x), x), lambda x, ct: (2 * ct * jnp.cos(x),))


def mean_loss(w, xs, labels):
    def body(i, total):
        logits = swish(jax.nn.relu(xs[i] @ w)) @ w
        return total - jax.nn.log_softmax(logits)[labels[i]]

    return for_loop(0, len(xs), body, 0.0) / len(xs)


@pytest.mark.compat
@pytest.mark.parametrize(("batch_bytes", "loops"), [(1 << 22, 0), (12000, 1), (100, 1)])
def test_independent_iterations_are_batched(batch_bytes, loops):
    rng = np.random.RandomState(0)
    args = rng.randn(16, 16).astype(np.float32) / 4, rng.randn(24, 16).astype(np.float32)
    args, labels = tuple(map(jnp.asarray, args)), jnp.asarray(rng.randint(0, 16, 24))
    passes = f"jaxpr-raise-loops{{batch-bytes={batch_bytes}}}"
    program, remarks = raised(mean_loss, *args, labels, passes=passes)
    assert str(program).count('"jaxpr.scan"') == loops
    assert any("independent" in remark for remark in remarks) == (batch_bytes > 100)
    np.testing.assert_allclose(program(*args, labels), mean_loss(*args, labels), rtol=1e-5)
    got, want = (jax.grad(f)(*args, labels) for f in (program, mean_loss))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_sums_of_half_precision_keep_their_order():
    """The sum of the terms alone overflows, the partial sums do not."""

    def function(total, xs, w):
        def subtract(total, row):
            return total - jnp.sum(jnp.tanh(jnp.tanh(row @ w) @ w) + row), None

        return lax.scan(subtract, total, xs)[0]

    args = np.float16(6e4), np.full((24, 16), 280, np.float16), np.zeros((16, 16), np.float16)
    program, _ = raised(function, *args, passes="jaxpr-raise-loops{batch-bytes=4194304}")
    np.testing.assert_array_equal(program(*args), function(*args))


@pytest.mark.parametrize(("batch_bytes", "loops"), [(1 << 22, 0), (8000, 4)])
def test_maps_that_are_alike_but_for_their_constants(batch_bytes, loops):
    def layers(xs, w):
        total = 0.0
        for i in range(3):

            def of_row(total, row, rate=0.1 + i):
                row = jnp.tanh(row @ w) * rate - jnp.arange(16.0) * (1 - rate)
                return total + jnp.sum(row * rate), row

            total, xs = lax.scan(of_row, total, xs)
        # The same ops outside of the loops.
        return lax.scan(lambda *args: of_row(*args, rate=0.7), total, xs)

    rng = np.random.RandomState(3)
    args = rng.randn(64, 16).astype(np.float32), rng.randn(16, 16).astype(np.float32) / 4
    passes = f"jaxpr-raise-loops{{batch-bytes={batch_bytes}}}"
    program, remarks = raised(layers, *args, passes=passes)
    assert len(remarks) == 4 and str(program).count('"jaxpr.scan"') == loops
    for got, want in zip(program(*args), layers(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("features", "loops"), [(4, 0), (20, 1)])
def test_images_of_few_features_are_batched(features, loops):
    def function(kernel, images):
        def features_of(image):
            dims = ("NHWC", "HWIO", "NHWC")
            args = image[None], kernel, (1, 1), "SAME"
            return jnp.tanh(lax.conv_general_dilated(*args, dimension_numbers=dims)).sum()

        return lax.map(features_of, images)

    rng = np.random.RandomState(0)
    args = rng.randn(3, 2, 3, features).astype(np.float32), rng.randn(8, 6, 5, 3)
    args = tuple(np.asarray(a, np.float32) for a in args)
    program, _ = raised(function, *args, passes="jaxpr-raise-loops")
    assert str(program).count('"jaxpr.scan"') == loops
    np.testing.assert_allclose(program(*args), function(*args), 1e-5, 1e-5)
    got, want = (jax.grad(lambda k, f=f: f(k, args[1]).sum())(args[0]) for f in (program, function))
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("width", [12, 20])
def test_overlapping_windows_are_rows_of_a_product(width):
    filter_, signal = jnp.cos(jnp.arange(width, dtype=np.float32)) / 4, jnp.tile(X, 5)

    def function(filter_, signal):
        def body(i, out):
            window = lax.dynamic_slice(signal, (2 * i,), (width,))
            return out.at[9 - i].set(jnp.tanh(jnp.stack([filter_] * 9) @ window).sum())

        return for_loop(0, 10, body, jnp.zeros(10))

    passes = "jaxpr-raise-loops"
    program, _ = raised(function, filter_, signal, passes=passes)
    assert '"jaxpr.scan"' not in str(program)
    np.testing.assert_allclose(program(filter_, signal), function(filter_, signal), 1e-5)
    got, want = (
        jax.grad(lambda signal, f=f: f(filter_, signal).sum())(signal) for f in (program, function)
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        lambda w, x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + jnp.abs(w @ x), x),
        lambda w, x: lax.cond(x[0] > 0, lambda x: w @ x, lambda x: x, x),
        lambda w, x: (jax.debug.print("{}", x[0]), w @ x)[1],
    ],
)
def test_loops_that_do_not_gain_stay(body):
    def function(w, xs):
        return lax.map(lambda x: body(w, x), xs)

    args = np.eye(16, dtype=np.float32), np.ones((4, 16), np.float32)
    program, _ = raised(function, *args, passes="jaxpr-raise-loops", target="cuda")
    assert '"jaxpr.scan"' in str(program)


# Positions as functions of the counter, of arrays with 16 elements.
POSITIONS = {
    "i": lambda i: i,
    "i + 1": lambda i: i + 1,
    "i - 2": lambda i: i - 2,
    "15 - i": lambda i: 15 - i,
    "2 i": lambda i: 2 * i,
    "i mod 3": lambda i: i % 3,
    "7": lambda i: 7,
    "-1 - i": lambda i: -1 - i,
    "i xor 1": lambda i: i ^ 1,
}
position = st.sampled_from(sorted(POSITIONS))
# A random statement writes one of two carried arrays at a position, and reads one of them at a
# position; it writes the value as it is, or combined with a value read from a constant.
array = st.integers(0, 1)
statement = st.tuples(
    st.sampled_from(["set", "add", "max", "copy"]), array, position, array, position, position
)


@pytest.mark.compat
@examples(12, random_programs.budget)
@hypothesis.given(
    statements=st.lists(statement, min_size=1, max_size=2),
    low=st.integers(0, 3),
    count=st.integers(1, 7),
    reverse=st.booleans(),
)
def test_random_loops(statements, low, count, reverse):
    """Reads and writes at random positions, also out of bounds and overlapping."""

    def function(x, *arrays):
        def body(arrays, i):
            arrays = list(arrays)
            for kind, to, at, of, first, second in statements:
                at, first, second = (POSITIONS[name](i) for name in (at, first, second))
                value = arrays[of][first]
                if kind == "copy":
                    arrays[to] = arrays[to].at[at].set(value)
                else:
                    value = jnp.sin(x[second]) + 0.5 * value
                    arrays[to] = getattr(arrays[to].at[at], kind)(value)
            return tuple(arrays), arrays[0][i]

        return lax.scan(body, arrays, low + np.arange(count), reverse=reverse)

    args = [np.linspace(*ends, 16, dtype=np.float32) for ends in ((-1, 2), (2, 0), (1, 4))]
    program, _ = raised(function, *args)
    with jax.disable_jit():
        # Evaluate op by op, because fused multiply-adds of compiled code round differently.
        got, want = (
            core.jaxpr_as_fun(jaxpr)(*args)
            for jaxpr in (program.to_jaxpr(), jax.make_jaxpr(function)(*args))
        )
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    same_gradient(program, function, *args)


@pytest.mark.parametrize("axis, step", [(0, 1), (1, 3)])
def test_windows_that_a_gather_reads_are_read_as_wholes(axis, step):
    """The gather does not index all of the windows' elements."""
    count, width = 15, 20
    shape = [5, 5]
    shape[axis] = step * (count - 1) + width
    x = np.random.RandomState(0).randn(*shape).astype(np.float32)

    def frames(x):
        def write(i, out):
            window = lax.dynamic_slice_in_dim(x, step * i, width, axis)
            return out.at[i].set(jnp.tanh(jnp.tensordot(jnp.arange(20.0) / 40, window, (0, axis))))

        return lax.fori_loop(0, count, write, jnp.zeros((count, 5)))

    program, _ = raised(frames, x, passes="jaxpr-raise-loops")
    assert '"jaxpr.scan"' not in str(program)
    assert f"tensor<{count}x1xi32>" in str(program)
    np.testing.assert_allclose(program(x), jax.jit(frames)(x), rtol=1e-4, atol=1e-6)
    same_gradient(program, frames, x)


@random_programs.budget
@hypothesis.given(steps=random_programs.programs)
def test_random_programs(steps):
    x, y = np.float32([0.3, -0.8, 1.1]), np.float32([0.7, 0.2, -0.5])
    program = jaxmlir.trace(lambda x, y: random_programs.run(steps, x, y))(x, y)
    after = program.run_passes("jaxpr-raise-loops", target="cuda")
    np.testing.assert_allclose(after(x, y), program(x, y), rtol=1e-5, atol=1e-5)
    got, want = (jax.grad(lambda x, p=p: jnp.sum(p(x, y)))(x) for p in (after, program))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_integers_that_are_moved_are_known_for_each_iteration():
    """Those that depend on a counter, and those that do not."""

    def moved(i):
        x = lax.iota(np.int32, 6).reshape(2, 3)
        y = jnp.concatenate([x, lax.broadcast(i, (1, 3))], 0)
        y = lax.rev(y, (0,)).T[1:, ::2]
        y = lax.tile(lax.reshape(y, (2, 2), (1, 0)), (1, 2))
        return y, lax.squeeze(x[:1] * i, (0,)), x.T

    program, counter = jaxmlir.trace(moved)(np.int32(0)), np.arange(5, dtype=np.int32)
    with scope():
        body = FunctionView(program.function(program.name))
        known = KnownIntegers({body.value(0): counter.reshape(1, 5)}, 2)
        arrays = [known.get(body.value(v)) for v in body.returned]
    for i in counter:
        for array, want in zip(arrays, moved(i), strict=True):
            rows = np.broadcast_to(array, (1, 5, *want.shape))
            np.testing.assert_array_equal(rows[0, i], want)

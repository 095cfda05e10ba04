"""Sums that leave their loops: which ones do, how, and that numbers equal JAX's."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir

RNG = np.random.RandomState(0)
X = RNG.randn(5, 32).astype(np.float32)
W = RNG.randn(32, 32).astype(np.float32) / 6
AT = np.array([3, -1, 70, 3, 0], np.int32)


def outer(a, b):
    """An outer product as in derivatives of matrix products; ``jnp.outer`` is elementwise."""
    return lax.dot_general(a, b, (((), ()), ((), ())))


def deferred(function, *args):
    """The program after the pass, and the number of its remarks about sums that left a loop."""
    remarks = []
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes("jaxpr-sink-reductions{min-bytes=0}", remarks=remarks.append)
    after.verify()
    return after, len(remarks)


def total(term, init=0.0):
    """A function of ``w``, ``x`` and ``i`` that sums up ``term(w, row, index, carry)`` while it
    carries a vector."""

    def function(w, x, i):
        like = jax.eval_shape(term, w, x[0], i[0], x[0])

        def step(carry, rows):
            s, h = carry
            h = jnp.tanh(w @ h + rows[0])
            return (s + term(w, *rows, h), h), h

        return lax.scan(step, (jnp.full(like.shape, init, like.dtype), x[0]), (x, i))

    return function


@pytest.mark.parametrize(
    ("term", "leaving"),
    {
        "outer product": (lambda w, x, i, h: outer(h, x), 1),
        "of the same": (lambda w, x, i, h: outer(h, h), 1),
        "transposed and scaled": (lambda w, x, i, h: -2 * jnp.tensordot(x, h, 0).T, 1),
        "two products": (lambda w, x, i, h: outer(h, x) + 3 * outer(x, x), 2),
        "a product and another": (
            lambda w, x, i, h: outer(h, x) + jnp.sin(w * h[0]),
            1,
        ),
        "of a fixed matrix": (lambda w, x, i, h: w @ jnp.sin(h), 1),
        "an element": (lambda w, x, i, h: jnp.zeros(64).at[i].set(h[0]), 1),
        "a row": (lambda w, x, i, h: jnp.zeros((64, 32)).at[i].add(h), 1),
        "a column": (
            lambda w, x, i, h: lax.dynamic_update_slice(jnp.zeros((32, 64)), h[:, None], (0, i)),
            1,
        ),
        "elementwise": (lambda w, x, i, h: jnp.sin(h), 0),
        "no larger than its factors": (lambda w, x, i, h: jnp.dot(h, x), 0),
    }.values(),
)
def test_what_leaves(term, leaving):
    # Any sum of the loop's rows, and of values that are stacked anyway, leaves.
    function = total(term, 0.5)
    program, count = deferred(function, W, X, AT)
    assert count == leaving
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5),
        program(W, X, AT),
        function(W, X, AT),
    )


@pytest.mark.parametrize(
    "step",
    [
        lambda s, x: (s + outer(x, x), s),
        lambda s, x: (outer(x, x) - s, None),
        lambda s, x: (s + s + outer(x, x), None),
        lambda s, x: (s + outer(s[0], x), None),
        lambda s, x: (jnp.where(x[0] > 0, s, s + outer(x, x)), None),
    ],
)
def test_what_the_loop_reads_stays(step):
    def function(s, x):
        return lax.scan(step, s, x)

    _, count = deferred(function, W, X)
    assert not count


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, jnp.bfloat16, np.float16])
def test_types(dtype):
    """Integers wrap around in any order of summation; sums of narrow floats keep their order."""
    x = (100 * X).astype(dtype)

    def function(x):
        def step(s, row):
            return s - outer(row, row * row), None

        return lax.scan(step, jnp.zeros((32, 32), dtype), x)[0]

    program, count = deferred(function, x)
    assert count == (dtype is not np.float16)
    rtol = {jnp.bfloat16: 5e-2, np.int32: 0}.get(dtype, 1e-4)
    got, want = (np.asarray(f(x)).astype(np.complex128) for f in (program, jax.jit(function)))
    np.testing.assert_allclose(got, want, rtol, rtol * np.max(np.abs(want), initial=0))


@pytest.mark.compat
@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(np.int8, np.int32), (np.float16, np.float32), (jnp.bfloat16, np.float32)],
)
def test_products_wider_than_their_factors(narrow, wide):
    """Their sums would overflow in the type of the factors."""
    x = (100 * RNG.randn(40, 64, 64)).astype(narrow)
    w = (100 * RNG.randn(64, 64)).astype(narrow)

    def function(w, x):
        def step(carry, row):
            s, h = carry
            product = lax.dot(row, w, preferred_element_type=wide)
            return (s + product + lax.dot(h, w, preferred_element_type=wide), row + h), None

        return lax.scan(step, (jnp.zeros((64, 64), wide), x[0] * 2), x)[0][0]

    program, _ = deferred(function, w, x)
    np.testing.assert_allclose(program(w, x), jax.jit(function)(w, x), 1e-5, 1e-5)


def test_batches_and_empty_ones():
    def function(x, y):
        def step(s, rows):
            return s + jnp.einsum("bi,bj->bij", *rows), None

        return lax.scan(step, jnp.zeros((x.shape[1], 8, 8)), (x, y))[0]

    for batch in (3, 0):
        x, y = (RNG.randn(4, batch, 8).astype(np.float32) for _ in range(2))
        program, _ = deferred(function, x, y)
        np.testing.assert_allclose(program(x, y), function(x, y), 1e-5, 1e-6)


def test_special_numbers():
    """A NaN stays a NaN in the sum; the other elements of a table do not change."""
    x = X.copy()
    x[1, 2], x[3, 4] = np.nan, np.inf
    for term in (
        lambda w, x, i, h: outer(x, x),
        lambda w, x, i, h: jnp.zeros(64).at[i].set(x[4]),
    ):
        function = total(term)
        program, count = deferred(function, W, x, AT)
        got, want = program(W, x, AT)[0][0], function(W, x, AT)[0][0]
        assert count == 1 and np.isnan(want).any() + np.isinf(want).any()
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_sums_of_what_products_read():
    """The gradient of a bias beside that of weights: a sum of slices that are available anyway."""

    def function(xs, ys):
        def step(carry, rows):
            weights, bias = carry
            return (weights + outer(*rows), bias + rows[1]), None

        return lax.scan(step, (jnp.zeros((32, 16)), jnp.ones(16)), (xs, ys))[0]

    ys = RNG.randn(5, 16).astype(np.float32)
    after, leaving = deferred(function, X, ys)
    assert leaving == 2
    for a, b in zip(after(X, ys), function(X, ys), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def test_memory_is_kept():
    def function(w, x):
        def step(s, _):
            h = jnp.tanh(s[1])
            return (s[0] + outer(h, jnp.sin(h)), h), None

        return lax.scan(step, (w, x), None, length=100_000)[0]

    program = jaxmlir.trace(function)(W, X[0]).optimize(1)
    assert str(program.run_passes("jaxpr-sink-reductions")) == str(program)
    assert str(program.run_passes("jaxpr-sink-reductions{min-bytes=0}")) == str(program)
    unlimited = program.run_passes("jaxpr-sink-reductions{min-bytes=0 memory=inf}")
    assert str(unlimited) == str(program)  # The length is unknown without slices.


@pytest.mark.parametrize(("columns", "leaves"), [(False, True), (True, False)])
def test_what_the_product_copies_is_memory_too(columns, leaves):
    def loss(w, x):
        def step(h, _):
            return (w @ h if columns else h @ w), None

        return jnp.sum(lax.scan(step, x, None, length=1000)[0] ** 2)

    w, x = np.eye(32, dtype=np.float32), X.T if columns else X
    gradient = jaxmlir.trace(loss)(w, x).optimize(1).grad((0, 1)).optimize(1)
    after = gradient.run_passes("jaxpr-sink-reductions{min-bytes=0 moved=1}")
    assert (str(after) != str(gradient)) == leaves

    def stored(function):
        return jax.jit(function).lower(w, x).compile().memory_analysis().temp_size_in_bytes

    # At most one more stacked result is allowed.
    flat = after.run_passes("jaxpr-dot-to-2d")
    assert stored(flat) <= 2.1 * stored(jax.grad(loss, (0, 1)))
    for a, b in zip(after(w, x), jax.grad(loss, (0, 1))(w, x), strict=True):
        np.testing.assert_allclose(a, b, 1e-4)


@pytest.mark.compat
@examples(5)
@hypothesis.given(
    cell=st.lists(st.sampled_from(["dense", "bias", "table", "shift", "square"]), min_size=1),
    reverse=st.booleans(),
    batch=st.sampled_from([None, 3]),
)
def test_gradients_of_random_recurrences(cell, reverse, batch):
    def loss(w, b, table, x):
        def step(h, row):
            i = jnp.argmax(row) + 1
            for kind in cell:
                h = {
                    "dense": lambda h: jnp.tanh(h @ w),
                    "bias": lambda h: h + b,
                    "table": lambda h: h * table[i],
                    "shift": lambda h: jnp.roll(h, 1, -1) + row,
                    "square": lambda h: jnp.sin(h) * h,
                }[kind](h)
            return h, None

        start = jnp.ones((32,) if batch is None else (batch, 32)) / 2
        return jnp.sum(lax.scan(step, start, x, reverse=reverse)[0])

    args = (W, X[0], RNG.randn(64, 32).astype(np.float32) / 3, X)
    gradient = jaxmlir.trace(loss)(*args).optimize(1).grad((0, 1, 2, 3)).optimize(1)
    after = gradient.run_passes("jaxpr-sink-reductions{min-bytes=0 moved=100}")
    after.verify()
    want = jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*args)
    for a, b in zip(jax.tree.leaves(after(*args)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "int32"])
def test_quotients_of_integers_are_added_up_as_they_are(dtype):
    """Each quotient is rounded, so the sum must not be divided instead."""

    def f(x):
        def step(total, v):
            return total + lax.div(lax.broadcast(v, (64, 64)), jnp.full((64, 64), 3, dtype)), None

        return lax.scan(step, jnp.zeros((64, 64), dtype), x)[0]

    x = jnp.array([1, 2, 1, 2, 5], dtype)
    program = jaxmlir.trace(f)(x).run_passes("jaxpr-inline, jaxpr-sink-reductions{min-bytes=0}")
    np.testing.assert_array_equal(program(x), jax.jit(f)(x))


@pytest.mark.parametrize(
    ("shape", "term", "leaving"),
    [
        ((8,), lambda h, x, i: outer(h, x), {"cuda", "tpu"}),
        ((8,), lambda h, x, i: outer(x, x), {"cuda", "tpu"}),
        # One more value is stored, which takes a TPU longer than the product.
        ((4, 8), lambda h, x, i: h.T @ x, {"cuda"}),
        ((8,), lambda h, x, i: outer(h, jnp.sin(h)), set()),
        # A TPU runs a scatter as a loop.
        ((8,), lambda h, x, i: jnp.zeros((4096, 8)).at[i].set(h), {"cpu", "cuda"}),
    ],
)
def test_loops_that_wait_for_kernels_start_none_for_small_sums(shape, term, leaving):
    def function(x, i):
        def step(carry, rows):
            s, h = carry
            h = jnp.tanh(h + rows[0])
            return (s + term(h, *rows), h), None

        like = jax.eval_shape(term, x[0], x[0], i[0])
        return lax.scan(step, (jnp.zeros(like.shape), x[0]), (x, i))[0][0]

    x = RNG.randn(5, *shape).astype(np.float32)
    program = jaxmlir.trace(function)(x, AT).optimize(1)
    for target in ("cpu", "cuda", "tpu"):
        remarks = []
        after = program.run_passes("jaxpr-sink-reductions", target=target, remarks=remarks.append)
        assert bool(remarks) == (target in leaving)
        got = jaxmlir.parse(str(after))(x, AT)
        np.testing.assert_allclose(got, function(x, AT), 1e-5, 1e-5)

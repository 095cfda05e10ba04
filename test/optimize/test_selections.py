"""Early selection of elements, and one-hot products: equal numbers, and no dense cotangents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

RNG = np.random.RandomState(0)
ROWS, WORDS = 20, 40
X = RNG.randn(ROWS, WORDS).astype(np.float32)
LABELS = RNG.randint(0, WORDS, ROWS).astype(np.int32)
# Row numbers, some of them out of bounds or negative.
OUTSIDE = np.array([3, -1, WORDS, 0, 7, -50, 3, 19], np.int32)


def gradient(f):
    return jax.grad(lambda x, *rest: jnp.nansum(jnp.sin(f(x, *rest))))


def passed(pipeline, f, *args):
    program = jaxmlir.trace(f)(*args).optimize(1)
    after = program.run_passes(pipeline)
    after.verify()
    return program, after


def by_hand(x, labels):
    e = jnp.exp(x - jnp.max(x, 1, keepdims=True))
    return jnp.log(e / jnp.sum(e, 1, keepdims=True))[jnp.arange(ROWS), labels]


def moving(x, labels):
    return lax.dynamic_slice(jnp.tanh(x) * labels[0], (labels[1], 0), (1, 8))


def mode(name, fill=None):
    def f(x, labels):
        return jnp.cos(x + x[:1]).at[labels, labels].get(mode=name, fill_value=fill)

    return f


EARLY = {
    "by_hand": (by_hand, LABELS),
    "slice": (lambda x, i: (jnp.sin(x) * x[:, :1] + 1)[3:5, ::7], LABELS),
    "strides": (lambda x, i: jnp.sin(x)[::6, 1::7], LABELS),
    "last": (lambda x, i: jnp.where(x > 0, jnp.exp(x), x)[:, -1], LABELS),
    "diagonal": (lambda x, i: jnp.diag(jnp.tanh(x[:, :ROWS]) / x[:, :1]), LABELS),
    "moving": (moving, LABELS),
    "rows": (lambda x, i: (x * jnp.arange(WORDS))[i[:1]], LABELS),
    "fill": (mode("fill"), OUTSIDE),
    "fill 7": (mode("fill", 7.0), OUTSIDE),
    "clip": (mode("clip"), OUTSIDE),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", EARLY)
def test_selected_early(name):
    f, labels = EARLY[name]
    before, after = passed("jaxpr-hoist-slices{factor=1}, jaxpr-cse, jaxpr-dce", f, X, labels)
    assert str(after) != str(before)
    # The same ops, but the compiler may fuse a multiply-add in only one of the programs.
    np.testing.assert_allclose(after(X, labels), before(X, labels), rtol=1e-6)
    np.testing.assert_allclose(
        gradient(after)(X, labels), gradient(f)(X, labels), rtol=1e-5, atol=1e-6
    )


def test_what_is_needed_as_a_whole_is_selected_from_late():
    """A stencil whose margin consists of its edges: the slices are not hoisted."""

    def step(x):
        return jnp.tanh(x) * 2 + jnp.pad(x, 1, mode="wrap")[2:, 2:]

    def f(x, _):
        return step(step(x))

    before, after = passed("jaxpr-hoist-slices{factor=1}, jaxpr-cse, jaxpr-dce", f, X, LABELS)
    assert '"jaxpr.slice"' in str(before) and str(after) == str(before)


@pytest.mark.compat
def test_the_cotangents_are_as_small_as_what_was_selected():
    _, after = passed("jaxpr-hoist-slices, jaxpr-cse, jaxpr-dce", by_hand, X, LABELS)
    text = str(after)
    # The logarithm and the quotient are computed for the selected elements only.
    for op in ("log", "div"):
        lines = [line for line in text.splitlines() if f'"jaxpr.{op}"' in line]
        assert lines and all(line.endswith("-> tensor<20xf32>") for line in lines)


def test_slices_of_a_loop_have_one_cotangent_that_is_put_together():
    def loss(w, xs):
        def step(h, x):
            z = x + h @ w
            # Nothing reads the first and the last columns.
            return jnp.tanh(z[:, 16:32]) * z[:, 32:48] - z[:, 64:80], None

        return jnp.sum(lax.scan(step, xs[0, :, :16], xs)[0] ** 2)

    rng = np.random.RandomState(0)
    w, xs = (rng.standard_normal(s).astype(np.float32) for s in ((16, 96), (5, 3, 96)))
    program = jaxmlir.trace(loss)(w, xs)
    split = program.run_passes("jaxpr-slices-to-split", target="cpu")
    assert str(split).count("jaxpr.split") == 1
    assert str(split.grad()).count("jaxpr.pad") == 1 < str(program.grad()).count("jaxpr.pad")
    np.testing.assert_array_equal(split(w, xs), program(w, xs))
    np.testing.assert_allclose(split.grad()(w, xs), jax.grad(loss)(w, xs), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(split.vmap()(w[None], xs[None])[0], jax.jit(loss)(w, xs), rtol=1e-5)


JOINED = {
    "stack": (lambda x, y: jnp.stack([x, y], 2), lambda row: (row[:, 0], row[::2, 1].sum())),
    "unstack": (lambda x, y: jnp.stack([x, y, x], 1), lambda row: (row[0] * row[2], row[1].sum())),
    "parts": (
        lambda x, y: jnp.concatenate([x, y, y * 2], 1),
        lambda row: (row[1:5], row[6:12:3].sum() + jnp.split(row, [12, 15])[1].sum()),
    ),
}


@pytest.mark.compat
@pytest.mark.parametrize("name", JOINED)
def test_a_loop_takes_rows_of_the_arrays_that_were_joined(name):
    join, taken = JOINED[name]

    def loss(x, y):
        def step(h, row):
            a, b = taken(row)
            return jnp.tanh(h * a[:4] + b), jnp.sin(h)

        h, ys = lax.scan(step, x[0, :4], join(x, y), reverse=True)
        return jnp.sum(h) + jnp.sum(ys)

    args = X[:6, :6], X[6:12, :6]
    before, after = passed("jaxpr-hoist-slices, jaxpr-dce", loss, *args)
    assert ("stack" in str(before) or "concatenate" in str(before)) and "stack" not in str(after)
    assert "jaxpr.concatenate" not in str(after)
    np.testing.assert_allclose(after(*args), loss(*args), rtol=1e-6)
    np.testing.assert_allclose(after.grad()(*args), jax.grad(loss)(*args), rtol=1e-5, atol=1e-6)


def test_rows_that_are_needed_as_a_whole_stay_joined():
    def across(x, y):
        """A slice of both arrays; and the iterations themselves are joined."""
        rows, steps = jnp.concatenate([x, y], 1), jnp.concatenate([x, y])
        h = lax.scan(lambda h, row: (h + row[4:8], None), x[0, :4], rows)[0]
        return h + lax.scan(lambda h, row: (h * row[:4], None), h, steps)[0]

    before, after = passed("jaxpr-hoist-slices", across, X[:6, :6], X[6:12, :6])
    assert str(after) == str(before)


def test_what_is_needed_anyway_stays():
    def gates(x):
        return [jnp.tanh(part) for part in jnp.split(x + 1, 4, axis=1)]

    def few(x):
        return jnp.exp(x)[:, : WORDS // 2]

    for f in (gates, few):
        before, after = passed("jaxpr-hoist-slices", f, X)
        assert str(after) == str(before)


def table(x, i):
    return jax.nn.one_hot(i, ROWS) @ x


ONE_HOT = {
    "table": table,
    "picked": lambda x, i: jnp.sum(jax.nn.one_hot(i, WORDS) * x[:8], -1),
    "first axis": lambda x, i: jnp.sum(jax.nn.one_hot(i, WORDS, axis=0) * x[:8].T, 0),
    "mean": lambda x, i: jnp.mean(jnp.sum(jnp.sin(x[:8]) * jax.nn.one_hot(i, WORDS), -1)),
    "compared": lambda x, i: (i[:, None] == jnp.arange(ROWS)).astype(x.dtype) @ x,
    "einsum": lambda x, i: jnp.einsum("bn,nw,bw->b", jax.nn.one_hot(i, ROWS), x, x[:8]),
    "segments": lambda x, i: jax.nn.one_hot(i, ROWS).T @ x[:8],
    "identity": lambda x, i: jnp.eye(ROWS) @ jnp.sin(x) @ jnp.eye(WORDS),
    "trace": lambda x, i: jnp.sum((x @ x.T) * jnp.eye(ROWS)),
}


@pytest.mark.parametrize("name", ONE_HOT)
def test_one_hot_products_select(name):
    f = ONE_HOT[name]
    before, after = passed(
        "jaxpr-reassociate{min-gain=0}, jaxpr-gather-dot{min-gain=0 calls=inf}, jaxpr-dce",
        f,
        X,
        OUTSIDE,
    )
    assert '"jaxpr.eq"' in str(before) and '"jaxpr.eq"' not in str(after)
    np.testing.assert_allclose(after(X, OUTSIDE), before(X, OUTSIDE), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        gradient(after)(X, OUTSIDE), gradient(f)(X, OUTSIDE), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i, u: jax.nn.one_hot(i, len(x), dtype=x.dtype).T @ u,
        lambda x, i, u: x.at[i].get(mode="clip").T @ u,
    ],
)
def test_sums_of_rows_are_rounded_once(f):
    """Added up in bfloat16, a thousand ones would be 256."""
    args = jnp.ones((8, 64), "bfloat16"), np.arange(8192) % 8, jnp.ones((8192, 256), "bfloat16")
    _, after = passed("jaxpr-gather-dot", f, *args)
    assert "jaxpr.scatter_add" in str(after)
    np.testing.assert_array_equal(*(np.asarray(g(*args), "f4") for g in (after, jax.jit(f))))


def test_selections_that_take_longer_to_compile_than_they_save():
    """A gather, and the scatter of its gradient, take as long to compile as a hundred ops."""
    rng = np.random.RandomState(0)
    for rows, numbers, selects in ((ROWS, 8, False), (1000, 256, True)):
        x, i = rng.randn(rows, WORDS).astype(np.float32), rng.randint(0, rows, numbers)

        def f(x, i, rows=rows):
            return jax.nn.one_hot(i, rows) @ x

        _, after = passed("jaxpr-gather-dot", f, x, i)
        assert ("jaxpr.gather" in str(after)) == selects
        np.testing.assert_allclose(after(x, i), x[i], rtol=1e-5, atol=1e-5)


def test_selected_rows_that_a_reshape_parts():
    """One index selects each row: the split dimension of rows is no product with a selector."""

    def f(x, w):
        return jnp.reshape(x[np.arange(30 * ROWS) % 4], (30, ROWS, WORDS)) @ w

    x, w = X[:4], X.T @ X
    after = jaxmlir.trace(f)(x, w).optimize(2)
    np.testing.assert_allclose(after(x, w), f(x, w), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("f", "op", "mode"),
    [
        (lambda x, i: x[jnp.tile(i, 5)].T @ jnp.concatenate([x, x]), "scatter_add", "CLIP"),
        (
            lambda x, i: (
                jnp.zeros_like(x).at[i].add(x[:8], mode="promise_in_bounds").T @ jnp.tanh(x)
            ),
            "gather",
            "FILL_OR_DROP",
        ),
    ],
)
def test_rows_that_were_promised_to_be_there(f, op, mode):
    """A gather clips indices out of bounds, a scatter drops the updates; so do the ops that replace
    them."""
    before, after = passed("jaxpr-gather-dot{min-gain=0 sure-gain=0}", f, X, OUTSIDE)
    assert f'"jaxpr.{op}"' not in str(before) and f'"jaxpr.{op}"' in str(after)
    assert mode in str(after)
    np.testing.assert_allclose(after(X, OUTSIDE), jax.jit(f)(X, OUTSIDE), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "f",
    [
        # The mask is not contracted, or shares a remaining dimension with the other factor.
        lambda x, i: jax.nn.one_hot(i, WORDS) * x[:8],
        lambda x, i: jnp.einsum("bn,bn->n", jax.nn.one_hot(i, WORDS), x[:8]),
        # The mask has several ones in a row, or is not known to be one-hot.
        lambda x, i: (i[:, None] <= jnp.arange(ROWS)).astype(x.dtype) @ x,
        lambda x, i: (x[:8, :1] == jnp.arange(ROWS)).astype(x.dtype) @ x,
        lambda x, i: (
            (i.astype(np.int8)[:, None] == jnp.arange(ROWS, dtype=np.int8) % 3).astype(x.dtype) @ x
        ),
    ],
)
def test_other_masks_stay(f):
    before, after = passed("jaxpr-gather-dot", f, X, OUTSIDE)
    assert str(after) == str(before)


@pytest.mark.compat
@pytest.mark.parametrize(("shape", "axis"), [((1, ROWS), 1), ((ROWS, 1), 0)])
def test_numbers_that_run_along_with_the_rows(shape, axis):
    """A square mask that compares each row's number with the index of the same row."""

    def f(x, i):
        rows = lax.broadcasted_iota(i.dtype, (ROWS, ROWS), axis)
        return lax.eq(rows, lax.reshape(i, shape)).astype(x.dtype) @ x

    i = RNG.randint(0, ROWS, ROWS).astype(np.int32)
    before, after = passed("jaxpr-gather-dot{min-gain=0 sure-gain=0}", f, X, i)
    assert str(after) == str(before)
    np.testing.assert_allclose(after(X, i), jax.jit(f)(X, i), rtol=1e-5, atol=1e-5)


@pytest.mark.compat
def test_numbers_too_small_to_count_the_rows():
    wide = RNG.randn(300, 3).astype(np.float32)
    i = np.array([3, 255, 10], np.uint8)

    def f(x, i):
        return (i[:, None] == jnp.arange(300).astype(np.uint8)).astype(x.dtype) @ x

    before, after = passed("jaxpr-gather-dot", f, wide, i)
    np.testing.assert_allclose(after(wide, i), before(wide, i), rtol=1e-6)


@pytest.mark.compat
@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4])
def test_rows_are_counted_in_four_bits(dtype):
    i = jnp.array([3, 0, 7]).astype(dtype)
    before, after = passed("jaxpr-gather-dot{min-gain=0}", table, X, i)
    assert '"jaxpr.eq"' in str(before)
    np.testing.assert_allclose(after(X, i), before(X, i), rtol=1e-6)

    def kept(x, i):
        return jnp.sin(x).at[i].get(mode="fill", fill_value=2.0)

    before, after = passed("jaxpr-hoist-slices", kept, X, i)
    np.testing.assert_allclose(after(X, i), before(X, i), rtol=1e-6)


def test_numbers_of_rows_that_are_filled_are_not_said_to_differ():
    """Two indices out of bounds become equal when they are clipped."""

    def function(x, rows):
        picked = (
            jnp.tanh(x * 2)
            .at[rows]
            .get(mode="fill", fill_value=0, unique_indices=True, indices_are_sorted=True)
        )
        return jnp.sin(picked)

    rows = np.array([19, 20, 21], np.int32)
    x = np.repeat(X, 3, 1)[:, :60]
    program, after = passed("jaxpr-hoist-slices{factor=2},jaxpr-dce", function, x, rows)
    assert str(after) != str(program)
    gathers = [e for e in after.to_jaxpr().eqns if e.primitive.name == "gather"]
    assert [e.params["unique_indices"] for e in gathers] == [False]
    np.testing.assert_allclose(after(x, rows), function(x, rows), rtol=1e-5)

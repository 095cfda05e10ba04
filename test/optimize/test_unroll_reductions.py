"""Unrolled reductions over a few elements or over windows: numbers equal JAX's, for all types."""

import re

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir

KINDS = {
    "sum": (jnp.sum, (np.float32, np.int32, np.complex64, jnp.bfloat16)),
    "prod": (jnp.prod, (np.float32, np.int8, np.complex64)),
    "max": (jnp.max, (np.float32, np.uint8, np.bool_)),
    "min": (jnp.min, (np.float32, np.int32)),
    "all": (jnp.all, (np.bool_,)),
    "any": (jnp.any, (np.bool_,)),
}


@examples(25)
@hypothesis.given(st.data())
def test_random_reductions(data):
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    function, dtypes = KINDS[kind]
    dtype = data.draw(st.sampled_from(dtypes))
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    if kind in ("max", "min"):
        hypothesis.assume(all(shape[d] for d in axes))
    x = (4 * np.random.RandomState(0).randn(*shape)).astype(dtype)
    if dtype == np.float32 and x.size > 2:
        x.flat[0], x.flat[-1] = np.nan, -np.inf

    def reduced(x):
        return function(x, tuple(axes))

    program = jaxmlir.trace(reduced)(x).optimize(1)
    after = program.run_passes("jaxpr-unroll-reductions{calls=inf min-results=0}")
    after.verify()
    count = np.prod([shape[d] for d in axes])
    assert ("reduce_" in str(after)) == ("reduce_" in str(program) and not 1 < count <= 8)
    got, want = np.asarray(after(x)), np.asarray(reduced(x))
    assert got.dtype == want.dtype
    rtol = 0.02 if dtype == jnp.bfloat16 else 1e-6
    np.testing.assert_allclose(got.astype(np.complex64), want.astype(np.complex64), rtol)


@pytest.mark.compat
def test_reductions_of_reductions():
    x = np.random.RandomState(0).randn(3, 4, 5, 2).astype(np.float32)

    def function(x):
        return jnp.max(jnp.prod(jnp.min(jnp.sum(x, 3), 1), 1))

    after = jaxmlir.trace(function)(x).optimize(1)
    after = after.run_passes("jaxpr-unroll-reductions{calls=inf min-results=0}")
    after.verify()
    assert "reduce_" not in str(after)
    np.testing.assert_allclose(after(x), function(x), 1e-6)


def test_few_results_are_left_alone():
    program = jaxmlir.trace(lambda x: jnp.sum(x, 1))(np.zeros((20, 3), np.float32)).optimize(1)
    assert str(program.run_passes("jaxpr-unroll-reductions{calls=inf}")) == str(program)


@pytest.mark.compat
@pytest.mark.compat
@pytest.mark.parametrize(
    ("shape", "axes", "unrolled"),
    [
        ((20, 200, 100), (0,), True),
        ((4, 5, 20_000), (0, 1), True),
        ((20, 100, 100), (0,), False),
        ((200, 20, 100), (1,), False),
        ((65, 20_000), (0,), False),
    ],
)
def test_many_results_with_jax_0_10(shape, axes, unrolled):
    x = np.random.RandomState(0).randn(*shape).astype(np.float32)
    program = jaxmlir.trace(lambda x: jnp.sum(jnp.sin(x), axes))(x).optimize(1)
    after = program.run_passes("jaxpr-unroll-reductions{calls=inf}")
    is_old = jaxmlir._compat.jax_version() < (0, 11)
    assert ("reduce_sum" in str(after)) != (unrolled and is_old)
    np.testing.assert_allclose(after(x), np.sum(np.sin(x), axes), 1e-4, 1e-4)


def test_what_is_reduced_is_used_by_others():
    """Only the points are sliced: no array of all differences is computed just to be sliced."""
    x, y = (np.random.RandomState(k).randn(n, 3).astype(np.float32) for k, n in enumerate((5, 4)))

    def function(x, y):
        d = x[:, None] - y[None]
        with_others = jnp.max(jnp.where(d > 0, d, -2 * d), -1), d
        slow = jnp.sin(d)
        return *with_others, jnp.sum(slow * slow, 2), slow

    after = jaxmlir.trace(function)(x, y).optimize(1)
    after = after.run_passes("jaxpr-unroll-reductions{calls=inf min-results=0}")
    after.verify()
    sliced = re.findall(r"jaxpr.slice.*: \(tensor<(.*)xf32>\)", str(after))
    assert sorted(set(sliced)) == ["1x4x3", "5x1x3", "5x4x3"]
    assert sliced.count("5x4x3") == 3, "of what takes long to compute"
    for got, want in zip(after(x, y), function(x, y), strict=True):
        np.testing.assert_allclose(got, want, 1e-6)


TO_COMPARE = {
    "quotients": lambda x, y: x / y[0],
    "sums of products": lambda x, y: x * x + y[0] * y[0],
    "normalized": lambda x, y: (x - x.mean(0)) * lax.rsqrt(x.var(0) + 1e-5) * y[0] + y[1],
    "small products": lambda x, y: jnp.einsum("ijn,jn->in", x.reshape(3, 2, -1), y[:2]) + y[2],
    "narrow": lambda x, y: (x * y[0]).astype(jnp.bfloat16),
}


@pytest.mark.compat
@pytest.mark.parametrize("name", TO_COMPARE)
def test_what_the_gradient_of_a_maximum_compares(name):
    """XLA must not round the array that is compared in another way than that of the maximum."""
    x, y = (np.random.RandomState(k).randn(6, 4096).astype(np.float32) for k in range(2))

    def total(x, y):
        return jnp.sum(jnp.max(TO_COMPARE[name](x, y), 0))

    program = jaxmlir.trace(jax.grad(total))(x, y)
    # XLA itself may fuse the array into both kernels.
    with jax.disable_jit():
        want = jax.grad(total)(x, y)
    for after in (program.optimize(2), jaxmlir.trace(total)(x, y).grad().optimize(2)):
        np.testing.assert_allclose(jax.jit(after)(x, y), want, 1e-4, 1e-5)


KEEP = "jaxpr-unroll-reductions{calls=inf max-size=1 max-kept=4 min-results=4}"


@pytest.mark.compat
@pytest.mark.parametrize("axes", [(0, 1), 0, 1])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_a_short_last_axis_that_is_left(name, axes):
    """Reduces an array of pairs over one of its axes, or both; the short last axis remains."""
    rng = np.random.RandomState(0)
    x, weights = rng.randn(6, 3).astype(np.float32), rng.rand(6, 6).astype(np.float32)
    x[0], x[1, 1] = np.inf, np.nan
    x, weights = jnp.asarray(x), jnp.asarray(weights)

    def reduced(x, weights):
        return getattr(jnp, name)(weights[..., None] * jnp.tanh(x[:, None] - x), axes)

    program = jaxmlir.trace(reduced)(x, weights).optimize(1)
    after = program.run_passes(KEEP)
    after.verify()
    assert str(after).count(f'"jaxpr.reduce_{name}"') == 3
    for points in (x, jnp.nan_to_num(x)):
        wanted = reduced(points, weights)
        np.testing.assert_allclose(after(points, weights), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "function",
    [
        # An argument is read, the operand has another use, rows are long, or rows are summed over.
        lambda x, y: jnp.sum((x[:, None] - x) * y, 0),
        lambda x, y: (jnp.sum(jnp.exp(x[:, None] - x), 0), jnp.exp(x[:, None] - x)),
        lambda x, y: jnp.sum(jnp.tile(x, 2)[:, None] * jnp.tile(x, 2), 0),
        lambda x, y: jnp.sum(x[:, None] - x, (1, 2)),
    ],
)
def test_sums_that_stay_one(function):
    program = jaxmlir.trace(function)(jnp.ones((6, 3)), jnp.ones((6, 6, 3))).optimize(1)
    assert str(program.run_passes(KEEP)) == str(program)


WINDOWED = {
    "sum": (lax.add, (np.float32, np.int32, np.complex64, jnp.bfloat16, np.float16)),
    "max": (lax.max, (np.float32, np.uint8, np.int8, jnp.bfloat16)),
    "min": (lax.min, (np.float32, np.int32, np.float16)),
}


def identity(kind, dtype):
    """The initial value that JAX reduces windows by an op of its own with."""
    if kind == "sum":
        return np.zeros((), dtype)
    if jnp.issubdtype(dtype, np.integer):
        limits = jnp.iinfo(dtype)
        return np.asarray(limits.min if kind == "max" else limits.max, dtype)
    return np.asarray(-np.inf if kind == "max" else np.inf, dtype)


@examples(40)
@hypothesis.given(st.data())
def test_random_windows(data):
    kind = data.draw(st.sampled_from(sorted(WINDOWED)))
    combine, types = WINDOWED[kind]
    dtype = data.draw(st.sampled_from(types))
    rank = data.draw(st.integers(1, 3))

    def of_dims(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    shape, sizes, strides = of_dims(0, 20), of_dims(1, 9 if rank < 3 else 4), of_dims(1, 3)
    base, apart = of_dims(1, 2), of_dims(1, 2)
    padding = tuple(zip(of_dims(-1, 6), of_dims(-1, 6), strict=True))
    # Sums of a few small integers are exact in every type and order.
    x = np.random.RandomState(0).randint(-3, 4, shape).astype(dtype)
    if jnp.issubdtype(dtype, np.floating) and x.size > 4 and data.draw(st.booleans()):
        x.flat[:4] = np.nan, -np.inf, np.inf, -0.0

    def reduced(x):
        return lax.reduce_window(
            x, identity(kind, dtype), combine, sizes, strides, padding, base, apart
        )

    try:
        program = jaxmlir.trace(reduced)(x)
    except (TypeError, ValueError):
        hypothesis.reject()
    after = program.run_passes("jaxpr-unroll-reductions{calls=inf}")
    after.verify()
    want = jax.jit(reduced)(x)
    are_apart = all(stride >= size for size, stride in zip(sizes, strides, strict=True))
    kept = np.prod(sizes) < 2 or not want.size or not x.size
    kept = kept or (are_apart and np.prod(sizes) > 16)
    assert ("reduce_window" in str(after)) == kept
    assert after(x).dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(after(x)), np.asarray(want))


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn", "float8_e5m2", "uint8"])
def test_windows_of_types_without_infinities(dtype):
    """What windows are padded with is less than every element, however few bits it has."""
    x = jnp.asarray(np.arange(40).reshape(5, 8) % 7 - 3).astype(dtype)
    least = jnp.asarray(
        -jnp.inf if dtype == "float8_e5m2" else jnp.finfo(dtype).min if "float" in dtype else 0,
        dtype,
    )

    def function(x):
        return lax.reduce_window(x, np.asarray(least), lax.max, (3, 3), (1, 1), "SAME")

    after = jaxmlir.trace(function)(x).run_passes("jaxpr-unroll-reductions{calls=inf}")
    assert "reduce_window" not in str(after)
    np.testing.assert_array_equal(after(x).astype(float), jax.jit(function)(x).astype(float))


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("size", [3, 4, 7, 50, 63, 64, 300])
def test_long_windows_are_combined_by_powers_of_two(kind, size):
    x = np.random.RandomState(0).randn(400).astype(np.float32)

    def reduced(x):
        return lax.reduce_window(
            x, identity(kind, np.float32), WINDOWED[kind][0], (size,), (1,), "SAME"
        )

    after = jaxmlir.trace(reduced)(x).run_passes("jaxpr-unroll-reductions{calls=inf}")
    ops = str(after).count("jaxpr.add" if kind == "sum" else "jaxpr.max")
    assert ops <= 2 * np.log2(size)
    # A running sum, as XLA has it, is less exact.
    padded = np.pad(x.astype(np.float64), ((size - 1) // 2, size // 2), constant_values=0)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)
    want = windows.sum(-1) if kind == "sum" else jax.jit(reduced)(x)
    np.testing.assert_allclose(after(x), want, 0, 1e-5 if kind == "sum" else 0)


@pytest.mark.parametrize(
    ("shape", "size", "stride"), [((65536,), 2048, 1024), ((8, 8), 8, 8), ((1 << 30,), 1, 1)]
)
def test_other_windows_are_left_alone(shape, size, stride):
    dims = len(shape)

    def reduced(x):
        return lax.reduce_window(x, 0.0, lax.add, (size,) * dims, (stride,) * dims, "VALID")

    program = jaxmlir.trace(reduced)(jax.ShapeDtypeStruct(shape, np.float32))
    assert str(program.run_passes("jaxpr-unroll-reductions{calls=inf}")) == str(program)


@pytest.mark.compat
def test_peaks_equal_the_maximum_of_their_window():
    """Both kernels that read an array compare the same numbers, although a product and a sum may be
    rounded as one op in one of them."""

    def peaks(a, b, c):
        x = a * b + c
        return x == lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME")

    args = np.random.RandomState(0).randn(3, 64, 64).astype(np.float32)
    after = jaxmlir.trace(peaks)(*args).optimize(2)
    assert "reduce_window" not in str(after)
    np.testing.assert_array_equal(after(*args), jax.jit(peaks)(*args))


@pytest.mark.compat
def test_gradient_of_pooling():
    """Overlapping maxima and averages, at strides and padded, between functions."""

    def function(x):
        window = (1, 3, 3, 1)
        x = lax.reduce_window(jnp.tanh(x), -jnp.inf, lax.max, window, (1, 2, 2, 1), "SAME")
        x = lax.reduce_window(jnp.sin(x), 0.0, lax.add, window, (1, 2, 2, 1), "SAME") / 9
        return jnp.sum(x**2)

    x = np.random.RandomState(0).randn(4, 32, 32, 8).astype(np.float32)
    after = jaxmlir.trace(function)(x).optimize(2).grad().optimize(2)
    assert "reduce_window" not in str(after)
    np.testing.assert_allclose(after(x), jax.jit(jax.grad(function))(x), 1e-4, 1e-6)

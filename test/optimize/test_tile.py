"""Batches computed some rows at a time: which are tiled, and that numbers equal JAX's."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from sampling import examples

import jaxmlir
from benchmarks.programs import PROGRAMS
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import PipelineError
from jaxmlir.optimize.memory.profile import MemoryProfile
from jaxmlir.rewriting.inline import inlined

R = np.random.RandomState(0)
X = R.randn(14, 6).astype(np.float32)
W = R.randn(6, 8).astype(np.float32)
LABELS = R.randint(0, 8, 14)


def tiled(program, size=4, options=""):
    """The program after the pass, and the remarks."""
    remarks = []
    after = program.run_passes(
        f"jaxpr-tile{{tile-size={size} min-peak=0 {options}}}", remarks=remarks.append
    )
    after.verify()
    return after, [remark.message for remark in remarks]


def loops(program):
    return str(program).count('"jaxpr.scan"')


def same_numbers(got, want, tolerance=1e-5):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        np.testing.assert_allclose(a, b, tolerance, tolerance * max(1.0, np.abs(b).max(initial=0)))


def cross_entropy(w, x, labels):
    logits = x @ w
    chosen = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def attention(q, k, v):
    scores = jnp.einsum("bqd,bkd->bqk", q, k)
    return jnp.sum(jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v) ** 2)


def convolved(w, x):
    y = lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))
    return jnp.sum(jnp.tanh(y) ** 2)


@pytest.mark.parametrize("size", [2, 4, 7, 13])
def test_gradients(size):
    """Gradients of weights, summed over tiles, and of rows; with and without leftover rows."""
    gradient = jaxmlir.trace(cross_entropy)(W, X, LABELS).grad(argnums=(0, 1)).optimize(1)
    after, remarks = tiled(gradient, size)
    assert len(remarks) == loops(after) >= 1
    same_numbers(after(W, X, LABELS), jax.grad(cross_entropy, (0, 1))(W, X, LABELS))


@pytest.mark.compat
def test_several_batches_in_one_program():
    q, k, v = (R.randn(5, 6, 4).astype(np.float32) for _ in range(3))
    after, _ = tiled(jaxmlir.trace(attention)(q, k, v).grad(argnums=(0, 1, 2)).optimize(1), 2)
    assert loops(after) == 1
    same_numbers(after(q, k, v), jax.grad(attention, (0, 1, 2))(q, k, v))


def test_convolutions():
    w, x = R.randn(3, 2, 4).astype(np.float32), R.randn(9, 10, 2).astype(np.float32)
    after, _ = tiled(jaxmlir.trace(convolved)(w, x).grad(argnums=(0, 1)).optimize(1), 2)
    assert loops(after) == 1
    same_numbers(after(w, x), jax.grad(convolved, (0, 1))(w, x))


def test_values_without_dimensions_have_no_rows():
    def function(x):
        lax.create_token(x)
        return jnp.exp(x @ W) @ W.T

    after, _ = tiled(jaxmlir.trace(function)(X))
    assert loops(after) == 1
    same_numbers(after(X), function(X))


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: jnp.sum(jnp.exp(x @ W) @ W.T), 1),
        # A mean over the batch: there is one loop before it, and one after it.
        (lambda x: (e := jnp.exp(x @ W)) / jnp.mean(e, 0) @ W.T, 2),
        # A maximum over the batch: the product may be recomputed after it.
        (lambda x: jnp.sum(jnp.exp((y := x @ W) - jnp.max(y)) @ W.T), 2),
        # Each row needs all other rows.
        (lambda x: jax.nn.softmax(jnp.einsum("ik,jk", x, x)) @ x, 1),
        # Columns can be tiled as well as rows.
        (lambda x: jnp.sum(jnp.cumsum(jnp.sort(jnp.exp(x), 0), 0), 0), 1),
    ],
)
def test_where_loops_are(function, count):
    after, remarks = tiled(jaxmlir.trace(function)(X).optimize(1), 3)
    assert len(remarks) == loops(after) == count
    same_numbers(after(X), jax.jit(function)(X))


REDUCTIONS = [
    (jnp.sum, np.float32),
    (jnp.sum, np.int32),
    (jnp.max, np.float32),
    (jnp.max, np.int8),
    (jnp.min, np.uint8),
    (jnp.min, jnp.bfloat16),
    (jnp.max, jnp.float8_e4m3fn),
    (jnp.min, jnp.float8_e4m3fn),
    (jnp.prod, np.float32),
    (jnp.all, np.bool_),
    (jnp.any, np.bool_),
    (lambda x, axis: jnp.tensordot(x, x, (axis, axis)), np.bool_),
    (lambda x, axis: lax.reduce_and(x, axes=(axis,)), np.int32),
    (lambda x, axis: lax.reduce_or(x, axes=(axis,)), np.int32),
    (lambda x, axis: lax.reduce_xor(x, axes=(axis,)), np.int32),
]


@pytest.mark.parametrize(("reduce", "dtype"), REDUCTIONS)
def test_reductions_over_the_batch(reduce, dtype):
    x = np.asarray(3 * X).astype(dtype)

    def function(x):
        y = lax.sort(lax.select(x > x[:1], x, jnp.flip(x, 1)), dimension=1)
        return reduce(y, axis=0)

    after, _ = tiled(jaxmlir.trace(function)(x).optimize(1), 4)
    assert loops(after) == 1
    got, want = after(x), jax.jit(function)(x)
    same_numbers(got, want)
    if dtype != np.float32:
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_sums_of_few_bits_are_carried_in_more():
    x = jnp.full((4096, 8), 1.0, jnp.bfloat16)

    def function(x):
        return jnp.sum(lax.sort(x * x, dimension=1), 0, dtype=jnp.bfloat16)

    after, _ = tiled(jaxmlir.trace(function)(x).optimize(1), 1)
    assert loops(after) == 1
    np.testing.assert_array_equal(np.asarray(after(x), np.float32), 4096)


def test_special_numbers():
    x = X.copy()
    x[0, :3], x[9, 2:4] = (np.nan, np.inf, -np.inf), (np.nan, -0.0)

    def function(x):
        y = lax.sort(x, dimension=1)
        return jnp.max(y, 0), jnp.sum(y, 0), jnp.min(y, 0), y

    after, _ = tiled(jaxmlir.trace(function)(x).optimize(1), 4)
    for got, want in zip(after(x), jax.jit(function)(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.compat
def test_what_stays():
    """Effects, random bits of a whole batch, small programs and loops are not tiled."""

    def printing(x):
        y = jnp.exp(x @ W)
        jax.debug.print("{}", y[0, 0])
        return jnp.sum(y @ W.T)

    def random(x):
        return jnp.sum(jax.random.normal(jax.random.key(0), x.shape), 0)

    def loop(x):
        return lax.scan(lambda x, _: (jnp.exp(x @ W) @ W.T, None), x, None, length=3)[0]

    for function in (printing, loop):
        program = jaxmlir.trace(function)(X).optimize(1)
        after, remarks = tiled(program)
        assert loops(after) == loops(program), function
    # The bits are drawn at once, but values computed from them may be summed in tiles.
    after, remarks = tiled(jaxmlir.trace(random)(X).optimize(1))
    drawn = [line for line in str(after).splitlines() if "random_bits" in line]
    assert len(drawn) == 1 and "14x6" in drawn[0]
    np.testing.assert_allclose(after(X), random(X), 1e-5, 1e-5)
    program = jaxmlir.trace(lambda x: jnp.exp(x @ W) @ W.T)(X).optimize(1)
    assert str(program.run_passes("jaxpr-tile")) == str(program)
    assert str(program.run_passes("jaxpr-tile{min-peak=0}", target="tpu")) == str(program)
    with pytest.raises(PipelineError, match="'tile-size' of pass 'jaxpr-tile' expects a positive"):
        program.run_passes("jaxpr-tile{tile-size=0}")


@pytest.mark.compat
def test_names_stay_stored():
    """Values that a policy saves by name are not recomputed, neither by tiles."""
    keep = jax.checkpoint_policies.save_only_these_names("kept")

    # The numbers are small, because the sine of a large one depends on the product's rounding.
    @functools.partial(jax.checkpoint, policy=keep)
    def layer(x):
        return jnp.sin(checkpoint_name(jnp.exp(x @ W / 8), "kept")) @ W.T

    def loss(x):
        x = layer(layer(x))
        return jnp.log(jnp.sum(jnp.exp(x)))

    gradient = jaxmlir.trace(loss)(X).optimize(1).grad().optimize(1)
    after, _ = tiled(gradient, 2)
    after = after.run_passes("jaxpr-remat{calls=inf}")
    assert loops(after) >= 1
    assert count_named(after) <= count_named(gradient)
    same_numbers(after(X), jax.grad(loss)(X))


def count_named(program):
    """How often the named value is computed."""
    return str(program).count('name = "kept"')


def test_loops_on_each_side_of_a_reduction_share_no_storage():
    """jaxpr-remat recomputes the values that the first loop would store for the second."""

    def loss(x):
        y = jnp.exp(jnp.sin(x @ W)) @ W.T
        return jax.nn.logsumexp(jnp.sin(y) * 2)

    gradient = jaxmlir.trace(loss)(X).optimize(1).grad().optimize(1)
    remarks = []
    after = gradient.run_passes(
        "jaxpr-tile{tile-size=2 min-peak=0}, jaxpr-remat{calls=inf}",
        remarks=lambda remark: remarks.append(remark.message.partition(" ")[0]),
    )
    assert set(remarks) == {"[jaxpr-tile]", "[jaxpr-remat]"}
    same_numbers(after(X), jax.grad(loss)(X))


@pytest.mark.parametrize("name", ["softmax_memory", "gaussian_mixture"])
def test_memory(name):
    """The pass's default choices take less memory, as the compiler reports."""
    loss, args = PROGRAMS[name].make("full")
    gradient = jaxmlir.trace(loss)(*args).optimize(1).grad().optimize(1)
    after = gradient.run_passes("jaxpr-tile")
    sizes = [p.lower().compile().memory_analysis().temp_size_in_bytes for p in (gradient, after)]
    assert sizes[1] < 0.4 * sizes[0]


def test_what_takes_the_place_of_its_operand_needs_no_memory():
    """A softmax is computed in its logits' buffer: the estimated memory equals the compiler's."""
    loss, args = PROGRAMS["softmax_memory"].make("full")
    program = jaxmlir.trace(loss)(*args).optimize(1)
    with scope():
        copy = program.clone()
        body = FunctionView(inlined(copy.functions, copy.function(copy.name)))
        found = MemoryProfile(body).peak
    compiled = program.lower().compile().memory_analysis().temp_size_in_bytes
    assert compiled / 1.1 < found < compiled * 1.1
    assert not loops(program.run_passes("jaxpr-tile"))


STEPS = {
    "exp": lambda x: jnp.exp(x - jnp.max(x, -1, keepdims=True)),
    "softmax over the batch": lambda x: jax.nn.softmax(x, 0),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "normalize": lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1),
    "center": lambda x: x - jnp.mean(x, 0),
    "scale": lambda x: x * jnp.sqrt(1 + jnp.sum(x * x)),
    "layer": lambda x: jnp.tanh(x @ W) @ W.T,
    "gram": lambda x: x @ (x.T @ x) / 10,
    "mix": lambda x: jnp.sin(x @ x.T) @ x / 10,
    "heads": lambda x: (
        jnp.einsum("bhi,bhj->bhij", *(2 * (x.reshape(x.shape[0], 2, 3),))).sum(-1).reshape(x.shape)
    ),
    "cumsum": lambda x: jnp.cumsum(x, 1) / 6,
    "cumsum over the batch": lambda x: jnp.cumsum(x, 0) / 6,
    "shift": lambda x: (
        jnp.concatenate([x[:, 1:], x[:, :1]], 1) + jnp.pad(x[:, 2:], ((0, 0), (1, 1)))
    ),
    "shift of the batch": lambda x: jnp.concatenate([x[1:], x[:1]]),
    "window": lambda x: lax.dynamic_update_slice(
        x, lax.dynamic_slice(x, (0, jnp.argmax(x[0]) % 3), (x.shape[0], 3)) * 2, (0, 2)
    ),
    "turn": lambda x: jnp.sin(x.T).T,
    "relu": lambda x: jax.nn.relu(x) + jnp.where(x > 0.5, x, 0),
    "select": lambda x: x * jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
    "sort": lambda x: jnp.sort(x, -1),
    "checkpoint": jax.checkpoint(lambda x: jnp.tanh(jnp.sin(x) * 2)),
    "pick": lambda x: x + jnp.asarray(W)[:, :6][jnp.argmax(x, 1)],
}


@examples(8)
@hypothesis.given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    st.integers(2, 9),
    st.booleans(),
)
def test_random_programs(steps, size, clean):
    """Results differ by rounding only: sums over the batch are in another order."""

    def loss(x):
        for step in steps:
            x = jnp.tanh(STEPS[step](x))
        return jnp.mean(jnp.sin(x) * x)

    program = jaxmlir.trace(loss)(X).optimize(1).value_and_grad()
    program = program.optimize(1) if clean else program
    after, _ = tiled(program, size)
    after = after.run_passes("jaxpr-remat{calls=inf}, jaxpr-canonicalize, jaxpr-cse, jaxpr-dce")
    same_numbers(after(X), jax.jit(jax.value_and_grad(loss))(X), 1e-4)

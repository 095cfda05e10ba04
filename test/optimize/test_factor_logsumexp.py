"""Log-sum-exps with loop constants as logs of products: which are rewritten, and their numbers."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.special import logsumexp
from sampling import examples

import jaxmlir
from jaxmlir.passes import level_pipeline

K, STEPS = 16, 12
RNG = np.random.RandomState(0)
X = RNG.randn(K).astype(np.float32)
B = RNG.randn(K, K).astype(np.float32)
BATCH = RNG.randn(3, K).astype(np.float32)


def rewritten(function, *args, options=""):
    """The program after the pass, and how many sums have become products."""
    remarks = []
    factor = f"jaxpr-factor-logsumexp{{calls=inf {options}}}"
    pipeline = f"{level_pipeline(1)},{factor},jaxpr-cse,jaxpr-dce"
    after = jaxmlir.trace(function)(*args).run_passes(pipeline, remarks=remarks.append)
    after.verify()
    return after, sum("become a product" in remark.message for remark in remarks)


def loop(step, length=STEPS):
    """A loop of steps, which centres the state, as otherwise it might grow or shrink."""

    def function(x, b):
        def body(x, _):
            x = step(x, b)
            return x - jnp.mean(x), None

        return lax.scan(body, x, None, length=length)[0]

    return function


def by_hand(x, b):
    t = x[:, None] + b
    m = jnp.max(t, axis=0)
    return m + jnp.log(jnp.sum(jnp.exp(t - m[None, :]), axis=0))


def by_hand_stopped(x, b, shift, subtracted):
    """A log-sum-exp by hand; either use of the maximum may be under a stop_gradient."""

    def without(m, stop):
        return lax.stop_gradient(m) if stop else m

    t = x[:, None] + b
    m = jnp.max(t, axis=0)
    terms = jnp.exp(t - without(m, subtracted)[None, :])
    return without(m, shift) + jnp.log(jnp.sum(terms, axis=0))


def scaled_by_hand(x, b, scale):
    """A log-sum-exp by hand of scaled terms, the maximum scaled afterwards."""
    t = x[:, None] + b
    m = lax.stop_gradient(jnp.max(t, axis=0) / scale)
    return m + jnp.log(jnp.sum(jnp.exp(t / scale - m[None, :]), axis=0))


def masked(x, b):
    new = logsumexp(x[:, :, None] + b[None], axis=1)
    return jnp.where(np.array([True, False, True])[:, None], new, x)


def both_ways(x, b):
    """A step of Sinkhorn's method, with terms inside the sum that are constant along it."""
    y = x - logsumexp((x[:, None] - b) / 0.5 + x[None], axis=1)
    return y + 0.5 * logsumexp(-(b - y[:, None]) * 2 - y[None], axis=0)


def repeated(x, b):
    """Sums also over a dimension that no term depends on."""
    return logsumexp(jnp.broadcast_to((b + x[:, None])[:, :, None], (K, K, 3)), axis=(0, 2))


def repeated_apart(x, b):
    x, b = (jnp.broadcast_to(t[:, :, None], (K, K, 3)) for t in (x[:, None], b))
    return jnp.sin(b[:, 0, 0]) * logsumexp(b + x, axis=(0, 2)) / 8


def spread(x, b):
    """Only one term inside the sum depends on the dimension that remains."""
    inner, outer, constant = x[:, None], x[None], b[:, :1]
    terms = sum(jnp.broadcast_to(t, (K, K)) for t in (inner, outer, constant))
    return jnp.sin(x) * logsumexp(terms, axis=0) / 8


def spread_of_nothing(x, b):
    inner, constant = (jnp.broadcast_to(t, (K, K)) for t in (x[:, None], b[:, :1]))
    return jnp.sin(x) * logsumexp(inner + constant, axis=0) / 8


def doubled(x, b):
    """A sum of 2**30 equal terms, written in 30 steps."""
    t = x[:, None] + b
    for _ in range(30):
        t = t + t
    return logsumexp(t * 2.0**-30, axis=0)


def of_another_order(x, b):
    """Adds a maximum to the logarithm of a sum with its dimensions transposed."""
    t = x[:, :, None] + b[:, None]
    m = jnp.max(t, axis=0)
    total = jnp.sum(jnp.exp(t - m), axis=0)
    return (m + jnp.log(lax.reshape(total, (K, K), dimensions=(1, 0)))) / 8


def halved(x, b):
    t = x[:, None] + b
    for k in range(1200):
        t = t * (0.5 if k % 2 else 2.0)
    return logsumexp(t, axis=0)


def scaled_by_argument(x, b):
    return logsumexp((x[:, None] + b) / b[0, 0], axis=0)


FOUND = {
    "vector": (lambda x, b: logsumexp(x[:, None] + b, axis=0), X, 1),
    "other axis": (lambda x, b: logsumexp(b + x, axis=1), X, 1),
    "kept dimension": (lambda x, b: logsumexp(x[:, None] + b, 0, keepdims=True)[0], X, 1),
    "by hand": (by_hand, X, 1),
    "by hand, stopped": (functools.partial(by_hand_stopped, shift=True, subtracted=True), X, 1),
    "shift stopped": (functools.partial(by_hand_stopped, shift=True, subtracted=False), X, 0),
    "subtracted stopped": (functools.partial(by_hand_stopped, shift=False, subtracted=True), X, 0),
    "scaled by hand": (functools.partial(scaled_by_hand, scale=0.5), X, 1),
    "batch": (masked, BATCH, 1),
    "matrix of each": (lambda x, b: logsumexp(x[:, :, None] + b * x[:1, :1, None], 1), BATCH, 0),
    "both ways": (both_ways, X, 2),
    "scaled by argument": (scaled_by_argument, X, 1),
    "number": (lambda x, b: logsumexp((x[:, None] - b) / 2 - b[0, 0] + x[0], axis=0), X, 1),
    "difference": (lambda x, b: logsumexp(-b - (-x[:, None]), axis=0), X, 1),
    "repeated": (repeated, X, 0),
    "repeated apart": (repeated_apart, X, 1),
    "spread": (spread, X, 1),
    "spread of nothing": (spread_of_nothing, X, 1),
    "of another order": (of_another_order, B @ B, 0),
}


def in_64_bits(function, *args):
    with jax.enable_x64(True):
        found = function(*(np.asarray(a, np.float64) for a in args))
        return jax.tree.map(np.asarray, found)


def same(program, function, *args, jacobian=jax.jacrev, rtol=2e-5):
    """Checks that values and derivatives are about as accurate as JAX's."""

    def both(f):
        return lambda *args: (f(*args), *jacobian(f, tuple(range(len(args))))(*args))

    for got, want in zip(both(program)(*args), in_64_bits(both(function), *args), strict=True):
        np.testing.assert_allclose(got, want, rtol, rtol * np.abs(want).max())


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize(("step", "x", "count"), FOUND.values(), ids=FOUND)
def test_sums_are_products(step, x, count):
    function = loop(step)
    program, found = rewritten(function, x, B)
    assert found == count
    assert ("jaxpr.cond" in str(program)) == (count > 0)
    same(program, function, x, B)


@pytest.mark.parametrize("step", [doubled, halved])
def test_terms_of_long_programs(step):
    function = loop(step)
    program = jaxmlir.trace(function)(X, B).run_passes(
        "jaxpr-inline,jaxpr-factor-logsumexp{calls=inf}"
    )
    np.testing.assert_allclose(program(X, B), jax.jit(function)(X, B), rtol=1e-3, atol=1e-3)


@pytest.mark.compat
def test_each_loop_has_its_own_numbers():
    """Loops that differ only in constants are rewritten alike."""

    def function(x, b):
        for rate in (0.5, 0.25, 2.0):
            x = loop(lambda x, b, r=rate: logsumexp(x[:, None] * r + b / (r + 1), axis=0))(x, b)
        return x

    program, found = rewritten(function, X, B)
    assert found == 3
    same(program, function, X, B)


@pytest.mark.compat
def test_loops_that_share_a_body_or_have_one_that_is_alike():
    """The loops have two lengths, several sums in an iteration, and different constants."""

    def step(x, b, rate):
        y = logsumexp(x[:, None] + jnp.sin(b * rate), axis=0)
        return logsumexp(y[:, None] * (1 - rate) + b / (rate + 1), axis=0)

    def function(x, b):
        total = 0.0
        for rate in (0.5, 0.25, 0.75):

            @jax.jit
            def body(x, b, rate=rate):
                return step(x, b, rate)

            for start, length in enumerate((STEPS, STEPS + 3, STEPS)):
                total += loop(body, length)(x * start, b)
        return total

    program, _ = rewritten(function, X, B)
    assert str(program).count('"jaxpr.cond"') == 9
    same(program, function, X, B)


@pytest.mark.parametrize("limits", [(-np.inf, 0.0), (0.0, -np.inf)])
def test_constants_are_asked_for_what_decides(limits):
    """The bodies differ in a constant: one shifts by the maximum, the other one may not."""

    def step(x, b, least):
        t = x[:, None] + b
        m = jnp.maximum(np.float32(least), jnp.max(t, axis=0))
        return m + jnp.log(jnp.sum(jnp.exp(t - m[None, :]), axis=0))

    def function(x, b):
        for least in limits:
            x = loop(functools.partial(step, least=least))(x, b)
        return x

    program, found = rewritten(function, X, B)
    assert found == 1
    same(program, function, X, B)


NOT_FOUND = {
    "matrix changes": lambda x, b: logsumexp(x[:, None] + b * x[0], axis=0),
    "nothing is the same": lambda x, b: logsumexp(x[:, None] + x[None] * b[0, 0], axis=0),
    "as large": lambda x, b: logsumexp(x[:, None] * b + b, axis=0),
    "other shift": lambda x, b: jnp.log(jnp.sum(jnp.exp(x[:, None] + b - 1), 0)) + 1,
    "selected shift": lambda x, b: (
        jnp.log(jnp.sum(jnp.exp(x[:, None] + b - x[None]), 0))
        + lax.select_n(jnp.int32(x > 0), x, jnp.max(x[:, None] + b, 0), x)
    ),
    "shift along": lambda x, b: (
        jnp.log(jnp.sum(jnp.exp(x[:, None] + b - jnp.max(x[:, None] + b, 0)[:, None]), 0))
        + jnp.max(x[:, None] + b, 0)
    ),
    "scaled by a negative number": functools.partial(scaled_by_hand, scale=-2.0),
    "weights are used": lambda x, b: (
        logsumexp(x[:, None] + b, axis=0)
        + jnp.sum(jnp.exp(x[:, None] + b - lax.stop_gradient(jnp.max(x[:, None] + b, 0))), 1)
    ),
    "narrow": lambda x, b: logsumexp((x[:, None] + b).astype(jnp.bfloat16), 0).astype(x.dtype),
    "little of the work": lambda x, b: (
        logsumexp(x[:, None] + b, axis=0) + jnp.tanh(jnp.linalg.inv(b + x[0]) @ b @ b)[0]
    ),
}


@pytest.mark.parametrize("step", NOT_FOUND.values(), ids=NOT_FOUND)
def test_sums_that_stay(step):
    function = loop(step)
    program, found = rewritten(function, X, B)
    assert found == 0
    np.testing.assert_allclose(program(X, B), jax.jit(function)(X, B), 1e-5, 1e-5)


def test_loops_that_stay():
    step, *_ = FOUND["vector"]
    assert rewritten(loop(step, 7), X, B)[1] == 0
    assert rewritten(loop(step), X[:8], B[:8, :8])[1] == 0
    assert rewritten(loop(step), X[:8], B[:8, :8], options="min-elements=64")[1] == 0
    options = "min-iterations=7 min-elements=64 min-ratio=8"
    assert rewritten(loop(step, 7), X[:8], B[:8, :8], options=options)[1] == 1


def test_loops_that_take_longer_to_compile_than_they_save():
    step, *_ = FOUND["vector"]
    b = RNG.randn(64, 64).astype(np.float32)
    for length, count in ((50, 0), (200, 1)):
        program = jaxmlir.trace(loop(step, length))(b[0], b).optimize(2)
        assert str(program).count("jaxpr.cond") == count


@pytest.mark.compat
def test_derivatives_are_not_given_versions_again():
    """If JAX has taken the derivative, its loops are not split into two versions again."""
    function = loop(FOUND["vector"][0], 200)
    b = RNG.randn(64, 64).astype(np.float32)
    gradient = jax.grad(lambda x, b: jnp.sum(function(x, b) ** 2))
    got, want = jaxmlir.jit(gradient, optimize=2), jax.jit(gradient)
    assert got.lower(b[0], b).as_text().count("stablehlo.while") == 4
    for far in (b, 60 * b):
        expected = want(b[0], far)
        np.testing.assert_allclose(got(b[0], far), expected, 1e-3, 1e-4 * np.abs(expected).max())


def test_two_dimensions_are_summed():
    options = "min-ratio=1"
    function = loop(lambda x, b: logsumexp(x[:, None, None] + b[:, :, None] + b[0], axis=(0, 2)))
    program, found = rewritten(function, X, B, options=options)
    assert found == 1
    same(program, function, X, B)


def test_loop_in_a_loop():
    """The matrix is a constant of both loops; each outer iteration chooses the version once."""

    def function(x, b):
        inner = loop(FOUND["vector"][0])
        return lax.scan(lambda x, s: (inner(x + s, b), None), x, np.ones(3, np.float32))[0]

    program, found = rewritten(function, X, B)
    assert found == 1
    same(program, function, X, B)


def test_loop_after_a_loop():
    step = loop(FOUND["vector"][0])
    other = loop(lambda x, b: logsumexp(2 * x[:, None] + b, axis=0))
    program, found = rewritten(lambda x, b: step(other(step(x, b), b), b), X, B)
    # The first and the last loop share one body.
    assert found == 2
    assert str(program).count("jaxpr.cond") == 3
    same(program, lambda x, b: step(other(step(x, b), b), b), X, B)


def test_unrolled_loop():
    """The loop is rolled up, although unchanged it would store all exponentials."""

    def function(x, b):
        for i in range(20):
            x = logsumexp(x[:, None] + b, axis=0) - b[i % 3]
        return x

    b = RNG.randn(160, 160).astype(np.float32)
    program = jaxmlir.trace(function)(b[0], b).optimize(2)
    assert "far_apart" in str(program)
    same(program, function, b[0], b)


def only(step):
    """A loop of steps without centring, so that infinities stay."""
    return lambda x, b: lax.scan(lambda x, _: (step(x, b), None), x, None, length=STEPS)[0]


EXTREME = [-np.inf, np.inf, np.nan, -1e3, 1e3, 3e38, -3e38]


def with_value(array, value):
    """Copies of an array with a value in one place, in several, and everywhere."""
    for at in (np.s_[2:3], np.s_[2], np.s_[1:], np.s_[..., 3], np.s_[:]):
        changed = array.copy()
        changed[at] = value
        yield changed


@pytest.mark.sampled
@pytest.mark.parametrize("value", EXTREME)
@pytest.mark.parametrize("name", ["vector", "by hand"])
def test_extreme_numbers(name, value):
    """Infinite and NaN results stay infinite and NaN."""
    function = only(FOUND[name][0])
    program, found = rewritten(function, X, B)
    assert found == 1
    cases = [(x, B) for x in with_value(X, value)] + [(X, b) for b in with_value(B, value)]
    # Terms added to these huge numbers are lost to rounding, before or after summation.
    lost = abs(value) > 1e30 and np.isfinite(value)
    for of in [jax.jit] if lost else [jax.jit, lambda f: jax.jit(jax.jacrev(f, (0, 1)))]:
        got, want = of(program), of(function)
        for args in cases:
            for a, b in zip(jax.tree.leaves(got(*args)), jax.tree.leaves(want(*args)), strict=True):
                np.testing.assert_allclose(a, b, 5e-4, 5e-5)


@pytest.mark.compat
def test_derivatives_and_batches():
    function = loop(FOUND["vector"][0])
    program, _ = rewritten(function, X, B)
    # The constants are close to one another, or far apart.
    for b in (B, 60 * B):
        same(program, function, X, b, jacobian=jax.jacfwd)
        got, want = (
            jax.hessian(lambda x, f=f, b=b: jnp.sum(f(x, b) ** 2))(X) for f in (program, function)
        )
        np.testing.assert_allclose(got, want, 1e-3, 1e-4 * np.abs(want).max())
    both = np.stack([B, 60 * B])
    got, want = (f(X, both) for f in (program.vmap((None, 0)), jax.vmap(function, (None, 0))))
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@functools.cache
def compiled(name):
    step, x, _ = FOUND[name]
    program, found = rewritten(loop(step), x, B)
    assert found
    return jax.jit(program), jax.jit(loop(step)), x.shape


@examples(50)
@hypothesis.given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.01, 1.0, 4.0, 5.0, 6.0, 20.0, 300.0]),
    of_state=st.sampled_from([0.1, 10.0, 1000.0]),
    name=st.sampled_from(["vector", "batch", "both ways", "other axis"]),
)
def test_random_numbers(seed, scale, of_state, name):
    """Numbers for which either of the two versions runs."""
    program, function, shape = compiled(name)
    rng = np.random.RandomState(seed)
    x = (of_state * rng.randn(*shape)).astype(np.float32)
    b = (scale * rng.randn(K, K)).astype(np.float32)
    want = in_64_bits(function, x, b)
    # JAX's own error for numbers of this size.
    off = np.abs(np.asarray(function(x, b), np.float64) - want).max()
    rounded = 1e-5 + 1e-7 * np.abs(x).max()
    np.testing.assert_allclose(program(x, b), want, 1e-5, 4 * off + rounded)

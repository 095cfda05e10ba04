"""Random numbers drawn in one loop equal those that JAX draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir._compat import jax_version
from jaxmlir.optimize.loops.roll_calls import NUMBERS_SINCE

pytestmark = pytest.mark.compat

X = np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3)
MASKS_ALONE = jax_version() < NUMBERS_SINCE


def loops(program):
    return str(program).count('"jaxpr.scan"')


def mapped(function, *args, pipeline="jaxpr-roll-calls", target=None):
    """A cleaned-up program before and after the pass."""
    program = jaxmlir.trace(function)(*args).optimize(1)
    return program, program.run_passes(pipeline, target=target)


def dropped(x, key, rate=0.7):
    return jnp.where(jax.random.bernoulli(key, rate, x.shape), x / rate, 0.0)


def with_dropout(x, key, layers=5):
    for i in range(layers):
        x = dropped(jnp.tanh(x + i), jax.random.fold_in(key, i))
    return x


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_masks_of_layers(make):
    # The arrays are large, because other passes batch small ones.
    x, key = np.linspace(-1.0, 1.0, 4096, dtype=np.float32).reshape(64, 64), make(3)
    program, after = mapped(with_dropout, x, key)
    assert (loops(program), loops(after)) == (0, 1)
    np.testing.assert_array_equal(after(x, key), jax.jit(with_dropout)(x, key))
    want = jax.jit(jax.grad(lambda x: with_dropout(x, key).sum()))(x)
    loss = jaxmlir.trace(lambda x: with_dropout(x, key).sum())(x).optimize(2)
    assert loops(loss) == 1
    for gradient in (loss.grad(), loss.grad().optimize(2), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(gradient(x), want, 1e-6, 1e-6)
    keys = jax.random.split(key, 4)
    batch = after.vmap((None, 0), axis_size=4)
    np.testing.assert_allclose(batch(x, keys), [with_dropout(x, k) for k in keys], 1e-6)


@pytest.mark.skipif(MASKS_ALONE, reason="XLA copies what a loop stacks")
def test_numbers_of_several_shapes_and_distributions():
    def initialized(key):
        shapes = [(3, 2), (2,)] * 5
        keys = jax.random.split(key, len(shapes))
        drawn = [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
        more = [jax.random.uniform(k, (4,), minval=-1.0, maxval=i) for i, k in enumerate(keys)]
        return drawn, more

    key = jax.random.key(1)
    _, after = mapped(initialized, key)
    assert loops(after) == 3
    for a, b in zip(*map(jax.tree.leaves, (after(key), jax.jit(initialized)(key))), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_left_alone():
    key = jax.random.key(0)
    _, after = mapped(lambda x, k: with_dropout(x, k, 3), X, key)
    assert loops(after) == 0
    _, after = mapped(with_dropout, X, key, target="cuda")
    assert loops(after) == 0
    # With rbg, each draw is a single instruction.
    rbg = jax.random.key(0, impl="rbg")
    _, after = mapped(with_dropout, X, rbg)
    assert loops(after) == 0

    def given_arrays(x, key):
        @jax.jit
        def masked(key, x):
            return jax.random.bernoulli(key, 0.5, x.shape) & (x > jnp.sin(jnp.cos(x * 2)) / 3)

        return [masked(jax.random.fold_in(key, i), x + i) for i in range(5)]

    large = np.ones((40, 50), np.float32)
    _, after = mapped(given_arrays, large, key)
    assert loops(after) == 0


def test_what_is_drawn_of_what_was_drawn():
    def walk(key):
        n = jnp.uint32(0)
        seen = []
        for i in range(6):
            mask = jax.random.bernoulli(jax.random.fold_in(key, n), 0.5, (8,))
            other = jax.random.bernoulli(jax.random.fold_in(key, i), 0.5, (8,))
            n = n + mask.sum().astype(np.uint32) + other[0]
            seen += [mask, other]
        return jnp.stack(seen)

    key = jax.random.key(2)
    _, after = mapped(walk, key)
    assert loops(after) == 1
    np.testing.assert_array_equal(after(key), jax.jit(walk)(key))


def test_calls_within_loops_and_branches():
    def body(x, key):
        return lax.scan(lambda c, k: (with_dropout(c, k), c[0, 0]), x, jax.random.split(key, 3))

    key = jax.random.key(5)
    _, after = mapped(body, X, key)
    assert loops(after) == 2
    jax.tree.map(np.testing.assert_array_equal, after(X, key), jax.jit(body)(X, key))


DRAWS = {
    "mask": lambda k, i: jax.random.bernoulli(k, 0.4, (2, 3)).astype(np.float32),
    "other mask": lambda k, i: jax.random.bernoulli(k, 0.1 + 0.1 * i, (2, 3)).astype(np.float32),
    "numbers": lambda k, i: jax.random.normal(k, (2, 3)),
    "integers": lambda k, i: jax.random.randint(k, (2, 3), 0, 5).astype(np.float32),
    "order": lambda k, i: jax.random.permutation(k, 6).reshape(2, 3).astype(np.float32),
}


@examples(10)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(DRAWS)), st.sampled_from(["split", "fold", "drawn"])),
        min_size=4,
        max_size=14,
    ),
    st.booleans(),
)
def test_any_order_of_draws(draws, is_raw):
    def function(x, key):
        for i, (name, how) in enumerate(draws):
            if how == "split":
                key, own = jax.random.split(key)
            elif how == "fold":
                own = jax.random.fold_in(key, i)
            else:
                own = jax.random.fold_in(key, jnp.abs(x[0, 0] * 10).astype(np.uint32))
            x = jnp.sin(x) + 0.3 * DRAWS[name](own, i)
        return x

    key = (jax.random.PRNGKey if is_raw else jax.random.key)(len(draws))
    _, after = mapped(function, X, key, pipeline="jaxpr-roll-calls{min-calls=2}")
    np.testing.assert_allclose(after(X, key), jax.jit(function)(X, key), 1e-6, 1e-6)
    twice = after.run_passes("jaxpr-roll-calls{min-calls=2}")
    assert str(twice) == str(after)

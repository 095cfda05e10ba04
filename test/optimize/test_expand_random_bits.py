"""Random bits and keys of a hash without a loop, against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p

import jaxmlir

EXPAND = "jaxpr-expand-random-bits"
KEY = jax.random.key(3)
DRAWN = {
    "no dimension": lambda key: jax.random.bits(key),
    "eight bits": lambda key: jax.random.bits(key, (9,), jnp.uint8),
    "sixteen bits": lambda key: jax.random.bits(key, (3, 2), jnp.uint16),
    "bits of keys": lambda key: jax.vmap(lambda k: jax.random.bits(k, (5, 7)))(
        jax.random.split(key, 4)
    ),
    "split": lambda key: jax.random.split(key, (2, 3)),
    "split keys": lambda key: jax.vmap(jax.random.split)(jax.random.split(key, 5)),
    "fold in": lambda key: jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(4) - 2),
    "fold in pairs": lambda key: jax.vmap(jax.random.fold_in)(
        jax.random.split(key, 3), jnp.arange(3, dtype=jnp.uint8)
    ),
    "the hash itself": lambda key: threefry2x32_p.bind(
        jnp.uint32(5), jnp.uint32(7), jnp.zeros(6, jnp.uint32), jax.random.bits(key, (6,))
    ),
    "in a loop": lambda key: jax.lax.scan(
        lambda carry, k: (carry + jax.random.normal(k, (3,)), None),
        jnp.zeros(3),
        jax.random.split(key, 4),
    )[0],
}
LEFT = {
    "another generator": lambda key: jax.random.bits(jax.random.key(1, impl="rbg"), (8,)),
    "no element": lambda key: jax.random.bits(key, (0, 3)),
    "bits that are not partitionable": lambda key: not_partitionable(key),
}


def not_partitionable(key):
    with jax.threefry_partitionable(False):
        return jax.random.bits(key, (4,))


def data(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def hashes(program):
    names = ("random_bits", "random_fold_in", "random_split", "threefry2x32")
    return sum(str(program).count(f'"jaxpr.{name}"') for name in names)


@pytest.mark.compat
@pytest.mark.parametrize("drawn", DRAWN.values(), ids=DRAWN)
def test_same_bits_as_jax(drawn):
    program = jaxmlir.trace(drawn)(KEY)
    after = program.run_passes(EXPAND)
    after.verify()
    assert hashes(program) > hashes(after) == 0
    for ours, theirs in zip(
        jax.tree.leaves(after(KEY)), jax.tree.leaves(jax.jit(drawn)(KEY)), strict=True
    ):
        np.testing.assert_array_equal(data(ours), data(theirs))


def test_bits_of_64():
    with jax.enable_x64(True):
        program = jaxmlir.trace(lambda key: jax.random.bits(key, (5,), jnp.uint64))(KEY)
        bits = np.asarray(jax.random.bits(KEY, (5,), jnp.uint64))
    after = program.run_passes(EXPAND)
    assert hashes(program) > hashes(after) == 0
    np.testing.assert_array_equal(after(KEY), bits, strict=True)


@pytest.mark.parametrize("drawn", LEFT.values(), ids=LEFT)
def test_left_alone(drawn):
    program = jaxmlir.trace(drawn)(KEY)
    assert hashes(program) == hashes(program.run_passes(EXPAND)) > 0


def test_dropout_is_differentiated_and_batched():
    def loss(x, key):
        kept = jax.random.bernoulli(key, 0.7, x.shape)
        return jnp.sum(jnp.where(kept, x / 0.7, 0.0) ** 2)

    def gradients(xs, key):
        return jax.vmap(jax.grad(loss))(xs, jax.random.split(key, 3))

    xs = np.random.default_rng(0).standard_normal((3, 40), np.float32)
    ours = jaxmlir.jit(gradients, optimize=2)
    assert "while" not in ours.lower(xs, KEY).as_text()
    np.testing.assert_allclose(ours(xs, KEY), jax.jit(gradients)(xs, KEY), 1e-6)

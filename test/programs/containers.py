"""Programs with special arguments and results: pytrees, keys, closed-over constants, weak types."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from programs._table import Program, program


class Moments(NamedTuple):
    mean: jax.Array
    variance: jax.Array


@jax.tree_util.register_dataclass
@dataclass
class Particle:
    """A user's own pytree node."""

    position: jax.Array
    velocity: jax.Array


@program
def pytrees() -> Program:
    """Dicts, named tuples, lists, a user's class, None and empty containers, in and out."""

    def pytrees(tree, moments, particle):
        total = sum(leaf.sum() for leaf in jax.tree.leaves(tree))
        return {
            "total": total,
            "moments": Moments(moments.mean + total, moments.variance),
            "particle": Particle(particle.position + particle.velocity, particle.velocity),
            "nothing": None,
            "empty": [(), {}],
            "list": [tree["a"][0], (tree["b"]["c"],)],
        }

    tree = {
        "a": [np.ones(3, np.float32), None],
        "b": {"c": np.arange(4, dtype=np.int32), "empty": ()},
    }
    particle = Particle(np.zeros(2, np.float32), np.ones(2, np.float32))
    return pytrees, (tree, Moments(np.float32(1.0), np.ones(2, np.float32)), particle)


@program
def forwarded_results() -> Program:
    """An argument returned as it is, twice; a constant result; an argument nobody reads."""

    def forwarded_results(x, y, unused):
        return x, x, y + 1, 3.0, jnp.zeros(2), np.int32(4)

    return forwarded_results, (np.float32(1.0), np.float32(2.0), np.ones(3, np.float32))


@program
def random_keys() -> Program:
    """Keys, and arrays of keys, as arguments, loop state and results."""

    def random_keys(key, keys, legacy):
        def step(key, _):
            key, used = jax.random.split(key)
            return key, jax.random.normal(used)

        key, samples = jax.lax.scan(step, key, None, length=3)
        batched = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(keys)
        return {
            "key": key,
            "samples": samples,
            "batched": batched,
            "keys": jnp.concatenate([keys[1:], key[None]]),
            "chosen": jnp.where(samples > 0, keys, keys[::-1]),
            "legacy": jax.random.split(legacy),
        }

    keys = jax.random.split(jax.random.key(1), 3)
    return random_keys, (jax.random.key(0), keys, jax.random.PRNGKey(2))


@program
def closed_over_constants() -> Program:
    """Large arrays, and values whose bits must not change."""
    rng = np.random.RandomState(0)
    large = rng.standard_normal((256, 128)).astype(np.float32)
    on_device = jnp.asarray(rng.standard_normal((128, 64)), jnp.bfloat16)
    # Two NaNs with different payloads, negative zero, infinities, a subnormal.
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800000, 0xFF800000, 1], np.uint32)
    exact = {
        "float32": bits.view(np.float32),
        "bfloat16": np.array([0x7FC1, 0x8000, 1], np.uint16).view(ml_dtypes.bfloat16),
        "float8": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn),
        "int4": np.arange(-8, 8).astype(ml_dtypes.int4),
        "complex": np.array([complex(-0.0, np.nan), 1 - 2j], np.complex64),
        "bool": np.array([True, False]),
        "uint32": np.array([2**32 - 1], np.uint32),
        "empty": np.zeros((0, 3), np.float32),
        "key": jax.random.key(3),
    }

    def closed_over_constants(x):
        product = x @ large @ on_device.astype(jnp.float32)
        # A select keeps the constant in the program, and does not change its bits.
        kept = {name: jax.lax.select(x[0] < 1e9, c, c) for name, c in exact.items()}
        return product, kept

    return closed_over_constants, (np.ones(256, np.float32),)


@program
def weak_types() -> Program:
    """Python scalars as arguments, constants and loop state."""

    def weak_types(x, i, scale):
        carried, _ = jax.lax.scan(lambda c, x: (c * 0.5, x * i), 2.0, x)
        return x * scale + 1, i + 1, scale * 2, carried, jnp.where(x > 0, 1.0, scale)

    return weak_types, (np.ones(3, np.float16), 3, 0.5)


@program
def float0_tangents() -> Program:
    """Integer arguments of a differentiated function: their cotangents are float0."""

    def float0_tangents(x, i):
        value, pullback = jax.vjp(lambda x, i: x[i] ** 2, x, i)
        gradient, nothing = pullback(jnp.ones_like(value))
        assert nothing.dtype == jax.dtypes.float0
        return value, gradient

    return float0_tangents, (np.array([1.0, 2.0, 3.0], np.float32), np.array([0, 2], np.int32))


@program
def empty_and_scalar_shapes() -> Program:
    def empty_and_scalar_shapes(empty, scalar):
        return (
            empty.sum(),
            jnp.concatenate([empty, jnp.ones((2, 3))]),
            empty.T @ empty,
            scalar.reshape(1, 1),
            jnp.broadcast_to(scalar, (2, 0)),
        )

    return empty_and_scalar_shapes, (np.zeros((0, 3), np.float32), np.float32(2.0))


@program
def einsums_and_indexing() -> Program:
    def einsums_and_indexing(a, b, i):
        return {
            "einsum": jnp.einsum("bij,bjk->bik", a, b),
            "contraction": jnp.einsum("bij,bjk,bki->", a, b, a),
            "advanced": a[:, i, None, i],
            "slices": (a[::-1, 1:, ::2], jnp.flip(a), jnp.roll(a, 1, 0)),
            "dynamic": jax.lax.dynamic_slice(a, (0, i[0], 0), (1, 2, 2)),
            "update": jax.lax.dynamic_update_slice(a, b[:1], (i[1], 0, 0)),
            "masked": jnp.where(jnp.tri(3, dtype=bool), a, 0.0),
            "padding": jnp.pad(a, ((1, 1), (0, 0), (2, 0)), mode="reflect"),
            "tensordot": jnp.tensordot(a, b, axes=((0, 2), (0, 1))),
            "kron": jnp.kron(a[0], b[0]),
        }

    rng = np.random.RandomState(0)
    a, b = rng.standard_normal((2, 4, 3, 3)).astype(np.float32)
    return einsums_and_indexing, (a, b, np.array([1, 0], np.int32))

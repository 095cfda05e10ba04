"""Products in another order: the same numbers, exactly for integers, whatever they are made of."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import budget

import jaxmlir

pytestmark = pytest.mark.compat

PASSES = ("jaxpr-reassociate", "jaxpr-gather-dot")
INDICES = np.array([2, 0, 2, 5, 1, 1, -1, 9, 3, 0])

# Each takes values of a dtype and gives one, or none where their shapes do not suit.


def matmul(x, y):
    for axis, size in enumerate(y.shape):
        if size == x.shape[-1]:
            return jnp.tensordot(x, y, (x.ndim - 1, axis))
    return None


def batched(x, y):
    if x.ndim < 2 or y.ndim < 2 or x.shape[:2] != y.shape[:2]:
        return None
    return jnp.einsum("ij...,ij...->i...", x, y) if x.shape == y.shape else None


def product(x, y):
    if x.shape[-1:] != y.shape[:1] or y.ndim > 2:
        return None
    return x[..., None] * y if y.ndim > 1 else x * y


def merged(x, _):
    if x.ndim > 1:
        return x.reshape(-1, *x.shape[2:])
    return x.reshape(2, -1) if x.size % 2 == 0 else None


def diagonal(x, _):
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        return None
    return jnp.where(jnp.eye(len(x), dtype=bool), x, 0)


def taken(mode, x, _):
    return x.at[INDICES].get(mode=mode, **({"fill_value": 0} if mode == "fill" else {}))


def added(x, _):
    return jax.ops.segment_sum(x, np.resize(INDICES, len(x)), num_segments=4)


def updated(x, _):
    return lax.dynamic_update_slice_in_dim(jnp.zeros((6, *x.shape[1:]), x.dtype), x[:2], 5, 0)


STEPS = {
    "matmul": matmul,
    "batched": batched,
    "product": product,
    "elementwise": lambda x, y: x * y if x.shape == y.shape else None,
    "transposed": lambda x, _: x.T,
    "merged": merged,
    "spread": lambda x, _: jnp.broadcast_to(x, (2, *x.shape)) if x.ndim < 3 else None,
    "summed": lambda x, _: x.sum(0, dtype=x.dtype) if x.ndim > 1 else None,
    "scaled": lambda x, y: -3 * x * y[(0,) * y.ndim],
    "diagonal": diagonal,
    "filled": functools.partial(taken, "fill"),
    "clipped": functools.partial(taken, "clip"),
    "added": added,
    "sliced": lambda x, _: x[1::2] if len(x) > 1 else None,
    "one": lambda x, _: x[-1] if x.ndim > 1 else None,
    "moving": lambda x, _: lax.dynamic_slice_in_dim(x, 1, 2) if len(x) > 2 else None,
    "padded": lambda x, _: lax.pad(x, x.dtype.type(0), [(1, 2, 1), *[(0, 0, 0)] * (x.ndim - 1)]),
    "updated": updated,
}
SHAPES = [(4, 6), (6, 4), (4, 4), (6,), (2, 4, 6)]

numbers = st.integers(0, 9)
programs = st.lists(
    st.tuples(st.sampled_from([*STEPS, "matmul", "matmul"]), numbers, numbers),
    min_size=3,
    max_size=12,
)


def run(steps, *args):
    """Each step takes two of the values before it; the last two values are the result."""
    values = list(args)
    for name, i, j in steps:
        # The latest value is likely, so that products have parts.
        x = values[-1] if i < 7 else values[-i % len(values)]
        new = STEPS[name](x, values[-1 - j % len(values)])
        if new is not None and new.ndim and new.size < 2000:
            values.append(new)
    return values[-2:]


def arguments(dtype):
    random = np.random.RandomState(0)
    return [random.randint(-9, 9, shape).astype(dtype) for shape in SHAPES]


@budget
@given(steps=programs)
def test_random_products_of_integers_are_exact(steps):
    args = arguments(np.int32)
    program = jaxmlir.trace(lambda *xs: run(steps, *xs))(*args)
    want = program(*args)
    for passes in PASSES:
        other = program.run_passes(f"jaxpr-inline,jaxpr-canonicalize,{passes}{{min-gain=0}}")
        other.verify()
        for a, b in zip(other(*args), want, strict=True):
            assert np.array_equal(a, b)


@budget
@given(steps=programs)
def test_random_products_of_floats_and_their_gradients(steps):
    args = arguments(np.float64) if jax.config.jax_enable_x64 else arguments(np.float32)
    args = [a / 9 for a in args]
    program = jaxmlir.trace(lambda *xs: sum(jnp.sum(jnp.tanh(x)) for x in run(steps, *xs)))(*args)
    gradient = program.grad()
    want = jax.grad(lambda x: program(x, *args[1:]))(args[0])
    for before in (gradient, gradient.run_passes("jaxpr-inline,jaxpr-canonicalize,jaxpr-dce")):
        for passes in PASSES:
            got = before.run_passes(f"{passes}{{min-gain=0}}")(*args)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())

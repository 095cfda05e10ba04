"""Examples of contractions, convolutions, Fourier transforms and windows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lit_examples._example import bind, bound, c64, example, f32, i32

X = f32(1, 5, 2, 4)
Y = f32(0, 1, 3, 2)
# Windows of two elements, one after the other.
PAIRS = {"window_dimensions": (2,), "window_strides": (2,), "padding": ((0, 0),)}
UNDILATED = {"base_dilation": (1,), "window_dilation": (1,)}


def _ge(source: jax.Array, operand: jax.Array) -> jax.Array:
    return bind("select_and_scatter_add", source, operand, select_prim=lax.ge_p, **PAIRS)


def _select_and_scatter(operand: jax.Array, source: jax.Array) -> jax.Array:
    """A ``select_and_scatter``, bound directly because no derivative rule emits it."""
    scalar = jnp.int32(0)
    select = jax.make_jaxpr(lax.ge)(scalar, scalar)
    scatter = jax.make_jaxpr(lax.add)(scalar, scalar)
    return bind(
        "select_and_scatter",
        operand,
        source,
        scalar,
        select_jaxpr=getattr(select, "jaxpr", select),
        select_consts=(),
        scatter_jaxpr=getattr(scatter, "jaxpr", scatter),
        scatter_consts=(),
        **PAIRS,
    )


EXAMPLES = {
    "dot_general": example(lax.dot, f32([1, 2], [3, 4]), f32([5, 6], [7, 8])),
    "ragged_dot_general": example(
        lax.ragged_dot,
        f32([1, 2], [3, 4], [5, 6]),
        f32([[1], [1]], [[1], [-1]]),
        i32(1, 2),
        hlo=("stablehlo.dot_general",),
    ),
    "scaled_dot": example(
        lambda x, y, a, b: lax.scaled_dot(x, y, lhs_scale=a, rhs_scale=b),
        jnp.ones((1, 4), jnp.bfloat16),
        jnp.ones((4, 1), jnp.bfloat16),
        jnp.full((1, 2), 2, jnp.bfloat16),
        jnp.full((2, 1), 4, jnp.bfloat16),
    ),
    "conv_general_dilated": example(
        lambda x, k: lax.conv(x, k, (1,), "SAME"), f32([[1, 2, 3]]), f32([[1, 0, -1]])
    ),
    "fft": example(lambda x: lax.fft(x, "FFT", (4,)), c64(1, 2j, -1, 0)),
    "reduce_window": example(
        lambda x: lax.reduce_window(x, np.float32(1), lambda a, b: a * b + a, (2,), (2,), "VALID"),
        X,
    ),
    "reduce_window_sum": example(
        lambda x: lax.reduce_window(x, np.float32(0), lax.add, (2,), (1,), "VALID"), X
    ),
    "reduce_window_max": example(
        lambda x: lax.reduce_window(x, np.float32(-np.inf), lax.max, (2,), (1,), "VALID"), X
    ),
    "reduce_window_min": example(
        lambda x: lax.reduce_window(x, np.float32(np.inf), lax.min, (2,), (1,), "VALID"), X
    ),
    "select_and_scatter": example(_select_and_scatter, i32(1, 5, 2, 4), i32(10, 20)),
    "select_and_scatter_add": example(_ge, f32(10, 20), X),
    "select_and_gather_add": bound(
        "select_and_gather_add", Y, X, select_prim=lax.ge_p, **PAIRS, **UNDILATED
    ),
}

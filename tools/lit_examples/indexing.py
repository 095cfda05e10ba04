"""Examples of slices, gathers and scatters."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from lit_examples._example import example, f32, i32

X = f32(1, 2, 3, 4)


def _scatter(method: str) -> object:
    """Updates elements 0 and 2; the update at index 9 is out of bounds and dropped."""

    def function(x: jax.Array, i: jax.Array, y: jax.Array) -> jax.Array:
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        return getattr(lax, method)(x, i[:, None], y, numbers)

    return example(function, X, i32(0, 2, 9), f32(5, 2, 7))


EXAMPLES = {
    "slice": example(lambda x: lax.slice(x, (0,), (4,), (2,)), X),
    "dynamic_slice": example(lambda x, i: lax.dynamic_slice(x, (i,), (2,)), X, np.int32(1)),
    "dynamic_update_slice": example(
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)), X, f32(8, 9), np.int32(1)
    ),
    "gather": example(
        lambda x, i: x.at[i].get(mode="clip", wrap_negative_indices=False), X, i32(2, 0, 9)
    ),
    "scatter": _scatter("scatter"),
    "scatter_add": _scatter("scatter_add"),
    "scatter_sub": _scatter("scatter_sub"),
    "scatter_mul": _scatter("scatter_mul"),
    "scatter_min": _scatter("scatter_min"),
    "scatter_max": _scatter("scatter_max"),
}

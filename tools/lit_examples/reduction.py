"""Examples of reductions, running reductions and sorting."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

from lit_examples._example import bind, bools, example, f32, i32

MATRIX = f32([1, 2, 3], [6, 5, 4])
X = f32(1, 3, 2)


def _sum_and_product(x: Any, y: Any) -> Any:
    """A sum and a product in one ``reduce``, without the Python function ``lax.reduce`` adds."""
    jaxpr = jax.make_jaxpr(lambda a, b, c, d: (a + c, b * d))(*[np.float32(0)] * 4)
    zero, one = np.float32(0), np.float32(1)
    return bind("reduce", x, y, zero, one, jaxpr=jaxpr, dimensions=(0,), computation=None)


EXAMPLES = {
    "reduce_sum": example(lambda x: x.sum(1), MATRIX),
    "reduce_prod": example(lambda x: x.prod(1), MATRIX),
    "reduce_max": example(lambda x: x.max(1), MATRIX),
    "reduce_min": example(lambda x: x.min(1), MATRIX),
    "reduce_and": example(lambda x: x.all(1), bools([True, True], [True, False])),
    "reduce_or": example(lambda x: x.any(1), bools([False, True], [False, False])),
    "reduce_xor": example(lambda x: lax.reduce_xor(x, (0,)), i32(12, 10, 1)),
    "reduce": example(_sum_and_product, f32(1, 2, 3), f32(4, 5, 6)),
    "argmax": example(lambda x: lax.argmax(x, 1, np.int32), MATRIX),
    "argmin": example(lambda x: lax.argmin(x, 1, np.int32), MATRIX),
    "cumsum": example(lax.cumsum, X),
    "cumprod": example(lax.cumprod, X),
    "cummax": example(lax.cummax, X),
    "cummin": example(lambda x: lax.cummin(x, reverse=True), X),
    "cumlogsumexp": example(lax.cumlogsumexp, X),
    "sort": example(lambda k, v: lax.sort((k, v), num_keys=1), f32(3, 1, 2), i32(0, 1, 2)),
    "top_k": example(lambda x: lax.top_k(x, 2), f32(3, 1, 4, 2)),
    "approx_top_k": example(lambda x: lax.approx_max_k(x, 2), f32(3, 1, 4, 2)),
}

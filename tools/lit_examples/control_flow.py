"""Examples of loops, branches and implicit solves."""

from __future__ import annotations

import numpy as np
from jax import lax

from lit_examples._example import example, f32

EXAMPLES = {
    "scan": example(
        lambda x, ys: lax.scan(lambda c, y: (c + y, c * y), x, ys),
        np.float32(1),
        f32(2, 3, 4),
        hlo=("stablehlo.while", "stablehlo.compare LT", "stablehlo.add"),
    ),
    "while": example(
        lambda x, y: lax.while_loop(lambda c: c < 100, lambda c: c * y, x),
        np.float32(1),
        np.float32(3),
        hlo=("stablehlo.while",),
    ),
    "cond": example(
        lambda i, x: lax.switch(i, [lax.neg, lambda x: x * x], x), np.int32(1), np.float32(3)
    ),
    "platform_index": example(
        lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2),
        np.float32(3),
    ),
    "custom_linear_solve": example(
        lambda d, b: lax.custom_linear_solve(
            lambda x: d * x, b, solve=lambda matvec, b: b / d, symmetric=True
        ),
        f32(2, 4),
        f32(10, 10),
    ),
}

"""Examples of elementwise arithmetic."""

from __future__ import annotations

import numpy as np
from jax import lax

from lit_examples._example import bound, c64, example, f32, i32, u32

X = f32(-1.5, 0.5, 2.5)

EXAMPLES = {
    "add": example(lax.add, f32(1.5, 2.5), f32(3, 4)),
    "add_any": bound("add_any", f32(1.5, 2.5), f32(3, 4)),
    "sub": example(lax.sub, f32(1.5, 2.5), f32(3, 1)),
    "mul": example(lax.mul, f32(1.5, 2.5), f32(3, -4)),
    "mulhi": bound("mulhi", u32(3, 0x80000000), u32(4, 6)),
    "div": example(lax.div, i32(7, -7), i32(2, 2)),
    "rem": example(lax.rem, i32(7, -7), i32(3, 3)),
    "pow": example(lax.pow, f32(2, 9), f32(3, 0.5)),
    "max": example(lax.max, f32(1, 4), f32(3, 2)),
    "min": example(lax.min, f32(1, 4), f32(3, 2)),
    "clamp": example(lax.clamp, np.float32(-1), f32(-3, 0.5, 3), np.float32(1)),
    "neg": example(lax.neg, X),
    "abs": example(lax.abs, c64(3 + 4j, -2), hlo=("stablehlo.abs",)),
    "sign": example(lax.sign, f32(-2, 0, 3)),
    "square": example(lax.square, X),
    "one_minus_square": bound("one_minus_square", X),
    "integer_pow": example(lambda x: lax.integer_pow(x, 3), f32(2, -3)),
    "polynomial": bound("polynomial", f32(2, 3), f32(1, 1), f32(10, 10), f32(100, 100)),
    "floor": example(lax.floor, X),
    "ceil": example(lax.ceil, X),
    "round": example(
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), f32(-1.5, 0.5, 2.5)
    ),
    "is_finite": example(lax.is_finite, f32(1, np.inf)),
    "nextafter": example(lax.nextafter, f32(0), f32(1)),
    "reduce_precision": example(lambda x: lax.reduce_precision(x, 8, 3), f32(1.1, 3.3)),
}

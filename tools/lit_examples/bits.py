"""Examples of operations on bits, comparisons and choices."""

from __future__ import annotations

from jax import lax

from lit_examples._example import bools, bound, example, f32, i32, u32

X, Y = f32(1, 2, 3), f32(3, 2, 1)
# In the total order of floats -0 comes before 0.
ZEROS, SIGNED_ZEROS = f32(0, -0.0), f32(-0.0, -0.0)

EXAMPLES = {
    "not": example(lax.bitwise_not, i32(0, 5)),
    "and": example(lax.bitwise_and, i32(12, 10), i32(10, 3)),
    "or": example(lax.bitwise_or, i32(12, 10), i32(10, 3)),
    "xor": example(lax.bitwise_xor, i32(12, 10), i32(10, 3)),
    "shift_left": example(lax.shift_left, i32(1, 3), i32(4, 32)),
    "shift_right_arithmetic": example(lax.shift_right_arithmetic, i32(-16, 16), i32(2, 2)),
    "shift_right_logical": example(lax.shift_right_logical, u32(0x80000000, 16), u32(31, 2)),
    "population_count": example(lax.population_count, i32(7, -1)),
    "clz": example(lax.clz, i32(1, -1)),
    "eq": example(lax.eq, X, Y),
    "ne": example(lax.ne, X, Y),
    "lt": example(lax.lt, X, Y),
    "le": example(lax.le, X, Y),
    "gt": example(lax.gt, X, Y),
    "ge": example(lax.ge, X, Y),
    "eq_to": bound("eq_to", ZEROS, SIGNED_ZEROS),
    "lt_to": bound("lt_to", SIGNED_ZEROS, ZEROS),
    "le_to": bound("le_to", ZEROS, SIGNED_ZEROS),
    "select_n": example(lax.select_n, bools(True, False), f32(1, 2), f32(3, 4)),
}

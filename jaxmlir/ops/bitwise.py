"""Bitwise and logical operations on integers and booleans, element by element."""

from __future__ import annotations

from jaxmlir.ops._record import Op, binary, unary

OPS: tuple[Op, ...] = (
    unary("not", "Bitwise complement, ~x; of booleans the negation.", inverse="not"),
    binary("and", "Bitwise and, x & y.", commutative=True),
    binary("or", "Bitwise or, x | y.", commutative=True),
    binary("xor", "Bitwise exclusive or, x ^ y.", commutative=True),
    binary("shift_left", "x << y; 0 once y reaches the width."),
    binary("shift_right_arithmetic", "x >> y, filled with the sign bit."),
    binary("shift_right_logical", "x >> y, filled with zeros."),
    unary(
        "population_count",
        "Number of bits of x that are set.",
        inverse="not invertible: many integers have as many bits set",
    ),
    unary(
        "clz",
        "Number of leading zero bits of x.",
        inverse="not invertible: every integer of one magnitude has the same count",
    ),
)

"""Bitwise and logical operations on integers and booleans, element by element."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, unary, with_traits

OPS: tuple[Op, ...] = (
    unary(
        "not",
        "Bitwise complement, ~x; of booleans the negation.",
        inverse="not",
        folds=(
            "not(not(x)) = x",
            "not(eq(x, y)) = ne(x, y)",
            "not(ne(x, y)) = eq(x, y)",
            "not(lt(x, y)) = ge(x, y) if integer or boolean or fast-math",
            "not(le(x, y)) = gt(x, y) if integer or boolean or fast-math",
            "not(gt(x, y)) = le(x, y) if integer or boolean or fast-math",
            "not(ge(x, y)) = lt(x, y) if integer or boolean or fast-math",
        ),
    ),
    binary(
        "and",
        "Bitwise and, x & y.",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "and(x, x) = x",
            "and(x, 0) = 0",
            "and(x, ~0) = x",
        ),
        inverse="not invertible: 0 & y is 0 for all y",
    ),
    binary(
        "or",
        "Bitwise or, x | y.",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "or(x, x) = x",
            "or(x, 0) = x",
            "or(x, ~0) = ~0",
        ),
        inverse="not invertible: x | y is all ones for many x",
    ),
    binary(
        "xor",
        "Bitwise exclusive or, x ^ y.",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "xor(x, x) = 0",
            "xor(x, 0) = x",
            "xor(x, ~0) = not(x)",
        ),
        inverse="x = z ^ y, y = z ^ x",
    ),
    binary(
        "shift_left",
        "x << y; 0 once y reaches the width.",
        folds=("shift_left(x, 0) = x",),
        inverse="not invertible: the bits shifted out are lost",
    ),
    binary(
        "shift_right_arithmetic",
        "x >> y, filled with the sign bit.",
        folds=("shift_right_arithmetic(x, 0) = x",),
        inverse="not invertible: the bits shifted out are lost",
    ),
    binary(
        "shift_right_logical",
        "x >> y, filled with zeros.",
        folds=("shift_right_logical(x, 0) = x",),
        inverse="not invertible: the bits shifted out are lost",
    ),
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

OPS = with_traits(OPS, Trait.ELEMENTWISE)

"""Elementwise arithmetic: operands and results have one shape; each element is on its own."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, op, unary, with_traits

OPS: tuple[Op, ...] = (
    # Arithmetic
    binary(
        "add",
        "Elementwise sum, x + y.",
        linear=(0, 1),
        traits=(Trait.ADDITIVE, Trait.COMMUTATIVE),
        folds=(
            "add(x, 0) = x if integer or fast-math",
            "add(x, -0.0) = x if float",
            "add(x, neg(x)) = 0 if integer or fast-math",
            "add(x, neg(y)) = sub(x, y) if integer or float",
        ),
        inverse="x = z - y, y = z - x; x = z / 2 where both are x",
        domain="where both are x, an integer, nothing overflows",
    ),
    binary(
        "add_any",
        "Sum of two cotangents, x + y: what transposition accumulates with.",
        linear=(0, 1),
        traits=(Trait.ADDITIVE, Trait.COMMUTATIVE),
        folds=(
            "add_any(x, 0) = x if integer or fast-math",
            "add_any(x, -0.0) = x if float",
            "add_any(x, neg(x)) = 0 if integer or fast-math",
            "add_any(x, neg(y)) = sub(x, y) if integer or float",
        ),
        inverse="x = z - y, y = z - x; x = z / 2 where both are x",
        domain="where both are x, an integer, nothing overflows",
    ),
    binary(
        "sub",
        "Elementwise difference, x - y.",
        linear=(0, 1),
        folds=(
            "sub(x, 0) = x if integer or float",
            "sub(x, x) = 0 if integer or fast-math",
            "sub(x, neg(y)) = add(x, y) if integer or float",
            "sub(0, x) = neg(x) if integer or fast-math",
        ),
        inverse="x = z + y, y = x - z",
        traits=(Trait.ADDITIVE,),
    ),
    binary(
        "mul",
        "Elementwise product, x * y.",
        "out_dtype: dtype?",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "mul(x, 1) = x if integer or float",
            "mul(x, 0) = 0 if integer or fast-math",
            "mul(x, -1) = neg(x) if integer or float",
            "mul(neg(x), neg(y)) = mul(x, y) if integer or float",
        ),
        inverse="x = z / y, y = z / x; x = sqrt(z) where both are x",
        domain="the known operand is not 0; a constant 0 leaves the element open; of integers it "
        "is odd, or nothing overflows",
        linear_each=(0, 1),
    ),
    binary(
        "mulhi",
        "High half of the double-width integer product, (x * y) >> bits.",
        inverse="not invertible: the low half of the product is lost",
    ),
    binary(
        "div",
        "Elementwise quotient, x / y; of integers rounded towards zero.",
        linear=(0,),
        folds=(
            "div(x, 1) = x if integer or float",
            "div(x, -1) = neg(x) if float",
            "div(neg(x), neg(y)) = div(x, y) if float",
            "div(x, x) = 1 if fast-math",
        ),
        inverse="x = z * y, y = x / z",
        domain="floats, not 0",
        linear_each=(0,),
    ),
    binary(
        "rem",
        "Remainder of the division towards zero, x - y * trunc(x / y); it has the sign of x.",
        inverse="not invertible: the quotient is lost",
    ),
    binary(
        "pow",
        "Elementwise power, x ** y.",
        inverse="x = z ** (1 / y), y = log(z) / log(x)",
        domain="x > 0; x != 1 where y is found, y != 0 where x is",
        traits=(Trait.TRANSCENDENTAL,),
    ),
    binary(
        "max",
        "The larger of x and y; NaN if either is NaN.",
        folds=(
            "max(x, x) = x",
            "max(x, -inf) = x if float",
        ),
        inverse="not invertible: the smaller operand is lost",
    ),
    binary(
        "min",
        "The smaller of x and y; NaN if either is NaN.",
        folds=(
            "min(x, x) = x",
            "min(x, inf) = x if float",
        ),
        inverse="not invertible: the larger operand is lost",
    ),
    op(
        "clamp",
        3,
        1,
        "x limited to an interval, min(max(x, lo), hi), of operands (lo, x, hi).",
        inverse="not invertible: what lies outside the interval is lost",
    ),
    unary(
        "neg",
        "Negation, -x.",
        linear=(0,),
        inverse="neg",
        folds=(
            "neg(neg(x)) = x",
            "neg(sub(x, y)) = sub(y, x) if integer or fast-math",
        ),
    ),
    unary(
        "abs",
        "Absolute value, |x|; of a complex number its modulus.",
        inverse="not invertible: x and -x have one absolute value",
        folds=(
            "abs(abs(x)) = abs(x)",
            # The derivative at 0, which JAX takes from one side, is that of the other.
            "abs(neg(x)) = abs(x) if integer or fast-math",
        ),
    ),
    unary(
        "sign",
        "Sign, x / |x|, and 0 at 0.",
        inverse="not invertible: every positive number has sign 1",
        folds=("sign(sign(x)) = sign(x) if integer or float",),
    ),
    unary(
        "square",
        "Square, x * x.",
        folds=(
            "square(neg(x)) = square(x) if integer or float",
            "square(abs(x)) = square(x) if integer or float",
        ),
        inverse="sqrt",
        domain="x >= 0",
    ),
    unary(
        "one_minus_square",
        "1 - x * x, without cancellation near |x| = 1.",
        jax=">=0.11",
        inverse="sqrt(1 - y)",
        domain="x >= 0",
    ),
    unary(
        "integer_pow",
        "Power with a static integer exponent, x ** y.",
        "y: int",
        folds=(
            "integer_pow[y=1](x) = x",
            "integer_pow[y=2](x) = square(x) if integer or float",
        ),
        inverse="the y-th root",
        domain="x >= 0 where y is even",
    ),
    op(
        "polynomial",
        None,
        1,
        "Polynomial in the first operand, a0 + x (a1 + x (a2 + ...)), of operands (x, a0, a1, "
        "...).",
        # Up to how many terms are multiplied out rather than looped over.
        "unroll: int = absent",
        jax=">=0.12",
        linear=(1, ...),
        inverse="not invertible: a polynomial takes a value at up to as many points as its degree",
    ),
    # Rounding
    unary(
        "floor",
        "The largest integer <= x.",
        inverse="not invertible: floor is many-to-one",
        folds=(
            "floor(floor(x)) = floor(x)",
            "floor(ceil(x)) = ceil(x)",
        ),
    ),
    unary(
        "ceil",
        "The smallest integer >= x.",
        inverse="not invertible: ceil is many-to-one",
        folds=(
            "ceil(ceil(x)) = ceil(x)",
            "ceil(floor(x)) = floor(x)",
        ),
    ),
    unary(
        "round",
        "The nearest integer; the method says where halves go.",
        "rounding_method: enum RoundingMethod",
        inverse="not invertible: round is many-to-one",
    ),
    unary(
        "is_finite",
        "Whether x is neither infinite nor NaN.",
        inverse="not invertible: most numbers are finite",
    ),
    binary(
        "nextafter",
        "The float next after x in the direction of y.",
        inverse="not invertible: the direction of the step is lost",
    ),
    unary(
        "reduce_precision",
        "x rounded to a float format of the given widths, kept in its own dtype.",
        "exponent_bits: int",
        "mantissa_bits: int",
        inverse="not invertible: rounding is many-to-one",
    ),
)

OPS = with_traits(OPS, Trait.ELEMENTWISE)

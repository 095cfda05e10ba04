"""Ops that compute each element on its own: arithmetic, functions, bits, comparisons."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, family, group, op, unary


def _sum(name: str, summary: str) -> Op:
    return binary(
        name,
        summary,
        linear=(0, 1),
        traits=(Trait.ADDITIVE, Trait.COMMUTATIVE),
        folds=(
            f"{name}(x, 0) = x if integer or fast-math",
            f"{name}(x, -0.0) = x if float",
            f"{name}(x, neg(x)) = 0 if integer or fast-math",
            f"{name}(x, neg(y)) = sub(x, y) if integer or float",
        ),
        inverse="x = z - y, y = z - x; x = z / 2 where both are x",
        domain="where both are x, an integer, nothing overflows",
    )


ELEMENTWISE = family(
    "elementwise",
    "Elementwise arithmetic: operands and results have the same shape.",
    # Arithmetic
    _sum("add", "Elementwise sum, x + y."),
    _sum("add_any", "Sum of two cotangents, x + y; transposition accumulates cotangents by it."),
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
        domain="the known operand is not 0; a constant 0 leaves the element unknown; an integer is "
        "odd, or nothing overflows",
        linear_each=(0, 1),
    ),
    binary(
        "mulhi",
        "High half of the double-width integer product, (x * y) >> bits.",
        inverse="not invertible: the low half of the product is lost",
    ),
    binary(
        "div",
        "Elementwise quotient, x / y; for integers, rounded towards zero.",
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
        folds=("max(x, x) = x", "max(x, -inf) = x if float"),
        inverse="not invertible: the smaller operand is lost",
    ),
    binary(
        "min",
        "The smaller of x and y; NaN if either is NaN.",
        folds=("min(x, x) = x", "min(x, inf) = x if float"),
        inverse="not invertible: the larger operand is lost",
    ),
    op(
        "clamp",
        3,
        1,
        "x limited to an interval, min(max(x, lo), hi); operands (lo, x, hi).",
        inverse="not invertible: what lies outside the interval is lost",
    ),
    unary(
        "neg",
        "Negation, -x.",
        linear=(0,),
        inverse="neg",
        folds=("neg(neg(x)) = x", "neg(sub(x, y)) = sub(y, x) if integer or fast-math"),
    ),
    unary(
        "abs",
        "Absolute value, |x|; for a complex number, its modulus.",
        inverse="not invertible: x and -x have the same absolute value",
        folds=(
            "abs(abs(x)) = abs(x)",
            # At 0 JAX takes the derivative from one side; in abs(neg(x)) it would be the other.
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
        folds=("integer_pow[y=1](x) = x", "integer_pow[y=2](x) = square(x) if integer or float"),
        inverse="the y-th root",
        domain="x >= 0 where y is even",
    ),
    op(
        "polynomial",
        None,
        1,
        "Polynomial in the first operand, a0 + x (a1 + x (a2 + ...)); operands (x, a0, a1, ...).",
        # The maximal number of terms that are unrolled rather than computed in a loop.
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
        folds=("floor(floor(x)) = floor(x)", "floor(ceil(x)) = ceil(x)"),
    ),
    unary(
        "ceil",
        "The smallest integer >= x.",
        inverse="not invertible: ceil is many-to-one",
        folds=("ceil(ceil(x)) = ceil(x)", "ceil(floor(x)) = floor(x)"),
    ),
    unary(
        "round",
        "The nearest integer; rounding_method says where halves go.",
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
        "The next float after x in the direction of y.",
        inverse="not invertible: the direction of the step is lost",
    ),
    unary(
        "reduce_precision",
        "x rounded to a float format of the given widths, kept in its own dtype.",
        "exponent_bits: int, mantissa_bits: int",
        inverse="not invertible: rounding is many-to-one",
    ),
    traits=(Trait.ELEMENTWISE,),
)

# The accuracy of the result that XLA is asked for (`jax.lax.Tolerance` or an accuracy mode).
_ACCURACY = "accuracy: enum AccuracyMode or record Tolerance?"

_FUNCTIONS: tuple[Op, ...] = (
    # Exponentials and logarithms
    unary(
        "exp",
        "Exponential, e ** x.",
        _ACCURACY,
        inverse="log",
        folds=("exp(log(x)) = x if fast-math",),
    ),
    unary("exp2", "Power of two, 2 ** x.", _ACCURACY, inverse="log(y) / log(2)"),
    unary("expm1", "e ** x - 1, accurate near 0.", _ACCURACY, inverse="log1p"),
    unary(
        "log",
        "Natural logarithm, log(x).",
        _ACCURACY,
        inverse="exp",
        folds=("log(exp(x)) = x if fast-math",),
    ),
    unary("log1p", "log(1 + x), accurate near 0.", _ACCURACY, inverse="expm1"),
    unary(
        "log2", "Logarithm to base two, log(x) / log(2).", _ACCURACY, jax=">=0.11", inverse="exp2"
    ),
    unary(
        "logistic", "Logistic function, 1 / (1 + e ** -x).", _ACCURACY, inverse="log(y) - log1p(-y)"
    ),
    # Roots
    unary(
        "sqrt",
        "Square root, x ** (1/2).",
        _ACCURACY,
        inverse="square",
        folds=("sqrt(square(x)) = abs(x) if fast-math",),
    ),
    unary("rsqrt", "Reciprocal square root, x ** (-1/2).", _ACCURACY, inverse="y ** -2"),
    unary("cbrt", "Real cube root, sign(x) |x| ** (1/3).", _ACCURACY, inverse="y ** 3"),
    # Trigonometry
    unary("sin", "Sine, sin(x).", _ACCURACY, inverse="asin", domain="-pi/2 <= x <= pi/2"),
    unary("cos", "Cosine, cos(x).", _ACCURACY, inverse="acos", domain="0 <= x <= pi"),
    unary("tan", "Tangent, sin(x) / cos(x).", _ACCURACY, inverse="atan", domain="-pi/2 < x < pi/2"),
    unary("asin", "Arc sine, the y in [-pi/2, pi/2] with sin(y) = x.", inverse="sin"),
    unary("acos", "Arc cosine, the y in [0, pi] with cos(y) = x.", inverse="cos"),
    unary("atan", "Arc tangent, the y in (-pi/2, pi/2) with tan(y) = x.", inverse="tan"),
    binary(
        "atan2",
        "Angle of the point (y, x), the operands in this order; in [-pi, pi].",
        inverse="y = x tan(z), x = y / tan(z)",
        domain="the known operand is not 0",
    ),
    # Hyperbolic functions
    unary("sinh", "Hyperbolic sine, (e ** x - e ** -x) / 2.", inverse="asinh"),
    unary("cosh", "Hyperbolic cosine, (e ** x + e ** -x) / 2.", inverse="acosh", domain="x >= 0"),
    unary("tanh", "Hyperbolic tangent, sinh(x) / cosh(x).", _ACCURACY, inverse="atanh"),
    unary("asinh", "Inverse hyperbolic sine, the y with sinh(y) = x.", inverse="sinh"),
    unary("acosh", "Inverse hyperbolic cosine, the y >= 0 with cosh(y) = x.", inverse="cosh"),
    unary("atanh", "Inverse hyperbolic tangent, the y with tanh(y) = x.", inverse="tanh"),
)

_COMPLEX: tuple[Op, ...] = (
    binary(
        "complex",
        "The complex number x + iy, from its parts.",
        linear=(0, 1),
        folds=("complex(real(x), imag(x)) = x",),
        inverse="x = real(z), y = imag(z)",
    ),
    unary(
        "real",
        "Real part.",
        linear=(0,),
        folds=("real(complex(x, y)) = x",),
        inverse="complex(x, y), if the imaginary part is known, too",
    ),
    unary(
        "imag",
        "Imaginary part.",
        linear=(0,),
        folds=("imag(complex(x, y)) = y",),
        inverse="complex(x, y), if the real part is known, too",
    ),
    unary(
        "conj",
        "Complex conjugate, x - iy; linear over the reals.",
        "input_dtype: dtype = absent",
        linear=(0,),
        inverse="conj",
    ),
)

TRANSCENDENTAL = family(
    "transcendental",
    "Elementwise elementary functions: exponentials, roots, trigonometry; and complex numbers.",
    *group(*_FUNCTIONS, traits=(Trait.TRANSCENDENTAL,)),
    *_COMPLEX,
    traits=(Trait.ELEMENTWISE,),
)

BITWISE = family(
    "bitwise",
    "Bitwise and logical operations on integers and booleans, element by element.",
    unary(
        "not",
        "Bitwise complement, ~x; for booleans, the negation.",
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
        folds=("and(x, x) = x", "and(x, 0) = 0", "and(x, ~0) = x"),
        inverse="not invertible: 0 & y is 0 for all y",
    ),
    binary(
        "or",
        "Bitwise or, x | y.",
        traits=(Trait.COMMUTATIVE,),
        folds=("or(x, x) = x", "or(x, 0) = x", "or(x, ~0) = ~0"),
        inverse="not invertible: x | y is all ones for many x",
    ),
    binary(
        "xor",
        "Bitwise exclusive or, x ^ y.",
        traits=(Trait.COMMUTATIVE,),
        folds=("xor(x, x) = 0", "xor(x, 0) = x", "xor(x, ~0) = not(x)"),
        inverse="x = z ^ y, y = z ^ x",
    ),
    binary(
        "shift_left",
        "x << y; 0 if y is at least the width.",
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
        inverse="not invertible: many integers have the same number of bits set",
    ),
    unary(
        "clz",
        "Number of leading zero bits of x.",
        inverse="not invertible: integers of the same magnitude have the same count",
    ),
    traits=(Trait.ELEMENTWISE,),
)

COMPARISON = family(
    "comparison",
    "Elementwise comparisons and selection. The results of comparisons are booleans.",
    binary(
        "eq",
        "x == y; false where either is NaN.",
        traits=(Trait.COMMUTATIVE,),
        folds=("eq(x, x) = ~0 if integer or boolean or fast-math", "eq(x, ~0) = x if boolean"),
    ),
    binary(
        "ne",
        "x != y; true where either is NaN.",
        traits=(Trait.COMMUTATIVE,),
        folds=("ne(x, x) = 0 if integer or boolean or fast-math", "ne(x, 0) = x if boolean"),
    ),
    binary("lt", "x < y.", folds=("lt(x, x) = 0 if integer or boolean or fast-math",)),
    binary("le", "x <= y.", folds=("le(x, x) = ~0 if integer or boolean or fast-math",)),
    binary("gt", "x > y.", folds=("gt(x, x) = 0 if integer or boolean or fast-math",)),
    binary("ge", "x >= y.", folds=("ge(x, x) = ~0 if integer or boolean or fast-math",)),
    # The total order, as sorting needs it, has -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
    binary("eq_to", "x == y in the total order of floats: NaN equals NaN, -0 is not 0."),
    binary("lt_to", "x < y in the total order of floats: -0 before 0, NaN last."),
    binary("le_to", "x <= y in the total order of floats: -0 before 0, NaN last."),
    op(
        "select_n",
        None,
        1,
        "Elementwise choice cases[which]; operands (which, *cases); which is boolean or integer.",
        linear=(1, ...),
        folds=(
            "select_n(p, x) = x",
            "select_n(p, x, x) = x",
            "select_n(0, x, y) = x",
            "select_n(1, x, y) = y",
            "select_n(not(p), x, y) = select_n(p, y, x) if boolean",
            "select_n(p, 0, ~0) = p if boolean",
        ),
        inverse="the cases, each known where it is selected",
        domain="which is known",
    ),
    traits=(Trait.ELEMENTWISE,),
    inverse="not invertible: a comparison is many-to-one",
)

SPECIAL = family(
    "special",
    "Special functions, element by element.",
    # Error functions
    unary(
        "erf",
        "Error function, 2/sqrt(pi) times the integral of exp(-t**2) over [0, x].",
        inverse="erf_inv",
    ),
    unary(
        "erfc",
        "Complementary error function, 1 - erf(x).",
        "accuracy: enum AccuracyMode or record Tolerance? @ >=0.12",
        inverse="-ndtri(y / 2) / sqrt(2)",
    ),
    unary("erf_inv", "Inverse error function, the y with erf(y) = x.", inverse="erf"),
    # Gamma functions
    unary(
        "lgamma",
        "Logarithm of the absolute value of the gamma function, log|gamma(x)|.",
        inverse="not invertible: lgamma is not monotone, lgamma(1) = lgamma(2) = 0",
    ),
    unary(
        "digamma",
        "Digamma function, the derivative of lgamma.",
        inverse="not invertible: digamma takes each value between any two of its poles",
    ),
    binary(
        "polygamma",
        "Polygamma function of order m at x, the m-th derivative of digamma; operands (m, x).",
        inverse="not invertible: it takes each value at many points",
    ),
    binary("igamma", "Regularised lower incomplete gamma function P(a, x)."),
    binary("igammac", "Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."),
    binary("igamma_grad_a", "Derivative of igamma(a, x) with respect to a."),
    op(
        "regularized_incomplete_beta",
        3,
        1,
        "Regularised incomplete beta function I_x(a, b); operands (a, b, x).",
    ),
    # Bessel and zeta functions
    unary(
        "bessel_i0e",
        "Scaled modified Bessel function of order 0, exp(-|x|) I0(x).",
        inverse="not invertible: it is even",
    ),
    unary(
        "bessel_i1e",
        "Scaled modified Bessel function of order 1, exp(-|x|) I1(x).",
        inverse="not invertible: it rises and falls on x > 0",
    ),
    binary("zeta", "Hurwitz zeta function, the sum over k >= 0 of (k + q) ** -x; operands (x, q)."),
    traits=(Trait.ELEMENTWISE, Trait.TRANSCENDENTAL),
    inverse="no rule: the inverse is not an elementary function",
)

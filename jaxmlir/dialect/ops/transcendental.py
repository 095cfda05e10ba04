"""Elementwise elementary functions: exponentials, roots, trigonometry; and complex numbers."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, unary, with_traits

# The result accuracy asked of XLA (`jax.lax.Tolerance` or an accuracy mode).
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
    unary(
        "cbrt",
        "Real cube root, sign(x) |x| ** (1/3).",
        _ACCURACY,
        inverse="y ** 3",
    ),
    # Trigonometry
    unary("sin", "Sine, sin(x).", _ACCURACY, inverse="asin", domain="-pi/2 <= x <= pi/2"),
    unary("cos", "Cosine, cos(x).", _ACCURACY, inverse="acos", domain="0 <= x <= pi"),
    unary(
        "tan",
        "Tangent, sin(x) / cos(x).",
        _ACCURACY,
        inverse="atan",
        domain="-pi/2 < x < pi/2",
    ),
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
        inverse="complex(x, y), of the imaginary part too",
    ),
    unary(
        "imag",
        "Imaginary part.",
        linear=(0,),
        folds=("imag(complex(x, y)) = y",),
        inverse="complex(x, y), of the real part too",
    ),
    unary(
        "conj",
        "Complex conjugate, x - iy; linear over the reals.",
        "input_dtype: dtype = absent",
        linear=(0,),
        inverse="conj",
    ),
)

OPS = with_traits((*with_traits(_FUNCTIONS, Trait.TRANSCENDENTAL), *_COMPLEX), Trait.ELEMENTWISE)

"""Special functions, element by element."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, op, unary, with_traits, without_inverse

OPS: tuple[Op, ...] = (
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
        "Regularised incomplete beta function I_x(a, b), of operands (a, b, x).",
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
    binary(
        "zeta", "Hurwitz zeta function, the sum over k >= 0 of (k + q) ** -x, of operands (x, q)."
    ),
)

OPS = with_traits(
    without_inverse("no rule: the inverse is no elementary function", OPS),
    Trait.ELEMENTWISE,
    Trait.TRANSCENDENTAL,
)

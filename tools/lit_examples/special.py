"""Examples of the special functions."""

from __future__ import annotations

from jax import lax

from lit_examples._example import example, f32

X = f32(0.5, 1.5)
A = f32(2, 3)

EXAMPLES = {
    "erf": example(lax.erf, X),
    "erfc": example(lax.erfc, X),
    "erf_inv": example(lax.erf_inv, f32(-0.5, 0.25)),
    "lgamma": example(
        lax.lgamma, f32(0.5, 5), hlo=("{{chlo.lgamma|stablehlo.count_leading_zeros}}",)
    ),
    "digamma": example(lax.digamma, X),
    "polygamma": example(lax.polygamma, f32(1, 2), X),
    "igamma": example(lax.igamma, A, X),
    "igammac": example(lax.igammac, A, X),
    "igamma_grad_a": example(lax.igamma_grad_a, A, X),
    "regularized_incomplete_beta": example(lax.betainc, A, X, f32(0.25, 0.75)),
    "bessel_i0e": example(lax.bessel_i0e, X),
    "bessel_i1e": example(lax.bessel_i1e, X),
    "zeta": example(lax.zeta, A, X),
}

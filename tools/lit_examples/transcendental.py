"""Examples of exponentials, logarithms, powers, trigonometric functions, complex numbers."""

from __future__ import annotations

from jax import lax

from lit_examples._example import bound, c64, example, f32

UNIT = f32(-0.5, 0.25)
POSITIVE = f32(0.5, 4)
COMPLEX = c64(1 + 2j, 4 - 3j)

EXAMPLES = {
    "exp": example(lax.exp, f32(0, 1)),
    "exp2": example(lax.exp2, f32(3, 0.5)),
    "expm1": example(lax.expm1, f32(1e-6, 1)),
    "log": example(lax.log, f32(1, 10)),
    "log1p": example(lax.log1p, f32(1e-6, 1)),
    "log2": bound("log2", f32(8, 10), accuracy=None),
    "logistic": example(lax.logistic, f32(0, 1)),
    "sqrt": example(lax.sqrt, f32(4, 2), hlo=("stablehlo.sqrt",)),
    "rsqrt": example(lax.rsqrt, f32(4, 2)),
    "cbrt": example(lax.cbrt, f32(3, -2)),
    "sin": example(lax.sin, f32(0, 1)),
    "cos": example(lax.cos, f32(0, 1)),
    "tan": example(lax.tan, f32(0, 1)),
    "asin": example(lax.asin, UNIT, hlo=("{{chlo.asin|stablehlo.atan2}}",)),
    "acos": example(lax.acos, UNIT),
    "atan": example(lax.atan, POSITIVE),
    "atan2": example(lax.atan2, f32(1, -1), f32(-1, 2)),
    "sinh": example(lax.sinh, POSITIVE),
    "cosh": example(lax.cosh, POSITIVE),
    "tanh": example(lax.tanh, POSITIVE),
    "asinh": example(lax.asinh, POSITIVE),
    "acosh": example(lax.acosh, f32(1.5, 4)),
    "atanh": example(lax.atanh, UNIT),
    "complex": example(lax.complex, f32(1, 2), f32(3, -4)),
    "real": example(lax.real, COMPLEX),
    "imag": example(lax.imag, COMPLEX),
    "conj": example(lax.conj, COMPLEX),
}

"""Functions of 32-bit floats that are computed in 64 bits: what their polynomials have in common.

Arguments with 24 significant bits leave 29 bits to spare, so plain formulas do: squares are exact,
nothing overflows, and a polynomial with an error of 2^-31 gives the nearest float, or nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

LN2 = math.log(2)


def wide(x: Any) -> Any:
    """An array as one of 64-bit floats."""
    return lax.convert_element_type(x, np.float64)


def whole(x: Any) -> Any:
    """The nearest whole numbers."""
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def has_sign(x: Any) -> Any:
    """Whether numbers are negative, or a negative zero."""
    integers = {2: np.int16, 4: np.int32, 8: np.int64}
    return lax.bitcast_convert_type(x, integers[x.dtype.itemsize]) < 0


def with_sign(size: Any, signed: Any) -> Any:
    """Positive numbers with the signs of others."""
    return lax.select(has_sign(signed), -size, size)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial with the given coefficients, that of the constant first."""
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def integer_bits(x: Any) -> Any:
    """64-bit integers whose lowest 32 bits are those of small whole numbers.

    Added to 1.5 times 2^52, they are the last bits of the sum; XLA's conversion would also check
    for numbers that are too large.
    """
    return lax.bitcast_convert_type(x + 1.5 * 2.0**52, np.int64)


def exponential(x: Any) -> Any:
    """``e^x`` of 64-bit floats with a relative error below 2^-32, ``e^700`` beyond 700."""
    x = lax.clamp(-700.0, x, 700.0)
    exponent = whole(x * (1 / LN2))
    bits = (integer_bits(exponent) << 52) + ONE
    power = lax.bitcast_convert_type(bits, np.float64)
    return polynomial(x - exponent * LN2, EXPONENTIAL) * power


def logarithm(x: Any, less_one: Any = None) -> Any:
    """The natural logarithm of 64-bit floats with a relative error below 2^-39.

    With ``x = 2^k m``, ``m`` from ``sqrt(1 / 2)`` to ``sqrt(2)``, it is ``k ln 2 + 2 artanh(f)``,
    ``f = (m - 1) / (m + 1)``.

    Args:
      x: normal numbers, zeros, infinities and NaN.
      less_one: ``x - 1``, where it is known more precisely than from ``x``.
    """
    bits = lax.bitcast_convert_type(x, np.int64)
    exponent = (bits - ROOT_OF_HALF) >> 52
    less = lax.bitcast_convert_type(bits - (exponent << 52), np.float64) - 1
    if less_one is not None:
        less = lax.select(exponent == 0, less_one, less)
    f = less / (less + 2)
    exponent = wide(lax.convert_element_type(exponent, np.int32))
    value = exponent * LN2 + f * polynomial(f * f, ARTANH)
    # Infinities and NaN are their own logarithms.
    value = lax.select(x < np.inf, value, x)
    value = lax.select(x == 0, lax.full_like(x, -np.inf), value)
    return lax.select(x < 0, lax.full_like(x, np.nan), value)


# At ln(2) / 2 the next term is 2^-32 of the value.
EXPONENTIAL = [1 / math.factorial(k) for k in range(9)]
# 2 artanh(f) / f in f^2; at (sqrt(2) - 1) / (sqrt(2) + 1) the next term is 2^-39 of the value.
ARTANH = [2 / (2 * k + 1) for k in range(7)]
ONE, ROOT_OF_HALF = (int(np.float64(x).view(np.int64)) for x in (1, math.sqrt(0.5)))

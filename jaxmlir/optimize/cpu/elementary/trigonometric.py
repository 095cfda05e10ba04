"""Trigonometric functions of 32-bit floats and their inverses, in 64 bits.

The sine and the cosine are polynomials of what is left of a number without quarters of a turn::

    x = 2 pi (k + n / 4) + r      k whole turns, n of their quarters, |r| <= pi / 4

    n mod 4      0        1        2        3
    sin(x)     sin(r)   cos(r)  -sin(r)  -cos(r)
    cos(x)     cos(r)  -sin(r)  -cos(r)   sin(r)

The hard part is ``r`` of a large ``x``: for 1e30, it depends on the hundredth digit of pi.  But
``x`` has 24 bits only.  So ``1 / (2 pi)`` is cut into parts of 29 bits.  The product of ``x`` with
each part is exact, and so is its rest without whole turns (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983)::

    x / (2 pi) - k' = sum of (x p - round(x p)) over the parts p

This holds for any ``x``, without branches and tables.  For all finite numbers, each of which has
been tried, results are within 0.53 units in the last place, and those of tangents within 0.55.
Those of the C library are within 0.56.

The inverse functions are angles of points: ``asin(x)`` that of ``(sqrt(1 - x^2), x)``.  For all
finite numbers they are within 0.51 units, where those of XLA are within 2.3 (``acos``) to 5.2
(``atan``, jax 0.12).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.optimize.cpu.elementary.wide import (
    has_sign,
    integer_bits,
    polynomial,
    whole,
    wide,
    with_sign,
)


def sin(x: Any) -> Any:
    return _unless_tiny(x, sine_and_cosine(wide(x))[0])


def cos(x: Any) -> Any:
    return sine_and_cosine(wide(x))[1]


def tan(x: Any) -> Any:
    sine, cosine, quarter = _in_quarter(wide(x))
    is_odd = _has_bit(quarter, 1)
    of_x = lax.select(is_odd, -cosine, sine) / lax.select(is_odd, sine, cosine)
    return _unless_tiny(x, of_x)


def asin(x: Any) -> Any:
    x = wide(x)
    return angle(x, lax.sqrt((1 - x) * (1 + x)))


def acos(x: Any) -> Any:
    x = wide(x)
    return angle(lax.sqrt((1 - x) * (1 + x)), x)


def atan(x: Any) -> Any:
    x = wide(x)
    return angle(x, lax.full_like(x, 1))


def atan2(y: Any, x: Any) -> Any:
    return angle(wide(y), wide(x))


def angle(y: Any, x: Any) -> Any:
    """The angle of points (x, y), of 64-bit floats that 32-bit floats were made from.

    With the smaller of ``|x|`` and ``|y|`` divided by the greater, the arctangent is that of a
    number from 0 to 1.
    """
    rise, run = abs(y), abs(x)
    is_steep = rise > run
    greater = lax.select(is_steep, rise, run)
    slope = lax.select(is_steep, run, rise) / greater
    # Both are zero, or infinite.
    of_equal = lax.select(run == 0, run, lax.full_like(run, 1))
    slope = lax.select(rise == run, of_equal, slope)
    value = slope * polynomial(slope * slope, ARCTANGENT)
    value = lax.select(is_steep, np.pi / 2 - value, value)
    value = lax.select(has_sign(x), np.pi - value, value)
    return with_sign(value, y)


def sine_and_cosine(x: Any) -> tuple[Any, Any]:
    """The sine and the cosine of 64-bit floats that 32-bit floats were made from."""
    sine, cosine, quarter = _in_quarter(x)
    return _of_quarter(quarter, sine, cosine), _of_quarter(quarter + 1, sine, cosine)


def _unless_tiny(x: Any, of_x: Any) -> Any:
    """A sine or a tangent; for tiny numbers it is the number itself, perhaps a negative zero."""
    return lax.select(abs(x) < 2**-12, x, lax.convert_element_type(of_x, x.dtype))


def _of_quarter(quarter: Any, sine: Any, cosine: Any) -> Any:
    """The sine of ``quarter`` quarters of a turn plus a rest, given the rest's sine and cosine."""
    size = lax.select(_has_bit(quarter, 1), cosine, sine)
    return lax.select(_has_bit(quarter, 2), -size, size)


def _has_bit(x: Any, bit: int) -> Any:
    return (x & bit) != 0


def _in_quarter(x: Any) -> tuple[Any, Any, Any]:
    """The sine and the cosine of a number minus quarters of a turn; and the number of these."""
    first, second, *others = (_from_whole(x * p) for p in TURNS)
    tail = functools.reduce(lax.add, others[::-1])
    quarters = whole(4 * (first + second + tail))
    # If these nearly cancel, the first two differences are exact.
    rest = 2 * np.pi * (first - 0.25 * quarters + second + tail)
    square = rest * rest
    sine = rest * polynomial(square, SINE)
    cosine = polynomial(square, COSINE)
    return sine, cosine, integer_bits(quarters)


def _from_whole(x: Any) -> Any:
    """A number minus the nearest whole number."""
    return x - whole(x)


def _cut(fraction: int, bits: int, sizes: Sequence[int]) -> list[float]:
    """A number as a sum of floats of given numbers of significant bits.

    Args:
      fraction: the first bits of the number after its point.
      bits: the number of these bits.
      sizes: the significant bits of each part, the first part first.
    """
    parts = []
    for size in sizes:
        unit = 1 << (abs(fraction).bit_length() - size)
        rounded = (2 * fraction + unit) // (2 * unit) * unit
        parts.append(math.ldexp(rounded // unit, unit.bit_length() - 1 - bits))
        fraction -= rounded
    return parts


# The first 256 bits of 1 / (2 pi).  Floats go up to 2^128, and the rest may be as small as 2^-30 of
# a turn; 24 bits of it are needed.  The last product need not be exact.
TURNS = _cut(
    0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158, 256, (29,) * 5 + (53,)
)
# Series of sin(r) / r and cos(r) in r^2; at pi / 4 the next terms are 2^-28.7 and 2^-33 of these.
SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(5)]
COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(6)]
# arctan(t) / t in t^2, t from 0 to 1, with a relative error of 2^-31.3 (least maximum, Lawson's
# iteration).
ARCTANGENT = (
    *(0.9999999996282033, -0.3333332393469366, 0.19999604617651087, -0.14279159396313418),
    *(0.11054499732836788, -0.08798766824731027, 0.06716096396078684, -0.04435734802489624),
    *(0.022274236083218445, -0.00719933036238437, 0.0010911004569804635),
)

"""Cube roots, powers and remainders of 32-bit floats, in 64 bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.optimize.cpu.elementary.wide import (
    exponential,
    has_sign,
    logarithm,
    whole,
    wide,
    with_sign,
)


def cbrt(x: Any) -> Any:
    return with_sign(exponential(logarithm(wide(abs(x))) * (1 / 3)), x)


def pow(x: Any, y: Any) -> Any:
    # An infinite exponent is like a large one, also of 1.
    base, exponent = wide(abs(x)), lax.clamp(-1e300, wide(y), 1e300)
    size = exponential(exponent * logarithm(base))
    is_whole = whole(exponent) == exponent
    is_odd = is_whole & (whole(exponent / 2) * 2 != exponent)
    size = lax.select(has_sign(x) & is_odd, -size, size)
    has_no_power = (x < 0) & (base < np.inf) & ~is_whole
    size = lax.select(has_no_power, lax.full_like(size, np.nan), size)
    return lax.select((x == 1) | (y == 0), lax.full_like(size, 1), size)


def rem(x: Any, y: Any) -> Any:
    limits = dtypes.finfo(x.dtype)
    return _remainder(x, y, limits.maxexp - limits.minexp + limits.nmant)


def rem_by(divisor: np.ndarray) -> Callable[[Any, Any], Any]:
    """The remainder of division by a constant."""
    sizes, greatest = np.abs(np.asarray(divisor, np.float64)), dtypes.finfo(divisor.dtype).maxexp
    least = sizes.min(initial=2.0**greatest, where=sizes > 0)
    return _rem_of_quotients(greatest + 1 - math.frexp(least)[1])


@functools.cache
def _rem_of_quotients(bits: int) -> Callable[[Any, Any], Any]:
    return lambda x, y: _remainder(x, y, bits)


def _remainder(x: Any, y: Any, bits: int) -> Any:
    """The remainder, exactly.

    Multiples of the divisor times ``2^29k`` are subtracted, for each ``k`` at most ``2^28`` of
    them, as in long division.  So no product is rounded, and neither is a difference.

    Args:
      bits: quotients are less than ``2^bits``.
    """
    rest, divisor = wide(abs(x)), wide(abs(y))
    divisor = lax.select(divisor == np.inf, lax.full_like(divisor, 2.0**200), divisor)
    inverse = 1 / divisor
    for k in range(29 * (bits // 29), -1, -29):
        rest = rest - whole(rest * (inverse * 2.0**-k)) * (divisor * 2.0**k)
    return with_sign(lax.select(rest < 0, rest + divisor, abs(rest)), x)

"""Functions of complex numbers, from those of their real and imaginary parts in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.optimize.cpu.elementary.trigonometric import angle, sine_and_cosine
from jaxmlir.optimize.cpu.elementary.wide import exponential, logarithm, wide, with_sign


def _of_parts(function: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Any], Any]:
    def of_complex(z: Any) -> Any:
        parts = function(wide(lax.real(z)), wide(lax.imag(z)))
        return lax.complex(*(lax.convert_element_type(part, np.float32) for part in parts))

    return of_complex


def _zero_where(condition: Any, x: Any) -> Any:
    return lax.select(condition, lax.full_like(x, 0), x)


@_of_parts
def exp(x: Any, y: Any) -> tuple[Any, Any]:
    sine, cosine = sine_and_cosine(y)
    size = exponential(x)
    # The exponential of a real number is real, even if it is infinite.
    return size * cosine, _zero_where(y == 0, size * sine)


@_of_parts
def log(x: Any, y: Any) -> tuple[Any, Any]:
    greater, less = lax.max(abs(x), abs(y)), lax.min(abs(x), abs(y))
    # Near the unit circle the difference is exact, and so are the squares.
    less_one = (greater * greater - 1) + less * less
    return 0.5 * logarithm(greater * greater + less * less, less_one), angle(y, x)


@_of_parts
def sqrt(x: Any, y: Any) -> tuple[Any, Any]:
    size = lax.sqrt(0.5 * (lax.sqrt(x * x + y * y) + abs(x)))
    other = _zero_where(size == 0, abs(y) / (2 * size))
    is_infinite = (abs(y) == np.inf) & (x == x)
    size, other = (lax.select(is_infinite, abs(y), part) for part in (size, other))
    real, size = lax.select(x < 0, other, size), lax.select(x < 0, size, other)
    # JAX takes a negative zero for zero here.
    return real, lax.select(y < 0, -size, size)


def _hyperbolic(x: Any) -> tuple[Any, Any]:
    """The hyperbolic sine and cosine."""
    size = abs(x)
    power = exponential(size)
    inverse = 1 / power
    # The difference of powers of small numbers has few digits.
    sine = lax.select(size < 2**-12, size + size * size * size / 6, 0.5 * (power - inverse))
    return with_sign(sine, x), 0.5 * (power + inverse)


@_of_parts
def sin(x: Any, y: Any) -> tuple[Any, Any]:
    (sine, cosine), (sinh, cosh) = sine_and_cosine(x), _hyperbolic(y)
    return _zero_where(x == 0, sine * cosh), cosine * sinh


@_of_parts
def cos(x: Any, y: Any) -> tuple[Any, Any]:
    (sine, cosine), (sinh, cosh) = sine_and_cosine(x), _hyperbolic(y)
    return cosine * cosh, _zero_where(x == 0, -sine * sinh)


@_of_parts
def tanh(x: Any, y: Any) -> tuple[Any, Any]:
    # Beyond, it is 1 or -1, and the argument of the sine does not matter.
    y = _zero_where((abs(x) == np.inf) & ~(abs(y) < np.inf), y)
    (sine, cosine), (sinh, cosh) = sine_and_cosine(y), _hyperbolic(lax.clamp(-60.0, x, 60.0))
    divisor = sinh * sinh + cosine * cosine
    return sinh * cosh / divisor, _zero_where(y == 0, sine * cosine / divisor)

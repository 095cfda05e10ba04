"""``jaxpr-expand-trigonometry``: writes sines, cosines and tangents so that XLA vectorizes them.

XLA's CPU compiler writes ``exp``, ``log`` and ``tanh`` as polynomials, which it vectorizes.  For
``sin``, ``cos`` and ``tan`` it calls a C library, element by element.  This pass writes them as
polynomials, too, of 64-bit floats, which have digits to spare::

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
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax import lax

from jaxmlir._compat import jax_version
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.fusion import LIBRARY_REDUCTIONS
from jaxmlir.dialect.builder import only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion
from jaxmlir.passes.base import Count

# Milliseconds of XLA, of this pass for a million elements, two CPU cores: sin 7.5 to 12, 1.5; tan
# 13 to 20, 1.5; sin and cos of the same 9 to 15, 1.8.  Microseconds of a program that is nothing
# but a sine, by its elements, jax 0.10 and 0.12, and of an iteration of a loop with one:
#    64    6, 14     7, 15      0.15, 0.11   0.15, 0.11
#   256    6, 14     7, 16      0.61, 0.42   0.58, 0.38
# 1,000   15, 14    18, 17
# XLA starts no thread for a program that it thinks is short.
MIN_ELEMENTS = 256
# Nanoseconds saved per element, and the ops of a polynomial.
SAVED = 6.0
OPS = 70

# The ops that XLA fuses into a reduction that follows.  Since jax 0.11 a library computes such a
# reduction, and vectorizes sines: ``sum(sin(x))`` of a million elements by XLA, with this pass, ms:
# jax 0.10 7.5, 1.5, 0.11 0.2, 0.8, 0.12 0.35, 1.5.  It does not do so if anything else uses the
# sine, or if another op is in between.
_REDUCTIONS_SINCE = (0, 11)
_FUSED_BEFORE = frozenset(
    f"jaxpr.{name}"
    for name in (
        *("abs", "ceil", "erf", "exp", "exp2", "expm1", "floor", "integer_pow", "log", "log1p"),
        *("logistic", "neg", "rsqrt", "sign", "sqrt", "square", "tanh"),
        *("add", "add_any", "div", "max", "min", "mul", "sub"),
        *("cos", "sin", "tan"),
        *("broadcast_in_dim", "convert_element_type", "reshape"),
    )
)


class ExpandTrigonometry(ExpandOps):
    """Write sines, cosines and tangents of 32-bit floats as polynomials.

    Options:
      min-elements: functions of fewer elements are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-trigonometry"
    min_elements: Count = MIN_ELEMENTS

    def expansions(self, program: Module) -> Callable[[OpView], Expansion | None]:
        reduced: dict[ir.Value, bool] = {}

        def expansion(node: OpView) -> Expansion | None:
            aval = aval_of(node.operands[0].type)
            if node.get("accuracy") is not None:
                return None
            if aval.dtype != np.float32 or aval.size < self.min_elements:
                return None
            if _is_reduced(node.op, reduced):
                return None
            polynomial = FUNCTIONS[node.name]
            return Expansion("expanded into a polynomial", polynomial, OPS, SAVED * aval.size)

        return expansion


def _is_reduced(op: Any, known: dict[ir.Value, bool]) -> bool:
    """Whether XLA lets the library for reductions compute an op.

    Args:
      known: for values that several ops may lead to, whether a reduction follows.
    """
    if jax_version()[:2] < _REDUCTIONS_SINCE:
        return False
    value, way = op.results[0], []
    while True:
        user = only_user(value)
        if user is None or user.name not in _FUSED_BEFORE:
            is_reduced = user is not None and user.name in LIBRARY_REDUCTIONS
            break
        (value,) = user.results
        if value in known:
            is_reduced = known[value]
            break
        # Ops that are expanded later are erased then, and erased values must not be in a table.
        if user.name not in FUNCTIONS:
            way.append(value)
    known.update(dict.fromkeys(way, is_reduced))
    return is_reduced


def _of_wide_numbers(function: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """A function of an array that computes with 64 bits, whether JAX has these enabled or not."""

    def of_any(x: Any) -> list[Any]:
        with jax.enable_x64(True):
            return [lax.convert_element_type(function(x), x.dtype)]

    return of_any


@_of_wide_numbers
def _sin(x: Any) -> Any:
    sine, cosine, quarter = _in_quarter(x)
    return _unless_tiny(x, _of_quarter(quarter, sine, cosine))


@_of_wide_numbers
def _cos(x: Any) -> Any:
    sine, cosine, quarter = _in_quarter(x)
    return _of_quarter(quarter + 1, sine, cosine)


@_of_wide_numbers
def _tan(x: Any) -> Any:
    sine, cosine, quarter = _in_quarter(x)
    is_odd = _has_bit(quarter, 1)
    of_x = lax.select(is_odd, -cosine, sine) / lax.select(is_odd, sine, cosine)
    return _unless_tiny(x, of_x)


FUNCTIONS = {"jaxpr.sin": _sin, "jaxpr.cos": _cos, "jaxpr.tan": _tan}


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
    x = lax.convert_element_type(x, np.float64)
    first, second, *others = (_from_whole(x * p) for p in TURNS)
    tail = functools.reduce(lax.add, others[::-1])
    quarters = _round(4 * (first + second + tail))
    # If these nearly cancel, the first two differences are exact.
    rest = 2 * np.pi * (first - 0.25 * quarters + second + tail)
    square = rest * rest
    sine = rest * _polynomial(square, SINE)
    cosine = _polynomial(square, COSINE)
    return sine, cosine, lax.convert_element_type(quarters, np.int32)


def _from_whole(x: Any) -> Any:
    """A number minus the nearest whole number."""
    return x - _round(x)


def _round(x: Any) -> Any:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


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

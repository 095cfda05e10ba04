"""Inverses of elementwise arithmetic and elementary functions.

Where an op is many-to-one, its inverse is the principal branch, and the op's record says for which
operands that is right.  A log-slope is given where the one of the derivative rule overflows,
cancels or takes more ops; the others come from the op's own JVP rule.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri

from jaxmlir.dialect.types import aval_of, holds
from jaxmlir.transforms.inverses.rule import (
    RULES,
    Formula,
    Formulas,
    binary,
    is_constant,
    quotient,
    unary,
    wide,
)
from jaxmlir.transforms.inverses.solver import NotInvertible, Site

LOG_2 = math.log(2.0)


def _log_abs(x: Any) -> Any:
    return lax.log(lax.abs(x))


def _floating(unknown: tuple[int, ...], *avals: Any, **_: Any) -> None:
    """Fails if an unknown operand is an integer."""
    for i in unknown:
        if not jnp.issubdtype(avals[i].dtype, jnp.inexact):
            raise NotInvertible(f"it is not one-to-one on integers ({avals[i].str_short()})")


# --- arithmetic -----------------------------------------------------------------------------------


def _multiplication(unknown: tuple[int, ...], *avals: Any, **_: Any) -> None:
    if avals[0].dtype == jnp.bool_:
        raise NotInvertible("the product of booleans is many-to-one")
    if len(unknown) > 1:
        _floating(unknown, *avals)


_SUM = Formula(lambda z, x: z - x, None)
_HALF = Formula(lambda z: lax.div(z, jnp.full_like(z, 2)), lambda x, z: LOG_2)
binary("add", _SUM, _SUM, _HALF)
binary("add_any", _SUM, _SUM, _HALF)
binary("sub", Formula(lambda z, y: z + y, None), Formula(lambda z, x: x - z, None))
_FACTOR = Formula(quotient, lambda x, z, y: _log_abs(y))


class Product(Formulas):
    """A product: where a constant factor is zero, the result is known, the other factor lost."""

    def forward(self, site: Site) -> None:
        super().forward(site)
        result = site.solver.of(site.results[0])
        if not result.static:
            return
        zero = np.zeros(result.size, bool)
        for operand in site.operands:
            zero |= is_constant(site, operand, (0,))
        where = np.flatnonzero(zero & ~result.known())
        if where.size:
            dtype = aval_of(site.results[0].type).dtype
            (value,) = site.emit(("zeros", where.size), lambda: [jnp.zeros(where.size, dtype)], [])
            site.tell(site.results[0], value, where)


RULES["mul"] = Product(
    {(0,): _FACTOR, (1,): _FACTOR},
    {(0, 1): Formula(lax.sqrt)},
    elementwise=True,
    check=_multiplication,
    lost={0: (0,), 1: (0,)},
)
binary(
    "div",
    Formula(lambda z, y: z * y, lambda x, z, y: -_log_abs(y)),
    Formula(lambda z, x: x / z, lambda y, z, x: _log_abs(z) - _log_abs(y)),
    check=_floating,
    lost={1: (0,)},
)
binary(
    "pow",
    Formula(
        lambda z, y: z ** (1 / y),
        lambda x, z, y: _log_abs(y * jnp.ones_like(x)) + _log_abs(z) - _log_abs(x),
    ),
    Formula(
        lambda z, x: lax.log(z) / lax.log(x), lambda y, z, x: _log_abs(z) + _log_abs(jnp.log(x))
    ),
    check=_floating,
    lost={0: (0,), 1: (0, 1)},
)
binary("atan2", Formula(lambda z, x: x * lax.tan(z)), Formula(lambda z, y: y / lax.tan(z)))
unary("neg", lax.neg, None)
unary("not", lax.bitwise_not, None)
binary("xor", Formula(lax.bitwise_xor, None), Formula(lax.bitwise_xor, None))
unary("square", lax.sqrt, lambda x, y: LOG_2 + _log_abs(x), check=_floating)
unary("one_minus_square", lambda y: lax.sqrt(1 - y))


def _integer_root(z: Any, *, y: int) -> Any:
    if y == 1:
        return z
    if y < 0:
        return _integer_root(1 / z, y=-y)
    if y == 2:
        return lax.sqrt(z)
    if y == 3 and not jnp.issubdtype(z.dtype, jnp.complexfloating):
        return lax.cbrt(z)
    if y % 2 == 0 or jnp.issubdtype(z.dtype, jnp.complexfloating):
        return z ** (1 / y)
    return jnp.sign(z) * jnp.abs(z) ** (1 / y)


def _integer_power(unknown: tuple[int, ...], aval: Any, *, y: int) -> None:
    if y == 0:
        raise NotInvertible("x ** 0 is 1 for all x")
    if y != 1:
        _floating(unknown, aval)


unary(
    "integer_pow",
    _integer_root,
    lambda x, z, *, y: math.log(abs(y)) + (y - 1) * _log_abs(x),
    attributes=("y",),
    check=_integer_power,
)

# --- exponentials, roots, trigonometry ------------------------------------------------------------

unary("exp", lax.log, lambda x, y: lax.real(x) if jnp.iscomplexobj(x) else x)
unary("exp2", lambda y: lax.log(y) / LOG_2)
unary("expm1", lax.log1p, lambda x, y: lax.real(x) if jnp.iscomplexobj(x) else x)
unary("log", lax.exp, lambda x, y: -_log_abs(x))
unary("log1p", lax.expm1, lambda x, y: -_log_abs(1 + x))
unary("log2", lambda y: lax.exp2(y))
unary("logistic", lambda y: lax.log(y) - lax.log1p(-y), lambda x, y: lax.log(y) + lax.log1p(-y))
unary("sqrt", lax.square)
unary("rsqrt", lambda y: lax.integer_pow(y, -2))
unary("cbrt", lambda y: lax.integer_pow(y, 3))
unary("sin", lax.asin)
unary("cos", lax.acos)
unary("tan", lax.atan)
unary("asin", lax.sin)
unary("acos", lax.cos)
unary("atan", lax.tan)
unary("sinh", lax.asinh)
unary("cosh", lax.acosh)
# 1 - y**2 cancels where |y| is near 1.
unary("tanh", lax.atanh, lambda x, y: lax.log1p(-y) + lax.log1p(y))
unary("asinh", lax.sinh)
unary("acosh", lax.cosh)
unary("atanh", lax.tanh)

# --- special functions ----------------------------------------------------------------------------

_ERF = math.log(2 / math.sqrt(math.pi))
unary("erf", lax.erf_inv, lambda x, y: _ERF - x * x)


def _erfc_inv(y: Any) -> Any:
    # 1 - y rounds to 1 for small y, where x is large.
    return ndtri(wide(y)[0] / 2) / -math.sqrt(2)


unary("erfc", _erfc_inv, lambda x, y: _ERF - x * x)
unary("erf_inv", lax.erf, lambda x, y: y * y - _ERF)

# --- complex numbers ------------------------------------------------------------------------------

unary("conj", lambda y, *, input_dtype=None: lax.conj(y), None)


# --- dtypes ---------------------------------------------------------------------------------------


def _lossless(unknown: tuple[int, ...], aval: Any, *, new_dtype: Any) -> None:
    """Fails unless the new dtype holds every value of the old one."""
    if not holds(jnp.dtype(new_dtype), jnp.dtype(aval.dtype)):
        raise NotInvertible(f"{new_dtype} does not hold every value of {aval.dtype}")


unary("convert_element_type", lambda y, **_: y, None, attributes=("new_dtype",), check=_lossless)

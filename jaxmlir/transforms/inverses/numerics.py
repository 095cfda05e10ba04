"""Numbers that inverses compute in more than one place."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax


def quotient(z: Any, y: Any) -> Any:
    """The factor that ``y`` was multiplied by.

    Integers are multiplied modulo a power of two, where an odd number has an inverse (Newton's
    iteration: each step doubles the bits that are right).  Of an even number the factor of two is
    shifted out.  But where ``y`` divides ``z``, the quotient is the factor without an overflow.
    """
    if jnp.issubdtype(z.dtype, jnp.inexact):
        return z / y
    y = jnp.broadcast_to(y, z.shape).astype(z.dtype)
    one, two = jnp.ones_like(y), jnp.full_like(y, 2)
    twos = lax.population_count((y & -y) - one)
    odd = lax.shift_right_logical(y, twos)
    inverse, bits = (odd * 3) ^ two, 5
    while bits < jnp.iinfo(z.dtype).bits:
        inverse, bits = inverse * (two - odd * inverse), 2 * bits
    is_signed = jnp.issubdtype(z.dtype, jnp.signedinteger)
    shift = lax.shift_right_arithmetic if is_signed else lax.shift_right_logical
    return lax.select(lax.rem(z, y) == 0, lax.div(z, y), shift(z * inverse, twos))


def log_difference(z: Any, b: Any) -> Any:
    """log(exp(z) - exp(b)), of z > b, exact where these are close and where they are not (M.
    Maechler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    is_all = b == -jnp.inf
    below = jnp.where(is_all, -1, b - z)
    is_close = below > -math.log(2)
    close = jnp.log(-jnp.expm1(jnp.where(is_close, below, -1)))
    far = jnp.log1p(-jnp.exp(jnp.where(is_close, -1, below)))
    return jnp.where(is_all, z, z + jnp.where(is_close, close, far))


def wide(*xs: Any) -> list[Any]:
    """Arrays in one floating type that matrices are factored in: none of 16 bits."""
    dtype = jnp.result_type(*(x.dtype for x in xs), jnp.float32)
    return [x.astype(dtype) for x in xs]


def log_abs_det(matrix: Any) -> Any:
    """log|det| of each matrix of a stack."""
    return jnp.linalg.slogdet(*wide(matrix))[1]

"""``jaxpr-expand-sorts``: sorts by one integer for each element.

XLA's CPU compiler sorts several arrays by calling a function for each comparison.  So it sorts an
array of floats, too, because a comparison that knows where NaN and negative zeros belong is more
than ``<``.  Only an array of integers is sorted by the instructions of the machine.  This pass
makes such an array of a key of 32 bits and of what is needed to tell elements apart, and to find
them again::

    i = sort(order(key) << 32 | position) & 0xffffffff
    sort(key, x, y)   ->   key[i], x[i], y[i]

``order`` is an integer for each number, the same for zeros of both signs, and for each NaN.  Equal
keys stay in the order of their positions.  So results have the same bits, and derivatives are those
of the elements that are taken.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter

# Nanoseconds per element of float32 as XLA sorts them / as this pass does, two CPU cores, of
# ``sort`` with jax 0.10 and 0.12, and of ``argsort``:
#   262,144           341/87   332/99     402/84   307/103
#   1,000             320/96   243/106    309/63   177/66
#   1,000 x 100       127/36   155/43     189/46   102/42
#   10,000 x 8         53/25    63/18      99/20    51/19
#   100 x 1,000, 1st  166/52   157/50     223/52   116/50
# Steps of a loop that sort 4 elements and find their order take 382/250 and 122/49, of 100 elements
# 293/45 and 229/44.  The order of integers takes as long as that of floats with jax 0.10, and
# 114/95 with 0.12.
# Nanoseconds saved per element and power of two of the length; and the ops.
SAVED = 5.0
OPS = 20

# Positions have so many bits.
_POSITION = 32


class ExpandSorts(ExpandOps):
    """Sort integers that hold a key and a position, and take the elements in their order."""

    name: ClassVar[str] = "jaxpr-expand-sorts"
    # Elements would be taken from those of other devices.
    partitioned: ClassVar = False

    def expansion(self, node: OpView) -> Expansion | None:
        aval, dim = aval_of(node.operands[0].type), int(node.get("dimension"))
        if int(node.get("num_keys")) > 1 or not _has_order(aval.dtype):
            return None
        if len(node.operands) == 1 and not dtypes.issubdtype(aval.dtype, np.floating):
            return None
        length = aval.shape[dim] if aval.size else 0
        if not 1 < length <= 1 << _POSITION:
            return None
        return Expansion(
            f"sorts {length:,} integers that hold a key and a position",
            functools.partial(_sort, dim=dim),
            OPS,
            SAVED * aval.size * math.log2(length),
            by_steps=True,
        )


def _has_order(dtype: Any) -> bool:
    """Whether numbers of a type are in the order of integers of 32 bits."""
    if dtypes.issubdtype(dtype, np.floating) or dtypes.issubdtype(dtype, np.integer):
        return dtype.itemsize <= 4
    return dtype == np.bool_


def _sort(writer: ExpansionWriter, key: ir.Value, *others: ir.Value, dim: int) -> list[ir.Value]:
    # The key is read twice now, and has to be rounded once; elements are taken once.
    key = writer.store(key)
    (positions,) = writer.emit(functools.partial(_positions, dim=dim), key)
    taken = writer.emit(functools.partial(_taken, dim=dim), positions, key, *others)
    return [writer.store(value) for value in taken]


def _positions(key: Any, *, dim: int) -> list[Any]:
    """The positions along a dimension of the elements in their order."""
    # A program has the same types whether JAX has 64 bits enabled or not.
    with jax.enable_x64(True):
        order = lax.convert_element_type(_order(key), np.int64)
        position = lax.broadcasted_iota(np.int64, key.shape, dim)
        (both,) = lax.sort([order << _POSITION | position], dimension=dim, is_stable=False)
        return [lax.convert_element_type(both & (1 << _POSITION) - 1, np.uint32)]


def _order(x: Any) -> Any:
    """Integers of 32 bits in the order of numbers."""
    if x.dtype == np.uint32:
        return lax.bitcast_convert_type(x ^ np.uint32(1 << 31), np.int32)
    if not dtypes.issubdtype(x.dtype, np.floating):
        return lax.convert_element_type(x, np.int32)
    x = lax.convert_element_type(x, np.float32)
    x = jnp.where(x == 0, np.float32(0), jnp.where(x != x, np.float32(np.nan), x))
    bits = lax.bitcast_convert_type(x, np.int32)
    # Of negative numbers, the greater one has the smaller other bits.
    return bits ^ (bits >> 31 & np.int32(2**31 - 1))


def _taken(positions: Any, *arrays: Any, dim: int) -> list[Any]:
    take = functools.partial(jnp.take_along_axis, axis=dim, mode="promise_in_bounds")
    return [take(array, positions) for array in arrays]

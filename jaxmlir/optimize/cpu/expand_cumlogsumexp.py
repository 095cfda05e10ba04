"""``jaxpr-expand-cumlogsumexp``: logarithms of cumulative sums, in a logarithmic number of steps.

XLA's CPU compiler adds up each window of 16 elements anew, and ``log(exp(a) + exp(b))`` takes two
slow functions: 16 times what is needed.  This pass first combines pairs of consecutive elements,
computes the cumulative sums of these half as many values in the same way, and gets each other
element by one more addition::

    c[i] = x[2 i] + x[2 i + 1]         "+" is logaddexp
    d    = the same of c
    y[2 i + 1] = d[i],    y[2 i + 2] = d[i] + x[2 i + 2],    y[0] = x[0]

The result of each step is stored; otherwise each result of the last step would be computed from the
beginning.  Sums are rounded in another order, the order of JAX's derivative of this op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter, pad_dims
from jaxmlir.passes.base import Count

# Nanoseconds per element of XLA, of this pass; a CPU core, jax 0.10 and 0.12:
#   20,000           353, 37   359, 27     128 x 512, first axis   315, 7    324, 6
#   1,000 x 8, first 352, 44   354, 27     128 x 512, last         344, 14   356, 9
# XLA's windows over a shorter axis are smaller.  Two kernels for each power of two take 0.3 to
# 1.3 s to compile, and arrays of fewer elements than this take 0.4 ms without them.
MIN_LENGTH = 32
MIN_ELEMENTS = 1_000
# Nanoseconds saved per element, and the ops for each power of two.
SAVED = 300.0
OPS = 28


class ExpandCumlogsumexp(ExpandOps):
    """Expand cumulative log-sum-exps by recursive halving.

    Options:
      min-length: axes of fewer elements are left alone.
      min-elements: arrays of fewer elements are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-cumlogsumexp"
    min_length: Count = MIN_LENGTH
    min_elements: Count = MIN_ELEMENTS

    def expansion(self, node: OpView) -> Expansion | None:
        aval = aval_of(node.operands[0].type)
        if not dtypes.issubdtype(aval.dtype, np.floating):
            return None
        axis, reverse = int(node.get("axis")), bool(node.get("reverse", False))
        length = aval.shape[axis]
        if length < max(self.min_length, 2) or aval.size < max(self.min_elements, 1):
            return None
        return Expansion(
            f"expanded by recursive halving of {length} elements",
            functools.partial(_cumulative, axis=axis, reverse=reverse),
            OPS * length.bit_length(),
            SAVED * aval.size,
            by_steps=True,
        )


def _cumulative(writer: ExpansionWriter, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    if aval_of(x.type).shape[axis] == 1:
        return x

    def stored(step: Callable[..., list[Any]], *operands: ir.Value) -> ir.Value:
        step = functools.partial(step, axis=axis, reverse=reverse)
        return writer.store(writer.emit(step, *operands)[0])

    pairs = stored(_pairs, x)
    sums = _cumulative(writer, pairs, axis=axis, reverse=reverse)
    return stored(_between, x, sums)


def _turned(x: Any, axis: int, reverse: bool) -> Any:
    return lax.rev(x, (axis,)) if reverse else x


def _pairs(x: Any, *, axis: int, reverse: bool) -> list[Any]:
    """The sums of pairs of elements; the last one of an odd number of elements has no partner."""
    x = _turned(x, axis, reverse)
    whole = x.shape[axis] // 2 * 2
    pairs = (lax.slice_in_dim(x, start, whole, 2, axis) for start in (0, 1))
    return [_turned(_logaddexp(*pairs), axis, reverse)]


def _between(x: Any, sums: Any, *, axis: int, reverse: bool) -> list[Any]:
    """The cumulative sums of elements, given those of pairs, i.e. every second one of them."""
    x, sums = (_turned(v, axis, reverse) for v in (x, sums))
    size = x.shape[axis]
    even = lax.slice_in_dim(x, 0, 1, 1, axis)
    if size > 2:
        others = lax.slice_in_dim(x, 2, None, 2, axis)
        before = lax.slice_in_dim(sums, 0, others.shape[axis], 1, axis)
        even = lax.concatenate([even, _logaddexp(before, others)], axis)
    # Interleaved: each is padded with zeros where the other has its elements, and both are added.
    is_odd = size % 2
    even, odd = pad_dims(even, {axis: (0, 1 - is_odd, 1)}), pad_dims(sums, {axis: (1, is_odd, 1)})
    return [_turned(lax.add(even, odd), axis, reverse)]


def _logaddexp(a: Any, b: Any) -> Any:
    difference = lax.sub(a, b)
    # The difference of equal infinities is NaN.
    total = lax.add(lax.max(a, b), lax.log1p(lax.exp(lax.neg(lax.abs(difference)))))
    return lax.select(lax.ne(difference, difference), lax.add(a, b), total)

"""``jaxpr-expand-products``: products of which XLA makes elementwise ops, as these.

A product that sums nothing multiplies each element of one array by elements of the other, and the
products of corresponding rows are sums of elementwise products::

    dot_general(x, y)[b, i, j] = x[b, i] * y[b, j]
    dot_general(x, y)[b]       = x[b, 0] * y[b, 0] + x[b, 1] * y[b, 1] + ...

XLA's CPU compiler does the same, and then fuses what it made.  Written before, they are known to
the passes that decide what is computed once: that a kernel computes what it multiplies by for each
of its elements anew, and that few elements are added up (:mod:`.unroll_reductions`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir.ir import ir
from jaxmlir.passes._base import Count, Pass
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._options import is_for_cpu
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._replace import replace_ops
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import is_narrow, is_plain_op
from jaxmlir.passes.unroll_reductions import MAX_SIZE
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


class ExpandProducts(Pass):
    """Write products that sum nothing, or few elements of rows, as elementwise ops.

    Options:
      platform: what the program will be compiled for; by default JAX's default backend. Others than
        the CPU are left alone.
      max-size: of rows with more elements, products are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-products"
    platform: str = ""
    max_size: Count = MAX_SIZE

    def run(self, program: Program) -> bool:
        return is_for_cpu(self.platform) and expand_products(program, self.max_size) > 0


def expand_products(program: Program, max_size: int = MAX_SIZE) -> int:
    """Expands products in place; how many."""

    def expanded(rules: Rules, node: OpNode) -> ir.Value | None:
        product = _product(node, max_size)
        if product is None:
            return None
        remark(node.op, "as products of elements")
        return rules.emit(product, list(node.operands), product)[0]

    return replace_ops(program, {"jaxpr.dot_general"}, expanded)


def _product(node: OpNode, max_size: int) -> _Product | None:
    """What a product computes, if it is elementwise."""
    avals = [aval_of(v.type) for v in (*node.operands, node.op.operation.results[0])]
    types = {aval.dtype for aval in avals}
    if not is_plain_op(node) or len(types) > 1 or any(map(_is_left_alone, types)):
        return None
    x, y, result = (aval.shape for aval in avals)
    dims = tuple(tuple(map(tuple, sides)) for sides in node.get("dimension_numbers"))
    (summed, _), (batch, _) = dims
    size = math.prod(x[d] for d in summed)
    of_rows = len(summed) + len(batch) == len(x) == len(y)
    if size != 1 and not (of_rows and 1 < size <= max_size):
        return None
    return _Product(dims, result)


def _is_left_alone(dtype: Any) -> bool:
    """Booleans are not multiplied but combined; of halves, XLA rounds products otherwise."""
    return dtype == np.bool_ or is_narrow(dtype)


@dataclass(frozen=True)
class _Product:
    """Sums of products of elements; hashable.

    Attributes:
      dims: the dimensions that are summed, of each operand, and those of the batch.
      shape: of the result.
    """

    dims: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    shape: tuple[int, ...]

    def __call__(self, x: Any, y: Any) -> list[Any]:
        (summed, batch) = self.dims
        sizes = tuple(x.shape[d] for d in summed[0])
        ends = range(len(self.shape), len(self.shape) + len(sizes))
        first, end = len(batch[0]), len(self.shape)
        middle = x.ndim - len(sizes)
        at = [*range(middle), *ends], [*range(first), *range(middle, end), *ends]
        shape = (*self.shape, *sizes)
        x, y = (
            _spread(array, gone, kept, shape, to)
            for array, gone, kept, to in zip((x, y), summed, batch, at, strict=True)
        )
        return [lax.reduce_sum(lax.mul(x, y), tuple(ends)) if sizes else lax.mul(x, y)]


def _spread(
    array: Any, summed: Sequence[int], batch: Sequence[int], shape: Sequence[int], to: Sequence[int]
) -> Any:
    """An operand with its dimensions in the order of the product's, spread over all of these."""
    free = [d for d in range(array.ndim) if d not in (*summed, *batch)]
    order = [*batch, *free, *summed]
    if order != sorted(order):
        array = lax.transpose(array, order)
    if array.shape == tuple(shape):
        return array
    return lax.broadcast_in_dim(array, shape, to)

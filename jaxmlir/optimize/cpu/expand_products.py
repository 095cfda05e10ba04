"""``jaxpr-expand-products``: writes products of small matrices as elementwise ops.

A product that sums nothing multiplies each element of one array by elements of the other.  Products
of corresponding rows are sums of elementwise products.  A product that sums over a few elements is
a sum of as many products that sum nothing::

    dot_general(x, y)[b, i, j] = x[b, i] * y[b, j]
    dot_general(x, y)[b]       = x[b, 0] * y[b, 0] + x[b, 1] * y[b, 1] + ...
    dot_general(x, y)[b, i, j] = x[b, i, 0] * y[b, 0, j] + x[b, i, 1] * y[b, 1, j] + ...

XLA's CPU compiler expands the first two in the same way, and then fuses them.  If this pass expands
them before, the passes that decide what is computed once see that a kernel recomputes the factors
for each of its elements, and that few elements are added up (:mod:`.unroll_reductions`).  XLA
leaves the third to a library, which it calls for each matrix of a batch; these calls cost more than
the arithmetic of small matrices.  Elementwise ops are vectorized over whole batches, and XLA makes
one kernel of a loop without such calls.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import is_narrow
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion
from jaxmlir.optimize.cpu.unroll_reductions import MAX_SIZE, MIN_RESULTS
from jaxmlir.passes.base import Count

# Microseconds of a step of a loop with one product, by the library / elementwise, float32, two CPU
# cores, jax 0.10 and 0.12; batches of matrices (rows, summed, columns):
#                       1               16              256             4096
#   4, 4, 4      0.17/0.16 1.1/0.19  8.7/0.9 9.0/1.1  120/2.8 120/2.9  1930/53 1985/35
#   6, 6, 6       1.1/0.27 1.0/0.21  9.7/1.7 9.5/1.7  130/14 145/14   2150/230 2271/210
#   8, 8, 8       1.5/1.0  1.2/0.9   2.7/1.4 1.8/1.3   25/16  29/11    650/280  327/235
#   3, 3, 32     0.7/0.2   0.6/0.2   2.4/1.2 2.0/1.0   18/5   34/4     391/131  250/126
#   64, 3, 3      2.5/0.9  1.7/0.9    22/1.7 5.3/1.6  373/33  87/18   5459/470  942/738
#   32, 4, 32     1.9/1.1  1.7/1.1    10/7    28/3    262/67 155/49   2166/640 1568/1151
#   12, 12, 12    1.7/1.1  1.5/1.1   6.2/4.2 4.4/2.3   72/40  76/26   1259/535  673/625
# 10,000 rows times a matrix of 3 x 3: 194/13 and 81/12, 4 x 4: 38/15, 8 x 8: 101/64 and 90/42.
# If neither side is a small matrix, elementwise ops take longer from 48 x 4 x 48 on, with jax 0.10.
MAX_SIDE = 16
MAX_MATRIX = 1024
# A batch of matrices times a vector each: 4096 of 3 x 3 31/28 and 58/21, 4 x 4 57/49 and 39/19, but
# 6 x 6 142/127 and 154/73, 8 x 8 175/218.
MAX_OF_VECTORS = 4

# The least nanoseconds that are saved for each matrix of a batch, and for each row or column of the
# larger side, by the table above; and the ops for each element that is summed.
MATRIX = 100.0
ROW = 3.0
OPS = 8
_REASON = "expanded into elementwise products"

# These say which types operands are rounded to, and in which types sums are computed.
_ALGORITHMS = (lax.DotAlgorithm, lax.DotAlgorithmPreset)


class ExpandProducts(ExpandOps):
    """Write products that sum no elements, or few in rows or small matrices, as elementwise ops.

    Options:
      max-size: products that sum more elements are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-products"
    max_size: Count = MAX_SIZE

    def expansion(self, node: OpView) -> Expansion | None:
        return _expansion(node, self.max_size)


def _expansion(node: OpView, max_size: int) -> Expansion | None:
    """The expansion of a product into elementwise ops; ``None`` if it stays."""
    avals = [aval_of(v.type) for v in (*node.operands, node.op.operation.results[0])]
    types = {aval.dtype for aval in avals}
    if len(types) > 1 or any(map(_is_left_alone, types)):
        return None
    if isinstance(node.get("precision"), _ALGORITHMS):
        return None
    x, y, result = (aval.shape for aval in avals)
    dims = tuple(tuple(map(tuple, sides)) for sides in node.get("dimension_numbers"))
    size, batch = (math.prod(x[d] for d in of_x) for of_x, _ in dims)
    # XLA writes the same ops for products that sum nothing, and for products of rows.
    product = functools.partial(_product, dims=dims, shape=result)
    same = Expansion(_REASON, product, 0, 0.0)
    if size == 1:
        return same
    results = math.prod(result)
    if not 1 < size <= max_size or not results:
        return None
    rows, columns = math.prod(x) // (size * batch), math.prod(y) // (size * batch)
    if rows == columns == 1:
        return same
    if min(rows, columns) == 1:
        if batch == 1 or size > MAX_OF_VECTORS:
            return None
    elif min(rows, columns) > MAX_SIDE and rows * columns > MAX_MATRIX:
        return None
    unrolled = results >= MIN_RESULTS
    product = functools.partial(product, unrolled=unrolled)
    saved = batch * (MATRIX + ROW * max(rows, columns))
    return Expansion(_REASON, product, (OPS if unrolled else 1) * size, saved)


def _is_left_alone(dtype: Any) -> bool:
    """Whether products of a type stay: booleans, which are combined, not multiplied, and narrow
    floats, whose products XLA rounds otherwise."""
    return dtype == np.bool_ or is_narrow(dtype)


_Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _product(
    x: Any, y: Any, *, dims: _Dims, shape: tuple[int, ...], unrolled: bool = False
) -> list[Any]:
    """The sums of products of elements.

    Args:
      dims: the contracting and the batch dimensions of each operand.
      shape: the shape of the result.
      unrolled: whether each element that is summed is a product of its own; otherwise a reduction
        follows.
    """
    summed, batch = dims
    sizes = tuple(x.shape[d] for d in summed[0])
    if unrolled:
        left = ((), ()), tuple(map(_without, batch, summed))
        terms = []
        for i in itertools.product(*map(range, sizes)):
            of_x, of_y = (at_indices(v, d, i) for v, d in zip((x, y), summed, strict=True))
            terms += _product(of_x, of_y, dims=left, shape=shape)
        return [functools.reduce(lax.add, terms)]
    first, end, middle = len(batch[0]), len(shape), x.ndim - len(sizes)
    ends = range(end, end + len(sizes))
    at = [*range(middle), *ends], [*range(first), *range(middle, end), *ends]
    x, y = (
        _spread(array, gone, batch_dims, (*shape, *sizes), to)
        for array, gone, batch_dims, to in zip((x, y), summed, batch, at, strict=True)
    )
    return [lax.reduce_sum(lax.mul(x, y), tuple(ends)) if sizes else lax.mul(x, y)]


def _without(dims: Sequence[int], gone: Collection[int]) -> tuple[int, ...]:
    """The numbers of dimensions after others are removed."""
    return tuple(d - sum(g < d for g in gone) for d in dims)


def at_indices(array: Any, dims: Sequence[int], indices: Sequence[int]) -> Any:
    """An array at indices along some dimensions, without these dimensions."""
    start, limit = [0] * array.ndim, list(array.shape)
    for d, i in zip(dims, indices, strict=True):
        start[d], limit[d] = i, i + 1
    return lax.squeeze(lax.slice(array, start, limit), dims)


def _spread(
    array: Any, summed: Sequence[int], batch: Sequence[int], shape: Sequence[int], to: Sequence[int]
) -> Any:
    """An operand with its dimensions in the order of the product's, broadcast to all of these."""
    free = [d for d in range(array.ndim) if d not in (*summed, *batch)]
    order = [*batch, *free, *summed]
    if order != sorted(order):
        array = lax.transpose(array, order)
    if array.shape == tuple(shape):
        return array
    return lax.broadcast_in_dim(array, shape, to)

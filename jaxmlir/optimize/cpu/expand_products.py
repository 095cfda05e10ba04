"""``jaxpr-expand-products``: writes products as ops that XLA's CPU compiler is faster at.

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

The library multiplies complex matrices at half the speed of real ones or less.  A large product of
complex matrices is written as products of their real and imaginary parts::

    dot_general(a + i b, c + i d) = (dot(a, c) - dot(b, d)) + i (dot(a, d) + dot(b, c))

If an operand is a real array that was converted, two of these products are left, and two as well if
only one part of the result is used.  There is a form with three products, but where a part of the
result is small it loses digits.  The library multiplies its result by ``1 + 0i`` at the end, so it
gives NaN for both parts if one is not finite, and it multiplies infinities by the zeros of an
array that was converted: the products of parts give the finite parts.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.op_counts import is_narrow, is_plain_op
from jaxmlir.dialect.ir import ir
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

# Milliseconds of a complex product / of products of parts, complex64, jax 0.10 and 0.12: of complex
# operands, of a real one and a complex one, and of complex ones if only the real part is used.
# complex128 takes twice as long.
#   512, 512, 512         23/12 24/14         23/5.2 24/7.4       23/5.0 24/8.0
#   128, 128, 128         0.71/0.30 0.77/0.41
#   64, 64, 64            0.10/0.05 0.07/0.06 0.06/0.02 0.07/0.04 0.06/0.02 0.06/0.04
#   10,000, 64, 64        13/7.7 8.5/6.3      10/2.8 7.4/2.3      10/3.1 7.9/3.2
#   64, 10,000, 64        14/8.3 8.5/7.1      10/3.3 8.5/3.7      11/5.2 8.4/5.7
#   16 of 128, 128, 128   9.2/5.8 5.8/3.5
#   64 of 64, 64, 64      3.3/2.6 3.3/3.0     4.8/2.4 4.1/2.6     4.8/2.5 4.6/2.7
# Others take too long to be split into parts: a matrix of 1024 x 1024 times a vector 0.90/1.7, but
# a real one of 512 x 512 0.60/0.13; 512 x 4 x 512 0.69/0.70, 4096 of 16 x 16 10/17.  XLA transposes
# batches that do not come first: 64 x 64 x 64, batch last, 7.4/12.6.
#
# Nanoseconds for each product of two numbers: of complex ones, of parts; and for each element that
# is split into its parts, or put together from them.
COMPLEX = 0.18
PART = 0.02
SPLIT = 1.5
# The ops for each product of parts, with those that split, add up and put together.
OPS_OF_PARTS = 3

# These say which types operands are rounded to, and in which types sums are computed.
_ALGORITHMS = (lax.DotAlgorithm, lax.DotAlgorithmPreset)


class ExpandProducts(ExpandOps):
    """Write products that sum no elements, or few in rows or small matrices, as elementwise ops,
    and large ones of complex numbers as products of real and imaginary parts.

    Options:
      max-size: products that sum more elements are not written as elementwise ops.
    """

    name: ClassVar[str] = "jaxpr-expand-products"
    max_size: Count = MAX_SIZE

    def expansion(self, node: OpView) -> Expansion | None:
        avals = [aval_of(v.type) for v in (*node.operands, node.op.operation.results[0])]
        if isinstance(node.get("precision"), _ALGORITHMS):
            return None
        dims = tuple(tuple(map(tuple, sides)) for sides in node.get("dimension_numbers"))
        return _elementwise(avals, dims, self.max_size) or _of_parts(node, avals, dims)


_Dims = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _elementwise(avals: Sequence[Any], dims: _Dims, max_size: int) -> Expansion | None:
    """The expansion of a product into elementwise ops; ``None`` if it has none.

    Args:
      avals: the types of the operands and of the result.
      dims: the contracting and the batch dimensions of each operand.
    """
    types = {aval.dtype for aval in avals}
    if len(types) > 1 or any(map(_is_left_alone, types)):
        return None
    x, y, result = (aval.shape for aval in avals)
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


def _of_parts(node: OpView, avals: Sequence[Any], dims: _Dims) -> Expansion | None:
    """The expansion of a complex product into products of parts; ``None`` if it has none."""
    x, y, result = avals
    if not _is_complex(result) or any(
        sorted(of_side) != list(range(len(of_side))) for of_side in dims[1]
    ):
        return None
    sources = [_real_source(v, result.dtype) for v in node.operands]
    are_real = [not _is_complex(aval_of(v.type)) for v in sources]
    if any(
        not is_real and aval.dtype != result.dtype
        for aval, is_real in zip((x, y), are_real, strict=True)
    ):
        return None
    parts = 1 if _has_one_part_read(node.op.operation.results[0]) else 2
    num_products = parts * (1 if any(are_real) else 2)
    moved = sum(aval.size for aval, is_real in zip((x, y), are_real, strict=True) if not is_real)
    moved += result.size if parts == 2 else 0
    products = result.size * math.prod(x.shape[d] for d in dims[0][0])
    saved = (COMPLEX - num_products * PART) * products - SPLIT * moved
    if saved <= 0:
        return None
    part = np.finfo(result.dtype).dtype
    product = functools.partial(
        _parts_product, dims=dims, precision=node.get("precision"), dtype=part
    )
    reason = f"expanded into {num_products} products of real and imaginary parts"
    scale = result.dtype.itemsize / np.dtype(np.complex64).itemsize
    return Expansion(
        reason,
        lambda writer, *_: writer.emit(product, *sources),
        OPS_OF_PARTS * num_products,
        scale * saved,
        by_steps=True,
    )


def _is_complex(aval: Any) -> bool:
    return dtypes.issubdtype(aval.dtype, np.complexfloating)


def _real_source(value: ir.Value, dtype: Any) -> ir.Value:
    """The real array that an operand was converted from to the complex type of the result, or the
    operand itself."""
    node = node_of(value)
    if (
        node is None
        or node.name != "jaxpr.convert_element_type"
        or not is_plain_op(node)
        or aval_of(value.type).dtype != dtype
    ):
        return value
    (source,) = node.operands
    return value if _is_complex(aval_of(source.type)) else source


def _has_one_part_read(value: ir.Value) -> bool:
    """Whether all ops that read a complex value read its real part, or all its imaginary part."""
    parts = set()
    for use in value.uses:
        name = use.owner.name
        if name == "jaxpr.convert_element_type" and not _is_complex(
            aval_of(use.owner.results[0].type)
        ):
            name = "jaxpr.real"
        parts.add(name)
    return parts in ({"jaxpr.real"}, {"jaxpr.imag"})


def _parts_product(x: Any, y: Any, *, dims: _Dims, precision: Any, dtype: Any) -> list[Any]:
    """A complex product as products of parts, of which real operands have one.

    Args:
      dtype: the type of the parts.
    """
    dot = functools.partial(lax.dot_general, dimension_numbers=dims, precision=precision)
    (a, b), (c, d) = (
        (lax.real(v), lax.imag(v)) if _is_complex(v) else (lax.convert_element_type(v, dtype), None)
        for v in (x, y)
    )
    real = dot(a, c)
    if b is not None and d is not None:
        real = lax.sub(real, dot(b, d))
    terms = [dot(*pair) for pair in ((a, d), (b, c)) if None not in pair]
    imaginary = functools.reduce(lax.add, terms) if terms else lax.full_like(real, 0)
    return [lax.complex(real, imaginary)]


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

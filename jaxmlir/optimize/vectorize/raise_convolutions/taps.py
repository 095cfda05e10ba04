"""The terms of a sum that are products of a slice of an array and a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.builder import only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of


@dataclass(frozen=True)
class Product:
    """What a slice of an array is multiplied with, but where the slice is; hashable.

    Attributes:
      shape, strides: of the slice.
      channel: the dimension that is summed over.
      summed: that of the matrix.
      kept, features: where the slice's other dimensions, and the matrix' other one, are in the
        result.
      precision: of the slice, and of the matrix.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    channel: int
    summed: int
    kept: tuple[int, ...]
    features: int
    precision: Any


@dataclass(frozen=True)
class Tap:
    """A term of a sum: a product of a slice of an array and a matrix."""

    term: ir.Value
    array: ir.Value
    start: tuple[int, ...]
    matrix: ir.Value
    product: Product


def taps_of(term: ir.Value) -> Iterator[Tap]:
    """A term with either operand as the slice, as far as it is one."""
    node, order = node_of(term), None
    if node is not None and node.name == "jaxpr.transpose":
        order = tuple(map(int, node.get("permutation")))
        (turned,) = node.operands
        node = node_of(turned) if only_user(turned) is not None else None
    if only_user(term) is None or node is None or not _is_plain_product(node):
        return
    contracted, _ = node.get("dimension_numbers")
    for side, value in enumerate(node.operands):
        sliced, matrix = node_of(value), node.operands[1 - side]
        if sliced is None or sliced.name != "jaxpr.slice" or not is_plain_op(sliced):
            continue
        shape, weights = (aval_of(v.type).shape for v in (value, matrix))
        if len(weights) != 2 or len(shape) < 2:
            continue
        (channel,), (summed,) = contracted[side], contracted[1 - side]
        # What is not summed over, of the first operand and then of the second.
        dims, features = range(side, side + len(shape) - 1), (len(shape) - 1, 0)[side]
        if order is not None:
            dims, features = [order.index(d) for d in dims], order.index(features)
        precision = node.get("precision")
        start, strides = sliced.get("start_indices"), sliced.get("strides") or (1,) * len(shape)
        product = Product(
            shape,
            tuple(strides),
            int(channel),
            int(summed),
            tuple(dims),
            features,
            precision and precision[:: -1 if side else 1],
        )
        yield Tap(term, sliced.operands[0], tuple(start), matrix, product)


def _is_plain_product(node: OpView) -> bool:
    """Whether an op sums over one dimension of each of two arrays of the result's dtype."""
    if node.name != "jaxpr.dot_general" or not is_plain_op(node):
        return False
    (contracted, _), (batch, _) = node.get("dimension_numbers")
    precision = node.get("precision") or ()
    dtype, *others = (aval_of(v.type).dtype for v in (*node.op.results, *node.operands))
    return (
        len(contracted) == 1
        and not len(batch)
        and isinstance(precision, tuple)
        and all(isinstance(p, lax.Precision) for p in precision)
        and all(other == dtype for other in others)
        and dtypes.issubdtype(dtype, np.floating)
        and dtypes.finfo(dtype).bits >= 32
    )

"""``jaxpr-dot-to-2d``: merges dimensions that a product treats alike.

Adjacent dimensions of an operand are merged if all are free, or if all are contracting and have the
same order in the other operand::

    dot_general(x[t, d], w[d, h, k])[t, h, k]     = reshape(x @ reshape(w, (d, h k)))
    dot_general(c[t, h, k], w[d, h, k])[t, d]     = reshape(c, (t, h k)) @ reshape(w, (d, h k)).T

A transpose becomes a choice of the contracting dimension, or of the order of the operands::

    dot_general(transpose(w)[h, d], x[d])[h]      = dot_general(w[d, h], x[d])
    transpose(dot_general(c[t, h], x[t, d])[h, d])[d, h]  = dot_general(x[t, d], c[t, h])

A sum of an array that a product reads with merged dimensions is taken over the merged array::

    reduce_sum(c[t, h, k], (t, h))                = reduce_sum(reshape(c, (t h, k)), (t h))

XLA multiplies matrices, and reads them in either order.  It turns a product of more dimensions into
one of matrices by itself, but first copies an operand whose contracting dimensions are not where it
wants them.  In gradients these are, for example, the weights of an attention's heads, each in
another layout, stored from the forward pass on.  In a loop, XLA fuses a transpose into the product
of the matrix with a vector, and then computes the product number by number: 9.3 us instead of 0.9
for 128 x 128.  Numbers do not change.

The gradient with respect to a layer's weights is the transpose of a product of cotangents with the
layer's input.  In milliseconds as JAX writes it / with the operands in the other order, two cores,
jax 0.10 and 0.12:
  256 x 512 and 256 x 128     0.70, 0.66 / 0.44, 0.45
  256 x 1024 and 256 x 256    1.77, 1.76 / 0.97, 1.27
  254 x 4096 and 254 x 64     3.28, 3.39 / 1.65, 1.75
  254 x 64 and 254 x 4096     2.71, 2.57 / 2.59, 2.57
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from jax import lax

from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import build, drop_dead_ops, only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.algebra.labelled_tensors.kinds import swapped_precision
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_ops
from jaxmlir.transforms.templates import Rules

_PRODUCT, _SUM, _TRANSPOSE = "jaxpr.dot_general", "jaxpr.reduce_sum", "jaxpr.transpose"


class DotTo2d(Pass):
    """Merge dimensions that a product treats alike."""

    name: ClassVar[str] = "jaxpr-dot-to-2d"
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)

    def run(self, program: Module) -> bool:
        replaced = functools.partial(_replaced, Rules(program))
        if not rewrite_ops(program, dict.fromkeys((_PRODUCT, _TRANSPOSE), replaced), converts=True):
            return False
        rewrite_ops(program, {_SUM: functools.partial(_sum, Rules(program))}, converts=True)
        for function in outside_kernels(program, {_PRODUCT}):
            drop_dead_ops(function)
        return True


def _replaced(rules: Rules, node: OpView) -> ir.Value | None:
    """The replacement of a product, or of a transpose of a product whose operands can change
    places; ``None`` if the op stays."""
    product = node if node.name == _PRODUCT else node_of(node.operands[0])
    if product is None or product.name != _PRODUCT or not is_plain_op(product):
        return None
    operands = _operands(product)
    swaps = _swaps(only_user(product.op.results[0]), operands)
    if swaps == (node is product):
        return None
    swapped = "swapped its operands, which saves transposing the result"
    why = swapped if swaps else _flattens(product, operands)
    if why is None:
        return None
    remark(product.op, why)
    first, second = reversed(operands) if swaps else operands
    precision = product.get("precision")
    if swaps:
        precision = swapped_precision(precision)
    options = {"precision": precision, "preferred": product.get("preferred_element_type")}
    form = functools.partial(_product, sides=(first.side, second.side), **options)
    return rules.emit(form, [first.value, second.value])[0]


def _swaps(user: ir.Operation | None, operands: Sequence[_DotOperand]) -> bool:
    """Whether the only user of a product of matrices is a transpose that puts the dimensions of the
    second operand before those of the first.

    XLA copies operands that are no matrices anyway, which is best done where they are computed.
    """
    if user is None or user.name != _TRANSPOSE:
        return False
    if not all(operand.side.is_matrix for operand in operands):
        return False
    order = codec.decode(user.attributes["permutation"])
    shared, rank = len(operands[0].side.batch), len(order)
    second = shared + sum(map(len, operands[0].side.free))
    return list(order) == [*range(shared), *range(second, rank), *range(shared, second)]


def _flattens(product: OpView, operands: Sequence[_DotOperand]) -> str | None:
    """The remark on how a product's operands change; ``None`` if the product stays."""
    first, second = (operand.side for operand in operands)
    merges = any(len(side.order) < side.rank for side in (first, second))
    if not merges and [operand.value for operand in operands] == list(product.operands):
        return None
    if first.is_wide(operands[0].value.type.shape) and second.free:
        return None
    if merges:
        return (
            f"merged dimensions: its operands have {len(first.order)} and {len(second.order)} "
            "dimensions"
        )
    return "removed the transpose of an operand"


class _DotOperand(NamedTuple):
    """An operand of a product."""

    value: ir.Value
    side: _Side


def _operands(product: OpView) -> list[_DotOperand]:
    """The operands of a product, with transposes undone."""
    summed, batch = product.get("dimension_numbers")
    untransposed = [
        _untransposed(v, *dims) for v, *dims in zip(product.operands, summed, batch, strict=True)
    ]
    values, summed, batch = zip(*untransposed, strict=True)
    runs = _runs(sorted(zip(*summed, strict=True)))
    return [
        _DotOperand(
            v,
            _Side(batch[i], tuple([tuple([dims[i] for dims in run]) for run in runs]), v.type.rank),
        )
        for i, v in enumerate(values)
    ]


def _sum(_: Rules, node: OpView) -> ir.Value | None:
    """A sum over one dimension instead of several, if another op also reads these as one.

    XLA would store an array that is summed and multiplied in both shapes.
    """
    if not is_plain_op(node):
        return None
    (value,), axes = node.operands, node.get("axes")
    if len(axes) < 2 or len(_runs([(d,) for d in axes])) > 1:
        return None
    first, last = axes[0], axes[-1] + 1
    shape = list(value.type.shape)
    shape[first:last] = [math.prod(shape[first:last])]
    merged = ir.RankedTensorType.get(shape, value.type.element_type)
    readers = (use.owner for use in value.uses)
    if not any(op.name == "jaxpr.reshape" and op.results[0].type == merged for op in readers):
        return None
    text = f"summed in the shape of {len(shape)} dimensions in which other ops read the array"
    remark(node.op, text)
    flat = build("reshape", [value], merged, new_sizes=tuple(shape))
    return build("reduce_sum", [flat], node.op.results[0].type, axes=(first,))


def _untransposed(
    value: ir.Value, summed: Sequence[int], batch: Sequence[int]
) -> tuple[ir.Value, tuple[int, ...], tuple[int, ...]]:
    """The array that a value is the transpose of, with its contracting and batch dimensions; the
    value itself and its dimensions if the transpose has to stay.

    The transpose is undone if free dimensions keep their order, and batch dimensions stay first.
    If the matrices of a batch are not contiguous, XLA copies them for each product: the gradient of
    a mixture of experts, weighted by a router, takes 1.2 times as long.
    """
    inner = node_of(value)
    if inner is not None and inner.name == "jaxpr.transpose":
        order = inner.get("permutation")
        others = [d for i, d in enumerate(order) if i not in (*summed, *batch)]
        inner_dims = [tuple([order[d] for d in dims]) for dims in (summed, batch)]
        if others == sorted(others) and (_lead(inner_dims[1]) or not _lead(batch)):
            return _untransposed(inner.operands[0], *inner_dims)
    return value, tuple(summed), tuple(batch)


def _lead(dims: Sequence[int]) -> bool:
    """Whether dimensions are the first ones of an array."""
    return sorted(dims) == list(range(len(dims)))


def _runs(rows: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Rows of dimensions, grouped into runs: each row exceeds the one before by one everywhere."""
    runs: list[list[tuple[int, ...]]] = []
    for row in rows:
        if runs and row == tuple([d + 1 for d in runs[-1][-1]]):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


class _Side(NamedTuple):
    """The roles of an operand's dimensions in a product.

    Attributes:
      batch: the batch dimensions.
      summed: the contracting dimensions, in runs.
      rank: the number of dimensions.
    """

    batch: tuple[int, ...]
    summed: tuple[tuple[int, ...], ...]
    rank: int

    @property
    def free(self) -> list[tuple[int, ...]]:
        """The free dimensions, in runs."""
        others = set(range(self.rank)).difference(self.batch, *self.summed)
        return [tuple([d for (d,) in run]) for run in _runs([(d,) for d in sorted(others)])]

    @property
    def order(self) -> list[tuple[int, ...]]:
        """All batch dimensions and runs, in the order of the operand."""
        return sorted([*((d,) for d in self.batch), *self.summed, *self.free])

    @property
    def is_matrix(self) -> bool:
        """Whether there are one contracting and one free run, after the batch dimensions."""
        return _lead(self.batch) and len(self.summed) == len(self.free) == 1

    def is_wide(self, shape: Sequence[int]) -> bool:
        """Whether XLA would transpose the operand, and it has more columns than rows.

        Then XLA's copy in the other layout is worth its time.  Sums over rows of products of two
        arrays, in milliseconds on two cores with the copy / without, jax 0.12 and 0.10:
          254 x 4096 and 254 x 64      2.3, 2.4 / 2.4, 2.5
          256 x 4096 and 256 x 64      4.3, 2.4 / 4.7, 2.6
          1536 x 64 twice              0.21, 0.21 / 0.14, 0.17
          1024 x 1024 and 1024 x 256   9.0, 6.9 / 8.5, 5.4
        """
        if not self.summed or not self.free or self.summed[0] > self.free[0]:
            return False
        rows, columns = (
            math.prod(shape[d] for run in runs for d in run) for runs in (self.summed, self.free)
        )
        return columns > rows

    def merged(self, array: Any) -> Any:
        """The operand with one dimension for each run."""
        return lax.reshape(array, [math.prod(array.shape[d] for d in run) for run in self.order])


def _product(*arrays: Any, sides: tuple[_Side, _Side], precision: Any, preferred: Any) -> list[Any]:
    """The product with merged dimensions, reshaped to the dimensions of the original result."""
    summed = [[side.order.index(run) for run in side.summed] for side in sides]
    batch = [[side.order.index((d,)) for d in side.batch] for side in sides]
    merged = (side.merged(array) for side, array in zip(sides, arrays, strict=True))
    options = {"precision": precision, "preferred_element_type": preferred}
    result = lax.dot_general(*merged, (summed, batch), **options)
    shape = [arrays[0].shape[d] for d in sides[0].batch]
    for side, array in zip(sides, arrays, strict=True):
        shape += [array.shape[d] for run in side.free for d in run]
    return [lax.reshape(result, shape)]

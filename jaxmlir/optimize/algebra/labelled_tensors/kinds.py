"""The common properties of the ops of a signature, for reading them as labelled tensors.

The dimensions of operands and result have labels, like the letters of an Einstein sum::

    dot_general, batch 0, contracting 2 and 1     [b,i,k] [b,k,j] -> [b,i,j]
    transpose, permutation 1, 0                   [i,j] -> [j,i]
    broadcast_in_dim, dimensions 0                [i] -> [i,j]
    reduce_sum, axes 1                            [i,j] -> [i]
    reshape of (6, 4) to (3, 8)                   [ab,c] -> [a,bc]
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from jaxmlir.analysis.index_maps import MappedOp, maps_of_op
from jaxmlir.analysis.op_counts import can_be_summed, is_plain_array
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of, is_key
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Tensor

SUMS = frozenset({"jaxpr.dot_general", "jaxpr.reduce_sum"})
"""The ops that may sum over dimensions."""


class OpKind:
    """The common properties of the ops of a signature.

    Attributes:
      is_plain: whether they can be read: operands and the single result are arrays of numbers on
        one device.
      shapes: the shapes of the operands.
      shape, dtype: the shape and dtype of the result.
    """

    def __init__(self, signature: Signature):
        self.signature = signature
        self.name: str = signature.name
        self._types = list(map(described, signature.types))
        shape, dtype = self._types[-1] if self._types else ((), None)
        self.shapes: list[tuple[int, ...]] = [shape for shape, _ in self._types[:-1]]
        self.shape: tuple[int, ...] = shape
        self.dtype: Any = dtype
        is_free = signature.named.keys().isdisjoint(("jaxpr.ctx", "jaxpr.effects", "sharding"))
        are_known = all(dtype is not None for _, dtype in self._types)
        self.is_plain: bool = is_free and are_known and len(signature.results) == 1

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name, decoded."""
        return {key: codec.decode(attr, codec.SYMBOLS) for key, attr in self.signature.attributes}

    @functools.cached_property
    def is_number(self) -> bool:
        """Whether operands and result have one dtype, whose sums may be reordered."""
        return all(dtype == self.dtype for _, dtype in self._types) and can_be_summed(self.dtype)

    def sums_to(self, a: Tensor) -> bool:
        """Whether they may add up elements of a tensor without a conversion."""
        return a.expr.dtype == self.dtype and can_be_summed(self.dtype)

    @functools.cached_property
    def wiring(self) -> Wiring | None:
        """The wiring of their dimensions; ``None`` if they have none."""
        if self.name in SUMS and not self.is_number:
            return None
        if self.attributes.get("preferred_element_type") not in (None, self.dtype):
            return None
        precision = self.attributes.get("precision")
        if precision != swapped_precision(precision):
            # Factors change places.
            return None
        name, get = self.name.removeprefix("jaxpr."), self.attributes.get
        return wiring_of(MappedOp(name, get, self.shapes, [self.shape], self.dtype))

    @functools.cached_property
    def dot(self) -> Dot | None:
        """The mark of a matrix product, if they are one."""
        is_dot = "dimension_numbers" in self.attributes
        return Dot(self.attributes.get("precision")) if is_dot else None


def swapped_precision(precision: Any) -> Any:
    """The precision of a product with its operands in the other order."""
    if isinstance(precision, lax.DotAlgorithm):
        return precision._replace(
            lhs_precision_type=precision.rhs_precision_type,
            rhs_precision_type=precision.lhs_precision_type,
            lhs_component_count=precision.rhs_component_count,
            rhs_component_count=precision.lhs_component_count,
        )
    return precision[::-1] if isinstance(precision, tuple) else precision


kind_of = functools.cache(OpKind)


@functools.cache
def described(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype; ``()`` and ``None`` unless it is a nonempty array of numbers on one
    device."""
    if not is_plain_array(type_) or is_key(aval := aval_of(type_)) or not aval.size:
        return (), None
    return tuple(aval.shape), np.dtype(aval.dtype)


TensorRule = Callable[[Algebra, OpKind, list[Tensor]], Tensor | None]
"""Returns the tensor of an op of a kind, given those of its operands; ``None`` if it is not
read."""


# --- how dimensions run together ------------------------------------------------------------------


Dims = tuple[tuple[int, ...], ...]
"""The labels of each dimension in row-major order: one; none if its size is 1; several if another
tensor of the op has separate dimensions for parts of it."""


class Wiring(NamedTuple):
    """The labels of the dimensions of an op's operands and result, equal where they run together.

    Labels that the result lacks are summed over; the result is broadcast along labels that no
    operand has.

    Attributes:
      operands: the labels of each operand's dimensions.
      result: the labels of the result's dimensions; a single label is the number of its dimension.
      sizes: the sizes of the labels.
    """

    operands: tuple[Dims, ...]
    result: Dims
    sizes: Mapping[int, int]

    @property
    def summed(self) -> list[int]:
        """The labels that the result lacks, in order."""
        in_result = set(itertools.chain(*self.result))
        return sorted(self.sizes.keys() - in_result)

    @property
    def is_whole(self) -> bool:
        """Whether no dimension is split or merged."""
        return all(len(labels) < 2 for dims in (*self.operands, self.result) for labels in dims)


def wiring_of(op: MappedOp) -> Wiring | None:
    """The wiring of an op; ``None`` if it has none."""
    if any(op.get(name) is not None for name in ("sharding", "out_sharding")):
        return None
    if op.name in _RESHAPES:
        return _reshaped(op)
    maps = maps_of_op(op) if op.name in _WIRED else None
    if maps is None:
        return None
    (result,) = maps.results
    labels = {loop: k for k, loop in enumerate((*result, *sorted(maps.reduced)))}
    dims: list[Dims] = []
    sizes: dict[int, int] = {}
    for loops, shape in zip((*maps.operands, result), (*op.operands, *op.results), strict=True):
        # A dimension of size 1 may be broadcast, so it follows no loop.
        at = [labels[k] if n != 1 else None for k, n in zip(loops, shape, strict=True)]
        dims.append(tuple([() if label is None else (label,) for label in at]))
        sizes |= {label: n for label, n in zip(at, shape, strict=True) if label is not None}
    return Wiring(tuple(dims[:-1]), dims[-1], sizes)


# Pattern: (x[ab,c])[a,bc]
def _reshaped(op: MappedOp) -> Wiring | None:
    """The wiring of a reshape, with a label for each common part of the dimensions of both tensors;
    ``None`` if the dimensions have no such parts, as the strides do not divide one another."""
    (shape,), (result,) = op.operands, op.results
    if not all(type(size) is int and size > 0 for size in (*shape, *result)):
        return None
    order = op.get("dimensions") if op.name == "reshape" else None
    order = range(len(shape)) if order is None else order
    before, after = _strides([shape[d] for d in order]), _strides(result)
    # A dimension spans two strides of its tensor, a label two adjacent strides of both tensors.
    strides = sorted({*before, *after}, reverse=True)
    if any(a % b for a, b in itertools.pairwise(strides)):
        return None
    numbers = {stride: len(result) + k for k, stride in enumerate(strides[1:])}
    for d, (large, small) in enumerate(itertools.pairwise(after)):
        if strides.index(small) == strides.index(large) + 1:
            numbers[small] = d

    def dims(of_dims: Sequence[int]) -> list[tuple[int, ...]]:
        bounds = itertools.pairwise(map(strides.index, of_dims))
        return [tuple([numbers[strides[k]] for k in range(a + 1, b + 1)]) for a, b in bounds]

    operand = dict(zip(order, dims(before), strict=True))
    of_labels = {numbers[b]: a // b for a, b in itertools.pairwise(strides)}
    return Wiring((tuple([operand[d] for d in sorted(order)]),), tuple(dims(after)), of_labels)


def _strides(shape: Sequence[int]) -> list[int]:
    """The number of elements of an array, followed by the strides of its dimensions."""
    return [*itertools.accumulate(reversed(shape), operator.mul, initial=1)][::-1]


# A split that is read has a single part.
_RESHAPES = frozenset({"reshape", "split", "squeeze"})
# Ops each of whose dimensions follows a loop of its own.
_WIRED = frozenset({"broadcast_in_dim", "dot_general", "reduce_sum", "transpose"})

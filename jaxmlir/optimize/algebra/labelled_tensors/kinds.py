"""What the ops of a signature have in common for who reads them as labelled tensors.

The dimensions of operands and result have labels, as the letters of an Einstein sum are::

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

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Tensor

SUMS = frozenset({"jaxpr.dot_general", "jaxpr.reduce_sum"})
"""The ops that may sum over dimensions."""


class OpKind:
    """What the ops of a signature have in common, as they are read.

    Attributes:
      is_plain: whether they can be read: of arrays of numbers on one device, to one.
      shapes: of the operands.
      shape, dtype: of the result.
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
        """Whether they compute with numbers of one type whose sums may be added up in any order."""
        return all(dtype == self.dtype for _, dtype in self._types) and can_be_summed(self.dtype)

    def sums_to(self, a: Tensor) -> bool:
        """Whether they may add up elements of a tensor, and do nothing else with them."""
        return a.expr.dtype == self.dtype and can_be_summed(self.dtype)

    @functools.cached_property
    def wiring(self) -> Wiring | None:
        """How their dimensions run together."""
        if self.name in SUMS and not self.is_number:
            return None
        if self.attributes.get("preferred_element_type") not in (None, self.dtype):
            return None
        return wiring_of(self.name, self.attributes.get, self.shapes, self.shape)

    @functools.cached_property
    def dot(self) -> Dot | None:
        """The mark of a matrix product."""
        is_dot = "dimension_numbers" in self.attributes
        return Dot(self.attributes.get("precision")) if is_dot else None


kind_of = functools.cache(OpKind)


@functools.cache
def described(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype; of what is no array on one device, a scalar of an unknown type."""
    aval = aval_of(type_)
    plain = isinstance(aval, core.ShapedArray) and is_array(type_) and aval.size > 0
    plain = plain and not isinstance(aval.dtype, dtypes.ExtendedDType)
    encoding = getattr(type_, "encoding", None)
    is_far = isinstance(encoding, ir.DictAttr) and "memory_space" in encoding
    plain = plain and not is_far and not getattr(aval, "vma", None)
    return (tuple(aval.shape), np.dtype(aval.dtype)) if plain else ((), None)


def can_be_summed(dtype: Any) -> bool:
    """Whether sums of a type may be added up in another order; narrow floats may overflow then."""
    if dtypes.issubdtype(dtype, np.floating):
        return dtypes.finfo(dtype).maxexp >= 128
    return dtype.kind in "iuc"


TensorRule = Callable[[Algebra, OpKind, list[Tensor]], Tensor | None]
"""The tensor that an op of a kind makes of those of its operands, if it is read."""


# --- how dimensions run together ------------------------------------------------------------------


Shape = Sequence[int]

Dims = tuple[tuple[int, ...], ...]
"""For each dimension its labels in row-major order: one; none if its size is 1; several where
another tensor has dimensions of its own for parts of it."""


class Wiring(NamedTuple):
    """The labels of the dimensions of an op's operands and result, equal where they run together.

    Labels that the result lacks are summed over; it is repeated along those that no operand has.

    Attributes:
      operands: the labels of each operand's dimensions.
      result: the labels of the result's dimensions; one that has a single label has its own number.
      sizes: of the labels.
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


Get = Callable[[str], Any]


def wiring_of(name: str, get: Get, operands: Sequence[Shape], result: Shape) -> Wiring | None:
    """The wiring of an op; ``None`` if it has none, as it computes something else.

    Args:
      name: of the op.
      get: gives the value of an attribute, ``None`` where it is absent.
      operands, result: their shapes.
    """
    reader = _READERS.get(name)
    if reader is None or get("sharding") is not None or get("out_sharding") is not None:
        return None
    return reader(get, operands, result)


def _whole(labels: Sequence[Sequence[int]], operands: Sequence[Shape], result: Shape) -> Wiring:
    """A wiring that splits no dimension.

    Args:
      labels: for each dimension of each operand the number of the result's dimension that runs
        along, or a higher one.
    """
    dims, sizes = [], {}
    for shape, of_dims in zip((*operands, result), (*labels, range(len(result))), strict=True):
        dims.append(tuple([(k,) if n != 1 else () for k, n in zip(of_dims, shape, strict=True)]))
        sizes |= {k: n for k, n in zip(of_dims, shape, strict=True) if n != 1}
    return Wiring(tuple(dims[:-1]), dims[-1], sizes)


# Pattern: (sum over c of A[b,i,c] B[b,j,c])[b,i,j]
def _dot_general(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring:
    contracted, batch = get("dimension_numbers")
    labellings = []
    count = len(batch[0])
    for side, shape in enumerate(operands):
        labels = {d: k for k, d in enumerate(batch[side])}
        labels |= {d: len(result) + k for k, d in enumerate(contracted[side])}
        for d in range(len(shape)):
            if d not in labels:
                labels[d] = count
                count += 1
        labellings.append([labels[d] for d in range(len(shape))])
    return _whole(labellings, operands, result)


# Pattern: (A[i,j] B[i,j])[i,j]; a dimension of size 1 is repeated, a scalar has no dimensions
def _elementwise(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring:
    return _whole([range(len(shape)) for shape in operands], operands, result)


def _transpose(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring:
    order = get("permutation")
    return _whole([sorted(range(len(order)), key=order.__getitem__)], operands, result)


def _broadcast_in_dim(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring | None:
    # Further operands are sizes that are known when the program runs.
    if len(operands) != 1:
        return None
    return _whole([get("broadcast_dimensions")], operands, result)


def _reduce(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring:
    (shape,) = operands
    gone = get("axes")
    free, summed = itertools.count(), itertools.count(len(result))
    labels = [next(summed if d in gone else free) for d in range(len(shape))]
    return _whole([labels], operands, result)


def _reshape(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring | None:
    order = get("dimensions")
    return _in_order(range(len(operands[0])) if order is None else order, operands, result)


def _squeeze(get: Get, operands: Sequence[Shape], result: Shape) -> Wiring | None:
    return _in_order(range(len(operands[0])), operands, result)


def _in_order(order: Sequence[int], operands: Sequence[Shape], result: Shape) -> Wiring | None:
    """The wiring of an op that gives the same elements in row-major order.

    Args:
      order: of the operand's dimensions, before.
    """
    (shape,) = operands
    # Dimensions of size 1 may come and go.
    before = [d for d in order if shape[d] != 1]
    after = [d for d, size in enumerate(result) if size != 1]
    if [shape[d] for d in before] == [result[d] for d in after]:
        at = dict(zip(before, after, strict=True))
        return _whole([[at.get(d, -1) for d in range(len(shape))]], operands, result)
    if not all(type(size) is int and size > 0 for size in (*shape, *result)):
        return None
    return _split([shape[d] for d in order], order, result)


def _split(sizes: Sequence[int], order: Sequence[int], result: Shape) -> Wiring | None:
    """The wiring of a reshape, with a label for each part of a dimension that is one of both
    tensors; ``None`` if a dimension begins within a part of the other tensor's.

    Args:
      sizes: of the operand's dimensions, in the order in which they are read.
    """
    # A dimension is between two strides, and a label between two of the strides of both tensors.
    strides = sorted({*_strides(sizes), *_strides(result)}, reverse=True)
    if any(a % b for a, b in itertools.pairwise(strides)):
        return None
    numbers = {stride: len(result) + k for k, stride in enumerate(strides[1:])}
    for d, (large, small) in enumerate(itertools.pairwise(_strides(result))):
        if strides.index(small) == strides.index(large) + 1:
            numbers[small] = d

    def dims(shape: Shape) -> list[tuple[int, ...]]:
        bounds = itertools.pairwise([strides.index(stride) for stride in _strides(shape)])
        return [tuple([numbers[strides[k]] for k in range(a + 1, b + 1)]) for a, b in bounds]

    operand = dict(zip(order, dims(sizes), strict=True))
    of_labels = {numbers[b]: a // b for a, b in itertools.pairwise(strides)}
    return Wiring((tuple([operand[d] for d in sorted(order)]),), tuple(dims(result)), of_labels)


def _strides(shape: Shape) -> list[int]:
    """The number of elements of an array, and then the strides of its dimensions."""
    return [*itertools.accumulate(reversed(shape), operator.mul, initial=1)][::-1]


_READERS: dict[str, Callable[[Get, Sequence[Shape], Shape], Wiring | None]] = {
    **dict.fromkeys(with_trait(Trait.RESHAPE), _squeeze),
    "jaxpr.broadcast_in_dim": _broadcast_in_dim,
    "jaxpr.dot_general": _dot_general,
    "jaxpr.mul": _elementwise,
    "jaxpr.reduce_max": _reduce,
    "jaxpr.reduce_min": _reduce,
    "jaxpr.reduce_sum": _reduce,
    "jaxpr.reshape": _reshape,
    # Into one part.
    "jaxpr.split": _squeeze,
    "jaxpr.transpose": _transpose,
}
"""How the wirings of ops are read, by name."""

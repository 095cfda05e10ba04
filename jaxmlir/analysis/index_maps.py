"""Indexing maps: which dimensions of an op's operands and results share a loop.

An op is a nest of loops: ``dot_general`` of ``[i, k]`` and ``[k, j]`` runs over ``i``, ``j`` and
``k``.  Each dimension of an operand or result is mapped to the number of its loop, or to ``None``
if it is read in another way: sorted, accumulated along, sliced, or of size 1 and broadcast.  The op
is independent along each numbered loop: a range of the loop, in all dimensions that follow it, is
the same op on a smaller array.  A loop that no result follows is a reduction, whose partial results
are combined::

    exp              [0, 1] -> [0, 1]
    broadcast        [1] -> [0, 1]
    reduce_sum       [0, 1] -> [0]              add over 1
    dot_general      [0, 2], [1, 2] -> [0, 1]   add over 2
    cumsum along 1   [0, None] -> [0, None]

JAX's batching rules know the same for every primitive, but only in one direction: from the op on a
row to the op on a batch.  The maps are needed in the other direction: which op on rows a batched op
comes from, along which dimensions, and which part of each operand belongs to a part of the batch.
An op that is not in the table is computed on the entire batch, outside of the loops over tiles.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jaxmlir.analysis.op_counts import ASKED, is_plain_array
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import OPS, Trait, with_trait
from jaxmlir.dialect.types import aval_of

Dims = tuple[int | None, ...]
"""The loop of each dimension of a value."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class IndexingMaps:
    """How an op's operands and results follow its loops.

    Attributes:
      combine: the primitive that combines partial results of a reduction.
      sized: the attribute that repeats the shape of a value, and the number of that operand, or -1
        for the result.
    """

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    combine: str | None = None
    sized: tuple[str, int] | None = None
    reduced: frozenset[int] = field(init=False)
    """The loops that no result follows."""

    def __post_init__(self) -> None:
        followed = {loop for dims in self.results for loop in dims}
        loops = {loop for dims in self.operands for loop in dims if loop is not None}
        object.__setattr__(self, "reduced", frozenset(loops - followed))

    def resized(
        self, attributes: dict[str, ir.Attribute], loop: int | None, size: int
    ) -> dict[str, ir.Attribute]:
        """The attributes of the op restricted to ``size`` iterations of a loop."""
        if self.sized is None or loop is None:
            return attributes
        name, which = self.sized
        dims = self.results[0] if which < 0 else self.operands[which]
        if loop not in dims:
            return attributes
        sizes = list(codec.decode(attributes[name]))
        sizes[dims.index(loop)] = size
        return attributes | {name: codec.encode(tuple(sizes))}


class MappedOp(NamedTuple):
    """The facts that determine an op's maps: shapes, and attributes as Python values.

    Attributes:
      name: the op's name in the op table.
      get: returns an attribute by name, or a second argument, by default ``None``, if it is absent.
      operands, results: the shapes of the operands and results.
      dtype: the dtype of the first result.
    """

    name: str
    get: Callable[..., Any]
    operands: Sequence[Shape]
    results: Sequence[Shape]
    dtype: Any

    @staticmethod
    def of(signature: Signature) -> MappedOp:
        """The op of a signature."""

        def get(name: str, default: Any = None) -> Any:
            attr = signature.named.get(name)
            return default if attr is None else codec.decode(attr)

        name, dtype = signature.name.removeprefix("jaxpr."), aval_of(signature.results[0]).dtype
        shapes = ([_shape(t) for t in types] for types in (signature.operands, signature.results))
        return MappedOp(name, get, *shapes, dtype)


@functools.cache
def maps_of(signature: Signature) -> IndexingMaps | None:
    """The indexing maps of ops with a signature; ``None`` for ops that are not divided."""
    if not _ASKED.isdisjoint(signature.named):
        return None
    if not all(map(is_plain_array, signature.types)):
        return None
    return symbolic_maps_of(signature)


_ASKED = ASKED | {"jaxpr.effects"}


def symbolic_maps_of(signature: Signature) -> IndexingMaps | None:
    """The maps of :func:`maps_of`, and of ops on arrays of symbolic sizes or on several devices.
    Such ops are not divided, but their maps show which elements they read."""
    if signature.name.removeprefix("jaxpr.") not in _OPS:
        return None
    return maps_of_op(MappedOp.of(signature))


def maps_of_op(op: MappedOp) -> IndexingMaps | None:
    """The indexing maps of an op; ``None`` if the table lacks it or one of its arrays is empty."""
    if op.name not in _OPS or 0 in {math.prod(shape) for shape in (*op.operands, *op.results)}:
        return None
    return _OPS[op.name](op)


def _shape(type_: ir.Type) -> Shape:
    return tuple(getattr(aval_of(type_), "shape", ()))


def _numbered(shape: Shape, opaque: Sequence[int] = ()) -> Dims:
    """A loop for each dimension, except the ``opaque`` ones."""
    return tuple(None if d in opaque else d for d in range(len(shape)))


# --- the ops --------------------------------------------------------------------------------------


# y[i,j] = f(x[i,j], z[i,0], s)
def _elementwise(op: MappedOp) -> IndexingMaps | None:
    (shape,) = op.results
    operands = []
    for operand in op.operands:
        if operand and len(operand) != len(shape):
            return None
        pairs = enumerate(zip(operand, shape, strict=bool(operand)))
        operands.append(tuple(d if have == want else None for d, (have, want) in pairs))
    return IndexingMaps(tuple(operands), (_numbered(shape),))


# y[i,j] = x[j]
def _broadcast(op: MappedOp) -> IndexingMaps | None:
    (shape,) = op.results
    if len(op.operands) != 1:
        return None
    dims = op.get("broadcast_dimensions")
    (operand,) = op.operands
    pairs = zip(dims, operand, strict=True)
    of_operand = tuple(d if size == shape[d] else None for d, size in pairs)
    return IndexingMaps((of_operand,), (_numbered(shape),), sized=("shape", -1))


# y[i,j] = x[j,i]
def _transpose(op: MappedOp) -> IndexingMaps:
    permutation = op.get("permutation")
    of_operand = tuple(permutation.index(d) for d in range(len(permutation)))
    return IndexingMaps((of_operand,), (_numbered(op.results[0]),))


# y[i,jk] = x[i,j,k]: i is kept, with its size and the product of the sizes before it
def _reshape(op: MappedOp) -> IndexingMaps | None:
    if op.get("dimensions") is not None and op.name == "reshape":
        return None
    (operand,), (shape,) = op.operands, op.results
    starts = {}
    for d, size in enumerate(shape):
        if size != 1:
            starts[math.prod(shape[:d]), size] = d
    of_operand = tuple(starts.get((math.prod(operand[:d]), size)) for d, size in enumerate(operand))
    of_result = tuple(d if d in of_operand else None for d in range(len(shape)))
    sized = ("new_sizes", -1) if op.name == "reshape" else None
    return IndexingMaps((of_operand,), (of_result,), sized=sized)


# y[i] = sum_j x[i,j]
def _reduction(op: MappedOp) -> IndexingMaps:
    (operand,) = op.operands
    axes = op.get("axes")
    # Complex numbers have no least or greatest element.
    is_unordered = op.name in ("reduce_max", "reduce_min") and op.dtype.kind == "c"
    dims = _numbered(operand, axes if is_unordered else ())
    of_result = tuple(d for d in range(len(operand)) if d not in axes)
    return IndexingMaps((dims,), (of_result,), combine=OPS[op.name].combine)


# y[i] = argmax_j x[i,j]
def _arg_reduction(op: MappedOp) -> IndexingMaps:
    dims = _numbered(op.operands[0], op.get("axes"))
    return IndexingMaps((dims,), (tuple(d for d in dims if d is not None),))


# y[b,i,j] = sum_k u[b,i,k] v[b,k,j]
def _dot_general(op: MappedOp) -> IndexingMaps:
    contracted, batch = op.get("dimension_numbers")
    left = _numbered(op.operands[0])
    right: list[int | None] = [len(left) + d for d in range(len(op.operands[1]))]
    for pairs in (contracted, batch):
        for i, j in zip(*pairs, strict=True):
            right[j] = i
    result = [left[d] for d in batch[0]]
    result += [left[d] for d in left if d not in batch[0] and d not in contracted[0]]
    result += [right[d] for d in range(len(right)) if d not in batch[1] and d not in contracted[1]]
    combine = "or" if op.dtype == np.bool_ else "add"
    return IndexingMaps((left, tuple(right)), (tuple(result),), combine=combine)


# y[i,j,k] = sum_ac x[i,j+a,c] w[a,c,k]
def _convolution(op: MappedOp) -> IndexingMaps | None:
    if op.get("batch_group_count", 1) != 1:
        return None
    numbers = op.get("dimension_numbers")
    image, kernel, result = (len(shape) for shape in (*op.operands, *op.results))
    images, features, outputs = 0, 1, 2
    followed = [{numbers.lhs_spec[0]: images}, {}, {numbers.out_spec[0]: images}]
    if op.get("feature_group_count", 1) == 1:
        followed[0][numbers.lhs_spec[1]] = followed[1][numbers.rhs_spec[1]] = features
        followed[1][numbers.rhs_spec[0]] = followed[2][numbers.out_spec[1]] = outputs
    dims = [
        tuple(loops.get(d) for d in range(rank))
        for loops, rank in zip(followed, (image, kernel, result), strict=True)
    ]
    return IndexingMaps((dims[0], dims[1]), (dims[2],), combine="add")


def _along(*names: str) -> Callable[[MappedOp], IndexingMaps]:
    """The maps of ops that work along some dimensions of all operands and results, and are
    independent along the others."""

    def make(op: MappedOp) -> IndexingMaps:
        along = [op.get(name) for name in names]
        axes = [d for dims in along for d in (dims if isinstance(dims, tuple) else (dims,))]
        shapes = (*op.operands, *op.results)
        return IndexingMaps(
            tuple(_numbered(shape, axes) for shape in shapes[: len(op.operands)]),
            tuple(_numbered(shape, axes) for shape in shapes[len(op.operands) :]),
        )

    return make


def _leading(count: int) -> Callable[[MappedOp], IndexingMaps]:
    """The maps of ops on the last ``count`` dimensions, such as ops on matrices."""

    def make(op: MappedOp) -> IndexingMaps:
        rank = len(op.operands[0]) - count
        dims = [
            tuple(d if d < rank else None for d in range(len(shape)))
            for shape in (*op.operands, *op.results)
        ]
        return IndexingMaps(tuple(dims[: len(op.operands)]), tuple(dims[len(op.operands) :]))

    return make


def _fft(op: MappedOp) -> IndexingMaps:
    return _leading(len(op.get("fft_lengths")))(op)


def _iota(op: MappedOp) -> IndexingMaps:
    (shape,) = op.results
    return IndexingMaps((), (_numbered(shape, [op.get("dimension")]),), sized=("shape", -1))


def _concatenate(op: MappedOp) -> IndexingMaps:
    axis = (op.get("dimension"),)
    operands = tuple(_numbered(shape, axis) for shape in op.operands)
    return IndexingMaps(operands, (_numbered(op.results[0], axis),))


def _pad(op: MappedOp) -> IndexingMaps:
    padded = [d for d, edges in enumerate(op.get("padding_config")) if tuple(edges) != (0, 0, 0)]
    dims = _numbered(op.results[0], padded)
    return IndexingMaps((dims, ()), (dims,))


def _slice(op: MappedOp) -> IndexingMaps:
    """A loop for each dimension that is kept whole."""
    (operand,), (shape,) = op.operands, op.results
    dims = _numbered(operand, [d for d in range(len(operand)) if operand[d] != shape[d]])
    return IndexingMaps((dims,), (dims,), sized=("limit_indices", 0))


def _dynamic_slice(op: MappedOp) -> IndexingMaps:
    (shape,) = op.results
    dims = _numbered(shape, [d for d in range(len(shape)) if op.operands[0][d] != shape[d]])
    return IndexingMaps((dims, *[()] * len(shape)), (dims,), sized=("slice_sizes", 0))


def _dynamic_update_slice(op: MappedOp) -> IndexingMaps:
    shape, update = op.operands[:2]
    dims = _numbered(shape, [d for d in range(len(shape)) if update[d] != shape[d]])
    return IndexingMaps((dims, dims, *[()] * len(shape)), (dims,))


# y[b,i,j] = x[b,p[b,i],j]: loops over the dimensions of p
def _gather(op: MappedOp) -> IndexingMaps:
    numbers = op.get("dimension_numbers")
    operand, indices = op.operands
    (shape,) = op.results
    of_indices = _numbered(indices, [len(indices) - 1])
    of_operand: list[int | None] = [None] * len(operand)
    for d, i in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        of_operand[d] = i
    rows = iter(of_indices)
    of_result = tuple(None if d in numbers.offset_dims else next(rows) for d in range(len(shape)))
    return IndexingMaps((tuple(of_operand), of_indices), (of_result,))


# y[b,p[b,i],j] += u[b,i,j]: loops over the batch dimensions, which all of them have
def _scatter(op: MappedOp) -> IndexingMaps:
    numbers = op.get("dimension_numbers")
    operand, indices, update = op.operands
    shared = numbers.scatter_indices_batching_dims
    of_indices = tuple(d if d in shared else None for d in range(len(indices)))
    of_operand: list[int | None] = [None] * len(operand)
    for d, i in zip(numbers.operand_batching_dims, shared, strict=True):
        of_operand[d] = i
    rows = iter(of_indices)
    windows = numbers.update_window_dims
    of_update = tuple(None if d in windows else next(rows) for d in range(len(update)))
    return IndexingMaps((tuple(of_operand), of_indices, of_update), (tuple(of_operand),))


def _short(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("jaxpr.") for name in names]


_OPS: dict[str, Callable[[MappedOp], IndexingMaps | None]] = {
    **dict.fromkeys(_short(ELEMENTWISE), _elementwise),
    **dict.fromkeys(("copy", "name"), _elementwise),
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    **dict.fromkeys(_short(with_trait(Trait.RESHAPE)), _reshape),
    **dict.fromkeys(_short(with_trait(Trait.REDUCTION)), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _arg_reduction),
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    **dict.fromkeys(_short(with_trait(Trait.CUMULATIVE)), _along("axis")),
    "sort": _along("dimension"),
    "rev": _along("dimensions"),
    "split": _along("axis"),
    **dict.fromkeys(("cholesky", "lu", "triangular_solve"), _leading(2)),
    "fft": _fft,
    "iota": _iota,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    **dict.fromkeys(_short(with_trait(Trait.UPDATE)), _scatter),
    "dynamic_update_slice": _dynamic_update_slice,
}

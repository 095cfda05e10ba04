"""Ops that select rows, as matrices with a single 1 in each row.

``x[idx]`` is ``S x`` with ``S[e, n] = 1`` where ``n == idx[e]``, and so is a slice; adding up rows,
``zeros.at[idx].add(u)``, is ``S^T u``, and so is padding with zeros.  So both are linear, commute
with matrix products over other dimensions, and are each other's transpose: ``(S x)^T u = x^T (S^T
u)``.  The cost of either is the memory traffic of the elements that it moves.

The program may also materialize the matrix: ``one_hot(idx)`` is a comparison with the row numbers,
converted to numbers.  Its product with a table selects rows, and ``sum_n one_hot(idx)[e, n] x[e,
n]`` *picks* an element of each row.  As a selection, it no longer reads the other elements: if a
table has an infinity or a NaN, a product with a zero was NaN, and now is not.

A gather that fills elements out of bounds with NaN has no transpose; one that fills with another
number than zero is not linear.  An update of an array is a sum, and linear only if the array is
zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.analysis.op_counts import is_narrow
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Labels, Tensor
from jaxmlir.optimize.algebra.labelled_tensors.kinds import OpKind, TensorRule


class RowSelector:
    """A way to select rows of arrays, and its transpose; hashable.

    Attributes:
      transposable: whether :meth:`add` is the transpose of :meth:`select`.
      is_indexed: whether its operand has a row number for each selected row; then it has
        :meth:`pick`.
    """

    transposable = True
    is_indexed = False

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        """Selects rows along an axis, which is replaced by dimensions of some sizes."""
        raise NotImplementedError

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        """Adds the rows of an array, i.e. its first ``count`` dimensions, to ``rows`` rows of
        zeros."""
        raise NotImplementedError

    def pick(self, array: Any, count: int, operands: Sequence[Any]) -> Any:
        """Selects one row along dimension ``count`` for each index of the dimensions before it."""
        raise NotImplementedError


@dataclass(frozen=True)
class IndexSelector(RowSelector):
    """Rows whose numbers are in an array: gather and scatter-add.

    If indices that are promised to be in bounds are not, JAX clips them in a gather and drops them
    in a scatter.  The transpose of either treats them likewise.

    Attributes:
      selects: whether the op is a gather, not a scatter.
    """

    mode: Any
    fill_value: Any = 0
    indices_are_sorted: bool = False
    unique_indices: bool = False
    selects: bool = True

    is_indexed = True

    @property
    def transposable(self) -> bool:  # type: ignore[override]
        return self.mode != lax.GatherScatterMode.FILL_OR_DROP or self.fill_value == 0

    def _flags(self, selects: bool) -> dict[str, Any]:
        """The parameters of a gather, or of a scatter."""
        mode, modes = self.mode, lax.GatherScatterMode
        if mode == modes.PROMISE_IN_BOUNDS and selects != self.selects:
            mode = modes.FILL_OR_DROP if selects else modes.CLIP
        # Clipped indices may coincide.
        repeats = not selects and mode == modes.CLIP
        return {
            "mode": mode,
            "indices_are_sorted": self.indices_are_sorted,
            "unique_indices": self.unique_indices and not repeats,
        }

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        rank, count = array.ndim, len(sizes)
        numbers = lax.GatherDimensionNumbers(
            offset_dims=(*range(axis), *range(axis + count, rank + count - 1)),
            collapsed_slice_dims=(axis,),
            start_index_map=(axis,),
        )
        window = [1 if k == axis else n for k, n in enumerate(array.shape)]
        return self._gather(array, sizes, numbers, window, operands)

    def _gather(
        self, array: Any, sizes: Any, numbers: Any, window: Any, operands: Sequence[Any]
    ) -> Any:
        indices = lax.reshape(operands[0], [*sizes, 1])
        flags = self._flags(selects=True)
        fill = self.fill_value if flags["mode"] == lax.GatherScatterMode.FILL_OR_DROP else None
        return lax.gather(array, indices, numbers, window, fill_value=fill, **flags)

    def pick(self, array: Any, count: int, operands: Sequence[Any]) -> Any:
        batch = tuple(range(count))
        numbers = lax.GatherDimensionNumbers(
            offset_dims=tuple(range(count, array.ndim - 1)),
            collapsed_slice_dims=(count,),
            start_index_map=(count,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
        )
        window = [1 if k <= count else n for k, n in enumerate(array.shape)]
        return self._gather(array, array.shape[:count], numbers, window, operands)

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(count, array.ndim)),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
        )
        indices = lax.reshape(operands[0], [*array.shape[:count], 1])
        # XLA rounds after each addition; a product, which this may replace, rounds once.
        dtype = np.float32 if is_narrow(array.dtype) else array.dtype
        zeros = lax.full((rows, *array.shape[count:]), 0, dtype)
        updates = lax.convert_element_type(array, dtype)
        total = lax.scatter_add(zeros, indices, updates, numbers, **self._flags(selects=False))
        return lax.convert_element_type(total, array.dtype)


@dataclass(frozen=True)
class SliceSelector(RowSelector):
    """Every ``stride``-th row of those from ``start`` to ``limit``."""

    start: int
    limit: int
    stride: int

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        starts = [self.start if k == axis else 0 for k in range(array.ndim)]
        limits = [self.limit if k == axis else n for k, n in enumerate(array.shape)]
        strides = [self.stride if k == axis else 1 for k in range(array.ndim)]
        part = lax.slice(array, starts, limits, strides if self.stride != 1 else None)
        return lax.reshape(part, [*array.shape[:axis], *sizes, *array.shape[axis + 1 :]])

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        array = lax.collapse(array, 0, count)
        end = self.start + (array.shape[0] - 1) * self.stride + 1
        padding = [(self.start, rows - end, self.stride - 1), *[(0, 0, 0)] * (array.ndim - 1)]
        return lax.pad(array, np.zeros((), array.dtype), padding)


@dataclass(frozen=True)
class DynamicSliceSelector(RowSelector):
    """Consecutive rows from a dynamic start index on."""

    size: int

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        starts = _starts(operands[0], axis, array.ndim)
        window = [self.size if k == axis else n for k, n in enumerate(array.shape)]
        # The primitive, since `lax.dynamic_slice` adds the array's size to negative starts.
        part = lax.dynamic_slice_p.bind(array, *starts, slice_sizes=tuple(window))
        return lax.reshape(part, [*array.shape[:axis], *sizes, *array.shape[axis + 1 :]])

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        array = lax.collapse(array, 0, count)
        zeros = lax.full((rows, *array.shape[1:]), 0, array.dtype)
        starts = _starts(operands[0], 0, array.ndim)
        return lax.dynamic_update_slice_p.bind(zeros, array, *starts)


def _starts(start: Any, axis: int, rank: int) -> list[Any]:
    return [start if k == axis else np.zeros((), start.dtype) for k in range(rank)]


# -- Reading the ops --


def _selection(
    algebra: Algebra,
    x: Tensor,
    spec: RowSelector,
    rows: tuple[int, int],
    selected: Sequence[tuple[int, int]],
    operands: Sequence[Tensor],
    gone: Labels,
) -> Tensor:
    """The product of a tensor and a selector.

    Args:
      rows, selected: the labels and sizes of the rows, and of the selected ones.
      operands: the row numbers, with the labels of the selected rows.
    """
    dims = [rows, *[(k, n) for k, n in selected if n != 1]]
    selector = _selector(algebra, spec, dims, operands, x.expr.dtype)
    return algebra.selected(x, selector, gone)


def _selector(
    algebra: Algebra,
    spec: RowSelector,
    dims: Sequence[tuple[int, int]],
    operands: Sequence[Tensor],
    dtype: Any,
) -> Tensor:
    """A selector.

    Args:
      dims: the label and size of the rows, then those of each dimension of the selected rows.
      operands: the row numbers, with the labels of the selected rows.
    """
    at = {label: k for k, (label, _) in enumerate(dims)}
    used = tuple([(t.expr, t.relabelled(at).labels, t.sign) for t in operands])
    expr = algebra.operation("selector", spec, used, [size for _, size in dims], dtype)
    return Tensor(expr, tuple(at))


# Pattern: gather(x, idx)[..., e, ...] = S[e,n] x[..., n, ...]
# Pattern: gather(x, (i, i))[i] = x[i,i]
def _gather(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    (x, idx), shape = operands, kind.shapes[0]
    numbers, fill = kind.attributes["dimension_numbers"], kind.attributes.get("fill_value")
    axes, mode = tuple(numbers.start_index_map), kind.attributes.get("mode")
    if not kind.sums_to(x) or {*numbers.collapsed_slice_dims} != {*axes}:
        return None
    if numbers.operand_batching_dims:
        return None
    if sorted(axes) == [0, 1] and shape == kind.shape * 2 and idx.labels == (0,):
        # In any mode, as an iota over all rows is in bounds.
        is_all = idx.expr.kind == "iota" and idx.sign == 1 and idx.expr.sizes == kind.shape
        return algebra.diagonal(x.relabelled((0, 0))) if is_all else None
    window = tuple(1 if d in axes else n for d, n in enumerate(shape))
    if len(axes) != 1 or tuple(kind.attributes["slice_sizes"]) != window:
        return None
    (axis,) = axes
    if axis not in x.labels or not _is_linear(mode, fill):
        return None
    # The dimensions of the operand in the result, and those of the indices.
    out_dims = dict(
        zip([d for d in range(len(shape)) if d != axis], numbers.offset_dims, strict=True)
    )
    index_dims = [d for d in range(len(kind.shape)) if d not in numbers.offset_dims]
    rows = len(kind.shape)
    # A single NaN object, so that equal selectors compare equal.
    spec = IndexSelector(mode, math.nan if fill != fill else 0, *_flags_of(kind))
    return _selection(
        algebra,
        x.relabelled(out_dims | {axis: rows}),
        spec,
        (rows, shape[axis]),
        [(d, kind.shape[d]) for d in index_dims],
        [idx.relabelled(index_dims)],
        (rows,),
    )


def _is_linear(mode: Any, fill: Any) -> bool:
    if mode == lax.GatherScatterMode.FILL_OR_DROP:
        return fill is not None and (fill == 0 or fill != fill)
    return mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _flags_of(kind: OpKind) -> tuple[bool, bool]:
    get = kind.attributes.get
    return get("indices_are_sorted", False), get("unique_indices", False)


# Pattern: scatter_add(0, idx, u)[..., n, ...] = S[e,n] u[..., e, ...]
def _scatter_add(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    (zero, idx, updates), shape = operands, kind.shape
    numbers, mode = kind.attributes["dimension_numbers"], kind.attributes.get("mode")
    axes, windows = tuple(numbers.scatter_dims_to_operand_dims), numbers.update_window_dims
    others = [d for d in range(len(shape)) if d not in axes]
    if len(axes) != 1 or shape[axes[0]] == 1 or tuple(numbers.inserted_window_dims) != axes:
        return None
    if numbers.operand_batching_dims or mode == lax.GatherScatterMode.ONE_HOT:
        return None
    sizes = kind.shapes[2]
    if [sizes[d] for d in windows] != [shape[d] for d in others]:
        return None
    if not kind.sums_to(updates) or not algebra.is_zero(zero):
        return None
    at = dict(zip(windows, others, strict=True))
    added = [d for d in range(len(sizes)) if d not in at]
    at |= {d: len(shape) + d for d in added}
    return _selection(
        algebra,
        updates.relabelled(at),
        IndexSelector(mode, 0, *_flags_of(kind), selects=False),
        (axes[0], shape[axes[0]]),
        [(at[d], sizes[d]) for d in added],
        [idx.relabelled([at[d] for d in added])],
        tuple([at[d] for d in added]),
    )


def _slice(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    get = kind.attributes.get
    starts, limits = get("start_indices"), get("limit_indices")
    specs = map(SliceSelector, starts, limits, get("strides") or (1,) * len(starts))
    return _along_dims(algebra, kind, operands[0], kind.shapes[0], [(s, ()) for s in specs])


def _dynamic_slice(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    x, *starts = operands
    ways = [(DynamicSliceSelector(n), (t,)) for n, t in zip(kind.shape, starts, strict=True)]
    return _along_dims(algebra, kind, x, kind.shapes[0], ways)


def _along_dims(
    algebra: Algebra,
    kind: OpKind,
    x: Tensor,
    shape: Sequence[int],
    ways: Sequence[tuple[RowSelector, Sequence[Tensor]]],
    adds: bool = False,
) -> Tensor | None:
    """Selects a part of each dimension of an operand that the op does not take as a whole.

    Args:
      shape: the shape of the operand.
      ways: the selector along each dimension, and its operands.
      adds: whether the op is the transpose: the operand is a part of the result, which is zero
        elsewhere.
    """
    if not kind.sums_to(x):
        return None
    for d, (have, want) in enumerate(zip(shape, kind.shape, strict=True)):
        # A part of a dimension along which the operand is broadcast is a broadcast as well.
        if have == want or not (adds or d in x.labels):
            continue
        before = len(shape) + d
        x = x.relabelled({k: before if k == d else k for k in x.labels})
        rows, selected = ((d, want), (before, have)) if adds else ((before, have), (d, want))
        gone = (before,) if have != 1 else ()
        spec, where = ways[d]
        x = _selection(algebra, x, spec, rows, [selected], where, gone)
    return x


# Pattern: pad(x, 0)[n] = S[e,n] x[e]
def _pad(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    config, shape = kind.attributes["padding_config"], kind.shapes[0]
    if not algebra.is_zero(operands[1]) or any(low < 0 or high < 0 for low, high, _ in config):
        return None
    specs = [
        SliceSelector(low, low + (size - 1) * (interior + 1) + 1, interior + 1)
        for size, (low, _, interior) in zip(shape, config, strict=True)
    ]
    return _along_dims(algebra, kind, operands[0], shape, [(s, ()) for s in specs], adds=True)


# Pattern: dynamic_update_slice(0, x, i)[n] = S[e,n] x[e]
def _dynamic_update_slice(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    (zero, x, *starts), shape = operands, kind.shapes[1]
    if not algebra.is_zero(zero):
        return None
    ways = [(DynamicSliceSelector(n), (t,)) for n, t in zip(shape, starts, strict=True)]
    return _along_dims(algebra, kind, x, shape, ways, adds=True)


# Pattern: convert(i[e] == n)[..., e, n, ...] = S[e,n]
def one_hot(algebra: Algebra, mask: Tensor, dtype: Any) -> Tensor | None:
    """A comparison as a selector, if it compares integers with an iota: the integer at each place
    of the other dimensions is the row that has the 1."""
    operands = mask.expr.operands
    for (counting, at, sign), (numbers, labels, other) in (operands, operands[::-1]):
        (size,) = counting.sizes if counting.kind == "iota" else (0,)
        if not size or sign != 1 or at[0] in labels or len(labels) != mask.expr.rank - 1:
            continue
        if numbers.dtype.kind not in "iu" or np.iinfo(numbers.dtype).max < size:
            continue
        dims = [(at[0], size), *[(k, mask.expr.sizes[k]) for k in sorted(labels)]]
        spec = IndexSelector(lax.GatherScatterMode.FILL_OR_DROP)
        selector = _selector(algebra, spec, dims, [Tensor(numbers, labels, other)], dtype)
        return selector.relabelled(mask.labels)
    return None


READERS: dict[str, TensorRule] = {
    "jaxpr.dynamic_slice": _dynamic_slice,
    "jaxpr.dynamic_update_slice": _dynamic_update_slice,
    "jaxpr.gather": _gather,
    "jaxpr.pad": _pad,
    "jaxpr.scatter_add": _scatter_add,
    "jaxpr.slice": _slice,
}
"""The functions that read ops that select rows, or add them up, by op name."""

"""Ops that select rows, as matrices with a single 1 in each row.

``x[idx]`` is ``S x`` with ``S[e, n] = 1`` where ``n == idx[e]``, and so is a slice; adding up rows,
``zeros.at[idx].add(u)``, is ``S^T u``, and so is padding with zeros.  So both are linear, commute
with matrix products over other dimensions, and are each other's transpose: ``(S x)^T u = x^T (S^T
u)``.  Either way costs as much as it moves.

The matrix may be there as one: ``one_hot(idx)``, a comparison with the numbers of the rows as
numbers.  Multiplied by a table it selects rows, and ``sum_n one_hot(idx)[e, n] x[e, n]`` *picks* an
element of each row.  Elements that are not selected no longer take part: where a table has an
infinity or a NaN, a product with a zero was NaN, and now is not.

A gather that fills what is out of bounds by NaN has no transpose; one that fills integers is not
linear.  An update of an array is a sum, and linear only if the array is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import counts_along
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.products.network import (
    Index,
    Node,
    Rule,
    Selector,
    Spec,
    Term,
    Unfit,
    convert,
    convert_operands,
    fresh,
    is_zero,
    itself,
    resolve,
    size_of,
)


@dataclass(frozen=True)
class Indexed(Spec):
    """Rows whose numbers are in an array: gather and scatter-add.

    Of indices that are promised to be in bounds, JAX says that those that are not are clipped by a
    gather, and dropped by a scatter.  So they are by the transpose of either.

    Attributes:
      selects: whether it is a gather, not a scatter.
    """

    mode: Any
    fill_value: Any = 0
    indices_are_sorted: bool = False
    unique_indices: bool = False
    selects: bool = True

    operands = 1
    picks = True

    @property
    def transposable(self) -> bool:  # type: ignore[override]
        return self.mode != lax.GatherScatterMode.FILL_OR_DROP or self.fill_value == 0

    def _flags(self, selects: bool) -> dict[str, Any]:
        """The parameters of a gather, or of a scatter."""
        mode, modes = self.mode, lax.GatherScatterMode
        if mode == modes.PROMISE_IN_BOUNDS and selects != self.selects:
            mode = modes.FILL_OR_DROP if selects else modes.CLIP
        # Those that are clipped may be equal.
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
        zeros = lax.full((rows, *array.shape[count:]), 0, array.dtype)
        return lax.scatter_add(zeros, indices, array, numbers, **self._flags(selects=False))


@dataclass(frozen=True)
class Sliced(Spec):
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
        array = _merged(array, count)
        end = self.start + (array.shape[0] - 1) * self.stride + 1
        padding = [(self.start, rows - end, self.stride - 1), *[(0, 0, 0)] * (array.ndim - 1)]
        return lax.pad(array, np.zeros((), array.dtype), padding)


@dataclass(frozen=True)
class DynamicallySliced(Spec):
    """A number of rows from one on that is known when the program runs."""

    size: int

    operands = 1

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        starts = _starts(operands[0], axis, array.ndim)
        window = [self.size if k == axis else n for k, n in enumerate(array.shape)]
        # By the primitive: the function adds the array's size to negative starts.
        part = lax.dynamic_slice_p.bind(array, *starts, slice_sizes=tuple(window))
        return lax.reshape(part, [*array.shape[:axis], *sizes, *array.shape[axis + 1 :]])

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        array = _merged(array, count)
        zeros = lax.full((rows, *array.shape[1:]), 0, array.dtype)
        starts = _starts(operands[0], 0, array.ndim)
        return lax.dynamic_update_slice_p.bind(zeros, array, *starts)


def _merged(array: Any, count: int) -> Any:
    """An array with its first dimensions made one."""
    rest = array.shape[count:]
    return lax.reshape(array, [int(np.prod(array.shape[:count], dtype=np.int64)), *rest])


def _starts(start: Any, axis: int, rank: int) -> list[Any]:
    return [start if k == axis else np.zeros((), start.dtype) for k in range(rank)]


# --- the ops --------------------------------------------------------------------------------------


def _rows(term: Term, d: int) -> Index:
    """The index of a dimension that a selector reads as one number."""
    indices = resolve(term.dims[d])
    if len(indices) != 1:
        raise Unfit
    indices[0].solid = True
    return indices[0]


def _new_rows(size: int) -> tuple[Index, list[Index]]:
    """A dimension of rows that are added up."""
    if size == 1:
        raise Unfit
    index = Index(size, solid=True)
    return index, [index]


# Pattern: gather(x, idx)[..., e, ...] = S[e,n] x[..., n, ...]
def _gather_operands(node: Node) -> tuple[int, ...] | None:
    numbers = node.get("dimension_numbers")
    shape = node.operands[0].shape
    rows = numbers.start_index_map
    ok = (
        len(rows) == 1
        and tuple(numbers.collapsed_slice_dims) == tuple(rows)
        and not numbers.operand_batching_dims
        and tuple(node.get("slice_sizes"))
        == tuple(1 if k in rows else n for k, n in enumerate(shape))
        and _is_linear(node.get("mode"), node.get("fill_value"))
    )
    return (0,) if ok else None


def _is_linear(mode: Any, fill: Any) -> bool:
    if mode == lax.GatherScatterMode.FILL_OR_DROP:
        return fill is not None and (fill == 0 or fill != fill)
    return mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _gather(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    numbers = node.get("dimension_numbers")
    (axis,) = numbers.start_index_map
    fill = node.get("fill_value")
    rows = _rows(term, axis)
    windows = iter([dim for k, dim in enumerate(term.dims) if k != axis])
    dims = fresh(node.shape)
    selected: list[Index] = []
    for k in range(len(dims)):
        if k in numbers.offset_dims:
            dims[k] = next(windows)
        else:
            selected += dims[k]
    # One object for NaN, which does not equal itself.
    spec = Indexed(node.get("mode"), math.nan if fill != fill else 0, *_flags_of(node))
    term.selectors.append(Selector(spec, (node.operands[1],), rows, selected))
    term.dims = dims
    return term


def _flags_of(node: Node) -> tuple[bool, bool]:
    return node.get("indices_are_sorted", False), node.get("unique_indices", False)


# Pattern: scatter_add(0, idx, u)[..., n, ...] = S[e,n] u[..., e, ...]
def _scatter_operands(node: Node) -> tuple[int, ...] | None:
    numbers = node.get("dimension_numbers")
    rows = numbers.scatter_dims_to_operand_dims
    ok = (
        len(rows) == 1
        and tuple(numbers.inserted_window_dims) == tuple(rows)
        and not numbers.operand_batching_dims
        and node.get("mode") != lax.GatherScatterMode.ONE_HOT
        and is_zero(node.operands[0])
        and _windows(node) == [n for k, n in enumerate(node.shape) if k not in rows]
    )
    return (2,) if ok else None


def _windows(node: Node) -> list[int]:
    """The sizes of the dimensions of updates that are not rows."""
    shape = node.operands[2].shape
    return [shape[k] for k in node.get("dimension_numbers").update_window_dims]


def _scatter_add(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    numbers = node.get("dimension_numbers")
    (axis,) = numbers.scatter_dims_to_operand_dims
    windows = numbers.update_window_dims
    selected = [i for k, dim in enumerate(term.dims) if k not in windows for i in dim]
    rows, dim = _new_rows(node.shape[axis])
    spec = Indexed(node.get("mode"), 0, *_flags_of(node), selects=False)
    term.selectors.append(Selector(spec, (node.operands[1],), rows, selected))
    term.dims = [term.dims[k] for k in windows]
    term.dims.insert(axis, dim)
    return term


def _slice(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    starts, limits = node.get("start_indices"), node.get("limit_indices")
    strides = node.get("strides") or (1,) * len(starts)
    for d, (start, limit, stride) in enumerate(zip(starts, limits, strides, strict=True)):
        _select(term, node, d, Sliced(start, limit, stride), ())
    return term


def _dynamic_slice(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    for d, size in enumerate(node.get("slice_sizes")):
        _select(term, node, d, DynamicallySliced(size), (node.operands[1 + d],))
    return term


def _select(term: Term, node: Node, d: int, spec: Spec, operands: tuple[Node, ...]) -> None:
    """Makes a dimension the selected part of it, if that is not all."""
    size = node.shape[d]
    if size != node.operands[0].shape[d]:
        (dim,) = fresh([size])
        term.selectors.append(Selector(spec, operands, _rows(term, d), dim))
        term.dims[d] = dim


# Pattern: pad(x, 0)[n] = S[e,n] x[e]
def _pad_operands(node: Node) -> tuple[int, ...] | None:
    grows = all(low >= 0 and high >= 0 for low, high, _ in node.get("padding_config"))
    return (0,) if grows and is_zero(node.operands[1]) else None


def _pad(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    sizes = node.operands[0].shape
    for d, (low, _, interior) in enumerate(node.get("padding_config")):
        stride = interior + 1
        _add(term, node, d, Sliced(low, low + (sizes[d] - 1) * stride + 1, stride), ())
    return term


# Pattern: dynamic_update_slice(0, x, i)[n] = S[e,n] x[e]
def _update_operands(node: Node) -> tuple[int, ...] | None:
    return (1,) if is_zero(node.operands[0]) else None


def _dynamic_update_slice(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    for d, size in enumerate(node.operands[1].shape):
        _add(term, node, d, DynamicallySliced(size), (node.operands[2 + d],))
    return term


def _add(term: Term, node: Node, d: int, spec: Spec, operands: tuple[Node, ...]) -> None:
    """Puts a dimension among zeros, if there are any."""
    size = node.shape[d]
    if size != size_of(term.dims[d]):
        rows, dim = _new_rows(size)
        term.selectors.append(Selector(spec, operands, rows, term.dims[d]))
        term.dims[d] = dim


# Pattern: convert(i[e] == n)[..., e, n, ...] = S[e,n]
def _one_hot_operands(node: Node) -> tuple[int, ...] | None:
    return () if _numbers_of_rows(node) is not None else convert_operands(node)


def _one_hot(node: Node, terms: list[Term]) -> Term:
    found = _numbers_of_rows(node)
    if found is None:
        return convert(node, terms)
    d, numbers = found
    term = Term(fresh(node.shape))
    rows = _rows(term, d)
    selected = [i for k, dim in enumerate(term.dims) if k != d for i in dim]
    spec = Indexed(lax.GatherScatterMode.FILL_OR_DROP)
    term.selectors.append(Selector(spec, (numbers,), rows, selected))
    return term


def _numbers_of_rows(node: Node) -> tuple[int, Node] | None:
    """The dimension along which a one-hot mask has its 1, and where: an integer for each of the
    other dimensions."""
    mask = node.operands[0]
    if mask.name != "jaxpr.eq" or "sharding" in node.attributes:
        return None
    shape = node.shape
    for counting, numbers in (mask.operands, mask.operands[::-1]):
        d = counts_along(counting, itself)
        if d is None or shape[d] == 1 or counting.shape[d] != shape[d]:
            continue
        numbers = _without(numbers, d)
        if numbers is None:
            continue
        sizes = [n for k, n in enumerate(shape) if k != d and n != 1]
        dtype = aval_of(numbers.type).dtype
        if (
            [n for n in numbers.shape if n != 1] == sizes
            and dtype.kind in "iu"
            and np.iinfo(dtype).max >= shape[d]
        ):
            return d, numbers
    return None


def _without(value: Node, d: int) -> Node | None:
    """The value that another one repeats along a dimension, itself if it has a size of 1 there;
    ``None`` if it is not the same along it."""
    if value.name == "jaxpr.broadcast_in_dim" and len(value.operands) == 1:
        dims = value.get("broadcast_dimensions")
        (source,) = value.operands
        if d not in dims or source.shape[dims.index(d)] == 1:
            return source
    return value if not value.shape or value.shape[d] == 1 else None


def _whole(node: Node) -> tuple[int, ...]:
    return (0,)


SELECTING: dict[str, Rule] = {
    "jaxpr.convert_element_type": Rule(_one_hot_operands, _one_hot, free=True, has_others=True),
    "jaxpr.gather": Rule(_gather_operands, _gather, contracts=True, has_others=True),
    "jaxpr.scatter_add": Rule(_scatter_operands, _scatter_add, contracts=True, has_others=True),
    "jaxpr.slice": Rule(_whole, _slice, contracts=True, has_others=True),
    "jaxpr.dynamic_slice": Rule(_whole, _dynamic_slice, contracts=True, has_others=True),
    "jaxpr.pad": Rule(_pad_operands, _pad, contracts=True, has_others=True),
    "jaxpr.dynamic_update_slice": Rule(
        _update_operands, _dynamic_update_slice, contracts=True, has_others=True
    ),
}
"""The rules of the ops that selectors are read from, by name."""

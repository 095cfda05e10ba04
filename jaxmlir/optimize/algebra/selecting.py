"""Computes selected elements of values from selected elements of their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, with_shape
from jaxmlir.transforms.templates import Rules

COMPUTING = ELEMENTWISE | {"jaxpr.broadcast_in_dim"}
"""Ops whose result elements are each computed from single elements of the operands."""


class Selection(NamedTuple):
    """A selection by a slice, a gather or a dynamic slice, as a function that JAX traces; hashable.

    Attributes:
      name: the name of the primitive.
      shape: the shape of the operand.
      result: the shape of the result.
      params: its parameters, by name.
      dropped: dimensions of which one element is selected, and which the result lacks.
    """

    name: str
    shape: tuple[int, ...]
    result: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]
    dropped: tuple[int, ...] = ()

    @staticmethod
    def of(node: OpView) -> Selection:
        shape, result = (
            aval_of(v.type).shape for v in (node.operands[0], node.op.operation.results[0])
        )
        params = tuple((name, node.get(name)) for name in sorted(node.attributes))
        return Selection(node.name.removeprefix("jaxpr."), shape, result, params)

    @staticmethod
    def box(
        shape: Sequence[int],
        starts: Sequence[int],
        limits: Sequence[int],
        dropped: tuple[int, ...] = (),
    ) -> Selection:
        """The selection ``x[starts[0] : limits[0], ...]``, without the dropped dimensions."""
        sizes = enumerate(zip(starts, limits, strict=True))
        result = tuple([b - a for d, (a, b) in sizes if d not in dropped])
        params = (("limit_indices", tuple(limits)), ("start_indices", tuple(starts)))
        return Selection("slice", tuple(shape), result, params, dropped)

    def __call__(self, array: Any, *indices: Any) -> Any:
        """The selected elements of an array; dimensions of size 1 are broadcast."""
        params = dict(self.params)
        whole = [have == want for have, want in zip(array.shape, self.shape, strict=True)]
        select = {"slice": _slice, "dynamic_slice": _dynamic_slice, "gather": _gather}[self.name]
        selected = select(array, whole, self.shape, indices, params)
        if self.dropped:
            selected = lax.squeeze(selected, self.dropped)
        if selected.shape == self.result:
            return selected
        return lax.broadcast_in_dim(selected, self.result, range(selected.ndim))

    @property
    def fills(self) -> bool:
        return dict(self.params).get("mode") == lax.GatherScatterMode.FILL_OR_DROP

    def filled(self, array: Any, indices: Any) -> Any:
        """The gathered elements, with those out of bounds replaced by the fill value."""
        params = dict(self.params)
        numbers, fill = params["dimension_numbers"], params.get("fill_value")
        last = [self.shape[d] - params["slice_sizes"][d] for d in numbers.start_index_map]
        last = np.minimum(last, dtypes.iinfo(indices.dtype).max).astype(indices.dtype)
        inside = lax.bitwise_and(
            lax.ge(indices, lax.full_like(indices, 0)),
            lax.le(indices, lax.broadcast(last, indices.shape[:-1])),
        )
        inside = lax.reduce(inside, np.True_, lax.bitwise_and, (indices.ndim - 1,))
        dims = [d for d in range(array.ndim) if d not in numbers.offset_dims]
        inside = lax.broadcast_in_dim(inside, array.shape, dims)
        return lax.select(inside, array, lax.full_like(array, np.nan if fill is None else fill))


def _slice(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    starts, limits = params["start_indices"], params["limit_indices"]
    strides = params.get("strides") or (1,) * len(starts)
    bounds = [
        (start, limit, stride) if here else (0, 1, 1)
        for start, limit, stride, here in zip(starts, limits, strides, whole, strict=True)
    ]
    if bounds == [(0, size, 1) for size in array.shape]:
        return array
    starts, limits, strides = zip(*bounds, strict=True)
    return lax.slice(array, starts, limits, None if set(strides) == {1} else strides)


def _dynamic_slice(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    sizes = [n if here else 1 for n, here in zip(params["slice_sizes"], whole, strict=True)]
    # The primitive, since `lax.dynamic_slice` adds the array's size to negative starts.
    return lax.dynamic_slice_p.bind(array, *indices, slice_sizes=tuple(sizes))


def _gather(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    numbers, mode = params["dimension_numbers"], params["mode"]
    batch = numbers.operand_batching_dims
    if any(not whole[d] for d in batch):
        full = [shape[d] if d in batch else n for d, n in enumerate(array.shape)]
        array = lax.broadcast_in_dim(array, full, range(array.ndim))
    sizes = [n if here else 1 for n, here in zip(params["slice_sizes"], whole, strict=True)]
    same = all(whole)
    keeps_bounds = same and mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS
    # Indices whose elements are filled afterwards are clipped here, and may coincide then.
    differ = same and mode != lax.GatherScatterMode.FILL_OR_DROP
    return lax.gather(
        array,
        indices[0],
        numbers,
        sizes,
        # Along a broadcast dimension, every index reads the single element.
        mode=mode if keeps_bounds else lax.GatherScatterMode.CLIP,
        unique_indices=differ and bool(params.get("unique_indices")),
        indices_are_sorted=same and bool(params.get("indices_are_sorted")),
    )


def made_of(
    value: ir.Value, node_of: Callable[[ir.Value], OpView | None], most: float = math.inf
) -> tuple[dict[ir.Value, OpView], list[ir.Value]]:
    """The tree of ops that computes elements of a value: its ops by their results, operands first,
    and its leaves, i.e. the values from which elements are selected.

    Args:
      node_of: the op of ``COMPUTING`` that defines a value; ``None`` if the value is a leaf.
      most: the maximum number of ops; results of other ops are leaves.
    """
    inner: dict[ir.Value, OpView] = {}
    leaves: dict[ir.Value, None] = {}
    pending: list[tuple[ir.Value, OpView | None]] = [(value, None)]
    count = 0
    while pending:
        value, node = pending.pop()
        if node is not None:
            inner[value] = node
        elif value not in inner and value not in leaves:
            node = node_of(value) if count < most else None
            if node is None:
                leaves[value] = None
                continue
            count += 1
            pending.append((value, node))
            if node.name in ELEMENTWISE:
                pending += [(v, None) for v in reversed(node.operands) if aval_of(v.type).shape]
    return inner, list(leaves)


class ElementWriter(NamedTuple):
    """Writes ops for selected elements of values that elementwise ops and broadcasts compute."""

    rules: Rules

    def write(
        self,
        value: ir.Value,
        selection: Selection,
        indices: Sequence[ir.Value],
        inner: Mapping[ir.Value, OpView],
        leaves: Iterable[ir.Value],
    ) -> ir.Value:
        """The selected elements of a value, computed at the insertion point.

        Args:
          indices: the indices of the selection, if it is dynamic.
          inner, leaves: the tree of ops that computes the value (:func:`made_of`).
        """
        values = {v: self._selected(selection, selection, v, indices) for v in leaves}
        for v, node in inner.items():
            values[v] = self._computed(selection, v, node, values, indices)
        selected = values[value]
        if selection.fills:
            (selected,) = self.rules.emit(
                lambda *xs: [selection.filled(*xs)], [selected, *indices], (selection, "filled")
            )
        return selected

    def _computed(
        self,
        selection: Selection,
        value: ir.Value,
        node: OpView,
        values: Mapping[ir.Value, ir.Value],
        indices: Sequence[ir.Value],
    ) -> ir.Value:
        if node.name == "jaxpr.broadcast_in_dim":
            dims = node.get("broadcast_dimensions")
            spread = _BroadcastSelection(selection, tuple(dims))
            return self._selected(selection, spread, node.operands[0], indices, value.type)
        operands = [values.get(v, v) for v in node.operands]
        (result,) = ir.Operation.create(
            node.name, [with_shape(value.type, selection.result)], operands, node.attributes
        ).results
        return result

    def _selected(
        self,
        selection: Selection,
        select: Any,
        value: ir.Value,
        indices: Sequence[ir.Value],
        type_: ir.Type | None = None,
    ) -> ir.Value:
        (selected,) = self.rules.emit(lambda *xs: [select(*xs)], [value, *indices], select)
        return converted(selected, with_shape(type_ or value.type, selection.result))


class _BroadcastSelection(NamedTuple):
    """A selection from a broadcast of an array."""

    selection: Selection
    dims: tuple[int, ...]

    def __call__(self, array: Any, *indices: Any) -> Any:
        if not self.dims:
            return lax.broadcast_in_dim(array, self.selection.result, ())
        sizes = [1] * len(self.selection.shape)
        for d, size in zip(self.dims, array.shape, strict=True):
            sizes[d] = size
        return self.selection(lax.broadcast_in_dim(array, sizes, self.dims), *indices)

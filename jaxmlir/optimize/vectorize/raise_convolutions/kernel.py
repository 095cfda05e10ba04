"""The kernel of a convolution: the matrices of all places, as they are or put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import node_of
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.vectorize.raise_convolutions.taps import Tap
from jaxmlir.optimize.vectorize.raise_convolutions.window import Convolution
from jaxmlir.transforms.templates import Rules


def kernel_of(rules: Rules, window: Convolution, taps: Sequence[Tap]) -> ir.Value:
    """The matrices of the places of a window, in order, as one array: ``[*places, *matrix]``."""
    matrices = [tap.matrix for tap in taps]
    read = [_part(matrix) for matrix in matrices]
    parts = [part for part in read if part is not None]
    whole = _whole(window, parts) if len(parts) == len(matrices) else None
    if whole is not None:
        return rules.emit(whole, [parts[0].array], whole)[0]
    stacked = _Stacked(window.counts)
    return rules.emit(stacked, matrices, stacked)[0]


@dataclass(frozen=True)
class _Stacked:
    """Matrices as an array with some dimensions before theirs; hashable."""

    counts: tuple[int, ...]

    def __call__(self, *matrices: Any) -> list[Any]:
        rows = lax.concatenate([lax.expand_dims(m, (0,)) for m in matrices], 0)
        return [lax.reshape(rows, (*self.counts, *matrices[0].shape))]


@dataclass(frozen=True)
class _Part:
    """A matrix as a slice of an array.

    Attributes:
      dims: which dimensions of the array its rows and columns are.
      shape: of the slice, of size 1 along all others.
    """

    array: ir.Value
    start: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[int, ...]


def _part(matrix: ir.Value) -> _Part | None:
    dims, node = (0, 1), node_of(matrix)
    while node is not None and node.name in ("jaxpr.squeeze", "jaxpr.transpose"):
        if node.name == "jaxpr.transpose":
            kept = node.get("permutation")
        else:
            gone = node.get("dimensions")
            kept = [d for d in range(len(aval_of(node.operands[0].type).shape)) if d not in gone]
        dims = tuple(int(kept[d]) for d in dims)
        node = node_of(node.operands[0])
    if node is None or node.name != "jaxpr.slice" or not is_plain_op(node):
        return None
    if set(node.get("strides") or (1,)) != {1}:
        return None
    shape = aval_of(node.op.results[0].type).shape
    return _Part(node.operands[0], tuple(node.get("start_indices")), shape, dims)


@dataclass(frozen=True)
class _Whole:
    """A part of an array that has all matrices, in the order of their places; hashable."""

    start: tuple[int, ...]
    limit: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def __call__(self, array: Any) -> list[Any]:
        part = lax.slice(array, self.start, self.limit)
        return [lax.reshape(lax.transpose(part, self.order), self.shape)]


def _whole(window: Convolution, parts: Sequence[_Part]) -> _Whole | None:
    """How an array is read that has a dimension for each along which a window has places."""
    first = parts[0]
    if any((p.array, p.shape, p.dims) != (first.array, first.shape, first.dims) for p in parts):
        return None
    starts = np.reshape([p.start for p in parts], (*window.counts, len(first.start)))
    steps = starts - np.array(first.start)
    moved = [axis for axis, count in enumerate(window.counts) if count > 1]
    order: list[int] = []
    for axis in moved:
        second = steps[tuple(int(a == axis) for a in range(len(window.counts)))]
        order += np.flatnonzero(second).tolist()
    if len(order) != len(moved) or not set(order).isdisjoint(first.dims):
        return None
    expected = np.zeros_like(steps)
    for axis, d in zip(moved, order, strict=True):
        expected[..., d] = np.indices(window.counts)[axis]
    if not np.array_equal(steps, expected):
        return None
    limit = starts.reshape(-1, len(first.start)).max(0) + first.shape
    rest = [d for d in range(len(first.start)) if d not in (*order, *first.dims)]
    shape = *window.counts, *(first.shape[d] for d in first.dims)
    return _Whole(first.start, tuple(map(int, limit)), (*rest, *order, *first.dims), shape)

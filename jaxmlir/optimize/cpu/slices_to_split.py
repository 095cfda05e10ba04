"""``jaxpr-slices-to-split``: takes adjacent slices of one array from one split.

The gates of a recurrent cell, the heads of an attention, or the fields of a state are often packed
in one array, and taken from it by slices::

    i, f = z[:, :n], z[:, n:]    ->    i, f = split(z)

Both run equally fast.  But the cotangent of each slice is padded to the whole array, and all padded
arrays are added up, while the cotangent of a split is a concatenation.  In a loop, a CPU takes
longer for the padded arrays (gradients of a step before / after, two cores, jax 0.10 and 0.12)::

    GRU, 16 x 64 units         1.98, 1.91 ms  ->  1.52, 1.48 ms
    LSTM, 32 x 128 units       28 ms          ->  25.5 ms

Outside of loops a CPU takes about as long for both, and its threads share the sum but not the
concatenation; a TPU's compiler fuses the sum only.  Short pieces, such as columns of a few
elements, are slow to concatenate.  Adding zeros does not change numbers, so the derivative stays
the same but for the sign of zero.

Slices that overlap, or that differ in more than one dimension, stay as they are; so do slices with
gaps between them that are larger in total than the slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of, shape_of
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.transforms.templates import Rules

MIN_PIECE = 16
"""The least number of contiguous elements in the shortest piece."""


class SlicesToSplit(Pass):
    """Replace adjacent slices of an array by one split, in loops."""

    name: ClassVar[str] = "jaxpr-slices-to-split"
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)

    def run(self, program: Module) -> bool:
        rules = Rules(program)
        in_loops = analyses_of(program).graph.run_by(SCANS)

        def split(function: func.FuncOp) -> int:
            if function.sym_name.value not in in_loops:
                return 0
            candidates = [(nodes[0], _split_of(nodes)) for nodes in _sliced(function)]
            splits = [(first, *split) for first, split in candidates if split is not None]
            for first, split, slices in splits:
                _write(rules, first, split, slices)
            return len(splits)

        return rewrite_functions(program, NEEDED_OPS[self.name], split) > 0


class _ArraySplit(NamedTuple):
    """The split of a part of an array along an axis.

    Attributes:
      starts, limits: the bounds of the part.
      sizes: the sizes of all its pieces.
      pieces: the numbers of those pieces that were slices.
    """

    axis: int
    starts: tuple[int, ...]
    limits: tuple[int, ...]
    sizes: tuple[int, ...]
    pieces: tuple[int, ...]

    def __call__(self, x: Any) -> list[Any]:
        if any(self.starts) or self.limits != x.shape:
            x = lax.slice(x, self.starts, self.limits)
        parts = lax.split(x, self.sizes, self.axis)
        return [parts[k] for k in self.pieces]


def _sliced(function: func.FuncOp) -> list[list[OpView]]:
    """The slices of each array that has several, in the order of the ops."""
    slices: dict[ir.Value, list[OpView]] = {}
    for node in ops_of(function):
        if node.name == "jaxpr.slice" and is_plain_op(node):
            slices.setdefault(node.operands[0], []).append(node)
    return [nodes for nodes in slices.values() if len(nodes) > 1]


def _split_of(nodes: Sequence[OpView]) -> tuple[_ArraySplit, list[OpView]] | None:
    """The split whose pieces are slices of an array, and the slices in the order of the pieces."""
    # Other types have no cotangents.
    if not dtypes.issubdtype(aval_of(nodes[0].operands[0].type).dtype, np.inexact):
        return None
    if any(set(node.get("strides") or ()) > {1} for node in nodes):
        return None
    bounds = [(node.get("start_indices"), node.get("limit_indices")) for node in nodes]
    shape = shape_of(nodes[0].operands[0])
    starts, limits = map(list, bounds[0])
    axes = [d for d in range(len(starts)) if len({(a[d], b[d]) for a, b in bounds}) > 1]
    if len(axes) != 1:
        return None
    (axis,) = axes
    order = sorted(range(len(nodes)), key=lambda k: bounds[k][0][axis])
    sizes: list[int] = []
    pieces: list[int] = []
    starts[axis] = end = bounds[order[0]][0][axis]
    for k in order:
        start, limit = (bound[axis] for bound in bounds[k])
        if start < end:
            return None
        if start > end:
            sizes.append(start - end)
        pieces.append(len(sizes))
        sizes.append(limit - start)
        end = limit
    limits[axis] = end
    if min(sizes[k] for k in pieces) * math.prod(shape[axis + 1 :]) < MIN_PIECE:
        return None
    if 2 * sum(sizes[k] for k in pieces) < sum(sizes):
        return None
    split = _ArraySplit(axis, tuple(starts), tuple(limits), tuple(sizes), tuple(pieces))
    return split, [nodes[k] for k in order]


def _write(rules: Rules, first: OpView, split: _ArraySplit, slices: Sequence[OpView]) -> None:
    """Replaces slices by results of a split, which is written before the first of them."""
    (array,) = first.operands
    shape = shape_of(array)
    remark(first.op, f"merged {len(slices)} slices of an array of shape {shape} into a split")
    with ir.InsertionPoint(first.op), first.op.location:
        results = rules.emit(split, [array])
        for node, result in zip(slices, results, strict=True):
            (old,) = node.op.results
            old.replace_all_uses_with(converted(result, old.type))

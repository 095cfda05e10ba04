"""Rewrites of data movement and conversions: each result element is one operand element.

Index maps compose: ``transpose[p](x)[i] = x[i o p^-1]``, so a transpose of a transpose is one
transpose, and likewise for slices, reversals and broadcasts.  Nothing is rounded, so every rewrite
is exact.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import counts_along
from jaxmlir.analysis.strided_view import slice_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of, holds, shape_of, type_of
from jaxmlir.optimize.simplify.canonicalize.rewriter import RewriteNode, Rewriter, kind_of, rewrite


def is_static(value: ir.Value) -> bool:
    """Whether no dimension of an array has a symbolic size."""
    return all(type(d) is int for d in shape_of(value))


def encoded(**attributes: object) -> dict[str, ir.Attribute]:
    """Encodes the values of attributes."""
    return {name: codec.encode(value) for name, value in attributes.items()}


# --- permutations ---------------------------------------------------------------------------------


@rewrite("transpose[permutation=0,1,...](x) = x", "transpose")
def transpose_of_nothing(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    permutation = node.get("permutation")
    return node.operands if list(permutation) == list(range(len(permutation))) else None


@rewrite("transpose[p](transpose[q](x)) = transpose[q[p]](x)", "transpose")
def transpose_of_transpose(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "transpose")
    if inner is None:
        return None
    first = inner.get("permutation")
    permutation = tuple(first[i] for i in node.get("permutation"))
    attributes = encoded(permutation=permutation)
    return [r.build("transpose", inner.operands, node.type, attributes)]


@rewrite("rev[dimensions=()](x) = x; also where the dimensions have size 1", "rev")
def rev_of_nothing(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    shape = shape_of(node.operands[0])
    return node.operands if all(shape[d] == 1 for d in node.get("dimensions")) else None


@rewrite("rev[d](rev[e](x)) = rev[d xor e](x)", "rev")
def rev_of_rev(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "rev")
    if inner is None:
        return None
    dimensions = tuple(sorted({*node.get("dimensions")} ^ {*inner.get("dimensions")}))
    return [r.build("rev", inner.operands, node.type, encoded(dimensions=dimensions))]


# --- shapes ---------------------------------------------------------------------------------------


def keeps_order(node: RewriteNode | None) -> bool:
    """Whether an op's result has the same elements as its operand, in the same row-major order."""
    if node is None or len(node.operands) != 1:
        return False
    if node.name == "jaxpr.reshape":
        return node.get("dimensions") is None and node.get("sharding") is None
    if node.name == "jaxpr.squeeze":
        return True
    if node.name != "jaxpr.broadcast_in_dim" or node.get("sharding") is not None:
        return False
    (x,) = node.operands
    shapes = shape_of(x), shape_of(node.results[0])
    return [d for d in shapes[0] if d != 1] == [d for d in shapes[1] if d != 1] and all(
        type(d) is int for shape in shapes for d in shape
    )


@rewrite("reshape(x) = x where the shape stays the same; also for squeeze", "reshape", "squeeze")
def reshape_to_the_same(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    same = node.type == node.operands[0].type and keeps_order(node)
    return node.operands if same else None


@rewrite("broadcast_in_dim(x) = x where the shape stays the same", "broadcast_in_dim")
def broadcast_to_the_same(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    same = len(node.operands) == 1 and node.type == node.operands[0].type
    return node.operands if same and node.get("sharding") is None else None


@rewrite(
    "reshape(reshape(x)) = reshape(x); also for squeeze and broadcast_in_dim, as the outer op only "
    "where x has the result's shape",
    "reshape",
    "squeeze",
    "broadcast_in_dim",
)
def reshape_of_reshape(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.node(node.operands[0])
    if not (keeps_order(node) and keeps_order(inner)):
        return None
    if inner.operands[0].type == node.type:
        return inner.operands
    if node.name != "jaxpr.reshape":
        return None
    return [r.build("reshape", inner.operands, node.type, node.attributes)]


@rewrite("squeeze[d](squeeze[e](x)) = squeeze[d and e](x)", "squeeze")
def squeeze_of_squeeze(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "squeeze")
    if inner is None:
        return None
    rank = len(shape_of(inner.operands[0]))
    gone = [d % rank for d in inner.get("dimensions")]
    left = [d for d in range(rank) if d not in gone]
    dimensions = tuple(sorted([*gone, *(left[d] for d in node.get("dimensions"))]))
    return [r.build("squeeze", inner.operands, node.type, encoded(dimensions=dimensions))]


@rewrite("squeeze[d](transpose[p](x)) = transpose[p minus d](squeeze[p[d]](x))", "squeeze")
def squeeze_of_transpose(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "transpose")
    if inner is None:
        return None
    (x,) = inner.operands
    permutation, aval = inner.get("permutation"), aval_of(x.type)
    gone = {permutation[d % aval.ndim] for d in node.get("dimensions")}
    left = [d for d in range(aval.ndim) if d not in gone]
    type_ = type_of(aval.update(shape=tuple(aval.shape[d] for d in left)))
    less = r.build("squeeze", [x], type_, encoded(dimensions=tuple(sorted(gone))))
    order = tuple(left.index(d) for d in permutation if d not in gone)
    return [r.build("transpose", [less], node.type, encoded(permutation=order))]


@rewrite(
    "squeeze[d](slice(transpose[p](x))) = squeeze[p[d]](slice(x)) where p leaves the other "
    "dimensions in order",
    "squeeze",
)
def squeeze_of_slice_of_transpose(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    taken = r.producer(node.operands[0], "slice")
    inner = r.producer(taken.operands[0], "transpose") if taken is not None else None
    if inner is None:
        return None
    (x,) = inner.operands
    permutation = inner.get("permutation")
    gone = {permutation[d % len(permutation)] for d in node.get("dimensions")}
    left = [d for d in permutation if d not in gone]
    if left != sorted(left):
        return None
    back = np.argsort(permutation)
    bounds = [tuple(ends[d] for d in back) for ends in slice_of(taken)]
    aval = aval_of(taken.type)
    shape = tuple(aval.shape[d] for d in back)
    part = r.build("slice", [x], type_of(aval.update(shape=shape)), slice_attributes(*bounds))
    return [r.build("squeeze", [part], node.type, encoded(dimensions=tuple(sorted(gone))))]


@rewrite(
    "squeeze[d](broadcast_in_dim(x)) = broadcast_in_dim(x) without those dimensions", "squeeze"
)
def squeeze_of_broadcast(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "broadcast_in_dim")
    if inner is None or len(inner.operands) != 1 or inner.get("sharding") is not None:
        return None
    rank = len(inner.get("shape"))
    gone = {d % rank for d in node.get("dimensions")}
    dims = inner.get("broadcast_dimensions")
    if gone & set(dims):
        return None
    left = [d for d in range(rank) if d not in gone]
    attributes = encoded(
        shape=tuple(inner.get("shape")[d] for d in left),
        broadcast_dimensions=tuple(left.index(d) for d in dims),
    )
    return [r.build("broadcast_in_dim", inner.operands, node.type, attributes)]


@rewrite(
    "broadcast_in_dim[d](broadcast_in_dim[e](x)) = broadcast_in_dim[d[e]](x)", "broadcast_in_dim"
)
def broadcast_of_broadcast(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "broadcast_in_dim")
    if inner is None or len(node.operands) + len(inner.operands) != 2:
        return None
    if node.get("sharding") is not None or inner.get("sharding") is not None:
        return None
    outer = node.get("broadcast_dimensions")
    dimensions = tuple(outer[d] for d in inner.get("broadcast_dimensions"))
    attributes = {**node.attributes, **encoded(broadcast_dimensions=dimensions)}
    return [r.build("broadcast_in_dim", inner.operands, node.type, attributes)]


# --- stacks ---------------------------------------------------------------------------------------


def _in_order(permutation: Sequence[int], without: int) -> bool:
    """Whether all dimensions but one keep their order."""
    left = [d for d in permutation if d != without]
    return left == sorted(left)


@rewrite(
    "transpose[p](stack[a](x, ...)) = stack(x, ...) where p moves dimension a only", "transpose"
)
def transpose_of_stack(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "stack")
    permutation = node.get("permutation")
    if inner is None or not _in_order(permutation, inner.get("axis")):
        return None
    axis = list(permutation).index(inner.get("axis"))
    return [r.build("stack", inner.operands, node.type, encoded(axis=axis))]


@rewrite(
    "unstack[a](transpose[p](x)) = unstack[p[a]](x) where p moves that dimension only", "unstack"
)
def unstack_of_transpose(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "transpose")
    if inner is None:
        return None
    axis = inner.get("permutation")[node.get("axis")]
    if not _in_order(inner.get("permutation"), axis):
        return None
    types = [v.type for v in node.results]
    return r.build_node("unstack", inner.operands, types, encoded(axis=axis)).results


# --- parts and wholes -----------------------------------------------------------------------------


def slice_attributes(
    starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]
) -> dict[str, ir.Attribute]:
    """The attributes of a ``jaxpr.slice``."""
    attributes = encoded(start_indices=starts, limit_indices=limits)
    if any(s != 1 for s in strides):
        attributes |= encoded(strides=strides)
    return attributes


@rewrite("slice(x) = x where it takes all of x", "slice")
def slice_of_all(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    return node.operands if node.type == node.operands[0].type else None


@rewrite("slice[a:b:s](slice[c:d:t](x)) = slice[c + a t : ... : s t](x)", "slice")
def slice_of_slice(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "slice")
    if inner is None or not is_static(inner.operands[0]):
        return None
    starts, limits, strides = [], [], []
    for a, b, s, c, t in zip(*slice_of(node), slice_of(inner)[0], slice_of(inner)[2], strict=True):
        count = -(-(b - a) // s)
        # If the slice is empty, c + a t may be out of bounds.
        starts.append(c + a * t if count else c)
        strides.append(s * t)
        # One past the last element of the slice.
        limits.append(starts[-1] + (count - 1) * s * t + 1 if count else c)
    attributes = slice_attributes(tuple(starts), tuple(limits), tuple(strides))
    return [r.build("slice", inner.operands, node.type, attributes)]


def _parts_of_row(r: Rewriter, value: ir.Value) -> tuple[ir.Value, int, int] | None:
    """Matches a reshape that splits only the last dimension, into parts that fill whole tiles;
    returns its operand, the dimension that numbers the parts, and their size.

    Only on targets with tiled layouts; elsewhere a reshape moves no data.  A TPU lays out
    (..., 384) in tiles of 128, (..., 3, 4, 32) in tiles of 4 x 32, and pads both the cotangents of
    parts and their sum.
    """
    lanes = r.program.target.costs.lanes
    node = r.producer(value, "reshape") if lanes > 1 else None
    if not keeps_order(node) or not is_static(node.operands[0]):
        return None
    (x,) = node.operands
    before, after = shape_of(x), shape_of(value)
    dim = len(before) - 1
    size = math.prod(after[dim + 1 :])
    return (x, dim, size) if before[:dim] == after[:dim] and size % lanes == 0 else None


def _part_of_row(
    r: Rewriter, x: ir.Value, starts: tuple[int, ...], limits: tuple[int, ...], type_: ir.Type
) -> ir.Value:
    sizes = tuple(b - a for a, b in zip(starts, limits, strict=True))
    part = type_of(aval_of(x.type).update(shape=sizes))
    attributes = slice_attributes(starts, limits, (1,) * len(sizes))
    shape = encoded(new_sizes=tuple(aval_of(type_).shape))
    return r.build("reshape", [r.build("slice", [x], part, attributes)], type_, shape)


@rewrite(
    "slice(reshape(x)) = reshape(slice(x)) where it takes whole tiles of the last dimension of x",
    "slice",
)
def slice_of_reshape(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    parts = _parts_of_row(r, node.operands[0])
    if parts is None:
        return None
    x, dim, size = parts
    starts, limits, strides = slice_of(node)
    whole = shape_of(node.operands[0])[dim + 1 :]
    if {*strides} != {1} or any(starts[dim + 1 :]) or limits[dim + 1 :] != whole:
        return None
    ends = [(*bounds[:dim], bounds[dim] * size) for bounds in (starts, limits)]
    return [_part_of_row(r, x, *ends, node.type)]


@rewrite(
    "unstack(reshape(x)) = reshape(slice(x)), ... where the results are tiles of the last "
    "dimension of x",
    "unstack",
)
def unstack_of_reshape(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    parts = _parts_of_row(r, node.operands[0])
    if parts is None or parts[1] != node.get("axis"):
        return None
    x, dim, size = parts
    rows = shape_of(x)[:dim]
    return [
        _part_of_row(r, x, (*[0] * dim, i * size), (*rows, (i + 1) * size), value.type)
        for i, value in enumerate(node.results)
    ]


@rewrite("slice(concatenate(..., x, ...)) = slice(x) where it takes elements of x only", "slice")
def slice_of_concatenate(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "concatenate")
    if inner is None or not is_static(inner.results[0]):
        return None
    starts, limits, strides = slice_of(node)
    axis = inner.get("dimension")
    # There may be a slice for each piece: the ends of the pieces are computed only once.
    if inner.ends is None:
        sizes = [shape_of(piece)[axis] for piece in inner.operands]
        # Symbolic sizes may add up to a known one.
        are_known = all(type(size) is int for size in sizes)
        inner.ends = list(itertools.accumulate(sizes)) if are_known else []
    number = bisect.bisect_right(inner.ends, starts[axis])
    if number == len(inner.ends) or limits[axis] > inner.ends[number]:
        return None
    begin = inner.ends[number - 1] if number else 0
    moved = [
        tuple(i - begin if d == axis else i for d, i in enumerate(indices))
        for indices in (starts, limits)
    ]
    attributes = slice_attributes(*moved, strides)
    return [r.build("slice", [inner.operands[number]], node.type, attributes)]


@rewrite("dynamic_slice(x, c, ...) = slice(x) where the indices c are constants", "dynamic_slice")
def dynamic_slice_of_constants(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    x, *indices = node.operands
    sizes, shape = node.get("slice_sizes"), shape_of(x)
    if len(indices) != len(shape) or not is_static(x) or not is_static(node.results[0]):
        return None
    if node.type == x.type:
        return [x]
    constants = [r.constant_of(v) for v in indices]
    if any(c is None or c.ndim for c in constants):
        return None
    # Indices out of bounds are clamped.
    starts = tuple(
        min(max(int(c), 0), d - n) for c, d, n in zip(constants, shape, sizes, strict=True)
    )
    limits = tuple(s + n for s, n in zip(starts, sizes, strict=True))
    attributes = slice_attributes(starts, limits, (1,) * len(shape))
    return [r.build("slice", [x], node.type, attributes)]


@rewrite("dynamic_update_slice(x, y, ...) = y where y has the shape of x", "dynamic_update_slice")
def update_of_all(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    return [node.operands[1]] if node.operands[1].type == node.type else None


@rewrite("concatenate(x) = x", "concatenate")
def concatenate_of_one(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    return node.operands if len(node.operands) == 1 else None


@rewrite("split(x) = x where it is one piece", "split")
def split_of_one(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    return node.operands if len(node.results) == 1 else None


@rewrite(
    "concatenate(..., concatenate(x, y), ...) = concatenate(..., x, y, ...) where only "
    "this op reads the inner one",
    "concatenate",
)
def concatenate_of_concatenate(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    """Else the operands would multiply: twenty arrays, each the one before joined to itself, are a
    million pieces."""
    axis = node.get("dimension")
    pieces: list[ir.Value] = []
    for v in node.operands:
        inner = r.producer(v, "concatenate")
        joined = inner is not None and inner.get("dimension") == axis and only_user(v) is not None
        pieces += inner.operands if joined else [v]
    if len(pieces) == len(node.operands):
        return None
    return [r.build("concatenate", pieces, node.type, node.attributes)]


@rewrite("pad[(0, 0, 0), ...](x, y) = x", "pad")
def pad_of_nothing(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    nothing = all(tuple(low_high) == (0, 0, 0) for low_high in node.get("padding_config"))
    return node.operands[:1] if nothing else None


_REDUCTIONS = [name.removeprefix("jaxpr.") for name in with_trait(Trait.REDUCTION)]


@rewrite(
    "reduce_max[axes](x) = reshape(x) where the axes have one element; also other reductions",
    *_REDUCTIONS,
)
def reduction_of_single_elements(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    # A sum starts from 0, and 0 + -0.0 is 0; but XLA leaves such a zero out.
    (x,) = node.operands
    axes, shape = node.get("axes"), shape_of(x)
    if node.get("out_sharding") is not None or any(shape[d] != 1 for d in axes):
        return None
    if not len(axes):
        return [x]
    return [r.build("squeeze", [x], node.type, encoded(dimensions=tuple(sorted(axes))))]


# --- conversion -----------------------------------------------------------------------------------


@rewrite("convert_element_type(x) = x where the type stays the same", "convert_element_type")
def convert_to_the_same(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    same = node.type == node.operands[0].type and not _is_placed(node)
    return node.operands if same else None


def _is_placed(node: RewriteNode) -> bool:
    """Whether the sharding of a conversion has mesh axes; batching writes one without any."""
    sharding = node.get("sharding")
    return sharding is not None and not sharding.mesh.empty


@rewrite(
    "convert[c](convert[b](x)) = convert[c](x) where b holds every value of x's type",
    "convert_element_type",
)
def convert_of_convert(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "convert_element_type")
    if inner is None or _is_placed(node) or _is_placed(inner):
        return None
    (x,) = inner.operands
    kinds = [kind_of(t) for t in (x.type, inner.type, node.type)]
    if not {*kinds} <= {"boolean", "integer", "float"}:
        return None
    # Platforms differ on the conversion of a float to an integer type that cannot hold it.
    if kinds[1] == "float" and kinds[0] != "float" and kinds[2] != "float":
        return None
    # A number may be subnormal in one type and not in the other, and be flushed to 0 there.
    if kinds[0] == "float" and kinds[2] == "boolean":
        return None
    narrow, wide = aval_of(x.type).dtype, aval_of(inner.type).dtype
    # Formats below 16 bits are not mixed with others: some of them have no infinities.
    if narrow != wide and kinds[0] == "float" and min(narrow.itemsize, wide.itemsize) < 2:
        return None
    if not holds(wide, narrow):
        return None
    return [r.build("convert_element_type", [x], node.type, node.attributes)]


@rewrite("bitcast(bitcast(x)) = x where x has the result's type", "bitcast_convert_type")
def bitcast_there_and_back(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "bitcast_convert_type")
    return inner.operands if inner is not None and inner.operands[0].type == node.type else None


# -- Rewrites of gathers and scatters --
#
# A row of the indices has one number for each dimension in ``start_index_map``.  Along a batching
# dimension, every row indexes its own slice of the operand.


_ALWAYS_INSIDE = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _kept_dims(x: ir.Value, numbers: lax.GatherDimensionNumbers) -> list[int]:
    """The dimensions of a gather's operand that the result keeps, in the order of its offsets."""
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return [d for d in range(len(shape_of(x))) if d not in gone]


def _columns(r: Rewriter, indices: ir.Value) -> list[ir.Value] | None:
    """The arrays that indices are joined from, one for each indexed dimension, if they are."""
    joined = r.producer(indices, "concatenate")
    last = len(shape_of(indices)) - 1
    if joined is None or not is_static(indices) or joined.get("dimension") != last:
        return None
    columns = joined.operands
    return columns if all(shape_of(v)[last] == 1 for v in columns) else None


def _joined(r: Rewriter, columns: Sequence[ir.Value], indices: ir.Value) -> ir.Value:
    """The indices of some columns, with elements like other indices."""
    if len(columns) == 1:
        return columns[0]
    *shape, _ = shape_of(columns[0])
    aval = aval_of(indices.type).update(shape=(*shape, len(columns)))
    return r.build("concatenate", columns, type_of(aval), encoded(dimension=len(shape)))


@rewrite(
    "gather(x, i) = broadcast_in_dim(x) where slices take all of the dimensions that i indexes, or "
    "(on a TPU) an iota in i counts along them, in the modes that fill nothing in",
    "gather",
)
def gather_of_all(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    x, indices = node.operands
    if not all(map(is_static, (x, indices, node.results[0]))):
        return None
    if node.get("mode") not in _ALWAYS_INSIDE:
        return None
    sizes, numbers = node.get("slice_sizes"), node.get("dimension_numbers")
    shape, result = shape_of(x), shape_of(node.results[0])
    # For each dimension of the operand, the dimension of the result.
    collapsed, batching = numbers.collapsed_slice_dims, numbers.operand_batching_dims
    batch = [d for d in range(len(result)) if d not in numbers.offset_dims]
    place = {
        d: batch[i] for d, i in zip(batching, numbers.start_indices_batching_dims, strict=True)
    }
    window_dims = _kept_dims(x, numbers)
    if any(sizes[d] != shape[d] for d in window_dims):
        return None
    place.update(zip(window_dims, numbers.offset_dims, strict=True))
    *rows, _ = shape_of(indices)
    # A CPU gathers quickly.  Without the gathers, blocks of a contrastive loss become alike: they
    # are outlined and not tiled, and take 1.7 times as long.
    is_slow = r.program.target.costs.lanes > 1
    pieces = (_columns(r, indices) or [indices]) if is_slow else ()
    for piece, d in zip(pieces, numbers.start_index_map, strict=False):
        along = numbered(r, piece)
        is_whole = along not in (None, len(rows)) and d in collapsed and shape[d] == rows[along]
        if is_whole and batch[along] not in place.values():
            place[d] = batch[along]
    collapsed = [d for d in collapsed if d not in place]
    dimensions = tuple(place[d] for d in sorted(place))
    if any(shape[d] != 1 for d in collapsed) or list(dimensions) != sorted(dimensions):
        return None
    if collapsed:
        aval = aval_of(x.type)
        type_ = type_of(aval.update(shape=tuple(shape[d] for d in sorted(place))))
        x = r.build("squeeze", [x], type_, encoded(dimensions=tuple(collapsed)))
    attributes = encoded(shape=result, broadcast_dimensions=dimensions)
    return [r.build("broadcast_in_dim", [x], node.type, attributes)]


@rewrite(
    "squeeze(gather(x, i)) = gather(x, i) that collapses what is squeezed, where only this op "
    "reads the inner one",
    "squeeze",
)
def squeeze_of_gather(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    inner = r.producer(node.operands[0], "gather")
    if inner is None or not is_static(node.operands[0]) or only_user(node.operands[0]) is None:
        return None
    numbers, gone = inner.get("dimension_numbers"), node.get("dimensions")
    kept = _kept_dims(inner.operands[0], numbers)
    window_of = dict(zip(numbers.offset_dims, kept, strict=True))
    if not window_of.keys() >= set(gone):
        return None
    x, indices = inner.operands
    shape, sizes = shape_of(x), inner.get("slice_sizes")
    squeezed = {window_of[d] for d in gone}
    collapsed = {*numbers.collapsed_slice_dims, *squeezed}
    # Layouts of arrays with a last dimension of size 1 may be poor: the operand is squeezed, too.
    units = [d for d in squeezed if shape[d] == 1 and d not in numbers.start_index_map]
    places = {d: d - sum(u < d for u in units) for d in range(len(shape)) if d not in units}
    if units:
        type_ = type_of(aval_of(x.type).update(shape=tuple(shape[d] for d in places)))
        x = r.build("squeeze", [x], type_, encoded(dimensions=tuple(sorted(units))))
    numbers = numbers._replace(
        offset_dims=tuple(d - sum(g < d for g in gone) for d in window_of if d not in gone),
        collapsed_slice_dims=tuple(places[d] for d in places if d in collapsed),
        start_index_map=tuple(places[d] for d in numbers.start_index_map),
        operand_batching_dims=tuple(places[d] for d in numbers.operand_batching_dims),
    )
    sizes = tuple(sizes[d] for d in places)
    attributes = {**inner.attributes, **encoded(dimension_numbers=numbers, slice_sizes=sizes)}
    return [r.build("gather", [x, indices], node.type, attributes)]


@rewrite(
    "gather(x, concatenate(iota, i)) = gather(x, i) where the iota alone indexes a dimension of x, "
    "which becomes a batching dimension; also for scatters",
    "gather",
    *(f"scatter{kind}" for kind in ("", "_add", "_sub", "_mul", "_min", "_max")),
)
def row_numbers_are_batches(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    x, indices, *rest = node.operands
    pieces = _columns(r, indices)
    if pieces is None or not is_static(x):
        return None
    shape, numbers = shape_of(x), node.get("dimension_numbers")
    rank = len(shape_of(indices)) - 1
    names = _GATHER if node.name == "jaxpr.gather" else _SCATTER
    gone, mapped, *pairs = (getattr(numbers, name) for name in names)
    batches = dict(zip(*pairs, strict=True))
    row_dims = [numbered(r, piece) for piece in pieces]
    taken: dict[int, int] = {}
    for along, d in zip(row_dims, mapped, strict=True):
        # If two pieces count along the same dimension, the indices are those of a diagonal.
        if (
            along not in (None, rank)
            and along not in batches.values()
            and row_dims.count(along) == 1
            and d in gone
            and shape[d] == shape_of(indices)[along]
            and len(taken) < len(mapped) - 1
        ):
            taken[d] = along
    if not taken:
        return None
    pieces = [piece for piece, d in zip(pieces, mapped, strict=True) if d not in taken]
    left = _joined(r, pieces, indices)
    batches = dict(sorted({**batches, **taken}.items()))
    sets = (
        *([d for d in dims if d not in taken] for dims in (gone, mapped)),
        *(batches.keys(), batches.values()),
    )
    numbers = numbers._replace(**{k: tuple(v) for k, v in zip(names, sets, strict=True)})
    attributes = {**node.attributes, **encoded(dimension_numbers=numbers)}
    # It holds for all indices together, and not for those of one batch.
    attributes.pop("indices_are_sorted", None)
    kind = node.name.removeprefix("jaxpr.")
    return [r.build(kind, [x, left, *rest], node.type, attributes)]


@rewrite(
    "gather(x, concatenate(i, j)) = gather(gather(x, i), j) where i and j differ along different "
    "dimensions, and the first gather is no larger than the second",
    "gather",
)
def gather_of_a_product(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    x, indices = node.operands
    pieces = _columns(r, indices)
    if pieces is None or len(pieces) < 2 or not is_static(x):
        return None
    numbers, (*shape, count) = node.get("dimension_numbers"), shape_of(indices)
    spread = [_spread_along(r, piece) for piece in pieces]
    if (
        None in spread
        or node.get("mode") not in (*_ALWAYS_INSIDE, lax.GatherScatterMode.FILL_OR_DROP)
        or numbers.operand_batching_dims
        or sorted(numbers.collapsed_slice_dims) != sorted(numbers.start_index_map)
    ):
        return None
    # The rows that are gathered last are copied whole.
    for last in sorted(range(count), key=spread.__getitem__):
        along = spread[last]
        others = {d for i, dims in enumerate(spread) if i != last for d in dims}
        whole = shape_of(x)[numbers.start_index_map[last]]
        if along and others.isdisjoint(along) and whole <= math.prod(shape[d] for d in along):
            return [_gathered_twice(r, node, pieces, along, last)]
    return None


def _spread_along(r: Rewriter, piece: ir.Value) -> list[int] | None:
    """The dimensions along which indices differ that are repeated along all others."""
    made = r.producer(piece, "broadcast_in_dim")
    if made is None:
        return None
    pairs = zip(made.get("broadcast_dimensions"), shape_of(made.operands[0]), strict=True)
    return [d for d, size in pairs if size != 1]


def _gathered_twice(
    r: Rewriter, node: RewriteNode, pieces: Sequence[ir.Value], along: Sequence[int], last: int
) -> ir.Value:
    """The gather of all of one indexed dimension, and then the gather along it.

    Args:
      along: the dimensions along which the indices of this dimension differ.
      last: the number of these indices among the pieces.
    """
    (x, indices), numbers = node.operands, node.get("dimension_numbers")
    shape, result = shape_of(indices)[:-1], shape_of(node.results[0])
    mapped, offsets = numbers.start_index_map, numbers.offset_dims
    batch = [d for d in range(len(result)) if d not in offsets]
    moved = {batch[d] for d in along}
    rest = [d for d in range(len(result)) if d not in moved]

    def indices_of(numbered: Sequence[int], dims: Sequence[int]) -> ir.Value:
        """Some of the pieces, with these dimensions of the indices only."""
        parts = []
        for number in numbered:
            made = r.producer(pieces[number], "broadcast_in_dim")
            operand, to = made.operands[0], made.get("broadcast_dimensions")
            kept = [(size, d) for size, d in zip(shape_of(operand), to, strict=True) if size != 1]
            sizes, places = tuple(size for size, _ in kept), tuple(dims.index(d) for _, d in kept)
            aval = aval_of(operand.type)
            squeezed = type_of(aval.update(shape=sizes))
            operand = r.build("reshape", [operand], squeezed, encoded(new_sizes=sizes))
            whole = (*(shape[d] for d in dims), 1)
            attributes = encoded(shape=whole, broadcast_dimensions=places)
            spread = type_of(aval.update(shape=whole))
            parts.append(r.build("broadcast_in_dim", [operand], spread, attributes))
        return _joined(r, parts, indices)

    def gathered(x: ir.Value, indices: ir.Value, shape: Sequence[int], **changed: Any) -> ir.Value:
        sizes = changed.pop("sizes")
        attributes = encoded(dimension_numbers=numbers._replace(**changed), slice_sizes=sizes)
        type_ = type_of(aval_of(x.type).update(shape=tuple(shape)))
        kept = {
            key: node.attributes[key] for key in ("mode", "fill_value") if key in node.attributes
        }
        return r.build("gather", [x, indices], type_, kept | attributes)

    # The dimension that is taken whole comes where its indices will be, or else beside the other
    # dimensions that are taken, in the order of the operand.
    dimension = mapped[last]
    window_of = dict(zip(offsets, _kept_dims(x, numbers), strict=True))
    before = [k for k, d in enumerate(rest) if window_of.get(d, dimension) < dimension]
    after = [k for k, d in enumerate(rest) if window_of.get(d, dimension) > dimension]
    place = sum(d < min(moved) for d in rest)
    place = min(max(place, *(k + 1 for k in before), 0), *after, len(rest))
    sizes = list(node.get("slice_sizes"))
    sizes[dimension] = shape_of(x)[dimension]
    inner = [result[d] for d in rest]
    inner.insert(place, sizes[dimension])
    of_inner = [*rest[:place], None, *rest[place:]]
    left = [n for n in range(len(pieces)) if n != last]
    rows = gathered(
        x,
        indices_of(left, [d for d in range(len(shape)) if d not in along]),
        inner,
        sizes=tuple(sizes),
        offset_dims=tuple(k for k, d in enumerate(of_inner) if d is None or d in offsets),
        collapsed_slice_dims=tuple(d for d in numbers.collapsed_slice_dims if d != dimension),
        start_index_map=tuple(mapped[n] for n in left),
    )
    return gathered(
        rows,
        indices_of([last], along),
        result,
        sizes=(*inner[:place], 1, *inner[place + 1 :]),
        offset_dims=tuple(rest),
        collapsed_slice_dims=(place,),
        start_index_map=(place,),
    )


_GATHER = (
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = (
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


def numbered(r: Rewriter, value: ir.Value) -> int | None:
    """The dimension along which integers count 0, 1, 2 ..., if they repeat along all others."""
    is_integer = kind_of(value.type) == "integer" and is_static(value)
    return counts_along(value, r.node) if is_integer else None

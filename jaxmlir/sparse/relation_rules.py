"""The relations between an op's results and the inputs, for symbolic sizes.

This is the counterpart of :mod:`jaxmlir.sparse.rules`, where elements have numbers.  Here an op
transforms the indices of pieces (:mod:`jaxmlir.sparse.relations`): a slice shifts an index and cuts
its range.  Any other op follows the loops of its indexing map, and an op without a map mixes all
elements.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from jaxmlir._compat import core
from jaxmlir.analysis.index_maps import Dims, symbolic_maps_of
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import window_sizes
from jaxmlir.dialect.ir import context
from jaxmlir.dialect.ops import OPS, Trait, with_trait
from jaxmlir.sparse.formulas import formula_of
from jaxmlir.sparse.relations import (
    AffineSum,
    Arguments,
    Piece,
    Pieces,
    Size,
    at_most,
    ends_of,
    larger,
    smaller,
    united,
)
from jaxmlir.sparse.rules import IDENTITIES, POOLING, LeafOp, Value

ResultPieces = list[list[Piece]]
"""The pieces of each result."""


def relations_of(leaf: LeafOp) -> list[Pieces | None] | None:
    """The pieces of an op's results; ``None`` if no rule knows them."""
    for rule in _rules_of(leaf.name):
        relations = rule(leaf)
        if relations is not None:
            return [
                _limited(leaf, pieces, shape)
                for pieces, shape in zip(relations, leaf.shapes, strict=True)
            ]
    return None


def dense(leaf: LeafOp) -> list[Pieces | None]:
    """The pieces of results that depend on everything that any operand depends on."""
    pieces = [piece for i in leaf.depending for piece in leaf.operands[i].rows]
    return [
        _limited(leaf, [_along(piece, (), (None,) * len(shape), shape) for piece in pieces], shape)
        for shape in leaf.shapes
    ]


def _limited(leaf: LeafOp, pieces: Any, shape: Sequence[Size]) -> Pieces | None:
    union = united(list(pieces))
    if len(union) > _MOST_PIECES:
        union = whole(union, leaf.columns, shape)
    return union or None


def whole(pieces: Pieces, arguments: Arguments, shape: Sequence[Size]) -> Pieces:
    """All pairs of an element of a value and an element of an argument that it depends on."""
    return united([arguments.whole(i, shape) for i in {piece.argument for piece in pieces}])


_MOST_PIECES = 400
_MOST_TAPS = 128
"""Windows of more elements are not followed element by element."""


# --- along loops ----------------------------------------------------------------------------------


def _along(piece: Piece, of_operand: Dims, of_result: Dims, shape: Sequence[Size]) -> Piece:
    """The piece of a result each of whose elements reads all operand elements that have the same
    index in the loops of both."""
    indices = []
    for loop, size in zip(of_result, shape, strict=True):
        if loop is not None and loop in of_operand:
            indices.append(piece.result[of_operand.index(loop)])
        else:
            piece, index = piece.fresh(size)
            indices.append(index)
    return piece._replace(result=tuple(indices))


def _along_loops(leaf: LeafOp) -> ResultPieces | None:
    with context():
        op = leaf.node.op
        maps = symbolic_maps_of(op_signature.of_op(op, leaf.node.name, list(op.operands)))
    if maps is None:
        return None
    parts = [(p, maps.operands[i]) for i in leaf.depending for p in leaf.operands[i].rows]
    pairs = zip(leaf.shapes, maps.results, strict=True)
    return [[_along(*part, of_result, shape) for part in parts] for shape, of_result in pairs]


def _each(leaf: LeafOp) -> ResultPieces | None:
    """The rule of ops whose results are their operands, in order."""
    if len(leaf.operands) != len(leaf.shapes):
        return None
    return [list(x.rows or ()) for x in leaf.operands]


# --- movement -------------------------------------------------------------------------------------


def _moved(piece: Piece, d: int, index: AffineSum) -> Piece:
    return piece._replace(result=(*piece.result[:d], index, *piece.result[d + 1 :]))


def _cut(piece: Piece, starts: Sequence[Size], sizes: Sequence[Size]) -> list[Piece]:
    """The part of a piece within a window, with indices relative to the window's start."""
    parts = [piece]
    for d, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        parts = [y for x in parts for y in x.where(x.result[d], start, start + size)]
    return [
        x._replace(result=tuple(i.plus(-s) for i, s in zip(x.result, starts, strict=True)))
        for x in parts
    ]


def _outside(
    piece: Piece, starts: Sequence[Size], sizes: Sequence[Size], shape: Sequence[Size]
) -> Iterator[Piece]:
    """The parts of a piece outside of a window."""
    inside = [piece]
    for d, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        for x in inside:
            yield from x.where(x.result[d], 0, start)
            yield from x.where(x.result[d], start + size, shape[d])
        inside = [y for x in inside for y in x.where(x.result[d], start, start + size)]


def _divided(piece: Piece, d: int, by: int) -> list[Piece] | None:
    """The part of a piece whose index ``d`` is a multiple of ``by``, with this index divided by it;
    ``None`` if it is not known."""
    index = piece.result[d]
    if by == 1:
        return [piece]
    constant, single = index.constant, index.single
    if single is not None:
        t, sign = single
        rest = (-sign * constant) % by
        low, high = (-((rest - end) // by) for end in piece.ranges[t])
        multiple = AffineSum(rest, ((t, by),))
        ranges = (*piece.ranges[:t], (low, high), *piece.ranges[t + 1 :])
        piece = piece.put({t: multiple}, ranges)
        return [_moved(piece, d, AffineSum((constant + sign * rest) // by, ((t, sign),)))]
    numbers = [c for _, c in index.terms]
    if not all(map(core.is_constant_dim, (constant, *numbers))) or any(c % by for c in numbers):
        return None
    terms = tuple((t, c // by) for t, c in index.terms)
    return [] if constant % by else [_moved(piece, d, AffineSum(constant // by, terms))]


def _slice(leaf: LeafOp) -> ResultPieces | None:
    starts, limits = leaf.node.get("start_indices"), leaf.node.get("limit_indices")
    strides = leaf.node.get("strides") or (1,) * len(starts)
    sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    pieces = [y for x in leaf.operands[0].rows for y in _cut(x, starts, sizes)]
    for d, stride in enumerate(strides):
        if not core.is_constant_dim(stride):
            return None
        parts = [_divided(x, d, int(stride)) for x in pieces]
        if None in parts:
            return None
        pieces = [y for part in parts for y in part]
    return [pieces]


def _pad(leaf: LeafOp) -> ResultPieces:
    """The rule of ``pad``: the padding value counts as read by every element."""
    (shape,), (x, fill) = leaf.shapes, leaf.operands
    pieces = [_along(piece, (), (None,) * len(shape), shape) for piece in fill.rows or ()]
    for piece in x.rows or ():
        pairs = zip(piece.result, leaf.node.get("padding_config"), strict=True)
        indices = tuple(i.times(inner + 1).plus(low) for i, (low, _, inner) in pairs)
        zeros = (0,) * len(shape)
        pieces += _cut(piece._replace(result=indices), zeros, shape)
    return [pieces]


def _concatenate(leaf: LeafOp) -> ResultPieces:
    d, start, pieces = leaf.node.get("dimension"), 0, []
    for x in leaf.operands:
        pieces += [_moved(piece, d, piece.result[d].plus(start)) for piece in x.rows or ()]
        start = start + x.shape[d]
    return [pieces]


def _stack(leaf: LeafOp) -> ResultPieces:
    d = leaf.node.get("axis")
    parts = [(AffineSum(i), piece) for i, x in enumerate(leaf.operands) for piece in x.rows or ()]
    return [[p._replace(result=(*p.result[:d], i, *p.result[d:])) for i, p in parts]]


def _split(leaf: LeafOp) -> ResultPieces:
    d, (x,), start, results = leaf.node.get("axis"), leaf.operands, 0, []
    for size in leaf.node.get("sizes"):
        starts = [start if i == d else 0 for i in range(len(x.shape))]
        sizes = [size if i == d else n for i, n in enumerate(x.shape)]
        results.append([y for piece in x.rows for y in _cut(piece, starts, sizes)])
        start = start + size
    return results


def _unstack(leaf: LeafOp) -> ResultPieces:
    (x,), d, results = leaf.operands, leaf.node.get("axis"), []
    for i in range(len(leaf.shapes)):
        parts = [y for piece in x.rows for y in piece.where(piece.result[d], i, i + 1)]
        results.append([y._replace(result=(*y.result[:d], *y.result[d + 1 :])) for y in parts])
    return results


def _rev(leaf: LeafOp) -> ResultPieces:
    (x,), pieces = leaf.operands, []
    for piece in x.rows:
        for d in leaf.node.get("dimensions"):
            piece = _moved(piece, d, piece.result[d].times(-1).plus(x.shape[d] - 1))
        pieces.append(piece)
    return [pieces]


def _reshape(leaf: LeafOp) -> ResultPieces | None:
    (x,), (shape,) = leaf.operands, leaf.shapes
    if leaf.name == "reshape" and leaf.node.get("dimensions") is not None:
        return None
    pieces: list[Piece] = []
    for piece in x.rows:
        parts = [piece._replace(result=())]
        indices = piece.result
        for have, want in _groups(x.shape, shape):
            number = AffineSum(0)
            for d in have:
                number = number.times(x.shape[d]).plus(indices[d])
            sizes = [shape[d] for d in want]
            if not want:
                parts = [y for part in parts for y in part.where(number, 0, 1)]
                continue
            unfolded = [_unfolded(part, number, sizes) for part in parts]
            if None in unfolded:
                return None
            parts = [y for part in unfolded for y in part]
        pieces += parts
    return [pieces]


def _groups(have: Sequence[Size], want: Sequence[Size]) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of consecutive dimensions of two shapes with the same elements, such that the sizes of
    a group have the same product in both shapes."""
    i = j = 0
    while i < len(have) or j < len(want):
        if i < len(have) and _is_one(have[i]):
            yield [i], []
            i += 1
            continue
        if j < len(want) and _is_one(want[j]):
            yield [], [j]
            j += 1
            continue
        first, second = i, j
        i, j = min(i + 1, len(have)), min(j + 1, len(want))
        while True:
            a, b = math.prod(have[first:i]), math.prod(want[second:j])
            if a == b or (i == len(have) and j == len(want)):
                break
            # Grow the group whose product may be the smaller one.
            if i < len(have) and (j == len(want) or not at_most(b, a) or at_most(a, b)):
                i += 1
            else:
                j += 1
        yield list(range(first, i)), list(range(second, j))


def _is_one(size: Size) -> bool:
    return core.is_constant_dim(size) and size == 1


def _unfolded(piece: Piece, number: AffineSum, sizes: Sequence[Size]) -> list[Piece] | None:
    """The piece with further indices: a flat number is unravelled in row-major order.

    The number is split into a multiple of the row size and a rest.  The rest may reach into
    neighbouring rows; each of these gives a piece.
    """
    if len(sizes) == 1:
        return [piece._replace(result=(*piece.result, number))]
    row = math.prod(sizes[1:])
    if core.is_constant_dim(row) and row == 0:
        return []
    high, rest = AffineSum(0), AffineSum(number.constant)
    for t, c in number.terms:
        times = c // row if not at_most(c, 0) else -(-c // row)
        if times * row == c:
            high = high.plus(AffineSum(0, ((t, times),)))
        else:
            rest = rest.plus(AffineSum(0, ((t, c),)))
    ends = piece.ends(rest)
    if ends is None:
        return None
    carries = range(-_CARRIES, _CARRIES + 1)
    first = max((k for k in carries if at_most(k * row, ends[0])), default=None)
    last = min((k for k in carries if at_most(ends[1] + 1, (k + 1) * row)), default=None)
    if first is None or last is None:
        return None
    pieces: list[Piece] = []
    for k in range(first, last + 1):
        index = rest.plus(-k * row)
        for part in piece.where(index, 0, row):
            part = part._replace(result=(*part.result, high.plus(k)))
            unfolded = _unfolded(part, index, sizes[1:])
            if unfolded is None:
                return None
            pieces += unfolded
    return pieces


_CARRIES = 3


# --- windows at known places ----------------------------------------------------------------------


def _windows(
    leaf: LeafOp, indices: Value, dims: Sequence[int], sizes: Sequence[Size]
) -> list[tuple[tuple[int, ...], list[AffineSum]]] | None:
    """The starts of windows in the first operand, as formulas, by position in the array of indices;
    ``None`` where they are not known.

    Args:
      dims: the dimensions that the indices are of; windows begin at 0 along the others.
      sizes: the sizes of a window.
    """
    formula = formula_of(indices)
    if formula is None or not formula.ndim:
        return None
    shape, of_places = leaf.operands[0].shape, indices.shape[:-1]
    windows = []
    for place in np.ndindex(*formula.shape[:-1]):
        starts: list[Any] = [AffineSum(0)] * len(shape)
        for d, start in zip(dims, formula[place], strict=True):
            starts[d] = _start(leaf, start, sizes[d], shape[d], of_places)
        if None in starts:
            return None
        windows.append((place, starts))
    return windows


def _single_starts(
    indices: Sequence[Value], sizes: Sequence[Size], shape: Sequence[Size]
) -> list[Size] | None:
    """The start of the only window of a dynamic slice; ``None`` if it is not known."""
    formulas = [formula_of(i) for i in indices]
    if any(start is None for start in formulas):
        return None
    return [
        larger(0, smaller(start.item().constant, have - size))
        for start, size, have in zip(formulas, sizes, shape, strict=True)
    ]


def _dynamic_slice(leaf: LeafOp) -> ResultPieces | None:
    x, *indices = leaf.operands
    sizes = leaf.node.get("slice_sizes")
    starts = _single_starts(indices, sizes, x.shape)
    if starts is None:
        return None
    return [[y for piece in x.rows for y in _cut(piece, starts, sizes)]]


# y[b,w] = x[p[b] + w]
def _gather(leaf: LeafOp) -> ResultPieces | None:
    x, indices = leaf.operands
    numbers, sizes = leaf.node.get("dimension_numbers"), leaf.node.get("slice_sizes")
    places = _windows(leaf, indices, numbers.start_index_map, sizes)
    if places is None or numbers.operand_batching_dims:
        return None
    (shape,), of_places = leaf.shapes, indices.shape[:-1]
    windows = [d for d in range(len(x.shape)) if d not in numbers.collapsed_slice_dims]
    pieces: list[Piece] = []
    for place, starts in places:
        for piece in x.rows:
            batch: list[AffineSum] = []
            for i, size in zip(place, of_places, strict=True):
                index = AffineSum(i)
                if not core.is_constant_dim(size):
                    piece, index = piece.fresh(size)
                batch.append(index)
            at = [start.put(dict(enumerate(batch))) for start in starts]
            offsets = [i.plus(start, -1) for i, start in zip(piece.result, at, strict=True)]
            inner, outer = (offsets[d] for d in windows), iter(batch)
            result = [next(inner if d in numbers.offset_dims else outer) for d in range(len(shape))]
            parts = [piece._replace(result=(*result, *offsets))]
            for d, size in enumerate(sizes, len(shape)):
                if _is_one(size):
                    parts = [y for p in parts for y in p.zero(p.result[d])]
                else:
                    parts = [y for p in parts for y in p.where(p.result[d], 0, size)]
            pieces += [part._replace(result=part.result[: len(shape)]) for part in parts]
    return [pieces]


def _start(
    leaf: LeafOp, start: AffineSum, size: Size, have: Size, places: Sequence[Size]
) -> AffineSum | None:
    """The start of windows along a dimension; ``None`` if they may be clamped by different
    amounts."""
    mode = leaf.node.get("mode")
    if not start.terms:
        # A window outside the operand is clamped, or dropped.
        is_moved = mode == GatherScatterMode.CLIP or leaf.name == "gather"
        return AffineSum(larger(0, smaller(start.constant, have - size))) if is_moved else start
    ends = ends_of(start, [(0, n) for n in places])
    inside = ends and at_most(0, ends[0]) and at_most(ends[1] + size, have)
    return start if inside or mode != GatherScatterMode.CLIP else None


def _update(leaf: LeafOp) -> ResultPieces | None:
    """The rule of ops that write windows; an element is kept unless it is surely overwritten."""
    which = OPS[leaf.name].update
    rule = _update_slice if leaf.name == "dynamic_update_slice" else _scatter
    relations = rule(leaf, leaf.operands[which])
    if relations is not None:
        return relations
    alone = [x if i == which else x._replace(rows=None) for i, x in enumerate(leaf.operands)]
    along = _along_loops(leaf._replace(operands=alone))
    return along and [[*(leaf.operands[0].rows or ()), *along[0]]]


def _update_slice(leaf: LeafOp, updates: Value) -> ResultPieces | None:
    x, sizes = leaf.operands[0], updates.shape
    starts = _single_starts(leaf.operands[2:], sizes, x.shape)
    if starts is None:
        return None
    pieces = [y for piece in x.rows or () for y in _outside(piece, starts, sizes, x.shape)]
    for piece in updates.rows or ():
        index = tuple(i.plus(s) for i, s in zip(piece.result, starts, strict=True))
        pieces.append(piece._replace(result=index))
    return [pieces]


# y = x, y[p[b] + w] += u[b,w]
def _scatter(leaf: LeafOp, updates: Value) -> ResultPieces | None:
    if not leaf.name.startswith("scatter"):
        return None
    x, indices = leaf.operands[:2]
    numbers = leaf.node.get("dimension_numbers")
    windows = numbers.update_window_dims
    window_dims = [d for d in range(len(x.shape)) if d not in numbers.inserted_window_dims]
    sizes = window_sizes(numbers, [updates.shape[d] for d in windows])
    places = _windows(leaf, indices, numbers.scatter_dims_to_operand_dims, sizes)
    if places is None or numbers.operand_batching_dims:
        return None
    # An axis of no places overwrites nothing.
    is_surely_written = leaf.name == "scatter" and all(at_most(1, n) for n in indices.shape[:-1])
    outer = [d for d in range(len(updates.shape)) if d not in windows]
    pieces = list(x.rows or ())
    for place, starts in places:
        spans = list(zip(starts, sizes, x.shape, strict=True))
        if is_surely_written and all(
            not s.terms and at_most(0, s.constant) and at_most(s.constant + n, have)
            for s, n, have in spans
        ):
            at = [s.constant for s in starts]
            pieces = [y for piece in pieces for y in _outside(piece, at, sizes, x.shape)]
        for piece in updates.rows or ():
            parts = [piece]
            for i, d in enumerate(outer):
                if core.is_constant_dim(updates.shape[d]):
                    parts = [y for p in parts for y in p.where(p.result[d], place[i], place[i] + 1)]
            for part in parts:
                batch = {i: part.result[d] for i, d in enumerate(outer)}
                index = [start.put(batch) for start in starts]
                for d, of_update in zip(window_dims, windows, strict=True):
                    index[d] = index[d].plus(part.result[of_update])
                pieces += _cut(part._replace(result=tuple(index)), (0,) * len(index), x.shape)
    return [pieces]


# --- sums along an axis, and in windows -----------------------------------------------------------


def _cumulative(leaf: LeafOp) -> ResultPieces:
    (x,), axis, pieces = leaf.operands, leaf.node.get("axis"), []
    for piece in x.rows:
        have = piece.result[axis]
        piece, index = piece.fresh(x.shape[axis])
        sign = -1 if leaf.node.get("reverse", False) else 1
        after = index.times(sign).plus(have, -sign)
        pieces += _moved(piece, axis, index).where(after, 0, x.shape[axis])
    return [pieces]


def _through_windows(
    leaf: LeafOp,
    pieces: Sequence[Piece],
    first: int,
    sizes: Sequence[Size],
    dilations: tuple[str, str],
    shape: Sequence[Size],
    is_read: Sequence[bool] | None = None,
) -> list[Piece] | None:
    """The results that read the elements of pieces, place by place of their windows.

    Args:
      first: the first dimension that windows are along.
      sizes: the sizes of a window.
      dilations: the names of the attributes that tell the operand's and the window's dilation.
      shape: the shape of the result, along these dimensions.
      is_read: which places of a window are read; by default all.
    """
    get, ones = leaf.node.get, (1,) * len(sizes)
    strides, base, window = (get(name) or ones for name in ("window_strides", *dilations))
    if not all(map(core.is_constant_dim, (*sizes, *window))) or math.prod(sizes) > _MOST_TAPS:
        return None
    lows = [low for low, _ in get("padding")]
    lines = [[d * i for i in range(n)] for n, d in zip(sizes, window, strict=True)]
    taps = list(itertools.compress(itertools.product(*lines), is_read or itertools.repeat(True)))
    results = []
    for piece, offsets in itertools.product(pieces, taps):
        parts = [piece]
        columns = zip(offsets, strides, lows, base, shape, strict=True)
        for d, (offset, stride, low, spread, size) in enumerate(columns, first):
            moved = []
            for part in parts:
                index = part.result[d].times(spread).plus(low - offset)
                divided = _divided(_moved(part, d, index), d, stride)
                if divided is None:
                    return None
                moved += [y for x in divided for y in x.where(x.result[d], 0, size)]
            parts = moved
        results += parts
    return results


def _pooling(leaf: LeafOp) -> ResultPieces | None:
    shape = leaf.shapes[0]
    if any(len(leaf.operands[i].shape) != len(shape) for i in leaf.depending):
        return None
    pieces = [piece for i in leaf.depending for piece in leaf.operands[i].rows]
    sizes, dilations = leaf.node.get("window_dimensions"), ("base_dilation", "window_dilation")
    results = _through_windows(leaf, pieces, 0, sizes, dilations, shape)
    return None if results is None else [results] * len(leaf.shapes)


def _convolution(leaf: LeafOp) -> ResultPieces | None:
    (image, kernel), get, (shape,) = leaf.operands, leaf.node.get, leaf.shapes
    groups = get("batch_group_count", 1), get("feature_group_count", 1)
    if kernel.rows is not None or groups != (1, 1):
        return None
    lhs, rhs, out = get("dimension_numbers")
    is_read = None
    if kernel.known is not None:
        is_read = (np.transpose(kernel.known(), rhs) != 0).any((0, 1)).reshape(-1).tolist()
    # Without the channels, which are mixed: only batch and spatial indices.
    order = (lhs[0], *lhs[2:])
    pieces = [x._replace(result=tuple(x.result[d] for d in order)) for x in image.rows]
    sizes, inner = [kernel.shape[d] for d in rhs[2:]], [shape[d] for d in out[2:]]
    dilations = "lhs_dilation", "rhs_dilation"
    parts = _through_windows(leaf, pieces, 1, sizes, dilations, inner, is_read)
    if parts is None:
        return None
    results = []
    for part in parts:
        part, feature = part.fresh(shape[out[1]])
        indices = (part.result[0], feature, *part.result[1:])
        result = tuple(indices[out.index(d)] for d in range(len(shape)))
        results.append(part._replace(result=result))
    return [results]


RelationRule = Callable[[LeafOp], "ResultPieces | None"]

_RULES: dict[str, RelationRule] = {
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "pad": _pad,
    "rev": _rev,
    "slice": _slice,
    "split": _split,
    "stack": _stack,
    "unstack": _unstack,
    **dict.fromkeys(POOLING, _pooling),
    **dict.fromkeys(IDENTITIES, _each),
}


@functools.cache
def _rules_of(name: str) -> tuple[RelationRule, ...]:
    """The rules for an op, in the order in which they are tried."""
    full, rules = f"jaxpr.{name}", [_RULES[name]] if name in _RULES else []
    kinds = ((Trait.RESHAPE, _reshape), (Trait.UPDATE, _update), (Trait.CUMULATIVE, _cumulative))
    rules += [rule for trait, rule in kinds if full in with_trait(trait)]
    return (*rules, _along_loops)

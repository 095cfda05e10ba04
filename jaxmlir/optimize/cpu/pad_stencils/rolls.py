"""The transposes of rolls: two padded parts of an array, in one sum, are a roll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import ADDITIONS, elements
from jaxmlir.dialect.builder import converted, only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.cpu.pad_stencils.moves import Moves
from jaxmlir.transforms.templates import Rules


def join_parts(rules: Rules, moves: Moves) -> dict[ir.Value, Roll]:
    """Writes the two padded parts of a roll in a sum as a roll; the rolled values."""
    pads: dict[tuple[ir.Value, int, int, bool], ir.Value] = {}
    sums = _Sums()
    joined = {}
    for node in moves.order:
        if node.name != "jaxpr.pad" or not moves.has_zeros(node):
            continue
        (y,) = node.op.results
        place = _rolled_part(moves, node)
        if place is None:
            continue
        x, dim, by, is_first = place
        other = pads.pop((x, dim, by, not is_first), None)
        roll, rolled = Roll(dim, by), None
        if other is not None:
            rolled = _join(rules, sums, moves.nodes[other].op, y, x, roll)
        if rolled is None:
            pads[x, dim, by, is_first] = y
        else:
            joined[rolled] = roll
    return joined


def part_again(rules: Rules, moves: Moves, joined: Mapping[ir.Value, Roll]) -> None:
    """Writes rolls that were two padded parts as these, where that is faster.

    Microseconds of the parts / of the roll, in a sum, jax 0.10 and 0.12: 512 x 512, along the last
    dimension 115, 255 and 104, 223, along the first 136, 129 and 110, 133; 100,000 numbers 150, 72
    and 197, 75.
    """
    for node in moves.order:
        (y,) = node.op.results
        if y not in joined:
            continue
        # What the slices read now: it may have been parted itself.
        (x,) = moves.nodes[node.op.operands[0]].op.operands
        roll, shape = joined[y], x.type.shape
        if roll.dim == len(shape) - 1 and elements(x.type) > shape[-1]:
            parts = _Parts(roll)
            with ir.InsertionPoint(node.op), node.op.location:
                (total,) = rules.emit(parts, [x], parts)
                y.replace_all_uses_with(converted(total, y.type))


def _rolled_part(moves: Moves, node: OpView) -> tuple[ir.Value, int, int, bool] | None:
    """Of ``pad(x[k:], 0, k)`` or ``pad(x[:k], n-k, 0)``: ``x``, the dimension, ``k``, and
    which of the two it is."""
    # Operands as they are now: they may be sums of which parts have been joined since.
    part = moves.part(node.op.operands[0])
    if part is None or node.op.results[0].type != part.x.type:
        return None
    along = part.differs_along()
    if len(along) != 1:
        return None
    (d,) = along
    lows = [low for low, _, _ in node.get("padding_config")]
    if any(lows[:d] + lows[d + 1 :]):
        # Shifted along another dimension, too, as with edges of 1 and -1.
        return None
    low, size = lows[d], part.x.type.shape[d]
    if part.limits[d] == size and low == 0:
        return part.x, d, part.starts[d], True
    if part.starts[d] == 0 and low == size - part.limits[d]:
        return part.x, d, part.limits[d], False
    return None


def _join(
    rules: Rules, sums: _Sums, op: Any, second: ir.Value, x: ir.Value, roll: Roll
) -> ir.Value | None:
    """Writes a roll in the place of one part, which an op gives, and nothing in that of the other,
    if both are terms of one sum; the roll."""
    (first,) = op.results
    root, other = sums.of(first), sums.of(second)
    if root is None or other is None or root != other:
        return None
    user = next(iter(second.uses)).owner
    if any(v.type != second.type for v in (*user.operands, *user.results)):
        return None
    with ir.InsertionPoint(op), op.location:
        (rolled,) = rules.emit(roll, [x], roll)
        first.replace_all_uses_with(converted(rolled, first.type))
    ((index, left),) = ((i, v) for i, v in enumerate(user.operands) if v != second)
    user.results[0].replace_all_uses_with(left)
    # It is dead, and shall not count as a user; what is erased must not be in a table.
    user.operands[index] = second
    return rolled


class _Sums:
    """The sums of which values are terms, each gone through once.

    To join two of its terms leaves a sum what it is for the others; its last addition may be gone,
    and stands for it.
    """

    def __init__(self) -> None:
        self._found: dict[ir.Value, ir.Value | None] = {}

    def of(self, value: ir.Value) -> ir.Value | None:
        """The sum of which a value is a term."""
        way = [value]
        while True:
            found = self._found.get(way[-1], way[-1])
            if found != way[-1]:
                break
            user = only_user(way[-1])
            if user is None or user.name not in ADDITIONS:
                break
            (total,) = user.results
            if total.type != value.type:
                found = None
                break
            way.append(total)
        if found == value:
            found = None
        self._found.update(dict.fromkeys(way, found))
        return found


@dataclass(frozen=True)
class Roll:
    """``y[i] = x[i + by]``, periodic along a dimension; hashable."""

    dim: int
    by: int

    def __call__(self, x: Any) -> list[Any]:
        size, dim = x.shape[self.dim], self.dim
        parts = [lax.slice_in_dim(x, self.by, size, axis=dim)]
        parts.append(lax.slice_in_dim(x, 0, self.by, axis=dim))
        return [lax.concatenate(parts, dim)]


@dataclass(frozen=True)
class _Parts:
    """The same as a sum of two arrays that are zero where the other is not."""

    roll: Roll

    def __call__(self, x: Any) -> list[Any]:
        dim, by = self.roll.dim, self.roll.by
        size, zero = x.shape[dim], np.zeros((), x.dtype)
        total = None
        for first, last in ((by, size), (0, by)):
            edges = [(0, 0, 0)] * x.ndim
            edges[dim] = (first - by) % size, (by - last) % size, 0
            part = lax.pad(lax.slice_in_dim(x, first, last, axis=dim), zero, edges)
            total = part if total is None else lax.add(total, part)
        return [total]

"""The transposes of rolls: two padded parts of an array, in one sum, are a roll."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax import lax

from jaxmlir.ir import ir
from jaxmlir.passes._build import converted, only_user
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import ADDITIONS
from jaxmlir.passes.halo._moves import Moves


def join_parts(rules: Rules, moves: Moves) -> int:
    """Writes the two padded parts of a roll in a sum as a roll; how many times."""
    pads: dict[tuple[ir.Value, int, int, bool], ir.Value] = {}
    count = 0
    for node in moves.order:
        if node.name != "jaxpr.pad" or moves.filled(node) is None:
            continue
        (y,) = node.op.results
        place = _rolled_part(moves, node)
        if place is None:
            continue
        x, dim, by, is_first = place
        other = pads.pop((x, dim, by, not is_first), None)
        if other is None or not _join(rules, moves.nodes[other].op, y, x, _Roll(dim, by)):
            pads[x, dim, by, is_first] = y
        else:
            count += 1
    return count


def _rolled_part(moves: Moves, node: OpNode) -> tuple[ir.Value, int, int, bool] | None:
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
    low = node.get("padding_config")[d][0]
    size = part.x.type.shape[d]
    if part.limits[d] == size and low == 0:
        return part.x, d, part.starts[d], True
    if part.starts[d] == 0 and low == size - part.limits[d]:
        return part.x, d, part.limits[d], False
    return None


def _join(rules: Rules, op: Any, second: ir.Value, x: ir.Value, roll: _Roll) -> bool:
    """Writes a roll in the place of one part, which an op gives, and nothing in that of the other,
    if both are terms of one sum."""
    (first,) = op.results
    root = _sum_of(first)
    if root is None or _sum_of(second) != root:
        return False
    user = next(iter(second.uses)).owner
    if any(v.type != second.type for v in (*user.operands, *user.results)):
        return False
    with ir.InsertionPoint(op), op.location:
        (rolled,) = rules.emit(roll, [x], roll)
        first.replace_all_uses_with(converted(rolled, first.type))
    ((index, left),) = ((i, v) for i, v in enumerate(user.operands) if v != second)
    user.results[0].replace_all_uses_with(left)
    # It is dead, and shall not count as a user; what is erased must not be in a table.
    user.operands[index] = second
    return True


def _sum_of(value: ir.Value) -> ir.Value | None:
    """The sum of which a value is a term."""
    found = None
    while True:
        user = only_user(value)
        if user is None or user.name not in ADDITIONS:
            return found
        (found,) = user.results
        if found.type != value.type:
            return None
        value = found


@dataclass(frozen=True)
class _Roll:
    """``y[i] = x[i + by]``, periodic along a dimension; hashable."""

    dim: int
    by: int

    def __call__(self, x: Any) -> list[Any]:
        size, dim = x.shape[self.dim], self.dim
        parts = [lax.slice_in_dim(x, self.by, size, axis=dim)]
        parts.append(lax.slice_in_dim(x, 0, self.by, axis=dim))
        return [lax.concatenate(parts, dim)]

"""The shifted arrays of a function, and which of them are better read from one with a margin."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.fusion import FUSED
from jaxmlir.analysis.op_counts import elements, is_plain_op
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.cpu.pad_stencils.moves import Moves

# Ops that read their operands element by element.


@dataclass(frozen=True)
class View:
    """``y[i] = x[i + start]`` of an array that goes on beyond its bounds.

    Attributes:
      fill: what it goes on with: the bytes of a number, or ``None`` if it is periodic.
    """

    y: ir.Value
    x: ir.Value
    fill: bytes | None
    start: tuple[int, ...]

    def margins(self) -> list[tuple[int, int]]:
        """How much of ``x`` is seen before its beginning and after its end, along each dimension;
        negative where not all of it is."""
        sizes = zip(self.start, self.y.type.shape, self.x.type.shape, strict=True)
        return [(-first, first + seen - size) for first, seen, size in sizes]


@dataclass(frozen=True)
class Group:
    """The views of an array that goes on in one way."""

    x: ir.Value
    fill: bytes | None
    views: Sequence[View]

    def margins(self) -> tuple[tuple[int, int], ...]:
        """What the array is stored with, before and after it."""
        seen = zip(*(view.margins() for view in self.views), strict=True)
        return tuple(
            [(max(0, *(a for a, _ in d)), max(0, *(b for _, b in d))) for d in map(list, seen)]
        )

    def pays(self, margin: float) -> bool:
        return (
            len({view.start for view in self.views}) > 1
            and _margin(self.x, self.margins()) <= margin
        )


def groups_of(moves: Moves, min_elements: int, margin: float) -> list[Group]:
    """The arrays to store with a margin, with their views."""
    views: dict[ir.Value, View] = {}
    groups: dict[tuple[ir.Value, bytes | None], list[View]] = collections.defaultdict(list)
    for node in moves.order:
        view = _view(moves, node, views)
        if view is None or elements(view.x.type) < max(1, min_elements):
            continue
        views[view.y] = view
        if _margin(view.x, view.margins()) <= margin and _is_fused(view.y):
            groups[view.x, view.fill].append(view)
    found = [Group(x, fill, found) for (x, fill), found in groups.items()]
    return [group for group in found if group.pays(margin)]


def _view(moves: Moves, node: OpView, views: dict[ir.Value, View]) -> View | None:
    if not is_plain_op(node):
        return None
    return _roll(moves, node, views) if node.name == "jaxpr.concatenate" else _pad(moves, node)


def _roll(moves: Moves, node: OpView, views: dict[ir.Value, View]) -> View | None:
    """``concatenate(x[k:], x[:k])``; of what is rolled already, both rolls at once."""
    parts = [moves.part(v) for v in node.operands]
    if len(parts) != 2 or None in parts:
        return None
    (first, second), dim = parts, int(node.get("dimension"))
    is_roll = (
        first.x == second.x
        and first.differs_along() == second.differs_along() == [dim]
        and first.limits[dim] == first.x.type.shape[dim]
        and second.starts[dim] == 0
        and first.starts[dim] == second.limits[dim]
    )
    if not is_roll:
        return None
    x, start = first.x, [0] * len(first.x.type.shape)
    start[dim] = first.starts[dim]
    before = views.get(x)
    if before is not None and before.fill is None:
        x, start = before.x, [a + b for a, b in zip(start, before.start, strict=True)]
    shortest = [_shortest(by, size) for by, size in zip(start, x.type.shape, strict=True)]
    return View(node.op.results[0], x, None, tuple(shortest))


def _shortest(by: int, size: int) -> int:
    """By how much a periodic array is rolled, in the direction in which that is less."""
    by %= max(1, size)
    return by if 2 * by <= size else by - size


def _pad(moves: Moves, node: OpView) -> View | None:
    """``pad(x, a, b)``, and ``pad(x[c:], a, b)`` where this shows nothing else."""
    fill = moves.filled(node)
    if fill is None:
        return None
    config = node.get("padding_config")
    (x, _), start = node.operands, [-low for low, _, _ in config]
    part = moves.part(x)
    if part is not None and all(
        (first == 0 or low <= 0) and (limit == size or high <= 0)
        for (low, high, _), first, limit, size in zip(
            config, part.starts, part.limits, part.x.type.shape, strict=True
        )
    ):
        x, start = part.x, [a + b for a, b in zip(start, part.starts, strict=True)]
    return View(node.op.results[0], x, fill, tuple(start))


def _margin(x: ir.Value, margins: Sequence[tuple[int, int]]) -> float:
    """How much larger an array gets, or smaller a view of it is."""
    sizes = list(zip(x.type.shape, margins, strict=True))
    around = math.prod(max(1, n + abs(a) + abs(b)) for n, (a, b) in sizes)
    return around / math.prod(n for n, _ in sizes) - 1


def _is_fused(value: ir.Value) -> bool:
    """Whether an elementwise op reads a value."""
    return any(use.owner.name in FUSED for use in value.uses)

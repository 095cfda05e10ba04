"""``jaxpr-pad-stencils``: stores an array that is read at shifted places with a margin around it.

A step of a stencil reads the elements of an array and their neighbours.  On a periodic grid it
reads

    roll(u, 1)[i] = u[(i - 1) mod n]

and in its derivative, or on a grid with zeros around it, ``pad(u, 1, -1)[i] = u[i - 1]``, or zero.
Fused into the arithmetic that uses it, each of these is a branch for every element, which no
compiler vectorizes.  If the array is stored once with its margin, a *halo*, all of them are slices
of it::

    roll(u, k), roll(u, l), ...         ->  p = wrap(u);    p[m-k : m-k+n], p[m-l : m-l+n], ...
    pad(u, a, b, z), pad(u, c, d, z)    ->  p = pad(u, max(a, c), max(b, d), z);  p[...], p[...]

and the loops that read them have no branches.  ``p`` is behind a fence
(:mod:`jaxmlir.optimize.cpu.materialize_shared`), so that it is not fused into its users in turn.

JAX writes the transpose of a roll as two padded parts, which are added one after the other.  This
pass writes them as a roll again::

    a + pad(u[k:], 0, k) + pad(u[:k], n-k, 0)   ->   a + roll(u, -k)

If such a roll is along the last dimension and does not become a slice of an array with a margin, it
is written as its parts again.

No bit of a roll or a padded array changes.  Sums may be added up in another order, and a zero of
such a sum may have another sign.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.fusion import FUSED
from jaxmlir.analysis.op_counts import ADDITIONS, elements, is_plain_op
from jaxmlir.analysis.strided_view import StridedView, view_of
from jaxmlir.dialect.builder import converted, drop_dead_ops, only_user
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.barriers import alone, fences
from jaxmlir.optimize.cpu.expansion import pad_dims
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.transforms.templates import Rules

# -- The ops of a function that move elements, and their operands --


MOVES = NEEDED_OPS["jaxpr-pad-stencils"]
_SLICES = frozenset({"jaxpr.slice", "jaxpr.split"})
Edges = tuple[tuple[int, int], ...]
"""How much wider an array is before and after it, along each dimension."""


class PaddingOps:
    """The concatenations and padded arrays of a function, and the slices that they read.

    Attributes:
      nodes: the ops by their results.
      order: the concatenations and padded arrays, in the order of the function.
    """

    def __init__(self, program: Module, function: func.FuncOp):
        self._program = program
        self.nodes: dict[ir.Value, OpView] = {}
        self.order: list[OpView] = []
        for node in ops_of(function):
            if node.name in MOVES or node.name in _SLICES:
                self.nodes.update((v, node) for v in node.op.results)
                if node.name in MOVES:
                    self.order.append(node)

    def part(self, value: ir.Value) -> StridedView | None:
        """The box of an array that a slice, or a result of a split, is."""
        view = view_of(value, _SLICES)
        return view if view is not None and view.is_box else None

    def whole(self, value: ir.Value, edges: Edges) -> tuple[ir.Value, Edges] | None:
        """The array that a padded value is a slice of, and the edges of that: negative where they
        cut off what the slice does; ``None`` where they would show more."""
        part = self.part(value)
        if part is None or not part.partial_dims:
            return None
        new_edges = []
        sizes = zip(part.starts, part.limits, part.array.type.shape, strict=True)
        for (low, high), (first, limit, size) in zip(edges, sizes, strict=True):
            if (first and low > 0) or (limit != size and high > 0):
                return None
            new_edges.append((low - first, high - (size - limit)))
        return part.array, tuple(new_edges)

    def filled(self, node: OpView) -> bytes | None:
        """The bytes of the constant that an array is padded with, if it is so at its sides only."""
        value = self._number(node)
        return None if value is None else bytes(value.tobytes())

    def has_zeros(self, node: OpView) -> bool:
        """Whether an array is padded with zeros, at its sides only."""
        value = self._number(node)
        return value is not None and bool((value == 0).all())

    def _number(self, node: OpView) -> np.ndarray | None:
        if not is_plain_op(node) or any(interior for *_, interior in node.get("padding_config")):
            return None
        return toolbox.constant_value(self._program, node.operands[1])


# -- The transposes of rolls: two padded parts of an array, in one sum, are a roll --


def join_parts(rules: Rules, moves: PaddingOps) -> dict[ir.Value, Roll]:
    """Writes the two padded parts of a roll in a sum as a roll; returns the rolled values."""
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


def part_again(rules: Rules, moves: PaddingOps, joined: Mapping[ir.Value, Roll]) -> None:
    """Writes rolls that were two padded parts as parts again, where that is faster.

    Microseconds of the parts / of the roll, in a sum, jax 0.10 and 0.12: 512 x 512, along the last
    dimension 115, 255 and 104, 223, along the first 136, 129 and 110, 133; 100,000 numbers 150, 72
    and 197, 75.
    """
    for node in moves.order:
        (y,) = node.op.results
        if y not in joined:
            continue
        # The array that the slices read now: it may be a roll that was written as parts.
        (x,) = moves.nodes[node.op.operands[0]].op.operands
        roll, shape = joined[y], x.type.shape
        if roll.dim == len(shape) - 1 and elements(x.type) > shape[-1]:
            with ir.InsertionPoint(node.op), node.op.location:
                (total,) = rules.emit(functools.partial(_of_parts, roll=roll), [x])
                y.replace_all_uses_with(converted(total, y.type))


def _rolled_part(moves: PaddingOps, node: OpView) -> tuple[ir.Value, int, int, bool] | None:
    """Matches ``pad(x[k:], 0, k)`` or ``pad(x[:k], n-k, 0)``; returns ``x``, the dimension, ``k``,
    and whether it is the first of the two."""
    # Reads the operands of now: they may be sums whose parts have been joined since.
    part = moves.part(node.op.operands[0])
    if part is None or node.op.results[0].type != part.array.type:
        return None
    if len(part.partial_dims) != 1:
        return None
    (d,) = part.partial_dims
    lows = [low for low, _, _ in node.get("padding_config")]
    if any(lows[:d] + lows[d + 1 :]):
        # Shifted along another dimension, too, as with edges of 1 and -1.
        return None
    low, size = lows[d], part.array.type.shape[d]
    if part.limits[d] == size and low == 0:
        return part.array, d, part.starts[d], True
    if part.starts[d] == 0 and low == size - part.limits[d]:
        return part.array, d, part.limits[d], False
    return None


def _join(
    rules: Rules, sums: _Sums, op: Any, second: ir.Value, x: ir.Value, roll: Roll
) -> ir.Value | None:
    """Replaces one part, the result of an op, by a roll, and drops the other part from the sum, if
    both are terms of one sum; returns the roll."""
    (first,) = op.results
    root, other = sums.of(first), sums.of(second)
    if root is None or other is None or root != other:
        return None
    user = next(iter(second.uses)).owner
    if any(v.type != second.type for v in (*user.operands, *user.results)):
        return None
    with ir.InsertionPoint(op), op.location:
        (rolled,) = rules.emit(functools.partial(_rolled, roll=roll), [x])
        first.replace_all_uses_with(converted(rolled, first.type))
    ((index, left),) = ((i, v) for i, v in enumerate(user.operands) if v != second)
    user.results[0].replace_all_uses_with(left)
    # The addition is dead, and must not count as a user of what is left.  It is not erased, because
    # an erased value must not be in a table.
    user.operands[index] = second
    return rolled


class _Sums:
    """The sums that values are terms of; each addition is visited once.

    A sum is known by its last addition, also after two of its terms are joined and this addition is
    dead.
    """

    def __init__(self) -> None:
        self._sums: dict[ir.Value, ir.Value | None] = {}

    def of(self, value: ir.Value) -> ir.Value | None:
        """The sum that a value is a term of; ``None`` if there is none."""
        way = [value]
        while True:
            root = self._sums.get(way[-1], way[-1])
            if root != way[-1]:
                break
            user = only_user(way[-1])
            if user is None or user.name not in ADDITIONS:
                break
            (total,) = user.results
            if total.type != value.type:
                root = None
                break
            way.append(total)
        if root == value:
            root = None
        self._sums.update(dict.fromkeys(way, root))
        return root


class Roll(NamedTuple):
    """``y[i] = x[i + by]``, periodic along a dimension."""

    dim: int
    by: int


def _rolled(x: Any, *, roll: Roll) -> list[Any]:
    size = x.shape[roll.dim]
    parts = [lax.slice_in_dim(x, *ends, axis=roll.dim) for ends in ((roll.by, size), (0, roll.by))]
    return [lax.concatenate(parts, roll.dim)]


def _of_parts(x: Any, *, roll: Roll) -> list[Any]:
    """A roll as the sum of two arrays that are zero where the other is not."""
    dim, by = roll
    size = x.shape[dim]
    parts = (
        pad_dims(
            lax.slice_in_dim(x, first, last, axis=dim),
            {dim: ((first - by) % size, (by - last) % size, 0)},
        )
        for first, last in ((by, size), (0, by))
    )
    return [functools.reduce(lax.add, parts)]


# -- The shifted arrays of a function, and which of them become slices of an array with a margin --


class Shift(NamedTuple):
    """A view ``y[i] = x[i + start]`` of an array that continues beyond its bounds.

    Attributes:
      fill: the bytes of the number that it continues with, or ``None`` if it is periodic.
    """

    y: ir.Value
    x: ir.Value
    fill: bytes | None
    start: tuple[int, ...]

    def margins(self) -> list[tuple[int, int]]:
        """How far ``y`` reads before the beginning and after the end of ``x``, along each
        dimension; negative if it reads less than all of ``x``."""
        sizes = zip(self.start, self.y.type.shape, self.x.type.shape, strict=True)
        return [(-first, first + length - size) for first, length, size in sizes]


class StencilViews(NamedTuple):
    """The views of an array that continues beyond its bounds in one way."""

    x: ir.Value
    fill: bytes | None
    views: Sequence[Shift]

    def margins(self) -> Edges:
        """The margin that the array is stored with, before and after it, along each dimension."""
        by_dim = zip(*(view.margins() for view in self.views), strict=True)
        return tuple(
            [(max(0, *(a for a, _ in d)), max(0, *(b for _, b in d))) for d in map(list, by_dim)]
        )

    def pays(self, margin: float) -> bool:
        return (
            len({view.start for view in self.views}) > 1
            and _margin(self.x, self.margins()) <= margin
        )


def groups_of(moves: PaddingOps, min_elements: int, margin: float) -> list[StencilViews]:
    """The arrays to store with a margin, with their views."""
    views: dict[ir.Value, Shift] = {}
    groups: dict[tuple[ir.Value, bytes | None], list[Shift]] = collections.defaultdict(list)
    for node in moves.order:
        view = _view(moves, node, views)
        if view is None or elements(view.x.type) < max(1, min_elements):
            continue
        views[view.y] = view
        if _margin(view.x, view.margins()) <= margin and _is_fused(view.y):
            groups[view.x, view.fill].append(view)
    stencils = [StencilViews(x, fill, shifts) for (x, fill), shifts in groups.items()]
    return [stencil for stencil in stencils if stencil.pays(margin)]


def _view(moves: PaddingOps, node: OpView, views: dict[ir.Value, Shift]) -> Shift | None:
    if not is_plain_op(node):
        return None
    return _roll(moves, node, views) if node.name == "jaxpr.concatenate" else _pad(moves, node)


def _roll(moves: PaddingOps, node: OpView, views: dict[ir.Value, Shift]) -> Shift | None:
    """Matches ``concatenate(x[k:], x[:k])``; if ``x`` is a roll itself, combines both rolls."""
    parts = [moves.part(v) for v in node.operands]
    if len(parts) != 2 or None in parts:
        return None
    (first, second), dim = parts, int(node.get("dimension"))
    is_roll = (
        first.array == second.array
        and first.partial_dims == second.partial_dims == [dim]
        and first.limits[dim] == first.array.type.shape[dim]
        and second.starts[dim] == 0
        and first.starts[dim] == second.limits[dim]
    )
    if not is_roll:
        return None
    x, start = first.array, [0] * len(first.sizes)
    start[dim] = first.starts[dim]
    before = views.get(x)
    if before is not None and before.fill is None:
        x, start = before.x, [a + b for a, b in zip(start, before.start, strict=True)]
    shortest = [_shortest(by, size) for by, size in zip(start, x.type.shape, strict=True)]
    return Shift(node.op.results[0], x, None, tuple(shortest))


def _shortest(by: int, size: int) -> int:
    """The distance by which a periodic array is rolled, in the direction in which it is less."""
    by %= max(1, size)
    return by if 2 * by <= size else by - size


def _pad(moves: PaddingOps, node: OpView) -> Shift | None:
    """Matches ``pad(x, a, b)``, and ``pad(x[c:], a, b)`` if no side is both cut and padded."""
    fill = moves.filled(node)
    if fill is None:
        return None
    edges = tuple([(low, high) for low, high, _ in node.get("padding_config")])
    x, edges = moves.whole(node.operands[0], edges) or (node.operands[0], edges)
    return Shift(node.op.results[0], x, fill, tuple([-low for low, _ in edges]))


def _margin(x: ir.Value, margins: Sequence[tuple[int, int]]) -> float:
    """The fraction by which an array gets larger, or a view of it is smaller."""
    sizes = list(zip(x.type.shape, margins, strict=True))
    around = math.prod(max(1, n + abs(a) + abs(b)) for n, (a, b) in sizes)
    return around / math.prod(n for n, _ in sizes) - 1


def _is_fused(value: ir.Value) -> bool:
    """Whether an elementwise op reads a value."""
    return any(use.owner.name in FUSED for use in value.uses)


# -- Writing an array with its margin, and its views as slices of that --


def write(rules: Rules, group: StencilViews, put: Callable[[ir.Value], ir.Value]) -> None:
    """Writes the array with its margin before the first view, and slices in place of all."""
    first = group.views[0].y.owner
    margins = group.margins()
    remark(
        first,
        f"replaced {len(group.views)} shifts of an array by slices of a copy with a halo of "
        f"{' x '.join(f'{a} + {b}' for a, b in margins)} elements",
    )
    with ir.InsertionPoint(first), first.location:
        if group.fill is None:
            (wide,) = rules.emit(functools.partial(_wrapped, margins=margins), [group.x])
        else:
            pad = functools.partial(padded, edges=margins)
            (wide,) = rules.emit(pad, [group.x, first.operands[1]])
        wide = put(wide)
    for view in group.views:
        op = view.y.owner
        start = tuple([a + low for a, (low, _) in zip(view.start, margins, strict=True)])
        limit = tuple([a + n for a, n in zip(start, view.y.type.shape, strict=True)])
        cut = functools.partial(_cut, start=start, limit=limit)
        with ir.InsertionPoint(op), op.location:
            (y,) = rules.emit(cut, [wide])
            view.y.replace_all_uses_with(converted(y, view.y.type))


def _wrapped(x: Any, *, margins: Edges) -> list[Any]:
    """A periodic array, extended by some elements before its start and after its end."""
    for dim, (low, high) in reversed(list(enumerate(margins))):
        size = x.shape[dim]
        before = [lax.slice_in_dim(x, size - low, size, axis=dim)] if low else []
        after = [lax.slice_in_dim(x, 0, high, axis=dim)] if high else []
        if before or after:
            x = lax.concatenate([*before, x, *after], dim)
    return [x]


def padded(x: Any, fill: Any, *, edges: Edges) -> list[Any]:
    """An array with numbers around it."""
    return [lax.pad(x, fill, [(low, high, 0) for low, high in edges])]


def _cut(x: Any, *, start: tuple[int, ...], limit: tuple[int, ...]) -> list[Any]:
    """A box of an array."""
    return [lax.slice(x, start, limit)]


# Gradients of a few steps of stencils, without / with a halo, on two cores, jax 0.10 and 0.12:
#   2-D periodic, 64 x 64      1.5, 1.5      Lorenz-96, 10,000     1.2, 1.5
#   128 x 128                  1.7, 2.4      100,000               1.5, 1.1
#   512 x 512                  1.3, 1.1      2-D zeros, 64 x 64    2.0, 1.3
#   3-D periodic, 32^3         3.9, 2.5      256 x 256             1.0, 1.2
#   64^3                       5.5, 1.5      in a scan, 128 x 128  1.1, 1.3
# With 32 x 32 numbers a gradient takes as long as starting its kernels.
MIN_ELEMENTS = 4096
# The largest margin, as a fraction of the array.  This is an estimate: the margin costs to be
# written and read, once for all shifts.
MARGIN = 0.25


class PadStencils(Pass):
    """Read shifts of an array as slices of one copy with a margin.

    Options:
      min-elements: arrays of fewer elements are left alone.
      margin: the largest margin, as a fraction of the array.
    """

    name: ClassVar[str] = "jaxpr-pad-stencils"
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    min_elements: Count = MIN_ELEMENTS
    margin: Amount = MARGIN

    def run(self, program: Module) -> bool:
        put, rules = alone(fences(program)), Rules(program)

        def pad(function: func.FuncOp) -> int:
            moves = PaddingOps(program, function)
            joined = join_parts(rules, moves)
            if joined:
                drop_dead_ops(function)
                moves = PaddingOps(program, function)
            groups = groups_of(moves, self.min_elements, self.margin)
            stored = {view.y for group in groups for view in group.views}
            part_again(rules, moves, {y: roll for y, roll in joined.items() if y not in stored})
            for group in groups:
                write(rules, group, put)
            return len(joined) + len(groups)

        return rewrite_functions(program, MOVES, pad) > 0

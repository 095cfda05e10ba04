"""``jaxpr-halo``: an array that is read at shifted places is stored with a margin around it.

A step of a stencil reads an array and its neighbours, on a periodic grid

    roll(u, 1)[i] = u[(i - 1) mod n]

and in its derivative, or on a grid with zeros around it, ``pad(u, 1, -1)[i] = u[i - 1]``, or zero.
Fused into the arithmetic that uses it, each of these is a case distinction for every element, and
no compiler vectorizes that.  If the array is stored with its margin, a *halo*, once, all of them
are slices of it::

    roll(u, k), roll(u, l), ...         ->  p = wrap(u);    p[m-k : m-k+n], p[m-l : m-l+n], ...
    pad(u, a, b, z), pad(u, c, d, z)    ->  p = pad(u, max(a, c), max(b, d), z);  p[...], p[...]

and the loops that read them are plain ones.  ``p`` is behind a fence (:mod:`jaxmlir.passes.fence`),
so that it is not fused into its users in turn.

The transpose of a roll, which JAX writes as two padded parts added up one after the other, is a
roll again::

    a + pad(u[k:], 0, k) + pad(u[:k], n-k, 0)   ->   a + roll(u, -k)

No bit of a roll or a padded array changes; sums may be added up in another order, and a zero so
written as a sum may have another sign.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir.ir import func, ir, scope
from jaxmlir.passes import toolbox
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import converted, drop_dead_ops, ops_of
from jaxmlir.passes._call_graph import outside_kernels
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import elements, is_plain_op
from jaxmlir.passes.fence import FUSED, fences

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Gradients of a few steps of stencils, without / with a halo, on two cores, jax 0.10 and 0.12:
#   2-D periodic, 64 x 64      1.5, 1.5      Lorenz-96, 10,000     1.2, 1.5
#   128 x 128                  1.7, 2.4      100,000               1.5, 1.1
#   512 x 512                  1.3, 1.1      2-D zeros, 64 x 64    2.0, 1.3
#   3-D periodic, 32^3         3.9, 2.5      256 x 256             1.0, 1.2
#   64^3                       5.5, 1.5      in a scan, 128 x 128  1.1, 1.3
# With 32 x 32 numbers a gradient takes as long as the starting of its kernels.
MIN_ELEMENTS = 4096
# The margin may be this part of the array, an estimate: what it costs is to be written and read,
# once for all of the shifts.
MARGIN = 0.25

# Ops that read their operands element by element.
_READERS = FUSED | {"jaxpr.select_n"}
_ADDITIONS = frozenset({"jaxpr.add", "jaxpr.add_any"})
_MOVES = frozenset({"jaxpr.concatenate", "jaxpr.pad"})
_PARTS = frozenset({"jaxpr.slice", "jaxpr.split"})


class Halo(Pass):
    """Store arrays that are read at shifted places with a margin, of which these are slices.

    Options:
      platform: what the program will be compiled for; by default JAX's default backend. Others than
        the CPU are left alone.
      min-elements: arrays of fewer elements are left alone.
      margin: how large a part of the array its margin may be.
    """

    name: ClassVar[str] = "jaxpr-halo"
    platform: str = ""
    min_elements: int = MIN_ELEMENTS
    margin: float = MARGIN

    def run(self, program: Program) -> None:
        import jax

        halo(program, self.platform or jax.default_backend(), self.min_elements, self.margin)


def halo(
    program: Program,
    platform: str = "cpu",
    min_elements: int = MIN_ELEMENTS,
    margin: float = MARGIN,
) -> int:
    """Stores arrays with margins, in place; how many."""
    put = fences(program, platform)
    if put is None:
        return 0
    count = 0
    with scope():
        rules = Rules(program)
        for function in outside_kernels(program):
            stencils = _Stencils(rules, function, min_elements)
            if stencils.join_parts():
                drop_dead_ops(function)
                stencils = _Stencils(rules, function, min_elements)
            groups = stencils.groups(margin)
            for group in groups:
                group.write(rules, put)
            if groups:
                drop_dead_ops(function)
            count += len(groups)
    program.changed()
    return count


@dataclass(frozen=True)
class _Part:
    """A box of an array: ``x[starts[0] : limits[0], ...]``."""

    x: ir.Value
    starts: tuple[int, ...]
    limits: tuple[int, ...]

    def differs_along(self) -> list[int]:
        """The dimensions along which it is not all of the array."""
        bounds = zip(self.starts, self.limits, self.x.type.shape, strict=True)
        return [d for d, (a, b, n) in enumerate(bounds) if (a, b) != (0, n)]


@dataclass(frozen=True)
class _View:
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


class _Stencils:
    """The shifted arrays of a function."""

    def __init__(self, rules: Rules, function: func.FuncOp, min_elements: int):
        self._rules = rules
        self._min_elements = min_elements
        self._nodes: dict[ir.Value, OpNode] = {}
        self._moves: list[OpNode] = []
        for op, name, operands in ops_of(function):
            if name in _MOVES or name in _PARTS:
                node = OpNode(op, name, operands)
                self._nodes.update((v, node) for v in op.results)
                if name in _MOVES:
                    self._moves.append(node)

    def part(self, value: ir.Value) -> _Part | None:
        """The box that a slice or a result of a split is."""
        node = self._nodes.get(value)
        if node is None or not is_plain_op(node):
            return None
        if node.name == "jaxpr.slice":
            if any(stride != 1 for stride in node.get("strides") or ()):
                return None
            starts, limits = node.get("start_indices"), node.get("limit_indices")
            return _Part(node.op.operands[0], tuple(starts), tuple(limits))
        if node.name == "jaxpr.split":
            x, axis = node.op.operands[0], node.get("axis")
            index = list(node.op.results).index(value)
            first = sum(node.get("sizes")[:index])
            starts, limits = [0] * len(x.type.shape), list(x.type.shape)
            starts[axis], limits[axis] = first, first + node.get("sizes")[index]
            return _Part(x, tuple(starts), tuple(limits))
        return None

    def join_parts(self) -> int:
        """Writes the two padded parts of a roll in a sum as a roll; how many times."""
        pads: dict[tuple[ir.Value, int, int, bool], ir.Value] = {}
        count = 0
        for node in self._moves:
            if node.name != "jaxpr.pad" or self._filled(node) is None:
                continue
            (y,) = node.op.results
            place = self._rolled_part(node)
            if place is None:
                continue
            x, dim, by, is_first = place
            other = pads.pop((x, dim, by, not is_first), None)
            if other is None or not self._join(other, y, x, dim, by):
                pads[x, dim, by, is_first] = y
            else:
                count += 1
        return count

    def _rolled_part(self, node: OpNode) -> tuple[ir.Value, int, int, bool] | None:
        """Of ``pad(x[k:], 0, k)`` or ``pad(x[:k], n-k, 0)``: ``x``, the dimension, ``k``, and
        which of the two it is."""
        # Operands as they are now: they may be sums of which parts have been joined since.
        part = self.part(node.op.operands[0])
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

    def _join(self, first: ir.Value, second: ir.Value, x: ir.Value, dim: int, by: int) -> bool:
        """Writes a roll in the place of one part, and nothing in that of the other, if both are
        terms of one sum."""
        root = self._sum_of(first)
        if root is None or self._sum_of(second) != root:
            return False
        user = next(iter(second.uses)).owner
        if any(v.type != second.type for v in (*user.operands, *user.results)):
            return False
        op = self._nodes[first].op
        with ir.InsertionPoint(op), op.location:
            roll = _Roll(dim, by)
            (rolled,) = self._rules.emit(roll, [x], roll)
            first.replace_all_uses_with(converted(rolled, first.type))
        ((index, left),) = ((i, v) for i, v in enumerate(user.operands) if v != second)
        user.results[0].replace_all_uses_with(left)
        # It is dead, and shall not count as a user; what is erased must not be in a table.
        user.operands[index] = second
        return True

    def _sum_of(self, value: ir.Value) -> ir.Value | None:
        """The sum of which a value is a term."""
        found = None
        while True:
            users = [use.owner for use in value.uses]
            if len(users) != 1 or users[0].name not in _ADDITIONS:
                return found
            (found,) = users[0].results
            if found.type != value.type:
                return None
            value = found

    def groups(self, margin: float) -> list[_Group]:
        """The arrays to store with a margin, with their views."""
        views: dict[ir.Value, _View] = {}
        groups: dict[tuple[ir.Value, bytes | None], list[_View]] = collections.defaultdict(list)
        for node in self._moves:
            view = self._view(node, views)
            if view is None or elements(view.x.type) < max(1, self._min_elements):
                continue
            views[view.y] = view
            if _margin(view.x, view.margins()) <= margin and _is_fused(view.y):
                groups[view.x, view.fill].append(view)
        found = [_Group(x, fill, found) for (x, fill), found in groups.items()]
        return [group for group in found if group.pays(margin)]

    def _view(self, node: OpNode, views: dict[ir.Value, _View]) -> _View | None:
        if not is_plain_op(node):
            return None
        return self._roll(node, views) if node.name == "jaxpr.concatenate" else self._pad(node)

    def _roll(self, node: OpNode, views: dict[ir.Value, _View]) -> _View | None:
        """``concatenate(x[k:], x[:k])``; of what is rolled already, both rolls at once."""
        parts = [self.part(v) for v in node.operands]
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
        x, size, by = first.x, first.x.type.shape[dim], first.starts[dim]
        start = [0] * len(x.type.shape)
        start[dim] = by if 2 * by <= size else by - size
        before = views.get(x)
        if before is not None and before.fill is None:
            x, start = before.x, [a + b for a, b in zip(start, before.start, strict=True)]
        return _View(node.op.results[0], x, None, tuple(start))

    def _pad(self, node: OpNode) -> _View | None:
        """``pad(x, a, b)``, and ``pad(x[c:], a, b)`` where this shows nothing else."""
        fill = self._filled(node)
        if fill is None:
            return None
        config = node.get("padding_config")
        (x, _), start = node.operands, [-low for low, _, _ in config]
        part = self.part(x)
        if part is not None and all(
            (first == 0 or low <= 0) and (limit == size or high <= 0)
            for (low, high, _), first, limit, size in zip(
                config, part.starts, part.limits, part.x.type.shape, strict=True
            )
        ):
            x, start = part.x, [a + b for a, b in zip(start, part.starts, strict=True)]
        return _View(node.op.results[0], x, fill, tuple(start))

    def _filled(self, node: OpNode) -> bytes | None:
        """What an array is padded with, if it is a number, and at its sides only."""
        if any(interior for _, _, interior in node.get("padding_config")):
            return None
        value = toolbox.constant_value(self._rules.program, node.operands[1])
        return None if value is None else bytes(value.tobytes())


@dataclass(frozen=True)
class _Group:
    """The views of an array that goes on in one way."""

    x: ir.Value
    fill: bytes | None
    views: Sequence[_View]

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

    def write(self, rules: Rules, put: Callable[[ir.Value], ir.Value]) -> None:
        """Writes the array with its margin before the first view, and slices in place of all."""
        first = self.views[0].y.owner
        margins = self.margins()
        remark(
            first,
            f"{len(self.views)} shifts of one array are slices of it, stored with "
            f"{' x '.join(f'{a} + {b}' for a, b in margins)} elements around it",
        )
        with ir.InsertionPoint(first), first.location:
            if self.fill is None:
                wrap = _Wrap(margins)
                (wide,) = rules.emit(wrap, [self.x], wrap)
            else:
                pad = _Pad(margins)
                (wide,) = rules.emit(pad, [self.x, first.operands[1]], pad)
            wide = put(wide)
        for view in self.views:
            op = view.y.owner
            start = tuple([a + low for a, (low, _) in zip(view.start, margins, strict=True)])
            cut = _Cut(start, tuple(view.y.type.shape))
            with ir.InsertionPoint(op), op.location:
                (y,) = rules.emit(cut, [wide], cut)
                view.y.replace_all_uses_with(converted(y, view.y.type))


def _margin(x: ir.Value, margins: Sequence[tuple[int, int]]) -> float:
    """How much larger an array gets, or smaller a view of it is."""
    sizes = list(zip(x.type.shape, margins, strict=True))
    around = math.prod(max(1, n + abs(a) + abs(b)) for n, (a, b) in sizes)
    return around / math.prod(n for n, _ in sizes) - 1


def _is_fused(value: ir.Value) -> bool:
    """Whether an elementwise op reads a value."""
    return any(use.owner.name in _READERS for use in value.uses)


@dataclass(frozen=True)
class _Roll:
    """``y[i] = x[i + by]``, periodic along a dimension; hashable, as are the following."""

    dim: int
    by: int

    def __call__(self, x: Any) -> list[Any]:
        size, dim = x.shape[self.dim], self.dim
        parts = [lax.slice_in_dim(x, self.by, size, axis=dim)]
        parts.append(lax.slice_in_dim(x, 0, self.by, axis=dim))
        return [lax.concatenate(parts, dim)]


@dataclass(frozen=True)
class _Wrap:
    """A periodic array with some of what comes before and after."""

    margins: tuple[tuple[int, int], ...]

    def __call__(self, x: Any) -> list[Any]:
        for dim, (low, high) in reversed(list(enumerate(self.margins))):
            size = x.shape[dim]
            before = [lax.slice_in_dim(x, size - low, size, axis=dim)] if low else []
            after = [lax.slice_in_dim(x, 0, high, axis=dim)] if high else []
            if before or after:
                x = lax.concatenate([*before, x, *after], dim)
        return [x]


@dataclass(frozen=True)
class _Pad:
    """An array with numbers around it."""

    margins: tuple[tuple[int, int], ...]

    def __call__(self, x: Any, fill: Any) -> list[Any]:
        return [lax.pad(x, fill, [(low, high, 0) for low, high in self.margins])]


@dataclass(frozen=True)
class _Cut:
    """A box of an array."""

    start: tuple[int, ...]
    shape: tuple[int, ...]

    def __call__(self, x: Any) -> list[Any]:
        limits = [a + n for a, n in zip(self.start, self.shape, strict=True)]
        return [lax.slice(x, self.start, limits)]

"""Long loops in segments: the state is stored where a segment starts, the rest is computed again.

A loop of ``m k`` iterations becomes ``m`` iterations of a loop of ``k``; so does the loop that goes
over what it stacks.  In the outer pair, an iteration of the first is a whole loop, and whether its
stacked values are stored or computed again is a choice like any other: at best the outer loop
stores the carry, and the inner one is run again, its stacked values living for one segment only.
With ``m = k`` memory goes from ``n`` to ``2 sqrt(n)`` for one more run forwards (Chen et al. 2016),
and segments of segments take ``d n^(1/d)`` for ``d - 1`` runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jax import lax

from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.memory.remat.joint import Loop, Pair, replace_results
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.loops import stacked
from jaxmlir.transforms.new_function import NewFunction

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


@functools.cache
def segments(
    length: int, depth: int, per_segment: float, per_iteration: float
) -> tuple[int, float]:
    """How many segments make the least memory, and how much that is.

    Args:
      depth: how deep segments are nested; 0: there are none.
      per_segment: bytes stored at the start of a segment.
      per_iteration: bytes stored in each iteration of the innermost loop.
    """
    best = 0, length * per_iteration
    if depth and length >= 4:
        for count in range(2, length // 2 + 1):
            if count * per_segment >= best[1]:
                # So are more of them.
                break
            _, inner = segments(length // count, depth - 1, per_segment, per_iteration)
            # The iterations left over store as much as starts of segments.
            size = (count + length % count) * per_segment + inner
            if size < best[1]:
                best = count, size
    return best


def in_segments(rules: Rules, pair: Pair, count: int) -> list[Pair]:
    """Makes ``count`` segments of both loops of a pair, and a loop of the iterations left over."""
    length = pair.first.scan.length
    each = length // count
    parts = [_Part(0, count * each, count)]
    if count * each < length:
        parts.append(_Part(count * each, length, 1))
    views = _Views(rules, length)
    first, of_first = _rewrite(rules, pair.first, parts, views, pair.links)
    second, of_second = _rewrite(rules, pair.second, parts, views, pair.links)
    replace_results(pair, of_first, of_second)
    return [Pair(Loop(a), Loop(b)) for a, b in zip(first, second, strict=True)]


@dataclass(frozen=True)
class _Part:
    """Some iterations of a loop, as so many segments."""

    start: int
    stop: int
    count: int


class _Views:
    """The parts of stacked values, each written once."""

    def __init__(self, rules: Rules, length: int):
        self.rules = rules
        self.length = length
        self.known: dict[tuple[ir.Value, _Part], ir.Value] = {}

    def of(self, value: ir.Value, part: _Part) -> ir.Value:
        """A part of a stacked value: ``[count, iterations of a segment, ...]``."""
        key = value, part
        if key not in self.known:
            (self.known[key],) = self.rules.emit(
                functools.partial(_view, part, self.length), [value], ("remat", part, self.length)
            )
        return self.known[key]

    def whole(self, parts: Sequence[tuple[_Part, ir.Value]]) -> ir.Value:
        """The stacked value that has those parts."""
        args = [value for _, value in parts]
        key = tuple(part for part, _ in parts)
        (found,) = self.rules.emit(functools.partial(_whole, key), args, ("remat", key))
        return found


def _view(part: _Part, length: int, x: Any) -> list[Any]:
    if part.stop - part.start < length:
        x = lax.slice_in_dim(x, part.start, part.stop)
    if part.count > 1:
        x = lax.reshape(x, (part.count, (part.stop - part.start) // part.count, *x.shape[1:]))
    return [x]


def _whole(parts: tuple[_Part, ...], *xs: Any) -> list[Any]:
    flat = [
        lax.reshape(x, (part.stop - part.start, *x.shape[2:])) if part.count > 1 else x
        for part, x in zip(parts, xs, strict=True)
    ]
    return [lax.concatenate(flat, 0) if len(flat) > 1 else flat[0]]


def _rewrite(
    rules: Rules, loop: Loop, parts: Sequence[_Part], views: _Views, links: set[ir.Value]
) -> tuple[list[Any], list[ir.Value | None]]:
    """Writes the parts of a loop; their ops in the order of ``parts``, and what stands for the
    loop's results, but for the ``links``."""
    ops: dict[_Part, Any] = {}
    consts, carry, whole_slices = loop.operands
    with ir.InsertionPoint(loop.op), loop.op.location:
        for part in reversed(parts) if loop.scan.reverse else parts:
            scan = replace(loop.scan, length=(part.stop - part.start) // part.count)
            if part.count > 1:
                scan = replace(
                    scan,
                    body=_segment(rules, loop, scan),
                    length=part.count,
                    other={k: v for k, v in scan.other.items() if k != "unroll"},
                )
            slices = [views.of(v, part) for v in whole_slices]
            outs = scan.write(rules, [*consts, *carry, *slices])
            ops[part] = outs[0].owner
            carry, outs = split(outs, len(carry))
            views.known.update(((v, part), out) for v, out in zip(loop.stacked, outs, strict=True))
        whole = [
            views.whole([(part, views.known[v, part]) for part in parts])
            if v not in links and any(True for _ in v.uses)
            else None
            for v in loop.stacked
        ]
    return [ops[part] for part in parts], [*carry, *whole]


def _segment(rules: Rules, loop: Loop, scan: Any) -> str:
    """The body that runs a segment; its symbol."""
    body = rules.program.function(scan.body)
    consts, carry, slices = scan.operands([v.type for v in body.arguments])
    types = [*consts, *carry, *(stacked(t, scan.length) for t in slices)]
    new = NewFunction(rules, f"{scan.body}.segment", types, body)
    with new.body(), loop.op.location:
        outs = scan.write(rules, new.args)
    return new.finish(outs)

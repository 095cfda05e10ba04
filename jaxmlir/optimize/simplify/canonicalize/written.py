"""Reading what has just been written: arrays that are filled part by part, at known places.

A table that Python fills, ``v = v.at[i].set(f(v[i - 1]))``, is one array after another to JAX, each
a copy of the one before.  What is read of it is what was written there last, or what the array had
before; then nothing waits for the array as a whole, and the steps are seen to be alike.

Parts of one size that begin at multiples of it are the same or apart.  So what is known of an array
is a dictionary of such parts, which a chain of writes shares; reading costs a look-up.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import overwrites, window_sizes
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.simplify.canonicalize.movement import (
    is_static,
    shape_of,
    slice_attributes,
    slice_of,
)
from jaxmlir.optimize.simplify.canonicalize.rewriter import Node, Rewriter, Written, rewrite

MOST_PARTS = 64
"""Of how many parts it is found out whether one of them has been written."""


@dataclass(frozen=True)
class Write:
    """One write: ``update`` takes the place of a part of ``array``."""

    array: ir.Value
    update: ir.Value
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def first(self) -> tuple[int, ...]:
        return tuple([i % n for i, n in zip(self.starts, self.sizes, strict=True)])

    @property
    def place(self) -> tuple[int, ...]:
        return tuple([i // n for i, n in zip(self.starts, self.sizes, strict=True)])


@rewrite(
    "slice(scatter(x, c, y)) = slice(y) or slice(x) where the index c is a constant and what is "
    "taken is all in y, or none of it; also of dynamic_update_slice",
    "slice",
)
def slice_of_written(r: Rewriter, node: Node) -> list[ir.Value] | None:
    written = _written(r, node.operands[0])
    if written is None:
        return None
    starts, limits, strides = slice_of(node)
    if any(a >= b for a, b in zip(starts, limits, strict=True)):
        return None
    grid = list(zip(starts, limits, written.first, written.sizes, strict=True))
    low = tuple([(a - first) // n for a, _, first, n in grid])
    high = tuple([(b - 1 - first) // n for _, b, first, n in grid])
    found = written.parts.get(low) if low == high else None
    if found is not None:
        begins = [p * n + first for p, (_, _, first, n) in zip(low, grid, strict=True)]
        starts = tuple([a - b for a, b in zip(starts, begins, strict=True)])
        limits = tuple([a - b for a, b in zip(limits, begins, strict=True)])
        whole = ir.RankedTensorType.get(written.sizes, found.type.element_type)
        if found.type != whole:
            shape = {"new_sizes": codec.encode(written.sizes)}
            found = r.build("reshape", [found], whole, shape)
        if whole == node.type and not any(starts):
            return [found]
    elif _is_untouched(written, low, high):
        found = written.under
    else:
        return None
    return [r.build("slice", [found], node.type, slice_attributes(starts, limits, strides))]


def _is_untouched(written: Written, low: tuple[int, ...], high: tuple[int, ...]) -> bool:
    """Whether none of the parts from ``low`` to ``high`` has been written, and that is known."""
    ranges = [range(a, b + 1) for a, b in zip(low, high, strict=True)]
    count = 1
    for places in ranges:
        count *= len(places)
    if count <= MOST_PARTS:
        return written.parts.keys().isdisjoint(itertools.product(*ranges))
    if len(written.parts) > MOST_PARTS:
        return False
    return not any(
        all(p in places for p, places in zip(part, ranges, strict=True)) for part in written.parts
    )


def _written(r: Rewriter, array: ir.Value) -> Written | None:
    """What is known of an array; ``None`` if it is not what a write gives."""
    top = node = r.node(array)
    new: list[tuple[Node, Write]] = []
    while node is not None and node.written is None:
        write = _write(r, node)
        if write is None:
            break
        new.append((node, write))
        node = r.node(write.array)
    for node, write in reversed(new):
        before = r.node(write.array)
        written = before.written if before is not None else None
        extends = (
            written is not None
            and written.last is before
            and written.sizes == write.sizes
            and written.first == write.first
        )
        if not extends:
            written = Written(write.array, write.sizes, write.first, {}, node)
        written.parts[write.place] = write.update
        written.last = node
        node.written = written
    found = top.written if top is not None else None
    # Another write may have gone on from there.
    return found if found is not None and found.last is top else None


def _write(r: Rewriter, node: Node) -> Write | None:
    """The write that an op is, if it is known where, and within the array."""
    if node.name == "jaxpr.scatter" and overwrites(node.op):
        array, indices, update = node.operands
        numbers = node.get("dimension_numbers")
        found = _index(r, indices)
        if found is None or numbers.operand_batching_dims:
            return None
        starts = [0] * len(shape_of(array))
        for axis, start in zip(numbers.scatter_dims_to_operand_dims, found, strict=True):
            starts[axis] = start
        sizes = window_sizes(numbers, shape_of(update))
    elif node.name == "jaxpr.dynamic_update_slice":
        array, update, *indices = node.operands
        starts = [c for v in indices for c in (_index(r, v) or ())]
        sizes = list(shape_of(update))
    else:
        return None
    if len(starts) != len(sizes) or not (is_static(array) and is_static(update)):
        return None
    ends = [i + n for i, n in zip(starts, sizes, strict=True)]
    inside = all(0 <= i for i in starts) and all(
        e <= d for e, d in zip(ends, shape_of(array), strict=True)
    )
    if not inside or not all(sizes):
        return None
    return Write(array, update, tuple(starts), tuple(sizes))


def _index(r: Rewriter, value: ir.Value) -> list[int] | None:
    """The integers of a constant scalar or vector, also of one that is put together."""
    if len(shape_of(value)) > 1 or not is_static(value):
        return None
    joined = r.producer(value, "concatenate")
    if joined is not None:
        pieces = [_index(r, v) for v in joined.operands]
        return None if any(p is None for p in pieces) else [i for p in pieces for i in p]
    array = r.constant_of(value)
    if array is not None:
        return [int(i) for i in array.reshape(-1)]
    number = r.number_of(value)
    return None if number is None else [int(number)] * aval_of(value.type).size

"""Rewrites of gathers and scatters, which read and write where arrays of indices say.

A row of the indices has one number for each dimension in ``start_index_map``, and along a batching
dimension every row has its own part of the operand.
"""

from __future__ import annotations

from jax import lax

from jaxmlir.analysis.function_view import counts_along
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.optimize.simplify.canonicalize.movement import encoded, is_static, shape_of
from jaxmlir.optimize.simplify.canonicalize.rewriter import Node, Rewriter, kind_of, rewrite

_ALWAYS_INSIDE = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


@rewrite(
    "gather(x, i) = broadcast_in_dim(x) where the dimensions that i is for are taken whole, in the "
    "modes that fill nothing in",
    "gather",
)
def gather_of_all(r: Rewriter, node: Node) -> list[ir.Value] | None:
    x, indices = node.operands
    if not all(map(is_static, (x, indices, node.results[0]))):
        return None
    if node.get("mode") not in _ALWAYS_INSIDE:
        return None
    sizes, numbers = node.get("slice_sizes"), node.get("dimension_numbers")
    shape, result = shape_of(x), shape_of(node.results[0])
    # Where the dimensions of the operand are in the result.
    collapsed, batching = numbers.collapsed_slice_dims, numbers.operand_batching_dims
    batch = [d for d in range(len(result)) if d not in numbers.offset_dims]
    place = {
        d: batch[i] for d, i in zip(batching, numbers.start_indices_batching_dims, strict=True)
    }
    kept = [d for d in range(len(shape)) if d not in collapsed and d not in place]
    place.update(zip(kept, numbers.offset_dims, strict=True))
    dimensions = tuple(place[d] for d in sorted(place))
    whole = all(sizes[d] == shape[d] for d in (*kept, *collapsed))
    if not whole or list(dimensions) != sorted(dimensions):
        return None
    if collapsed:
        aval = aval_of(x.type)
        type_ = type_of(aval.update(shape=tuple(shape[d] for d in sorted(place))))
        x = r.build("squeeze", [x], type_, encoded(dimensions=tuple(collapsed)))
    attributes = encoded(shape=result, broadcast_dimensions=dimensions)
    return [r.build("broadcast_in_dim", [x], node.type, attributes)]


@rewrite(
    "gather(x, concatenate(iota, i)) = gather(x, i) where only the iota numbers what x has along a "
    "dimension, which is a batching dimension then; also of scatters",
    "gather",
    *(f"scatter{kind}" for kind in ("", "_add", "_sub", "_mul", "_min", "_max")),
)
def row_numbers_are_batches(r: Rewriter, node: Node) -> list[ir.Value] | None:
    x, indices, *rest = node.operands
    joined = r.producer(indices, "concatenate")
    if joined is None or not is_static(x) or not is_static(indices):
        return None
    shape, numbers = shape_of(x), node.get("dimension_numbers")
    rank = len(shape_of(indices)) - 1
    pieces = joined.operands
    if joined.get("dimension") != rank or any(shape_of(v)[rank] != 1 for v in pieces):
        return None
    names = _GATHER if node.name == "jaxpr.gather" else _SCATTER
    gone, mapped, *pairs = (getattr(numbers, name) for name in names)
    batches = dict(zip(*pairs, strict=True))
    found = [numbered(r, piece) for piece in pieces]
    taken: dict[int, int] = {}
    for along, d in zip(found, mapped, strict=True):
        # A dimension that two number is that of a diagonal.
        if (
            along not in (None, rank)
            and along not in batches.values()
            and found.count(along) == 1
            and d in gone
            and shape[d] == shape_of(indices)[along]
            and len(taken) < len(mapped) - 1
        ):
            taken[d] = along
    if not taken:
        return None
    pieces = [piece for piece, d in zip(pieces, mapped, strict=True) if d not in taken]
    if len(pieces) > 1:
        aval = aval_of(indices.type)
        type_ = type_of(aval.update(shape=(*aval.shape[:rank], len(pieces))))
        left = r.build("concatenate", pieces, type_, joined.attributes)
    else:
        (left,) = pieces
    batches = dict(sorted({**batches, **taken}.items()))
    sets = (
        *([d for d in dims if d not in taken] for dims in (gone, mapped)),
        *(batches.keys(), batches.values()),
    )
    numbers = numbers._replace(**{k: tuple(v) for k, v in zip(names, sets, strict=True)})
    attributes = {**node.attributes, **encoded(dimension_numbers=numbers)}
    # Said of all indices, and not of those of one batch.
    attributes.pop("indices_are_sorted", None)
    kind = node.name.removeprefix("jaxpr.")
    return [r.build(kind, [x, left, *rest], node.type, attributes)]


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
    """The dimension along which integers are 0, 1, 2 ..., and the same along all others."""
    is_integer = kind_of(value.type) == "integer" and is_static(value)
    return counts_along(value, r.node) if is_integer else None

"""Gathers and scatters of a single window as ``dynamic_slice`` and ``dynamic_update_slice``.

``x[i]`` and ``x.at[i].set(u)`` with one index are written by JAX as either, with a mode that says
what becomes of indices out of bounds.  Where these are known to be in bounds, or the mode moves
them inside, all of them are::

    gather(x, i) = dynamic_slice(x, i)
    scatter(x, i, u) = dynamic_update_slice(x, u, i)
    scatter_add(x, i, u) = dynamic_update_slice(x, dynamic_slice(x, i) + u, i)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import filled, overwrites, window_sizes
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, record_of, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.raise_loops.accesses import Access, is_retyped
from jaxmlir.optimize.loops.raise_loops.known import Bounds, Known, bounds_of
from jaxmlir.optimize.loops.raise_loops.rows import dynamic_slice, dynamic_update_slice
from jaxmlir.toolbox import replace

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def simplify_windows(
    rules: Rules, ops: Sequence[tuple[Any, str]], known: Known, arrays: set[ir.Value]
) -> dict[ir.Value, Access]:
    """Rewrites the gathers and scatters of a body; what scatters that combine do, by result.

    Args:
      ops: of the body, with their names.
      arrays: those of which they are rewritten; what is scattered into one is one as well.
    """
    arrays = set(arrays)
    combined: dict[ir.Value, Access] = {}
    for op, name in ops:
        if name not in _WINDOWS:
            continue
        operands = list(op.operands)
        if operands[0] not in arrays:
            continue
        if name == "jaxpr.convert_element_type":
            if is_retyped(op, name):
                arrays.add(op.results[0])
        elif name == "jaxpr.gather":
            _gather(rules, op, operands, known)
        elif name == "jaxpr.dynamic_update_slice":
            arrays.add(op.results[0])
        elif name == "jaxpr.scatter":
            found = _scatter(rules, op, operands, known)
            if found is not None:
                arrays.add(found)
        else:
            access = _combined(rules, op, name, operands, known)
            if access is not None:
                combined[access.result] = access
                arrays.add(access.result)
    return combined


_WINDOWS = with_trait(Trait.UPDATE) | {"jaxpr.convert_element_type", "jaxpr.gather"}


def _gather(rules: Rules, op: Any, operands: Sequence[ir.Value], known: Known) -> None:
    x, index = operands
    numbers = codec.decode(op.attributes["dimension_numbers"])
    sizes = tuple(codec.decode(op.attributes["slice_sizes"]))
    if getattr(numbers, "operand_batching_dims", ()):
        return
    pieces = _single(op, x, index, known, numbers.start_index_map, sizes)
    if pieces is None:
        return
    targets, gone = tuple(numbers.start_index_map), tuple(numbers.collapsed_slice_dims)

    def slice_(x: Any, *index: Any) -> list[Any]:
        from jax import lax

        piece = dynamic_slice(x, _starts(index, targets, x.ndim), sizes)
        return [lax.squeeze(piece, gone)]

    _replace(rules, op, slice_, [x], pieces, ("window", targets, gone, sizes))


def _scatter(rules: Rules, op: Any, operands: Sequence[ir.Value], known: Known) -> ir.Value | None:
    x, _, update = operands
    window = _window(op, operands, known) if overwrites(op) else None
    if window is None:
        return None
    targets, sizes, pieces = window

    def put(x: Any, update: Any, *index: Any) -> list[Any]:
        from jax import lax

        return [
            dynamic_update_slice(x, lax.reshape(update, sizes), _starts(index, targets, x.ndim))
        ]

    return _replace(rules, op, put, [x, update], pieces, ("put_window", targets, sizes))


def _combined(
    rules: Rules, op: Any, name: str, operands: Sequence[ir.Value], known: Known
) -> Access | None:
    x = operands[0]
    window = _window(op, operands, known)
    if window is None:
        return None
    targets, sizes, pieces = window
    with ir.InsertionPoint(op), op.location:
        at = _components(rules, pieces)
        zero = filled(at[0].type, 0)
    shape = tuple(aval_of(x.type).shape)
    starts = tuple(at[targets.index(d)] if d in targets else zero for d in range(len(shape)))
    return Access(op, x, starts, sizes, shape, True, record_of(name).combine)


def _window(
    op: Any, operands: Sequence[ir.Value], known: Known
) -> tuple[tuple[int, ...], tuple[int, ...], list[ir.Value]] | None:
    """Which dimensions the index of a scatter is of, the sizes of the only window, and what the
    index is put together from."""
    x, index, update = operands
    numbers = codec.decode(op.attributes["dimension_numbers"])
    if getattr(numbers, "operand_batching_dims", ()) or update == x:
        return None
    sizes = tuple(window_sizes(numbers, aval_of(update.type).shape))
    targets = tuple(numbers.scatter_dims_to_operand_dims)
    if len(sizes) != len(aval_of(x.type).shape) or 0 in sizes:
        return None
    pieces = _single(op, x, index, known, targets, sizes)
    return None if pieces is None else (targets, sizes, pieces)


def _single(
    op: Any,
    x: ir.Value,
    index: ir.Value,
    known: Known,
    targets: Sequence[int],
    sizes: Sequence[int],
) -> list[ir.Value] | None:
    """What the index of a gather or scatter is put together from that has one window, which is
    where that says; ``None`` of others."""
    shape = aval_of(x.type).shape
    # The index of a whole array, as `x[:]` has it, is of no dimension.
    if len(aval_of(index.type).shape) != 1 or not targets:
        return None
    pieces = _pieces(index)
    bounds = _bounds(pieces, known)
    if bounds is None:
        return None
    mode = codec.decode(op.attributes["mode"])
    is_inside = mode.name == "CLIP" or (
        mode.name in ("FILL_OR_DROP", "PROMISE_IN_BOUNDS")
        and all(
            # What is of a symbolic size may be smaller.
            least >= 0 and isinstance(shape[d], int) and greatest + sizes[d] <= shape[d]
            for (least, greatest), d in zip(bounds, targets, strict=True)
        )
    )
    return pieces if is_inside else None


def _bounds(pieces: Sequence[ir.Value], known: Known) -> list[Bounds] | None:
    """The least and the greatest of each scalar that an index is made of, if they are known."""
    found: list[Bounds] = []
    for piece in pieces:
        shape = aval_of(piece.type).shape
        if not shape:
            bounds = known.bounds(piece)
            if bounds is None:
                return None
            found.append(bounds)
        else:
            array = known.get(piece)
            if array is None:
                return None
            found += [bounds_of(array[..., i]) for i in range(*shape)]
    return found


def _starts(index: Sequence[Any], targets: Sequence[int], rank: int) -> list[Any]:
    import numpy as np

    zero = np.zeros((), index[0].dtype)
    return [index[targets.index(d)] if d in targets else zero for d in range(rank)]


def _pieces(index: ir.Value) -> list[ir.Value]:
    """What an index is put together from: scalars, and vectors that are given as such."""
    owner = index.owner
    if not isinstance(owner, ir.Block):
        if owner.name == "jaxpr.concatenate":
            return [v for piece in owner.operands for v in _pieces(piece)]
        if owner.name in ("jaxpr.broadcast_in_dim", "jaxpr.reshape"):
            (scalar,) = owner.operands
            if not aval_of(scalar.type).shape and aval_of(index.type).shape == (1,):
                return [scalar]
    return [index]


def _components(rules: Rules, pieces: Sequence[ir.Value]) -> list[ir.Value]:
    """The scalars that an index is made of."""
    found: list[ir.Value] = []
    for piece in pieces:
        shape = aval_of(piece.type).shape
        found += _scalars(rules, piece, *shape) if shape else [piece]
    return found


def _scalars(rules: Rules, vector: ir.Value, count: int) -> list[ir.Value]:
    key = ("components", count)
    return rules.emit(lambda x: [_scalar(x, i) for i in range(count)], [vector], key)


def _replace(
    rules: Rules,
    op: Any,
    function: Any,
    arrays: Sequence[ir.Value],
    pieces: Sequence[ir.Value],
    key: Any,
) -> ir.Value | None:
    """Writes what a function makes of the arrays and the scalars of the index instead of an op."""
    with ir.InsertionPoint(op), op.location:
        values = rules.emit(function, [*arrays, *_components(rules, pieces)], key)
    if values[0].type != op.results[0].type:
        return None
    replace(op, values)
    return values[0]


def _scalar(x: Any, i: int) -> Any:
    from jax import lax

    return lax.index_in_dim(x, i, 0, keepdims=False)

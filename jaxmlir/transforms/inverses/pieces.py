"""Writing the ops that take arrays apart and put pieces together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.dialect.ir import ir
from jaxmlir.transforms.inverses.knowledge import Box, Knowledge, box_of, joined_along

Emit = Callable[[Any, Callable[..., Any], Sequence[ir.Value]], list[ir.Value]]
"""``(key, function, values)``: the ops of a JAX function, kept under a key that tells it apart."""


def take(emit: Emit, value: ir.Value, shape: tuple[int, ...], positions: np.ndarray) -> ir.Value:
    """The elements at flat positions of an array, in the shape of ``positions``."""
    wanted = positions.shape
    size = int(np.prod(shape))
    if positions.size == size and (positions.ravel() == np.arange(size)).all():
        return reshape(emit, value, shape, wanted)
    box = box_of(positions, shape)
    if box is not None:
        return emit(("slice", box, wanted), lambda x: [_slice(x, box).reshape(wanted)], [value])[0]
    # A box whose dimensions, or the order along them, are others.
    for axes, reversed_ in _rearrangements(len(wanted), len(shape)):
        back = np.flip(positions, reversed_).transpose(np.argsort(axes))
        box = box_of(back, shape)
        if box is not None:

            def rearranged(x: Any, box: Box = box, axes: Any = axes, rev: Any = reversed_) -> Any:
                x = _slice(x, box).transpose(axes) if box.shape else x
                return [lax.rev(x, rev) if rev else x]

            return emit(("rearranged", box, axes, reversed_), rearranged, [value])[0]

    def gathered(x: Any) -> Any:
        return [x.reshape(-1)[positions]]

    return emit(("gathered", wanted, positions.tobytes()), gathered, [value])[0]


def _rearrangements(wanted: int, ndim: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    if wanted != ndim or not ndim:
        return []
    same = tuple(range(ndim))
    found = [(same, (d,)) for d in same]
    if ndim == 2:
        found.append(((1, 0), ()))
    return found


def _slice(x: Any, box: Box) -> Any:
    whole = (0,) * x.ndim == box.starts and box.stops == x.shape and set(box.strides) <= {1}
    if whole:
        return x
    return lax.slice(x, box.starts, box.stops, None if set(box.strides) == {1} else box.strides)


def reshape(emit: Emit, value: ir.Value, shape: Any, wanted: Any) -> ir.Value:
    if tuple(shape) == tuple(wanted):
        return value
    return emit(("reshape", wanted), lambda x: [x.reshape(wanted)], [value])[0]


def join(emit: Emit, knowledge: Knowledge, where: np.ndarray) -> ir.Value | None:
    """The elements ``where`` out of the pieces that hold them; ``None`` where one is unknown."""
    if knowledge.whole is not None:
        return take(emit, knowledge.whole, knowledge.shape, where)
    held = knowledge.holders(where)
    if not held:
        return None
    values = []
    for piece, to, at in held:
        shape = where.shape if len(held) == 1 else (to.size,)
        values.append(take(emit, piece.value, piece.where.shape, at.reshape(shape)))
    if len(values) == 1:
        return values[0]
    places = [to for _, to, _ in held]
    boxes = [box_of(to, where.shape) for to in places]
    along = None
    if all(box is not None for box in boxes):
        along = joined_along(boxes, where.shape)
    if along is not None:
        dimension, order = along

        def joined(*xs: Any) -> Any:
            parts = [xs[i].reshape(boxes[i].shape) for i in order]
            return [lax.concatenate(parts, dimension)]

        return emit(("joined", dimension, tuple(order), tuple(boxes)), joined, values)[0]

    # Interleaved pieces: one after the other, in the order of the indices.
    order = np.argsort(np.concatenate(places))

    def interleaved(*xs: Any) -> Any:
        return [lax.concatenate(xs, 0)[order].reshape(where.shape)]

    return emit(("interleaved", where.shape, order.tobytes()), interleaved, values)[0]

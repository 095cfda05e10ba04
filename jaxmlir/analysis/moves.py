"""Ops that only move elements, evaluated in numpy.

Applied to arrays, the functions give the results of an op.  Applied to the indices of the operands'
elements, they say which element each element of a result is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Move:
    """The evaluation of an op: ``(*operands, **attributes) -> results``."""

    run: Callable[..., Sequence[np.ndarray]]
    attributes: tuple[str, ...] = ()


def _broadcast(x: np.ndarray, *, shape: Any, broadcast_dimensions: Any) -> np.ndarray:
    sizes = [1] * len(shape)
    for d, size in zip(broadcast_dimensions, x.shape, strict=True):
        sizes[d] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def _reshape(x: np.ndarray, *, new_sizes: Any, dimensions: Any) -> np.ndarray:
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


def _slice(x: np.ndarray, *, start_indices: Any, limit_indices: Any, strides: Any) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _pad(x: np.ndarray, fill: np.ndarray, *, padding_config: Any) -> np.ndarray:
    for d, (low, high, interior) in enumerate(padding_config):
        if not (low or high or interior):
            continue
        have = x.shape[d]
        places = low + (interior + 1) * np.arange(have)
        size = low + max(have + (have - 1) * interior, 0) + high
        result = np.full((*x.shape[:d], size, *x.shape[d + 1 :]), fill, x.dtype)
        inside = (places >= 0) & (places < size)
        result[(slice(None),) * d + (places[inside],)] = np.compress(inside, x, d)
        x = result
    return x


def _split(x: np.ndarray, *, sizes: Any, axis: int) -> list[np.ndarray]:
    return list(np.split(x, np.cumsum(sizes)[:-1], axis))


def _window(shape: Any, indices: Any, sizes: Any) -> tuple[slice, ...]:
    """The window of a dynamic slice, with indices clamped."""
    starts = [min(max(int(i), 0), n - s) for i, n, s in zip(indices, shape, sizes, strict=True)]
    return tuple(slice(i, i + s) for i, s in zip(starts, sizes, strict=True))


def _dynamic_slice(x: np.ndarray, *indices: np.ndarray, slice_sizes: Any) -> np.ndarray:
    return x[_window(x.shape, indices, slice_sizes)]


def _dynamic_update_slice(x: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[_window(x.shape, indices, update.shape)] = update
    return x


def select(which: np.ndarray, *cases: np.ndarray) -> list[np.ndarray]:
    """The result of a ``select_n``.  As in JAX's lowering, a number out of range selects the first
    or the last case."""
    which = np.broadcast_to(which, cases[0].shape).astype(int).clip(0, len(cases) - 1)
    # Not `np.choose`, which takes no more than 64.
    return [np.take_along_axis(np.stack(cases), which[None], 0)[0]]


def _one(run: Callable[..., np.ndarray], *attributes: str) -> Move:
    return Move(lambda *xs, **named: [run(*xs, **named)], attributes)


MOVES: dict[str, Move] = {
    "broadcast_in_dim": _one(_broadcast, "shape", "broadcast_dimensions"),
    "concatenate": _one(lambda *xs, dimension: np.concatenate(xs, dimension), "dimension"),
    "copy": _one(lambda x: x),
    "dynamic_slice": _one(_dynamic_slice, "slice_sizes"),
    "dynamic_update_slice": _one(_dynamic_update_slice),
    "pad": _one(_pad, "padding_config"),
    "reshape": _one(_reshape, "new_sizes", "dimensions"),
    "rev": _one(lambda x, *, dimensions: np.flip(x, dimensions), "dimensions"),
    "slice": _one(_slice, "start_indices", "limit_indices", "strides"),
    "split": Move(_split, ("sizes", "axis")),
    "squeeze": _one(lambda x, *, dimensions: np.squeeze(x, dimensions), "dimensions"),
    "stack": _one(lambda *xs, axis: np.stack(xs, axis), "axis"),
    "tile": _one(lambda x, *, reps: np.tile(x, reps), "reps"),
    "transpose": _one(lambda x, *, permutation: x.transpose(permutation), "permutation"),
    "unstack": Move(lambda x, *, axis: list(np.moveaxis(x, axis, 0)), ("axis",)),
}
"""By the op's name in the dialect."""

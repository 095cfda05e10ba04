"""What ops that only move elements do, in numpy: run on numbers of elements, an op tells which
element of its operands each of its results is; run on arrays, what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxmlir.interpret.interpreter import Node

Move = Callable[[Node, Sequence[np.ndarray]], "list[np.ndarray] | None"]
"""The results of an op; ``None`` where only JAX knows them."""


def _one(move: Callable[[Node, np.ndarray], np.ndarray]) -> Move:
    return lambda node, operands: [move(node, operands[0])]


def _broadcast(node: Node, x: np.ndarray) -> np.ndarray:
    shape, dims = node.get("shape"), node.get("broadcast_dimensions")
    sizes = [1] * len(shape)
    for d, size in zip(dims, x.shape, strict=True):
        sizes[d] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def _reshape(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    if node.name == "jaxpr.reshape" and node.get("dimensions") is not None:
        return None
    return [operands[0].reshape(node.avals()[0].shape)]


def _slice(node: Node, x: np.ndarray) -> np.ndarray:
    starts, limits = node.get("start_indices"), node.get("limit_indices")
    strides = node.get("strides") or (1,) * x.ndim
    return x[tuple(map(slice, starts, limits, strides))]


def _pad(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    x, fill = operands
    shape = node.avals()[0].shape
    result = np.full(shape, fill, x.dtype)
    to, of = [], []
    for (low, _, interior), have, want in zip(
        node.get("padding_config"), x.shape, shape, strict=True
    ):
        places = low + (interior + 1) * np.arange(have)
        kept = (places >= 0) & (places < want)
        to.append(places[kept])
        of.append(np.flatnonzero(kept))
    result[np.ix_(*to)] = x[np.ix_(*of)]
    return [result]


def _split(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    ends = np.cumsum(node.get("sizes"))[:-1]
    return list(np.split(operands[0], ends, node.get("axis")))


def _unstack(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    axis = node.get("axis")
    return [np.take(operands[0], i, axis) for i in range(operands[0].shape[axis])]


def _window(
    indices: Sequence[np.ndarray], sizes: Sequence[int], shape: Sequence[int]
) -> tuple[slice, ...]:
    """The part that a dynamic slice reads: its indices are clamped."""
    starts = [
        int(np.clip(int(start), 0, have - size))
        for start, size, have in zip(indices, sizes, shape, strict=True)
    ]
    return tuple(slice(a, a + size) for a, size in zip(starts, sizes, strict=True))


def _dynamic_slice(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    x, *indices = operands
    return [x[_window(indices, node.get("slice_sizes"), x.shape)]]


def _dynamic_update_slice(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    x, update, *indices = operands
    result = x.copy()
    result[_window(indices, update.shape, x.shape)] = update
    return [result]


MOVES: dict[str, Move] = {
    "broadcast_in_dim": _one(_broadcast),
    "concatenate": lambda node, xs: [np.concatenate(xs, node.get("dimension"))],
    "copy": _one(lambda node, x: x),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _one(lambda node, x: np.flip(x, node.get("dimensions"))),
    "slice": _one(_slice),
    "split": _split,
    "squeeze": _reshape,
    "stack": lambda node, xs: [np.stack(xs, node.get("axis"))],
    "tile": _one(lambda node, x: np.tile(x, node.get("reps"))),
    "transpose": _one(lambda node, x: np.transpose(x, node.get("permutation"))),
    "unstack": _unstack,
}
"""By the op's name in the dialect."""


def _iota(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    (aval,) = node.avals()
    d = node.get("dimension")
    sizes = [size if i == d else 1 for i, size in enumerate(aval.shape)]
    line = np.arange(aval.shape[d]).astype(aval.dtype).reshape(sizes)
    return [np.broadcast_to(line, aval.shape)]


def _convert(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    (aval,), (x,) = node.avals(), operands
    # What becomes of numbers that the new type does not hold, only the backend knows.
    if x.dtype.kind not in "biu" or aval.dtype.kind not in "biuf":
        return None
    return [x.astype(aval.dtype)]


def _select(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    which, *cases = operands
    return [np.where(which, cases[1], cases[0])] if len(cases) == 2 else None


def _ufunc(function: Callable[..., Any]) -> Move:
    return lambda node, operands: [np.asarray(function(*operands))]


_UFUNCS = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "sub": np.subtract,
}

VALUES: dict[str, Move] = {
    **MOVES,
    **{name: _ufunc(function) for name, function in _UFUNCS.items()},
    "convert_element_type": _convert,
    "iota": _iota,
    "select_n": _select,
}
"""Ops whose value numpy computes as every backend does; others are compiled."""

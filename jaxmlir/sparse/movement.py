"""Ops that only move elements, evaluated in numpy.  Applied to the numbers of the operands'
elements, an op gives the source of each element of the result; applied to arrays, its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxmlir.analysis import moves
from jaxmlir.analysis.moves import Move
from jaxmlir.interpret.interpreter import Node

Evaluate = Callable[[Node, Sequence[np.ndarray]], "list[np.ndarray] | None"]
"""A function that gives the results of an op, or ``None`` if only JAX can compute them."""


def _of(move: Move) -> Evaluate:
    return lambda node, operands: list(
        move.run(*operands, **{name: node.get(name) for name in move.attributes})
    )


MOVES: dict[str, Evaluate] = {name: _of(move) for name, move in moves.MOVES.items()}
"""The movement ops, by name without the prefix of the dialect."""


def _iota(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    (aval,) = node.avals()
    line = np.indices(aval.shape, sparse=True)[node.get("dimension")]
    return [np.broadcast_to(line.astype(aval.dtype), aval.shape)]


def _convert(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    (aval,), (x,) = node.avals(), operands
    # The result for numbers outside the range of the new type depends on the backend.
    if x.dtype.kind not in "biu" or aval.dtype.kind not in "biuf":
        return None
    return [x.astype(aval.dtype)]


def _ufunc(function: Callable[..., Any]) -> Evaluate:
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

VALUES: dict[str, Evaluate] = {
    **MOVES,
    **{name: _ufunc(function) for name, function in _UFUNCS.items()},
    "convert_element_type": _convert,
    "iota": _iota,
    "select_n": lambda node, operands: moves.select(*operands),
}
"""The ops for which numpy computes the same value as every backend; others are compiled."""

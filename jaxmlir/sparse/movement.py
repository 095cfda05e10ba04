"""Ops that only move elements, evaluated in numpy.  Applied to the numbers of the operands'
elements, an op gives the source of each element of the result; applied to arrays, its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jaxmlir.analysis import moves
from jaxmlir.analysis.arithmetic import FLOATS, INTEGERS, functions_of
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


def _exact(name: str) -> Evaluate:
    def evaluate(node: Node, operands: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        function = functions_of(operands[0].dtype).get(name)
        result = None if function is None else function(*operands)
        return None if result is None else [np.asarray(result)]

    return evaluate


VALUES: dict[str, Evaluate] = {
    **MOVES,
    **{name: _exact(name) for name in FLOATS | INTEGERS},
    "convert_element_type": _convert,
    "iota": _iota,
    "select_n": lambda node, operands: moves.select(*operands),
}
"""The ops for which numpy computes the same value as every backend; others are compiled."""

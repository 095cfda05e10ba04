"""The ops of a function that move elements, and what they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jaxmlir import toolbox
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.ir import func, ir

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

MOVES = frozenset({"jaxpr.concatenate", "jaxpr.pad"})
_PARTS = frozenset({"jaxpr.slice", "jaxpr.split"})


@dataclass(frozen=True)
class Part:
    """A box of an array: ``x[starts[0] : limits[0], ...]``."""

    x: ir.Value
    starts: tuple[int, ...]
    limits: tuple[int, ...]

    def differs_along(self) -> list[int]:
        """The dimensions along which it is not all of the array."""
        bounds = zip(self.starts, self.limits, self.x.type.shape, strict=True)
        return [d for d, (a, b, n) in enumerate(bounds) if (a, b) != (0, n)]


class Moves:
    """The concatenations and padded arrays of a function, and the slices that these are of.

    Attributes:
      nodes: the ops by their results.
      order: the concatenations and padded arrays, in the order of the function.
    """

    def __init__(self, program: Module, function: func.FuncOp):
        self._program = program
        self.nodes: dict[ir.Value, OpView] = {}
        self.order: list[OpView] = []
        for node in ops_of(function):
            if node.name in MOVES or node.name in _PARTS:
                self.nodes.update((v, node) for v in node.op.results)
                if node.name in MOVES:
                    self.order.append(node)

    def part(self, value: ir.Value) -> Part | None:
        """The box that a slice or a result of a split is."""
        node = self.nodes.get(value)
        if node is None or not is_plain_op(node):
            return None
        if node.name == "jaxpr.slice":
            if any(stride != 1 for stride in node.get("strides") or ()):
                return None
            starts, limits = node.get("start_indices"), node.get("limit_indices")
            return Part(node.op.operands[0], tuple(starts), tuple(limits))
        if node.name == "jaxpr.split":
            x, axis = node.op.operands[0], node.get("axis")
            index = list(node.op.results).index(value)
            first = sum(node.get("sizes")[:index])
            starts, limits = [0] * len(x.type.shape), list(x.type.shape)
            starts[axis], limits[axis] = first, first + node.get("sizes")[index]
            return Part(x, tuple(starts), tuple(limits))
        return None

    def filled(self, node: OpView) -> bytes | None:
        """What an array is padded with, if it is a number, and at its sides only."""
        value = self._number(node)
        return None if value is None else bytes(value.tobytes())

    def has_zeros(self, node: OpView) -> bool:
        """Whether that is a zero."""
        value = self._number(node)
        return value is not None and bool((value == 0).all())

    def _number(self, node: OpView) -> np.ndarray | None:
        if not is_plain_op(node) or any(interior for *_, interior in node.get("padding_config")):
            return None
        return toolbox.constant_value(self._program, node.operands[1])

"""Undoes the broadcasts that JAX's lowering writes for ops that broadcast their operands.

Elementwise ops of StableHLO take operands of one shape. Those of the dialect also take scalars and
dimensions of size 1: JAX traces this form, and its derivatives and our passes know it best. JAX
traces two broadcasts, one to dimensions of size 1 and one that the op does by itself, where other
programs write a single broadcast of an array that lacks dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxmlir.dialect.ir import ir
from jaxmlir.raising.source import attribute, shape_of, tensor

BROADCASTING = frozenset(
    f"stablehlo.{name}"
    for name in "add and atan2 compare complex divide maximum minimum multiply or power remainder "
    "shift_left shift_right_arithmetic shift_right_logical subtract xor".split()
)
"""Ops of several operands whose counterparts in the dialect broadcast them."""

BROADCASTS = frozenset(("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"))


class Broadcasts:
    """The broadcasts of a function that an op of :data:`BROADCASTING` can do by itself.

    Args:
      broadcast: writes a broadcast of a value to a type, along given dimensions.
    """

    def __init__(self, broadcast: Callable[[ir.Value, ir.Type, Sequence[int]], ir.Value]) -> None:
        self._operands: dict[ir.Value, ir.Value] = {}
        self._lacking: dict[ir.Value, tuple[ir.Value, list[int]]] = {}
        self._broadcast = broadcast

    def note(self, op: Any, operand: ir.Value, result: ir.Value) -> None:
        """Remembers an op of :data:`BROADCASTS`, if it keeps the order of the dimensions.

        Args:
          operand, result: the dialect's values; a result that is a size may be no broadcast.
        """
        rank = len(shape_of(operand))
        dims = list(attribute(op, "broadcast_dimensions"))
        if not rank or (rank == len(shape_of(result)) and dims == list(range(rank))):
            self._operands[result] = operand
        elif dims == sorted(dims):
            self._lacking[result] = operand, dims

    def undone(self, values: list[ir.Value]) -> list[ir.Value]:
        """The operands of an op of :data:`BROADCASTING` before they were broadcast, as far as that
        keeps the op's shape."""
        sources = self._operands
        for value in values if self._lacking else ():
            if value not in self._lacking:
                continue
            operand, dims = self._lacking.pop(value)
            sizes = dict(zip(dims, shape_of(operand), strict=True))
            shape = [sizes.get(d, 1) for d in range(len(shape_of(value)))]
            type_ = tensor(shape, value.type.element_type)
            sources[value] = self._broadcast(operand, type_, dims)
        are_broadcast = [v in sources for v in values]
        if not any(are_broadcast):
            return values
        narrow = [sources.get(v, v) for v in values]
        if not all(are_broadcast):
            return narrow
        shape = shape_of(values[0])
        # If together they do not have the whole shape, the first one stays broadcast.
        shapes = [s for v in narrow if (s := shape_of(v))]
        same = shapes and tuple(map(_common, zip(*shapes, strict=True))) == shape
        return narrow if same else [values[0], *narrow[1:]]


def _common(sizes: Sequence[Any]) -> Any:
    """The size that a dimension of these sizes is broadcast to."""
    return next((size for size in sizes if size != 1), 1)

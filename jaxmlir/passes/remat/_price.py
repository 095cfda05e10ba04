"""What it costs to compute a value again, and to store it: nanoseconds on a CPU core.

All constants of the choice are here.  They were fitted to the CPU time of scans compiled by XLA
that differ in one thing (``python -m benchmarks.remat --calibrate`` measures them anew), and only
their ratios matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from jaxmlir import ops
from jaxmlir._plans import Node
from jaxmlir.ir import ir
from jaxmlir.passes._build import may_have_functions, ops_of
from jaxmlir.passes._liveness import has_lasting_effects
from jaxmlir.passes.cost import CALLED, leaf_cost
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

ELEMENT = 0.3
"""An arithmetic operation on one element, fused with others."""
TRANSCENDENTAL = 2.0
"""``exp``, ``tanh`` ... of one element."""
CONTRACTION = 0.03
"""A floating-point operation of a matrix product or convolution."""
UNKNOWN = 100.0
"""Four bytes that an op without a formula reads or writes: factorizations, kernels."""
TRAFFIC = 0.5
"""Writing a byte of a stored value in one loop and reading it in the other."""
BUFFER = 100.0
"""Storing one value more, be it a scalar, for each iteration."""
MEMORY = 1.0
"""What not occupying a byte is worth by default, beyond the time that its traffic takes."""

_CONTRACTIONS = frozenset({"dot_general", "conv_general_dilated"})
# To compute them again is to communicate again.
_COMMUNICATION = frozenset(
    op.name
    for family in ops.FAMILIES
    if family.__name__.endswith("collectives")
    for op in family.OPS
)


def size_of(type_: ir.Type) -> float:
    """The bytes of a value; infinite where they are not known: symbolic shapes, references."""
    aval = aval_of(type_)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return inf
    return math.prod(shape) * getattr(dtype, "itemsize", 8)


@dataclass
class Prices:
    """The prices of a program's ops and values.

    Attributes:
      memory: what not occupying a byte is worth, in nanoseconds.
    """

    program: Program
    memory: float = MEMORY
    _functions: dict[str, float] = field(default_factory=dict)

    def storing(self, type_: ir.Type) -> float:
        """Keeping a value of each iteration for another loop."""
        return BUFFER + size_of(type_) * (TRAFFIC + self.memory)

    def computing(self, op: Any, name: str) -> float:
        """Running an op once more; infinite if it must not be run twice."""
        record = ops.OPS.get(name.removeprefix("jaxpr."))
        if record is None or ops.distinct(record) or has_lasting_effects(op, name):
            return inf
        if record.name in _COMMUNICATION:
            return inf
        node = Node(op, name, "", (), ())
        if record.name == "scan":
            return self.function(node.get("jaxpr")) * node.get("length")
        if record.name == "cond":
            return max(map(self.function, node.get("branches")))
        if record.name == "custom_linear_solve":
            return self.function(node.get("jaxprs").solve)
        if record.name in CALLED:
            return self.function(node.get(CALLED[record.name]))
        return inf if may_have_functions(name) else _leaf(node, record.name)

    def function(self, symbol: str) -> float:
        """Running a function of the program once more."""
        found = self._functions.get(symbol)
        if found is None:
            # A function that calls itself: how often is not known.
            self._functions[symbol] = inf
            body = ops_of(self.program.function(symbol))
            found = self._functions[symbol] = sum(self.computing(op, name) for op, name, _ in body)
        return found


def _leaf(node: Node, name: str) -> float:
    if name == "constant":
        return 0.0
    cost, counted = leaf_cost(node, name)
    if not counted:
        return UNKNOWN * cost.bytes / 4
    flop = CONTRACTION if name in _CONTRACTIONS else ELEMENT
    return cost.flops * flop + cost.transcendentals * TRANSCENDENTAL

"""The prices of recomputing a value and of storing it, by the target's table of costs
(:mod:`jaxmlir.targets.costs`), and what saving memory is worth beyond that."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Real
from typing import Any

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.cost import calls_of, leaf_cost
from jaxmlir.analysis.function_view import FunctionView, OpView, ops_of
from jaxmlir.analysis.op_counts import aval_if_any, elements
from jaxmlir.dialect import op_signature, ops
from jaxmlir.dialect.builder import symbols_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.devices import COLLECTIVES
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.memory.profile import peak, total
from jaxmlir.targets.costs import Costs

MEMORY = 1.25
"""The default price of occupying a byte, beyond the time of its memory traffic: a multiple of that
time in memory that is mapped anew, where it is longest."""
SLOWDOWN = 0.05
"""The fraction of its time that a pair of loops may take longer by default on a host, to save
memory.  On a device it is zero: memory is short there only when it is full, which a budget says."""
MOVED = 16.0
"""How often a byte can be stored and read again in the time of sending one to another device."""
_MOVING = frozenset({"device_put", "reshard", "sharding_constraint"})


@functools.cache
def size_of(type_: ir.Type) -> float:
    """The bytes of a value; infinite if they are unknown: symbolic shapes, references, types of
    other dialects."""
    aval = aval_if_any(type_)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return inf
    return math.prod(shape) * getattr(dtype, "itemsize", 8)


def _tiled(type_: ir.Type, costs: Costs) -> float:
    """The factor by which hardware tiles make a value larger: they pad short rows."""
    if costs.lanes == 1 or not 0 < size_of(type_) < inf:
        return 1.0
    *_, rows, row = 1, 1, *aval_of(type_).shape
    ends = (rows, costs.sublanes), (row, costs.lanes)
    return math.prod(math.ceil(n / tile) * tile / n for n, tile in ends)


def _is_mask(type_: ir.Type) -> bool:
    aval = aval_if_any(type_)
    return aval is not None and aval.dtype == bool and size_of(type_) > 1


@dataclass(eq=False)
class Prices:
    """The prices of a program's ops and values.

    Attributes:
      memory: the price of occupying a byte, in nanoseconds; the default is by :data:`MEMORY`.
      traffic: the time to store a byte and read it; by default, in memory that is mapped anew.
      fence: the price of an optimization barrier.  By default it must not be run twice, because
        somebody put it there for an unknown reason.
    """

    program: Module
    memory: float | None = None
    traffic: float | None = None
    fence: float = inf
    _functions: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target = self.program.target
        self._costs = costs = target.costs
        self._partitioned = target.devices > 1
        self._leaves = _leaves.setdefault((costs, self._partitioned), {})
        if self.traffic is None:
            self.traffic = costs.stored_byte_mapped
        if self.memory is None:
            self.memory = MEMORY * costs.stored_byte_mapped

    def within(self, length: int) -> Prices:
        """The prices inside a loop, where values are stored for one iteration only."""
        return replace(self, memory=self.memory / length)

    @property
    def spread(self) -> float:
        """The price of laying out a value each of whose elements is read for several others."""
        return self._costs.spread_value

    def storing(
        self, type_: ir.Type, *, is_computed: bool = True, is_linked: bool = False
    ) -> float:
        """The price of storing a value of each iteration for another loop.

        Args:
          is_computed: whether an elementwise kernel computes the value.  This kernel stores it as
            well, unless it is a mask: masks have other tiles.
          is_linked: whether the value is stored already.
        """
        costs = self._costs
        kernels = costs.linked_value if is_linked else costs.fused_value
        if not is_computed or _is_mask(type_):
            kernels = costs.stored_value
        tiles = self.traffic * _tiled(type_, self._costs)
        return kernels + size_of(type_) * (tiles + self.memory)

    def at(self, body: FunctionView, index: int) -> float:
        """The price of running an op of a function once more."""
        return self.computing(body.ops[index], body.signatures[index])

    def computing(self, op: Any, signature: Signature) -> float:
        """The price of running an op once more; infinite if it must not run twice, or has symbolic
        sizes."""
        name = signature.name
        if name == "jaxpr.optimization_barrier":
            return self.fence
        price = self._leaves.get(signature)
        if price is None:
            if signature.is_lasting or _is_distinct(name):
                price = inf
            elif self._partitioned and not _is_local(signature):
                price = inf
            elif may_have_functions(name) and any(True for _ in symbols_of(op)):
                return self._calling(OpView(op, name, ()))
            else:
                node = OpView(op, name, ())
                price = _leaf(node, name.removeprefix("jaxpr."), self._costs)
            self._leaves[signature] = price
        return price

    def _calling(self, node: OpView) -> float:
        calls = calls_of(node)
        if not calls or any(call.times is None for call in calls):
            return inf
        price = sum(max(map(self.function, call.symbols)) * call.times for call in calls)
        if node.name not in SCANS or not self._costs.waits_for_kernels:
            return price
        # Elementwise ops are priced as parts of other kernels; a body has at least one of its own.
        stacks = len(node.op.results) - node.get("num_carry")
        kernels = self._costs.launch + stacks * self._costs.fused_value
        return price + calls[0].times * (self._costs.iteration + kernels)

    def function(self, symbol: str) -> float:
        """The price of running a function of the program once more."""
        price = self._functions.get(symbol)
        if price is None:
            # If the function calls itself, the number of calls is unknown.
            self._functions[symbol] = inf
            price = self._functions[symbol] = sum(
                self.computing(op, op_signature.of_op(op, name, operands))
                for op, name, operands in ops_of(self.program.function(symbol))
            )
        return price


@functools.cache
def _is_distinct(name: str) -> bool:
    """Whether ops of a name must not run twice: collectives, and ops that are ``distinct`` even
    with the same operands, such as copies and messages."""
    record = ops.record_of(name)
    # Running a collective again communicates again.
    return record is not None and bool(record in COLLECTIVES.ops or record.distinct)


# The prices of ops without functions, by costs, by whether the program is partitioned, and by
# signature; shared by all programs.
_leaves: dict[tuple[Costs, bool], dict[Signature, float]] = {}


def _is_local(signature: Signature) -> bool:
    """Whether an op on partitioned arrays needs no communication, whichever dimension is
    partitioned; ops that are priced otherwise, by their functions or as transfers, count too."""
    name = signature.name
    if may_have_functions(name) or name.removeprefix("jaxpr.") in _MOVING:
        return True
    if name not in _LOCAL:
        return False
    count = max(map(elements, signature.results), default=0)
    return all(elements(type_) in (1, count) for type_ in signature.operands)


_LOCAL = ops.with_trait(ops.Trait.ELEMENTWISE, ops.Trait.VIEW) | {
    f"jaxpr.{name}" for name in ("broadcast_in_dim", "constant", "iota")
}


# Ops that have a kernel of their own, whatever ops read their results.
_UNFUSED = frozenset().union(
    *map(ops.with_trait, (ops.Trait.CONTRACTION, ops.Trait.REDUCTION, ops.Trait.CUMULATIVE))
)


def _leaf(node: OpView, name: str, costs: Costs) -> float:
    if name == "constant":
        return 0.0
    if name in _MOVING:
        return MOVED * costs.stored_byte_mapped * sum(size_of(v.type) for v in node.op.results)
    launch = costs.unfused if node.name in _UNFUSED else 0.0
    cost, counted = leaf_cost(node, name)
    if not all(isinstance(n, Real) for n in (cost.flops, cost.transcendentals, cost.bytes)):
        return inf
    of_elements = dict(costs.elements)
    if name in of_elements:
        most = max(math.prod(aval_of(v.type).shape) for v in node.op.results)
        return launch + of_elements[name] * most
    if not counted:
        return launch + costs.unknown_byte * cost.bytes
    if node.name in ops.with_trait(ops.Trait.CONTRACTION):
        return launch + max(cost.flops * costs.dot_flop, cost.bytes * costs.read_byte)
    return launch + cost.flops * costs.flop + cost.transcendentals * costs.transcendental


def traffic(program: Module) -> float:
    """The time to store a byte in a program and read it, in nanoseconds: the compiler allocates one
    block of memory for all values but arguments and results."""
    costs, most = program.target.costs, most_at_once(program)
    if most <= costs.cached:
        return costs.stored_byte_cached
    return costs.stored_byte_kept if most < costs.kept_block else costs.stored_byte_mapped


def most_at_once(program: Module) -> float:
    """The bytes that a program needs at once; if all its values fit in caches, their total."""
    # The total is no less than the peak, and quickly added up.
    most: float = total(program)
    return peak(program) if most > program.target.costs.cached else most

"""What it costs to compute a value again, and to store it, by the table of the target
(:mod:`jaxmlir.targets.costs`); here is what less memory is worth beyond that."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Real
from typing import Any

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
"""What not occupying a byte is worth by default, beyond the time that its traffic takes: in parts
of that, where it is dearest."""
SLOWDOWN = 0.05
"""What two loops may take longer by default on a host, for the sake of memory.  On a device it is
nothing: there memory is short where it is full, which a budget says."""
MOVED = 16.0
"""How often a byte is stored and read again while one is sent to another device."""
_MOVING = frozenset({"device_put", "reshard", "sharding_constraint"})


@functools.cache
def size_of(type_: ir.Type) -> float:
    """The bytes of a value; infinite where they are not known: symbolic shapes, references, types
    of other dialects."""
    aval = aval_if_any(type_)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return inf
    return math.prod(shape) * getattr(dtype, "itemsize", 8)


def _tiled(type_: ir.Type, costs: Costs) -> float:
    """How much larger the tiles are that hold a value: rows of few elements leave gaps."""
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
      memory: what not occupying a byte is worth, in nanoseconds; by default :data:`MEMORY`.
      traffic: what storing it takes; by default, in memory that is mapped anew.
      fence: an optimization barrier, which by default is not to be run twice: somebody put it there
        for a reason that is not known.
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
        """The prices inside of a loop: what is stored there is stored for one iteration only."""
        return replace(self, memory=self.memory / length)

    @property
    def spread(self) -> float:
        """Laying out a value each of whose elements is read for several."""
        return self._costs.spread_value

    def storing(
        self, type_: ir.Type, *, is_computed: bool = True, is_linked: bool = False
    ) -> float:
        """Keeping a value of each iteration for another loop.

        Args:
          is_computed: whether a kernel computes it element by element, which stores it as well,
            unless it is a mask: these have other tiles.
          is_linked: whether it is stored already.
        """
        costs = self._costs
        kernels = costs.linked_value if is_linked else costs.fused_value
        if not is_computed or _is_mask(type_):
            kernels = costs.stored_value
        tiles = self.traffic * _tiled(type_, self._costs)
        return kernels + size_of(type_) * (tiles + self.memory)

    def at(self, body: FunctionView, index: int) -> float:
        """Running an op of a numbered function once more."""
        return self.computing(body.ops[index], body.signatures[index])

    def computing(self, op: Any, signature: Signature) -> float:
        """Running an op once more; infinite if it must not be run twice, or depends on symbolic
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
        return sum(max(map(self.function, call.symbols)) * call.times for call in calls)

    def function(self, symbol: str) -> float:
        """Running a function of the program once more."""
        price = self._functions.get(symbol)
        if price is None:
            # A function that calls itself: how often is not known.
            self._functions[symbol] = inf
            price = self._functions[symbol] = sum(
                self.computing(op, op_signature.of_op(op, name, operands))
                for op, name, operands in ops_of(self.program.function(symbol))
            )
        return price


@functools.cache
def _is_distinct(name: str) -> bool:
    """Whether two ops of a name are not one with the same operands, or are one that is not to be
    run twice."""
    record = ops.record_of(name)
    # To run a collective again is to communicate again.
    return record is not None and bool(record in COLLECTIVES.ops or record.distinct)


# By signature, of every program; by whether it is partitioned.
_leaves: dict[tuple[Costs, bool], dict[Signature, float]] = {}


def _is_local(signature: Signature) -> bool:
    """Whether devices among which arrays are partitioned compute an op without exchanging anything,
    whatever the dimension is that they have parts of."""
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


# Ops that have a kernel of their own, whatever reads their results.
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
    """What a stored byte takes in a program, in nanoseconds: the compiler has one block of memory
    for all that is not an argument or a result."""
    costs, most = program.target.costs, most_at_once(program)
    if most <= costs.cached:
        return costs.stored_byte_cached
    return costs.stored_byte_kept if most < costs.kept_block else costs.stored_byte_mapped


def most_at_once(program: Module) -> float:
    """The bytes that a program needs at once; of one whose values fit in caches, of all these."""
    # Where that is little, the bytes of all values are no less, and quickly added up.
    most: float = total(program)
    return peak(program) if most > program.target.costs.cached else most

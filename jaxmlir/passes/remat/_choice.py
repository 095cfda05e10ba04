"""What a loop stores for another: the cheapest set of values from which the rest follows.

Of each value ``v`` of the joint body that the first loop could store, two questions: is it
*available* to the second loop, and is it *computed again* there?  A value that is needed must be
available; one that is computed again needs its operands available; one that is available but not
computed again is stored::

    minimize  sum storing(v) [available, not computed again]  +  sum computing(op) [computed again]

That is a minimum cut, exactly: an op is a node, cut from the source if it is computed again, a
value is a node, cut from its op if it is stored, and infinite edges are the implications.  What the
first loop need not compute for its own results costs nothing to compute in the second.

A value with a name (``checkpoint_name``) stays what it is: stored where it is stored already, as a
user's policy asked for, and not stored where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from jaxmlir.ir import ir
from jaxmlir.passes.remat._flow import FlowNetwork
from jaxmlir.passes.remat._joint import Joint, Step, name_of_result, needed_for
from jaxmlir.passes.remat._price import Prices, size_of

# Nothing is computed again for nothing: what is there already is taken.
_TIE = 1e-3


@dataclass(frozen=True)
class Choice:
    """What is stored of each iteration, and what that takes."""

    stored: list[ir.Value]
    again: list[Step]
    """What the second loop computes although the first does too."""
    price: float
    """Of computing that, in nanoseconds an iteration."""
    size: float
    """Bytes stored, of an iteration."""


def choose(joint: Joint, prices: Prices) -> Choice | None:
    """The cheapest choice; ``None`` where nothing can be said: sizes or ops are not known."""
    graph = _Graph(joint, prices)
    try:
        return graph.choice()
    except ValueError:
        return None


class _Graph:
    """The network of which a cut is a choice; built from what the second loop needs upwards."""

    def __init__(self, joint: Joint, prices: Prices):
        self.prices = prices
        self.steps = steps = joint.steps
        carry, kept, self.outs = joint.results()
        self.arguments = {*joint.consts, *joint.carry, *joint.slices}
        # Slices that the first loop reads are there for the second, though perhaps kept for it.
        self.retained = joint.retained()
        self.free = self.arguments - {*joint.carry, *self.retained}
        self.kept = set(kept)
        self.names = joint.names

        self.definitions: dict[ir.Value, Step] = {}
        known, needed = set(self.arguments), list(self.outs)
        for step in steps:
            if known.issuperset(step.operands):
                known.update(step.results)
                self.definitions.update(dict.fromkeys(step.results, step))
            else:
                needed += step.operands
        self.needed = [v for v in dict.fromkeys(needed) if v in known and v not in self.free]
        own, _ = needed_for(steps, [*carry, *self.kept], self.arguments)
        self.in_first = {id(step) for step in own}

        self.network = FlowNetwork()
        self.source, self.sink = self.network.node(), self.network.node()
        self.values: dict[ir.Value, int] = {}
        self.order: list[ir.Value] = []
        self.ops: dict[int, tuple[int, Step]] = {}

    def choice(self) -> Choice:
        for value in self.needed:
            self.network.edge(self._value(value), self.sink, inf)
        # Values are appended while they are gone through.
        for value in self.order:
            step = self.definitions.get(value)
            tail = self.source if step is None else self._op(step)
            self.network.edge(tail, self.values[value], self._storing(value, step))
        side = self.network.cut(self.source, self.sink)
        stored = set()
        for value, node in self.values.items():
            step = self.definitions.get(value)
            if not side[node] and (step is None or side[self._op(step)]):
                stored.add(value)
        # What costs nothing to store is not therefore read.
        _, live = needed_for(self.steps, self.outs, stored | self.arguments)
        again = [
            step for node, step in self.ops.values() if not side[node] and id(step) in self.in_first
        ]
        price = sum([self.prices.computing(step.op, step.signature) for step in again])
        size = sum(size_of(v.type) for v in stored & live - self.kept)
        return Choice(
            [v for v in self.values if v in stored & live - self.retained], again, price, size
        )

    def _value(self, value: ir.Value) -> int:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self.network.node()
            self.order.append(value)
        return found

    def _op(self, step: Step) -> int:
        """The node of an op, with edges to it from its operands."""
        found = self.ops.get(id(step))
        if found is None:
            node = self.network.node()
            self.ops[id(step)] = node, step
            self.network.edge(self.source, node, self._computing(step))
            for operand in step.operands:
                if operand not in self.free:
                    self.network.edge(self._value(operand), node, inf)
            return node
        return found[0]

    def _computing(self, step: Step) -> float:
        if self._pinned(step):
            return inf
        price = self.prices.computing(step.op, step.signature)
        # What the first loop has no use for is computed once, wherever that is.
        return price + _TIE if id(step) in self.in_first or price == inf else _TIE

    def _storing(self, value: ir.Value, step: Step | None) -> float:
        if value in self.kept:
            return 0.0
        name = None if step is None else self._name(value, step)
        if name is not None:
            return 0.0 if name in self.names else inf
        return self.prices.storing(value.type)

    def _pinned(self, step: Step) -> bool:
        return any([self._name(v, step) in self.names for v in step.results])

    def _name(self, value: ir.Value, step: Step) -> str | None:
        return name_of_result(self.prices.program, step.op, step.signature.name, value)

"""The cheapest set of values that one loop can store so that another computes the rest from them.

Each value of the joint body that the first loop could store has two booleans: is it *available* to
the second loop, and is it *computed again* there?  A value that is needed must be available.  A
value that is computed again needs its operands available.  A value that is available but not
computed again is stored::

    minimize  sum storing(v) [available, not computed again]  +  sum computing(op) [computed again]

This is exactly a minimum cut.  Each op is a node, cut from the source if it is computed again; each
value is a node, cut from its op if it is stored; infinite edges are the implications.  An op that
the first loop does not need for its own results costs nothing to compute in the second.

An array that is compared with its own elements, as in the derivative of a maximum, is not computed
again (:mod:`jaxmlir.optimize.compared_arrays`).

A value with a name (``checkpoint_name``) stays as it is: stored if it is stored already, because a
user's policy asked for that, and not stored otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.fusion import FUSED, FUSIBLE
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.compared_arrays import rounded_in_ways
from jaxmlir.optimize.memory.price import Prices, size_of
from jaxmlir.optimize.memory.remat.joint import JointBody, name_of_result

# -- Minimum cuts of directed graphs, by Dinic's algorithm (1970) --
#
# Flow is pushed along shortest paths until the sink cannot be reached.  Then the edges that leave
# the nodes still reachable from the source are a minimum cut.  O(V^2 E) at worst, and far less on
# graphs as flat as a loop's body.


class FlowNetwork:
    """A directed graph whose edges have capacities; nodes are numbered from 0.

    Capacities are numbers, or infinite: such an edge is never cut.
    """

    def __init__(self) -> None:
        self._edges: list[list[int]] = []
        # Edge e leads to _head[e] and has _rest[e] to give; e ^ 1 is the same edge backwards.
        self._head: list[int] = []
        self._rest: list[float] = []

    def node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, tail: int, head: int, capacity: float) -> None:
        if capacity > 0 and tail != head:
            number = len(self._head)
            self._edges[tail].append(number)
            self._edges[head].append(number + 1)
            self._head += (head, tail)
            self._rest += (capacity, 0.0)

    def cut(self, source: int, sink: int) -> list[bool]:
        """For each node, whether it is on the source's side of the minimum cut whose source side is
        smallest.

        Levels are distances to the sink, so a path of falling levels is a dead end only where flow
        has used up an edge.

        Raises:
          ValueError: a path of infinite capacity leads from source to sink.
        """
        while (level := self._levels(source, sink))[source] >= 0:
            self._saturate(source, sink, level)
        return self._reached(source)

    def _levels(self, source: int, sink: int) -> list[int]:
        """The distance of each node to the sink along edges with capacity left; -1 for nodes that
        are further than the source."""
        edges, heads, rest = self._edges, self._head, self._rest
        level = [-1] * len(edges)
        level[sink] = 0
        queue = deque([sink])
        while queue and level[source] < 0:
            node = queue.popleft()
            further = level[node] + 1
            for e in edges[node]:
                head = heads[e]
                if level[head] < 0 and rest[e ^ 1] > 0:
                    level[head] = further
                    queue.append(head)
        return level

    def _reached(self, source: int) -> list[bool]:
        """For each node, whether edges with capacity left lead there from the source."""
        reached = [False] * len(self._edges)
        reached[source] = True
        pending = [source]
        while pending:
            for e in self._edges[pending.pop()]:
                head = self._head[e]
                if not reached[head] and self._rest[e] > 0:
                    reached[head] = True
                    pending.append(head)
        return reached

    def _saturate(self, source: int, sink: int, level: list[int]) -> None:
        """Pushes flow along shortest paths until no such path is left."""
        edges, heads, rest = self._edges, self._head, self._rest
        position = [0] * len(edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                amount = min([rest[e] for e in path])
                if amount == inf:
                    raise ValueError("a path of infinite capacity leads from source to sink")
                for i in reversed(range(len(path))):
                    e = path[i]
                    rest[e] -= amount
                    rest[e ^ 1] += amount
                    if rest[e] <= 0:
                        first = i
                node = heads[path[first] ^ 1]
                del path[first:]
                continue
            leading, at, nearer = edges[node], position[node], level[node] - 1
            while at < len(leading):
                e = leading[at]
                if rest[e] > 0 and level[heads[e]] == nearer:
                    break
                at += 1
            position[node] = at
            if at < len(leading):
                path.append(e)
                node = heads[e]
            elif path:
                # A dead end: no path leads on from here.
                level[node] = -1
                node = heads[path.pop() ^ 1]
            else:
                return


# Ops whose results have the elements of their operand, in another shape.
_LAID_OUT = with_trait(Trait.VIEW) | {"jaxpr.broadcast_in_dim", "jaxpr.stop_gradient"}
# Results of these ops are stored by a kernel of their own, which computes nothing else.
_STORED_ALONE = _LAID_OUT | SCANS | {"jaxpr.slice", "jaxpr.split"}
# The least price of an op: between equal prices, a value that is there already is read.
_TIE = 1e-3


class StorageChoice(NamedTuple):
    """The values that each iteration stores, and their cost."""

    stored: list[int]
    again: list[int]
    """The ops that both loops compute."""
    price: float
    """The price of computing these again, in nanoseconds per iteration."""
    size: float
    """The bytes stored per iteration."""


def choose(joint: JointBody, prices: Prices) -> StorageChoice | None:
    """The cheapest choice; ``None`` if there is none of finite price, as with unknown sizes."""
    graph = _CutNetwork(joint, prices)
    try:
        return graph.choice()
    except ValueError:
        return None


class _CutNetwork:
    """The network whose cuts are choices; it is built backwards from what the second loop needs."""

    def __init__(self, joint: JointBody, prices: Prices):
        self.prices = prices
        self.body = body = joint.body
        carry, ys, self.outs = joint.results()
        arguments = {*joint.consts, *joint.carry, *joint.slices}
        # The second loop can read the slices of the first, though some may stay in memory for it.
        self.retained = joint.retained
        self.free = arguments - {*joint.carry, *self.retained}
        self.kept = set(ys)
        self.linked = joint.linked
        self.names = joint.names
        self.compared = rounded_in_ways(body)

        available, needed = set(arguments), list(self.outs)
        for operands, results in zip(body.operands, body.results, strict=True):
            if available.issuperset(operands):
                available.update(range(*results))
            else:
                needed += operands
        self.needed = [v for v in dict.fromkeys(needed) if v in available and v not in self.free]
        first_ops, _ = body.backward_slice([*carry, *self.kept])
        self.in_first = set(first_ops)

        self.network = FlowNetwork()
        self.source, self.sink = self.network.node(), self.network.node()
        # The nodes of values, of the ops that compute them, and of laid-out values.
        self.values: dict[int, int] = {}
        self.order: list[int] = []
        self.ops: dict[int, int] = {}
        self.spread: dict[int, int] = {}

    def choice(self) -> StorageChoice:
        makers = self.body.makers
        for value in self.needed:
            self.network.edge(self._value(value), self.sink, inf)
        # The loop appends to `order`.
        for value in self.order:
            op = makers[value]
            tail = self.source if op is None else self._op(op)
            self.network.edge(tail, self.values[value], self._storing(value, op))
        side = self.network.cut(self.source, self.sink)
        stored = set()
        for value, node in self.values.items():
            op = makers[value]
            if not side[node] and (op is None or side[self.ops[op]]):
                stored.add(value)
        # A value may be in `stored` only because storing it is free: take those that are read.
        _, live = self.body.backward_slice(self.outs, stored.__contains__)
        again = [op for op, node in self.ops.items() if not side[node] and op in self.in_first]
        beside = self._beside(stored & live - self.kept - self.retained, again)
        if beside:
            stored |= beside
            _, live = self.body.backward_slice(self.outs, stored.__contains__)
            again = [op for op in again if beside.isdisjoint(range(*self.body.results[op]))]
        price = sum([self.prices.at(self.body, op) for op in again])
        size = sum(size_of(self.body.types[v]) for v in stored & live - self.kept)
        return StorageChoice(
            [v for v in self.values if v in stored & live - self.retained], again, price, size
        )

    def _value(self, value: int) -> int:
        node = self.values.get(value)
        if node is None:
            node = self.values[value] = self.network.node()
            self.order.append(value)
        return node

    def _op(self, op: int) -> int:
        """The node of an op, with edges to it from its operands."""
        node = self.ops.get(op)
        if node is None:
            node = self.ops[op] = self.network.node()
            self.network.edge(self.source, node, self._computing(op))
            for operand in self.body.operands[op]:
                if operand not in self.free:
                    self.network.edge(self._value(operand), node, inf)
                    if self.prices.spread and self._spreads(op, operand):
                        self.network.edge(self._spread(operand), node, inf)
        return node

    def _spread(self, value: int) -> int:
        """The node of laying out a value for larger values that the second loop computes of it."""
        node = self.spread.get(value)
        if node is None:
            node = self.spread[value] = self.network.node()
            self.network.edge(self.source, node, self.prices.spread)
        return node

    def _computing(self, op: int) -> float:
        if any([self._name(v, op) in self.names for v in range(*self.body.results[op])]):
            return inf
        if op in self.in_first and not self.compared.isdisjoint(range(*self.body.results[op])):
            return inf
        price = self.prices.at(self.body, op)
        # An op that the first loop does not need is computed once, in either loop.
        return price + _TIE if op in self.in_first or price == inf else _TIE

    def _storing(self, value: int, op: int | None) -> float:
        if value in self.kept:
            return 0.0
        name = None if op is None else self._name(value, op)
        if name is not None:
            return 0.0 if name in self.names else inf
        is_computed = op is not None and self.body.names[op] not in _STORED_ALONE
        return self._keeping(value, is_computed)

    def _keeping(self, value: int, is_computed: bool) -> float:
        type_, is_linked = self.body.types[value], value in self.linked
        return self.prices.storing(type_, is_computed=is_computed, is_linked=is_linked)

    def _spreads(self, op: int, value: int) -> bool:
        """Whether a fusible op reads each element of a value for several elements of its result."""
        body, count = self.body, elements(self.body.types[value])
        result = body.types[body.results[op][0]]
        return body.names[op] in FUSIBLE and 1 < count < elements(result)

    def _beside(self, stored: set[int], again: Sequence[int]) -> set[int]:
        """Values that are better stored as well, because the kernels that compute them then also
        store the arguments that they read.

        Args:
          stored: the values that are stored already.
          again: the ops that would be run again.
        """
        body, types, extra = self.body, self.body.types, set()
        alone = {v for v in stored if body.makers[v] is None}
        for op in again:
            value, *others = range(*body.results[op])
            arguments = {v for v in body.operands[op] if v in alone and types[v] == types[value]}
            if others or body.names[op] not in FUSED or not arguments:
                continue
            saved = sum(self._keeping(v, False) - self._keeping(v, True) for v in arguments)
            if self._storing(value, op) < saved:
                extra.add(value)
                alone -= arguments
        return extra

    def _name(self, value: int, op: int) -> str | None:
        body, number = self.body, value - self.body.results[op][0]
        return name_of_result(self.prices.program, body.ops[op], body.names[op], number)

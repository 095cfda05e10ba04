"""Minimum cuts of directed graphs, by Dinic's algorithm (1970).

Maximum flow and minimum cut are one: the flow is pushed along shortest paths until the sink cannot
be reached, and then the edges that lead out of what the source still reaches are a minimum cut.
O(V^2 E) at worst, and far less on graphs as flat as a loop's body.
"""

from __future__ import annotations

from collections import deque
from math import inf


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
        """For each node whether it is on the source's side of a minimum cut: the least such side.

        Distances are those to the sink, so that only where flow has used up an edge a path along
        them leads nowhere.

        Raises:
          ValueError: a path of infinite capacity leads from source to sink.
        """
        while (level := self._levels(source, sink))[source] >= 0:
            self._saturate(source, sink, level)
        return self._reached(source)

    def _levels(self, source: int, sink: int) -> list[int]:
        """The distance of each node to the sink by edges with capacity left, of nodes as near as
        the source; else -1."""
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
        """For each node whether edges with capacity left lead there."""
        found = [False] * len(self._edges)
        found[source] = True
        pending = [source]
        while pending:
            for e in self._edges[pending.pop()]:
                head = self._head[e]
                if not found[head] and self._rest[e] > 0:
                    found[head] = True
                    pending.append(head)
        return found

    def _saturate(self, source: int, sink: int, level: list[int]) -> None:
        """Pushes flow along shortest paths until none is left."""
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

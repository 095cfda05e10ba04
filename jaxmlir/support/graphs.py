"""Walks through graphs that are given by what is below each node, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reached(roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> KeysView[Node]:
    """The nodes that some reach, directly or not, themselves included: depth first, in the order in
    which they are met."""
    nodes: dict[Node, None] = {}
    pending = [*roots][::-1]
    while pending:
        node = pending.pop()
        if node not in nodes:
            nodes[node] = None
            pending += reversed([*below(node)])
    return nodes.keys()


def below_first(roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """The nodes that some reach, each after those below it, unless these reach it too.

    What is below a node is asked for when the walk comes to it.
    """
    seen: set[Node] = set()
    for root in roots:
        path = [(root, iter(below(root)))] if root not in seen else []
        seen.add(root)
        while path:
            node, rest = path[-1]
            child = next((n for n in rest if n not in seen), None)
            if child is None:
                path.pop()
                yield node
            else:
                seen.add(child)
                path.append((child, iter(below(child))))

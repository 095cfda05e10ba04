"""Walks through graphs without recursion; a function returns the nodes below a node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reached(roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> KeysView[Node]:
    """The roots and all nodes below them, directly or not, in depth-first order."""
    nodes: dict[Node, None] = {}
    pending = [*roots][::-1]
    while pending:
        node = pending.pop()
        if node not in nodes:
            nodes[node] = None
            pending += reversed([*below(node)])
    return nodes.keys()


def below_first(roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """The roots and all nodes below them, each after the nodes below it, except within cycles.
    ``below`` is called for a node when the walk comes to it."""
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

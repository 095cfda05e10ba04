"""Products rewritten where another order is better.

A value that several products use is computed once, and a factor to them.  But if each of them is
cheaper without it, it is not needed: where ``y = (A B) v`` and ``z = (A B)^T w``, both are products
of matrices and vectors.  So it is *absorbed*, taken for a part of its users, if that makes all of
them together cheaper, its own cost counted.  The last such values are looked at first, and all
again as long as there are new ones: to absorb a value can make it worth while to absorb what it is
made from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import converted, drop_dead_ops
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.optimize.algebra.products.cost import Cost
from jaxmlir.optimize.algebra.products.emit import Plan
from jaxmlir.optimize.algebra.products.network import Node, Rule
from jaxmlir.optimize.algebra.products.trees import Function, Tree
from jaxmlir.optimize.loops.scan_editor import loop_constants
from jaxmlir.passes.remarks import remark, remarks_wanted

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.transforms.templates import Rules

# How often all values with several users are looked at.
MAX_ROUNDS = 4
# More users than this, and a value is worth having.
MAX_USERS = 8


def rewrite_program(
    program: Module,
    readers: Mapping[str, Rule],
    wanted: Callable[[Tree], bool],
    min_gain: float,
    sure_gain: float | None = None,
    needed: Collection[str] | None = None,
) -> int:
    """Rewrites products in place; how many.

    Args:
      readers: the ops that products are read from.
      wanted: whether a product is one that the pass is about.
      min_gain: how many times faster a new order has to be in the estimate.
      sure_gain: the same of an order that takes fewer operations and fewer bytes.
      needed: the ops without one of which a function has no such product; by default those that
        sum.
    """
    from jaxmlir.transforms.templates import Rules

    needed = needed or {name for name, reader in readers.items() if reader.contracts}
    graph = analyses_of(program).graph
    functions = graph.outside_kernels(needed)
    if not functions:
        return 0
    with scope():
        rules, fixed = Rules(program), loop_constants(program)
        count = 0
        for function in functions:
            found = Function.of(function, graph.ops[function.name.value], readers, fixed)
            written = _rewrite(rules, found, wanted, min_gain, sure_gain or min_gain)
            if written:
                drop_dead_ops(function)
            count += written
    if count:
        program.changed()
    return count


def _rewrite(
    rules: Rules,
    found: Function,
    wanted: Callable[[Tree], bool],
    min_gain: float,
    sure_gain: float,
) -> int:
    if not any(node.rule.contracts for node in found.products):
        return 0
    trees = _Trees(found, wanted, min_gain, sure_gain)
    trees.absorb()
    count = 0
    for tree in trees.chosen():
        place = tree.root.op
        with ir.InsertionPoint(place), place.location:
            emit_best(rules, tree, place)
        count += 1
    return count


@dataclass
class _Trees:
    """The products of a function, and the values that were absorbed into them."""

    function: Function
    wanted: Callable[[Tree], bool]
    min_gain: float
    sure_gain: float
    trees: dict[Node, Tree] = field(default_factory=dict)
    absorbed: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        pending = self.function.roots()
        while pending:
            root = pending.pop()
            if root not in self.trees and root.parts is not None:
                self.trees[root] = tree = self.function.tree(root)
                pending += tree.cuts if tree.is_mixed else tree.unsuited

    def absorb(self) -> None:
        """Absorbs values as long as that pays."""
        candidates = [v for v in reversed(self.function.products) if self._may_be_absorbed(v)]
        for _ in range(MAX_ROUNDS if candidates else 0):
            users: dict[Node, list[Tree]] = {}
            for tree in self.trees.values():
                for v in dict.fromkeys(tree.leaves):
                    users.setdefault(v, []).append(tree)
            news = [v for v in candidates if v not in self.absorbed and self._absorb(v, users)]
            if not news:
                return

    def _may_be_absorbed(self, value: Node) -> bool:
        if value.rule.free or not (value in self.trees or self.function.is_outer(value)):
            return False
        users = self.function.users(value, MAX_USERS + 1)
        return 2 <= len(users) <= MAX_USERS and all(user is not None for user in users)

    def _absorb(self, value: Node, users: dict[Node, list[Tree]]) -> bool:
        """Makes a value a part of the products that use it, if that pays."""
        before = [tree for tree in users.get(value, ()) if self.trees.get(tree.root) is tree]
        if len(before) < len(users.get(value, ())) or not before:
            # A user has changed in this round.
            return False
        own = self.trees.get(value)
        left = sum(_ns(tree) for tree in (*before, *([own] if own else ())))
        after = []
        for tree in before:
            without = self.function.tree(tree.root, {*self.absorbed, value})
            if value in without.cuts or without.best is None:
                return False
            left -= self.min_gain * without.best.cost.ns
            if left < 0:
                return False
            after.append(without)
        self.absorbed.add(value)
        self.trees.pop(value, None)
        self.trees |= {tree.root: tree for tree in after}
        return True

    def chosen(self) -> list[Tree]:
        """The products to write in another order, first things first."""
        return [
            tree
            for value in self.function.products
            if (tree := self.trees.get(value)) is not None and self._is_better(tree)
        ]

    def _is_better(self, tree: Tree) -> bool:
        if not tree.is_mixed or not self.wanted(tree) or tree.best is None:
            return False
        if any(node in self.absorbed for node in tree.ops):
            return True
        best = tree.best.cost
        gain = self.sure_gain if best.is_less(tree.cost) else self.min_gain
        return best.ns * gain < tree.cost.ns


def _ns(tree: Tree) -> float:
    """The time that a product takes, in its best order."""
    return (
        tree.cost.ns
        if not tree.is_mixed or tree.best is None
        else min(tree.cost.ns, tree.best.cost.ns)
    )


def emit_best(rules: Rules, tree: Tree, place: Any) -> None:
    """Writes a product in its best order at the insertion point; it takes the place of the root.

    Args:
      place: the op before which that is.
    """
    best = tree.best
    if remarks_wanted():
        remark(place, _message(tree.cost, best.cost, best.plan))
    (value,) = rules.emit(best.plan, [v.value for v in best.values], best.plan)
    tree.root.replace(converted(value, tree.root.type))


def _message(before: Cost, after: Cost, plan: Plan) -> str:
    return f"product {plan}: {after} instead of {before}"

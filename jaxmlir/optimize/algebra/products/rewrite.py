"""Products rewritten where another order is better.

A value that several products use is computed once, and a factor to them.  But if each of them is
cheaper without it, it is not needed: where ``y = (A B) v`` and ``z = (A B)^T w``, both are products
of matrices and vectors.  So it is *absorbed*, taken for a part of its users, if that makes all of
them together cheaper, its own cost counted.  The last such values are looked at first, and all
again as long as there are new ones: to absorb a value can make it worth while to absorb what it is
made from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import elements, size, with_shape
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import build, conversion, converted, drop_dead_ops, named_ops
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.algebra.products.network import RULES, Node, Rule, is_diagonal, is_mask
from jaxmlir.optimize.algebra.products.order import FREE, Cost
from jaxmlir.optimize.algebra.products.trees import Function, Tree, cost_of
from jaxmlir.optimize.compile_time import CompileTime
from jaxmlir.optimize.loops.scan_editor import loop_constants
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.transforms.templates import Rules

# How often all values with several users are looked at.
MAX_ROUNDS = 4
# More users than this, and a value is worth having.
MAX_USERS = 8
# Ops that rows selected by a mask count as, with the adding up of rows in their derivative: they
# take 0.06 s to compile.
SELECTION_OPS = 100


def rewrite_program(
    program: Module,
    readers: Mapping[str, Rule],
    wanted: Callable[[Tree], bool],
    min_gain: float,
    sure_gain: float | None = None,
    needed: Collection[str] | None = None,
    distributes: bool = False,
    calls: float = inf,
) -> int:
    """Rewrites products in place; how many.

    Args:
      readers: the ops that products are read from.
      wanted: whether a product is one that the pass is about.
      min_gain: how many times faster a new order has to be in the estimate.
      sure_gain: the same of an order that takes fewer operations and fewer bytes.
      needed: the ops without one of which a function has no such product; by default those that
        sum.
      distributes: whether products with sums may become sums of products.
      calls: how often the program is called, for selections that have to save the time to compile
        them.
    """

    needed = needed or {name for name, reader in readers.items() if reader.contracts}
    graph = analyses_of(program).graph
    functions = graph.outside_kernels(needed)
    if not functions:
        return 0
    others = _SUMS if distributes else ()
    with scope():
        rules, count, compile_time = Rules(program), 0, CompileTime(program, calls)
        known = readers, loop_constants(program), program.target.costs, others
        for function in functions:
            found = Function.of(function, graph.ops[function.name.value], *known)
            pays = functools.partial(compile_time.pays, function.name.value)
            written = _rewrite(rules, found, wanted, min_gain, sure_gain or min_gain, pays)
            if distributes:
                if written:
                    drop_dead_ops(function)
                    found = Function.of(function, named_ops(function), *known)
                written += _distribute(rules, found, min_gain)
            if written:
                drop_dead_ops(function)
            count += written
    return count


def _rewrite(
    rules: Rules,
    found: Function,
    wanted: Callable[[Tree], bool],
    min_gain: float,
    sure_gain: float,
    pays: Callable[[float, float], bool],
) -> int:
    if not any(node.rule.contracts for node in found.products):
        return 0
    trees = _Trees(found, wanted, min_gain, sure_gain, pays)
    trees.absorb()
    count = 0
    for tree in trees.chosen():
        place = tree.root.op
        with ir.InsertionPoint(place), place.location:
            emit_best(rules, tree, place)
        count += 1
    return count


@dataclass(eq=False)
class _Trees:
    """The products of a function, and the values that were absorbed into them."""

    function: Function
    wanted: Callable[[Tree], bool]
    min_gain: float
    sure_gain: float
    pays: Callable[[float, float], bool]
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
        left = sum(self._ns(tree) for tree in (*before, *([own] if own else ())))
        after = []
        for tree in before:
            without = self.function.tree(tree.root, {*self.absorbed, value})
            if value in without.cuts or without.best is None:
                return False
            left -= self.min_gain * without.best.cost.ns(self.function.costs)
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
        best, before = tree.best.cost, tree.cost.ns(self.function.costs)
        gain = self.sure_gain if best.is_less(tree.cost) else self.min_gain
        time = best.ns(self.function.costs)
        masks = [n for n in tree.ops if is_mask(n) and not is_diagonal(n.operands[0])]
        return time * gain < before and self.pays(SELECTION_OPS * len(masks), before - time)

    def _ns(self, tree: Tree) -> float:
        """The time that a product takes, in its best order."""
        time = tree.cost.ns(self.function.costs)
        if not tree.is_mixed or tree.best is None:
            return time
        return min(time, tree.best.cost.ns(self.function.costs))


def emit_best(rules: Rules, tree: Tree, place: Any) -> None:
    """Writes a product in its best order at the insertion point; it takes the place of the root.

    Args:
      place: the op before which that is.
    """
    best = tree.best
    if remarks_wanted():
        remark(place, f"product {best.plan}: {best.cost} instead of {tree.cost}")
    (value,) = rules.emit(best.plan, [v.value for v in best.values])
    tree.root.replace(converted(value, tree.root.type))


# -- Products with sums of which a term is cheap to multiply by, written as sums of products --


# A sum of more terms than this is a matrix.
MAX_TERMS = 8


def _distribute(rules: Rules, found: Function, min_gain: float) -> int:
    """Distributes products of a function over sums; how many."""
    tried = [
        _Distributed.of(node, position, terms)
        for node in found.products
        if node.name == "jaxpr.dot_general"
        for position in (0, 1)
        if (terms := _distributable(node.operands[position]))
    ]
    best: dict[Node, tuple[Cost, _Distributed, list[Tree]]] = {}
    # Long programs say the same many times over; what does not pay once is not tried again.
    vain: dict[Cost, set[Hashable]] = {}
    for each in tried:
        if each.before in vain and each.structure in vain[each.before]:
            continue
        trees = each.multiplied(found)
        cost = each.cost(trees)
        if cost.ns(found.costs) * min_gain >= each.before.ns(found.costs):
            vain.setdefault(each.before, set()).add(each.structure)
        elif each.node not in best or cost.ns(found.costs) < best[each.node][0].ns(found.costs):
            best[each.node] = cost, each, trees
    for cost, each, trees in best.values():
        if remarks_wanted():
            remark(
                each.node.op,
                f"product with a sum of {len(each.terms)} terms as a sum of products: {cost} "
                f"instead of {each.before}",
            )
        each.take_place(rules, trees)
    return len(best)


class _Term(NamedTuple):
    """One of what is added up to an operand.

    Attributes:
      value: in the program.
      is_negative: whether it is subtracted.
      permutation: of its dimensions, in the operand.
    """

    value: Node
    is_negative: bool
    permutation: tuple[int, ...]


def _terms(value: Node) -> list[_Term]:
    """The terms that a value is the sum of, as far as the sums are used for nothing else."""
    rank = len(value.shape)
    found: list[_Term] = []
    pending = [_Term(value, False, tuple(range(rank)))]
    while pending:
        term = pending.pop()
        node, negative, order = term
        is_own = node is value or len(node.users) == 1
        is_open = is_own and node.name in _LOOKED_THROUGH and len(node.shape) == rank
        # What is asked of an op would be lost.
        if not is_open or "jaxpr.ctx" in node.attributes:
            found.append(term)
        elif node.name == "jaxpr.neg":
            pending.append(_Term(node.operands[0], not negative, order))
        elif node.name == "jaxpr.transpose":
            inner = tuple(node.get("permutation"))
            pending.append(_Term(node.operands[0], negative, tuple(inner[d] for d in order)))
        elif len(found) + len(pending) < MAX_TERMS:
            a, b = node.operands
            pending.append(_Term(b, negative != (node.name == "jaxpr.sub"), order))
            pending.append(_Term(a, negative, order))
        else:
            found.append(term)
    return found


_SUMS = with_trait(Trait.ADDITIVE)
_LOOKED_THROUGH = _SUMS | {"jaxpr.neg", "jaxpr.transpose"}


def _distributable(value: Node) -> list[_Term]:
    """The terms that a value is the sum of, if all but one, or all, may be cheap to multiply by,
    and they cancel no more than they do now; else none.

    What is a product has errors of its own, and an identity or a diagonal meets the other terms in
    few places. But of two dense arrays of data the difference can be small, and exact: forces of
    many bodies are products with differences of positions. A term that is not cheap is multiplied
    as the sum was, which saves nothing where the sum is needed anyway.
    """
    # As most operands are none: the terms of what is no sum are not looked for.
    if value.name not in _LOOKED_THROUGH or value.dtype is None:
        return []
    terms = _terms(value)
    dear = sum([not _may_be_cheap(term.value) for term in terms])
    if len(terms) == 1 or dear > (len(value.users) == 1):
        return []
    return terms if sum([not _is_product(term.value) for term in terms]) <= 1 else []


def _may_be_cheap(value: Node) -> bool:
    """Whether a value is made of smaller ones, or of the places of its elements."""
    size = elements(value.type)
    whole = [value]
    while len(whole) == 1 and size > 1:
        (node,) = whole
        if node.name not in RULES:
            return False
        if node.name in ("jaxpr.dot_general", "jaxpr.select_n") or is_mask(node):
            return True
        whole = [v for v in node.operands if elements(v.type) == size]
    return size == 1 or not whole


def _is_product(value: Node) -> bool:
    """Whether a value is computed by products, or is an identity or a diagonal."""
    return any(
        node.rule.contracts
        or is_mask(node)
        or (node.name == "jaxpr.mul" and all([elements(v.type) > 1 for v in node.operands]))
        for node in _made_of(value)
    )


def _made_of(value: Node) -> set[Node]:
    """A value that is a product, and those that it is made of and nothing else is."""
    found: set[Node] = set()
    pending = [value]
    while pending:
        inner = pending.pop()
        if inner.parts is not None and (inner is value or len(inner.users) == 1):
            found.add(inner)
            pending += inner.parts
    return found


@dataclass(eq=False)
class _Distributed:
    """A product with a sum, whose place products with its terms may take.

    Attributes:
      node: the product.
      position: of the operand that is the sum.
      terms: what it is the sum of.
      within: values that are a part of the terms and of nothing else.
      before: what is saved where products with the terms take its place.
      costs: of the values within.
    """

    node: Node
    position: int
    terms: list[_Term]
    within: set[Node]
    before: Cost
    costs: Mapping[Node, Cost]

    @staticmethod
    def of(node: Node, position: int, terms: list[_Term]) -> _Distributed:
        total = node.operands[position]
        before = cost_of(node)
        of_terms = [_made_of(term.value) for term in terms]
        within = set[Node]().union(*of_terms)
        costs = {value: cost_of(value) for value in within}
        if len(total.users) == 1:
            made = Cost(0, size(total.type), 1)
            for term, values in zip(terms, of_terms, strict=True):
                if len(term.value.users) == 1:
                    made += sum([costs[value] for value in values], FREE)
            # What a loop's constants are summed up to is made before it.
            read = {v for value in within for v in value.parts}
            read |= {term.value for term in terms}
            before += made.shared(min([v.fixed or 1 for v in read - within], default=1))
        return _Distributed(node, position, terms, within, before, costs)

    @functools.cached_property
    def structure(self) -> Hashable:
        """A key of all that the costs depend on."""
        node = self.node
        return (
            self.position,
            node.type,
            tuple(node.attributes.items()),
            tuple([(term.is_negative, term.permutation) for term in self.terms]),
            _structure([*(term.value for term in self.terms), *node.operands], self.costs),
        )

    def multiplied(self, function: Function) -> list[Tree]:
        """The products with each term, of which none is written yet."""
        node, operands = self.node, list(self.node.operands)
        total, products = operands[self.position], []
        for term in self.terms:
            steps = _whole(term, total)
            operands[self.position] = steps[-1] if steps else term.value
            product = Node(node.type, None, None, node.name, tuple(operands), node.attributes)
            for step in (*steps, product):
                function.read(step)
            products.append(product)
        return [function.tree(product, self.within) for product in products]

    def cost(self, trees: Sequence[Tree]) -> Cost:
        """The cost of the products, each in its best order, and of their sum."""
        cost = Cost(0, (len(self.terms) + 1) * size(self.node.type), 1)
        for tree in trees:
            cost += tree.best.cost if tree.is_mixed and tree.best else tree.cost
        return cost

    def take_place(self, rules: Rules, trees: Sequence[Tree]) -> None:
        """Uses the sum of the products instead of the product."""
        op, products = self.node.op, []
        with ir.InsertionPoint(op), op.location:
            for tree in trees:
                if tree.is_mixed and tree.best is not None:
                    emit_best(rules, tree, op)
                products.append(tree.root.value)
            self.node.replace(_sum(products, [term.is_negative for term in self.terms]))


def _structure(values: Sequence[Node], costs: Mapping[Node, Cost]) -> Hashable:
    """A key of the ops that some values are computed by, the same for values that differ only in
    what they are computed from.

    Args:
      costs: of the values that are a part of the products.
    """
    numbers: dict[Node, int] = {}
    found: list[Hashable] = []
    pending = [*values]
    while pending:
        value = pending.pop()
        if value in numbers:
            found.append(numbers[value])
            continue
        numbers[value] = len(numbers)
        parts = value.parts
        if parts is None or not (value in costs or value.rule.free):
            found.append((value.type, value.fixed))
            continue
        attributes = tuple(value.attributes.items())
        found.append((value.name, value.type, attributes, len(parts), costs.get(value)))
        pending += parts
    return tuple(found)


def _whole(term: _Term, total: Node) -> list[Node]:
    """The steps that give a term the shape and the type of the sum; none is written yet."""
    shape = total.shape
    value, steps, order = term.value, [], term.permutation

    def step(name: str, type_: ir.Type, attributes: dict[str, ir.Attribute]) -> None:
        steps.append(Node(type_, None, None, name, (steps[-1] if steps else value,), attributes))

    inverse = sorted(range(len(order)), key=order.__getitem__)
    made = tuple([shape[inverse[d]] for d in range(len(order))])
    if value.shape != made:
        rank = len(value.shape)
        dims = tuple(range(len(made) - rank, len(made)) if rank else ())
        attributes = {"shape": codec.encode(made), "broadcast_dimensions": codec.encode(dims)}
        step("jaxpr.broadcast_in_dim", with_shape(value.type, made), attributes)
    have, want = (steps[-1] if steps else value).type, with_shape(total.type, made)
    if have != want:
        step("jaxpr.convert_element_type", want, conversion(want))
    if order != tuple(range(len(order))):
        step("jaxpr.transpose", total.type, {"permutation": codec.encode(order)})
    return steps


def _sum(values: Sequence[ir.Value], are_negative: Sequence[bool]) -> ir.Value:
    """Values added up or subtracted, one that is added first if there is one."""
    terms = sorted(zip(are_negative, values, strict=True), key=lambda term: term[0])
    (is_negative, total), *others = terms
    if is_negative:
        total = build("neg", [total], total.type)
    for is_negative, value in others:
        total = build("sub" if is_negative else "add", [total, value], total.type)
    return total

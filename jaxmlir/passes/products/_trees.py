"""The product trees of a function, each with its network and its best order."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import ops_of, returned
from jaxmlir.passes.products._cost import Cost
from jaxmlir.passes.products._emit import Plan
from jaxmlir.passes.products._indices import Numbered, Unfit, resolve, size_of
from jaxmlir.passes.products._network import Node, Rule, Term, is_plain, leaf, shape_of
from jaxmlir.passes.products._order import Network, Selection, best_order
from jaxmlir.passes.products._selectors import SELECTING
from jaxmlir.types import aval_of

# A product of more ops than this is several.
MAX_OPS = 1024


@dataclass
class Function:
    """The ops of a function that can be read as products.

    Attributes:
      nodes: every op with one result, by that.
      parts: of those that are read, the operands that are parts of the product.
    """

    rules: Mapping[str, Rule]
    nodes: dict[ir.Value, Node] = field(default_factory=dict)
    parts: dict[ir.Value, tuple[ir.Value, ...]] = field(default_factory=dict)
    _users: dict[ir.Value, list[ir.Value | None]] = field(default_factory=dict)

    @staticmethod
    def of(function: func.FuncOp, rules: Mapping[str, Rule]) -> Function:
        found = Function(rules)
        for op, name, operands in ops_of(function):
            results = op.results
            if len(results) == 1:
                found._add(Node(op, name, operands, found.nodes))
            read = found.parts.get(results[0], ()) if len(results) == 1 else ()
            for v in operands:
                users = found._users.setdefault(v, [])
                users.append(results[0] if v in read else None)
        for v in returned(function):
            found._users.setdefault(v, []).append(None)
        return found

    def _add(self, node: Node) -> None:
        value = node.result
        self.nodes[value] = node
        rule = self.rules.get(node.name)
        if rule is None or "jaxpr.ctx" in node.attributes or not is_plain(value.type):
            return
        parts = tuple(node.operands[i] for i in rule.operands(node))
        element = _element(value.type)
        if parts and all(is_plain(v.type) and _element(v.type) == element for v in parts):
            self.parts[value] = parts

    def rule(self, value: ir.Value) -> Rule:
        return self.rules[self.nodes[value].name]

    def users(self, value: ir.Value) -> list[ir.Value | None]:
        """What a value is used for, seen through ops that are free: results of the ops of products
        that it is a part of, and ``None`` for every other use."""
        found: list[ir.Value | None] = []
        pending = [value]
        while pending:
            for user in self._users.get(pending.pop(), ()):
                if user is not None and self.rule(user).free:
                    pending.append(user)
                else:
                    found.append(user)
        return found

    def roots(self) -> list[ir.Value]:
        """The results of products that are not parts of just one other."""
        return [v for v in self.parts if not self.rule(v).free and not self._is_inside(v)]

    def _is_inside(self, value: ir.Value) -> bool:
        users = self.users(value)
        return len(users) == 1 and users[0] is not None

    def goes_into(self, value: ir.Value, absorbed: Collection[ir.Value]) -> bool:
        """Whether a value is part of the products that use it."""
        return value in self.parts and (
            self.rule(value).free or value in absorbed or self._is_inside(value)
        )

    def tree(self, root: ir.Value, absorbed: Collection[ir.Value] = ()) -> Tree:
        """The product that a value is the result of.

        Args:
          absorbed: values with several users that count as parts of the products that use them.
        """
        return _read(self, root, absorbed)


def _element(type_: ir.Type) -> ir.Type:
    return ir.RankedTensorType(type_).element_type


@dataclass(frozen=True)
class Planned:
    """A product in its best order.

    Attributes:
      cost: an estimate.
      plan: how to compute it.
      values: from what.
    """

    cost: Cost
    plan: Plan
    values: list[ir.Value]


@dataclass
class Tree:
    """A product as it is in the program.

    Attributes:
      root: its result.
      ops: those that it is computed by, the root's first; twice, if an absorbed value is.
      cuts: values within that turned out not to fit, and are products of their own.
      term: the network; ``None`` if there is none.
      dot: a matrix product whose precision all have, if there is one.
    """

    root: ir.Value
    ops: list[Node] = field(default_factory=list)
    cuts: list[ir.Value] = field(default_factory=list)
    term: Term | None = None
    dot: Node | None = None

    def suits(self, node: Node) -> bool:
        """Whether an op computes with the same precision as the others."""
        if node.name != "jaxpr.dot_general":
            return True
        if self.dot is None:
            self.dot = node
        return all(
            node.attributes.get(key) == self.dot.attributes.get(key)
            for key in ("precision", "preferred_element_type")
        )

    @functools.cached_property
    def leaves(self) -> list[ir.Value]:
        """The values that it is computed from."""
        return [f.value for f in self.term.factors] if self.term is not None else []

    @functools.cached_property
    def cost(self) -> Cost:
        """An estimate for the ops as they are."""
        return sum(map(_cost_of, self.ops), Cost())

    @functools.cached_property
    def best(self) -> Planned | None:
        """The best order, if there is any."""
        return _plan(self)


def _read(function: Function, root: ir.Value, absorbed: Collection[ir.Value]) -> Tree:
    tree = Tree(root)
    # Operands after their users, so that the terms of operands are there when read backwards.
    order: list[ir.Value] = []
    expanded: list[bool] = []
    pending = [root]
    while pending:
        value = pending.pop()
        whole = value == root or function.goes_into(value, absorbed)
        if whole and not (len(order) < MAX_OPS and tree.suits(function.nodes[value])):
            tree.cuts.append(value)
            whole = False
        order.append(value)
        expanded.append(whole)
        if whole:
            pending += function.parts[value]
            tree.ops.append(function.nodes[value])
    terms: list[Term] = []
    for value, whole in zip(reversed(order), reversed(expanded), strict=True):
        if not whole:
            terms.append(leaf(value))
            continue
        node = function.nodes[value]
        operands = [terms.pop() for _ in function.parts[value]]
        operands.reverse()
        try:
            term = function.rule(value).read(node, operands)
            if tuple(map(size_of, term.dims)) != shape_of(value):
                raise Unfit
            terms.append(term)
        except Unfit:
            tree.cuts += function.parts[value]
            if value == root:
                return tree
            terms.append(leaf(value))
    (tree.term,) = terms
    return tree


def _plan(tree: Tree) -> Planned | None:
    """Numbers the indices of a network, and orders it."""
    term = tree.term
    if term is None or not term.factors:
        return None
    selections = [(s, resolve([s.rows]), resolve(s.selected)) for s in term.selectors]
    for _, rows, selected in selections:
        # Rows that run together with the selected ones: no matrix product.
        if len(rows) != 1 or len({*rows, *selected}) < 1 + len(selected):
            return None
    indices = [dim for factor in term.factors for dim in factor.dims]
    indices += [[*rows, *selected] for _, rows, selected in selections]
    used = {index for dim in (*indices, *term.dims) for index in resolve(dim)}
    numbers = Numbered.of_all([*indices, *term.dims])
    network = Network(
        numbers.sizes,
        [_bits(numbers(i for dim in f.dims for i in dim)) for f in term.factors],
        [
            Selection(_bits(numbers(rows)), _bits(numbers(selected)), s.spec.transposable)
            for s, rows, selected in selections
        ],
        _bits(numbers(i for dim in term.dims for i in dim)),
        aval_of(tree.root.type).dtype.itemsize,
    )
    ordered = best_order(network)
    if ordered is None:
        return None
    aval = aval_of(tree.root.type)
    plan = Plan(
        sizes=numbers.sizes,
        factors=tuple(tuple(map(numbers, f.dims)) for f in term.factors),
        selectors=tuple(
            (s.spec, *numbers(rows), numbers(selected)) for s, rows, selected in selections
        ),
        out=tuple(map(numbers, term.dims)),
        order=ordered.order,
        scalars=tuple(kind for kind, _ in term.scalars),
        scaled=ordered.smallest,
        times=size_of({*resolve(term.made)} - used),
        exact=frozenset(n for index, n in numbers.of.items() if index.exact),
        shape=aval.shape,
        dtype=aval.dtype,
        precision=tree.dot and tree.dot.get("precision"),
        preferred_element_type=tree.dot and tree.dot.get("preferred_element_type"),
    )
    values = [f.value for f in term.factors]
    values += [v for s, *_ in selections for v in s.operands]
    values += [v for _, v in term.scalars if v is not None]
    return Planned(ordered.cost, plan, values)


def _bits(numbers: Collection[int]) -> int:
    return sum(1 << i for i in set(numbers))


def _cost_of(node: Node) -> Cost:
    """What an op costs as it is, where XLA fuses it into what uses it if it can.

    Rather too little than too much: what is rewritten should be worth it.
    """
    size = math.prod(shape_of(node.result))
    itemsize = aval_of(node.result.type).dtype.itemsize
    of_operands = [math.prod(shape_of(v)) for v in node.operands]
    match node.name:
        case "jaxpr.dot_general":
            (contracted, _), _ = node.get("dimension_numbers")
            summed = math.prod(shape_of(node.operands[0])[d] for d in contracted)
            return Cost(2 * size * summed, (sum(of_operands) + size) * itemsize, 1)
        case "jaxpr.reduce_sum":
            if (inner := _fused(node)) is None:
                return Cost(0, (of_operands[0] + size) * itemsize, 1)
            flops = 2 * of_operands[0] if inner == "jaxpr.mul" else 0
            return Cost(flops, size * itemsize, 1)
        case "jaxpr.scatter_add" | "jaxpr.pad" | "jaxpr.dynamic_update_slice":
            (updates,) = (of_operands[i] for i in SELECTING[node.name].operands(node))
            return Cost(0, (2 * updates + size) * itemsize, 1)
        case name if name in SELECTING:
            return Cost(0, 2 * size * itemsize, 1)
    return Cost()


def _fused(node: Node) -> str | None:
    """The op that a reduction is fused with: its operand has no memory of its own."""
    inner = node.others.get(node.operands[0])
    while inner is not None and inner.name in _VIEWS:
        inner = inner.others.get(inner.operands[0])
    fused = inner is not None and inner.name in ("jaxpr.mul", "jaxpr.broadcast_in_dim")
    return inner.name if fused else None


_VIEWS = ("jaxpr.transpose", "jaxpr.reshape", "jaxpr.squeeze", "jaxpr.neg")

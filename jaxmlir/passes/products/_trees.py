"""The product trees of a function, each with its network and its best order."""

from __future__ import annotations

import functools
import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import ops_of, returned
from jaxmlir.passes.products._cost import Cost
from jaxmlir.passes.products._emit import Plan
from jaxmlir.passes.products._indices import Numbered, Unfit, resolve, size_of
from jaxmlir.passes.products._network import (
    LOOKED_AT,
    Node,
    Rule,
    Term,
    is_mask,
    is_plain,
    leaf,
    shape_of,
)
from jaxmlir.passes.products._order import Network, Selection, best_order
from jaxmlir.passes.products._selectors import SELECTING
from jaxmlir.types import aval_of

# A product of more ops than this is several.
MAX_OPS = 1024


@dataclass
class Function:
    """The ops of a function that can be read as products.

    Attributes:
      rules: how each op is read, by name.
      nodes: these ops, and some that tell what they mean, by result.
      parts: of those that are read, the operands that are parts of the product.
      fixed: values that are the same in each iteration, and of how many iterations, if this is the
        body of a loop.
    """

    rules: Mapping[str, Rule]
    fixed: Mapping[ir.Value, int]
    nodes: dict[ir.Value, Node] = field(default_factory=dict)
    parts: dict[ir.Value, tuple[ir.Value, ...]] = field(default_factory=dict)
    _users: dict[ir.Value, list[ir.Value | None]] = field(default_factory=dict)

    @staticmethod
    def of(
        function: func.FuncOp, rules: Mapping[str, Rule], fixed: Mapping[ir.Value, int]
    ) -> Function:
        found = Function(rules, fixed)
        for op, name, operands in ops_of(function):
            found.read(op, name, operands)
        for v in returned(function):
            if v in found._users:
                found._users[v].append(None)
        return found

    def read(self, op: Any, name: str, operands: list[ir.Value]) -> None:
        """Reads an op, one that gives its operands having been read before it."""
        users, parts, result = self._users, None, None
        if name in self.rules or name in LOOKED_AT:
            result = op.results[0]
            node = self.nodes[result] = Node(op, name, operands, result, self.nodes)
            if name in self.rules:
                parts = self._parts_of(node)
        for v in operands:
            if v in users:
                users[v].append(result if v in (parts or ()) else None)
        if parts is not None:
            self.parts[result] = parts
            users[result] = []

    def _parts_of(self, node: Node) -> tuple[ir.Value, ...] | None:
        if not is_plain(node.result.type) or "jaxpr.ctx" in node.attributes:
            return None
        which = self.rules[node.name].operands(node)
        if which is None:
            return None
        parts = tuple([node.operands[i] for i in which])
        element = _element(node.result.type)
        fits = all(is_plain(v.type) and _element(v.type) == element for v in parts)
        return parts if fits else None

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
        """The results of products that are not parts of just one other, and that sum."""
        sums: set[ir.Value] = set()
        found = []
        for value, parts in self.parts.items():
            rule = self.rule(value)
            if rule.contracts or not sums.isdisjoint(parts):
                sums.add(value)
                if not rule.free and not self._is_inside(value):
                    found.append(value)
        return found

    def is_outer(self, value: ir.Value) -> bool:
        """Whether a product sums nothing, and has more elements than either factor."""
        sizes = [math.prod(shape_of(v)) for v in self.nodes[value].operands]
        return math.prod(shape_of(value)) > max(sizes)

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
        return Tree.of(self, root, absorbed)


@functools.cache
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
      function: where it is.
      root: its result.
      values: those that it is made of, each after its users: the root, the results of ops on the
        way, the factors.
      ops: those that it is computed by, the root's first; twice, if an absorbed value is.
      unsuited: values within that have another precision, and are products of their own.
      dot: a matrix product whose precision all have, if there is one.
    """

    function: Function
    root: ir.Value
    values: list[tuple[ir.Value, Node | None]] = field(default_factory=list)
    ops: list[Node] = field(default_factory=list)
    unsuited: list[ir.Value] = field(default_factory=list)
    dot: Node | None = None

    @staticmethod
    def of(function: Function, root: ir.Value, absorbed: Collection[ir.Value]) -> Tree:
        tree = Tree(function, root)
        pending = [root]
        while pending:
            value = pending.pop()
            node = None
            if value == root or function.goes_into(value, absorbed):
                node = function.nodes[value]
                if len(tree.ops) < MAX_OPS and tree._suits(node):
                    tree.ops.append(node)
                    pending += function.parts[value]
                else:
                    tree.unsuited.append(value)
                    node = None
            tree.values.append((value, node))
        return tree

    def _suits(self, node: Node) -> bool:
        """Whether an op computes with the same precision as the others."""
        if node.name != "jaxpr.dot_general":
            return True
        if self.dot is None:
            self.dot = node
        return _precision(node) == _precision(self.dot)

    @property
    def leaves(self) -> list[ir.Value]:
        """The values that it is computed from."""
        return [value for value, node in self.values if node is None]

    @functools.cached_property
    def is_mixed(self) -> bool:
        """Whether there is more than one matrix product, or anything else in it to look at."""
        rules = self.function.rules
        contracting = sum(rules[node.name].contracts for node in self.ops)
        return contracting > 1 or (contracting > 0 and any(map(_is_mixing, self.ops)))

    @functools.cached_property
    def cuts(self) -> list[ir.Value]:
        """Values within that turned out not to fit, and are products of their own."""
        return self.unsuited + self._read[1]

    @property
    def term(self) -> Term | None:
        """The network; ``None`` if there is none."""
        return self._read[0]

    @functools.cached_property
    def _read(self) -> tuple[Term | None, list[ir.Value]]:
        cuts: list[ir.Value] = []
        terms: list[Term] = []
        # Backwards: the terms of operands are there when an op is read.
        for value, node in reversed(self.values):
            if node is None:
                terms.append(leaf(value))
                continue
            parts = self.function.parts[value]
            operands = [terms.pop() for _ in parts][::-1]
            try:
                term = self.function.rule(value).read(node, operands)
                if tuple(map(size_of, term.dims)) != shape_of(value):
                    raise Unfit
                terms.append(term)
            except Unfit:
                cuts += parts
                if value == self.root:
                    return None, cuts
                terms.append(leaf(value))
        (term,) = terms
        return term, cuts

    @functools.cached_property
    def cost(self) -> Cost:
        """An estimate for the ops as they are."""
        total = Cost()
        trips = ChainMap[ir.Value, int]({}, self.function.fixed)
        # Backwards: of operands it is known in how many iterations they are the same.
        for value, node in reversed(self.values):
            if node is not None:
                trips[value] = min((trips.get(v, 1) for v in node.operands), default=1)
                total += cost_of(node).shared(trips[value])
        return total

    @functools.cached_property
    def best(self) -> Planned | None:
        """The best order, if there is any."""
        return _plan(self)


def _precision(node: Node) -> list[tuple[str, ir.Attribute]]:
    """What says how precisely a matrix product is computed."""
    keys = ("precision", "preferred_element_type")
    return [(key, node.attributes[key]) for key in keys if key in node.attributes]


def _is_mixing(node: Node) -> bool:
    """Whether an op can make it worth while to look at a product with one sum only."""
    if node.name == "jaxpr.mul":
        return all(math.prod(shape_of(v)) > 1 for v in node.operands)
    return node.name == "jaxpr.broadcast_in_dim" or is_mask(node)


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
    fixed = tree.function.fixed
    operands = [[f.value] for f in term.factors] + [s.operands for s, *_ in selections]
    trips = {fixed[v] for values in operands for v in values if v in fixed}
    network = Network(
        numbers.sizes,
        tuple(_bits(numbers(i for dim in f.dims for i in dim)) for f in term.factors),
        tuple(
            Selection(
                _bits(numbers(rows)),
                _bits(numbers(selected)),
                s.spec.transposable,
                s.spec.picks,
            )
            for s, rows, selected in selections
        ),
        _bits(numbers(i for dim in term.dims for i in dim)),
        aval_of(tree.root.type).dtype.itemsize,
        _bits(k for k, values in enumerate(operands) if all(v in fixed for v in values)),
        min(trips, default=1),
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


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << i for i in set(numbers))


def cost_of(node: Node) -> Cost:
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
            if inner.name != "jaxpr.mul":
                return Cost(0, size * itemsize, 1)
            stored = 2 if _is_spread_for_others(inner) else 3 if _is_spread_over(inner, node) else 0
            return Cost(2 * of_operands[0], (size + stored * of_operands[0]) * itemsize, 1)
        case "jaxpr.scatter_add" | "jaxpr.pad" | "jaxpr.dynamic_update_slice":
            (updates,) = (of_operands[i] for i in SELECTING[node.name].operands(node))
            return Cost(0, (2 * updates + size) * itemsize, 1)
        case name if name in SELECTING:
            return Cost(0, 2 * size * itemsize, 1)
    return Cost()


def _fused(node: Node) -> Node | None:
    """The op that a reduction is fused with: its operand has no memory of its own."""
    inner = node.others.get(node.operands[0])
    while inner is not None and inner.name in _VIEWS:
        inner = inner.others.get(inner.operands[0])
    fused = inner is not None and inner.name in ("jaxpr.mul", "jaxpr.broadcast_in_dim")
    return inner if fused else None


def _is_spread_for_others(product: Node) -> bool:
    """Whether both factors of a product that is summed are spread out, and one of them for others
    as well.

    XLA makes such a sum a product of matrices only if what it sums is not shared.  The gradient of
    ``sum(x[:, None] * y[None], -1)`` spreads the cotangent for two products, both of which are
    computed element by element: of 1000 x 1000 x 64 numbers, that takes 250 times as long as the
    products of matrices on JAX 0.10 and 100 times on 0.12.
    """
    size = math.prod(shape_of(product.result))
    shared = False
    for value in product.operands:
        factor = product.others.get(value)
        if factor is not None and factor.name == "jaxpr.broadcast_in_dim":
            shared |= sum(1 for _ in value.uses) > 1
            value = factor.operands[0]
        if math.prod(shape_of(value)) == size:
            return False
    return shared


def _is_spread_over(product: Node, reduction: Node) -> bool:
    """Whether a factor of a product that is summed is the same along the axes of the sum.

    XLA's library of reductions takes the product for a part of the sum, and what both are made of
    is stored for it, the spread factor as well.  The sum of 5000 x 64 x 8 numbers along the
    first axis takes 0.3 ms on JAX 0.10 and 0.12; of their products with 64 x 8 others 0.7 and 2.1.
    """
    summed = {d for d in reduction.get("axes") if shape_of(reduction.operands[0])[d] > 1}
    if reduction.operands[0] != product.result or not summed:
        return False
    for value in product.operands:
        factor = product.others.get(value)
        runs = {d for d, size in enumerate(shape_of(value)) if size > 1}
        if factor is not None and factor.name == "jaxpr.broadcast_in_dim":
            made_of = shape_of(factor.operands[0])
            dims = factor.get("broadcast_dimensions")
            runs = {d for d, size in zip(dims, made_of, strict=True) if size > 1}
        if runs and not runs & summed:
            return True
    return False


_VIEWS = ("jaxpr.transpose", "jaxpr.reshape", "jaxpr.squeeze", "jaxpr.neg")

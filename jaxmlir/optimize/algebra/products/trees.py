"""The product trees of a function, each with its network and its best order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxmlir.analysis.function_view import attributes_of
from jaxmlir.dialect.builder import returned
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.algebra.products.network import (
    LOOKED_AT,
    Index,
    Node,
    Rule,
    Term,
    Unfit,
    is_mask,
    leaf,
    resolve,
    size_of,
)
from jaxmlir.optimize.algebra.products.order import FREE, Cost, Network, Plan, Selection, best_order
from jaxmlir.optimize.algebra.products.selectors import SELECTING
from jaxmlir.support.lazy import lazy
from jaxmlir.targets.costs import Costs

# A product of more ops than this is several.
MAX_OPS = 1024


@dataclass(eq=False)
class Function:
    """The ops of a function that can be read as products.

    Attributes:
      rules: how each op is read, by name.
      fixed: values that are the same in each iteration, and of how many iterations, if this is the
        body of a loop.
      costs: of the target.
      nodes: what is known of values: those that ops that are looked at take and give.
      products: those that are read as products, in order.
      plans: the best orders that were found, for products of the same structure, each with the
        places of what it is computed from among the product's values.
    """

    rules: Mapping[str, Rule]
    fixed: Mapping[ir.Value, int]
    costs: Costs
    nodes: dict[ir.Value, Node] = field(default_factory=dict)
    products: list[Node] = field(default_factory=list)
    plans: dict[Hashable, tuple[Planned | None, list[int]]] = field(default_factory=dict)

    @staticmethod
    def of(
        function: func.FuncOp,
        ops: Iterable[tuple[Any, str]],
        rules: Mapping[str, Rule],
        fixed: Mapping[ir.Value, int],
        costs: Costs,
        others: Collection[str] = (),
    ) -> Function:
        """
        Args:
          ops: those before the return, with their names.
          others: the names of more ops to look at.
        """
        found = Function(rules, fixed, costs)
        nodes, looked_at = found.nodes, {*rules, *LOOKED_AT, *others}
        for op, name in ops:
            if name in looked_at:
                operands = tuple([nodes.get(v) or found._leaf(v) for v in op.operands])
                result = op.result
                # Of most of what is read they are asked for, which is dearer than to have them.
                attributes = attributes_of(op) if name in rules else None
                node = Node(result.type, result, op, name, operands, attributes)
                nodes[result] = node
                found.read(node)
            else:
                found._used(op.operands)
        found._used(returned(function))
        return found

    def _leaf(self, value: ir.Value) -> Node:
        """A value that none of the ops gives."""
        found = self.nodes[value] = Node(value.type, value)
        found.fixed = self.fixed.get(value)
        return found

    def _used(self, values: Iterable[ir.Value]) -> None:
        """Notes that values are used by what is not looked at."""
        for value in values:
            node = self.nodes.get(value)
            if node is not None:
                node.users.append(None)

    def read(self, node: Node) -> None:
        """Reads an op, one that gives its operands having been read before it."""
        rule = node.rule = self.rules.get(node.name)
        parts = node.parts = None if rule is None else _parts_of(node, rule)
        if parts is None:
            for operand in node.operands:
                operand.users.append(None)
            return
        self.products.append(node)
        all_are_parts = len(parts) == len(node.operands)
        for operand in node.operands:
            operand.users.append(node if all_are_parts or operand in parts else None)

    def users(self, value: Node, most: int) -> list[Node | None]:
        """The uses of a value, seen through ops that are free: results of the ops of products that
        it is a part of, and ``None`` for every other use; no more of them than ``most``."""
        found: list[Node | None] = []
        pending = [iter(value.users)]
        while pending and len(found) < most:
            for user in pending[-1]:
                if user is not None and user.rule.free:
                    pending.append(iter(user.users))
                    break
                found.append(user)
                if len(found) == most:
                    break
            else:
                pending.pop()
        return found

    def roots(self) -> list[Node]:
        """The results of products that are not parts of just one other, and that sum."""
        sums: set[Node] = set()
        found = []
        for node in self.products:
            if node.rule.contracts or not sums.isdisjoint(node.parts):
                sums.add(node)
                if not node.rule.free and not self.is_inside(node):
                    found.append(node)
        return found

    def is_outer(self, node: Node) -> bool:
        """Whether a product sums nothing, and has more elements than either factor."""
        sizes = [math.prod(v.shape) for v in node.operands]
        return math.prod(node.shape) > max(sizes)

    def is_inside(self, node: Node) -> bool:
        """Whether a value is a part of one product, and has no other use."""
        users = self.users(node, 2)
        return len(users) == 1 and users[0] is not None

    def tree(self, root: Node, absorbed: Collection[Node] = ()) -> Tree:
        """The product that a value is the result of.

        Args:
          absorbed: values with several users that count as parts of the products that use them.
        """
        return Tree.of(self, root, absorbed)


def _parts_of(node: Node, rule: Rule) -> tuple[Node, ...] | None:
    """The operands of an op that are parts of the product, if it is read as one."""
    dtype, operands = node.dtype, node.operands
    if dtype is None or "jaxpr.ctx" in node.attributes:
        return None
    which = rule.operands(node)
    if which is None:
        return None
    for i in which:
        # To NumPy, no dtype is float64.
        if operands[i].dtype is None or operands[i].dtype != dtype:
            return None
    return operands if len(which) == len(operands) else tuple([operands[i] for i in which])


class Planned(NamedTuple):
    """A product in its best order.

    Attributes:
      cost: an estimate.
      plan: how to compute it.
      values: from what.
    """

    cost: Cost
    plan: Plan
    values: list[Node]


@dataclass(eq=False)
class Tree:
    """A product as it is in the program.

    Attributes:
      function: where it is.
      root: its result.
      values: those that it is made of, each after its users: the root, the results of ops on the
        way, the factors; and whether they are on the way.
      ops: those that it is computed by, the root's first; twice, if an absorbed value is.
      unsuited: values within that have another precision, and are products of their own.
      dot: a matrix product whose precision all have, if there is one.
    """

    function: Function
    root: Node
    values: list[tuple[Node, bool]] = field(default_factory=list)
    ops: list[Node] = field(default_factory=list)
    unsuited: list[Node] = field(default_factory=list)
    dot: Node | None = None

    @staticmethod
    def of(function: Function, root: Node, absorbed: Collection[Node]) -> Tree:
        tree = Tree(function, root)
        pending = [root]
        while pending:
            node = pending.pop()
            is_inside = node is root or (
                node.parts is not None
                and (node.rule.free or node in absorbed or function.is_inside(node))
            )
            if is_inside:
                if len(tree.ops) < MAX_OPS and tree._suits(node):
                    tree.ops.append(node)
                    pending += node.parts
                else:
                    tree.unsuited.append(node)
                    is_inside = False
            tree.values.append((node, is_inside))
        return tree

    def _suits(self, node: Node) -> bool:
        """Whether an op computes with the same precision as the others."""
        if node.name != "jaxpr.dot_general":
            return True
        if self.dot is None:
            self.dot = node
            return True
        return _precision(node) == _precision(self.dot)

    @property
    def leaves(self) -> list[Node]:
        """The values that it is computed from."""
        return [node for node, is_inside in self.values if not is_inside]

    @lazy
    def is_mixed(self) -> bool:
        """Whether there is more than one matrix product, or anything else in it to look at."""
        contracting = sum([node.rule.contracts for node in self.ops])
        return contracting > 1 or (contracting > 0 and any(map(_is_mixing, self.ops)))

    @lazy
    def cuts(self) -> list[Node]:
        """Values within that turned out not to fit, and are products of their own."""
        return self.unsuited + self._read[1]

    @property
    def term(self) -> Term | None:
        """The network; ``None`` if there is none."""
        return self._read[0]

    @lazy
    def _read(self) -> tuple[Term | None, list[Node]]:
        cuts: list[Node] = []
        terms: list[Term] = []
        # Backwards: the terms of operands are there when an op is read.
        for node, is_inside in reversed(self.values):
            if not is_inside:
                terms.append(leaf(node))
                continue
            operands = [terms.pop() for _ in node.parts][::-1]
            try:
                term = node.rule.read(node, operands)
                sizes = [dim[0].size if len(dim) == 1 else size_of(dim) for dim in term.dims]
                if tuple(sizes) != node.shape:
                    raise Unfit
                terms.append(term)
            except Unfit:
                cuts += node.parts
                if node is self.root:
                    return None, cuts
                terms.append(leaf(node))
        (term,) = terms
        return term, cuts

    @lazy
    def cost(self) -> Cost:
        """An estimate for the ops as they are."""
        total = FREE
        trips: dict[Node, int] = {}
        # A sum of single elements counts as a kernel, though it is none, where the same ops are
        # written without it.  Sums of products may become products of matrices: of 8 x 6 x 16
        # numbers, these took 1.03 of the time and 1.24 of the time to compile.
        is_fused = self.function.costs.waits_for_kernels or any(map(_sums_products, self.ops))
        # Backwards: of operands it is known in how many iterations they are the same.
        for node, is_inside in reversed(self.values):
            if is_inside:
                times = min([trips.get(v, v.fixed or 1) for v in node.operands], default=1)
                trips[node] = times
                if not (is_fused and _is_elementwise(node)):
                    total += cost_of(node).shared(times)
        return total

    @lazy
    def best(self) -> Planned | None:
        """The best order, if there is any."""
        if any([node.rule.has_others for node in self.ops]):
            return _plan(self)
        structure, places = self._structure()
        known = self.function.plans.get(structure)
        if known is None:
            planned = _plan(self)
            values = [] if planned is None else planned.values
            self.function.plans[structure] = planned, [places[value] for value in values]
            return planned
        planned, taken = known
        if planned is None:
            return None
        return Planned(planned.cost, planned.plan, [self.values[i][0] for i in taken])

    def _structure(self) -> tuple[Hashable, dict[Node, int]]:
        """A key of all that the best order depends on, and where each value is met first.

        Also those on the way: one that does not fit is computed from as it is.
        """
        places: dict[Node, int] = {}
        found = []
        for i, (node, is_inside) in enumerate(self.values):
            place = places.setdefault(node, i)
            if is_inside:
                # Of a conversion the mask of an identity is no part, and an array is.
                what = node.name, node.shape, place, len(node.parts)
                found.append((*what, *node.attributes.items()))
            else:
                found.append((node.shape, node.fixed, place))
        return (self.root.dtype, *found), places


def _precision(node: Node) -> list[tuple[str, ir.Attribute]]:
    """The attributes that say how precisely a matrix product is computed."""
    keys = ("precision", "preferred_element_type")
    return [(key, node.attributes[key]) for key in keys if key in node.attributes]


def _is_mixing(node: Node) -> bool:
    """Whether an op can make it worth while to look at a product with one sum only."""
    if node.name == "jaxpr.mul":
        return all(math.prod(v.shape) > 1 for v in node.operands)
    return node.name == "jaxpr.broadcast_in_dim" or is_mask(node)


def _plan(tree: Tree) -> Planned | None:
    """Numbers the indices of a network, and orders it."""
    term = tree.term
    if term is None or not term.factors:
        return None
    # In the order in which they occur, for looking up and hashing what has been planned.
    numbers: dict[Index, int] = {}

    def numbered(indices: Iterable[Index]) -> tuple[int, ...]:
        return tuple([numbers.setdefault(index, len(numbers)) for index in resolve(indices)])

    factors = tuple([tuple(map(numbered, factor.dims)) for factor in term.factors])
    selectors = []
    for s in term.selectors:
        rows, selected = numbered([s.rows]), numbered(s.selected)
        # Rows that run together with the selected ones: no matrix product.
        if len(rows) != 1 or len({*rows, *selected}) < 1 + len(selected):
            return None
        selectors.append((s.spec, rows[0], selected))
    out = tuple(map(numbered, term.dims))
    sizes = tuple([index.size for index in numbers])
    values = [f.value for f in term.factors]
    operands = [(value,) for value in values] + [s.operands for s in term.selectors]
    trips = [v.fixed for of_one in operands for v in of_one if v.fixed is not None]
    fixed = 0
    if trips:
        fixed = _bits(
            k for k, of_one in enumerate(operands) if all(v.fixed is not None for v in of_one)
        )
    network = Network(
        sizes,
        tuple([_bits(itertools.chain(*dims)) for dims in factors]),
        tuple(
            Selection(1 << rows, _bits(selected), spec.transposable, spec.picks)
            for spec, rows, selected in selectors
        ),
        _bits(itertools.chain(*out)),
        tree.root.dtype.itemsize,
        tree.function.costs,
        fixed,
        min(trips, default=1),
    )
    ordered = best_order(network)
    if ordered is None:
        return None
    plan = Plan(
        sizes=sizes,
        factors=factors,
        selectors=tuple(selectors),
        out=out,
        order=ordered.order,
        scalars=tuple([kind for kind, _ in term.scalars]),
        scaled=ordered.smallest,
        times=size_of({*resolve(term.made)} - numbers.keys()) if term.made else 1,
        exact=frozenset([number for index, number in numbers.items() if index.exact]),
        shape=tree.root.shape,
        dtype=tree.root.dtype,
        precision=tree.dot and tree.dot.get("precision"),
        preferred_element_type=tree.dot and tree.dot.get("preferred_element_type"),
    )
    values += [v for s in term.selectors for v in s.operands]
    values += [v for _, v in term.scalars if v is not None]
    return Planned(ordered.cost, plan, values)


def _bits(numbers: Iterable[int]) -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def _sums_products(node: Node) -> bool:
    """Whether an op sums elementwise products, which are fused with the sum."""
    inner = _fused(node) if node.name == "jaxpr.reduce_sum" else None
    return inner is not None and inner.name == "jaxpr.mul" and not _is_elementwise(node)


def _is_elementwise(node: Node) -> bool:
    """Whether an op sums over dimensions of size 1, or none: what reads it computes it, where that
    saves starting a kernel."""
    if node.name == "jaxpr.dot_general":
        (contracted, _), _ = node.get("dimension_numbers")
        return math.prod([node.operands[0].shape[d] for d in contracted]) == 1
    if node.name != "jaxpr.reduce_sum":
        return False
    return math.prod(node.operands[0].shape) == math.prod(node.shape)


def cost_of(node: Node) -> Cost:
    """The cost of an op as it is, which XLA fuses into what uses it if it can.

    Rather too little than too much: what is rewritten should be worth it.
    """
    name = node.name
    if name not in _COSTLY and name not in SELECTING:
        return FREE
    size = math.prod(node.shape)
    itemsize = node.dtype.itemsize
    of_operands = [math.prod(v.shape) for v in node.operands]
    match name:
        case "jaxpr.dot_general":
            (contracted, _), _ = node.get("dimension_numbers")
            lhs = node.operands[0].shape
            summed = math.prod([lhs[d] for d in contracted])
            return Cost(2 * size * summed, (sum(of_operands) + size) * itemsize, 1)
        case "jaxpr.reduce_sum":
            if (inner := _fused(node)) is None:
                return Cost(0, (of_operands[0] + size) * itemsize, 1)
            if inner.name != "jaxpr.mul":
                return Cost(0, size * itemsize, 1)
            stored = 2 if _is_spread_for_others(inner) else 3 if _is_spread_over(inner, node) else 0
            return Cost(2 * of_operands[0], (size + stored * of_operands[0]) * itemsize, 1)
        case "jaxpr.scatter_add" | "jaxpr.pad" | "jaxpr.dynamic_update_slice":
            (updates,) = (of_operands[i] for i in SELECTING[name].operands(node))
            return Cost(0, (2 * updates + size) * itemsize, 1)
    return Cost(0, 2 * size * itemsize, 1)


_COSTLY = ("jaxpr.dot_general", "jaxpr.reduce_sum")


def _fused(node: Node) -> Node | None:
    """The op that a reduction is fused with: its operand has no memory of its own."""
    inner = node.operands[0]
    while inner.name in _VIEWS:
        inner = inner.operands[0]
    return inner if inner.name in ("jaxpr.mul", "jaxpr.broadcast_in_dim") else None


def _is_spread_for_others(product: Node) -> bool:
    """Whether both factors of a product that is summed are spread out, and one of them for others
    as well.

    XLA makes such a sum a product of matrices only if what it sums is not shared.  The gradient of
    ``sum(x[:, None] * y[None], -1)`` spreads the cotangent for two products, both of which are
    computed element by element: of 1000 x 1000 x 64 numbers, that takes 250 times as long as the
    products of matrices on JAX 0.10 and 100 times on 0.12.
    """
    size = math.prod(product.shape)
    shared = False
    for value in product.operands:
        if value.name == "jaxpr.broadcast_in_dim":
            shared |= len(value.users) > 1
            value = value.operands[0]
        if math.prod(value.shape) == size:
            return False
    return shared


def _is_spread_over(product: Node, reduction: Node) -> bool:
    """Whether a factor of a product that is summed is the same along the axes of the sum.

    XLA's library of reductions takes the product for a part of the sum, and what both are made of
    is stored for it, the spread factor as well.  The sum of 5000 x 64 x 8 numbers along the
    first axis takes 0.3 ms on JAX 0.10 and 0.12; of their products with 64 x 8 others 0.7 and 2.1.
    """
    shape = reduction.operands[0].shape
    summed = {d for d in reduction.get("axes") if shape[d] > 1}
    if reduction.operands[0] is not product or not summed:
        return False
    for value in product.operands:
        runs = {d for d, size in enumerate(value.shape) if size > 1}
        if value.name == "jaxpr.broadcast_in_dim":
            made_of = value.operands[0].shape
            dims = value.get("broadcast_dimensions")
            runs = {d for d, size in zip(dims, made_of, strict=True) if size > 1}
        if runs and not runs & summed:
            return True
    return False


_VIEWS = with_trait(Trait.RESHAPE) | {"jaxpr.neg", "jaxpr.transpose"}

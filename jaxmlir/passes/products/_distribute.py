"""Products with sums of which a term is cheap to multiply by, written as sums of products."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._bodies import loop_constants
from jaxmlir.passes._build import build, converted, drop_dead_ops, only_user, ops_of
from jaxmlir.passes._call_graph import outside_kernels
from jaxmlir.passes._node import node_of
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import elements, size, with_shape
from jaxmlir.passes.products._cost import Cost
from jaxmlir.passes.products._network import RULES, Node, is_mask, is_plain, shape_of
from jaxmlir.passes.products._rewrite import emit_best
from jaxmlir.passes.products._trees import Function, Tree, cost_of
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

# A sum of more terms than this is a matrix.
MAX_TERMS = 8


def distribute_program(program: Program, min_gain: float) -> int:
    """Distributes products over sums in place; how many.

    Args:
      min_gain: how many times faster the sum of products has to be in the estimate.
    """
    functions = outside_kernels(program, ("jaxpr.dot_general",))
    if not functions:
        return 0
    with scope():
        rules, fixed = Rules(program), loop_constants(program)
        found = [_distribute(rules, function, fixed, min_gain) for function in functions]
    if any(count is not None for count in found):
        program.changed()
    return sum(count or 0 for count in found)


def _distribute(
    rules: Rules, function: func.FuncOp, fixed: Mapping[ir.Value, int], min_gain: float
) -> int | None:
    """Distributes products of a function; how many, ``None`` if nothing was written at all."""
    if not any(
        name == "jaxpr.dot_general" and any(_distributable(v, _may_be_cheap) for v in operands)
        for _, name, operands in ops_of(function)
    ):
        return None
    found = Function.of(function, RULES, fixed)
    tried = [
        _Distributed.of(found, node, position, terms)
        for node in found.nodes.values()
        if node.name == "jaxpr.dot_general" and node.result in found.parts
        for position in (0, 1)
        if (terms := _distributable(node.operands[position], partial(_is_product, found)))
    ]
    if not tried:
        return None
    best: dict[ir.Value, tuple[Cost, _Distributed, list[Tree]]] = {}
    # Long programs say the same many times over; what does not pay once is not written again.
    vain: set[Hashable] = set()
    for each in tried:
        if each.structure in vain:
            continue
        trees = each.write(found)
        cost = each.cost(trees)
        if cost.ns * min_gain >= each.before.ns:
            vain.add(each.structure)
        elif each.root not in best or cost.ns < best[each.root][0].ns:
            best[each.root] = cost, each, trees
    new: dict[ir.Value, ir.Value] = {}
    for cost, each, trees in best.values():
        remark(
            each.node.op,
            f"product with a sum of {len(each.terms)} terms as a sum of products: {cost} "
            f"instead of {each.before}",
        )
        each.take_place(rules, trees, new)
    # The products that were distributed, and those that were written in vain.
    drop_dead_ops(function)
    return len(best)


@dataclass(frozen=True)
class _Term:
    """One of what is added up to an operand.

    Attributes:
      value: in the program.
      is_negative: whether it is subtracted.
      permutation: of its dimensions, in the operand.
    """

    value: ir.Value
    is_negative: bool
    permutation: tuple[int, ...]


def _terms(value: ir.Value) -> list[_Term]:
    """What a value is the sum of, as far as the sums are used for nothing else."""
    rank = len(shape_of(value))
    found: list[_Term] = []
    pending = [(_Term(value, False, tuple(range(rank))), True)]
    while pending:
        term, is_inner = pending.pop()
        node = node_of(term.value) if is_inner or only_user(term.value) is not None else None
        name = node.name if node is not None else ""
        negative = term.is_negative
        if node is None or len(shape_of(term.value)) != rank:
            found.append(term)
        elif name in _SUMS and len(found) + len(pending) < MAX_TERMS:
            a, b = node.operands
            pending.append((_Term(b, negative != (name == "jaxpr.sub"), term.permutation), False))
            pending.append((_Term(a, negative, term.permutation), False))
        elif name == "jaxpr.neg":
            pending.append((_Term(node.operands[0], not negative, term.permutation), False))
        elif name == "jaxpr.transpose":
            inner = tuple(node.get("permutation"))
            order = tuple(inner[d] for d in term.permutation)
            pending.append((_Term(node.operands[0], negative, order), False))
        else:
            found.append(term)
    return found


_SUMS = ("jaxpr.add", "jaxpr.add_any", "jaxpr.sub")
_LOOKED_THROUGH = (*_SUMS, "jaxpr.neg", "jaxpr.transpose")


def _distributable(value: ir.Value, is_product: Callable[[ir.Value], bool]) -> list[_Term]:
    """The terms that a value is the sum of, if all but one, or all, may be cheap to multiply by,
    and they cancel no more than they do now; else none.

    What is a product has errors of its own, and an identity or a diagonal meets the other terms in
    few places. But of two dense arrays of data the difference can be small, and exact: forces of
    many bodies are products with differences of positions. A term that is not cheap is multiplied
    as the sum was, which saves nothing where the sum is needed anyway.
    """
    op = value.owner
    # As most operands are none: the terms of what is no sum are not looked for.
    if isinstance(op, ir.Block) or op.name not in _LOOKED_THROUGH or not is_plain(value.type):
        return []
    terms = _terms(value)
    if len(terms) == 1 or sum(not is_product(term.value) for term in terms) > 1:
        return []
    dear = sum(not _may_be_cheap(term.value) for term in terms)
    return terms if dear <= (only_user(value) is not None) else []


def _may_be_cheap(value: ir.Value) -> bool:
    """Whether a value is made of smaller ones, or of the places of its elements."""
    if elements(value.type) == 1:
        return True
    node = node_of(value)
    if node is None or node.name not in RULES:
        return False
    whole = [v for v in node.operands if elements(v.type) == elements(value.type)]
    if node.name in ("jaxpr.dot_general", "jaxpr.select_n"):
        return True
    if node.name == "jaxpr.convert_element_type":
        return aval_of(node.operands[0].type).dtype == bool or all(map(_may_be_cheap, whole))
    return len(whole) < 2 and all(map(_may_be_cheap, whole))


def _is_product(function: Function, value: ir.Value) -> bool:
    """Whether a value is computed by products, or is an identity or a diagonal."""
    nodes = map(function.nodes.__getitem__, _made_of(function, value))
    return any(
        RULES[node.name].contracts
        or is_mask(node)
        or (node.name == "jaxpr.mul" and all(elements(v.type) > 1 for v in node.operands))
        for node in nodes
    )


def _made_of(function: Function, value: ir.Value) -> set[ir.Value]:
    """A value that is a product, and those that it is made of and nothing else is."""
    found: set[ir.Value] = set()
    pending = [value]
    while pending:
        inner = pending.pop()
        if inner in function.parts and (inner == value or only_user(inner) is not None):
            found.add(inner)
            pending += function.parts[inner]
    return found


@dataclass(frozen=True)
class _Distributed:
    """A product with a sum, whose place products with its terms may take.

    Attributes:
      node: the product.
      position: of the operand that is the sum.
      terms: what it is the sum of.
      within: values that are a part of the terms and of nothing else.
      before: what is saved where products with the terms take its place.
      structure: what the costs depend on; where it is the same, so are they.
    """

    node: Node
    position: int
    terms: list[_Term]
    within: frozenset[ir.Value]
    before: Cost
    structure: Hashable

    @staticmethod
    def of(function: Function, node: Node, position: int, terms: list[_Term]) -> _Distributed:
        total = node.operands[position]
        before = cost_of(node)
        of_terms = [_made_of(function, term.value) for term in terms]
        within = frozenset[ir.Value]().union(*of_terms)
        costs = {value: cost_of(function.nodes[value]) for value in within}
        if only_user(total) is not None:
            made = Cost(0, size(total.type), 1)
            for term, values in zip(terms, of_terms, strict=True):
                if only_user(term.value) is not None:
                    made += sum(map(costs.__getitem__, values), Cost())
            # What a loop's constants are summed up to is made before it.
            read = {v for value in within for v in function.parts[value]}
            read |= {term.value for term in terms}
            before += made.shared(min((function.fixed.get(v, 1) for v in read - within), default=1))
        structure = (
            position,
            before,
            node.result.type,
            tuple(node.attributes.items()),
            tuple([(term.is_negative, term.permutation) for term in terms]),
            _structure(function, [*(term.value for term in terms), *node.operands], costs),
        )
        return _Distributed(node, position, terms, within, before, structure)

    def write(self, function: Function) -> list[Tree]:
        """Writes the products with each term."""
        node, operands = self.node, list(self.node.operands)
        total, products = operands[self.position], []
        with ir.InsertionPoint(node.op), node.op.location:
            for term in self.terms:
                steps = _whole(term, total)
                operands[self.position] = steps[-1]
                product = ir.Operation.create(
                    node.name, [node.result.type], operands, node.attributes
                )
                products.append(product.result)
                for op in (*(step.owner for step in steps[1:]), product):
                    function.read(op, op.name, [*op.operands])
        return [function.tree(product, self.within) for product in products]

    @property
    def root(self) -> ir.Value:
        return self.node.result

    def cost(self, trees: Sequence[Tree]) -> Cost:
        """Of the products, each in its best order, and of their sum."""
        cost = Cost(0, (len(self.terms) + 1) * size(self.root.type), 1)
        for tree in trees:
            cost += tree.best.cost if tree.is_mixed and tree.best else tree.cost
        return cost

    def take_place(
        self, rules: Rules, trees: Sequence[Tree], new: dict[ir.Value, ir.Value]
    ) -> None:
        """Uses the sum of the products instead of the product.

        Args:
          trees: the products.
          new: what has taken the place of results; this one is added.
        """
        for tree in trees:
            if tree.is_mixed and tree.best is not None:
                emit_best(rules, tree, new)
        with ir.InsertionPoint(self.node.op), self.node.op.location:
            value = _sum(
                [new.get(tree.root, tree.root) for tree in trees],
                [term.is_negative for term in self.terms],
            )
        new[self.root] = value
        self.root.replace_all_uses_with(value)


def _structure(
    function: Function, values: Sequence[ir.Value], costs: Mapping[ir.Value, Cost]
) -> Hashable:
    """What the products of some values are computed by: the same for products that are equal but
    for what they are computed from.

    Args:
      costs: of the values that are a part of the products.
    """
    numbers: dict[ir.Value, int] = {}
    found: list[Hashable] = []
    pending = [*values]
    while pending:
        value = pending.pop()
        if value in numbers:
            found.append(numbers[value])
            continue
        numbers[value] = len(numbers)
        parts = function.parts.get(value)
        if parts is None or not (value in costs or function.rule(value).free):
            found.append((value.type, function.fixed.get(value)))
            continue
        node = function.nodes[value]
        attributes = tuple(node.attributes.items())
        found.append((node.name, value.type, attributes, len(parts), costs.get(value)))
        pending += parts
    return tuple(found)


def _whole(term: _Term, total: ir.Value) -> list[ir.Value]:
    """A term in the shape and with the type of the sum, written at the insertion point: the term,
    and what is made of it step by step."""
    shape = shape_of(total)
    values, order = [term.value], term.permutation
    inverse = sorted(range(len(order)), key=order.__getitem__)
    made = tuple(shape[inverse[d]] for d in range(len(order)))
    if shape_of(term.value) != made:
        rank = len(shape_of(term.value))
        dims = tuple(range(len(made) - rank, len(made)) if rank else ())
        type_ = with_shape(term.value.type, made)
        values.append(
            build("broadcast_in_dim", values, type_, shape=made, broadcast_dimensions=dims)
        )
    if values[-1].type != (type_ := with_shape(total.type, made)):
        values.append(converted(values[-1], type_))
    if order != tuple(range(len(order))):
        values.append(build("transpose", values[-1:], total.type, permutation=order))
    return values


def _sum(values: Sequence[ir.Value], are_negative: Sequence[bool]) -> ir.Value:
    """Values added up or subtracted, one that is added first if there is one."""
    terms = sorted(zip(are_negative, values, strict=True), key=lambda term: term[0])
    (is_negative, total), *others = terms
    if is_negative:
        total = build("neg", [total], total.type)
    for is_negative, value in others:
        total = build("sub" if is_negative else "add", [total, value], total.type)
    return total

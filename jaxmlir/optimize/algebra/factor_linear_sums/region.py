"""A linear function of a function's values, and its transpose.

From a value, the *root*, a walk goes backwards through the ops that the root is linear in: sums,
products with other values, masks.  Each expression on the way has a cotangent, a tensor ``c`` with

    root[o] = sum over all other labels of c[o, ...] expr[o, ...] + ...

summed over the expressions at which the walk has arrived.  It starts at the root, with the
cotangent 1.  The labels ``o`` of the root's dimensions are never summed over.  A step replaces an
expression by an operand, whose cotangent is the transpose of the op applied to that of the result.
A mask may block a NaN or an infinity, and zero times that is not zero.  So the walk passes a mask
only if it cannot be meant to block a non-finite number (:func:`may_guard`).  The difference of
close numbers is exact, and that of their products is not.  So the walk passes no sum of several
terms that are not computed by linear ops.
"""

from __future__ import annotations

import functools
import heapq
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxmlir.optimize.algebra.labelled_tensors.cost import TensorCost
from jaxmlir.optimize.algebra.labelled_tensors.expressions import (
    LINEAR,
    Algebra,
    Expr,
    Tensor,
    numbered,
)
from jaxmlir.optimize.algebra.labelled_tensors.reading import may_guard
from jaxmlir.targets.costs import Costs

# -- The cost of an expression, in nanoseconds --
#
# An elementwise op is fused with its neighbours: its memory traffic is estimated as the size of its
# largest tensor.  A sum reads its operand.  Data movement costs nothing.


# Matrices with fewer rows, columns, or contracted elements than this are small.
SMALL = 32

_FREE = frozenset(
    {"constant", "diagonal", "eye", "iota", "leaf", "reshape", "selection", "selector"}
)


def cost(expr: Expr, costs: Costs) -> float:
    """The nanoseconds to compute an expression from its operands."""
    if expr.cost is None:
        expr.cost = _cost(expr, costs)
    return expr.cost


def _cost(expr: Expr, costs: Costs) -> float:
    if expr.kind in _FREE:
        return 0.0
    terms, itemsize = math.prod(expr.sizes), expr.dtype.itemsize
    if not expr.contracts:
        return terms * itemsize * costs.read_byte
    sizes = [math.prod([expr.sizes[k] for k in labels]) for _, labels, _ in expr.operands]
    return TensorCost.of_product(terms, (*sizes, expr.size), itemsize).ns(costs, _is_small(expr))


def _is_small(expr: Expr) -> bool:
    """Whether a matrix product is a batch of products of small matrices."""
    (_, a, _), (_, b, _) = expr.operands
    groups = (
        [k for k in a if k not in b],
        [k for k in b if k not in a],
        [k for k in a if k in b and k >= expr.rank],
    )
    if not any(k in b and k < expr.rank for k in a):
        return False
    return min(math.prod([expr.sizes[k] for k in group]) for group in groups) < SMALL


def price(
    expr: Expr,
    costs: Costs,
    is_there: Callable[[Expr], bool],
    computed: set[Expr],
    read: set[Expr],
    counted: Set[Expr] = frozenset(),
) -> float:
    """The nanoseconds to compute an expression, including operands that do not exist yet and have
    not been counted.

    Args:
      is_there: whether an expression exists.
      computed: expressions already counted as computed; the new ones are added.
      read: existing expressions that are read; the new ones are added.
      counted: further expressions that have been counted.
    """
    total, pending = 0.0, [expr]
    while pending:
        expr = pending.pop()
        if is_there(expr):
            read.add(expr)
        elif expr not in counted and expr not in computed:
            computed.add(expr)
            total += cost(expr, costs)
            for operand, _, _ in expr.operands:
                pending.append(operand)
    return total


class AmbiguousDimension(Exception):
    """A dimension of an expression stands for different dimensions of the root."""


@dataclass(eq=False, slots=True)
class VisitedExpr:
    """An expression that the walk has reached.

    Attributes:
      labels: the labels of its dimensions.
      cotangent: the sum of the cotangents that its users handed to it.
      handed: the number of cotangents handed to it.
      step: the operands to which it handed a cotangent.
      price: the cost of computing the cotangents of these.
    """

    expr: Expr
    labels: tuple[int, ...]
    cotangent: Tensor
    handed: int = 1
    step: list[Expr] = field(default_factory=list)
    price: float = 0.0


class _LabelledOp(NamedTuple):
    """An op that the walk goes through: its place, its labels, and its operands."""

    place: VisitedExpr
    labels: tuple[int, ...]
    operands: list[Tensor]


_OperandCotangent = tuple[Tensor, Tensor]
"""An operand and its cotangent."""


class CotangentWalk:
    """The walk from a root.

    Attributes:
      places: the expressions that it has reached, users first.
      read: the program's expressions that cotangents are computed from.
      precision: for each summed label that of the matrix product; ``None`` for other sums.
    """

    def __init__(
        self,
        algebra: Algebra,
        weights: Mapping[Expr, float],
        costs: Costs,
        root: Expr,
        is_there: Callable[[Expr], bool],
        stops: Collection[Expr] = (),
    ):
        """
        Args:
          weights: for each expression the cost of the most expensive chain of linear ops to it.
          costs: the costs of the target.
          is_there: whether the program computes an expression before the root.
          stops: expressions at which the walk ends.
        """
        self.algebra = algebra
        self.costs: Costs = costs
        self._weights = weights
        self.root = root
        self.stops = stops
        self.places: dict[Expr, VisitedExpr] = {}
        self.read: set[Expr] = set()
        self.precision: dict[int, Any] = {}
        self._is_there = is_there
        self._labels = root.rank
        self._counted: set[Expr] = set()
        self._one = algebra.one(root.dtype)
        labels = tuple(range(root.rank))
        self.places[root] = VisitedExpr(root, labels, self._one, handed=root.uses)
        pending = [-root.number]
        by_number = {root.number: root}
        while pending:
            for operand in self._step(self.places[by_number[-heapq.heappop(pending)]]):
                by_number[operand.number] = operand
                heapq.heappush(pending, -operand.number)

    def leaves(self) -> Iterator[VisitedExpr]:
        """The places at which the walk ends."""
        return (place for place in self.places.values() if not place.step)

    def _step(self, place: VisitedExpr) -> list[Expr]:
        """Hands the cotangent of an expression to its operands; returns those reached first."""
        expr = place.expr
        if expr in self.stops or expr.kind not in LINEAR or expr.value is None:
            return []
        if expr.kind == "mask" and may_guard(expr) or expr.kind == "add" and _may_cancel(expr):
            return []
        # An expression with other uses, or read by cotangents, stays: nothing is saved beyond it.
        if place.handed < expr.uses or expr in self.read:
            return []
        labels = place.labels
        if expr.sums:
            fresh = range(self._labels, self._labels + len(expr.sizes) - expr.rank)
            labels = (*labels, *fresh)
            for label in fresh:
                self.precision[label] = expr.params
            self._labels = fresh.stop
        in_order, label_of = numbered(len(labels)), labels.__getitem__
        operands = [
            Tensor(e, labels if w == in_order else tuple(map(label_of, w)), s)
            for e, w, s in expr.operands
        ]
        first = []
        for operand, cotangent in self._handed(_LabelledOp(place, labels, operands)):
            operand_expr, own_labels, sign = operand
            place.price += self._price(cotangent)
            place.step.append(operand_expr)
            target = self.places.get(operand_expr)
            if target is None:
                self.places[operand_expr] = VisitedExpr(
                    operand_expr, own_labels, cotangent.times(sign)
                )
                first.append(operand_expr)
            else:
                self._add(target, operand, cotangent.times(sign))
                place.price += self._price(target.cotangent)
        return first

    def _add(self, known: VisitedExpr, operand: Tensor, cotangent: Tensor) -> None:
        """Adds a cotangent to that of an expression, which may have other labels."""
        if operand.labels != known.labels:
            at = dict(zip(operand.labels, known.labels, strict=True))
            if any(a != b and min(a, b) < self.root.rank for a, b in at.items()):
                raise AmbiguousDimension
            cotangent = cotangent.relabelled({k: at.get(k, k) for k in cotangent.labels})
        known.cotangent = self.algebra.add(known.cotangent, cotangent)
        known.handed += 1

    def _handed(self, op: _LabelledOp) -> list[_OperandCotangent]:
        """The cotangents that an op hands to its operands."""
        expr, tensors = op.place.expr, op.operands
        cotangent = op.place.cotangent
        if expr.kind == "add":
            return [self._summed(op, cotangent, t) for t in tensors]
        if expr.kind == "div":
            by = self.algebra.apply("div", None, [self._one, tensors[1]], expr.dtype)
            return [self._summed(op, cotangent, tensors[0], by)]
        if expr.kind == "mask":
            operands = [tensors[0], cotangent.unsigned]
            masked = self.algebra.apply("mask", expr.params, operands, expr.dtype)
            return [self._summed(op, masked.times(cotangent.sign), tensors[1])]
        if len(tensors) == 1:
            return [self._summed(op, cotangent, tensors[0])]
        # If a product is linear in both factors, take the one whose cotangent costs less.
        a, b = tensors
        handed = [self._summed(op, cotangent, a, b)] if a.expr.kind in LINEAR else []
        if b.expr.kind in LINEAR:
            handed.append(self._summed(op, cotangent, b, a))
        if len(handed) > 1:
            handed.sort(key=lambda h: (self._estimate(h[1]), -self._weights.get(h[0].expr, 0.0)))
        return handed[:1]

    def _summed(
        self, op: _LabelledOp, cotangent: Tensor, operand: Tensor, other: Tensor | None = None
    ) -> _OperandCotangent:
        """A cotangent times the other factor, summed over labels that an operand lacks."""
        if operand.labels == op.labels:
            # Nothing is summed over.
            return operand, cotangent if other is None else self.algebra.product(cotangent, other)
        gone = {k for k in op.labels if k >= self.root.rank and k not in operand.labels}
        nowhere = gone.difference(cotangent.labels, other.labels if other else ())
        sizes = zip(op.labels, op.place.expr.sizes, strict=True)
        times = math.prod([size for k, size in sizes if k in nowhere])
        if other is None:
            summed = self.algebra.sum(cotangent, gone)
        else:
            summed = self.algebra.product(cotangent, other, gone, op.place.expr.params)
        return operand, self.algebra.scaled(summed, times)

    def _estimate(self, cotangent: Tensor) -> float:
        return price(cotangent.expr, self.costs, self._is_there, set(), set(), self._counted)

    def _price(self, cotangent: Tensor) -> float:
        """The nanoseconds to compute a cotangent; 0 if it has been counted before."""
        if cotangent.expr in self._counted:
            return 0.0
        return price(cotangent.expr, self.costs, self._is_there, self._counted, self.read)


def _may_cancel(total: Expr) -> bool:
    """Whether several terms of a sum are data, not computed by linear ops."""
    return sum([e.kind not in LINEAR for _, _, _, e in total.terms]) > 1


def stops(walk: CotangentWalk) -> set[Expr]:
    """The expressions at which a walk should have ended, as going on costs more than it saves.

    The cost beyond an expression with several users on the walk is shared by these equally.
    """
    stopped: set[Expr] = set()
    forward: dict[Expr, float] = {}
    total: dict[Expr, float] = {}
    for expr in sorted(walk.places, key=operator.attrgetter("number")):
        place = walk.places[expr]
        end = expr.size * expr.dtype.itemsize * walk.costs.read_byte
        if not place.step:
            forward[expr], total[expr] = 0.0, end
            continue
        below = further = 0.0
        for e in place.step:
            handed = walk.places[e].handed
            below += forward[e] / handed
            further += total[e] / handed
        forward[expr] = below = cost(expr, walk.costs) + below
        total[expr] = further = place.price + further
        if end + below <= further and expr is not walk.root:
            stopped.add(expr)
            total[expr] = end + below
    return stopped


def transposed(walk: CotangentWalk) -> Tensor:
    """The root, as the sum of all leaves times their cotangents."""
    algebra, rank = walk.algebra, walk.root.rank
    groups: dict[frozenset[int], list[Tensor]] = {}
    for place in walk.leaves():
        leaf = Tensor(place.expr, place.labels)
        gone = {k for k in (*leaf.labels, *place.cotangent.labels) if k >= rank}
        product = _contracted(walk, place.cotangent, leaf, gone)
        groups.setdefault(frozenset(product.labels), []).append(product)
    # Terms that are summed over the same labels are added up first.
    totals = [functools.reduce(algebra.add, terms) for terms in groups.values()]
    sums = [algebra.sum(t, {k for k in t.labels if k >= rank}) for t in totals]
    return functools.reduce(algebra.add, sums)


def _contracted(walk: CotangentWalk, a: Tensor, b: Tensor, gone: Collection[int]) -> Tensor:
    """The product of two tensors, summed over those labels that pay to sum over now: all if it is a
    matrix product, else one over which a factor can be pulled out, if any."""
    algebra = walk.algebra
    if not set(a.labels) <= set(b.labels) and not set(b.labels) <= set(a.labels):
        precisions = {walk.precision[k] for k in gone if k in a.labels and k in b.labels}
        return algebra.product(a, b, gone, precisions.pop() if len(precisions) == 1 else None)
    for k in gone:
        if len(algebra.pulled(a, {k})) + len(algebra.pulled(b, {k})) > 2:
            return algebra.product(a, b, {k})
    return algebra.product(a, b)

"""A linear function of a function's values, and its transpose.

From a value, its *root*, a walk leads backwards through what it is linear in: sums, products with
something else, masks.  Each expression on the way has a cotangent, a tensor ``c`` with which

    root[o] = sum over all other labels of c[o, ...] expr[o, ...] + ...

holds, summed over the expressions that the walk has come to.  What a mask keeps out may be a NaN or
an infinity there, and zero times it is none, so a mask is passed only where it cannot be meant to
keep such a thing out (:func:`may_guard`).  At first that is the root with the cotangent 1.  The
labels ``o`` of the root's dimensions are nowhere summed over.  A step replaces an expression by an
operand, whose cotangent is the transpose of the op applied to that of the result.
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

# -- What an expression costs, in nanoseconds --
#
# An elementwise op is fused with its neighbours: it is taken to read and write as much as its
# largest tensor has.  A sum reads what it sums up.  What only moves elements costs nothing.


# Matrices are small with fewer rows, columns, or terms summed up, than this.
SMALL = 32

_FREE = frozenset(
    {"constant", "diagonal", "eye", "iota", "leaf", "reshape", "selection", "selector"}
)


def cost(expr: Expr, costs: Costs) -> float:
    """The nanoseconds that an expression takes to compute from its operands."""
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
    """The nanoseconds that an expression takes with all that it is made of, as far as that is not
    there and has not been counted.

    Args:
      computed: what is computed; this expression, and what it is made of, is added.
      read: what is used and there; it is added to as well.
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
class Factors:
    """Factors of a product, in order; those that begin alike have their beginning in common.

    Attributes:
      before: all but the last one.
      labels: of all of them.
      longer: what they become with one more.
      products: what a tensor times all of them is, as far as that has been asked for.
    """

    before: Factors | None
    last: Tensor | None
    labels: frozenset[int]
    longer: dict[Tensor, Factors] = field(default_factory=dict)
    products: dict[Tensor, Tensor] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Tensor]:
        factors = []
        while self.before is not None:
            factors.append(self.last)
            self = self.before
        return reversed(factors)

    def with_last(self, factor: Tensor) -> Factors:
        """The factors and one more; the same object each time."""
        extended = self.longer.get(factor)
        if extended is None:
            extended = self.longer[factor] = Factors(self, factor, self.labels | {*factor.labels})
        return extended

    def times(self, algebra: Algebra, t: Tensor) -> Tensor:
        """A tensor times all of them, from the first one on."""
        pending, factors = [], self
        while factors.before is not None and t not in factors.products:
            pending.append(factors)
            factors = factors.before
        product = t if factors.before is None else factors.products[t]
        for factors in reversed(pending):
            product = factors.products[t] = algebra.product(product, factors.last)
        return product


@dataclass(eq=False, slots=True)
class VisitedExpr:
    """An expression that the walk has come to.

    Attributes:
      labels: of its dimensions.
      cotangent: the sum of what it was handed.
      factors: of the cotangent as well, which are not multiplied into it yet.
      handed: how often.
      step: what was handed to operands.
      price: of computing what was handed.
    """

    expr: Expr
    labels: tuple[int, ...]
    cotangent: Tensor
    factors: Factors
    handed: int = 1
    step: list[Expr] = field(default_factory=list)
    price: float = 0.0


class _LabelledOp(NamedTuple):
    """An op that the walk goes through: its place, its labels, and its operands."""

    place: VisitedExpr
    labels: tuple[int, ...]
    operands: list[Tensor]


_OperandCotangent = tuple[Tensor, Tensor, Factors]
"""An operand, its cotangent, and factors of that which wait."""


class CotangentWalk:
    """The walk from a root.

    Attributes:
      places: the expressions that it has come to, users first.
      read: the program's expressions that cotangents are made of.
      precision: of the matrix products that sum over labels; ``None`` of other sums.
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
          weights: of the work that leads to an expression.
          costs: of the target.
          is_there: whether the program has computed an expression before the root.
          stops: expressions from which the walk does not go on.
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
        self._no_factors = Factors(None, None, frozenset())
        labels = tuple(range(root.rank))
        self.places[root] = VisitedExpr(root, labels, self._one, self._no_factors, handed=root.uses)
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
        """Hands the cotangent of an expression to its operands; those that are met first."""
        expr = place.expr
        if expr in self.stops or expr.kind not in LINEAR or expr.value is None:
            return []
        if expr.kind == "mask" and may_guard(expr):
            return []
        # What other cotangents are made of is computed anyway: nothing is saved from there on.
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
        for operand, cotangent, factors in self._handed(_LabelledOp(place, labels, operands)):
            operand_expr, own_labels, sign = operand
            place.price += self._price(cotangent)
            place.step.append(operand_expr)
            target = self.places.get(operand_expr)
            if target is None:
                self.places[operand_expr] = VisitedExpr(
                    operand_expr, own_labels, cotangent.times(sign), factors
                )
                first.append(operand_expr)
            else:
                self._add(target, operand, cotangent.times(sign), factors)
                place.price += self._price(target.cotangent)
        return first

    def _add(
        self, known: VisitedExpr, operand: Tensor, cotangent: Tensor, factors: Factors
    ) -> None:
        """Hands a cotangent to an expression that has one, by other labels."""
        if operand.labels != known.labels:
            at = dict(zip(operand.labels, known.labels, strict=True))
            if any(a != b and min(a, b) < self.root.rank for a, b in at.items()):
                raise AmbiguousDimension
            cotangent, *others = (
                t.relabelled({k: at.get(k, k) for k in t.labels}) for t in (cotangent, *factors)
            )
            factors = functools.reduce(Factors.with_last, others, self._no_factors)
        if factors is not known.factors:
            cotangent = factors.times(self.algebra, cotangent)
            known.cotangent = known.factors.times(self.algebra, known.cotangent)
            known.factors = self._no_factors
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
            return [self._times(op, tensors[0], by)]
        if expr.kind == "mask":
            operands = [tensors[0], cotangent.unsigned]
            masked = self.algebra.apply("mask", expr.params, operands, expr.dtype)
            return [self._summed(op, masked.times(cotangent.sign), tensors[1])]
        if len(tensors) == 1:
            return [self._summed(op, cotangent, tensors[0])]
        # Of two factors, the one whose cotangent costs less.
        a, b = tensors
        handed = [self._times(op, a, b)] if a.expr.kind in LINEAR else []
        if b.expr.kind in LINEAR:
            handed.append(self._times(op, b, a))
        if len(handed) > 1:
            handed.sort(key=lambda h: (self._estimate(h[1]), -self._weights.get(h[0].expr, 0.0)))
        return handed[:1]

    def _times(self, op: _LabelledOp, operand: Tensor, other: Tensor) -> _OperandCotangent:
        """The cotangent that a product hands to one of its factors."""
        waits = op.place.cotangent.expr is self._one.expr and not op.place.expr.sums
        if waits and set(other.labels) <= set(operand.labels):
            return self._summed(op, op.place.cotangent, operand, waiting=other)
        return self._summed(op, op.place.cotangent, operand, other)

    def _summed(
        self,
        op: _LabelledOp,
        cotangent: Tensor,
        operand: Tensor,
        other: Tensor | None = None,
        waiting: Tensor | None = None,
    ) -> _OperandCotangent:
        """A cotangent times the other factor, summed over labels that an operand has not.

        Args:
          waiting: a factor that can wait.
        """
        factors = op.place.factors
        if waiting is not None:
            factors = factors.with_last(waiting)
        if operand.labels == op.labels:
            # Nothing is summed over.
            product = cotangent if other is None else self.algebra.product(cotangent, other)
            return operand, product, factors
        rank, labels = self.root.rank, operand.labels
        gone = {k for k in op.labels if k >= rank and k not in labels}
        if not gone.isdisjoint(factors.labels):
            others, factors = factors, self._no_factors
            for factor in others:
                if gone.isdisjoint(factor.labels):
                    factors = factors.with_last(factor)
                else:
                    cotangent = self.algebra.product(cotangent, factor)
        expr, times = op.place.expr, 1
        nowhere = gone.difference(cotangent.labels, other.labels if other else ())
        if nowhere:
            sizes = zip(op.labels, expr.sizes, strict=True)
            times = math.prod([size for k, size in sizes if k in nowhere])
        if other is None:
            summed = self.algebra.sum(cotangent, gone)
        else:
            summed = self.algebra.product(cotangent, other, gone, expr.params)
        if times != 1:
            factors = factors.with_last(self.algebra.constant(times, self.root.dtype))
        return operand, summed, factors

    def _estimate(self, cotangent: Tensor) -> float:
        return price(cotangent.expr, self.costs, self._is_there, set(), set(), self._counted)

    def _price(self, cotangent: Tensor) -> float:
        """The nanoseconds that a cotangent takes; nothing if it has been asked for before."""
        if cotangent.expr in self._counted:
            return 0.0
        return price(cotangent.expr, self.costs, self._is_there, self._counted, self.read)


def stops(walk: CotangentWalk) -> set[Expr]:
    """The places at which a walk should have ended, as to go on costs more than what it saves.

    What is handed to an expression on several ways is paid for in equal parts.
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
    groups: dict[Any, list[Tensor]] = {}
    for place in walk.leaves():
        needed = place.factors.labels
        leaf = Tensor(place.expr, place.labels)
        gone = {k for k in (*leaf.labels, *place.cotangent.labels) if k >= rank and k not in needed}
        product = _contracted(walk, place.cotangent, leaf, gone)
        groups.setdefault((frozenset(product.labels), place.factors), []).append(product)
    # What is summed over the same labels is added up before.
    sums = [
        _multiplied(algebra, functools.reduce(algebra.add, terms), factors, rank)
        for (_, factors), terms in groups.items()
    ]
    return functools.reduce(algebra.add, sums)


def _contracted(walk: CotangentWalk, a: Tensor, b: Tensor, gone: Collection[int]) -> Tensor:
    """The product of two tensors, summed over as many labels as is worth a loop of its own: all
    if it is one of matrices, and else those that some factor has not."""
    algebra = walk.algebra
    if not set(a.labels) <= set(b.labels) and not set(b.labels) <= set(a.labels):
        precisions = {walk.precision[k] for k in gone if k in a.labels and k in b.labels}
        return algebra.product(a, b, gone, precisions.pop() if len(precisions) == 1 else None)
    for k in gone:
        if len(algebra.pulled(a, {k})) + len(algebra.pulled(b, {k})) > 2:
            return algebra.product(a, b, {k})
    return algebra.product(a, b)


def _multiplied(algebra: Algebra, t: Tensor, factors: Factors, rank: int) -> Tensor:
    """A tensor times some factors, summed over all labels but those of the root."""
    while True:
        t = algebra.sum(t, {k for k in t.labels if k >= rank and k not in factors.labels})
        if factors.before is None:
            return t
        factors, factor = factors.before, factors.last
        t = algebra.product(t, factor)

"""Rewrites products whose cost is lower in another order.

A value that several products use is computed once, and is a factor of each.  But it is not needed
if each product is cheaper without it: in ``y = (A B) v`` and ``z = (A B)^T w``, both can be
computed by products of a matrix and a vector.  So a value is *absorbed*, i.e. made a part of all
its users, if that lowers their total cost, the cost of the value included.  Candidates are tried
from last to first, and again as long as there are new ones: once a value is absorbed, it may pay to
absorb its operands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.dialect.builder import drop_dead_ops
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.algebra.labelled_tensors import writing
from jaxmlir.optimize.algebra.labelled_tensors.cost import FREE, TensorCost
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Expr, Tensor
from jaxmlir.optimize.algebra.products.trees import FunctionProducts, ProductTree, is_mask, sums
from jaxmlir.optimize.compile_time import CompileTime
from jaxmlir.optimize.loops.scan_editor import loop_constants
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.transforms.templates import Rules

# The maximum number of rounds over all values with several users.
MAX_ROUNDS = 4
# A value with more users than this is always computed.
MAX_USERS = 8
# The number of ops that a row selection in place of a mask counts as, including the scatter-add in
# its derivative: they take 0.06 s to compile.
SELECTION_OPS = 100


def rewrite_program(
    program: Module,
    needed: Collection[str],
    wanted: Callable[[ProductTree], bool],
    min_gain: float,
    sure_gain: float | None = None,
    selects: bool = False,
    distributes: bool = False,
    calls: float = inf,
) -> int:
    """Rewrites products in place; returns their number.

    Args:
      needed: names of ops; functions without any of these are skipped.
      wanted: whether the pass may rewrite a product.
      min_gain: how many times faster a new order has to be in the estimate.
      sure_gain: the same for an order that takes fewer operations and fewer bytes.
      selects: whether selections of rows are factors.
      distributes: whether products with sums may become sums of products.
      calls: how often the program is called; selections have to make up for their compile time.
    """
    if not outside_kernels(program, needed):
        return 0
    rules, compile_time = Rules(program), CompileTime(program, calls)
    context = selects, loop_constants(program), program.target.costs

    def rewrite(function: func.FuncOp) -> int:
        products = FunctionProducts(analyses_of(program).body(function), *context)
        pays = functools.partial(compile_time.pays, function.name.value)
        trees = _ProductTrees(products, wanted, min_gain, sure_gain or min_gain, pays)
        trees.absorb()
        shared = writing.share(rules, products.reading) if distributes else 0
        written = shared + _write(rules, products, trees.chosen())
        if distributes and _may_be_distributed(products):
            if written:
                drop_dead_ops(function)
                products = FunctionProducts(FunctionView(function), *context)
            written += _write(rules, products, _distributed(products, min_gain))
        return written

    return rewrite_functions(program, needed, rewrite)


@dataclass
class _ProductRewrite:
    """The rewrite of a product that has a cheaper form.

    Attributes:
      remark: the text of the remark.
      tensor: returns the new tensor.
    """

    root: Expr
    remark: str
    tensor: Callable[[], Tensor]


def _write(rules: Rules, function: FunctionProducts, changes: Sequence[_ProductRewrite]) -> int:
    """Makes some changes in program order; returns their number."""
    reading, values, count = function.reading, dict[Expr, ir.Value](), 0
    for change in changes:
        root = change.root
        last, tensor = reading.ops[root], change.tensor()
        if tensor.expr is root:
            continue
        recipe, inputs = writing.recipe_of(
            reading, root.value, tensor, lambda e, last=last: reading.is_before(e, last)
        )
        if remarks_wanted():
            remark(reading.body.ops[last], change.remark)
        writing.write(rules, reading, root, recipe, inputs, values)
        count += 1
    return count


@dataclass(eq=False)
class _ProductTrees:
    """The products of a function, and the values that were absorbed into them."""

    function: FunctionProducts
    wanted: Callable[[ProductTree], bool]
    min_gain: float
    sure_gain: float
    pays: Callable[[float, float], bool]
    trees: dict[Expr, ProductTree] = field(default_factory=dict)
    absorbed: set[Expr] = field(default_factory=set)

    def __post_init__(self) -> None:
        pending = self.function.roots()
        while pending:
            root = pending.pop()
            if (
                root not in self.trees
                and root in self.function.reading.ops
                and self.function.parts(root) is not None
            ):
                self.trees[root] = tree = ProductTree(self.function, root)
                pending += tree.cuts if tree.is_mixed else tree.unsuited

    def absorb(self) -> None:
        """Absorbs values as long as that pays."""
        candidates = [v for v in reversed(self.function.products) if self._may_be_absorbed(v)]
        for _ in range(MAX_ROUNDS if candidates else 0):
            users: dict[Expr, list[ProductTree]] = {}
            for tree in self.trees.values():
                for v in dict.fromkeys(tree.leaves):
                    users.setdefault(v, []).append(tree)
            news = [v for v in candidates if v not in self.absorbed and self._absorb(v, users)]
            if not news:
                return

    def _may_be_absorbed(self, value: Expr) -> bool:
        if self.function.is_free(value):
            return False
        if not (value in self.trees or self.function.is_outer(value)):
            return False
        users = self.function.users(value, MAX_USERS + 1)
        return 2 <= len(users) <= MAX_USERS and all(user is not None for user in users)

    def _absorb(self, value: Expr, users: dict[Expr, list[ProductTree]]) -> bool:
        """Makes a value a part of the products that use it, if that pays."""
        before = [tree for tree in users.get(value, ()) if self.trees.get(tree.root) is tree]
        if len(before) < len(users.get(value, ())) or not before:
            # The tree of a user has changed in this round.
            return False
        own_tree = self.trees.get(value)
        left = sum(self._ns(tree) for tree in (*before, *([own_tree] if own_tree else ())))
        after = []
        for tree in before:
            without = ProductTree(self.function, tree.root, {*self.absorbed, value})
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

    def chosen(self) -> list[_ProductRewrite]:
        """The products to write in another order, in program order."""
        return [
            _ProductRewrite(tree.root, tree.described(), tree.tensor)
            for expr in self.function.products
            if (tree := self.trees.get(expr)) is not None and self._is_better(tree)
        ]

    def _is_better(self, tree: ProductTree) -> bool:
        if not tree.is_mixed or not self.wanted(tree) or tree.best is None:
            return False
        if any(expr in self.absorbed for expr in tree.ops):
            return True
        best, before = tree.best.cost, tree.cost.ns(self.function.costs)
        gain = self.sure_gain if best.is_less(tree.cost) else self.min_gain
        time = best.ns(self.function.costs)
        masks = [expr for expr in tree.ops if is_mask(expr) and expr.kind != "eye"]
        return time * gain < before and self.pays(SELECTION_OPS * len(masks), before - time)

    def _ns(self, tree: ProductTree) -> float:
        """The time that a product takes, as it is or in its best order."""
        time = tree.cost.ns(self.function.costs)
        if not tree.is_mixed or tree.best is None:
            return time
        return min(time, tree.best.cost.ns(self.function.costs))


# -- Products with sums that have a cheap term, written as sums of products --


# A sum is expanded into at most this many terms.
MAX_TERMS = 8


def _may_be_distributed(function: FunctionProducts) -> bool:
    """Whether any factor of a matrix product is a sum."""
    dots = (expr for expr in function.products if isinstance(expr.params, Dot))
    return any(operand.kind == "add" for dot in dots for operand, _, _ in dot.operands)


def _distributed(function: FunctionProducts, min_gain: float) -> list[_ProductRewrite]:
    """The products of a function to distribute over sums."""
    best: dict[Expr, tuple[float, _ProductRewrite]] = {}
    for expr in function.products:
        if not isinstance(expr.params, Dot):
            continue
        for position in (0, 1):
            terms = _distributable(function, expr, position)
            plan = _DistributedProduct.of(function, expr, position, terms) if terms else None
            if plan is None:
                continue
            after = plan.cost.ns(function.costs)
            if after * min_gain < plan.before.ns(function.costs) and (
                expr not in best or after < best[expr][0]
            ):
                said = (
                    f"distributed a product over a sum of {len(terms)} terms: {plan.cost} "
                    f"instead of {plan.before}"
                )
                best[expr] = after, _ProductRewrite(expr, said, plan.tensor)
    return [change for _, change in best.values()]


def _distributable(function: FunctionProducts, expr: Expr, position: int) -> list[Tensor]:
    """The terms of a factor of a product that is a sum; empty if distributing cannot pay or may
    lose accuracy by cancellation.

    At most one term may be dense.  A term that is a product has rounding errors anyway, and an
    identity or a diagonal overlaps with other terms in few places.  But the difference of two dense
    arrays of data can be small and exact: forces of many bodies are products with differences of
    positions.  At most one term may be expensive to multiply by, and none if the sum has other
    uses: the product with that term costs as much as the product with the sum.
    """
    total, labels, _ = expr.operands[position]
    # The common case: the factor is no sum.
    if total.kind != "add":
        return []
    terms: list[Tensor] = []
    pending = [Tensor(total, labels)]
    while pending:
        term = pending.pop()
        is_own = term.expr is total or term.expr.uses == 1
        if term.expr.kind == "add" and is_own and len(terms) + len(pending) < MAX_TERMS:
            inner = [Tensor(*operand).relabelled(term.labels) for operand in term.expr.operands]
            pending += [t.times(term.sign) for t in reversed(inner)]
        else:
            terms.append(term)
    dear = sum([not _may_be_cheap(function, t, total) for t in terms])
    dense = sum([not _is_product(function, t.expr) for t in terms])
    return terms if dear <= (total.uses == 1) and dense <= 1 else []


def _may_be_cheap(function: FunctionProducts, term: Tensor, total: Expr) -> bool:
    """Whether a term is computed from smaller tensors, or from the positions of its elements."""
    expr = term.expr
    whole = [expr] if expr.rank == total.rank else []
    while len(whole) == 1:
        (expr,) = whole
        parts = function.parts(expr)
        if parts is None:
            return False
        whole = [] if sums(expr) else [e for e in parts if e.size == expr.size]
    return not whole


def _is_product(function: FunctionProducts, expr: Expr) -> bool:
    """Whether an expression contains a product, or is an identity or a diagonal."""
    return any(
        sums(e)
        or is_mask(e)
        or (e.kind == "product" and all([operand.rank for operand, _, _ in e.operands]))
        for e in _made_of(function, expr)
    )


def _made_of(function: FunctionProducts, expr: Expr) -> set[Expr]:
    """An expression that is a product, and the products among its operands without other uses."""
    exprs: set[Expr] = set()
    pending = [expr]
    while pending:
        inner = pending.pop()
        parts = function.parts(inner)
        if parts is not None and (inner is expr or inner.uses == 1):
            exprs.add(inner)
            pending += parts
    return exprs


class _DistributedProduct(NamedTuple):
    """A product with a sum, and the sum of products that may replace it.

    Attributes:
      products: the products with the terms, none of which is in the program.
      trees: the tree of each product.
      before: the cost that is saved.
      cost: the cost of the products, each in its best order, and of their sum.
    """

    algebra: Algebra
    products: list[Tensor]
    trees: list[ProductTree]
    before: TensorCost
    cost: TensorCost

    @staticmethod
    def of(
        function: FunctionProducts, expr: Expr, position: int, terms: Sequence[Tensor]
    ) -> _DistributedProduct | None:
        (total, _, _), other = expr.operands[position], Tensor(*expr.operands[1 - position])
        of_terms = [_made_of(function, t.expr) for t in terms]
        within = set[Expr]().union(*of_terms)
        itemsize, before = expr.dtype.itemsize, function.cost(expr)
        if total.uses == 1:
            sum_cost = TensorCost(0, total.size * itemsize, 1)
            for t, exprs in zip(terms, of_terms, strict=True):
                if t.expr.uses == 1:
                    sum_cost += sum([function.cost(e) for e in exprs], FREE)
            # A sum of loop-invariant values is computed before the loop.
            inputs = {e for inner in within for e in function.parts(inner)} | {
                t.expr for t in terms
            }
            before += sum_cost.shared(
                min([function.fixed.get(e, 1) for e in inputs - within], default=1)
            )
        algebra, gone = function.reading.algebra, range(expr.rank, len(expr.sizes))
        products, trees, cost = [], [], TensorCost(0, (len(terms) + 1) * expr.size * itemsize, 1)
        for term in terms:
            factors = (other, term) if position else (term, other)
            met = {*term.labels, *other.labels}
            times = math.prod([expr.sizes[k] for k in gone if k not in met])
            product = algebra.scaled(algebra.raw_product(*factors, gone, expr.params), times)
            tree = ProductTree(function, product.expr, within, is_new=True)
            if tree.best is None:
                return None
            cost += tree.best.cost
            products.append(product)
            trees.append(tree)
        return _DistributedProduct(algebra, products, trees, before, cost)

    def tensor(self) -> Tensor:
        """The sum of the products."""
        terms = [
            tree.tensor().relabelled(product.labels).times(product.sign)
            for product, tree in zip(self.products, self.trees, strict=True)
        ]
        # Start with a positive term, if there is one.
        terms.sort(key=lambda t: -t.sign)
        return functools.reduce(self.algebra.add, terms)

"""The product trees of a function, each with its network and its best order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Set

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.algebra.labelled_tensors import selectors
from jaxmlir.optimize.algebra.labelled_tensors.cost import FREE, TensorCost
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Dot, Expr, Tensor
from jaxmlir.optimize.algebra.labelled_tensors.kinds import OpKind, kind_of
from jaxmlir.optimize.algebra.labelled_tensors.reading import read
from jaxmlir.optimize.algebra.products.network import (
    PRODUCTS,
    EinsumTerm,
    Index,
    NotAnEinsum,
    leaf,
    parts_of,
    resolve,
    size_of,
    term_of,
)
from jaxmlir.optimize.algebra.products.order import (
    ContractionPlan,
    Indices,
    Network,
    SelectionFactor,
    best_order,
)
from jaxmlir.support.lazy import lazy, memoized
from jaxmlir.targets.costs import Costs

# A product of more ops than this is cut into several.
MAX_OPS = 1024

_FREE = frozenset({"div", "eye", "reshape", "selector"})
"""Kinds of expressions that cost almost nothing, as they are fused into their users."""


def sums(expr: Expr) -> bool:
    """Whether a product sums or drops elements, so that the order can matter."""
    return expr.sums or expr.kind == "diagonal" or expr.kind == "selection" or _is_masked(expr)


def _is_masked(expr: Expr) -> bool:
    """Whether a product is zero off a diagonal."""
    return any([operand.kind == "eye" for operand, _, _ in expr.operands])


def _is_counted(expr: Expr) -> bool:
    """Whether an expression is a sum that becomes a value of the program only by multiplication
    with the sizes of summed dimensions that no operand has."""
    return expr.kind == "product" and expr.sums and expr.value is None


def is_mask(expr: Expr) -> bool:
    """Whether an expression is a numeric mask: an identity matrix, or one with a 1 in each row."""
    return expr.kind == "eye" or (expr.kind == "selector" and expr.value is not None)


class FunctionProducts:
    """The expressions of a function that are products.

    Attributes:
      selects: whether selections of rows count as products.
      fixed: if this is a loop body, the loop-invariant values with the number of iterations.
      costs: the costs of the target.
      products: the expressions that are products, in order.
    """

    def __init__(
        self, body: FunctionView, selects: bool, fixed: Mapping[ir.Value, int], costs: Costs
    ):
        self.reading = reading = read(body)
        self.selects = selects
        self.costs = costs
        arguments = range(body.arity if fixed else 0)
        trips = ((reading.tensors[v].expr, fixed.get(body.value(v))) for v in arguments)
        self.fixed: dict[Expr, int] = {expr: times for expr, times in trips if times is not None}
        products = [e for e in reading.ops if e.kind in PRODUCTS]
        self.products: list[Expr] = [e for e in products if self.parts(e) is not None]

    @memoized
    def parts(self, expr: Expr) -> tuple[Expr, ...] | None:
        """The operands of an expression that are parts of its product; ``None`` if it is none."""
        return parts_of(expr, self.selects)

    def is_free(self, expr: Expr) -> bool:
        """Whether a part of a product costs nothing, or is no value of the program."""
        return expr.kind in _FREE or expr.value is None

    def users(self, expr: Expr, most: int) -> list[Expr | None]:
        """The uses of an expression, looking through free products: the product for a use as a part
        of one, ``None`` for every other use; at most ``most`` of them."""
        uses: list[Expr | None] = []
        pending = [(expr, iter(expr.users))]
        while pending and len(uses) < most:
            part, users = pending[-1]
            for user in users:
                if user is None or part not in (self.parts(user) or ()):
                    uses.append(None)
                elif self.is_free(user):
                    pending.append((user, iter(user.users)))
                    break
                else:
                    uses.append(user)
                if len(uses) == most:
                    break
            else:
                pending.pop()
        return uses

    def roots(self) -> list[Expr]:
        """The products that contain a sum and are not part of exactly one other product."""
        summing: set[Expr] = set()
        roots = []
        for expr in self.products:
            if sums(expr) or any([e in summing or _is_counted(e) for e in self.parts(expr)]):
                summing.add(expr)
                if not self.is_free(expr) and not self.is_inside(expr):
                    roots.append(expr)
        return roots

    def is_outer(self, expr: Expr) -> bool:
        """Whether a product has more elements than each factor, as an outer product."""
        return expr.size > max([operand.size for operand, _, _ in expr.operands], default=1)

    def is_inside(self, expr: Expr) -> bool:
        """Whether the only use of an expression is as a part of one product."""
        users = self.users(expr, 2)
        return len(users) == 1 and users[0] is not None

    def cost(self, expr: Expr) -> TensorCost:
        """The cost of an expression as the program computes it."""
        index = self.reading.ops.get(expr)
        if index is None:
            return FREE
        return _cost_of(expr, kind_of(self.reading.body.signatures[index]))


class ProductTree:
    """A product as it is in the program.

    Attributes:
      function: the function that it is in.
      root: its result.
      values: its expressions, each after its users: the root, inner expressions and factors; each
        with whether it is inner, i.e. the root or a product within.
      ops: the inner expressions, the root first; an absorbed value occurs once for each use.
      unsuited: inner values of another precision, which become products of their own.
      dot: the mark of the matrix products, if there are any: all have the same.
    """

    def __init__(
        self,
        function: FunctionProducts,
        root: Expr,
        absorbed: Collection[Expr] = (),
        is_new: bool = False,
    ):
        """
        Args:
          absorbed: values with several users that count as parts of the products that use them.
          is_new: whether the product is not in the program, i.e. is an additional user of its
            operands; then only free and absorbed operands are parts.
        """
        self.function = function
        self.root = root
        self.values: list[tuple[Expr, bool]] = []
        self.ops: list[Expr] = []
        self.unsuited: list[Expr] = []
        self.dot: Dot | None = None
        pending = [root]
        while pending:
            expr = pending.pop()
            parts = function.parts(expr)
            is_inside = parts is not None and (
                expr is root
                or function.is_free(expr)
                or expr in absorbed
                or (not is_new and function.is_inside(expr))
            )
            if is_inside:
                if len(self.ops) < MAX_OPS and self._suits(expr):
                    self.ops.append(expr)
                    pending += parts
                else:
                    self.unsuited.append(expr)
                    is_inside = False
            self.values.append((expr, is_inside))

    def _suits(self, expr: Expr) -> bool:
        """Whether an expression has the same precision as the other matrix products."""
        if not isinstance(expr.params, Dot):
            return True
        if self.dot is None:
            self.dot = expr.params
        return expr.params == self.dot

    @property
    def leaves(self) -> list[Expr]:
        """The factors, i.e. the values that the product is computed from."""
        return [expr for expr, is_inside in self.values if not is_inside]

    @lazy
    def is_mixed(self) -> bool:
        """Whether another order may be cheaper: the product has several sums, or one sum and an op
        that can make a new order worthwhile."""
        free = self.function.is_free
        summing = sum([_is_counted(e) or (sums(e) and not free(e)) for e in self.ops])
        return summing > 1 or (summing > 0 and any(map(self._is_mixing, self.ops)))

    def _is_mixing(self, expr: Expr) -> bool:
        """Whether an op can make another order of a product with only one sum worthwhile: it is an
        elementwise product or a mask, or broadcasts an operand."""
        if is_mask(expr):
            return True
        if expr.kind == "product" and not expr.sums:
            return all([operand.rank for operand, _, _ in expr.operands])
        index = self.function.reading.ops.get(expr)
        if index is None:
            return True
        shapes = kind_of(self.function.reading.body.signatures[index]).shapes
        operands = [t.expr for t in self.function.reading.operands(index)]
        return any([math.prod(n) > e.size for n, e in zip(shapes, operands, strict=True)])

    @lazy
    def cuts(self) -> list[Expr]:
        """Inner values that do not fit into the Einstein sum, and are products of their own."""
        return self.unsuited + self._read[1]

    @property
    def term(self) -> EinsumTerm | None:
        """The product as an Einstein sum; ``None`` if it is none."""
        return self._read[0]

    @lazy
    def _read(self) -> tuple[EinsumTerm | None, list[Expr]]:
        cuts: list[Expr] = []
        terms: list[EinsumTerm] = []
        # Backwards: the terms of operands exist when an expression is read.
        for expr, is_inside in reversed(self.values):
            if not is_inside:
                terms.append(leaf(expr))
                continue
            parts = self.function.parts(expr)
            of_parts = [terms.pop() for _ in parts][::-1]
            try:
                terms.append(term_of(expr, of_parts))
            except NotAnEinsum:
                cuts += parts
                if expr is self.root:
                    return None, cuts
                terms.append(leaf(expr))
        (term,) = terms
        return term, cuts

    @lazy
    def cost(self) -> TensorCost:
        """An estimate for the ops as they are."""
        total, fixed = FREE, self.function.fixed
        trips: dict[Expr, int] = {}
        # Backwards: whether operands are loop-invariant is known before their users are visited.
        for expr, is_inside in reversed(self.values):
            if is_inside:
                of_operands = [trips.get(e) or fixed.get(e, 1) for e, _, _ in expr.operands]
                trips[expr] = times = min(of_operands, default=1)
                total += self.function.cost(expr).shared(times)
        return total

    @lazy
    def best(self) -> ContractionPlan | None:
        """The best order; ``None`` if there is none."""
        return _plan(self)

    def described(self) -> str:
        """The best order and its gain, for a remark."""
        layout = self.function.reading.layout(self.root.value)
        text = self.best.text(d for d in layout if d is not None)
        return f"product {text}: {self.best.cost} instead of {self.cost}"

    def tensor(self) -> Tensor:
        """The product in its best order."""
        return self.best.tensor(self.function.reading.algebra)


def _plan(tree: ProductTree) -> ContractionPlan | None:
    """Numbers the indices of a product, and finds its best order."""
    term = tree.term
    if term is None or not term.factors:
        return None
    # In order of occurrence, so that equal networks have equal keys in the cache of orders.
    numbers: dict[Index, int] = {}

    def numbered(indices: Iterable[Index]) -> Indices:
        return tuple([numbers.setdefault(index, len(numbers)) for index in resolve(indices)])

    factors = tuple([tuple(map(numbered, dims)) for _, dims in term.factors])
    flat = [[*itertools.chain(*dims)] for dims in factors]
    # Where arrays are stored in tiles, a diagonal takes longer to read than to mask.
    if tree.function.costs.lanes > 1 and any(len({*dims}) < len(dims) for dims in flat):
        return None
    selections = []
    for expr, dims in term.selectors:
        rows, *selected = numbered(itertools.chain(*dims))
        # If the rows share an index with the selected rows, this is no matrix product.
        if len({rows, *selected}) < 1 + len(selected):
            return None
        spec = expr.params
        how = spec.transposable, spec.is_indexed
        selections.append(SelectionFactor(rows, tuple(selected), *how))
    out = tuple(map(numbered, term.dims))
    values = [expr for expr, _ in (*term.factors, *term.selectors)]
    function = tree.function
    made_of = [[e] if e.kind != "selector" else [x for x, _, _ in e.operands] for e in values]
    trips = [function.fixed[e] for of_one in made_of for e in of_one if e in function.fixed]
    fixed = [k for k, of_one in enumerate(made_of) if all(e in function.fixed for e in of_one)]
    network = Network(
        tuple([index.size for index in numbers]),
        factors,
        tuple(selections),
        out,
        tree.root.dtype.itemsize,
        function.costs,
        frozenset(fixed),
        min(trips, default=1),
    )
    order = best_order(network)
    return order and ContractionPlan(
        network=network,
        order=order,
        values=[*values, *(number for _, number in term.scalars)],
        scalars=tuple([kind for kind, _ in term.scalars]),
        times=size_of({*resolve(term.made)} - numbers.keys()) if term.made else 1,
        sign=term.sign,
        exact=frozenset([number for index, number in numbers.items() if index.exact]),
        dot=tree.dot or Dot(None),
    )


# -- The cost of a product as the program computes it --


def _cost_of(expr: Expr, kind: OpKind) -> TensorCost:
    """The cost of an expression computed by an op, which XLA fuses into its users if it can.

    It is rather too low than too high, so that a rewrite is worth it.
    """
    size, itemsize = math.prod(kind.shape), kind.dtype.itemsize
    of_operands = [math.prod(shape) for shape in kind.shapes]
    match kind.name:
        case "jaxpr.dot_general":
            (contracted, _), _ = kind.attributes["dimension_numbers"]
            summed = math.prod([kind.shapes[0][d] for d in contracted])
            return TensorCost.of_product(size * summed, (*of_operands, size), itemsize)
        case "jaxpr.reduce_sum":
            (inner, labels, _), *_ = expr.operands
            if inner.kind == "product" and not inner.sums:
                gone = [d for d, k in enumerate(labels) if k >= expr.rank]
                stored = _stored(inner, {*gone})
                return TensorCost(
                    2 * of_operands[0], (size + stored * of_operands[0]) * itemsize, 1
                )
            is_spread = inner.size < of_operands[0]
            return TensorCost(0, ((0 if is_spread else of_operands[0]) + size) * itemsize, 1)
        case "jaxpr.scatter_add" | "jaxpr.pad" | "jaxpr.dynamic_update_slice":
            updates = of_operands[{"jaxpr.scatter_add": 2, "jaxpr.pad": 0}.get(kind.name, 1)]
            return TensorCost(0, (2 * updates + size) * itemsize, 1)
    is_moving = kind.name in selectors.READERS or kind.name == "jaxpr.convert_element_type"
    return TensorCost(0, 2 * size * itemsize, 1) if is_moving else FREE


def _stored(product: Expr, summed: Set[int]) -> int:
    """How many arrays of the size of an elementwise product XLA stores to sum it over some of its
    dimensions.

    XLA turns such a sum into a matrix product only if the factors are not shared.  The gradient of
    ``sum(x[:, None] * y[None], -1)`` broadcasts the cotangent for two products, both of which are
    computed element by element: for 1000 x 1000 x 64 numbers, that takes 250 times as long as the
    matrix products on JAX 0.10 and 100 times on 0.12.

    XLA's library call for reductions includes the product, and the operands of the product are
    materialized for it, also a factor that is broadcast along the summed axes.  The sum of 5000 x
    64 x 8 numbers along the first axis takes 0.3 ms on JAX 0.10 and 0.12; the sum of their products
    with 64 x 8 others takes 0.7 and 2.1 ms.
    """
    factors = [(expr, {*labels}) for expr, labels, _ in product.operands]
    if all(len(runs) < product.rank for _, runs in factors):
        if any(expr.uses > 1 for expr, _ in factors):
            return 2
    return 3 if any(runs and runs.isdisjoint(summed) for _, runs in factors) else 0

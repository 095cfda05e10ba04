"""``jaxpr-sum-in-products``: writes sums of operands of products as products, too.

Softmaxes
---------

Attention divides exponentials by their sum, and multiplies the quotients by values.  On a TPU the
sum is a kernel of its own, which computes all exponentials once more.  The product reads them as
well: with a column of ones, it also gives their sum, and its result is divided instead::

    (e / sum(e)) @ v    ->    r[:, :n] / r[:, n:],   r = e @ [v, 1]

The sum is rounded as the product is, and so is their quotient, whose numbers add up to 1 as before.
The pass does this for values that cannot exceed 1: exponentials of numbers minus their maximum.

Cycles of gradients, as fractions of those with separate sums (libtpu 0.0.42)::

    2048 rows, a memory of 2048 slots, 64 numbers each    0.47
    8 heads of 384 x 384, 16 numbers each                 0.30
    8 x 8 heads of 128 x 128, 32 numbers each             0.86

Biases
------

The gradient of a bias sums up rows, which are also a factor of the gradients of the layer's weights
and input.  The compiler computes the rows and their sum in one kernel, which stores the rows
rounded to 16 bits, in memory.  A product of ones with the rows is a kernel of the matrix unit, like
the other products, and leaves the rows where they are::

    sum_i g[i, :]    ->    (ones @ g)[0]

Ones are exact in 16 bits, and the rows are multiplied in three parts that make up 32 bits
(``precision=(DEFAULT, HIGHEST)``): the sum has the same precision as before.  With an infinity in
the rows it may be a NaN, as the other products are.

Cycles of gradients of four layers, as fractions of those with sums (libtpu 0.0.42)::

    rows x width       512 x 512   1024 x 512   4096 x 256   8192 x 64   16,000 x 128
    relu, tanh         0.91        0.87         0.74         0.73        0.59
    8 x 512 x 256      0.80 (gelu), 0.74 (silu), 0.85 (relu), 0.74 (tanh)

The product reads each row as one dimension.  If rows are small matrices, this is another layout,
and they stay a sum: for the 200 matrices of 32 x 32 that the loop of a Kalman filter stores, the
product takes two more kernels in each iteration.

If rows of a matrix need an exponential or the like that no product reads, as those of gelu do, the
compiler recomputes it for each product; then sums cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView, node_of, ops_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.op_counts import elements, is_plain_op, size
from jaxmlir.analysis.purity import is_pure
from jaxmlir.analysis.strided_view import view_of
from jaxmlir.dialect.builder import converted, has_lasting_effects
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.tpu.bound_maxima import stopped
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import COMPILERS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

_SUM, _PRODUCT = "jaxpr.reduce_sum", "jaxpr.dot_general"
_FUNCTIONS = with_trait(Trait.TRANSCENDENTAL)
# Fast memory has to be this many times as large as an array, to hold a layer's other arrays, too.
_HELD = 16
# Ops between a maximum and its subtraction; the last operand leads to the maximum.
_OF_MAXIMA = frozenset(
    f"jaxpr.{name}" for name in ("broadcast_in_dim", "max", "reshape", "select_n", "stop_gradient")
)


class SumInProducts(Pass):
    """Compute sums as products, if other products read the same array: in a softmax, of rows."""

    name: ClassVar[str] = "jaxpr-sum-in-products"
    compilers: ClassVar[tuple[str, ...]] = COMPILERS[name]
    partitioned: ClassVar[bool] = False

    def run(self, program: Module) -> bool:
        rules = Rules(program)

        def sum_up(function: func.FuncOp) -> int:
            nodes = list(ops_of(function))
            places = {v: i for i, node in enumerate(nodes) for v in node.op.results}
            return sum(
                _write(rules, places, node) or _write_rows(rules, node)
                for node in nodes
                if node.name == _SUM
            )

        return rewrite_functions(program, {_SUM}, sum_up) > 0


def _write(rules: Rules, places: dict[ir.Value, int], node: OpView) -> bool:
    """Writes a sum as a column of a product that is divided by it, if that pays.

    Args:
      places: for each value, the position of the op that computes it.
    """
    (e,), (total,) = node.operands, node.op.results
    if not is_plain_op(node) or aval_of(e.type).dtype != np.float32 or not _is_softmax(e):
        return False
    for product, side in _products(node):
        form, v = _NormalizedProduct.of(product, side), product.operands[1 - side]
        if not _pays(form, e, v, rules.program.target.costs):
            continue
        later = _later(v, places, places[total])
        if later is None:
            continue
        remark(node.op, "computed by the product that this sum normalizes, as one more column")
        for op in later:
            op.operation.move_before(node.op.operation)
            for result in op.results:
                places[result] = places[total]
        with ir.InsertionPoint(node.op), node.op.location:
            values = rules.emit(form, [e, v])
            for old, new in zip((product.op.results[0], total), values, strict=True):
                old.replace_all_uses_with(converted(new, old.type))
        return True
    return False


def _write_rows(rules: Rules, node: OpView) -> bool:
    """Writes a sum of rows that products read as a product with ones, if that pays."""
    (g,), (total,) = node.operands, node.op.results
    axes = tuple(node.get("axes"))
    if not is_plain_op(node) or aval_of(g.type).dtype != np.float32:
        return False
    if axes != tuple(range(len(axes))) or len(axes) == len(g.type.shape) or not _is_factor(g):
        return False
    # The product reads a row as one dimension: it has one, or its last one fills lanes.
    if len(axes) < len(g.type.shape) - 1 and g.type.shape[-1] % rules.program.target.costs.lanes:
        return False
    costs = rules.program.target.costs
    large = 2 * costs.launch < costs.stored(size(g.type)) and size(g.type) * _HELD <= costs.cached
    if not large or (len(g.type.shape) == 2 and _is_computed_again(g)):
        return False
    remark(node.op, "replaced by a matrix product with ones, because other products read the rows")
    with ir.InsertionPoint(node.op), node.op.location:
        (value,) = rules.emit(_RowSum(len(axes), costs.sublanes), [g])
        total.replace_all_uses_with(converted(value, total.type))
    return True


def _is_factor(value: ir.Value) -> bool:
    return any(use.owner.name == _PRODUCT for use in value.uses)


def _is_computed_again(g: ir.Value) -> bool:
    """Whether the elementwise ops that compute an array include exponentials or the like, back to
    factors of products, which are stored."""
    pending, met = [g], {g}
    while pending:
        node = node_of(pending.pop())
        if node is None or node.name not in FUSIBLE:
            continue
        if node.name in _FUNCTIONS:
            return True
        for v in node.operands:
            if v not in met and not _is_factor(v):
                met.add(v)
                pending.append(v)
    return False


class _RowSum(NamedTuple):
    """The sum of an array over its first dimensions, by a product; hashable.

    Attributes:
      summed: the number of dimensions that are summed.
      copies: the number of rows of ones; with one row the compiler would write a sum.
    """

    summed: int
    copies: int

    def __call__(self, g: Any) -> list[Any]:
        ones = lax.full((self.copies, *g.shape[: self.summed]), 1, g.dtype)
        dims = tuple(range(1, 1 + self.summed)), tuple(range(self.summed))
        exact = lax.Precision.DEFAULT, lax.Precision.HIGHEST
        sums = lax.dot_general(ones, g, (dims, ((), ())), precision=exact)
        return [lax.index_in_dim(sums, 0, keepdims=False)]


def _is_softmax(e: ir.Value) -> bool:
    """Whether a value is the exponential of numbers minus their maximum, or that of the finite ones
    among them, as ``jaxpr-bound-maxima`` writes it."""
    node = node_of(e)
    difference = node_of(node.operands[0]) if node and node.name == "jaxpr.exp" else None
    if difference is None or difference.name != "jaxpr.sub":
        return False
    maximum = node_of(difference.operands[1])
    while maximum and maximum.name in _OF_MAXIMA:
        maximum = node_of(maximum.operands[-1])
    if maximum is None or maximum.name != "jaxpr.reduce_max":
        return False
    terms, greatest_of = map(stopped, (difference.operands[0], maximum.operands[0]))
    selection = node_of(greatest_of)
    if selection is not None and selection.name == "jaxpr.select_n":
        test = node_of(selection.operands[0])
        if test is not None and test.name == "jaxpr.is_finite" and test.operands[0] == terms:
            return selection.operands[-1] == terms
    return greatest_of == terms


def _products(node: OpView) -> Iterator[tuple[OpView, int]]:
    """The products that contract an array divided by its sum along the same dimensions, with the
    side on which the quotient stands."""
    (e,), (total,) = node.operands, node.op.results
    axes = node.get("axes")
    for use in e.uses:
        quotient = OpView(use.owner, use.owner.name, list(use.owner.operands))
        if quotient.name != "jaxpr.div" or quotient.operands[0] != e or not is_plain_op(quotient):
            continue
        view = view_of(quotient.operands[1])
        if view is None or view.array != total or view.partial_dims or set(view.steps) - {1}:
            continue
        out_dims = [d for d in range(len(e.type.shape)) if d not in axes]
        if any(d is not None and out_dims[d] != i for i, d in enumerate(view.dims)):
            continue
        for quotient_use in quotient.op.results[0].uses:
            product = OpView(
                quotient_use.owner, quotient_use.owner.name, list(quotient_use.owner.operands)
            )
            if product.name != _PRODUCT or not is_plain_op(product):
                continue
            side = quotient_use.operand_number
            summed = product.get("dimension_numbers")[0][side]
            others = aval_of(product.operands[1 - side].type)
            if sorted(summed) == sorted(axes) and others.dtype == np.float32:
                yield product, side


class _NormalizedProduct(NamedTuple):
    """``[e @ v / s, s]`` where ``s`` sums ``e`` along its contracting dimensions; hashable.

    Attributes:
      side: the side of ``e`` in the product.
      summed, batch: the contracting and the batch dimensions of both sides.
      other: the other attributes of the product.
    """

    side: int
    summed: tuple[tuple[int, ...], ...]
    batch: tuple[tuple[int, ...], ...]
    other: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, product: OpView, side: int) -> _NormalizedProduct:
        dims = [tuple(map(tuple, sides)) for sides in product.get("dimension_numbers")]
        named = ("precision", "preferred_element_type")
        return cls(side, *dims, tuple((name, product.get(name)) for name in named))

    def free(self, side: int, rank: int) -> list[int]:
        """The free dimensions of a side."""
        taken = {*self.summed[side], *self.batch[side]}
        return [d for d in range(rank) if d not in taken]

    def __call__(self, e: Any, v: Any) -> list[Any]:
        row_dims, columns = self.free(self.side, e.ndim), self.free(1 - self.side, v.ndim)
        edges = [(0, int(d == columns[-1]), 0) for d in range(v.ndim)]
        sides = [e, lax.pad(v, np.ones((), v.dtype), edges)]
        if self.side:
            sides.reverse()
        product = lax.dot_general(*sides, (self.summed, self.batch), **dict(self.other))
        # The result has batch dimensions, free ones of the first side, free ones of the second.
        batch = len(self.batch[0])
        first = batch + self.side * len(columns)
        rows = [*range(batch), *range(first, first + len(row_dims))]
        column = batch + (0 if self.side else len(row_dims)) + len(columns) - 1
        values = lax.slice_in_dim(product, 0, -1, axis=column)
        starts = [0] * product.ndim
        starts[column] = product.shape[column] - 1
        limits = [n if d in rows else starts[d] + 1 for d, n in enumerate(product.shape)]
        sums = lax.slice(product, starts, limits)
        total = lax.reshape(sums, [product.shape[d] for d in rows])
        return [
            lax.div(values, lax.broadcast_in_dim(total, values.shape, rows)),
            lax.transpose(total, np.argsort([*self.batch[self.side], *row_dims])),
        ]


def _pays(form: _NormalizedProduct, e: ir.Value, v: ir.Value, costs: Costs) -> bool:
    """Whether reading the exponentials once more takes longer than a wider product and the kernels
    that slice its result."""
    shape = v.type.shape
    columns = form.free(1 - form.side, len(shape))
    count = math.prod(shape[d] for d in columns)
    if not columns or not count * elements(e.type):
        return False
    more = count // shape[columns[-1]]
    wider = math.ceil((count + more) / costs.lanes) - math.ceil(count / costs.lanes)
    summed = math.prod(shape[d] for d in form.summed[1 - form.side])
    results = elements(e.type) // summed * (count + more) * 4
    taken = 2 * elements(e.type) * wider * costs.lanes * costs.dot_flop + 2 * costs.stored(results)
    return costs.stored(size(e.type)) > taken


def _later(value: ir.Value, places: dict[ir.Value, int], place: int) -> list[Any] | None:
    """The ops after a place that compute a value, in order; ``None`` if one of them has effects, or
    needs the result of the op at the place."""
    ops: dict[int, Any] = {}
    pending = [value]
    while pending:
        value = pending.pop()
        at = places.get(value, -1)
        node = node_of(value) if at >= place and at not in ops else None
        if node is None:
            continue
        if at == place or not is_pure(node.name) or has_lasting_effects(node.op, node.name):
            return None
        ops[at] = node.op
        pending += node.operands
    return [ops[at] for at in sorted(ops)]

"""``jaxpr-gather-dot``: rows selected before a matrix product or after, whichever costs less.

Selecting rows and multiplying each by a matrix commute: ``x[idx] @ W`` is ``(x @ W)[idx]``.  If
there are more indices than rows, as in a graph with more edges than nodes, the second form
multiplies fewer rows; if few of many rows are selected, the first does.  The same holds for slices,
and for the transposes in gradients: adding up rows, ``segment_sum(x @ W)`` against ``segment_sum(x)
@ W``, and padding with zeros.

A selection is a matrix with a single 1 in each row, so this is the search of ``jaxpr-reassociate``
with additional factors.  Each row is multiplied by the same matrix as before, but sums are added up
in another order: see there for the error.

First, slices of a sum of products move to the products if a part of the sum is unused
(:func:`_move_slices`)::

    (d @ U.T + e @ V.T)[:, n:]   ->   (d @ U.T)[:, n:] + (e @ V.T)[:, n:]

This occurs in the gradient of a recurrent network: several gates multiply ``[x, h]`` by their
weights, and of its cotangent only the part of ``h`` is used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import ClassVar

from jaxmlir.analysis.function_view import OpView, node_of, ops_of
from jaxmlir.analysis.op_counts import elements, is_plain_op
from jaxmlir.analysis.strided_view import view_of
from jaxmlir.dialect.builder import is_used, only_user
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors.cost import MIN_GAIN
from jaxmlir.optimize.algebra.products.order import SURE_GAIN
from jaxmlir.optimize.algebra.products.rewrite import rewrite_program
from jaxmlir.optimize.algebra.products.trees import ProductTree, is_mask
from jaxmlir.optimize.algebra.selecting import COMPUTING, ElementWriter, Selection, made_of
from jaxmlir.optimize.compile_time import CALLS
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.transforms.templates import Rules

# The largest used part of a sum of products for which slices move to the products. Gradients of 100
# steps of an LSTM cell with 128 units, time with / without, on two cores, jax 0.10 and 0.12:
#   inputs      8      43     64     128
#   used        0.94   0.75   0.67   0.5
#     8 rows    0.82   0.77   0.77   0.73
#    32 rows    0.94   0.91   0.94   0.87
# A slice of all but the last position of a sequence is above the limit: moving it would make one
# layer of a network differ from the others, so that it is compiled separately.
MOST_USED = 0.75


class GatherDot(Pass):
    """Select rows before a matrix product or after, whichever costs less.

    Options:
      min-gain: how many times faster the new order has to be, by the estimate.
      sure-gain: the same for an order that takes fewer operations and fewer bytes.
      calls: the assumed number of calls of the program: selections that replace products with
        masks have to save, in these, the time to compile them.
    """

    name: ClassVar[str] = "jaxpr-gather-dot"
    # Rows on different devices are exchanged where they are selected: the order decides whether
    # that is once for all products with them, or once for each.
    partitioned: ClassVar = False
    min_gain: Amount = MIN_GAIN
    sure_gain: Amount = SURE_GAIN
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        moved = rewrite_functions(program, _SLICES, functools.partial(_move_slices, Rules(program)))
        num_written = rewrite_program(
            program,
            _SELECTORS,
            _selects_for_a_product,
            self.min_gain,
            sure_gain=self.sure_gain,
            selects=True,
            calls=self.calls,
        )
        return moved + num_written > 0


def _selects_for_a_product(tree: ProductTree) -> bool:
    if tree.term is None or not tree.term.selectors:
        return False
    # Selected rows, and values computed from them, keep their layout; the layout of a product is
    # chosen to fill the lanes.  So products narrower than the lanes stay: layers of 64 on the edges
    # of a graph took 0.74 of the time on a TPU.
    body = tree.function.reading.body
    shape = aval_of(body.types[tree.root.value]).shape
    if shape and shape[-1] < tree.function.costs.lanes:
        return False
    return tree.dot is not None or any(map(is_mask, tree.ops))


def _move_slices(rules: Rules, function: func.FuncOp) -> int:
    """Moves slices of sums of products to the products, where enough of a sum is unused; returns
    the number of sums."""
    slices = (operands for _, name, operands in ops_of(function) if name in _SLICES)
    values = dict.fromkeys(v for (v,) in slices)
    return sum(_move_slices_of(rules, value) for value in reversed(values))


def _move_slices_of(rules: Rules, value: ir.Value) -> bool:
    """Moves the slices of one value if that pays; returns whether it does."""
    slices = [OpView(use.owner, use.owner.name, [value]) for use in value.uses]
    if not all(node.name in _SLICES and is_plain_op(node) for node in slices):
        return False
    parts = [part for node in slices for part in _parts(node)]
    if sum(elements(old.type) for old, _ in parts) > MOST_USED * elements(value.type):
        return False

    def own(v: ir.Value) -> OpView | None:
        """The op that defines a value, if only the slices depend on it."""
        return node_of(v) if v == value or only_user(v) is not None else None

    def summand(v: ir.Value) -> OpView | None:
        """The op that defines a value, if it can be computed for some elements only."""
        node = own(v)
        if node is None or node.name not in COMPUTING or not is_plain_op(node):
            return None
        return node if aval_of(v.type).shape == aval_of(value.type).shape else None

    inner, leaves = made_of(value, summand)
    if not inner and all(node.name == "jaxpr.slice" for node in slices):
        return False
    makers = (own(leaf) for leaf in leaves)
    if not any(node is not None and node.name == "jaxpr.dot_general" for node in makers):
        return False
    for old, selection in parts:
        remark(
            old.owner,
            "moved the slice before the products: they compute "
            f"{elements(old.type)} of {elements(value.type)} elements",
        )
        with ir.InsertionPoint(old.owner), old.owner.location:
            new = ElementWriter(rules).write(value, selection, [], inner, leaves)
        old.replace_all_uses_with(new)
    return True


_SLICES = frozenset({"jaxpr.slice", "jaxpr.split"})
# Without these ops nothing selects rows; they include comparisons, as of row numbers and indices.
_SELECTORS = NEEDED_OPS[GatherDot.name]


def _parts(node: OpView) -> Iterator[tuple[ir.Value, Selection]]:
    """The used results of a slice or a split, each with its selection."""
    if node.name == "jaxpr.slice":
        yield node.op.operation.results[0], Selection.of(node)
        return
    for result in filter(is_used, node.op.operation.results):
        view = view_of(result, _SLICES)
        if view is not None:
            yield result, Selection.box(view.array.type.shape, view.starts, view.limits)

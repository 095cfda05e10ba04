"""What an expression costs, in nanoseconds.

The constants of matrix products are those of ``jaxpr-reassociate``, and so is the margin.  An
elementwise op is fused with its neighbours: it is taken to read and write as much as its largest
tensor has.  A sum reads what it sums up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import NamedTuple

from jaxmlir.passes.collapse._tensors import Expr
from jaxmlir.passes.products._cost import BYTE_NS, FLOP_NS, OP_NS

# A flop of a batch of small matrix products: 2048 of 6 x 64 by 64 x 6, or of 6 x 6 by 6 x 64,
# take 0.5 to 0.6 ms on two cores, with the XLA of jax 0.10 and of 0.12.
SMALL_FLOP_NS = 0.055
# Matrices are small with fewer rows, columns, or terms summed up, than this.
SMALL = 32

ATOMS = frozenset({"constant", "eye", "iota", "leaf"})


def cost(expr: Expr) -> float:
    """Of computing an expression from its operands."""
    if expr.cost is None:
        expr.cost = _cost(expr)
    return expr.cost


def _cost(expr: Expr) -> float:
    if expr.kind in ATOMS:
        return 0.0
    itemsize = expr.dtype.itemsize
    if expr.sums and contracts(expr):
        flop = SMALL_FLOP_NS if _is_small(expr) else FLOP_NS
        moved = expr.size + sum(e.size for e, _, _ in expr.operands)
        return 2 * math.prod(expr.sizes) * flop + moved * itemsize * BYTE_NS + OP_NS
    return math.prod(expr.sizes) * itemsize * BYTE_NS


class Price(NamedTuple):
    """What it takes to compute an expression.

    Attributes:
      total: in nanoseconds.
      made: what is computed: this expression, and what it is made of.
      read: what is there, and used.
    """

    total: float
    made: set[Expr]
    read: set[Expr]


def price(expr: Expr, is_there: Callable[[Expr], bool], counted: Set[Expr] = frozenset()) -> Price:
    """Of computing an expression, as far as it is not there, and has not been counted."""
    total, pending = 0.0, [expr]
    made: set[Expr] = set()
    read: set[Expr] = set()
    while pending:
        expr = pending.pop()
        if is_there(expr):
            read.add(expr)
        elif expr not in counted and expr not in made:
            made.add(expr)
            total += cost(expr)
            pending += [e for e, _, _ in expr.operands]
    return Price(total, made, read)


def _is_small(expr: Expr) -> bool:
    """Whether a matrix product is a batch of products of small matrices."""
    (_, a, _), (_, b, _) = expr.operands
    batch = [k for k in a if k in b and k < expr.rank]
    groups = (
        [k for k in a if k not in b],
        [k for k in b if k not in a],
        [k for k in a if k in b and k >= expr.rank],
    )
    sizes = [math.prod(expr.sizes[k] for k in group) for group in groups]
    return bool(batch) and min(sizes) < SMALL


def contracts(expr: Expr) -> bool:
    """Whether a product sums over labels, and both factors have labels that the other has not:
    a product of matrices, where others are elementwise."""
    if len(expr.operands) != 2:
        return False
    (_, a, _), (_, b, _) = expr.operands
    return expr.sums and not set(a) <= set(b) and not set(b) <= set(a)

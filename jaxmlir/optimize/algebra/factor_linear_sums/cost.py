"""What an expression costs, in nanoseconds.

The constants of matrix products are those of ``jaxpr-reassociate``, and so is the margin.  An
elementwise op is fused with its neighbours: it is taken to read and write as much as its largest
tensor has.  A sum reads what it sums up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence, Set

from jaxmlir.optimize.algebra.factor_linear_sums.tensors import Expr, Wiring
from jaxmlir.optimize.algebra.products.cost import BYTE_NS, FLOP_NS, OP_NS

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
    if not expr.sums or len(expr.operands) != 2:
        return math.prod(expr.sizes) * expr.dtype.itemsize * BYTE_NS
    (_, a, _), (_, b, _) = expr.operands
    wirings = a, b
    return _cost_of_shape(wirings, expr.sizes, expr.rank, expr.dtype.itemsize)


@functools.lru_cache(maxsize=1 << 14)
def _cost_of_shape(
    wirings: tuple[Wiring, ...], sizes: tuple[int, ...], rank: int, itemsize: int
) -> float:
    """The cost of products that sum over something, whose factors are wired in a way."""
    if not _contracts(wirings, sizes, rank):
        return math.prod(sizes) * itemsize * BYTE_NS
    flop = SMALL_FLOP_NS if _is_small(*wirings, sizes, rank) else FLOP_NS
    moved = sum([math.prod([sizes[k] for k in wiring]) for wiring in (range(rank), *wirings)])
    return 2 * math.prod(sizes) * flop + moved * itemsize * BYTE_NS + OP_NS


def price(
    expr: Expr,
    is_there: Callable[[Expr], bool],
    made: set[Expr],
    read: set[Expr],
    counted: Set[Expr] = frozenset(),
) -> float:
    """What it takes to compute an expression, in nanoseconds, as far as it is not there, and has
    not been counted.

    Args:
      made: what is computed; this expression, and what it is made of, is added.
      read: what is used and there; likewise.
    """
    total, pending = 0.0, [expr]
    while pending:
        expr = pending.pop()
        if is_there(expr):
            read.add(expr)
        elif expr not in counted and expr not in made:
            made.add(expr)
            total += cost(expr)
            for operand, _, _ in expr.operands:
                pending.append(operand)
    return total


def _is_small(a: Wiring, b: Wiring, all_sizes: tuple[int, ...], rank: int) -> bool:
    """Whether a matrix product is a batch of products of small matrices."""
    batch = [k for k in a if k in b and k < rank]
    groups = (
        [k for k in a if k not in b],
        [k for k in b if k not in a],
        [k for k in a if k in b and k >= rank],
    )
    sizes = [math.prod(all_sizes[k] for k in group) for group in groups]
    return bool(batch) and min(sizes) < SMALL


def contracts(expr: Expr) -> bool:
    """Whether a product sums over labels, and both factors have labels that the other has not:
    a product of matrices, where others are elementwise."""
    return _contracts([wiring for _, wiring, _ in expr.operands], expr.sizes, expr.rank)


def _contracts(wirings: Sequence[Wiring], sizes: tuple[int, ...], rank: int) -> bool:
    if len(wirings) != 2 or len(sizes) == rank:
        return False
    a, b = wirings
    return not set(a) <= set(b) and not set(b) <= set(a)

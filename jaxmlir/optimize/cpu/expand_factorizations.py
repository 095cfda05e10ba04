"""``jaxpr-expand-factorizations``: factors small matrices, and solves with them, entry by entry.

XLA's CPU compiler calls a library to factor each matrix of a batch, and to solve with its factors.
For small matrices the calls cost more than the arithmetic.  This pass writes the arithmetic of
textbooks, with an array for each entry of the matrices, so that it is vectorized over the batch (G.
Golub, C. Van Loan, "Matrix Computations", 3.1, 3.4, 4.2)::

    cholesky           l[j, j] = sqrt(a[j, j] - sum of l[j, k]^2 over k < j)
                       l[i, j] = (a[i, j] - sum of l[i, k] l[j, k] over k < j) / l[j, j]
    triangular_solve   x[i] = (b[i] - sum of a[i, k] x[k] over k < i) / a[i, i]
    lu                 rows are exchanged: a[k] with that of the largest |a[i, k]| of i >= k
                       a[i, k] = a[i, k] / a[k, k],   a[i, j] = a[i, j] - a[i, k] a[k, j]

XLA makes one kernel of a loop without calls of the library.  Special cases are the library's: a
factor is NaN if a root is taken of a number that is not positive (if it is NaN, only entries
computed from it are NaN), the first of equal pivots is taken, a column of zeros stays as it is, and
the other triangle is not read.  If a matrix has an entry that is not finite, other entries of the
factors of ``lu`` may be NaN than with the library, which skips what it takes for zeros.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expand_products import at_indices
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter, function_of
from jaxmlir.optimize.loops.scan_editor import LOOPS
from jaxmlir.passes.base import Count

# Microseconds of CPU time by the library / entry by entry, float32, two CPU cores, jax 0.12 and
# 0.10, of a step of a loop with one, and of a program that is nothing but one:
#   matrices in a loop     1           16          256          4096      4096, no loop
#   cholesky  2 x 2   0.37/0.14   1.3/0.18     18/2.6      218/8       500/209
#                     0.44/0.15   1.6/0.25     17/2.6      228/14      440/142
#             3 x 3   0.47/0.15   2.0/0.42     30/3.9      372/54      501/98
#                     0.50/0.15   2.0/0.45     31/7.2      390/65      649/265
#             4 x 4   0.54/0.19   2.9/0.97     33/7.4      575/133     684/158
#                     0.58/0.17   2.8/1.6      34/8.7      539/166     701/172
#   triangular_solve  0.59/0.15   2.8/0.32     34/1.2      477/14      648/88
#             3 x 3   0.48/0.12   2.0/0.23     24/1.0      363/24      447/80
#             4 x 4   0.63/0.17   2.5/0.92     33/4.3      524/26      744/173
#                     0.50/0.12   2.0/0.81     28/4.2      414/87      518/159
#   lu        2 x 2   0.59/0.15   2.5/0.18     24/0.85     355/6.2     681/209
#                     0.68/0.14   2.3/0.24     27/1.25     368/11      449/74
#             3 x 3   0.65/0.18   3.6/0.88     35/4.6      574/75      878/257
#                     0.68/0.16   4.1/1.4      43/5.3      615/96      715/128
#             4 x 4   0.74/0.27   4.9/1.4      53/11       818/169    1070/309
#                     0.75/0.21   5.5/2.0      56/10       848/190    1010/279
# The number of ops grows with the cube of the size.  Matrices of 6 x 6 take a half to a tenth of
# the time as well, but cholesky takes 0.6 s instead of 0.1 s to compile, and lu 2 s; lu of 4 x 4
# takes 0.5 s instead of 0.3 s to compile.
MAX_SIZE = 4
# The same pivots exchange all entries that are left of a matrix, which would recompute them.  With
# pivots that are not stored, 4 x 4 takes 250 and 435 us, where the library takes 818 and 848, and
# 1170 and 917 us where it takes 1070 and 1010.  For 2 x 2 there is one pivot, and jax 0.10 takes
# 0.2 us for each that is stored.
MIN_STORED = 16
STORED_FROM = 3
# XLA hands a program that looks long to another thread, which takes 50 to 80 us.  A program of a
# few matrices looks long entry by entry, but not as calls of the library.  Solutions of 3 x 3 and
# their gradients, us, jax 0.12, by the number of matrices: 1 16/12 19/13, 4 21/13 28/99, 16 28/101
# and 121/99, 64 129/92 142/100, 1024 423/134 639/173.  In a loop there is no such difference.
FEW = range(2, 64)

# Nanoseconds saved once, and for each matrix; and the ops as a multiple of the cube of the size.
CALL = 300.0
SAVED = 80.0
OPS = {"jaxpr.cholesky": 3, "jaxpr.triangular_solve": 2, "jaxpr.lu": 6}

_DTYPES = (np.float32, np.float64)
# The attributes of ``triangular_solve`` by the names of arguments here.
_OF_SYSTEM = {
    "left": "left_side",
    "lower": "lower",
    "transposed": "transpose_a",
    "unit": "unit_diagonal",
}


class ExpandFactorizations(ExpandOps):
    """Expand factorizations of small matrices, and small triangular solves, entry by entry.

    Options:
      max-size: matrices of more rows or columns are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-factorizations"
    max_size: Count = MAX_SIZE

    def expansions(self, program: Module) -> Callable[[OpView], Expansion | None]:
        @functools.cache
        def repeated() -> set[str]:
            return analyses_of(program).graph.run_by(LOOPS)

        def expansion(node: OpView) -> Expansion | None:
            aval = aval_of(node.operands[0].type)
            if aval.dtype not in _DTYPES:
                return None
            rows, columns = aval.shape[-2:]
            if not all(0 < n <= self.max_size for n in (rows, columns)) or not aval.size:
                return None
            batch, size = aval.size // (rows * columns), max(rows, columns)
            if batch in FEW and function_of(node) not in repeated():
                return None
            reason = f"expanded into ops on the entries of {rows} x {columns} matrices"
            ops, saved = OPS[node.name] * size**3, CALL + SAVED * batch
            if node.name == "jaxpr.lu":
                is_stored = batch >= MIN_STORED and min(rows, columns) >= STORED_FROM
                write = functools.partial(_lu, is_stored=is_stored)
                return Expansion(reason, write, ops, saved, by_steps=True)
            if node.name == "jaxpr.cholesky":
                return Expansion(reason, _cholesky, ops, saved)
            solve = functools.partial(
                _solve, **{name: bool(node.get(key)) for name, key in _OF_SYSTEM.items()}
            )
            return Expansion(reason, solve, ops, saved)

        return expansion


def _entry(a: Any, *indices: int) -> Any:
    """The array of one entry of each matrix; with a single index, of one row."""
    return at_indices(a, range(a.ndim - 2, a.ndim - 2 + len(indices)), indices)


def _entries(a: Any) -> list[list[Any]]:
    rows, columns = a.shape[-2:]
    return [[_entry(a, i, j) for j in range(columns)] for i in range(rows)]


def _matrix(entries: Sequence[Sequence[Any]]) -> Any:
    rank = entries[0][0].ndim
    return _stacked([_stacked(row, rank) for row in entries], rank)


def _stacked(arrays: Sequence[Any], axis: int) -> Any:
    return lax.concatenate([lax.expand_dims(a, (axis,)) for a in arrays], axis)


def _less(a: Any, *factors: tuple[Any, Any]) -> Any:
    """A number minus products."""
    return functools.reduce(lambda rest, xy: lax.sub(rest, lax.mul(*xy)), factors, a)


def _cholesky(a: Any) -> list[Any]:
    # The library leaves the upper triangle as it is.
    factor = _entries(a)
    size = range(len(factor))
    rests = []
    for j in size:
        for i in size[j:]:
            factor[i][j] = _less(factor[i][j], *((factor[i][k], factor[j][k]) for k in size[:j]))
            if i == j:
                rests.append(factor[j][j])
                factor[j][j] = lax.sqrt(factor[j][j])
                scale = lax.div(lax.full_like(factor[j][j], 1), factor[j][j])
            else:
                factor[i][j] = lax.mul(factor[i][j], scale)
    fails = functools.reduce(
        lax.bitwise_or, (lax.le(rest, lax.full_like(rest, 0)) for rest in rests)
    )
    nan = lax.full_like(fails, np.nan, factor[0][0].dtype)
    return [_matrix([[lax.select(fails, nan, x) for x in row] for row in factor])]


def _solve(a: Any, b: Any, *, left: bool, lower: bool, transposed: bool, unit: bool) -> list[Any]:
    """The solutions of triangular systems; if ``unit``, the diagonal is ones and is not read."""
    # X A = B is A^T X^T = B^T.
    transposed ^= not left

    def at(i: int, k: int, like: Any) -> Any:
        """An entry of each matrix, broadcast to all its right-hand sides."""
        entry = _entry(a, *((k, i) if transposed else (i, k)))
        return lax.broadcast_in_dim(entry, like.shape, range(entry.ndim))

    row = b.ndim - (2 if left else 1)
    size = range(a.shape[-1])
    solved: dict[int, Any] = {}
    for i in size if lower ^ transposed else reversed(size):
        x = lax.index_in_dim(b, i, row, keepdims=False)
        x = _less(x, *((at(i, k, x), solved[k]) for k in solved))
        solved[i] = x if unit else lax.div(x, at(i, i, x))
    # Each row of all matrices is contiguous: if it is used likewise, XLA moves nothing.
    rows = _stacked([solved[i] for i in size], 0)
    order = list(range(1, b.ndim))
    order.insert(row, 0)
    return [lax.transpose(rows, order)]


def _lu(writer: ExpansionWriter, a: ir.Value, *, is_stored: bool) -> list[ir.Value]:
    """The factors, the pivots, and the original number of each row.

    Args:
      is_stored: whether pivots are stored, for all entries that they exchange.
    """
    rows, columns = aval_of(a.type).shape[-2:]
    state = writer.emit(_start, a)
    pivots = []
    for k in range(min(rows, columns)):
        column = [state[i * columns + k] for i in range(k, rows)]
        pivots += writer.emit(functools.partial(_pivot, k=k), *column)
        if k + 1 < rows:
            if is_stored:
                pivots[-1] = writer.store(pivots[-1])
            step = functools.partial(_step, k=k, rows=rows, columns=columns)
            state = writer.emit(step, pivots[-1], *state)
    return writer.emit(functools.partial(_end, rows=rows, columns=columns), *state, *pivots)


def _start(a: Any) -> list[Any]:
    """The entries row by row, and the number of each row."""
    entries = _entries(a)
    batch = a.shape[:-2]
    numbers = [lax.full(batch, i, np.int32) for i in range(len(entries))]
    return [*itertools.chain(*entries), *numbers]


def _pivot(*column: Any, k: int) -> list[Any]:
    """The row with the largest entry of a column, from the diagonal on."""
    largest = lax.abs(column[0])
    row = lax.full(largest.shape, k, np.int32)
    for i, entry in enumerate(column[1:], start=k + 1):
        size = lax.abs(entry)
        larger = lax.gt(size, largest)
        largest = lax.select(larger, size, largest)
        row = lax.select(larger, lax.full_like(row, i), row)
    return [row]


def _step(pivot: Any, *state: Any, k: int, rows: int, columns: int) -> list[Any]:
    """Exchanges a row with that of the pivot, and subtracts multiples of it from the others."""
    size = rows * columns
    a = [[*state[i : i + columns]] for i in range(0, size, columns)]
    table = [[*row, number] for row, number in zip(a, state[size:], strict=True)]
    others = range(k + 1, rows)
    taken = {i: lax.eq(pivot, lax.full_like(pivot, i)) for i in others}
    for j, entry in enumerate(table[k]):
        for i in others:
            row = table[i]
            table[k][j] = lax.select(taken[i], row[j], table[k][j])
            row[j] = lax.select(taken[i], entry, row[j])
    first = table[k]
    is_zero = lax.eq(first[k], lax.full_like(first[k], 0))
    for row in (table[i] for i in others):
        row[k] = lax.select(is_zero, row[k], lax.div(row[k], first[k]))
        for j in range(k + 1, columns):
            row[j] = _less(row[j], (row[k], first[j]))
    return [*(x for row in table for x in row[:-1]), *(row[-1] for row in table)]


def _end(*state: Any, rows: int, columns: int) -> list[Any]:
    """The factors in one array, the pivots, and the original number of each row."""
    size = rows * columns
    a = [state[i : i + columns] for i in range(0, size, columns)]
    rank = state[0].ndim
    numbers, pivots = state[size : size + rows], state[size + rows :]
    return [_matrix(a), _stacked(pivots, rank), _stacked(numbers, rank)]

"""``jaxpr-expand-cumulative``: cumulative sums, products, extremes and log-sum-exps in blocks.

JAX lowers a cumulative op for CPUs to a reduction of windows.  XLA makes a tree of windows of 16
elements, and adds up each of them anew, element by element.  This pass cuts the axis into blocks of
a few elements.  It goes through the array twice, and through the totals of the blocks in the same
way ("+" is the op)::

    y[b, j] = x[b, 0] + x[b, 1] + ... + x[b, j]              within a block
    t[b]    = y[0, last] + y[1, last] + ... + y[b, last]     of totals of blocks
    z[b, j] = t[b - 1] + y[b, j]

Within a block, all ``j`` are computed at once, without branches, so that XLA vectorizes the sums::

    y = x[:, 0];    for k = 1, 2, ...:    y = select(j >= k, y + x[:, k], y)

This takes a few additions more than are needed, and less time than another access to memory.
Nothing is added to an element but elements before it, so infinities and NaN come out as in JAX; but
a sum of nothing but negative zeros is a negative zero.  Sums are rounded in another order, about as
often as JAX's.  Numbers of type bfloat16 are computed in 32 bits, and rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import record_of
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter
from jaxmlir.passes.base import Amount

# Nanoseconds per element of XLA, of this pass; float32 on a CPU core, jax 0.10 and 0.12:
#                        cumsum               cummax               cumlogsumexp
#   262,144              8.4, 1.1   5.4, 0.9  16, 1.7    17, 2.3   442, 13   466, 13
#   512 x 512, first     7.6, 1.0   6.7, 1.0  11, 1.1    11, 1.3   463, 9    477, 9
#   512 x 512, last      5.9, 1.1   4.6, 0.9  11, 2.0    11, 1.4   433, 13   445, 13
#   64 x 512 x 8, 512    4.4, 1.2   4.2, 1.0  12, 2.2    10, 1.7   437, 34   470, 35
#   2,600 x 100, last    4.8, 1.8   5.3, 1.6  11, 2.4    12, 2.7   522, 19   520, 19
#   16,000 x 16, last    3.7, 1.0   3.6, 0.5   8, 2.0     8, 1.6   416, 26   444, 10
#   4,096                8.3, 5.8    12, 4.7  22, 10     13, 3.3   437, 21   447, 16
# and per iteration of a loop, in microseconds, cumsum; jax 0.12 makes one kernel of the loop:
#   1,000   5.7, 2.0   2.4, 1.7      64 x 32   8.4, 3.2   1.3, 3.6
#   4,000    22, 4.4   9.1, 6.9      64 x 64    15, 4.0   6.0, 5.8
# Two elements take as long either way.
MIN_LENGTH = 3
# Elements of a block: with 4 of them a cumulative sum takes 1.3 times as long, with 32 three times.
# XLA vectorizes blocks of short rows only if they have 15 or 16: 1.3 to 2.7, or 3.3 to 6.3 with 8.
BLOCK = 8
BLOCK_OF_SHORT_ROWS = 16
SHORT_ROW = 16
# So many elements are one block.
MAX_BLOCK = 16
# Nanoseconds saved per element, and the ops each time that an array is cut into blocks: it takes
# 0.05 s more to compile than what JAX writes, and 0.1 s in a loop.
SAVED = 4.0
OPS = 150
MIN_SAVED = 16_000.0

# An addition of logarithms takes longer than an access to memory: with blocks of 2 elements a
# cumulative log-sum-exp takes 1.2 times as long, with 8 nine times.
_LOGSUMEXP = "jaxpr.cumlogsumexp"
BLOCK_OF_LOGSUMEXP = 4
SAVED_OF_LOGSUMEXP = 300.0
OPS_OF_LOGSUMEXP = 330


class ExpandCumulative(ExpandOps):
    """Compute cumulative sums, products, extremes and log-sum-exps in blocks.

    Options:
      min-saved: ops that save fewer nanoseconds are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-cumulative"
    min_saved: Amount = MIN_SAVED

    def expansion(self, node: OpView) -> Expansion | None:
        aval, axis = aval_of(node.operands[0].type), int(node.get("axis"))
        length, behind = aval.shape[axis], math.prod(aval.shape[axis + 1 :])
        if not _is_supported(node.name, aval.dtype) or length < MIN_LENGTH or not aval.size:
            return None
        if node.name == _LOGSUMEXP:
            size = limit = BLOCK_OF_LOGSUMEXP
            ops, saved = OPS_OF_LOGSUMEXP, SAVED_OF_LOGSUMEXP * aval.size
        else:
            size, limit = BLOCK_OF_SHORT_ROWS if 1 < behind < SHORT_ROW else BLOCK, MAX_BLOCK
            ops, saved = OPS, SAVED * aval.size
        if saved < self.min_saved:
            return None
        blocks = _Blocks(node.name, bool(node.get("reverse", False)), size, limit)
        return Expansion(
            f"computed in blocks of {min(size, length)} elements",
            functools.partial(blocks.write, axis=axis),
            ops * blocks.levels(length),
            saved,
            by_steps=True,
        )


def _is_supported(name: str, dtype: Any) -> bool:
    if dtype == dtypes.bfloat16:
        return True
    # Types that are no part of NumPy have few bits, and XLA rounds each step.
    is_numpy = isinstance(dtype, np.dtype) and dtype.isbuiltin == 1
    return is_numpy and dtype.kind in ("f" if name == _LOGSUMEXP else "iufc")


class _Blocks(NamedTuple):
    """Writes a cumulative op on arrays of shape ``(before, length, behind)``.

    Attributes:
      name: the name of the op.
      reverse: whether it starts from the end.
      size: the elements of a block.
      limit: the most elements of an array that is one block.
    """

    name: str
    reverse: bool
    size: int
    limit: int

    def levels(self, length: int) -> int:
        """How many arrays, of elements and of totals, are cut into blocks."""
        return 1 if length <= self.limit else 1 + self.levels(-(-length // self.size) - 1)

    def write(self, writer: ExpansionWriter, x: ir.Value, *, axis: int) -> ir.Value:
        """Writes the op along an axis of any array."""
        aval = aval_of(x.type)
        before, behind = math.prod(aval.shape[:axis]), math.prod(aval.shape[axis + 1 :])
        dtype = np.dtype(np.float32) if aval.dtype == dtypes.bfloat16 else aval.dtype

        def reshaped(x: ir.Value, shape: tuple[int, ...], dtype: Any) -> ir.Value:
            return writer.emit(functools.partial(_reshaped, shape=shape, dtype=dtype), x)[0]

        x = writer.store(reshaped(x, (before, aval.shape[axis], behind), dtype))
        return reshaped(self._cumulative(writer, x, aval.dtype), aval.shape, aval.dtype)

    def _cumulative(self, writer: ExpansionWriter, x: ir.Value, dtype: Any) -> ir.Value:
        """Writes the op; returns a stored array of a type."""

        def stored(function: Callable[..., list[Any]], *xs: ir.Value, **options: Any) -> ir.Value:
            function = functools.partial(function, blocks=self, **options)
            return writer.store(writer.emit(function, *xs)[0])

        aval = aval_of(x.type)
        before, length, behind = aval.shape
        if length <= self.limit:
            return stored(_within, x, size=length, shape=aval.shape, dtype=dtype)
        if length % self.size:
            x = stored(_padded, x)
        shape = before, -(-length // self.size), self.size, behind
        y = stored(_within, x, size=self.size, shape=shape, dtype=aval.dtype)
        (totals,) = writer.emit(functools.partial(_totals, blocks=self), y)
        totals = stored(_shifted, self._cumulative(writer, totals, aval.dtype))
        return stored(_joined, totals, y, length=length, dtype=dtype)

    def combine(self, a: Any, b: Any) -> Any:
        """The op on two arrays."""
        if self.name == _LOGSUMEXP:
            return _logaddexp(a, b)
        return getattr(lax, f"{record_of(self.name).combine}_p").bind(a, b)

    def pad(self, x: Any, first: int, last: int) -> Any:
        """An array with further elements where the op starts, and where it ends."""
        edges = (last, first, 0) if self.reverse else (first, last, 0)
        return lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), edges, (0, 0, 0)])


def _reshaped(x: Any, *, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    return [lax.convert_element_type(lax.reshape(x, shape), dtype)]


def _padded(x: Any, *, blocks: _Blocks) -> list[Any]:
    """An array with further elements at the end, so that all blocks are full."""
    return [blocks.pad(x, 0, -x.shape[1] % blocks.size)]


def _within(x: Any, *, blocks: _Blocks, size: int, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """The op within each block of so many elements, as an array of a shape and a type."""
    before, length, behind = x.shape
    # Loops over dimensions of size 1 are not vectorized.
    rows = before * length // size
    x = lax.reshape(x, (rows, size) if behind == 1 else (rows, size, behind))
    order = range(size)[:: -1 if blocks.reverse else 1]

    def element(k: int) -> Any:
        return lax.broadcast_in_dim(lax.slice_in_dim(x, k, k + 1, axis=1), x.shape, range(x.ndim))

    y = element(order[0])
    # XLA would compute comparisons before a loop, each by a kernel of its own; but kernels without
    # rows behind are not vectorized if they read constants (2,600 x 100: 5 ns instead of 2).
    place = np.arange(size) if x.ndim == 3 else lax.iota(np.int32, size)
    for k in order[1:]:
        is_behind = place <= k if blocks.reverse else place >= k
        is_behind = lax.broadcast_in_dim(is_behind, x.shape, (1,))
        y = lax.select(is_behind, blocks.combine(y, element(k)), y)
    return _reshaped(y, shape=shape, dtype=dtype)


def _totals(y: Any, *, blocks: _Blocks) -> list[Any]:
    """The totals of all blocks but the last one."""
    _, count, size, _ = y.shape
    blocks_with_next, place = ((1, count), 0) if blocks.reverse else ((0, count - 1), size - 1)
    y = lax.slice_in_dim(y, *blocks_with_next, axis=1)
    return [lax.squeeze(lax.slice_in_dim(y, place, place + 1, axis=2), [2])]


def _shifted(totals: Any, *, blocks: _Blocks) -> list[Any]:
    """For each block the total of those before it; for the first one a number that is not read."""
    return [blocks.pad(totals, 1, 0)]


def _joined(totals: Any, y: Any, *, blocks: _Blocks, length: int, dtype: Any) -> list[Any]:
    """The op on so many elements, given that within blocks and that on all blocks before."""
    before, count, size, behind = y.shape
    dims = (0, 1, 3)
    if behind == 1:
        y, totals, dims = lax.squeeze(y, [3]), lax.squeeze(totals, [2]), (0, 1)
    totals = lax.broadcast_in_dim(totals, y.shape, dims)
    first = count - 1 if blocks.reverse else 0
    is_first = lax.eq(lax.broadcasted_iota(np.int32, y.shape, 1), np.int32(first))
    z = lax.select(is_first, y, blocks.combine(totals, y))
    (z,) = _reshaped(z, shape=(before, count * size, behind), dtype=dtype)
    start = count * size - length if blocks.reverse else 0
    return [lax.slice_in_dim(z, start, start + length, axis=1)]


def _logaddexp(a: Any, b: Any) -> Any:
    difference = lax.sub(a, b)
    # The difference of equal infinities is NaN.
    total = lax.add(lax.max(a, b), lax.log1p(lax.exp(lax.neg(lax.abs(difference)))))
    return lax.select(lax.ne(difference, difference), lax.add(a, b), total)

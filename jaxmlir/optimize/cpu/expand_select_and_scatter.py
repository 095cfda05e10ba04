"""``jaxpr-expand-select-and-scatter``: the gradient of max-pooling, element by element.

The transpose of a maximum over windows adds each window's cotangent to the element that the window
selects.  XLA's CPU compiler goes through the windows one after another, 12 to 60 ns for each.  This
pass compares the same place in all windows at once, to find the place that each window selects::

    which = 0 where x[0] >= x[1], else 1                  of two elements of each window

Then each element compares this with its place in each window that contains it.  With strides ``s``,
the elements ``q s + r`` are at the places ``r``, ``r + s``, ... of the windows ``q``, ``q - 1``,
...::

    gradient[q, r] = sum over j of select(which[q - j] == r + j s, source[q - j], 0)

Each ``j`` is one term for all elements at once: one term if windows do not overlap, four for 3 x 3
windows at strides of 2, nine at strides of 1.

The comparisons are XLA's, in its order.  So the same element is selected, among equal elements (the
first) and after comparisons with NaN.  Terms are added in XLA's order, the order of the windows.  A
negative zero for an element of one window keeps its sign, where XLA adds it to zero.

The transpose of this op, ``select_and_gather_add`` in second derivatives and tangents, takes from a
second array the element that each window selects in the first: two selections for each place.  For
types of 64 bits XLA uses half of their bits; this pass uses all.  Among equal elements this pass
selects the first here, too; XLA selects another one in some shapes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter

# Milliseconds of XLA, of this pass; a CPU core, jax 0.10 and 0.12.  Windows at strides of their
# size:
#   16 x 64 x 64 x 16, 2 x 2  11.7, 5.8   12.0, 3.4   4 x 32 x 32 x 8, 4 x 4  0.22, 0.08  0.25, 0.08
#   8 x 28 x 28 x 64, 2 x 2    4.4, 0.6    4.1, 0.4   8 x 60 x 60 x 64, 3 x 3 37.9, 2.1   28.0, 1.1
#   16 x 16 x 64 x 64, 2 x 2  10.7, 4.7   10.9, 1.0   2 x 8 x 8 x 4, 2 x 2    0.06, 0.06  0.06, 0.05
# Windows that overlap, padded; and the transpose of this, a "gather":
#   16 x 64 x 64 x 16, 3 x 3, strides of 2   18.1, 1.7   19.1, 1.5   gather   5.5, 2.2    7.2, 2.3
#                      3 x 3, of 1           72.5, 2.8   81.2, 4.0           20.5, 3.0   19.1, 3.1
#   8 x 28 x 28 x 64,  5 x 5, of 1           48.3, 2.1   53.0, 2.6           32.6, 2.6   32.1, 2.2
#   8 x 112 x 112 x 64, 3 x 3, of 2           187, 44     201, 19            35.1, 33.6  48.4, 43.9
#   8 x 16 x 56 x 56, last two, 3 x 3, of 2   5.7, 1.5    6.7, 1.9            1.2, 0.7    1.9, 0.8
#   8 x 1024 x 16,     3, of 2                0.5, 0.32   0.6, 0.34          0.09, 0.16  0.05, 0.14
# Windows of more elements than this take as many ops to compile, and have not been measured.
MAX_WINDOW = 64
# XLA gathers as fast from windows of fewer elements: it unrolls them.
MIN_GATHERED = 5
# Nanoseconds saved per window.
SCATTERED = 15.0
GATHERED = 5.0


_GATHER = "jaxpr.select_and_gather_add"


class ExpandSelectAndScatter(ExpandOps):
    """Write gradients of maxima over windows element by element."""

    name: ClassVar[str] = "jaxpr-expand-select-and-scatter"

    def expansion(self, node: OpView) -> Expansion | None:
        windows = _suited(node)
        if windows is None:
            return None
        reason = f"expanded windows of {' x '.join(map(str, windows.sizes))} into elementwise ops"
        places, count = math.prod(windows.sizes), math.prod(windows.counts)
        if node.name == _GATHER:
            gathered = functools.partial(_gathered, windows=windows)
            return Expansion(reason, gathered, 5 * places, GATHERED * count)
        ops = 4 * places + 7 * math.prod(windows.terms)
        return Expansion(reason, windows.scatter, ops, SCATTERED * count, by_steps=True)


def _suited(node: OpView) -> _PoolingWindows | None:
    """The windows of an op; ``None`` if it is not expanded."""
    operand = aval_of(node.operands[1].type)
    is_gather = node.name == _GATHER
    over = node.op.results[0] if is_gather else node.operands[0]
    sizes, strides, padding = map(node.get, ("window_dimensions", "window_strides", "padding"))
    select, counts = node.get("select_prim"), aval_of(over.type).shape
    if (
        select not in _IDENTITIES
        or not _has_infinity(operand.dtype)
        or not (MIN_GATHERED if is_gather else 2) <= math.prod(sizes) <= MAX_WINDOW
        or np.min(padding, initial=0) < 0
        or 0 in counts
        or any(d != 1 for name in _DILATIONS for d in node.get(name, ()))
    ):
        return None
    return _PoolingWindows(
        tuple(sizes), tuple(strides), tuple(map(tuple, padding)), select, operand.shape, counts
    )


_DILATIONS = ("base_dilation", "window_dilation")
_IDENTITIES = {lax.ge_p: -np.inf, lax.le_p: np.inf}


def _has_infinity(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating) and bool(np.isinf(np.asarray(np.inf, dtype)))


class _PoolingWindows(NamedTuple):
    """Windows over an array; hashable.

    Attributes:
      select: the primitive that is true where the first of two elements is selected.
      shape, counts: the sizes of the array, and the numbers of windows, along each dimension.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    select: Any
    shape: tuple[int, ...]
    counts: tuple[int, ...]

    def scatter(
        self, writer: ExpansionWriter, source: ir.Value, operand: ir.Value
    ) -> list[ir.Value]:
        """Writes the places that are selected, stores them, and writes the gradient."""
        (which,) = writer.emit(functools.partial(_selected, windows=self), operand)
        scattered = functools.partial(_scattered, windows=self)
        return writer.emit(scattered, source, writer.store(which))

    @property
    def terms(self) -> list[int]:
        """The most windows that contain an element, along each dimension."""
        return [-(-size // stride) for size, stride in zip(self.sizes, self.strides, strict=True)]

    @property
    def identity(self) -> float:
        """The element that is selected only if there is no other."""
        return _IDENTITIES[self.select]

    def elements(self, x: Any, around: float) -> Iterator[Any]:
        """For each place in a window, the elements of all windows at this place."""
        edges = [(low, high, 0) for low, high in self.padding]
        x = _padded(x, around, edges)
        last = [(n - 1) * stride for n, stride in zip(self.counts, self.strides, strict=True)]
        for place in np.ndindex(*self.sizes):
            yield lax.slice(x, place, np.add(place, last) + 1, self.strides)

    def places(self, j: Sequence[int]) -> np.ndarray:
        """The places that consecutive elements have in the ``j``-th last window; -2: outside."""
        strides, sizes = self.strides, self.sizes
        place = np.indices(strides) + np.multiply(j, strides).reshape(-1, *[1] * len(strides))
        inside = np.all(place < np.reshape(sizes, (-1, *[1] * len(sizes))), 0)
        numbers = np.ravel_multi_index(tuple(place), sizes, mode="clip")
        return np.where(inside, numbers, -2).astype(np.int8)


def _selected(operand: Any, *, windows: _PoolingWindows) -> list[Any]:
    """The number of the element that each window selects, in row-major order."""
    elements = windows.elements(operand, windows.identity)
    best, which = next(elements), lax.full(windows.counts, 0, np.int8)
    for k, element in enumerate(elements, 1):
        keeps = windows.select.bind(best, element)
        best = lax.select(keeps, best, element)
        which = lax.select(keeps, which, lax.full(which.shape, k, np.int8))
    return [which]


def _gathered(tangents: Any, operand: Any, *, windows: _PoolingWindows) -> list[Any]:
    """The element of a second array that each window selects; zero for a window of infinities."""
    best = lax.full(windows.counts, windows.identity, operand.dtype)
    value = lax.full(windows.counts, 0, tangents.dtype)
    elements = windows.elements(operand, windows.identity)
    for element, other in zip(elements, windows.elements(tangents, 0), strict=True):
        keeps = windows.select.bind(best, element)
        best, value = lax.select(keeps, best, element), lax.select(keeps, value, other)
    return [value]


def _scattered(source: Any, which: Any, *, windows: _PoolingWindows) -> list[Any]:
    """The cotangents of windows, added to the elements that were selected."""
    terms, strides = windows.terms, windows.strides
    # Adds windows that contain only elements outside the array.
    margin = [(n - 1, n - 1, 0) for n in terms]
    source, which = _padded(source, 0, margin), _padded(which, -1, margin)
    rows = [size - n + 1 for size, n in zip(source.shape, terms, strict=True)]
    split = tuple(itertools.chain.from_iterable(zip(rows, strides, strict=True)))
    zeros = lax.full(split, 0, source.dtype)
    total = None
    # The first windows come first: those that begin farthest away.
    for j in reversed(list(np.ndindex(*terms))):
        start = [n - 1 - i for n, i in zip(terms, j, strict=True)]
        end = np.add(start, rows)
        here, selected = (lax.slice(x, start, end) for x in (source, which))
        is_selected = lax.eq(_spread(selected, split, 0), _spread(windows.places(j), split, 1))
        term = lax.select(is_selected, _spread(here, split, 0), zeros)
        total = term if total is None else lax.add(total, term)
    whole = lax.reshape(total, [n * stride for n, stride in zip(rows, strides, strict=True)])
    lows = [low for low, _ in windows.padding]
    ends = zip(lows, windows.shape, whole.shape, strict=True)
    return [_padded(whole, 0, [(-low, low + size - n, 0) for low, size, n in ends])]


def _padded(x: Any, value: float, edges: Sequence[tuple[int, int, int]]) -> Any:
    return lax.pad(x, np.asarray(value, x.dtype), edges) if np.any(edges) else x


def _spread(x: Any, split: Sequence[int], first: int) -> Any:
    """An array over windows, or over the places in one, broadcast to both."""
    return lax.broadcast_in_dim(x, split, tuple(range(first, len(split), 2)))

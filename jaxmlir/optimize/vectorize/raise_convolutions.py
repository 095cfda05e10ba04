"""``jaxpr-raise-convolutions``: sums of products with shifted slices of an array as convolutions.

A convolution that is written by its definition multiplies, for each place of its window, a slice of
the array with the matrix of the place::

    sum of x[:, i : i + h, j : j + w] @ k[i, j] over i and j   ->   convolution(x, k)

This reads and writes every element of the result once for each place, and its derivative adds up as
many padded arrays.  A convolution is one op, for which compilers have fast code, and so is each of
its transposes.

Each place of a window has one term.  The steps of the slices become the strides of the convolution,
and the distance between places becomes its dilation.  The sum is rounded in another order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.op_counts import ADDITIONS, is_plain_op
from jaxmlir.analysis.strided_view import view_of
from jaxmlir.dialect.builder import build, converted, only_user, reshaped
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of, shape_of, with_shape
from jaxmlir.optimize.vectorize.stacking import stack
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_ops
from jaxmlir.transforms.templates import Rules

# -- The terms of a sum that are products of a slice of an array and a matrix --


class SliceProduct(NamedTuple):
    """A product of a slice and a matrix, without the start of the slice; hashable.

    Attributes:
      shape, strides: the shape and strides of the slice.
      channel: the contracting dimension of the slice.
      summed: the contracting dimension of the matrix.
      kept, features: the dimensions of the result for the slice's other dimensions, and for the
        matrix' other dimension.
      precision: for the slice and for the matrix.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    channel: int
    summed: int
    kept: tuple[int, ...]
    features: int
    precision: Any


class Tap(NamedTuple):
    """A term of a sum: a product of a slice of an array and a matrix."""

    term: ir.Value
    array: ir.Value
    start: tuple[int, ...]
    matrix: ir.Value
    product: SliceProduct


_SLICES = NEEDED_OPS["jaxpr-raise-convolutions"]


def taps_of(term: ir.Value) -> Iterator[Tap]:
    """A term as products with a slice, for each operand of its product that is a slice."""
    node, order = node_of(term), None
    if node is not None and node.name == "jaxpr.transpose":
        order = tuple(map(int, node.get("permutation")))
        (turned,) = node.operands
        node = node_of(turned) if only_user(turned) is not None else None
    if only_user(term) is None or node is None or not _is_plain_product(node):
        return
    contracted, _ = node.get("dimension_numbers")
    for side, value in enumerate(node.operands):
        sliced, matrix = view_of(value, _SLICES), node.operands[1 - side]
        if sliced is None:
            continue
        shape, weights = sliced.sizes, aval_of(matrix.type).shape
        if len(weights) != 2 or len(shape) < 2:
            continue
        (channel,), (summed,) = contracted[side], contracted[1 - side]
        # The free dimensions of the first operand, then those of the second.
        dims, features = range(side, side + len(shape) - 1), (len(shape) - 1, 0)[side]
        if order is not None:
            dims, features = [order.index(d) for d in dims], order.index(features)
        precision = node.get("precision")
        product = SliceProduct(
            shape,
            sliced.steps,
            int(channel),
            int(summed),
            tuple(dims),
            features,
            precision and precision[:: -1 if side else 1],
        )
        yield Tap(term, sliced.array, sliced.starts, matrix, product)


def _is_plain_product(node: OpView) -> bool:
    """Whether an op contracts one dimension of two arrays of the result's dtype."""
    if node.name != "jaxpr.dot_general" or not is_plain_op(node):
        return False
    (contracted, _), (batch, _) = node.get("dimension_numbers")
    precision = node.get("precision") or ()
    dtype, *others = (aval_of(v.type).dtype for v in (*node.op.results, *node.operands))
    return (
        len(contracted) == 1
        and not len(batch)
        and isinstance(precision, tuple)
        and all(isinstance(p, lax.Precision) for p in precision)
        and all(other == dtype for other in others)
        and dtypes.issubdtype(dtype, np.floating)
        and dtypes.finfo(dtype).bits >= 32
    )


# -- Windows that have a place for each product of a sum, and the convolution for them --


# Times of a convolution / of products, forward and gradient in the kernel, two CPU cores, jax 0.10
# and 0.12; in and out are the channels:
#   8 x 32 x 32, 3 x 3    1 -> 8    0.71, 0.72   0.47, 0.68     8 -> 1   2.48, 1.21   2.28, 1.18
#                         2 -> 4    1.16, 0.54   0.97, 0.46     4 -> 8   1.05, 0.47   1.18, 0.46
#               2 x 2   16 -> 16    0.82, 0.45   0.92, 0.46
#   3 x 3, 2 apart      16 -> 16    0.80, 0.33   0.91, 0.34
#   2 x 16 x 16, 3 x 3  64 -> 64    0.72, 0.50   1.02, 0.70
#   16 x 256, 5           4 -> 4    1.57, 0.84   0.83, 0.66
#             9         16 -> 16    0.67, 0.39   0.74, 0.39
#   2, 4 apart          32 -> 32    0.93, 0.72   1.09, 0.66
# With gradients in the array as well: 0.34 to 1.01, but for one channel up to 2.1.  The convolution
# takes 0.16 to 0.6 of the bytes of temporaries, and 0.2 to 0.6 of the time to compile.
MIN_TAPS = 3
MIN_CHANNELS = 4
MIN_WEIGHTS = 32
# The least number of multiplications for windows along one dimension.  Gradients in the kernel:
#   1 x 500, 5          16 -> 16    1.45, 1.13      1 x 2,000, 5   16 -> 16    1.07, 1.05
#   2 x 250, 5          16 -> 16    1.10, 1.04                     32 -> 32    0.79, 0.85
#   4 x 500, 3          16 -> 16    0.92, 0.96      1 x 1,000, 5   64 -> 64    0.59, 0.71
# Along two dimensions even the smallest pay: 1 x 16 x 16, 3 x 3, 0.8 and 0.55.
MIN_WORK_ALONG_ONE = 1 << 22
# The most spatial dimensions.
MAX_SPATIAL = 3


# If the batch is smaller than the rows that a TPU computes together, its compiler copies parts of
# an image to make a batch of them.  Gradients relative to those of products (libtpu 0.0.50):
#   8 x 32 x 32, 3 x 3       8 -> 16    0.48      1 x 32 x 32, 3 x 3    64 -> 64      1.20
#   8 x 16 x 16, 3 x 3      64 -> 64    0.42      2 x 16 x 16, 3 x 3   128 -> 128     1.13
#   8 x 256, 3            256 -> 256    0.56      4 x 256, 3           256 -> 256     1.84
#   32 x 64, 3             32 -> 32     0.48      2 x 512, 4           128 -> 128     2.21
def window_of(product: SliceProduct, taps: Sequence[Tap], min_batch: int) -> Convolution | None:
    """The convolution whose window has a place for each term; ``None`` if there is none, or if it
    does not pay."""
    weights = aval_of(taps[0].matrix.type).shape
    if len(taps) < MIN_TAPS or min(weights) < MIN_CHANNELS or math.prod(weights) < MIN_WEIGHTS:
        return None
    places = [sorted(set(starts)) for starts in zip(*(tap.start for tap in taps), strict=True)]
    if sorted(tap.start for tap in taps) != list(itertools.product(*places)):
        return None
    rank = len(product.shape)
    still = [d for d in range(rank) if len(places[d]) == 1 and d != product.channel]
    batch = still[0] if still else None
    spatial = tuple(d for d in range(rank) if d not in (product.channel, batch))
    if len(places[product.channel]) > 1 or len(spatial) > MAX_SPATIAL:
        return None
    if (1 if batch is None else product.shape[batch]) < min_batch:
        return None
    apart = tuple(places[d][1] - places[d][0] if len(places[d]) > 1 else 1 for d in spatial)
    for d, distance in zip(spatial, apart, strict=True):
        first, count = places[d][0], len(places[d])
        evenly = list(range(first, first + count * distance, distance))
        overlap = distance < product.shape[d] * product.strides[d]
        if places[d] != evenly or (count > 1 and not overlap):
            return None
    counts = tuple(len(places[d]) for d in spatial)
    work = len(taps) * math.prod(weights) * math.prod(product.shape) // weights[product.summed]
    if sum(count > 1 for count in counts) == 1 and work < MIN_WORK_ALONG_ONE:
        return None
    return Convolution(product, tuple(p[0] for p in places), batch, spatial, counts, apart)


class Convolution(NamedTuple):
    """A sum of products as a function of the array and a kernel; hashable.

    Attributes:
      start: where the first place of the window begins in the array.
      batch: a dimension along which all slices begin at the same index, if there is one.
      spatial: the other dimensions but the channel.
      counts: the number of places of the window along each spatial dimension.
      apart: the distance between these places.
    """

    product: SliceProduct
    start: tuple[int, ...]
    batch: int | None
    spatial: tuple[int, ...]
    counts: tuple[int, ...]
    apart: tuple[int, ...]

    def __call__(self, array: Any, kernel: Any) -> list[Any]:
        product, n = self.product, len(self.spatial)
        x, moves = self.met(array), tuple(product.strides[d] for d in self.spatial)
        positions = dict(zip(self.unsummed(), product.kept, strict=True))
        lhs = [self.batch, product.channel, *self.spatial]
        out = [positions.get(self.batch), product.features, *(positions[d] for d in self.spatial)]
        if self.batch is None:
            x = lax.expand_dims(x, (0,))
            lhs, out = ([0, *(d + 1 for d in dims[1:])] for dims in (lhs, out))
        numbers = lax.ConvDimensionNumbers(
            tuple(lhs), (n + 1 - product.summed, n + product.summed, *range(n)), tuple(out)
        )
        y = lax.conv_general_dilated(
            x,
            kernel,
            moves,
            [(0, 0)] * n,
            rhs_dilation=self.apart,
            dimension_numbers=numbers,
            precision=product.precision,
        )
        return [y if self.batch is not None else lax.squeeze(y, (0,))]

    def unsummed(self) -> list[int]:
        return [d for d in range(len(self.product.shape)) if d != self.product.channel]

    def met(self, array: Any) -> Any:
        """The part of the array that the window covers."""
        product = self.product
        limits, steps = [], []
        window = dict(zip(self.spatial, zip(self.counts, self.apart, strict=True), strict=True))
        for d, (size, stride) in enumerate(zip(product.shape, product.strides, strict=True)):
            count, distance = window.get(d, (1, 1))
            last = self.start[d] + (size - 1) * stride + (count - 1) * distance
            limits.append(last + 1)
            steps.append(1 if d in window else stride)
        return lax.slice(array, self.start, limits, steps)


def kernel_of(rules: Rules, window: Convolution, taps: Sequence[Tap]) -> ir.Value:
    """The matrices of the places of a window in order, as one array: ``[*places, *matrix]``."""
    matrices = [tap.matrix for tap in taps]
    return reshaped(stack(rules, matrices), (*window.counts, *shape_of(matrices[0])))


class RaiseConvolutions(Pass):
    """Write sums of products with shifted slices of an array as convolutions."""

    name: ClassVar[str] = "jaxpr-raise-convolutions"
    # The convolution library of a GPU gains nothing with few channels.
    compilers: ClassVar[tuple[str, ...]] = ("cpu", "tpu")

    def run(self, program: Module) -> bool:
        raised = functools.partial(_raised, Rules(program))
        return rewrite_ops(program, dict.fromkeys(ADDITIONS, raised), drop_dead=True) > 0


def _terms(last: OpView) -> Iterator[ir.Value]:
    """The terms of a sum, from the last to the first."""
    shape = shape_of(last.op.results[0])
    pending = list(last.operands)
    while pending:
        value = pending.pop()
        inner = node_of(value)
        # A sum of smaller arrays, of biases for example, stays a single term.
        whole = shape_of(value) == shape and only_user(value) is not None
        if whole and inner is not None and _is_addition(inner):
            pending += inner.operands
        else:
            yield value


def _is_addition(node: OpView) -> bool:
    return node.name in ADDITIONS and is_plain_op(node)


def _raised(rules: Rules, last: OpView) -> ir.Value | None:
    """A sum, given its last addition, with convolutions for some of its terms; or ``None``."""
    (total,) = last.op.results
    user = only_user(total)
    if not _is_addition(last) or (user is not None and user.name in ADDITIONS):
        return None
    terms = [*_terms(last)][::-1]
    if len(terms) < MIN_TAPS:
        return None
    groups: dict[tuple[ir.Value, SliceProduct], list[Tap]] = defaultdict(list)
    for term in terms:
        if shape_of(term) == shape_of(total):
            for tap in taps_of(term):
                groups[tap.array, tap.product].append(tap)
    # A convolution replaces its first term; its other terms are dropped.
    places: dict[ir.Value, ir.Value | None] = {}
    for (array, product), taps in groups.items():
        window = window_of(product, taps, rules.program.target.costs.sublanes)
        if window is None or any(tap.term in places for tap in taps):
            continue
        remark(last.op, f"replaced {len(taps)} products with slices of an array by a convolution")
        kernel = kernel_of(rules, window, sorted(taps, key=lambda tap: tap.start))
        (convolution,) = rules.emit(window, [array, kernel])
        members = {tap.term for tap in taps}
        first = next(term for term in terms if term in members)
        places |= dict.fromkeys(members) | {first: convolution}
    if not places:
        return None
    values = (places.get(term, term) for term in terms)
    value = functools.reduce(_added, (v for v in values if v is not None))
    return converted(value, total.type)


def _added(x: ir.Value, y: ir.Value) -> ir.Value:
    return build("add", [x, y], with_shape(x.type, np.broadcast_shapes(shape_of(x), shape_of(y))))

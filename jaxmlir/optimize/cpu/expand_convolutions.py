"""``jaxpr-expand-convolutions``: writes convolutions as others that XLA's CPU compiler is fast at.

XLA's CPU compiler has a library for convolutions along one or two dimensions.  It computes other
convolutions number by number, and is slow at groups as well.  Gradients of ordinary networks often
contain such convolutions.  This pass writes them as ordinary ones:

*Groups of the batch*, as in the gradient with respect to a grouped kernel, become groups of
features of an array in another layout::

    x[g b, n] * k[n, g o]   ->   x[b, g n] * k[n, g o]       in g groups of features

*A few groups* become one convolution each, whose results are concatenated.

*A dilated array*, as in transposed convolutions, is mostly zeros.  Its other elements meet every
``d``-th number of the kernel only, and each of ``d`` consecutive results has other such numbers::

    y[d q + r] = sum over j of x[q + j] * k[t(r) + d j]      for each r: an ordinary convolution

*Three dimensions* become two, without one of them.  If the kernel is the shorter one along it, a
sum over the kernel's places adds up convolutions with this dimension of the result in their batch.
Else the result's slices are convolutions with this dimension of the kernel in their features::

    y[i] = sum over t of conv(x[i + t], k[t])

*Dimensions in another order* than the library's are transposed: the batch first, features last.
XLA does so too, but not in loops and branches.  There each convolution in another order, as in
gradients, takes 3 to 50 times as long::

    conv(x, k)   ->   transpose(conv(transpose(x), transpose(k)))

*A padded array* of a few images is padded by an op of its own if the kernel is larger than the
result, as in the gradient with respect to a kernel: the library is slow at the edges of such
arrays.

Sums are rounded in another order.  A number that is not finite is not multiplied by the zeros of a
dilated array; around an array of three dimensions, it turns the zeros into NaN.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import is_narrow
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.compile_time import PER_CONVOLUTION
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, pad_dims

# Milliseconds of XLA, of this pass; a CPU core, jax 0.10; forward, gradients with respect to the
# array and to the kernel.  With jax 0.12 XLA takes as long, and this pass 0.9 to 2.0 times as long:
#   8 x 32 x 32 x 64, 3 x 3, 4 groups     8.6, 4.5    8.4, 4.6     346, 6.3
#   8 x 32 x 32 x 32, 3 x 3, 16 groups                             681, 3.3
#   4 x 28 x 28 x 256, 3 x 3, 32 groups                           4028, 18
#   8 x 16 x 16 x 64 to 32 x 32, 4 x 4, dilated                     72, 2.4
#   4 x 32 x 32 x 64 to 64 x 64, 3 x 3, dilated                    184, 8.4
#   8 x 4 x 4 x 64 to 8 x 8, 5 x 5, dilated         5.5, 0.3
#   16 x 2 x 2 x 64 to 4 x 4, 3 x 3, dilated        0.3, 0.1
#   2 x 16 x 16 x 16 x 8, 3 x 3 x 3       6.3, 1.8    6.2, 1.9      14, 0.9
#   the same at strides of 2              1.0, 0.4     27, 0.5     5.0, 0.5
#   1 x 32 x 32 x 32 x 16, 3 x 3 x 3       49, 11      49, 10      115, 11
# XLA skips the zeros of a dilated array if the kernel is smaller than the array and the result:
# this pass would take 0.5 to 2.9 times as long.  Each convolution takes 0.05 s to compile.  Split
# into 32 groups, a convolution takes 0.5 to 1.3 times as long as XLA takes for all groups.
MAX_SPLIT = 8
MAX_SUM = 16
# Gradients of four convolutions, one in each iteration of a loop, in milliseconds of a CPU core, by
# XLA, with their dimensions in order; jax 0.10 and 0.12 alike.  With respect to array, to kernel:
#   1 x 32 x 32 x 16 to 16, 3 x 3     6.3, 0.8     11, 3.5
#   4 x 32 x 32 x 32 to 32           126, 4.8     178, 5.9
#   8 x 16 x 16 x 64 to 64            33, 7.2     422, 8.4
# With few features the library is slow, and XLA's own code is fast.  Other convolutions, of images
# of 32 x 32:
#   1 feature to 1 / 4 / 16          0.15, 1.6   0.40, 1.7    2.2, 2.1
#   4 features to 1 / 4              0.52, 2.1    2.0, 2.6
#   16 features to 1                  4.5, 2.2
# The least product of the numbers of features of the array and of the result.
MIN_PRODUCTS = 16
# Gradients with respect to the kernel, by the number of padded images, with the library's padding,
# with an op that pads; in milliseconds, jax 0.12.  From 8 images on it makes no difference, nor in
# convolutions with small kernels:
#                              1 image      2 images     4 images     8 images
#   32 x 32 x 16 to 16, 3 x 3  0.92, 0.30   1.37, 0.57   1.47, 0.83   1.45, 1.59
#   32 x 32 x 3 to 16          0.38, 0.23   0.41, 0.28   0.56, 0.43   0.57, 0.54
#   64 x 64 x 8 to 16          1.95, 0.56   2.15, 1.06   2.51, 1.48   2.85, 2.82
#   32 x 32 x 32 to 32         0.52, 0.45   1.25, 0.97   2.20, 2.10   3.34, 3.67
#     jax 0.10                 0.38, 0.28   0.75, 0.75   1.29, 1.68   2.61, 2.59
#   16 x 16 x 64 to 64         0.62, 0.57   0.96, 0.84   1.52, 1.42   2.35, 2.51
MAX_PADDED_IMAGES = 4
MAX_PADDED_RESULTS = 16
MIN_PADDED_PRODUCTS = 4
# The least nanoseconds that are saved for each product of two numbers, by the first table, for a
# few groups and for all else; and the ops besides convolutions.
SAVED_OF_GROUPS = 0.05
SAVED = 0.3
OPS = 8

_EACH_GROUP = "split into one convolution per group"
_BY_PHASE = "split by phase, which skips the zeros of a dilated array"
_BY_SLICE = "split into convolutions in two dimensions"


class ExpandConvolutions(ExpandOps):
    """Rewrite convolutions into forms that compile to faster code."""

    name: ClassVar[str] = "jaxpr-expand-convolutions"

    def expansion(self, node: OpView) -> Expansion | None:
        expanded = _ExpandedConvolution.of(node)
        x, k = (aval_of(v.type) for v in node.operands)
        y = aval_of(node.op.results[0].type)
        is_empty = 0 in (*x.shape, *k.shape, *y.shape)
        sizes = [x.shape[d] for d in expanded.lhs[2:]]
        is_empty |= not _is_read(expanded.axes, sizes)
        # XLA has code for the gradient with respect to kernels of one channel.
        if is_empty or 1 < expanded.batches == x.shape[expanded.lhs[0]]:
            return None
        step = expanded.step(x, k)
        if step is None:
            return None
        products = y.size * k.size // k.shape[expanded.rhs[0]]
        saved = SAVED_OF_GROUPS if step == _EACH_GROUP else SAVED
        parts = expanded.parts(x, k)
        ops = PER_CONVOLUTION * (parts - 1) + OPS
        return Expansion(step, expanded, ops, saved * products)


class _Axis(NamedTuple):
    """How a kernel moves along a dimension, as ``lax.conv_general_dilated`` has it."""

    stride: int
    low: int
    high: int
    dilation: int
    """The dilation of the array."""
    spread: int
    """The dilation of the kernel."""

    def count(self, size: int, taps: int) -> int:
        """The number of results."""
        whole = (size - 1) * self.dilation + 1 + self.low + self.high
        return (whole - (taps - 1) * self.spread - 1) // self.stride + 1

    def keeps(self, size: int) -> bool:
        """Whether negative padding leaves any of ``size`` elements."""
        first = -(-max(-self.low, 0) // self.dilation) * self.dilation
        return first <= (size - 1) * self.dilation + min(self.high, 0)

    @property
    def is_plainly_dilated(self) -> bool:
        return self.dilation > 1 == self.stride == self.spread


class _ExpandedConvolution(NamedTuple):
    """A convolution as a function of its operands; hashable.

    Attributes:
      lhs, rhs, out: the dimensions of batch and features, or of a kernel's results and features,
        and then the others.
      axes: one for each of the other dimensions.
      options: the options of each convolution that is written.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    axes: tuple[_Axis, ...]
    groups: int
    batches: int
    options: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(node: OpView) -> _ExpandedConvolution:
        lists = map(node.get, ("window_strides", "padding", "lhs_dilation", "rhs_dilation"))
        return _ExpandedConvolution(
            *map(tuple, node.get("dimension_numbers")),
            tuple([_Axis(s, *p, d, e) for s, p, d, e in zip(*lists, strict=True)]),
            node.get("feature_group_count", 1),
            node.get("batch_group_count", 1),
            tuple((name, node.get(name)) for name in ("precision", "preferred_element_type")),
        )

    def step(self, x: Any, k: Any) -> str | None:
        """The rewrite that comes first, in words; ``None`` if the convolution stays."""
        if self.batches > 1:
            return f"replaced {self.batches} batch groups by feature groups"
        step = _step(*self._in_order(x, k), self.axes, self.groups)
        if step is not None:
            return step
        if self.is_padded_before(x, k):
            return "padded by a separate op"
        products = k.shape[self.rhs[1]] * k.shape[self.rhs[0]] // self.groups
        if not self.is_in_order and products >= MIN_PRODUCTS:
            return "transposed into the dimension order of the library"
        return None

    def parts(self, x: Any, k: Any) -> int:
        """The number of convolutions that are written."""
        x, k = self._in_order(x, k)
        groups, per_group = max(self.groups, self.batches), 1
        counts = _counts(x, k, self.axes)
        if _step(x, k, self.axes, groups) == _BY_PHASE:
            per_group *= math.prod(a.dilation for a in self.axes if a.is_plainly_dilated)
        if len(self.axes) == 3 and (least := _least(k, self.axes, counts)) is not None:
            per_group *= min(k.shape[least], counts[least])
        return per_group * groups if groups <= MAX_SPLIT else per_group

    def _in_order(self, x: Any, k: Any) -> list[Any]:
        """The types of the operands with their dimensions in order."""
        return [
            core.ShapedArray(tuple(v.shape[d] for d in dims), v.dtype)
            for v, dims in ((x, _batch_first(self.lhs)), (k, _results_last(self.rhs)))
        ]

    def is_padded_before(self, x: Any, k: Any) -> bool:
        """Whether it is the gradient, with respect to the kernel, of a convolution of a few padded
        images.

        The array is transposed after it is padded: XLA takes a pad right before a convolution back.
        """
        x, k = self._in_order(x, k)
        images, results = k.shape[-2:]
        return (
            self.groups == self.batches == 1
            and (images == 1 or (images <= MAX_PADDED_IMAGES and results <= MAX_PADDED_RESULTS))
            and images * results >= MIN_PADDED_PRODUCTS
            and not self.is_in_order
            and all(axis.dilation == 1 for axis in self.axes)
            and any(axis.low > 0 or axis.high > 0 for axis in self.axes)
            and math.prod(k.shape[:-2]) > math.prod(_counts(x, k, self.axes))
        )

    @property
    def is_in_order(self) -> bool:
        """Whether the dimensions of operands and result are as XLA's library takes them."""
        orders = _batch_first(self.lhs), _results_last(self.rhs), _batch_first(self.out)
        return all(order == tuple(range(len(order))) for order in orders)

    def __call__(self, x: Any, k: Any) -> list[Any]:
        axes = self.axes
        if self.is_padded_before(x, k):
            pairs = zip(self.lhs[2:], axes, strict=True)
            x = pad_dims(x, {d: (axis.low, axis.high, 0) for d, axis in pairs})
            axes = tuple([axis._replace(low=0, high=0) for axis in axes])
        x = lax.transpose(x, _batch_first(self.lhs))
        k = lax.transpose(k, _results_last(self.rhs))
        groups = self.groups
        if self.batches > 1:
            groups = self.batches
            x = lax.reshape(x, (groups, x.shape[0] // groups, *x.shape[1:]))
            x = lax.transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))
            x = lax.collapse(x, x.ndim - 2)
        y = _convolved(x, k, axes, groups, dict(self.options))
        return [lax.transpose(y, np.argsort(_batch_first(self.out)))]


def _is_read(axes: Sequence[_Axis], sizes: Sequence[int]) -> bool:
    """Whether negative padding leaves anything of an array.

    For a single image, XLA reads an element that is cut off in place of the zero beside it.
    """
    return all(axis.keeps(size) for axis, size in zip(axes, sizes, strict=True))


def _batch_first(dims: Sequence[int]) -> tuple[int, ...]:
    return (dims[0], *dims[2:], dims[1])


def _results_last(dims: Sequence[int]) -> tuple[int, ...]:
    return (*dims[2:], dims[1], dims[0])


# The functions below take dimensions in this order: batch, axes, features for arrays; axes,
# features, results for kernels.


def _convolved(x: Any, k: Any, axes: Sequence[_Axis], groups: int, options: dict[str, Any]) -> Any:
    """A convolution, written as others by as many steps as needed."""
    x, axes = _cut(x, axes)
    step = _step(x, k, axes, groups)
    convolved = functools.partial(_convolved, options=options)
    if step is not None:
        return _STEPS[step](convolved, x, k, axes, groups)
    count = len(axes)
    batch_first = (0, count + 1, *range(1, count + 1))
    results_last = (count + 1, count, *range(count))
    return lax.conv_general_dilated(
        x,
        k,
        [a.stride for a in axes],
        [(a.low, a.high) for a in axes],
        [a.dilation for a in axes],
        [a.spread for a in axes],
        lax.ConvDimensionNumbers(batch_first, results_last, batch_first),
        feature_group_count=groups,
        **options,
    )


def _cut(x: Any, axes: Sequence[_Axis]) -> tuple[Any, list[_Axis]]:
    """The array without the elements that negative padding cuts off, and the remaining padding.

    If the other side is padded, the library of jax 0.10 would read out of bounds.
    """
    starts, limits = [0] * x.ndim, list(x.shape)
    left = list(axes)
    for i, axis in enumerate(axes):
        if axis.dilation == 1:
            starts[1 + i] += max(-axis.low, 0)
            limits[1 + i] -= max(-axis.high, 0)
            left[i] = axis._replace(low=max(axis.low, 0), high=max(axis.high, 0))
    return (x, left) if left == list(axes) else (lax.slice(x, starts, limits), left)


def _step(x: Any, k: Any, axes: Sequence[_Axis], groups: int) -> str | None:
    """The next step, a key of ``_STEPS``; ``None`` if there is none."""
    counts = _counts(x, k, axes)
    # XLA exchanges the array and the kernel if the kernel is larger: then it does not skip zeros.
    few = min(math.prod(x.shape[1:-1]), math.prod(counts))
    if any(a.is_plainly_dilated for a in axes) and (len(axes) > 2 or math.prod(k.shape[:-2]) > few):
        return _BY_PHASE
    if 1 < groups <= MAX_SPLIT and len(axes) <= 2:
        return _EACH_GROUP
    if len(axes) == 3 and not is_narrow(x.dtype) and _least(k, axes, counts) is not None:
        return _BY_SLICE
    return None


def _counts(x: Any, k: Any, axes: Sequence[_Axis]) -> list[int]:
    sizes = zip(axes, x.shape[1:-1], k.shape[:-2], strict=True)
    return [axis.count(size, taps) for axis, size, taps in sizes]


def _least(k: Any, axes: Sequence[_Axis], counts: Sequence[int]) -> int | None:
    """The dimension whose removal takes the fewest convolutions; ``None`` if there is none."""
    candidates = [
        (min(taps, count), i)
        for i, (axis, taps, count) in enumerate(zip(axes, k.shape, counts, strict=False))
        if axis.dilation == 1 and min(taps, count) <= MAX_SUM
    ]
    return min(candidates)[1] if candidates else None


def _by_group(convolved: Any, x: Any, k: Any, axes: Sequence[_Axis], groups: int) -> Any:
    arrays, kernels = (lax.split(v, (v.shape[-1] // groups,) * groups, v.ndim - 1) for v in (x, k))
    parts = [convolved(a, b, axes, 1) for a, b in zip(arrays, kernels, strict=True)]
    return lax.concatenate(parts, x.ndim - 1)


def _by_phase(convolved: Any, x: Any, k: Any, axes: Sequence[_Axis], groups: int) -> Any:
    """One convolution for each phase of the results, and the phases interleaved."""
    counts = _counts(x, k, axes)
    steps = [axis.dilation if axis.is_plainly_dilated else 1 for axis in axes]
    rows = [-(-count // step) for count, step in zip(counts, steps, strict=True)]
    parts = []
    for phase in np.ndindex(*steps):
        part, moved = k, []
        for i, (r, axis, step) in enumerate(zip(phase, axes, steps, strict=True)):
            if step == 1:
                moved.append(axis)
                continue
            first = (axis.low - r) % step
            taps = part.shape[i]
            part = lax.slice_in_dim(part, min(first, taps), taps, step, i)
            begin = (r + first - axis.low) // step
            end = begin + rows[i] - 1 + part.shape[i] - x.shape[1 + i]
            moved.append(_Axis(1, -begin, end, 1, 1))
        is_zero = 0 in part.shape or not _is_read(moved, x.shape[1:-1])
        parts.append(None if is_zero else convolved(x, part, moved, groups))
    zeros = lax.full_like(next(p for p in parts if p is not None), 0)
    stacked = lax.concatenate([lax.expand_dims(zeros if p is None else p, [0]) for p in parts], 0)
    stacked = lax.reshape(stacked, (*steps, *stacked.shape[1:]))
    n = len(axes)
    turns = itertools.chain.from_iterable((n + 1 + i, i) for i in range(n))
    stacked = lax.transpose(stacked, (n, *turns, 2 * n + 1))
    whole = [row * step for row, step in zip(rows, steps, strict=True)]
    y = lax.reshape(stacked, (stacked.shape[0], *whole, stacked.shape[-1]))
    return lax.slice(y, [0] * y.ndim, (y.shape[0], *counts, y.shape[-1]))


def _by_slice(convolved: Any, x: Any, k: Any, axes: Sequence[_Axis], groups: int) -> Any:
    """A sum of convolutions without one dimension, or one for each place along it."""
    counts = _counts(x, k, axes)
    least = _least(k, axes, counts)
    axis, others = axes[least], [a for i, a in enumerate(axes) if i != least]
    count, taps = counts[least], k.shape[least]
    x = jnp.moveaxis(pad_dims(x, {1 + least: (axis.low, axis.high, 0)}), 1 + least, 0)
    k = jnp.moveaxis(k, least, 0)

    def slices(start: int, size: int, step: int) -> Any:
        return lax.slice_in_dim(x, start, start + (size - 1) * step + 1, step, 0)

    if taps <= count:
        total = None
        for t in range(taps):
            array = lax.collapse(slices(t * axis.spread, count, axis.stride), 0, 2)
            kernel = lax.index_in_dim(k, t, 0, keepdims=False)
            term = convolved(array, kernel, others, groups)
            total = term if total is None else lax.add(total, term)
        y = lax.reshape(total, (count, total.shape[0] // count, *total.shape[1:]))
    else:
        # The features of a group become its old features at all places along the dimension.
        kernel = lax.collapse(jnp.moveaxis(k, 0, k.ndim - 3), k.ndim - 3, k.ndim - 1)
        rows = []
        for i in range(count):
            array = slices(i * axis.stride, taps, axis.spread)
            array = lax.reshape(array, (*array.shape[:-1], groups, array.shape[-1] // groups))
            last = array.ndim - 2
            array = lax.collapse(jnp.moveaxis(array, 0, last), last - 1)
            rows.append(lax.expand_dims(convolved(array, kernel, others, groups), [0]))
        y = lax.concatenate(rows, 0)
    return jnp.moveaxis(y, 0, 1 + least)


_STEPS = {_EACH_GROUP: _by_group, _BY_SLICE: _by_slice, _BY_PHASE: _by_phase}

"""``jaxpr-expand-depthwise``: writes convolutions of each channel with a kernel of its own as
products.

A depthwise convolution sums over no channels, so it contains no matrix product, and XLA's CPU
compiler computes it number by number.  Written as products of the shifted array with the numbers of
the kernel, it is vectorized, and fused with the ops before and after it.  Convolutions in groups of
a few channels, and those of an image of a few channels, are sums of as many of these::

    y[h, w, c] = sum of x[h + i, w + j, c] * k[i, j, c]     one product for each i, j
    k[i, j, c] = sum of x[h + i, w + j, c] * y[h, w, c]     its gradient: a loop over i, j

JAX writes the gradient with respect to the array as a depthwise convolution, too, perhaps of a
dilated array, and the gradient with respect to the kernel as a convolution in groups of the batch.
Sums are rounded in another order, and a number of a kernel that is not finite turns the zeros
around the array into NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import is_narrow
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter, pad_dims

# Milliseconds of a convolution with its gradients, XLA's and this one's, a CPU core, jax 0.10 and
# 0.12; bytes are 0.8 to 1.7 times XLA's:
#   8 x 32 x 32 x 64, 3 x 3    42, 6.8   46, 6.5   channels first   44, 6.7     47, 6.5
#   7 x 7                     126, 28   145, 28    strides of 2     53, 3.7     50, 3.0
#   1 x 8 x 8 x 8, 3 x 3      0.19, 0.04           0.23, 0.07
# Groups of several channels, forward, and the gradient with respect to the array; jax 0.10:
#   8 x 32 x 32 x 32, 3 x 3, 16 groups    9.3, 0.6   13, 0.9
#   8 x 16 x 16 x 128, 3 x 3, 32 groups   7.7, 1.4   6.1, 2.3
#   8 x 32 x 32 x 64, 1 x 1, 4 groups     1.6, 0.5   1.6, 0.5    16 groups   5.2, 0.2    5.8, 0.2
#   8 x 14 x 14 x 256, 1 x 1, 8 groups    0.8, 0.85  0.8, 0.84
# Images of a single channel, likewise:
#   20,000, 31       1.1, 0.05    1.1, 0.05     512 x 512, 3 x 3       11.9, 0.10  12.6, 0.15
#   128 x 128, 5 x 5 1.4, 0.07    1.4, 0.06     16 x 28 x 28, 3 x 3     0.7, 0.02   0.7, 0.02
# A few channels to a few; jax 0.12 (0.10 is 0.8 to 1.3 times as fast at both):
#                         2 to 1      1 to 4      1 to 16     4 to 4      4 to 1      16 to 1
#   400 x 400, 3 x 3      10, 0.8     7.7, 0.6    8.3, 1.4    12, 2.3     9.0, 1.0    12, 21
#   16 x 28 x 28, 5 x 5   1.2, 0.2    1.3, 0.2    1.4, 0.3    2.8, 1.2    2.1, 0.4
#   4000, 31              0.31, 0.11  0.34, 0.12  0.35, 0.16  0.50, 0.41  0.33, 0.12
# The array is padded once for each channel; with 4 channels this takes 5 times the bytes.
MAX_CHANNELS = 3
MAX_PAIRS = 16
# The most numbers of a kernel for one result: each is a product to write.  Kernels of 7 x 7 take
# 0.6 s to compile, instead of 0.15.
MAX_TAPS = 64
# Nanoseconds saved for each product of two numbers, and the ops for each place in a window.
SAVED = 1.5
OPS = 6


class ExpandDepthwise(ExpandOps):
    """Write depthwise convolutions, and their gradients, as products and sums of slices."""

    name: ClassVar[str] = "jaxpr-expand-depthwise"

    def expansion(self, node: OpView) -> Expansion | None:
        depthwise = _suited(node)
        if depthwise is None:
            return None
        taps = math.prod(depthwise.taps)
        reason = f"expanded into products, one for each of {taps} positions in a window"
        x, k, y = (aval_of(v.type).shape for v in (*node.operands, node.op.results[0]))
        if isinstance(depthwise, _KernelGradient):
            return Expansion(reason, depthwise, OPS, SAVED * math.prod(y) * x[depthwise.lhs[0]])
        terms = taps * k[depthwise.rhs[1]]
        saved = SAVED * math.prod(y) * terms
        return Expansion(reason, depthwise.by_steps, OPS * terms, saved, by_steps=True)


def _suited(node: OpView) -> _DepthwiseConvolution | None:
    """How an op is expanded; ``None`` if it is not depthwise, or has a type of few bits."""
    x, k = (aval_of(v.type) for v in node.operands)
    preferred = node.get("preferred_element_type")
    # The test for None comes first, because NumPy takes None for float64.
    mixed = x.dtype != k.dtype or not (preferred is None or preferred == x.dtype)
    if mixed or not dtypes.issubdtype(x.dtype, np.inexact) or is_narrow(x.dtype):
        return None
    lhs, rhs, out = map(tuple, node.get("dimension_numbers"))
    strides, dilation = tuple(node.get("window_strides")), tuple(node.get("rhs_dilation"))
    padding = tuple(map(tuple, node.get("padding")))
    array = lhs, rhs, out, padding, tuple(node.get("lhs_dilation"))
    shape = aval_of(node.op.results[0].type).shape
    kernel, image = (tuple(y[d] for d in dims[2:]) for y, dims in ((k.shape, rhs), (shape, out)))
    if 0 in (*kernel, *image):
        return None
    groups, batches = node.get("feature_group_count", 1), node.get("batch_group_count", 1)
    terms = math.prod(kernel) * k.shape[rhs[1]]
    # The gradient with respect to its kernel is a convolution with an image: XLA is as fast at it.
    channels, results = x.shape[lhs[1]], shape[out[1]]
    is_small = channels <= MAX_CHANNELS and channels * results <= MAX_PAIRS
    are_few = groups > 1 or (is_small and terms <= math.prod(image))
    if batches == 1 and are_few and 0 < terms <= MAX_TAPS:
        return _ArrayConvolution(*array, kernel, dilation, image, strides)
    of_kernel = groups == 1 < batches == x.shape[lhs[0]] == shape[out[1]]
    if of_kernel and 0 < math.prod(image) <= MAX_TAPS:
        return _KernelGradient(*array, image, strides, kernel, dilation)
    return None


class _DepthwiseConvolution(NamedTuple):
    """A convolution as a function of its operands; hashable.

    Attributes:
      lhs, rhs, out: the dimensions of batch and channels, or of a kernel's results and channels,
        and then the others.
      padding, dilation: the array's, along these other dimensions.
      taps, moves: the number of places in a window, and the distance between them.
      counts, steps: the number of elements that meet each place, and the distance between them.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    taps: tuple[int, ...]
    moves: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]

    def padded(self, x: Any) -> Any:
        sides = zip(self.lhs[2:], self.padding, self.dilation, strict=True)
        return pad_dims(x, {d: (low, high, dilation - 1) for d, (low, high), dilation in sides})

    def starts(self, rank: int) -> np.ndarray:
        """For each place of a window, where in the padded array the elements that meet it start."""
        places = np.array(list(np.ndindex(*self.taps)), np.int32)
        starts = np.zeros((len(places), rank), np.int32)
        starts[:, self.lhs[2:]] = places * np.array(self.moves, np.int32)
        return starts

    def view(self, x: Any, start: Any) -> Any:
        """The elements of the padded array that meet a place, given their start."""
        size, step = list(x.shape), [1] * x.ndim
        for d, count, distance in zip(self.lhs[2:], self.counts, self.steps, strict=True):
            size[d], step[d] = (count - 1) * distance + 1, distance
        x = lax.dynamic_slice(x, list(start), size)
        return x if set(step) == {1} else lax.slice(x, [0] * x.ndim, size, step)


def _numbers(k: Any, *, rhs: tuple[int, ...]) -> list[Any]:
    """A kernel's numbers: a row for each channel of a group and each place, a column for each
    result."""
    results, channel, *places = rhs
    k = lax.transpose(k, (channel, *places, results))
    return [lax.reshape(k, (math.prod(k.shape[:-1]), k.shape[-1]))]


class _ArrayConvolution(_DepthwiseConvolution):
    """A convolution with a few numbers for each result, as a sum of a product for each."""

    def by_steps(self, writer: ExpansionWriter, x: ir.Value, k: ir.Value) -> list[ir.Value]:
        """Writes the numbers of the kernel, stores them, and writes the products."""
        (rows,) = writer.emit(functools.partial(_numbers, rhs=self.rhs), k)
        return writer.emit(self, x, writer.store(rows))

    def __call__(self, x: Any, rows: Any) -> list[Any]:
        channel, (count, results) = self.lhs[1], rows.shape
        rows = iter(lax.split(rows, (1,) * count))
        per_group = count // math.prod(self.taps)
        total = None
        for first in range(per_group):
            part = lax.slice_in_dim(x, first, None, per_group, channel)
            part = self.padded(jnp.repeat(part, results // part.shape[channel], channel))
            for start in self.starts(x.ndim):
                view, row = self.view(part, start), lax.reshape(next(rows), (results,))
                term = lax.mul(view, lax.broadcast_in_dim(row, view.shape, (channel,)))
                total = term if total is None else lax.add(total, term)
        return [lax.transpose(total, _matched(self.lhs, self.out))]


class _KernelGradient(_DepthwiseConvolution):
    """The gradient with respect to such a kernel, where channels are groups of a batch: a sum of
    products for each place.

    The places are a loop, because XLA stores the operand of each sum, and would store those of all
    places at once.
    """

    def __call__(self, x: Any, y: Any) -> list[Any]:
        x, y = self.padded(x), lax.transpose(y, _matched(self.rhs, self.lhs))
        group = self.lhs[0]
        summed = tuple([d for d in range(x.ndim) if d != group])
        zero = np.zeros((), x.dtype)

        def at(start: Any) -> Any:
            return lax.reduce(lax.mul(self.view(x, start), y), zero, lax.add, summed)

        rows = lax.map(at, self.starts(x.ndim))
        together = lax.reshape(lax.transpose(rows, (1, 0)), (1, x.shape[group], *self.taps))
        return [lax.transpose(together, _matched(range(x.ndim), self.out))]


def _matched(dims: Sequence[int], others: Sequence[int]) -> list[int]:
    """The permutation that moves the dimensions ``dims`` of an array to ``others``."""
    return [d for _, d in sorted(zip(others, dims, strict=True))]

"""``jaxpr-unroll-reductions``: writes a reduction over a few elements as operations on slices.

A sum over the three coordinates of many points is two additions for each point::

    reduce_sum[axis](x)   ->   x[..., 0] + x[..., 1] + x[..., 2]

XLA's CPU compiler writes a kernel for reductions that goes through one axis element by element;
this is fast if the axis is long.  Additions are elementwise: they are vectorized over all other
axes, fused into the kernels that use their result, and fused with the ops that compute their
operands.  This pays for up to ``MAX_SIZE`` elements along any axis, unless there are few results;
with jax 0.10 also for more elements, if many results are behind the axis.

The operand of the reduction may be computed by a few cheap ops, with intermediate values that have
other users.  Then these ops are written for each slice, and their inputs are sliced: XLA would
store all of ``d = x - y`` for the slices of ``d ** 2`` and, in its gradient, for ``2 * d``.
If an input is a padded or joined array, the operand itself is sliced.

A sum may leave a short last axis, such as the coordinates of a force.  XLA's kernel goes through
the last axis, however short, in its innermost loop.  If the operand is not stored but fused, and
computed from smaller arrays, each coordinate can be reduced by itself::

    reduce_sum[axes](x)    ->   stack(reduce_sum[axes](x[..., 0]), reduce_sum[axes](x[..., 1]), ...)

A reduction over windows takes one dimension after the other, 3 + 3 elements instead of 3 x 3.
Along each, it combines the slices at the places of a window, or, for longer windows, those of
shorter windows that are combined before, of a power of two elements::

    y2[i] = x[i] + x[i + 1]      y4[i] = y2[i] + y2[i + 2]      y8[i] = y4[i] + y4[i + 4]
    reduce_window_sum[11](x)[i]  ->  y8[i] + y2[i + 8] + x[i + 10]
    reduce_window_max[11](x)[i]  ->  max(y8[i], y8[i + 3])             with maxima instead of sums

XLA's kernel goes through each window element by element, with a test of whether the element is one
of the array.  Partial sums differ from running sums in that no digits are lost.

Sums of slices have the same order, but begin with the first element, not with zero: a sum of
nothing but negative zeros is a negative zero.  Other reductions over few elements give the same
bits.  A long sum that leaves a short axis, and sums over windows, may be added up in another order.
Sums of 16 bits over windows are computed in 32 bits, where XLA rounds them after each element.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes, jax_version
from jaxmlir.analysis.arithmetic import identity
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.fusion import FUNCTIONS, SLOW
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import is_narrow, is_plain_op
from jaxmlir.dialect.builder import drop_dead_ops, only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, record_of, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.selecting import COMPUTING, ElementWriter, Selection, made_of
from jaxmlir.optimize.compared_arrays import COMPARISONS, EXTREMES, is_rounded_in_ways
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter
from jaxmlir.passes.base import Count

# Time of the reduction / of slices, jax 0.10 and 0.12; squares of float32 on a CPU core:
#   384 x 384 x 2, last axis   12, 6.1      20,000 x 3          4.9, 5.6
#   384 x 384 x 4               7.5, 5.7    20,000 x 8          2.2, 1.0
#   384 x 384 x 8               4.2, 4.5    256 x 6 x 64, 1st   1.5, 3.9
#   256 x 256 x 16              0.6, 0.7    4 x 384 x 384, 0th  66, 1.1
#   100 x 4                     1.1, 1.1
MAX_SIZE = 8
MIN_RESULTS = 1000
# Nanoseconds saved per result, and per element that would be stored for the slices; and the number
# of ops for each slice, besides those that are written again for it.
SAVED = 3.0
SAVED_OF_SHARED = 1.0
OPS = 3
# XLA of jax 0.10 keeps partial sums for up to so many results behind the axes, and goes through the
# array by rows; for more results, it goes through the array once for each.  Nanoseconds per
# element, squares of float32 summed over the first axis, of slices:
#   32 x 16,000          0.50, 0.58      32 x 20,000          3.5, 0.55
#   32 x 500 x 64        3.5, 0.48       32 x 20,000 x 4      14, 0.68
#   64 x 500 x 64        8.4, 1.6        4 x 4,000 x 64       8.3, 0.49
MAX_SUMMED = 16_384
MAX_SIZE_OF_MANY = 64
SUMMED_UNTIL = (0, 11)
# XLA computes many elements at a time of the rows behind the axes.  But it computes long
# expressions of slices of short rows element by element: log(y * y) + (x / y) ** 2 of 4096 x 4 x
# 12, summed over 4, takes 342 us, and 1636 us of slices.  With one function, slices take a half to
# 0.9 of the time; with rows of 64, or on 0.12, 0.7 to 2 times the time.
MAX_FUNCTIONS = 1
# The most cheap ops that are written again for the slices.  Gradients of exp(-|x - y|^2) of 1,500 x
# 1,500 pairs in 8 dimensions, time relative to JAX's, jax 0.10 and 0.12: slices of squares 1.35,
# 1.43, with 81 MB of temporaries; slices of the points 0.99, 0.95, with 9 MB.
MAX_AGAIN = 8

# Milliseconds of a reduction of products and differences of rows, of one reduction for each of the
# last elements; two CPU cores, jax 0.10 and 0.12.  It makes no difference which other axes are
# summed over.
#   64 x 64 x 3       0.12, 0.03    0.09, 0.03     1,000 x 1,000 x 3   25, 1.0    24, 0.8
#   384 x 384 x 4     3.6, 0.20     2.5, 0.25      384 x 384 x 8       3.6, 0.29  2.5, 0.52
# But the gradient of a Gaussian process with 400 x 400 x 8 takes 1.1 times as long, and twice the
# memory, because the operand of the sum is stored.  Squares of a stored array take 0.06 ms, and of
# its slices 0.17.
MAX_KEPT = 4
# Nanoseconds saved per element, and the cost in ops of each slice along the last axis: a kernel
# with all ops that compute it, 25 to 30 ms to compile, jax 0.10 and 0.12.
SAVED_OF_LESS = 3.0
OPS_OF_LESS = 40
# The most ops that compute the operand from the smaller arrays.
MAX_WAY = 32

# Nanoseconds for each result of XLA / of slices, float32, a CPU core; jax 0.10:
#                                           jax 0.10             jax 0.12
#   8 x 64 x 64 x 16, 3 x 3                 max 12.6, 1.6        13.4, 1.6
#                                           sum  5.3, 0.8         5.9, 1.6
#                     3 x 3, strides of 2   max 14.8, 4.1         8.3, 5.3
#                     2 x 2, strides of 2   max  7.6, 5.6         4.0, 3.6
#                                           sum  1.8, 1.1         2.4, 1.5
#   8 x 16 x 56 x 56, last two, 3 x 3       max  7.1, 1.4         4.6, 1.2
#                     2 x 2, strides of 2   max  3.2, 0.7         5.6, 1.2
#   8 x 28 x 28 x 64, 5 x 5                 max 43.6, 3.0        74.4, 3.8
#   4 x 16 x 16 x 16 x 8, 3 x 3 x 3, of 2   max 33.4, 7.1        41.1, 7.5
#   262,144, 50                             max  220, 3.2         170, 3.9
#                                           sum 19.9, 2.4        13.9, 1.6
#            1000                           sum 39.7, 3.8         113, 6.6
#            4, strides of 4                sum  4.6, 1.4         5.4, 0.7
#   512 x 512, 11 x 11                      max  641, 4.2         721, 5.3
#                                           sum 85.4, 2.7         181, 4.6
# Each dimension takes 0.05 to 0.3 s to compile.
#
# The most elements of windows that do not overlap: slices take 0.6 to 0.96 of the time for 7 x 7,
# and 1.05 to 1.1 for 8 x 8.
MAX_APART = 16
# The most operations for each result along a dimension: windows of 2048 at strides of 1024 would
# take 6 to 14 times as long.
MAX_STEPS = 64
# The least that is saved for each element of a window of each result, and the ops for each slice.
SAVED_OF_WINDOWS = 0.5
OPS_OF_WINDOWS = 2

_CHEAP = COMPUTING - with_trait(Trait.TRANSCENDENTAL) - SLOW.keys()
# Slices of the parts of a joined array are slow: for each slice, a kernel has to find out which
# part each element is in.  The gradient of an associative scan of 64 steps, a sum of padded arrays
# that is summed over 8 elements three times: 1.99 of JAX's time with slices of the parts, 0.93 with
# slices of the sum.
_JOINING = with_trait(Trait.JOINING) | {"jaxpr.pad"}


_KEPT = {
    "jaxpr.reduce_max": lax.reduce_max,
    "jaxpr.reduce_min": lax.reduce_min,
    "jaxpr.reduce_prod": lax.reduce_prod,
    "jaxpr.reduce_sum": lax.reduce_sum,
}


_COMBINED = {
    "jaxpr.reduce_window_max": lax.max,
    "jaxpr.reduce_window_min": lax.min,
    "jaxpr.reduce_window_sum": lax.add,
}


class UnrollReductions(ExpandOps):
    """Write reductions over a few elements, or over windows, as operations on slices.

    Options:
      max-size: reductions over more elements are left alone, unless they leave a short last axis,
        or are over windows.
      max-kept: the greatest length of such a last axis.
      min-results: reductions of an array that has fewer elements than this for each element that is
        reduced, or for each element of such a last axis, are left alone.
    """

    name: ClassVar[str] = "jaxpr-unroll-reductions"
    # Slices of arrays on several devices would be exchanged one by one.
    partitioned: ClassVar = False
    max_size: Count = MAX_SIZE
    max_kept: Count = MAX_KEPT
    min_results: Count = MIN_RESULTS

    def run(self, program: Module) -> bool:
        if not super().run(program):
            return False
        for function in outside_kernels(program):
            drop_dead_ops(function)
        return True

    def expansion(self, node: OpView) -> Expansion | None:
        if node.name in _COMBINED:
            return _of_windows(node)
        is_short = _is_short(node, self.max_size, self.min_results)
        if not is_short and not _is_made_of_less(node, self.max_kept, self.min_results):
            return None
        array, shape = node.operands[0], aval_of(node.operands[0].type).shape
        axes = tuple(map(int, node.get("axes")))
        if is_short:
            reason = f"unrolled '{node.name}' over axes {axes} into ops on slices"
            inner, leaves = _shared(node)
            count = math.prod(shape[d] for d in axes)
            combined = functools.partial(_combined, name=node.name)
            write = functools.partial(_of_slices, combined, array, axes, inner, leaves)
            ops = count * (OPS + (len(leaves) - 1) + len(inner))
            saved = SAVED * math.prod(shape) / count
            if inner:
                saved += SAVED_OF_SHARED * math.prod(shape)
            return Expansion(reason, write, ops, saved, by_steps=True)
        reason = f"split '{node.name}' over axes {axes}: one for each index of the last axis"
        last = len(shape) - 1
        stacked = functools.partial(_stacked, name=node.name, axes=axes)
        write = functools.partial(_of_slices, stacked, array, (last,), {}, node.operands)
        saved = SAVED_OF_LESS * math.prod(shape)
        return Expansion(reason, write, OPS_OF_LESS * shape[-1], saved, by_steps=True)


class _Windows(NamedTuple):
    """Where the windows are along a dimension.

    Attributes:
      size, step: the number of elements in a window, and the distance between them.
      stride: the distance between windows.
      padding: the elements before, after and between those of the array.
    """

    size: int
    step: int
    stride: int
    padding: tuple[int, int, int]

    def parts(self, *, overlap: bool) -> list[tuple[int, int]]:
        """The windows of a power of two elements that one consists of: for each, its first element
        and the exponent.

        Args:
          overlap: whether an element may be in several parts; otherwise it is in one.
        """
        last = self.size.bit_length() - 1
        if overlap:
            return [(0, last), (self.size - 2**last, last)]
        parts, first = [], 0
        for exponent in reversed(range(last + 1)):
            if self.size >> exponent & 1:
                parts.append((first, exponent))
                first += 2**exponent
        return parts

    def steps(self, *, overlap: bool) -> int:
        """The operations for each result if windows of powers of two are computed."""
        parts = self.parts(overlap=overlap)
        return self.stride * (parts[0][1] + len(parts) - 1)

    def is_doubled(self, *, overlap: bool) -> bool:
        """Whether this takes fewer operations than the elements one by one."""
        return self.steps(overlap=overlap) < self.size - 1


def _of_windows(node: OpView) -> Expansion | None:
    """The expansion of a reduction over windows; ``None`` if it stays."""
    aval, result = aval_of(node.operands[0].type), aval_of(node.op.results[0].type)
    sizes, strides, padding, dilation, apart = map(
        node.get,
        ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"),
    )
    count = math.prod(sizes)
    if (
        isinstance(aval.dtype, dtypes.ExtendedDType)
        or count < 2
        or not aval.size
        or not result.size
    ):
        return None
    windows = tuple(
        _Windows(size, step, stride, (*pad, between - 1))
        for size, step, stride, pad, between in zip(
            sizes, apart, strides, padding, dilation, strict=True
        )
    )
    overlap = _COMBINED[node.name] is not lax.add
    steps = [min(w.size - 1, w.steps(overlap=overlap)) for w in windows]
    are_apart = all(w.stride >= w.size for w in windows)
    if max(steps) > MAX_STEPS or (are_apart and count > MAX_APART):
        return None
    reason = f"unrolled windows of {' x '.join(map(str, sizes))} into ops on slices"
    write = functools.partial(_slid, name=node.name, windows=windows)
    ops = OPS_OF_WINDOWS * sum(steps)
    return Expansion(reason, write, ops, SAVED_OF_WINDOWS * result.size * count)


def _slid(x: Any, *, name: str, windows: tuple[_Windows, ...]) -> list[Any]:
    """The reduction over windows, along one dimension after the other."""
    combine, dtype = _COMBINED[name], x.dtype
    if combine is lax.add and is_narrow(dtype):
        x = lax.convert_element_type(x, np.float32)
    padding = [w.padding for w in windows]
    if np.any(padding):
        x = lax.pad(x, identity(record_of(name).combine, x.dtype), padding)
    for axis, along in enumerate(windows):
        if along.size > 1 or along.stride > 1:
            x = _slid_along(x, axis, along, combine)
    return [lax.convert_element_type(x, dtype)]


def _slid_along(x: Any, axis: int, windows: _Windows, combine: Callable[[Any, Any], Any]) -> Any:
    """The reduction over windows along one dimension of a padded array."""
    size, step, stride, _ = windows
    length = x.shape[axis] - (size - 1) * step
    overlap = combine is not lax.add
    if windows.is_doubled(overlap=overlap):
        parts = windows.parts(overlap=overlap)
        # By exponents; each array has the windows that begin at each element.
        powers = [x]
        for exponent in range(parts[0][1]):
            shift = step * 2**exponent
            left = powers[-1].shape[axis] - shift
            halves = (
                lax.slice_in_dim(powers[-1], first, first + left, axis=axis) for first in (0, shift)
            )
            powers.append(combine(*halves))
    else:
        parts, powers = [(place, 0) for place in range(size)], [x]
    terms = [
        lax.slice_in_dim(powers[exponent], first * step, first * step + length, stride, axis)
        for first, exponent in parts
    ]
    return functools.reduce(combine, terms)


def _of_slices(
    function: Callable[..., list[Any]],
    array: ir.Value,
    axes: tuple[int, ...],
    nodes: dict[ir.Value, OpView],
    leaves: list[ir.Value],
    writer: ExpansionWriter,
    *_: ir.Value,
) -> list[ir.Value]:
    """Writes a function of the slices of an array at each combination of indices along the axes, in
    order, without these axes.

    Args:
      nodes: the ops that are written for each slice, by their results.
      leaves: the values that are sliced.
    """
    shape = aval_of(array.type).shape
    elements = ElementWriter(writer.rules)
    slices = []
    for indices in itertools.product(*(range(shape[d]) for d in axes)):
        starts = [0] * len(shape)
        limits = list(shape)
        for d, i in zip(axes, indices, strict=True):
            starts[d], limits[d] = i, i + 1
        # The axes are dropped at once, because loops over dimensions of size 1 are not vectorized.
        selection = Selection.box(shape, starts, limits, axes)
        slices.append(elements.write(array, selection, (), nodes, leaves))
    return writer.emit(function, *slices)


def _is_short(node: OpView, max_size: int, min_results: int) -> bool:
    aval = aval_of(node.operands[0].type)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return False
    axes = node.get("axes")
    size = math.prod(aval.shape[d] for d in axes)
    if size < 2:
        return False
    behind = math.prod(aval.shape[max(axes) + 1 :])
    if jax_version() < SUMMED_UNTIL and behind > MAX_SUMMED:
        max_size, behind = max(max_size, MAX_SIZE_OF_MANY), 1
    if size > max_size or aval.size < min_results * size:
        return False
    return behind == 1 or _num_functions(node) <= MAX_FUNCTIONS


def _is_made_of_less(node: OpView, max_kept: int, min_results: int) -> bool:
    """Whether a reduction leaves a short last axis, of an array computed from smaller ones."""
    if node.name not in _KEPT:
        return False
    shape = aval_of(node.operands[0].type).shape
    if not shape or len(shape) - 1 in node.get("axes"):
        return False
    if not 1 < shape[-1] <= max_kept or math.prod(shape[:-1]) < min_results:
        return False
    inner, leaves = _way_to(node, MAX_WAY)
    is_short = 0 < len(inner) <= MAX_WAY
    return is_short and all(aval_of(v.type).shape != shape for v in leaves)


def _have_other_users(reduction: OpView, inner: Mapping[ir.Value, OpView]) -> bool:
    """Whether other ops than these and the reduction read some of their values."""
    use_counts = Counter(v for node in (reduction, *inner.values()) for v in node.operands)
    return any(len(list(v.uses)) != use_counts[v] for v in inner)


def _num_functions(reduction: OpView) -> int:
    """The number of functions, quotients included, that compute an element of the operand."""
    inner, _ = _way_to(reduction, MAX_WAY)
    return sum(node.name in FUNCTIONS or node.name in SLOW for node in inner.values())


def _way_to(
    reduction: OpView, most: int, again: bool = False
) -> tuple[dict[ir.Value, OpView], list[ir.Value]]:
    """The ops of the operand's shape that compute it, by their values, operands first; and the
    leaves, i.e. the values that these ops start from.

    Args:
      most: the limit on the ops; if there are more, the result has ``most + 1`` of them.
      again: only cheap ops, whose elements may be computed twice; by default also ops whose values
        nothing else reads.
    """
    (array,) = reduction.operands
    shape = aval_of(array.type).shape

    def op_of(value: ir.Value) -> OpView | None:
        node = node_of(value)
        if node is None or node.name not in COMPUTING or aval_of(value.type).shape != shape:
            return None
        is_taken = node.name in _CHEAP or (not again and only_user(value) is not None)
        return node if is_taken and is_plain_op(node) else None

    return made_of(array, op_of, most + 1)


def _shared(reduction: OpView) -> tuple[dict[ir.Value, OpView], list[ir.Value]]:
    """The ops that compute the operand and are written again for each slice, and the values that
    are sliced."""
    inner, leaves = _way_to(reduction, MAX_AGAIN, again=True)
    if len(inner) > MAX_AGAIN or not _have_other_users(reduction, inner):
        return {}, [*reduction.operands]
    if any(node is not None and node.name in _JOINING for node in map(node_of, leaves)):
        return {}, [*reduction.operands]
    computed = defaultdict[str, set[str]](set)
    for node in inner.values():
        computed[node.name].update(inner[v].name for v in node.operands if v in inner)
    # Numbers that are compared have to be those that the other users read.
    compares = reduction.name in EXTREMES or not COMPARISONS.isdisjoint(computed)
    if compares and is_rounded_in_ways(computed, reduction.operands[0].type):
        return {}, [*reduction.operands]
    return inner, leaves


def _combined(*xs: Any, name: str) -> list[Any]:
    """The reduction of a name, applied to arrays element by element."""
    primitive = getattr(lax, f"{record_of(name).combine}_p")
    return [functools.reduce(primitive.bind, xs)]


def _stacked(*xs: Any, name: str, axes: tuple[int, ...]) -> list[Any]:
    """The reduction of a name, applied to each slice along a last axis that is left."""
    reduced = [_KEPT[name](x, axes) for x in xs]
    return [lax.concatenate([lax.expand_dims(x, (x.ndim,)) for x in reduced], reduced[0].ndim)]

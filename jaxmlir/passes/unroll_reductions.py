"""``jaxpr-unroll-reductions``: a reduction over a few elements as operations on slices.

A sum over the three coordinates of many points is two additions for each of them::

    reduce_sum[axis](x)   ->   x[..., 0] + x[..., 1] + x[..., 2]

XLA's CPU compiler makes a kernel for reductions that goes through one axis element by element, and
that is fast where the axis is long.  Additions are elementwise: they are vectorized over all other
axes, and are a part of the kernels that use their result, as what is reduced is of them.  It pays
for up to ``MAX_SIZE`` elements, whatever the axis, unless there are few results.

Where what is reduced is computed by a few cheap ops, and something on the way is used by others,
too, the slices are of what these ops begin with, and the ops are done for each of them: XLA would
store all of ``d = x - y`` for the slices of ``d ** 2`` and, in its gradient, for ``2 * d``.

Sums have the same order.  They begin with the first element, not with zero: a sum of nothing but
negative zeros is a negative zero.  The others give the same bits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.ir import ir, scope
from jaxmlir.ops import bitwise, comparison, elementwise
from jaxmlir.passes._base import Count, Pass
from jaxmlir.passes._build import drop_dead_ops
from jaxmlir.passes._call_graph import outside_kernels
from jaxmlir.passes._node import OpNode, node_of
from jaxmlir.passes._options import platform_or_default
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._replace import replace_ops
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._selecting import Elements, Selection, made_of
from jaxmlir.passes._work import is_plain_op
from jaxmlir.passes.fence import SLOW
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Times of a reduction / of slices, of squares of float32 on a CPU core, jax 0.10 and 0.12:
#   384 x 384 x 2, last axis   12, 6.1      20,000 x 3          4.9, 5.6
#   384 x 384 x 4               7.5, 5.7    20,000 x 8          2.2, 1.0
#   384 x 384 x 8               4.2, 4.5    256 x 6 x 64, 1st   1.5, 3.9
#   256 x 256 x 16              0.6, 0.7    4 x 384 x 384, 0th  66, 1.1
#   100 x 4                     1.1, 1.1
MAX_SIZE = 8
MIN_RESULTS = 1000
# So many cheap ops are done again for the slices. Gradients of exp(-|x - y|^2) of 1,500 x 1,500
# pairs in 8 dimensions, times of JAX's, jax 0.10 and 0.12: slices of squares 1.35, 1.43, with
# 81 MB of temporaries; of the points 0.99, 0.95, with 9 MB.
MAX_AGAIN = 8

_CHEAP = frozenset(
    f"jaxpr.{op.name}"
    for family in (bitwise, comparison, elementwise)
    for op in family.OPS
    if op.results == 1
) - SLOW.keys() | {"jaxpr.broadcast_in_dim"}


class UnrollReductions(Pass):
    """Write reductions over a few elements as operations on slices.

    Options:
      platform: what the program will be compiled for; by default JAX's default backend. Others than
        the CPU are left alone.
      max-size: reductions over more elements are left alone.
      min-results: and so are those that give fewer.
    """

    name: ClassVar[str] = "jaxpr-unroll-reductions"
    platform: str = ""
    max_size: Count = MAX_SIZE
    min_results: Count = MIN_RESULTS

    def run(self, program: Program) -> bool:
        on_cpu = platform_or_default(self.platform) == "cpu"
        return on_cpu and unroll_reductions(program, self.max_size, self.min_results) > 0


def unroll_reductions(
    program: Program, max_size: int = MAX_SIZE, min_results: int = MIN_RESULTS
) -> int:
    """Unrolls reductions in place; how many."""

    def unrolled(rules: Rules, node: OpNode) -> ir.Value | None:
        if not _is_short(node, max_size, min_results):
            return None
        axes = tuple(map(int, node.get("axes")))
        remark(node.op, f"'{node.name}' over {axes} as operations on slices")
        combined = _Combined(node.name)
        return rules.emit(combined, _slices(rules, node, axes), combined)[0]

    count = replace_ops(program, _COMBINED, unrolled)
    if count:
        with scope():
            for function in outside_kernels(program):
                drop_dead_ops(function)
        program.changed()
    return count


def _is_short(node: OpNode, max_size: int, min_results: int) -> bool:
    if not is_plain_op(node):
        return False
    aval = aval_of(node.operands[0].type)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return False
    size = math.prod(aval.shape[d] for d in node.get("axes"))
    return 1 < size <= max_size and aval.size >= min_results * size


def _slices(rules: Rules, node: OpNode, axes: tuple[int, ...]) -> list[ir.Value]:
    """Of each combination of indices along the axes, in order, without these axes."""
    (array,) = node.operands
    shape = aval_of(array.type).shape
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    nodes, leaves = _shared(node)
    elements = Elements(rules)
    found = []
    for indices in itertools.product(*(range(shape[d]) for d in axes)):
        starts = [0] * len(shape)
        limits = list(shape)
        for d, i in zip(axes, indices, strict=True):
            starts[d], limits[d] = i, i + 1
        params = (("limit_indices", tuple(limits)), ("start_indices", tuple(starts)))
        # Without the axes from the start: loops over dimensions of size 1 are not vectorized.
        selection = Selection("slice", shape, kept, params, axes)
        found.append(elements.write(array, selection, (), nodes, leaves))
    return found


def _shared(reduction: OpNode) -> tuple[dict[ir.Value, OpNode], list[ir.Value]]:
    """The ops that compute what is reduced, by their values, each after those that it is made of,
    as far as they are computed for each slice, and the values that slices are taken of."""
    (array,) = reduction.operands
    shape = aval_of(array.type).shape
    inner, leaves = made_of(array, lambda value: _cheap(value, shape), MAX_AGAIN + 1)
    read = Counter(v for node in (reduction, *inner.values()) for v in node.operands)
    if len(inner) > MAX_AGAIN or all(len(list(v.uses)) == read[v] for v in inner):
        return {}, [array]
    return inner, leaves


def _cheap(value: ir.Value, shape: tuple[int, ...]) -> OpNode | None:
    """The op that gives a value of a shape, if its elements may be computed twice."""
    node = node_of(value)
    if node is None or node.name not in _CHEAP or aval_of(value.type).shape != shape:
        return None
    return node if is_plain_op(node) else None


@dataclass(frozen=True)
class _Combined:
    """What a reduction of a name makes of elements; hashable."""

    name: str

    def __call__(self, *xs: Any) -> list[Any]:
        return [functools.reduce(_COMBINED[self.name], xs)]


_COMBINED = {
    "jaxpr.reduce_and": lax.bitwise_and,
    "jaxpr.reduce_max": lax.max,
    "jaxpr.reduce_min": lax.min,
    "jaxpr.reduce_or": lax.bitwise_or,
    "jaxpr.reduce_prod": lax.mul,
    "jaxpr.reduce_sum": lax.add,
    "jaxpr.reduce_xor": lax.bitwise_xor,
}

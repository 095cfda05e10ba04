"""``jaxpr-unroll-reductions``: a reduction over a few elements as operations on slices.

A sum over the three coordinates of many points is two additions for each of them::

    reduce_sum[axis](x)   ->   x[..., 0] + x[..., 1] + x[..., 2]

XLA's CPU compiler makes a kernel for reductions that goes through one axis element by element, and
that is fast where the axis is long.  Additions are elementwise: they are vectorized over all other
axes, and are a part of the kernels that use their result, as what is reduced is of them.  It pays
for up to ``MAX_SIZE`` elements, whatever the axis, unless there are few results.

Sums have the same order.  They begin with the first element, not with zero: a sum of nothing but
negative zeros is a negative zero.  The others give the same bits.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.ir import ir
from jaxmlir.passes._base import Count, Pass
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._options import platform_or_default
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._replace import replace_ops
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import is_plain_op
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

    def run(self, program: Program) -> None:

        if platform_or_default(self.platform) == "cpu":
            unroll_reductions(program, self.max_size, self.min_results)


def unroll_reductions(
    program: Program, max_size: int = MAX_SIZE, min_results: int = MIN_RESULTS
) -> int:
    """Unrolls reductions in place; how many."""

    def unrolled(rules: Rules, node: OpNode) -> ir.Value | None:
        if not _is_short(node, max_size, min_results):
            return None
        axes = tuple(map(int, node.get("axes")))
        remark(node.op, f"'{node.name}' over {axes} as operations on slices")
        reduction = _Unrolled(node.name, axes)
        return rules.emit(reduction, node.operands, reduction)[0]

    return replace_ops(program, _COMBINED, unrolled)


def _is_short(node: OpNode, max_size: int, min_results: int) -> bool:
    if not is_plain_op(node):
        return False
    aval = aval_of(node.operands[0].type)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return False
    size = math.prod(aval.shape[d] for d in node.get("axes"))
    return 1 < size <= max_size and aval.size >= min_results * size


@dataclass(frozen=True)
class _Unrolled:
    """A reduction; hashable."""

    name: str
    axes: tuple[int, ...]

    def __call__(self, x: Any) -> list[Any]:
        return [functools.reduce(_COMBINED[self.name], self.slices(x))]

    def slices(self, x: Any) -> list[Any]:
        """Of each combination of indices along the axes, in order."""
        kept = [n for d, n in enumerate(x.shape) if d not in self.axes]
        found = []
        for indices in itertools.product(*(range(x.shape[d]) for d in self.axes)):
            starts = [0] * x.ndim
            limits = list(x.shape)
            for d, i in zip(self.axes, indices, strict=True):
                starts[d], limits[d] = i, i + 1
            found.append(lax.reshape(lax.slice(x, starts, limits), kept))
        return found


_COMBINED = {
    "jaxpr.reduce_and": lax.bitwise_and,
    "jaxpr.reduce_max": lax.max,
    "jaxpr.reduce_min": lax.min,
    "jaxpr.reduce_or": lax.bitwise_or,
    "jaxpr.reduce_prod": lax.mul,
    "jaxpr.reduce_sum": lax.add,
    "jaxpr.reduce_xor": lax.bitwise_xor,
}

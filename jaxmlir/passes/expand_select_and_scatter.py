"""``jaxpr-expand-select-and-scatter``: the gradient of max-pooling, element by element.

The transpose of a maximum over windows adds what comes back to the element that each window
selects.  XLA's CPU compiler goes through the windows one after another, 12 to 20 ns an element.
Where windows do not overlap, each element is of one at most, so that it can be said of all at once
whether they are the ones selected::

    which = 0 where x[0] >= x[1], else 1          of two elements of each window
    gradient[k] = select(which == k, source, 0)   for both of them, one after another

The comparisons are those of XLA, in its order, so the same element is selected: the first of
several that are equal, and what a comparison with a NaN leads to.  A negative zero that comes back
is a zero with its sign, where XLA adds it to zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.ir import ir
from jaxmlir.passes._base import Pass
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._options import platform_or_default
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._replace import replace_ops
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import is_plain_op
from jaxmlir.passes.fence import fences
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Milliseconds of XLA / of this, a CPU core, jax 0.10 and 0.12, for windows of 2 x 2 if not said:
#   16 x 64 x 64 x 16   11.7, 5.8   12.0, 3.4     4 x 32 x 32 x 8, 4 x 4    0.22, 0.08   0.25, 0.08
#   8 x 28 x 28 x 64     4.4, 0.6    4.1, 0.4     8 x 60 x 60 x 64, 3 x 3   37.9, 2.1    28.0, 1.1
#   16 x 16 x 64 x 64   10.7, 4.7   10.9, 1.0     2 x 8 x 8 x 4             0.06, 0.06   0.06, 0.05
# Windows of more elements than this are as many ops to compile, and have not been measured.
MAX_WINDOW = 64


class ExpandSelectAndScatter(Pass):
    """Write gradients of maxima over windows that do not overlap element by element.

    Options:
      platform: what the program will be compiled for; by default JAX's default backend. Others than
        the CPU are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-select-and-scatter"
    platform: str = ""

    def run(self, program: Program) -> None:
        if platform_or_default(self.platform) == "cpu":
            expand_select_and_scatter(program)


def expand_select_and_scatter(program: Program) -> int:
    """Expands ops in place; how many."""
    put = fences(program, "cpu")

    def expanded(rules: Rules, node: OpNode) -> ir.Value | None:
        if not _is_suited(node):
            return None
        window = tuple(map(int, node.get("window_dimensions")))
        remark(node.op, f"windows of {' x '.join(map(str, window))} element by element")
        source, operand = node.operands
        selected = _Selected(window, node.get("select_prim"))
        which = put(rules.emit(selected, [operand], selected)[0])
        scattered = _Scattered(window, tuple(operand.type.shape))
        return rules.emit(scattered, [source, which], scattered)[0]

    return replace_ops(program, {"jaxpr.select_and_scatter_add"}, expanded)


def _is_suited(node: OpNode) -> bool:
    """Whether windows are apart, and all in the array."""
    window, strides = node.get("window_dimensions"), node.get("window_strides")
    return (
        is_plain_op(node)
        and not isinstance(aval_of(node.operands[0].type).dtype, dtypes.ExtendedDType)
        and not np.any(node.get("padding"))
        and tuple(window) == tuple(strides)
        and 1 < math.prod(window) <= MAX_WINDOW
    )


@dataclass(frozen=True)
class _Selected:
    """Which of its elements each window selects, in row-major order; hashable."""

    window: tuple[int, ...]
    select: Any

    def __call__(self, operand: Any) -> list[Any]:
        counts = [size // length for size, length in zip(operand.shape, self.window, strict=True)]
        ends = [count * length for count, length in zip(counts, self.window, strict=True)]
        best, which = None, lax.full(counts, 0, np.int8)
        for k, offset in enumerate(itertools.product(*map(range, self.window))):
            element = lax.slice(operand, offset, ends, self.window)
            if best is None:
                best = element
                continue
            keeps = self.select.bind(best, element)
            best = lax.select(keeps, best, element)
            which = lax.select(keeps, which, lax.full(counts, k, np.int8))
        return [which]


@dataclass(frozen=True)
class _Scattered:
    """What comes back, where it was selected, and zeros; hashable."""

    window: tuple[int, ...]
    shape: tuple[int, ...]

    def __call__(self, source: Any, which: Any) -> list[Any]:
        pairs = list(zip(source.shape, self.window, strict=True))
        split = tuple(itertools.chain.from_iterable(pairs))
        number = np.arange(math.prod(self.window), dtype=np.int8).reshape(self.window)
        is_selected = lax.eq(_spread(which, split, 0), _spread(number, split, 1))
        zeros = lax.full(split, 0, source.dtype)
        parts = lax.select(is_selected, _spread(source, split, 0), zeros)
        whole = lax.reshape(parts, [count * length for count, length in pairs])
        ends = [(0, size - n, 0) for size, n in zip(self.shape, whole.shape, strict=True)]
        return [lax.pad(whole, np.zeros((), source.dtype), ends)]


def _spread(x: Any, split: Sequence[int], first: int) -> Any:
    """An array with a dimension for each window, or for each place in it, in all of both."""
    return lax.broadcast_in_dim(x, split, tuple(range(first, len(split), 2)))

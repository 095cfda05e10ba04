"""``jaxpr-gather-dot``: rows selected before a matrix product or after, whichever costs less.

To select rows and to multiply each by a matrix can be done in either order: ``x[idx] @ W`` is ``(x
@ W)[idx]``.  Where there are more indices than rows, as in a graph with more edges than nodes, the
second multiplies fewer rows; where few rows are wanted of many, the first does.  Likewise for
slices, and for what they become in gradients: adding up rows, ``segment_sum(x @ W)`` against
``segment_sum(x) @ W``, and padding with zeros.

A selection is a matrix with a single 1 in each row, so this is the search of ``jaxpr-reassociate``
with such factors.  What a row is multiplied by does not change, but sums are added up in another
order: see there for the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.passes._base import Amount, Pass
from jaxmlir.passes.products import (
    DENSE,
    MIN_GAIN,
    SELECTING,
    SURE_GAIN,
    Tree,
    is_mask,
    rewrite_program,
)

if TYPE_CHECKING:
    from jaxmlir.program import Program


class GatherDot(Pass):
    """Select rows before a matrix product or after, whichever costs less.

    Options:
      min-gain: how many times faster the new order has to be in the estimate.
      sure-gain: the same of an order that takes fewer operations and fewer bytes.
    """

    name: ClassVar[str] = "jaxpr-gather-dot"
    min_gain: Amount = MIN_GAIN
    sure_gain: Amount = SURE_GAIN

    def run(self, program: Program) -> None:
        gather_dot(program, self.min_gain, self.sure_gain)


def gather_dot(program: Program, min_gain: float = MIN_GAIN, sure_gain: float = SURE_GAIN) -> int:
    """Moves selections of rows in place; how many products were written anew."""
    readers = DENSE | SELECTING
    return rewrite_program(program, readers, _selects_for_a_product, min_gain, sure_gain)


def _selects_for_a_product(tree: Tree) -> bool:
    if tree.term is None or not tree.term.selectors:
        return False
    return tree.dot is not None or any(map(is_mask, tree.ops))

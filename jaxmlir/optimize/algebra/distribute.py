"""``jaxpr-distribute``: products with sums whose terms are cheap to multiply by, term by term.

Matrices that are written as a sum often have no term that is worth a product of matrices::

    x @ (I - 2 v v^T)   ->   x - (x @ (2 v)) v^T
    K @ (I - 1 / n)     ->   K - sum(K, axis=1) / n
    x @ (W + A @ B)     ->   x @ W + (x @ A) @ B          of few rows

reflections, projections, updates of low rank, centring.  XLA makes the matrix and multiplies by
it.  A product with a sum becomes a sum of products where these, each in its best order as
``jaxpr-reassociate`` finds it, cost 1.3 times less: identities and diagonals no products at all,
products of vectors and of thin matrices those with what they are made of, constants sums.  What is
saved is the product, and the matrix if nothing else uses it.

Sums and products are rounded in another order: relative to ``|x| (|S| + |T|)``, and not to a result
in which terms cancel.  So of two dense terms one has to be a product, whose error is as large
already: ``x @ (a[:, None] - b[None])`` stays, for the difference of data can be exact.  Where an
infinity or NaN is multiplied by a zero of an identity or a diagonal, the result does not have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.optimize.algebra.products import MIN_GAIN, distribute_program
from jaxmlir.passes.base import Amount, Pass

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class Distribute(Pass):
    """Multiply by the terms of a sum where that is cheaper than by the sum.

    Options:
      min-gain: how many times faster the sum of products has to be in the estimate.
    """

    name: ClassVar[str] = "jaxpr-distribute"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        return distribute(program, self.min_gain) > 0


def distribute(program: Module, min_gain: float = MIN_GAIN) -> int:
    """Distributes products over sums in place; how many."""
    return distribute_program(program, min_gain)

"""``jaxpr-reassociate``: products of several matrices, multiplied in the order that costs least,
and those with sums of cheap terms multiplied term by term.

``A @ B @ v`` is ``(A B) v`` as it is written, and ``A (B v)`` costs a fraction of it; attention
without a softmax, ``(Q K^T) V``, is quadratic in the sequence's length, and ``Q (K^T V)`` linear.
XLA computes what is written.  This pass reads every tree of matrix products, transposes, reshapes,
broadcasts, sums and elementwise products as one Einstein sum, finds the cheapest order by dynamic
programming over operations and bytes, and writes the product anew where that is 1.3 times faster
or more; all else stays as it is.  It finds as well that ``sum(A @ B)`` is a product of two sums,
and ``trace(A @ B)`` a sum of elementwise products.

In the body of a scan, what only the loop's constants are multiplied to counts by its share of the
iterations: it is for ``jaxpr-licm`` to compute it before the loop.

Matrices that are written as a sum often have no term that is worth a product of matrices::

    x @ (I - 2 v v^T)   ->   x - (x @ (2 v)) v^T
    K @ (I - 1 / n)     ->   K - sum(K, axis=1) / n
    x @ (W + A @ B)     ->   x @ W + (x @ A) @ B          of few rows

reflections, projections, updates of low rank, centring.  XLA makes the matrix and multiplies by
it.  A product with a sum becomes a sum of products where these, each in its best order, cost 1.3
times less: identities and diagonals no products at all, products of vectors and of thin matrices
those with what they are made of, constants sums.  What is saved is the product, and the matrix if
nothing else uses it.

Products of integers are exact: they wrap around in every order.  Those of floats are rounded
elsewhere: in either order the error of an element is at most ``n u |A| |B| |C|``, where ``n`` is
the sum of the sizes summed over and ``u`` the unit roundoff (Higham 2002, section 3.5), so what
comes out agrees relative to this bound, and not relative to a result in which terms cancel.  An
intermediate value can overflow in one order and not in the other; ``float16`` and narrower types,
for which that is likely, are left alone.  So are products whose types or precisions differ, and
those of sharded arrays.  The error of a sum of products is relative to ``|x| (|S| + |T|)``.  So of
two dense terms one has to be a product, whose error is as large already: ``x @ (a[:, None] -
b[None])`` stays, for the difference of data can be exact.  Where an infinity or NaN is multiplied
by a zero of an identity or a diagonal, the result does not have it.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.dialect.module import Module
from jaxmlir.optimize.algebra.labelled_tensors.cost import MIN_GAIN
from jaxmlir.optimize.algebra.products.rewrite import rewrite_program
from jaxmlir.passes.base import Amount, Pass


class Reassociate(Pass):
    """Multiply matrices in the order that costs least, and sums of cheap ones term by term.

    Options:
      min-gain: how many times faster the new order, or the sum of products, has to be in the
        estimate.
    """

    name: ClassVar[str] = "jaxpr-reassociate"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        return rewrite_program(program, _SUMS, lambda _: True, self.min_gain, distributes=True) > 0


_SUMS = frozenset(f"jaxpr.{name}" for name in ("dot_general", "gather", "reduce_sum", "select_n"))
"""The ops without one of which a function has no product that sums."""

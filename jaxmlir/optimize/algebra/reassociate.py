"""``jaxpr-reassociate``: products of several matrices, multiplied in the order that costs least,
and those with sums of cheap terms multiplied term by term.

``A @ B @ v`` means ``(A B) v``, but ``A (B v)`` costs a fraction of it.  Attention without a
softmax, ``(Q K^T) V``, is quadratic in the sequence length, but ``Q (K^T V)`` is linear.  XLA keeps
the written order.  This pass reads every tree of matrix products, transposes, reshapes, broadcasts,
sums and elementwise products as one Einstein sum.  It finds the cheapest order by dynamic
programming over operations and bytes, and rewrites the product if that is at least 1.3 times
faster; all else stays as it is.  It also finds that ``sum(A @ B)`` is a product of two sums, and
``trace(A @ B)`` a sum of elementwise products.

In a scan body, the cost of a loop-invariant product is divided by the number of iterations, as
``jaxpr-licm`` hoists it.

Matrices that are written as a sum often have no term that needs a full matrix product::

    x @ (I - 2 v v^T)   ->   x - (x @ (2 v)) v^T
    K @ (I - 1 / n)     ->   K - sum(K, axis=1) / n
    x @ (W + A @ B)     ->   x @ W + (x @ A) @ B          of few rows

as in reflections, projections, low-rank updates and centring.  XLA materializes the matrix and
multiplies by it.  The pass turns a product with a sum into a sum of products if these, each in its
best order, cost 1.3 times less: a term that is an identity or a diagonal needs no matrix product,
an outer product or a product of thin matrices needs products with its factors, and a constant needs
a sum.  This saves the product, and the matrix if it has no other use.

Products of integers are exact: they wrap around in every order.  Products of floats are rounded at
other places: in either order the error of an element is at most ``n u |A| |B| |C|``, where ``n`` is
the sum of the sizes summed over and ``u`` the unit roundoff (Higham 2002, section 3.5).  So the
results agree relative to this bound, but not relative to a result in which terms cancel.  An
intermediate value can overflow in one order and not in the other; ``float16`` and narrower types,
for which that is likely, are left alone.  So are products of mixed types or precisions, and those
of sharded arrays.  The error of a sum of products is relative to ``|x| (|S| + |T|)``.  So of two
dense terms one has to be a product, which has such an error anyway: ``x @ (a[:, None] - b[None])``
stays, as the difference of data can be exact.  If an infinity or NaN is multiplied by a zero of an
identity or a diagonal, the new result lacks the NaN.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.dialect.module import Module
from jaxmlir.optimize.algebra.labelled_tensors.cost import MIN_GAIN
from jaxmlir.optimize.algebra.products.rewrite import rewrite_program
from jaxmlir.passes.base import Amount, Pass


class Reassociate(Pass):
    """Multiply matrices in the cheapest order; distribute products over sums where that is cheaper.

    Options:
      min-gain: how many times faster the new order, or the sum of products, has to be, by the
        estimate.
    """

    name: ClassVar[str] = "jaxpr-reassociate"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        return rewrite_program(program, _SUMS, lambda _: True, self.min_gain, distributes=True) > 0


_SUMS = frozenset(f"jaxpr.{name}" for name in ("dot_general", "gather", "reduce_sum", "select_n"))
"""A function without any of these ops has no product that sums."""

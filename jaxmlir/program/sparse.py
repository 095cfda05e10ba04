"""What programs have to do with sparse derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from jaxmlir.program import transforms
from jaxmlir.program.derived import derived_once

if TYPE_CHECKING:
    from jaxmlir.sparse.detect import Pattern


class SparseDerivatives:
    """What a program has to do with sparse derivatives: the methods of :class:`Program` on them."""

    __slots__ = ()

    grad: Any

    def jacobian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Jacobian can be other than zero, for any arguments.

        Rows are the elements of the flat results, columns those of the arguments ``argnums``, leaf
        by leaf.  The pattern is that of the derivative as the compiler writes it: custom rules
        count, not what they are rules of.

        Returns:
          A ``SparsityPattern``; of a program whose shapes are symbolic a ``SymbolicPattern``, which
          holds at all sizes.

        Raises:
          ArgumentError: ``argnums`` names no argument.
          TransformError: an argument has no derivative, or an op cannot be differentiated.
          PatternTooDense: there are more than 100 million elements; names the ops that mix them.
        """
        return transforms.jacobian_sparsity(self, argnums)

    def hessian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Hessian of a scalar-valued program can be other than zero.

        It is the pattern of the gradient's Jacobian.  That is a symmetric matrix, unless a custom
        derivative rule makes the gradient something else.

        Returns:
          As :meth:`jacobian_sparsity`.

        Raises:
          ArgumentError, PatternTooDense: as for :meth:`jacobian_sparsity`.
          TransformError: as for :meth:`grad`.
        """
        return transforms.hessian_sparsity(self, argnums)

    @derived_once
    def sparse_jacobian(
        self,
        argnums: int | Sequence[int] = 0,
        mode: str = "auto",
        *,
        format: str = "bcoo",
        chunk_size: int | None = None,
        pattern: Pattern | None = None,
    ) -> Self:
        """The Jacobian as a sparse matrix, by as few products with vectors as its pattern needs.

        A warning says so where that is most of the rows or columns, and names the ops that make the
        pattern dense.  Of a program whose shapes are symbolic it is a program at all sizes, if it
        takes the same number of products at all sizes (``pattern.colors``).

        Args:
          mode: ``"forward"`` (JVPs), ``"reverse"`` (VJPs), ``"both"``, or ``"auto"``: the fewest.
          format: ``"bcoo"``, or ``"dense"`` for an array.
          chunk_size: compute so many products at a time, which bounds the memory; by default all.
          pattern: that of :meth:`jacobian_sparsity`, if it is known: it is not checked.

        Returns:
          A program of the same arguments.  It gives a matrix of ``jax.experimental.sparse.BCOO``,
          sorted by rows: those of :meth:`jacobian_sparsity`.  Where shapes are symbolic, elements
          are in the order of the pattern's pieces, and some may be padding.

        Raises:
          ArgumentError: an option is wrong, an argument is complex, or the number of products
            depends on symbolic sizes.
          TransformError, PatternTooDense: as for :meth:`jacobian_sparsity`.
        """
        found = self.jacobian_sparsity(argnums) if pattern is None else pattern
        options = (argnums, mode, format, chunk_size, found)
        return transforms.sparse_matrix(self, *options, "sparse_jacobian")

    @derived_once
    def sparse_hessian(
        self,
        argnums: int | Sequence[int] = 0,
        mode: str = "auto",
        *,
        format: str = "bcoo",
        chunk_size: int | None = None,
        pattern: Pattern | None = None,
    ) -> Self:
        """The Hessian as a sparse matrix: the sparse Jacobian of the gradient, told by symmetry.

        Args and result are those of :meth:`sparse_jacobian`; the products are those with the
        Hessian, ``"forward"`` over reverse or reverse over ``"reverse"``.

        Raises:
          ArgumentError, TransformError, PatternTooDense: as for :meth:`hessian_sparsity` and
            :meth:`sparse_jacobian`.
        """
        found = self.hessian_sparsity(argnums) if pattern is None else pattern
        options = (argnums, mode, format, chunk_size, found)
        return transforms.sparse_matrix(self.grad(argnums), *options, "sparse_hessian")

    @derived_once
    def laplacian(self, argnums: int | Sequence[int] = 0) -> Self:
        """The Laplacian of each element of the result, in one pass forward.

        It is the sum of the second derivatives in all elements of the arguments ``argnums``, each
        twice: the trace of the Hessian, of which nothing is computed.  With each value go its first
        derivatives, so the memory is that of :meth:`jacfwd`.

        Returns:
          A program of the same arguments.  It gives what has the pytree and shapes of the result.

        Raises:
          ArgumentError: ``argnums`` names no argument, or one is not of real numbers.
          TransformError, EvaluationError: an op cannot be differentiated; names it.
        """
        return transforms.laplacian(self, argnums)

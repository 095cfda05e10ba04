"""Sparse Jacobians and Hessians of programs, by products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import ArgumentError
from jaxmlir.program.transforms.derivatives import composed
from jaxmlir.program.transforms.ends import leaves_of, to_differentiate
from jaxmlir.support.options import integer
from jaxmlir.support.warn import warn

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO

    from jaxmlir.program.program import Program
    from jaxmlir.sparse.coloring import Coloring
    from jaxmlir.sparse.pattern import SparsityPattern


def jacobian_sparsity(program: Program, argnums: int | Sequence[int]) -> SparsityPattern:
    """The pattern of :meth:`Program.jacobian_sparsity`."""
    from jaxmlir.sparse import detect

    return detect.jacobian_sparsity(program, program.name, _leaves(program, argnums))


def hessian_sparsity(program: Program, argnums: int | Sequence[int]) -> SparsityPattern:
    """The pattern of :meth:`Program.hessian_sparsity`."""
    from jaxmlir.sparse import detect

    return detect.hessian_sparsity(program, program.name, _leaves(program, argnums))


def jacobian(fun: Callable[..., Any], *args: Any, argnums: int | Sequence[int] = 0) -> BCOO:
    """The sparse Jacobian of a function at some arguments; prints what was done for it.

    ::

        >>> jaxmlir.jacobian(f, x)
        jacobian of f: 10000 x 10000, 29998 elements; 3 JVPs instead of 10000

    ``jaxmlir.trace(f)(x).sparse_jacobian()`` is the program that computes it for other arguments.

    Args:
      fun: a function, or a program.

    Returns:
      A BCOO matrix, as of :meth:`Program.sparse_jacobian`.

    Raises:
      ArgumentError, TransformError, PatternTooDense: as of that.
    """
    from jaxmlir.program.program import Program
    from jaxmlir.program.staging import trace

    program = fun if isinstance(fun, Program) else trace(fun)(*args)
    pattern = program.jacobian_sparsity(argnums)
    coloring = pattern.coloring(_mode(program, "auto"))
    m, n = pattern.shape
    print(
        f"jacobian of {program.name}: {m} x {n}, {pattern.nnz} elements; "
        f"{coloring} instead of {min(m, n)}"
    )
    return program.sparse_jacobian(argnums, pattern=pattern)(*args)


def _leaves(program: Program, argnums: int | Sequence[int]) -> list[int]:
    args_tree = program.in_tree.children()[0]
    return leaves_of(args_tree, to_differentiate(argnums, args_tree))


def _has_op(program: Program, names: frozenset[str]) -> bool:
    with scope():
        functions = program.functions.values()
        return any(name in names for function in functions for _, name in named_ops(function))


def _mode(program: Program, mode: str) -> str:
    """The mode that is meant, where some op can be differentiated in one mode only."""
    if mode != "auto":
        return mode
    if _has_op(program, _REVERSE_ONLY):
        return "reverse"
    return "forward" if _has_op(program, _FORWARD_ONLY) else mode


_REVERSE_ONLY = frozenset({"jaxpr.custom_vjp_call_jaxpr", "jaxpr.custom_lin"})
_FORWARD_ONLY = frozenset({"jaxpr.while"})


def sparse_matrix(
    program: Program,
    argnums: int | Sequence[int],
    mode: str,
    format: str,
    chunk_size: int | None,
    pattern: SparsityPattern,
    name: str,
) -> Program:
    """The program that computes the matrix of a pattern: the Jacobian of ``program``."""
    if format not in ("bcoo", "dense"):
        raise ArgumentError(f"format: expected 'bcoo' or 'dense', got {format!r}")
    if chunk_size is not None and (integer(chunk_size) or 0) < 1:
        raise ArgumentError(f"chunk_size: expected a positive number or None, got {chunk_size!r}")
    for i in _leaves(program, argnums):
        if not jax.dtypes.issubdtype(program.in_avals[i].dtype, np.floating):
            raise ArgumentError(
                f"{name} of @{program.name}: expected arguments of real numbers to differentiate "
                f"in, got {program.in_avals[i].str_short()}"
            )
    coloring = pattern.coloring(_mode(program, mode))
    _warn_if_dense(program, pattern, coloring, name)
    positions = to_differentiate(argnums, program.in_tree.children()[0])
    compute = _Compression(program, positions, coloring, pattern, chunk_size)
    return composed(program, name, compute.as_dense if format == "dense" else compute.as_bcoo)


def _warn_if_dense(
    program: Program, pattern: SparsityPattern, coloring: Coloring, name: str
) -> None:
    fewest = min(pattern.shape)
    if fewest > _FEW and 2 * coloring.total > fewest:
        reasons = "".join(f"\n{reason}" for reason in pattern.reasons)
        warn(
            f"{name} of @{program.name} takes {coloring} for {fewest} rows or columns: its "
            f"pattern is dense{reasons}"
        )


_FEW = 16
"""Smaller matrices may be dense."""


class _Compression:
    """A matrix, from its products with sums of unit vectors of one colour."""

    def __init__(
        self,
        program: Program,
        positions: Sequence[int],
        coloring: Coloring,
        pattern: SparsityPattern,
        chunk_size: int | None,
    ):
        self.program, self.positions, self.chunk_size = program, positions, chunk_size
        self.coloring, self.shape = coloring, pattern.shape
        self.rows, self.cols = pattern.rows, pattern.cols

    def as_bcoo(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix in the format of ``jax.experimental.sparse``."""
        from jax.experimental.sparse import BCOO

        data = self.elements(args, kwargs)
        indices = jax.numpy.asarray(np.stack([self.rows, self.cols], axis=1).astype(np.int32))
        options: Any = {"indices_sorted": True, "unique_indices": True}
        return BCOO((data, indices), shape=self.shape, **options)

    def as_dense(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix as an array."""
        data = self.elements(args, kwargs)
        zeros = jax.numpy.zeros(self.shape, data.dtype)
        options: Any = {"indices_are_sorted": True, "unique_indices": True}
        return zeros.at[self.rows, self.cols].set(data, **options)

    def elements(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The elements of the pattern, in row-major order."""
        chosen = [args[i] for i in self.positions]

        def function(*xs: Any) -> Any:
            given = list(args)
            for i, x in zip(self.positions, xs, strict=True):
                given[i] = x
            return self.program(*given, **kwargs)

        given = [*self.program.out_avals, *jax.tree.leaves(chosen)]
        dtype = jax.numpy.result_type(*(x.dtype for x in given if _is_inexact(x)))
        parts = []
        if self.coloring.forward:
            parts.append(self._forward(function, chosen, dtype))
        if self.coloring.reverse:
            parts.append(self._reverse(function, chosen, dtype))
        if not parts:
            return jax.numpy.zeros(0, dtype)
        source = self.coloring.source
        if len(parts) == 1:
            # One product for each row, as it were: XLA fuses it into the gather, which then is all
            # there is to do.
            places = np.stack(np.divmod(source, max(1, parts[0].shape[1])), axis=1)
            return self._substituted(_gathered(parts[0], places))
        flat = jax.numpy.concatenate([x.reshape(-1) for x in parts])
        return _gathered(flat, source[:, None])

    def _substituted(self, terms: Any) -> Any:
        """The elements that are sums of terms of products."""
        sums = self.coloring.substitution
        if sums is None:
            return terms
        zeros = jax.numpy.zeros(len(self.rows), terms.dtype)
        signed = terms * sums.sign.astype(terms.dtype)
        options: Any = {"indices_are_sorted": True, "mode": "promise_in_bounds"}
        return zeros.at[sums.element].add(signed, **options)

    def _forward(self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any) -> Any:
        """The products from the right: ``[colours, rows]``."""
        _, push = jax.linearize(function, *chosen)
        leaves, tree = jax.tree.flatten(tuple(chosen))

        def product(seeds: Sequence[Any]) -> Any:
            return _joined(push(*jax.tree.unflatten(tree, seeds)), dtype)

        return self._of_each(product, self.coloring.columns, leaves)

    def _reverse(self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any) -> Any:
        """The products from the left: ``[colours, columns]``."""
        result, pull = jax.vjp(function, *chosen)
        leaves, tree = jax.tree.flatten(result)

        def product(seeds: Sequence[Any]) -> Any:
            return _joined(pull(jax.tree.unflatten(tree, seeds)), dtype)

        return self._of_each(product, self.coloring.rows, leaves)

    def _of_each(
        self, product: Callable[[Any], Any], colors: np.ndarray, leaves: Sequence[Any]
    ) -> Any:
        """The products with the sums of unit vectors of each colour."""
        numbers = np.arange(colors.max() + 1, dtype=np.int32)
        if self.chunk_size is None or self.chunk_size >= len(numbers):
            # As constants: what an op makes of them, XLA computes when it compiles.
            seeds = _seeds(colors[None, :], numbers[:, None], leaves)
            return jax.vmap(product)(seeds)
        of_colors = jax.numpy.asarray(colors.astype(np.int32))
        return jax.lax.map(
            lambda c: product(_seeds(of_colors[None, :], c[None, None], leaves, alone=True)),
            jax.numpy.asarray(numbers),
            batch_size=integer(self.chunk_size),
        )


def _gathered(array: Any, places: np.ndarray) -> Any:
    """The elements at some places, which are in bounds."""
    axes = tuple(range(array.ndim))
    numbers = jax.lax.GatherDimensionNumbers((), axes, axes)
    kind = np.int32 if array.size < 2**31 else np.int64
    ones, mode = (1,) * array.ndim, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return jax.lax.gather(array, places.astype(kind), numbers, ones, mode=mode)


def _is_inexact(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, np.inexact)


def _seeds(colors: Any, numbers: Any, leaves: Sequence[Any], *, alone: bool = False) -> list[Any]:
    """The sums of the unit vectors of some colours, as arrays like ``leaves``.

    Args:
      alone: there is one colour, and no axis for it.
    """
    chosen, found, start = colors == numbers, [], 0
    for leaf in leaves:
        shape = leaf.shape if alone else (len(chosen), *leaf.shape)
        part = chosen[:, start : start + leaf.size].reshape(shape)
        start += leaf.size
        if _is_inexact(leaf):
            found.append(jax.numpy.asarray(part).astype(leaf.dtype))
        else:
            found.append(np.zeros(shape, jax.dtypes.float0))
    return found


def _joined(tree: Any, dtype: Any) -> Any:
    """The elements of all arrays; those that have no derivative are 0."""
    leaves = [
        leaf.reshape(-1).astype(dtype) if _is_inexact(leaf) else jax.numpy.zeros(leaf.size, dtype)
        for leaf in jax.tree.leaves(tree)
    ]
    return jax.numpy.concatenate(leaves) if len(leaves) != 1 else leaves[0]

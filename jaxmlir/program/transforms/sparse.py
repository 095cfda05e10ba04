"""Sparse Jacobians and Hessians of programs, computed by products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import ArgumentError
from jaxmlir.program.transforms.compression import (
    ColoredCompression,
    Compression,
    StencilCompression,
)
from jaxmlir.program.transforms.derivatives import composed
from jaxmlir.program.transforms.ends import argnum_leaves, to_differentiate
from jaxmlir.sparse import detect
from jaxmlir.sparse.coloring import Coloring
from jaxmlir.sparse.pattern import SparsityPattern
from jaxmlir.sparse.symbolic import Stencil, SymbolicPattern
from jaxmlir.support.options import integer
from jaxmlir.support.warn import warn

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO

    from jaxmlir.program.program import Program
    from jaxmlir.sparse.detect import Pattern


def jacobian_sparsity(program: Program, argnums: int | Sequence[int]) -> Pattern:
    """The pattern that :meth:`Program.jacobian_sparsity` returns."""
    return detect.jacobian_sparsity(program, program.name, argnum_leaves(program, argnums))


def hessian_sparsity(program: Program, argnums: int | Sequence[int]) -> Pattern:
    """The pattern that :meth:`Program.hessian_sparsity` returns."""
    return detect.hessian_sparsity(program, program.name, argnum_leaves(program, argnums))


def jacobian(fun: Callable[..., Any], *args: Any, argnums: int | Sequence[int] = 0) -> BCOO:
    """The sparse Jacobian of a function at some arguments; prints its size and cost.

    ::

        >>> jaxmlir.jacobian(f, x)
        jacobian of f: 10000 x 10000, 29998 elements; 3 JVPs instead of 10000

    ``jaxmlir.trace(f)(x).sparse_jacobian()`` is a program that computes it for other arguments.

    Args:
      fun: a function, or a program.

    Returns:
      A BCOO matrix, as :meth:`Program.sparse_jacobian` gives it.

    Raises:
      ArgumentError, TransformError, PatternTooDense: as for :meth:`Program.sparse_jacobian`.
    """
    from jaxmlir.program.program import Program
    from jaxmlir.program.specialize import is_symbolic
    from jaxmlir.program.staging import trace

    program = fun if isinstance(fun, Program) else trace(fun)(*args)
    if any(map(is_symbolic, program.in_avals)):
        program = program.specialize(*args)
    pattern = program.jacobian_sparsity(argnums)
    coloring = pattern.coloring(_mode(program, "auto"))
    m, n = pattern.shape
    print(
        f"jacobian of {program.name}: {m} x {n}, {pattern.nnz} elements; "
        f"{coloring} instead of {min(m, n)}"
    )
    return program.sparse_jacobian(argnums, pattern=pattern)(*args)


def _has_op(program: Program, names: frozenset[str]) -> bool:
    with scope():
        functions = program.functions.values()
        return any(name in names for function in functions for _, name in named_ops(function))


def _mode(program: Program, mode: str) -> str:
    """The mode that ``"auto"`` stands for, where an op can be differentiated in one mode only."""
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
    pattern: Pattern,
    name: str,
) -> Program:
    """The program that computes the Jacobian of ``program``, which has the given pattern."""
    if format not in ("bcoo", "dense"):
        raise ArgumentError(f"format: expected 'bcoo' or 'dense', got {format!r}")
    if chunk_size is not None and (integer(chunk_size) or 0) < 1:
        raise ArgumentError(f"chunk_size: expected a positive number or None, got {chunk_size!r}")
    if not isinstance(pattern, SparsityPattern | SymbolicPattern):
        raise ArgumentError(f"pattern: expected that of jacobian_sparsity, got {pattern!r}")
    argnum_leaves(program, argnums, real_for=name)
    positions = to_differentiate(argnums, program.in_tree.children()[0])
    compute: Compression
    if isinstance(pattern, SymbolicPattern):
        stencil = _stencil_of(program, _mode(program, mode), pattern, name)
        compute = StencilCompression(program, positions, pattern, chunk_size, stencil)
    else:
        coloring = pattern.coloring(_mode(program, mode))
        _warn_if_dense(program, pattern, coloring, name)
        compute = ColoredCompression(program, positions, pattern, chunk_size, coloring)
    return composed(program, name, compute.as_dense if format == "dense" else compute.as_bcoo)


def _stencil_of(program: Program, mode: str, pattern: SymbolicPattern, name: str) -> Stencil:
    """The products that determine the matrix at all sizes.

    Raises:
      ArgumentError: their number depends on the sizes; the message suggests ``specialize``.
    """
    stencil = pattern.stencil
    if stencil is not None and mode in ("auto", "forward"):
        return stencil
    why = "the number of products that it takes may depend on the sizes"
    if stencil is not None:
        why = f"expected mode 'auto' or 'forward', got {mode!r}"
    reasons = "".join(f"\n{reason}" for reason in pattern.reasons)
    raise ArgumentError(
        f"{name} of @{program.name}, whose shapes are symbolic: {why}; "
        f"use program.specialize(...).{name}() for given sizes{reasons}"
    )


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
"""No warning for matrices with at most this many rows or columns."""

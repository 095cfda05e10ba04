"""Sparse Jacobians and Hessians of programs, computed by products with vectors."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import ArgumentError
from jaxmlir.program.transforms.derivatives import composed
from jaxmlir.program.transforms.ends import argnum_leaves, to_differentiate
from jaxmlir.sparse import detect
from jaxmlir.sparse.coloring import Coloring
from jaxmlir.sparse.pattern import SparsityPattern
from jaxmlir.sparse.relations import AffineSum, Piece, Size, at_most, larger
from jaxmlir.sparse.symbolic import Stencil, SymbolicPattern, may_repeat
from jaxmlir.support.options import integer
from jaxmlir.support.warn import warn

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO

    from jaxmlir.program.program import Program
    from jaxmlir.sparse.detect import Pattern


@dataclass(frozen=True, eq=False)
class Compression:
    """A Jacobian, computed from its products with vectors: sums of unit vectors of one colour.

    Attributes:
      positions: the arguments that the program is differentiated in.
      chunk_size: how many products are computed at a time; ``None`` for all.
    """

    sorted_and_unique: ClassVar[bool] = True
    """Whether entries are in row-major order, without two entries of the same element."""

    program: Program
    positions: Sequence[int]
    pattern: Any
    chunk_size: int | None

    def entries(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """The elements of the pattern, their rows and their columns."""
        raise NotImplementedError

    def as_bcoo(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix in the format of ``jax.experimental.sparse``."""
        from jax.experimental.sparse import BCOO

        data, rows, cols = self.entries(args, kwargs)
        stack = np if isinstance(rows, np.ndarray) else jnp
        indices = jnp.asarray(stack.stack([rows, cols], axis=1).astype(np.int32))
        options = dict.fromkeys(("indices_sorted", "unique_indices"), self.sorted_and_unique)
        return BCOO((data, indices), shape=self.pattern.shape, **options)

    def as_dense(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix as an array."""
        data, rows, cols = self.entries(args, kwargs)
        zeros = jnp.zeros(self.pattern.shape, data.dtype)
        options = dict.fromkeys(("indices_are_sorted", "unique_indices"), self.sorted_and_unique)
        return zeros.at[rows, cols].add(data, **options)

    def function_of(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any], Any]:
        """The program as a function of the arguments to differentiate in, these arguments, and the
        dtype of the matrix."""
        chosen = [args[i] for i in self.positions]

        def function(*xs: Any) -> Any:
            replaced = list(args)
            for i, x in zip(self.positions, xs, strict=True):
                replaced[i] = x
            return self.program(*replaced, **kwargs)

        arrays = [*self.program.out_avals, *jax.tree.leaves(chosen)]
        dtype = jnp.result_type(*(x.dtype for x in arrays if is_inexact(x)))
        return function, chosen, dtype

    def pushed(
        self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any, colors: Colors
    ) -> Any:
        """The products of the Jacobian with one vector per colour (JVPs): ``[colours, rows]``."""
        _, push = jax.linearize(function, *chosen)
        return self._products(lambda seeds: push(*seeds), tuple(chosen), dtype, colors)

    def pulled(
        self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any, colors: Colors
    ) -> Any:
        """The products of one vector per colour and the Jacobian (VJPs): ``[colours, columns]``."""
        result, pull = jax.vjp(function, *chosen)
        return self._products(pull, result, dtype, colors)

    def _products(self, linear: Callable[..., Any], like: Any, dtype: Any, colors: Colors) -> Any:
        leaves, tree = jax.tree.flatten(like)
        count, of_leaves = colors

        def product(numbers: Any) -> Any:
            seeds = jax.tree.unflatten(tree, _seeds(of_leaves, numbers, leaves))
            if not numbers.ndim:
                return _joined(linear(seeds), dtype)
            return jax.vmap(lambda seed: _joined(linear(seed), dtype))(seeds)

        numbers = np.arange(count, dtype=np.int32)
        if self.chunk_size is None or self.chunk_size >= count:
            # The seeds are constants, so XLA folds the ops on them when it compiles.
            return product(numbers)
        size = integer(self.chunk_size)
        return jax.lax.map(product, jnp.asarray(numbers), batch_size=size)


Colors = tuple[int, Sequence[Any]]
"""The number of colours, and for each array the colours of its elements."""


@dataclass(frozen=True, eq=False)
class ColoredCompression(Compression):
    """A Jacobian whose pattern is known element by element, by a colouring of the pattern."""

    pattern: SparsityPattern
    coloring: Coloring

    def entries(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        return self._elements(args, kwargs), self.pattern.rows, self.pattern.cols

    def _elements(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The elements of the pattern, in row-major order."""
        coloring, pattern = self.coloring, self.pattern
        subject = self.function_of(args, kwargs)
        parts = []
        if coloring.forward:
            colors = _of_leaves(coloring.columns, pattern.in_shapes)
            parts.append(self.pushed(*subject, (coloring.forward, colors)))
        if coloring.reverse:
            colors = _of_leaves(coloring.rows, pattern.out_shapes)
            parts.append(self.pulled(*subject, (coloring.reverse, colors)))
        if not parts:
            return jnp.zeros(0, subject[2])
        source = coloring.source
        if len(parts) == 1:
            # A gather from the array of products itself: XLA fuses their computation into it, and
            # a single kernel is left.
            places = np.stack(np.divmod(source, max(1, parts[0].shape[1])), axis=1)
            return self._substituted(gathered(parts[0], places.astype(_index(parts[0].size))))
        flat = jnp.concatenate([x.reshape(-1) for x in parts])
        return gathered(flat, source[:, None].astype(_index(flat.size)))

    def _substituted(self, terms: Any) -> Any:
        """The elements, where the colouring makes them signed sums of elements of products."""
        sums = self.coloring.substitution
        if sums is None:
            return terms
        zeros = jnp.zeros(self.pattern.nnz, terms.dtype)
        signed = terms * sums.sign.astype(terms.dtype)
        options: Any = {"indices_are_sorted": True, "mode": "promise_in_bounds"}
        return zeros.at[sums.element].add(signed, **options)


def _index(size: int) -> Any:
    return np.int32 if size < 2**31 else np.int64


def gathered(array: Any, places: Any) -> Any:
    """The elements of an array at some indices, all of which must be in bounds."""
    axes = tuple(range(array.ndim))
    numbers = jax.lax.GatherDimensionNumbers((), axes, axes)
    ones, mode = (1,) * array.ndim, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return jax.lax.gather(array, places, numbers, ones, mode=mode)


def is_inexact(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, np.inexact)


def _of_leaves(colors: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """The colours of all elements, as one array for each of ``shapes``."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(colors.astype(np.int32), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _seeds(colors: Sequence[Any], numbers: Any, leaves: Sequence[Any]) -> list[Any]:
    """The sums of the unit vectors of some colours (``numbers``: several, or a single one), as
    arrays like ``leaves``, whose elements have the given colours."""
    seeds = []
    for of_leaf, leaf in zip(colors, leaves, strict=True):
        chosen = of_leaf == numbers.reshape(*numbers.shape, *(1,) * leaf.ndim)
        if is_inexact(leaf):
            seeds.append(jnp.asarray(chosen).astype(leaf.dtype))
        else:
            seeds.append(np.zeros(chosen.shape, jax.dtypes.float0))
    return seeds


def _joined(tree: Any, dtype: Any) -> Any:
    """The elements of all arrays as one vector, with 0 for arrays whose dtype has no derivative."""
    leaves = [
        leaf.reshape(-1).astype(dtype) if is_inexact(leaf) else jnp.zeros(leaf.size, dtype)
        for leaf in jax.tree.leaves(tree)
    ]
    return jnp.concatenate(leaves) if len(leaves) != 1 else leaves[0]


# --- at all sizes ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StencilCompression(Compression):
    """A Jacobian that is computed at all sizes.  Its entries are in the order of the pattern's
    pieces, e.g. diagonal by diagonal.  An entry whose element is in an earlier piece, or outside
    its own piece, is padding as in JAX: a 0 with an index out of bounds."""

    sorted_and_unique: ClassVar[bool] = False

    pattern: SymbolicPattern
    stencil: Stencil

    def entries(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        shapes = self.pattern.in_shapes
        starts = _starts(shapes)
        of_columns = [
            self._colors(k, [_line(shape, d) for d in range(len(shape))], shape)
            for k, shape in enumerate(shapes)
        ]
        colors = self.stencil.colors, of_columns
        products = self.pushed(*self.function_of(args, kwargs), colors)
        parts: list[list[Any]] = [[jnp.zeros(0, np.int32)] for _ in range(3)]
        masks: list[Any] = [jnp.zeros(0, bool)]
        before = _starts(self.pattern.out_shapes)
        of_results = zip(self.stencil.pieces, self.pattern.out_shapes, before, strict=True)
        for pieces, shape, first in of_results:
            for i, piece in enumerate(pieces):
                grid, k = _Grid(piece, shape), piece.argument
                in_index = [grid.at(x) for x in piece.read]
                coordinates = (
                    _number([grid.at(x) for x in piece.result], shape, first),
                    _number(in_index, shapes[k], starts[k]),
                    self._colors(k, in_index, grid.shape),
                )
                for part, numbers in zip(parts, coordinates, strict=True):
                    part.append(grid.flat(numbers))
                again = [~grid.has(x) for x in pieces[:i] if may_repeat(x, piece)]
                masks.append(grid.flat(functools.reduce(operator.and_, again, grid.inside)))
        rows, columns, of_each = map(jnp.concatenate, parts)
        data = gathered(products, jnp.stack([of_each, rows], axis=1))
        is_kept = jnp.concatenate(masks)
        return (
            jnp.where(is_kept, data, jnp.zeros((), data.dtype)),
            *(
                jnp.where(is_kept, numbers, _value(size))
                for numbers, size in zip((rows, columns), self.pattern.shape, strict=True)
            ),
        )

    def _colors(self, argument: int, point: Sequence[Any], shape: Sequence[Size]) -> Any:
        """The colours of elements of an argument; ``point`` has their index along each axis."""
        first, factors, count = self.stencil.lattices[argument]
        color: Any = 0
        for index, factor in zip(point, factors, strict=True):
            color = color + index % max(1, count) * factor
        color = first + color % max(1, count)
        others = self.stencil.colors - len(self.stencil.alone)
        for number, (which, column) in enumerate(self.stencil.alone, others):
            if which == argument:
                pairs = zip(point, column, strict=True)
                is_it = functools.reduce(operator.and_, (x == _value(size) for x, size in pairs))
                color = jnp.where(is_it, number, color)
        return jnp.broadcast_to(jnp.asarray(color, np.int32), tuple(shape))


class _Grid:
    """The elements of a piece, as an array with an axis for each parameter.

    JAX may be unable to prove that its size is not negative.  Then the array covers the whole axes
    of the result, and a mask selects the elements of the piece.

    Attributes:
      inside: the mask: which elements belong to the piece.
    """

    def __init__(self, piece: Piece, of_result: Sequence[Size]):
        self.piece = piece
        self.starts = [low for low, _ in piece.ranges]
        self.shape = tuple(larger(0, high - low) for low, high in piece.ranges)
        self.inside: Any = np.bool_(True)
        if not at_most(0, math.prod(self.shape)):
            pairs = zip(piece.result, of_result, strict=True)
            sizes = {x.terms[0][0]: n for x, n in pairs if x.terms}
            self.starts = [0] * len(piece.ranges)
            self.shape = tuple(sizes[t] for t in range(len(piece.ranges)))
            for t, (low, high) in enumerate(piece.ranges):
                index = _line(self.shape, t)
                self.inside = self.inside & (index >= _value(low)) & (index < _value(high))

    def at(self, sum_: AffineSum) -> Any:
        """The value of an index, an affine sum of the parameters, for each element."""
        index: Any = _value(sum_.constant)
        for t, c in sum_.terms:
            index = index + _value(c) * (_line(self.shape, t) + _value(self.starts[t]))
        return index

    def has(self, other: Piece) -> Any:
        """Which elements are in another piece as well."""
        indices = [self.at(x) for x in self.piece.result]
        put: dict[int, Any] = {}
        same: Any = True
        for index, x in zip(indices, other.result, strict=True):
            if not x.terms:
                same = same & (index == _value(x.constant))
                continue
            ((t, _),) = x.terms
            put[t] = index - _value(x.constant)
            low, high = other.ranges[t]
            same = same & (put[t] >= _value(low)) & (put[t] < _value(high))
        for ours, x in zip(self.piece.read, other.read, strict=True):
            theirs: Any = _value(x.constant)
            for t, c in x.terms:
                theirs = theirs + _value(c) * put[t]
            same = same & (self.at(ours) == theirs)
        return same

    def flat(self, numbers: Any) -> Any:
        return jnp.broadcast_to(jnp.asarray(numbers), self.shape).reshape(math.prod(self.shape))


def _line(shape: Sequence[Size], d: int) -> Any:
    """The indices along an axis."""
    return jax.lax.broadcasted_iota(np.int32, tuple(shape), d)


def _value(size: Size) -> Any:
    """A size as a number."""
    return np.int32(size) if core.is_constant_dim(size) else jnp.asarray(size, np.int32)


def _starts(shapes: Sequence[Sequence[Size]]) -> list[Size]:
    """The flat number of the first element of each array."""
    return [sum(map(math.prod, shapes[:k])) for k in range(len(shapes))]


def _number(point: Sequence[Any], shape: Sequence[Size], start: Size) -> Any:
    """The flat number of elements, from their index along each axis."""
    number: Any = np.int32(0)
    for index, size in zip(point, shape, strict=True):
        number = number * _value(size) + index
    return number + _value(start)


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
    from jaxmlir.program.staging import trace

    program = fun if isinstance(fun, Program) else trace(fun)(*args)
    if program.is_symbolic:
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
    """The products that determine the matrix at all sizes; fails if their number depends on the
    sizes."""
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

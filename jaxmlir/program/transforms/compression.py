"""Matrices of derivatives from few products with vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from jaxmlir.support.options import integer

if TYPE_CHECKING:
    from jaxmlir.program.program import Program
    from jaxmlir.sparse.coloring import Coloring
    from jaxmlir.sparse.pattern import SparsityPattern


@dataclass(frozen=True, eq=False)
class Compression:
    """A matrix, from its products with sums of unit vectors of one colour.

    Attributes:
      positions: the arguments that it is differentiated in.
      chunk_size: compute so many products at a time.
    """

    sorted_and_unique: ClassVar[bool] = True
    """Whether entries are in row-major order, and no two are of the same element."""

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
        stack = np if isinstance(rows, np.ndarray) else jax.numpy
        indices = jax.numpy.asarray(stack.stack([rows, cols], axis=1).astype(np.int32))
        options = dict.fromkeys(("indices_sorted", "unique_indices"), self.sorted_and_unique)
        return BCOO((data, indices), shape=self.pattern.shape, **options)

    def as_dense(self, *args: Any, **kwargs: Any) -> Any:
        """The matrix as an array."""
        data, rows, cols = self.entries(args, kwargs)
        zeros = jax.numpy.zeros(self.pattern.shape, data.dtype)
        options = dict.fromkeys(("indices_are_sorted", "unique_indices"), self.sorted_and_unique)
        return zeros.at[rows, cols].add(data, **options)

    def function_of(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any], Any]:
        """The program as a function of the arguments that it is differentiated in, these, and the
        dtype of the matrix."""
        chosen = [args[i] for i in self.positions]

        def function(*xs: Any) -> Any:
            replaced = list(args)
            for i, x in zip(self.positions, xs, strict=True):
                replaced[i] = x
            return self.program(*replaced, **kwargs)

        arrays = [*self.program.out_avals, *jax.tree.leaves(chosen)]
        dtype = jax.numpy.result_type(*(x.dtype for x in arrays if is_inexact(x)))
        return function, chosen, dtype

    def pushed(
        self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any, colors: Colors
    ) -> Any:
        """The products from the right: ``[colours, rows]``."""
        _, push = jax.linearize(function, *chosen)
        return self._products(lambda seeds: push(*seeds), tuple(chosen), dtype, colors)

    def pulled(
        self, function: Callable[..., Any], chosen: Sequence[Any], dtype: Any, colors: Colors
    ) -> Any:
        """The products from the left: ``[colours, columns]``."""
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
            # As constants: what an op makes of them, XLA computes when it compiles.
            return product(numbers)
        size = integer(self.chunk_size)
        return jax.lax.map(product, jax.numpy.asarray(numbers), batch_size=size)


Colors = tuple[int, Sequence[Any]]
"""How many there are, and those of the elements of arrays."""


@dataclass(frozen=True, eq=False)
class ColoredCompression(Compression):
    """A matrix at given sizes, of which a colouring says how its products tell it."""

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
            return jax.numpy.zeros(0, subject[2])
        source = coloring.source
        if len(parts) == 1:
            # One product for each row, as it were: XLA fuses it into the gather, which then is all
            # there is to do.
            places = np.stack(np.divmod(source, max(1, parts[0].shape[1])), axis=1)
            return self._substituted(gathered(parts[0], places.astype(_index(parts[0].size))))
        flat = jax.numpy.concatenate([x.reshape(-1) for x in parts])
        return gathered(flat, source[:, None].astype(_index(flat.size)))

    def _substituted(self, terms: Any) -> Any:
        """The elements that are sums of terms of products."""
        sums = self.coloring.substitution
        if sums is None:
            return terms
        zeros = jax.numpy.zeros(self.pattern.nnz, terms.dtype)
        signed = terms * sums.sign.astype(terms.dtype)
        options: Any = {"indices_are_sorted": True, "mode": "promise_in_bounds"}
        return zeros.at[sums.element].add(signed, **options)


def _index(size: int) -> Any:
    return np.int32 if size < 2**31 else np.int64


def gathered(array: Any, places: Any) -> Any:
    """The elements at some places, which are in bounds."""
    axes = tuple(range(array.ndim))
    numbers = jax.lax.GatherDimensionNumbers((), axes, axes)
    ones, mode = (1,) * array.ndim, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return jax.lax.gather(array, places, numbers, ones, mode=mode)


def is_inexact(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, np.inexact)


def _of_leaves(colors: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Colours of all elements, as arrays."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(colors.astype(np.int32), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _seeds(colors: Sequence[Any], numbers: Any, leaves: Sequence[Any]) -> list[Any]:
    """The sums of the unit vectors of some colours, as arrays like ``leaves``.

    Args:
      colors: of the elements of these.
      numbers: of colours, ``[colours]``, or of one.
    """
    seeds = []
    for of_leaf, leaf in zip(colors, leaves, strict=True):
        chosen = of_leaf == numbers.reshape(*numbers.shape, *(1,) * leaf.ndim)
        if is_inexact(leaf):
            seeds.append(jax.numpy.asarray(chosen).astype(leaf.dtype))
        else:
            seeds.append(np.zeros(chosen.shape, jax.dtypes.float0))
    return seeds


def _joined(tree: Any, dtype: Any) -> Any:
    """The elements of all arrays; those that have no derivative are 0."""
    leaves = [
        leaf.reshape(-1).astype(dtype) if is_inexact(leaf) else jax.numpy.zeros(leaf.size, dtype)
        for leaf in jax.tree.leaves(tree)
    ]
    return jax.numpy.concatenate(leaves) if len(leaves) != 1 else leaves[0]

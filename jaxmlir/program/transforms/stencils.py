"""Sparse Jacobians of programs of symbolic shapes, by so many products at all sizes."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir._compat import core
from jaxmlir.program.transforms.compression import Compression, gathered
from jaxmlir.sparse.relations import AffineSum, Piece, Size, at_most, larger
from jaxmlir.sparse.symbolic import Stencil, SymbolicPattern, may_repeat


@dataclass(frozen=True, eq=False)
class StencilCompression(Compression):
    """A matrix at all sizes.

    Its elements are in the order of the pattern's pieces, diagonal by diagonal, say.  An element
    that is in an earlier piece, or in none, is 0 and has an index out of bounds: JAX's padding.
    """

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
        """The colours of points of an argument's grid."""
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

    Where JAX does not see that there are not fewer than none of them, they are among all the rows.

    Attributes:
      inside: which elements are the piece's.
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
        """An index, of each element."""
        index: Any = _value(sum_.constant)
        for t, c in sum_.terms:
            index = index + _value(c) * (_line(self.shape, t) + _value(self.starts[t]))
        return index

    def has(self, other: Piece) -> Any:
        """Which elements another piece has, too."""
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
    """The flat number of an element."""
    number: Any = np.int32(0)
    for index, size in zip(point, shape, strict=True):
        number = number * _value(size) + index
    return number + _value(start)

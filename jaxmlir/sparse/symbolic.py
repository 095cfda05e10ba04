"""``SymbolicPattern``: the pattern of a matrix of derivatives at all sizes of symbolic shapes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.errors import ArgumentError, Diagnostic
from jaxmlir.rewriting.sizes import evaluate
from jaxmlir.sparse import coloring
from jaxmlir.sparse.index_sets import reads
from jaxmlir.sparse.pattern import SparsityPattern
from jaxmlir.sparse.relations import AffineSum, Piece, Pieces, Size, at_most, pairs_of, parameter
from jaxmlir.support.options import integer

_EXPANDED = 16
"""A parameter with at most this many values, at all sizes, can become one piece for each value."""
_COLORS = 64


class SymbolicPattern:
    """The pattern of a Jacobian, or of a Hessian, of a program with symbolic shapes.

    Rows and columns are those of :class:`SparsityPattern`, at any sizes.

    Args:
      pieces: for each result, the inputs that its elements depend on.
      in_shapes, out_shapes: the shapes of the arrays whose elements are the columns and the rows.
      symmetric: whether the matrix is symmetric.
      reasons: the ops that made it dense, each with the user's line.
    """

    def __init__(
        self,
        pieces: Sequence[Pieces],
        in_shapes: Sequence[Sequence[Size]],
        out_shapes: Sequence[Sequence[Size]],
        *,
        symmetric: bool = False,
        reasons: Sequence[Diagnostic] = (),
    ):
        self.pieces: tuple[Pieces, ...] = tuple(pieces)
        self.in_shapes: tuple[tuple[Size, ...], ...] = tuple(map(tuple, in_shapes))
        self.out_shapes: tuple[tuple[Size, ...], ...] = tuple(map(tuple, out_shapes))
        self.symmetric = symmetric
        self.reasons: tuple[Diagnostic, ...] = tuple(reasons)

    @property
    def shape(self) -> tuple[Size, Size]:
        """The numbers of rows and columns."""
        rows, columns = (sum(map(math.prod, x)) for x in (self.out_shapes, self.in_shapes))
        return rows, columns

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the dimension variables."""
        return tuple(sorted({name for size in self._symbolic() for name in size._get_vars()}))

    def _symbolic(self) -> list[Any]:
        sizes = [size for shape in (*self.in_shapes, *self.out_shapes) for size in shape]
        for piece in (piece for pieces in self.pieces for piece in pieces):
            ends = (*piece.ranges, *(condition[1:] for condition in piece.conditions))
            sizes += [size for pair in ends for size in pair]
            sums = (*piece.result, *piece.read, *(x for x, *_ in piece.conditions))
            sizes += [size for x in sums for size in (x.constant, *(c for _, c in x.terms))]
        return [size for size in sizes if not core.is_constant_dim(size)]

    def at(self, **sizes: int) -> SparsityPattern:
        """The pattern at given sizes of the dimension variables: ``pattern.at(n=1000)``.

        Raises:
          ArgumentError: a variable has no size, or a name is no variable, or sizes violate the
            constraints of the shapes.
          PatternTooDense: there are more elements than the limit.
        """
        if {*sizes} != {*self.variables} or any((integer(n) or -1) < 0 for n in sizes.values()):
            sizes_text = ", ".join(f"{name}={size!r}" for name, size in sizes.items())
            raise ArgumentError(
                f"a pattern at given sizes: expected a positive integer for each of "
                f"{', '.join(self.variables)}, got {sizes_text or 'none'}"
            )
        for constraint in (
            x for size in self._symbolic()[:1] for x in size.scope._explicit_constraints
        ):
            rest = evaluate(constraint.diff, sizes)
            if at_most(rest, -1) or (constraint.cmp.name == "EQ" and at_most(1, rest)):
                raise ArgumentError(
                    "a pattern at given sizes: they violate the constraint "
                    f"'{constraint.debug_str}' of the shapes that the program was traced for"
                )
        in_shapes, out_shapes = (
            [tuple(int(evaluate(size, sizes)) for size in shape) for shape in shapes]
            for shapes in (self.in_shapes, self.out_shapes)
        )
        starts = np.cumsum([0, *map(math.prod, in_shapes)])
        firsts = np.cumsum([0, *map(math.prod, out_shapes)])
        shape = int(firsts[-1]), int(starts[-1])
        rows, columns = [np.zeros(0, int)], [np.zeros(0, int)]
        for first, of_result, pieces in zip(firsts, out_shapes, self.pieces, strict=False):
            for piece in pieces:
                which = piece.argument
                row, column = pairs_of(piece, of_result, in_shapes[which], sizes)
                rows.append(row + first)
                columns.append(column + starts[which])
        matrix = reads(np.concatenate(rows), np.concatenate(columns), *shape)
        return SparsityPattern.of_matrix(
            matrix,
            in_shapes=in_shapes,
            out_shapes=out_shapes,
            symmetric=self.symmetric,
            reasons=self.reasons,
        )

    # -- stencils --

    @functools.cached_property
    def stencil(self) -> Stencil | None:
        """The products with vectors that determine the matrix at all sizes; ``None`` if their
        number depends on the sizes, or may do so."""
        return _stencil(self)

    @property
    def colors(self) -> int | None:
        """The number of products with vectors that determine the matrix at all sizes: JVPs, by a
        colouring of the columns; ``None`` if it depends on the sizes, or may do so."""
        return None if self.stencil is None else self.stencil.colors

    # -- pictures --

    def __repr__(self) -> str:
        m, n = self.shape
        said = f"{self.colors} JVPs" if self.colors else f"{sum(map(len, self.pieces))} pieces"
        diagonals = self._diagonals()
        said = f"diagonals {diagonals}, {said}" if diagonals else said
        return f"<SymbolicPattern {_product(m)} x {_product(n)}: {said}>"

    def _diagonals(self) -> str:
        """``'-1, 0, 1'``: the offsets from row to column, if both are points of the same grid."""
        if len(self.pieces) != 1 or self.in_shapes != self.out_shapes:
            return ""
        offsets = []
        for piece in self.pieces[0]:
            apart = [x.plus(y, -1) for x, y in zip(piece.read, piece.result, strict=True)]
            if piece.conditions or any(x.terms for x in apart):
                return ""
            offsets.append(tuple(x.constant for x in apart))
        if all(map(core.is_constant_shape, offsets)):
            offsets = sorted(set(offsets))
        if offsets and len(offsets[0]) == 1:
            return ", ".join(str(x) for (x,) in offsets)
        return ", ".join(f"({', '.join(map(str, x))})" for x in offsets)

    def __str__(self) -> str:
        """The pieces, one per line, with :attr:`reasons` below."""
        lines = [repr(self)]
        for i, pieces in enumerate(self.pieces):
            for piece in pieces:
                result = f"result {i} " if len(self.pieces) > 1 else ""
                argument = f"argument {piece.argument} " if len(self.in_shapes) > 1 else ""
                lines.append(f"  {result}{_piece_text(piece, argument)}")
        return "\n".join([*lines, *map(str, self.reasons)])


def _product(size: Size) -> str:
    text = str(size)
    return f"({text})" if " " in text else text


def _piece_text(piece: Piece, argument: str) -> str:
    """A piece in words: ``[i] of [i + 1], 0 <= i < n - 1``."""
    names = [_NAMES[t] if t < len(_NAMES) else f"i{t}" for t in range(len(piece.ranges))]

    def text(sum_: AffineSum) -> str:
        parts = []
        for t, c in sum_.terms:
            factor = {"1": "", "-1": "-"}.get(str(c), f"{_product(c)}*")
            parts.append(factor + names[t])
        if not parts or not (core.is_constant_dim(sum_.constant) and sum_.constant == 0):
            parts.append(str(sum_.constant))
        return " + ".join(parts).replace("+ -", "- ")

    result, read = (", ".join(map(text, x)) for x in (piece.result, piece.read))
    pairs = zip(names, piece.ranges, strict=True)
    ranges = [f"{low} <= {name} < {high}" for name, (low, high) in pairs]
    ranges += [f"{low} <= {text(x)} < {high}" for x, low, high in piece.conditions]
    return ", ".join([f"[{result}] of {argument}[{read}]", *ranges])


_NAMES = "ijklpqrs"


# --- colours at all sizes -------------------------------------------------------------------------


class Stencil(NamedTuple):
    """A colouring of the columns that determines the matrix at all sizes.

    The colour of a point of an argument's grid is ``first + (factors . point) mod count``; some
    columns have a colour of their own.

    Attributes:
      pieces: the pieces of each result.  Each index that is read is an index of the row plus a
        number, or constant.  Pieces can overlap (:func:`may_repeat`).
      lattices: for each argument, ``(first, factors, count)``.
      alone: the columns with a colour of their own, as (argument, point), in the order of their
        colours, which are the last ones.
    """

    pieces: tuple[Pieces, ...]
    lattices: tuple[tuple[int, tuple[int, ...], int], ...]
    alone: tuple[tuple[int, tuple[Size, ...]], ...]

    @property
    def colors(self) -> int:
        return sum(count for _, _, count in self.lattices) + len(self.alone)


def _stencil(pattern: SymbolicPattern) -> Stencil | None:
    pieces = [tuple(y for x in part for y in _expanded(x)) for part in pattern.pieces]
    everything = [piece for part in pieces for piece in part]
    if any(x.conditions or not _is_translated(x) for x in everything):
        return None
    alone = dict.fromkeys(
        (x.argument, tuple(i.constant for i in x.read))
        for x in everything
        if x.read and not any(i.terms for i in x.read)
    )
    moving = [[x for x in part if any(i.terms for i in x.read) or not x.read] for part in pieces]
    lattices, first = [], 0
    for k, shape in enumerate(pattern.in_shapes):
        apart: set[tuple[int, ...]] = set()
        of_argument = [[x for x in part if x.argument == k] for part in moving]
        for a, b in (pair for part in of_argument for pair in itertools.combinations(part, 2)):
            distance = _distance(a, b)
            if distance is None:
                return None
            apart.add(distance)
        lattice = _lattice(np.array(sorted(apart - {(0,) * len(shape)})), len(shape))
        if lattice is None:
            return None
        factors, count = lattice if any(of_argument) else ((0,) * len(shape), 0)
        lattices.append((first, factors, count))
        first += count
    return Stencil(tuple(pieces), tuple(lattices), tuple(alone))


def _expanded(piece: Piece) -> Iterator[Piece]:
    """The piece itself if it :func:`_is_translated`; otherwise pieces in which numbers replace the
    parameters that take few values."""
    lengths = [high - low for low, high in piece.ranges]
    few = [t for t, n in enumerate(lengths) if core.is_constant_dim(n) and n <= _EXPANDED]
    if _is_translated(piece) or not few:
        yield piece
        return
    for numbers in itertools.product(*(range(int(lengths[t])) for t in few)):
        put = {t: AffineSum(piece.ranges[t][0] + i) for t, i in zip(few, numbers, strict=True)}
        yield piece.put(put, piece.ranges).normal()


def _is_translated(piece: Piece) -> bool:
    """Whether each index that is read is an index of the row plus a number, or constant."""
    if not all(not x.terms or x.single == (x.terms[0][0], 1) for x in piece.result):
        return False
    row_terms = {x.terms for x in piece.result if x.terms}
    return all(
        not x.terms or (x.terms in row_terms and core.is_constant_dim(x.constant))
        for x in piece.read
    )


def _distance(a: Piece, b: Piece) -> tuple[int, ...] | None:
    """The distance between the points that a row reads in two pieces: 0 if no row is in both,
    ``None`` if it differs between rows."""
    if _meet_nowhere(a, b):
        return (0,) * len(a.read)
    constants = {d: x for piece in (a, b) for d, x in enumerate(piece.result) if not x.terms}
    points = []
    for piece in (a, b):
        # Use the indices of the row as parameters, so that the sums of both can be compared.
        at = {
            t: constants.get(d, parameter(d)).plus(-x.constant)
            for d, x in enumerate(piece.result)
            for t, _ in x.terms
        }
        points.append([x.put(at) for x in piece.read])
    apart = [x.plus(y, -1) for x, y in zip(*points, strict=True)]
    if any(x.terms or not core.is_constant_dim(x.constant) for x in apart):
        return None
    return tuple(int(x.constant) for x in apart)


def may_repeat(a: Piece, b: Piece) -> bool:
    """Whether an element of a stencil may be in two of its pieces."""
    if a.argument != b.argument or _meet_nowhere(a, b):
        return False
    distance = _distance(a, b)
    return distance is None or not any(distance)


def _meet_nowhere(a: Piece, b: Piece) -> bool:
    """Whether two pieces are known to have no row in common."""
    for x, y in zip(a.result, b.result, strict=True):
        (low, high), (least, most) = ((piece.ends(z)) for piece, z in ((a, x), (b, y)))
        if at_most(high + 1, least) or at_most(most + 1, low):
            return True
    return False


def _lattice(apart: np.ndarray, rank: int) -> tuple[tuple[int, ...], int] | None:
    """Factors and a number of colours such that points at the given distances differ in colour."""
    if not apart.size:
        return (0,) * rank, 1
    for count in range(2, _COLORS):
        for factors in coloring.lattice_factors(apart, count):
            return tuple(map(int, factors)), count
    return None

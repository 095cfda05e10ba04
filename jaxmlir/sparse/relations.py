"""Which elements depend on which inputs, at all sizes at once: sets of pairs with symbolic ranges.

Elements of a value and inputs are given by their indices.  A *piece* is a set of pairs of an
element and an input: all indices are affine sums of parameters, each of which runs over a range::

    u[:-1] of u: f32[n]       value[t] reads u[t],      0 <= t < n - 1
    u[1:]                     value[t] reads u[t + 1],  0 <= t < n - 1
    sum(x, 0) of x: f32[n,m]  value[t] reads x[s, t],   0 <= t < m, 0 <= s < n

Coefficients and ends of ranges are polynomials in the dimension variables, JAX's symbolic
dimensions.  Restrictions that ranges cannot express are *conditions*: a sum is within bounds.

Some comparisons of symbolic sizes are undecidable.  Then a range or a condition that may be
redundant is kept, and so is a piece that may be empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core, shape_poly
from jaxmlir.rewriting.sizes import Sizes, evaluate, plain
from jaxmlir.sparse.index_sets import MOST, PatternTooDense

Size = Any
"""A size: a number, or a symbolic dimension."""


# --- sizes ----------------------------------------------------------------------------------------


def holds(comparison: Callable[[], Any]) -> bool:
    """Whether a comparison of sizes is known to hold at all sizes."""
    try:
        return bool(comparison())
    except core.InconclusiveDimensionOperation:
        return False


def at_most(a: Size, b: Size) -> bool:
    """Whether ``a <= b`` is known to hold at all sizes."""
    return a is b or holds(lambda: a <= b)


def larger(a: Size, b: Size) -> Size:
    return b if at_most(a, b) else a if at_most(b, a) else core.max_dim(a, b)


def smaller(a: Size, b: Size) -> Size:
    return a if at_most(a, b) else b if at_most(b, a) else core.min_dim(a, b)


def simplified(size: Size) -> Size:
    """A size with known remainders replaced: ``mod(-1, n)`` is ``n - 1``."""
    if core.is_constant_dim(size):
        return size
    for term, coefficient in size._sorted_terms:
        factors = [(x.operands, power) for x, power in term._factors if x.operation == "mod"]
        if len(factors) != 1 or len(term._factors) != 1 or factors[0][1] != 1:
            continue
        ((a, b), _) = factors[0]
        for rest in (a, a + b):
            if at_most(0, rest) and at_most(rest + 1, b):
                size = size + coefficient * (rest - a % b)
                break
    return plain(size)


def quotient(a: Size, b: Size) -> Size:
    """``a // b`` for a positive ``b``, as a polynomial if it is one: ``(m*n + m - 1) // m`` is
    ``n``."""
    if core.is_constant_dim(a) or core.is_constant_dim(b):
        return a // b
    whole = rest = 0
    for term, coefficient in a._sorted_terms:
        part = shape_poly._DimExpr._from_term(term, coefficient, a.scope)
        if part // b * b == part:
            whole = whole + part // b
        else:
            rest = rest + part
    for carry in (0, -1):
        if at_most(carry * b, rest) and at_most(rest + 1, (carry + 1) * b):
            return plain(whole + carry)
    return a // b


# --- sums -----------------------------------------------------------------------------------------


class AffineSum(NamedTuple):
    """A constant plus parameters times coefficients."""

    constant: Size
    terms: tuple[tuple[int, Size], ...] = ()
    """The numbers of parameters, with their coefficients, which are not zero."""

    def plus(self, other: AffineSum | Size, times: Size = 1) -> AffineSum:
        if not isinstance(other, AffineSum):
            return self._replace(constant=self.constant + times * other)
        terms = dict(self.terms)
        for t, c in other.terms:
            terms[t] = terms.get(t, 0) + times * c
        nonzero = sorted((t, c) for t, c in terms.items() if not _is(c, 0))
        return AffineSum(simplified(self.constant + times * other.constant), tuple(nonzero))

    def times(self, factor: Size) -> AffineSum:
        return AffineSum(0).plus(self, factor)

    def put(self, values: Mapping[int, AffineSum]) -> AffineSum:
        """The sum, with other sums in place of some parameters."""
        result = AffineSum(self.constant)
        for t, c in self.terms:
            result = result.plus(values.get(t, AffineSum(0, ((t, 1),))), c)
        return result

    @property
    def single(self) -> tuple[int, int] | None:
        """The only parameter and its coefficient, if that is 1 or -1; else ``None``."""
        if len(self.terms) == 1 and core.is_constant_dim(self.terms[0][1]):
            (t, c) = self.terms[0]
            return (t, int(c)) if abs(c) == 1 else None
        return None


def _is(size: Size, number: int) -> bool:
    return core.is_constant_dim(size) and size == number


def parameter(number: int) -> AffineSum:
    return AffineSum(0, ((number, 1),))


ParameterRange = tuple[Size, Size]
"""A half-open range: from the first number to before the second."""


def ends_of(sum_: AffineSum, ranges: Sequence[ParameterRange]) -> tuple[Size, Size] | None:
    """The least and the greatest value of a sum whose parameters have some ranges, if known."""
    low = high = sum_.constant
    for t, c in sum_.terms:
        first, last = ranges[t][0], ranges[t][1] - 1
        if at_most(c, 0):
            first, last = last, first
        elif not at_most(0, c):
            return None
        low, high = low + c * first, high + c * last
    return low, high


Condition = tuple[AffineSum, Size, Size]
"""A sum, with the half-open range that it must be in."""


def _length(range_: ParameterRange) -> Size:
    return range_[1] - range_[0]


# --- pieces ---------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A set of pairs of an element and an input that it depends on.

    Attributes:
      result: the indices of the element.
      argument: the number of the argument that the input is an element of.
      read: the indices of the input.
      ranges: the range of each parameter.
      conditions: the conditions that a pair must meet.
    """

    result: tuple[AffineSum, ...]
    argument: int
    read: tuple[AffineSum, ...]
    ranges: tuple[ParameterRange, ...]
    conditions: tuple[Condition, ...] = ()

    def fresh(self, size: Size) -> tuple[Piece, AffineSum]:
        """The piece with a further parameter, from 0 to before ``size``."""
        piece = self._replace(ranges=(*self.ranges, (0, size)))
        return piece, parameter(len(self.ranges))

    def put(self, values: Mapping[int, AffineSum], ranges: Sequence[ParameterRange]) -> Piece:
        """The piece in terms of other parameters, which have the given ranges."""
        result, read = (tuple(x.put(values) for x in of) for of in (self.result, self.read))
        conditions = tuple((x.put(values), low, high) for x, low, high in self.conditions)
        return Piece(result, self.argument, read, tuple(ranges), conditions)

    def ends(self, sum_: AffineSum) -> tuple[Size, Size] | None:
        """The least and the greatest value of a sum, if they are known."""
        return ends_of(sum_, self.ranges)

    def where(self, sum_: AffineSum, low: Size, high: Size) -> list[Piece]:
        """The part of the piece in which ``low <= sum < high``: none, or one piece."""
        if self._has(sum_, low, high):
            return [self]
        if len(sum_.terms) == 1:
            ((t, c),) = sum_.terms
            first, last = simplified(low - sum_.constant), simplified(high - sum_.constant)
            if at_most(c, -1):
                first, last, c = 1 - last, 1 - first, -c
            if at_most(1, c):
                # Divide by the coefficient and round up.
                first, last = -quotient(-first, c), -quotient(-last, c)
                first, last = larger(first, self.ranges[t][0]), smaller(last, self.ranges[t][1])
                if at_most(last, first):
                    return []
                ranges = (*self.ranges[:t], (first, last), *self.ranges[t + 1 :])
                return [self._replace(ranges=ranges)]
        ends = self.ends(sum_)
        if ends is not None and (at_most(high, ends[0]) or at_most(ends[1] + 1, low)):
            return []
        return [self._replace(conditions=(*self.conditions, (sum_, low, high)))]

    def _has(self, sum_: AffineSum, low: Size, high: Size) -> bool:
        """Whether ``low <= sum < high`` is known for the whole piece."""
        ends = self.ends(sum_)
        return ends is not None and at_most(low, ends[0]) and at_most(ends[1] + 1, high)

    def zero(self, sum_: AffineSum) -> list[Piece]:
        """The part of the piece in which a sum is 0."""
        for t, c in sum_.terms:
            if core.is_constant_dim(c) and abs(c) == 1:
                rest = sum_.plus(AffineSum(0, ((t, c),)), -1).times(-c)
                low, high = self.ranges[t]
                # The parameter no longer occurs.
                return self.put({t: rest}, self.ranges).where(rest, low, high)
        return self.where(sum_, 0, 1)

    def settled(self) -> list[Piece]:
        """The piece with conditions turned into ranges where possible: none, or one piece."""
        pieces = [self._replace(conditions=())]
        for condition in self.conditions:
            pieces = [y for x in pieces for y in x.where(*condition)]
        return pieces

    def normal(self) -> Piece:
        """The normal form of the piece, in which equal pieces look alike: a parameter equals the
        first index that consists of it alone, and unused parameters are dropped."""
        sums = (*self.result, *self.read, *(x for x, *_ in self.conditions))
        together = {t for x in sums if len(x.terms) > 1 for t, _ in x.terms}
        only = {
            t: AffineSum(self.ranges[t][0]) for t in together if _is(_length(self.ranges[t]), 1)
        }
        if only:
            return self.put(only, self.ranges).normal()
        values: dict[int, AffineSum] = {}
        ranges: list[ParameterRange] = []
        for x in sums[: len(self.result) + len(self.read)]:
            if (single := x.single) is not None and single[0] not in values:
                t, sign = single
                low, high = self.ranges[t]
                if sign < 0:
                    low, high = 1 - high, 1 - low
                constant = simplified(x.constant)
                values[t] = AffineSum(-sign * constant, ((len(ranges), sign),))
                ranges.append((simplified(low + constant), simplified(high + constant)))
        for t, _ in (term for x in sums for term in x.terms):
            if t not in values:
                values[t] = parameter(len(ranges))
                ranges.append(self.ranges[t])
        return self.put(values, ranges)


def composed(first: Piece, second: Piece) -> list[Piece]:
    """The composition of two relations: a function of a slice, and the array that is sliced.

    Args:
      first: pairs of an element and an element of the slice that it reads.
      second: pairs of an element of the array and an input.

    Returns:
      The piece of the stacked results, whose first index is that of the slice: none, or one.
    """
    moved = {t: parameter(len(first.ranges) + t) for t in range(len(second.ranges))}
    second = second.put(moved, second.ranges)
    (index, *others), (rank, ranks) = second.result, (len(first.result) + 1, len(first.read))
    apart = [x.plus(y, -1) for x, y in zip(first.read, others, strict=True)]
    ranges, conditions = first.ranges + second.ranges, first.conditions + second.conditions
    result = (index, *first.result, *apart)
    parts = [Piece(result, second.argument, second.read, ranges, conditions)]
    for d in range(rank, rank + ranks):
        parts = [y for part in parts for y in part.zero(part.result[d])]
    return [part._replace(result=part.result[:rank]) for part in parts]


Pieces = tuple[Piece, ...]


def united(pieces: Sequence[Piece]) -> Pieces:
    """The union of pieces, with pieces merged where their ranges allow it."""
    groups: dict[Piece, list[tuple[ParameterRange, ...]]] = {}
    for piece in (y.normal() for x in pieces for y in x.normal().settled()):
        ranges, others = piece.ranges, groups.setdefault(piece._replace(ranges=()), [])
        while True:
            joined = ((i, _joined(ranges, other)) for i, other in enumerate(others))
            i, both = next((pair for pair in joined if pair[1] is not None), (0, None))
            if both is None:
                break
            ranges = both
            del others[i]
        others.append(ranges)
    return tuple(x._replace(ranges=ranges) for x, all_ in groups.items() for ranges in all_)


def _joined(
    a: Sequence[ParameterRange], b: Sequence[ParameterRange]
) -> tuple[ParameterRange, ...] | None:
    """The union of two boxes, if they differ in one range only, and these ranges touch."""
    differ = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if not differ:
        return tuple(a)
    i = differ[0]
    (low, high), (least, most) = a[i], b[i]
    if len(differ) > 1 or not (at_most(least, high) and at_most(low, most)):
        return None
    return (*a[:i], (smaller(low, least), larger(high, most)), *a[i + 1 :])


class Arguments:
    """The arguments whose elements are the inputs.

    Args:
      shapes: the shapes of the arguments.
    """

    def __init__(self, shapes: Sequence[Sequence[Size]]):
        self.shapes = shapes

    def identity(self, argument: int) -> Pieces:
        """An argument as a value: each element depends on itself."""
        shape = self.shapes[argument]
        indices = tuple(map(parameter, range(len(shape))))
        return united([Piece(indices, argument, indices, tuple((0, size) for size in shape))])

    def whole(self, argument: int, shape: Sequence[Size]) -> Piece:
        """All pairs of an element of a value of some shape and an element of an argument."""
        sizes = (*shape, *self.shapes[argument])
        indices = tuple(map(parameter, range(len(sizes))))
        read = indices[len(shape) :]
        return Piece(indices[: len(shape)], argument, read, tuple((0, size) for size in sizes))


# --- at given sizes -------------------------------------------------------------------------------


def pairs_of(
    piece: Piece, result_shape: Sequence[int], argument_shape: Sequence[int], sizes: Sizes
) -> tuple[np.ndarray, np.ndarray]:
    """The flat numbers of the elements and of the inputs of all pairs, at given sizes.

    Raises:
      PatternTooDense: there are more pairs than the limit.
    """
    ranges = [[int(evaluate(end, sizes)) for end in ends] for ends in piece.ranges]
    lengths = [max(0, high - low) for low, high in ranges]
    if math.prod(lengths) > MOST:
        raise PatternTooDense(f"its pattern may have {math.prod(lengths):,} elements")
    counts = zip(ranges, np.indices(lengths, sparse=True), strict=True)
    lines = [low + index for (low, _), index in counts]

    def at(sum_: AffineSum) -> Any:
        constant = np.full((1,) * len(lines), int(evaluate(sum_.constant, sizes)))
        return sum((int(evaluate(c, sizes)) * lines[t] for t, c in sum_.terms), constant)

    def flat(indices: Sequence[AffineSum], shape: Sequence[int]) -> np.ndarray:
        number = np.zeros((1,) * len(lines), int)
        for index, size in zip(indices, shape, strict=True):
            number = number * size + at(index)
        return np.broadcast_to(number, lengths).reshape(-1)

    pairs = flat(piece.result, result_shape), flat(piece.read, argument_shape)
    if not piece.conditions:
        return pairs
    mask = np.ones(lengths, bool)
    for sum_, low, high in piece.conditions:
        value = at(sum_)
        mask &= (value >= int(evaluate(low, sizes))) & (value < int(evaluate(high, sizes)))
    mask = mask.reshape(-1)
    return pairs[0][mask], pairs[1][mask]

"""Indices of a product: what its dimensions run over.

A dimension of a tensor is a sequence of indices in row-major order: usually one, none if its size
is 1, several after a reshape that merged dimensions.  Where two dimensions have to run together (a
contraction, an elementwise product), their indices become the same ones, :func:`unify`; an index
that meets two smaller ones is split into these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


class Unfit(Exception):
    """Dimensions that no sequences of indices describe."""


class Index:
    """What runs from 0 to ``size`` in several tensors at once.

    Attributes:
      parts: the indices that it has become: another one, or those that it was split into.
      solid: whether it must not be split, as a gather reads it as one number.
      exact: whether a sum ran over it that was not part of a matrix product.
    """

    __slots__ = ("exact", "parts", "size", "solid")

    def __init__(self, size: int, solid: bool = False):
        self.size = size
        self.parts: tuple[Index, ...] = ()
        self.solid = solid
        self.exact = False

    def become(self, *parts: Index) -> None:
        self.parts = parts
        for part in parts:
            part.solid |= self.solid
            part.exact |= self.exact


Dims = list[list[Index]]
"""The dimensions of a tensor."""


def fresh(shape: Sequence[int]) -> Dims:
    """Dimensions of a shape with indices of their own."""
    return [[Index(size)] if size != 1 else [] for size in shape]


def resolve(indices: Iterable[Index]) -> list[Index]:
    """The indices that a sequence has become."""
    found: list[Index] = []
    for index in indices:
        if not index.parts:
            # As most have become nothing else.
            found.append(index)
            continue
        pending = [*reversed(index.parts)]
        while pending:
            part = pending.pop()
            if part.parts:
                pending += reversed(part.parts)
            else:
                found.append(part)
    return found


def size_of(indices: Iterable[Index]) -> int:
    return math.prod([index.size for index in indices])


def unify(a: Iterable[Index], b: Iterable[Index]) -> None:
    """Makes two sequences of indices the same.

    Raises:
      Unfit: one cannot be split as the other is.  Nothing has changed then.
    """
    left, right = resolve(a), resolve(b)
    if len(left) == len(right) == 1 and left[0].size == right[0].size:
        # As most are.
        if left[0] is not right[0]:
            right[0].become(left[0])
        return
    if not _fit(left, right):
        raise Unfit
    while left and right:
        # An index that occurs twice may have been split meanwhile.
        left[:1], right[:1] = resolve(left[:1]), resolve(right[:1])
        x, y = left.pop(0), right.pop(0)
        if x is y:
            continue
        if x.size == y.size:
            y.become(x)
        elif x.size < y.size:
            right.insert(0, _split(y, x))
        else:
            left.insert(0, _split(x, y))


def _split(whole: Index, first: Index) -> Index:
    """Splits an index into one that is known and the rest, which it returns."""
    rest = Index(whole.size // first.size)
    whole.become(first, rest)
    return rest


def _fit(left: Sequence[Index], right: Sequence[Index]) -> bool:
    """Whether the one sequence can be split as the other."""
    if left == right:
        return True
    if len({*left, *right}) < len(left) + len(right):
        # To split an index here would split it there as well.
        return [x.size for x in left] == [y.size for y in right]
    a = [(x.size, x.solid) for x in left]
    b = [(y.size, y.solid) for y in right]
    while a and b:
        (m, m_solid), (n, n_solid) = a.pop(0), b.pop(0)
        if m == n:
            continue
        if m > n:
            a, b, m, m_solid, n, n_solid = b, a, n, n_solid, m, m_solid
        if n_solid or n % m:
            return False
        b.insert(0, (n // m, False))
    return not a and not b


def split_dims(indices: Iterable[Index], shape: Sequence[int]) -> Dims:
    """The dimensions of a reshaped tensor, given its indices in order.

    Raises:
      Unfit: a dimension would begin within an index that cannot be split there.
    """
    dims = fresh(shape)
    unify(indices, [index for dim in dims for index in dim])
    return dims

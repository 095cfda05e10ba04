"""A product as a network: its factors, and the indices that they share.

A product is a tree of expressions: products, sums, reshapes, diagonals, row selections, and
divisions by a number.  It is read as an Einstein sum.  A matrix product sums over an index of two
factors; a reshape maps a dimension to several indices; a sum drops an index; the factors of an
elementwise product have the same indices; an identity matrix equates two indices.  Factors without
indices are scalars.  The Einstein sum has no order of evaluation::

    trace(A @ (s * B)^T)     ->     s A[i,k] B[i,k], summed over i and k

A row selection by a gather or a slice is a factor too, a matrix with one 1 in each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jaxmlir.optimize.algebra.labelled_tensors.expressions import Dot, Expr

# -- Indices of a product --
#
# A dimension of a tensor is a sequence of indices in row-major order: usually one, none if its size
# is 1, several after a reshape that merged dimensions.  :func:`unify` makes the indices of two
# dimensions the same if these run together (in a contraction or an elementwise product).  An index
# that has to match two smaller ones is split into these.


class NotAnEinsum(Exception):
    """The dimensions of an expression cannot be described by sequences of indices."""


class Index:
    """An index of an Einstein sum, which runs from 0 to ``size`` in several tensors at once.

    Attributes:
      parts: its replacement: another index, or the indices that it was split into.
      solid: whether it must not be split, as the index of rows or of selected rows of a selector.
      exact: whether a sum over it was not part of a matrix product.
    """

    __slots__ = ("exact", "parts", "size", "solid")

    def __init__(self, size: int, solid: bool = False):
        self.size: int = size
        self.parts: tuple[Index, ...] = ()
        self.solid: bool = solid
        self.exact: bool = False

    def become(self, *parts: Index) -> None:
        self.parts = parts
        for part in parts:
            part.solid |= self.solid
            part.exact |= self.exact


Dims = list[list[Index]]
"""The dimensions of a tensor."""


def fresh(shape: Sequence[int], solid: bool = False) -> Dims:
    """New dimensions of a shape, each with an index of its own."""
    return [[Index(size, solid)] if size != 1 else [] for size in shape]


def resolve(indices: Iterable[Index]) -> list[Index]:
    """A sequence of indices with each replaced by its current parts."""
    resolved: list[Index] = []
    for index in indices:
        if not index.parts:
            # The common case: it was not replaced.
            resolved.append(index)
            continue
        pending = [*reversed(index.parts)]
        while pending:
            part = pending.pop()
            if part.parts:
                pending += reversed(part.parts)
            else:
                resolved.append(part)
    return resolved


def size_of(indices: Iterable[Index]) -> int:
    return math.prod([index.size for index in indices])


def unify(a: Iterable[Index], b: Iterable[Index]) -> None:
    """Makes two sequences of indices the same.

    Raises:
      NotAnEinsum: one cannot be split like the other.  Some indices may have been split by then.
    """
    left, right = resolve(a), resolve(b)
    indices = [*left, *right]
    while left and right:
        # An index may occur twice, and have been replaced meanwhile.
        (x,), (y,) = resolve([left.pop(0)]), resolve([right.pop(0)])
        if x is y:
            continue
        if x.size == y.size:
            y.become(x)
            continue
        first, whole, following = (x, y, right) if x.size < y.size else (y, x, left)
        # Splitting an index that occurs twice would split its other occurrence as well.
        is_alone = len({*indices}) == len(indices)
        if whole.solid or whole.size % first.size or not is_alone:
            raise NotAnEinsum
        rest = Index(whole.size // first.size)
        whole.become(first, rest)
        following.insert(0, rest)
    if left or right:
        raise NotAnEinsum


# -- An expression as a product of others --


@dataclass(slots=True)
class EinsumTerm:
    """An expression as a product.

    Attributes:
      dims: the indices of its dimensions; if an index occurs twice, the value is zero off the
        diagonal.
      factors: the factors that are not scalars, with their dimensions.
      selectors: matrices that select rows, with their dimensions: that of the rows first.
      scalars: ``("mul" | "div", number)``, in the order in which they apply.
      sign: the sign of the product.
      made: indices of identities and broadcasts; a sum over one that no factor has multiplies by
        its size.
    """

    dims: Dims
    factors: list[tuple[Expr, Dims]] = field(default_factory=list)
    selectors: list[tuple[Expr, Dims]] = field(default_factory=list)
    scalars: list[tuple[str, Expr]] = field(default_factory=list)
    sign: int = 1
    made: list[Index] = field(default_factory=list)

    def absorb(self, other: EinsumTerm) -> None:
        """Appends the factors of another term."""
        self.factors += other.factors
        self.selectors += other.selectors
        self.scalars += other.scalars
        self.sign *= other.sign
        self.made += other.made


PRODUCTS = frozenset(
    {"diagonal", "div", "eye", "mask", "product", "reshape", "selection", "selector"}
)
"""Kinds of expressions that may be products."""


def parts_of(expr: Expr, selects: bool) -> tuple[Expr, ...] | None:
    """The operands of an expression that are parts of its product; ``None`` if it is no product.

    Args:
      selects: whether selections of rows count as products.
    """
    operands = tuple([operand for operand, _, _ in expr.operands])
    # A batch of diagonals stays as it is, for ``jaxpr-factor-linear-sums``.
    if expr.rank != 2 and not expr.sums and any([e.kind == "eye" for e in operands]):
        return None
    match expr.kind:
        case "product" | "diagonal" | "reshape":
            return operands
        case "selection" | "selector":
            return None if not selects else operands if expr.kind == "selection" else ()
        case "eye":
            return ()
        case "div":
            return operands[:1] if not operands[1].rank else None
        case "mask":
            # Elements off the diagonal are not read.
            return operands if operands[0].kind == "eye" and not expr.params else None
    return None


def leaf(expr: Expr) -> EinsumTerm:
    """An expression as a product with itself as the only factor."""
    if not expr.rank:
        return EinsumTerm([], scalars=[("mul", expr)])
    dims = fresh(expr.sizes[: expr.rank])
    return EinsumTerm(list(dims), [(expr, dims)])


def term_of(expr: Expr, terms: Sequence[EinsumTerm]) -> EinsumTerm:
    """An expression as a product.

    Args:
      terms: the terms of its parts (:func:`parts_of`); they are merged into the result in place.

    Raises:
      NotAnEinsum: its dimensions do not fit those of its parts.
    """
    if expr.kind == "eye":
        index = Index(expr.sizes[0])
        return EinsumTerm([[index], [index]], made=[index])
    if expr.kind == "selector":
        # Rows have one index, and each selected row has one row number.
        dims = fresh(expr.sizes, solid=True)
        return EinsumTerm(list(dims), selectors=[(expr, dims)])
    if expr.kind == "reshape":
        return _reshaped(expr, *terms)
    dims: dict[int, list[Index]] = {}
    whole, *others = terms
    # The only part of a quotient is the dividend.
    for term, (_, labels, sign) in zip(terms, expr.operands, strict=False):
        term.sign *= sign
        for label, indices in zip(labels, term.dims, strict=True):
            if label in dims:
                unify(dims[label], indices)
            else:
                dims[label] = indices
    for other in others:
        whole.absorb(other)
    whole.dims = [dims[label] for label in range(expr.rank)]
    if expr.kind == "div":
        whole.scalars.append(("div", expr.operands[1][0]))
    if expr.kind == "product" and not isinstance(expr.params, Dot):
        for index in resolve([i for label in dims for i in dims[label] if label >= expr.rank]):
            index.exact = True
    return whole


def _reshaped(expr: Expr, term: EinsumTerm) -> EinsumTerm:
    parts = expr.params
    dims: dict[int, list[Index]] = {}
    for labels, indices in zip(parts.operand, term.dims, strict=True):
        split = [Index(parts.sizes[label]) for label in labels]
        unify(indices, split)
        dims |= {label: [index] for label, index in zip(labels, split, strict=True)}
    for label, size in enumerate(parts.sizes):
        if label not in dims:
            dims[label] = fresh([size])[0]
            term.made += dims[label]
    term.dims = [[i for label in labels for i in dims[label]] for labels in parts.result]
    return term

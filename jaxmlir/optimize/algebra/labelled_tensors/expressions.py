"""Tensors without a layout: the values of a program, whatever the order of their dimensions.

An :class:`Expr` is an operation on other expressions whose dimensions are wired together by
*labels*, like the letters of an Einstein sum.  A :class:`Tensor` is an expression with labels on
its dimensions, and a sign.  Transposes, broadcasts, reshapes that move no data and changes of sign
are no operations here: they give the same expression other labels or the other sign.  So does a
product with an identity matrix.  Expressions are hash-consed: if a program computes a value twice,
in two layouts, it is one expression.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Labels = tuple[int, ...]
"""A label for each dimension.  The labels of an operand are numbers of dimensions of the result, or
higher numbers, over which the operation sums."""

Operand = tuple["Expr", Labels, int]
"""An operand of an operation: an expression, its labels and its sign."""

SumTerm = tuple[int, Labels, int, "Expr"]
"""A term of a sum: the number of an expression, its labels and sign, and the expression."""

# Sums of more terms than this are not flattened into another sum.
MAX_TERMS = 16
# The depth of ops through which factors are pulled out of a sum.
MAX_DEPTH = 32


class Dot(NamedTuple):
    """The mark of a product that is a ``dot_general``, with its precision."""

    precision: Any


@dataclass(eq=False, slots=True)
class Expr:
    """An operation on expressions; compared by identity.

    The kind of an elementwise op is its name, except for those in this table of the other kinds:

    ===============  ===============================================================================
    ``"product"``    of one or two operands, summed over the labels that the result lacks
    ``"add"``        of two
    ``"div"``
    ``"mask"``       of a mask, and the operand that it lets through
    ``"diagonal"``   the elements of an operand at which two of its dimensions have one index
    ``"reshape"``    that splits or merges dimensions, by a :class:`LabelledReshape`
    ``"selection"``  the product with a selector, summed over the rows or over the selected ones
    ``"selector"``   a matrix with a single 1 in each row, of where these are (``selectors``)
    ``"eye"``        an identity matrix
    ``"iota"``       0, 1, 2 ...
    ``"constant"``   a number
    ``"leaf"``       a value about which nothing is known
    ===============  ===============================================================================

    Attributes:
      number: a number, higher than those of the operands.
      params: further parameters; those of a product that is a ``dot_general`` are a :class:`Dot`.
      operands: the operands, each with its labels and sign.
      sizes: the sizes of its dimensions, then of the labels that are summed over.
      rank: the number of dimensions.
      sums: whether it sums over labels.
      terms: the terms of an ``"add"``, with nested sums flattened, ordered by number.
      is_alike: whether all terms of an ``"add"`` have the labels of the sum.
      value: the number of the first value of the program that equals it, up to layout and sign.
      users: the program's expressions that have it as an operand, and ``None`` for each other use.
      cost: the cost of computing it from its operands, once known.
    """

    number: int
    kind: str
    params: Any
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    rank: int
    dtype: Any
    sums: bool
    terms: tuple[SumTerm, ...] = ()
    is_alike: bool = True
    value: int | None = None
    users: list[Expr | None] = field(default_factory=list)
    cost: float | None = None

    @property
    def size(self) -> int:
        return math.prod(self.sizes[: self.rank])

    @property
    def uses(self) -> int:
        """The number of its uses by the program's expressions, other ops and results."""
        return len(self.users)

    @property
    def contracts(self) -> bool:
        """Whether it is a product of matrices: it sums, and each factor has labels of its own."""
        is_product = self.kind == "product" and self.sums and len(self.operands) == 2
        return is_product and all(self._own_labels())

    @property
    def is_dot(self) -> bool:
        """Whether it is written as a ``dot_general``, not as a sum of elementwise products."""
        is_asked_for = isinstance(self.params, Dot) and any(self._own_labels())
        return is_asked_for or self.contracts

    def _own_labels(self) -> tuple[set[int], set[int]]:
        """For each of the two factors of a product, the labels that only it has."""
        (_, a, _), (_, b, _) = self.operands
        return {*a}.difference(b), {*b}.difference(a)


class LabelledReshape(NamedTuple):
    """A reshape, with labels for the parts that dimensions are split into.

    Attributes:
      operand, result: the labels of each dimension, in row-major order.
      sizes: the size of each label; the operand is broadcast along labels that only the result has.
    """

    operand: tuple[Labels, ...]
    result: tuple[Labels, ...]
    sizes: tuple[int, ...]


class Tensor(NamedTuple):
    """An expression with a label on each dimension, and a sign."""

    expr: Expr
    labels: tuple[int, ...]
    sign: int = 1

    def relabelled(self, new: Any) -> Tensor:
        """The tensor with its labels replaced by those in a mapping or a sequence."""
        return Tensor(self.expr, tuple(map(new.__getitem__, self.labels)), self.sign)

    @property
    def unsigned(self) -> Tensor:
        return self if self.sign == 1 else Tensor(self.expr, self.labels)

    def times(self, sign: int) -> Tensor:
        return self if sign == 1 else Tensor(self.expr, self.labels, -self.sign)

    def size_of(self, label: int) -> int:
        return self.expr.sizes[self.labels.index(label)]


@dataclass
class Algebra:
    """All expressions of a function and of its rewrites, hash-consed by key."""

    known: dict[Any, Expr] = field(default_factory=dict)
    _ones: dict[Any, Tensor] = field(default_factory=dict)
    _pulled: dict[Any, list[Tensor]] = field(default_factory=dict)
    _depth: int = 0

    def leaf(self, sizes: Sequence[int], dtype: Any) -> Expr:
        """An expression about which nothing is known."""
        expr = self._new("leaf", None, (), tuple(sizes), len(sizes), dtype)
        self.known[expr] = expr
        return expr

    def operation(
        self,
        kind: str,
        params: Any,
        operands: tuple[Operand, ...],
        sizes: Iterable[int],
        dtype: Any,
    ) -> Expr:
        """The expression of an operation that sums nothing; its dimensions have some sizes.

        Args:
          operands: the operands, with labels whose meaning depends on the kind.
        """
        sizes = tuple(sizes)
        key = (kind, params, operands, dtype, sizes)
        expr = self.known.get(key)
        if expr is None:
            expr = self.known[key] = self._new(kind, params, operands, sizes, len(sizes), dtype)
        return expr

    def atom(self, kind: str, params: Any, sizes: Sequence[int], dtype: Any) -> Expr:
        """An expression without operands, known by its parameters."""
        return self.operation(kind, params, (), sizes, dtype)

    def constant(self, number: Any, dtype: Any) -> Tensor:
        return Tensor(
            self.atom("constant", np.asarray(number).astype(dtype).tobytes(), (), dtype), ()
        )

    def is_zero(self, a: Tensor) -> bool:
        """Whether every element is the constant 0."""
        return a.expr is self.constant(0, a.expr.dtype).expr

    def one(self, dtype: Any) -> Tensor:
        one = self._ones.get(dtype)
        if one is None:
            one = self._ones[dtype] = self.constant(1, dtype)
        return one

    def apply(
        self,
        kind: str,
        params: Any,
        operands: Sequence[Tensor],
        dtype: Any,
        gone: Collection[int] = (),
        swapped: bool = False,
    ) -> Tensor:
        """The expression of an operation, not simplified; labels in ``gone`` are summed over.

        Args:
          swapped: whether a new expression has its operands in the other order.
        """
        labels, sizes, used = _wired(operands, gone)
        key = (kind, params, dtype, used, len(labels))
        expr = self.known.get(key)
        if expr is None:
            used = used[::-1] if swapped else used
            expr = self.known[key] = self._new(kind, params, used, sizes, len(labels), dtype)
        return Tensor(expr, labels)

    def product(
        self, a: Tensor, b: Tensor, gone: Collection[int] = (), params: Any = None
    ) -> Tensor:
        """The product of two tensors, summed over labels; simplified."""
        one = self.one(a.expr.dtype).expr
        if not gone and a.expr is not one and b.expr is not one:
            return self.raw_product(a, b)
        for x, y in ((a, b), (b, a)):
            if x.expr is one:
                return self.sum(y.times(x.sign), gone)
            if x.expr.kind == "eye" and (renamed := _through_identity(x, y, gone)) is not None:
                return self.sum(renamed, gone)
        shared = {*a.labels}.intersection(b.labels)
        if not shared.issuperset(gone):
            own_a = [k for k in a.labels if k in gone and k not in shared]
            own_b = [k for k in b.labels if k in gone and k not in shared]
            a, b = self.sum(a, own_a), self.sum(b, own_b)
        if params is not None or shared.isdisjoint(gone):
            return self.raw_product(a, b, gone, params)
        (a, *outer), (b, *others) = self.pulled(a, gone), self.pulled(b, gone)
        product = self.raw_product(a, b, gone)
        for factor in (*outer, *others):
            product = self.product(product, factor)
        return product

    def raw_product(
        self, a: Tensor, b: Tensor, gone: Collection[int] = (), params: Any = None
    ) -> Tensor:
        """The product, not simplified; a new product of matrices keeps the order of factors."""
        swapped = a.expr.number > b.expr.number
        if swapped:
            a, b = b, a
        if not gone or {*a.labels, *b.labels}.isdisjoint(gone):
            gone, params, swapped = (), None, False
        unsigned = (a, b) if a.sign == b.sign == 1 else (a.unsigned, b.unsigned)
        product = self.apply("product", params, unsigned, a.expr.dtype, gone, swapped)
        return product if a.sign == b.sign else product.times(-1)

    def sum(self, a: Tensor, gone: Collection[int]) -> Tensor:
        """A tensor summed over the labels in ``gone`` that it has."""
        if not any(k in gone for k in a.labels):
            return a
        a, *factors = self.pulled(a, gone)
        if factors:
            return self.product(self.sum(a, gone), factors[0], gone)
        expr = a.expr
        if expr.kind == "product" and not expr.sums and len(expr.operands) == 2:
            x, y = (Tensor(e, w).relabelled(a.labels) for e, w, _ in expr.operands)
            return self.product(x, y, gone).times(a.sign)
        return self.raw_sum(a, gone)

    def raw_sum(self, a: Tensor, gone: Collection[int]) -> Tensor:
        """The sum over labels that the tensor has, not simplified."""
        total = self.apply("product", None, [a.unsigned], a.expr.dtype, gone)
        return total.times(a.sign)

    # Pattern: sum over i of (x[i] f + x[i] g) b[i] = (f + g) (sum over i of x[i] b[i])
    def pulled(self, a: Tensor, gone: Collection[int]) -> list[Tensor]:
        """A tensor as a product: the part with labels in ``gone``, and a factor without, if any."""
        if not any(k in gone for k in a.labels):
            return [a]
        key = (a.expr, tuple([k in gone for k in a.labels]))
        parts = self._pulled.get(key)
        if parts is None:
            if self._depth == MAX_DEPTH:
                return [a]
            dims = range(a.expr.rank)
            gone_dims = [d for d in dims if key[1][d]]
            self._depth += 1
            parts = self._pulled[key] = self._pull(Tensor(a.expr, tuple(dims)), gone_dims)
            self._depth -= 1
        core, *factors = (t.relabelled(a.labels) for t in parts)
        return [core.times(a.sign), *factors]

    def _pull(self, a: Tensor, gone: Collection[int]) -> list[Tensor]:
        expr = a.expr
        if expr.sums or len(expr.operands) != 2 or expr.kind not in ("add", "product"):
            return [a]
        operands = [Tensor(e, w, s) for e, w, s in expr.operands]
        if expr.kind == "product":
            return self._pull_factors(a, operands, gone)
        (x, *f), (y, *g) = (self.pulled(t, gone) for t in operands)
        if (x.expr, x.labels) != (y.expr, y.labels) or not any(k in gone for k in x.labels):
            return [a]
        one = self.one(expr.dtype)
        f, g = (t[0] if t else one for t in (f, g))
        return [x.unsigned, self.add(f.times(x.sign), g.times(y.sign))]

    def _pull_factors(
        self, a: Tensor, operands: list[Tensor], gone: Collection[int]
    ) -> list[Tensor]:
        inner, outer = [], []
        for t in operands:
            if any(k in gone for k in t.labels):
                core, *factors = self.pulled(t, gone)
                inner.append(core)
                outer += factors
            else:
                outer.append(t)
        if not inner or not outer:
            return [a]
        core, factor = inner[0], outer[0]
        for t in inner[1:]:
            core = self.product(core, t)
        for t in outer[1:]:
            factor = self.product(factor, t)
        return [core, factor]

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum of two tensors; the same expression for all ways to add up the same terms."""
        is_whole = len(a.expr.terms or "1") + len(b.expr.terms or "1") <= MAX_TERMS
        is_alike = a.labels == b.labels
        if is_alike and is_whole:
            is_alike = a.expr.is_alike and b.expr.is_alike
        if is_alike:
            # The common case: all terms have the same labels.
            labels = a.labels
            wiring = numbered(len(labels))
            terms = [t for x in (a, b) for t in _terms(Tensor(x.expr, wiring, x.sign), is_whole)]
            terms.sort(key=_number)
            sign = terms[0][2]
            sizes = terms[0][3].sizes[: len(wiring)]
            flat = tuple(_times(terms, sign))
        else:
            terms = [*_terms(a, is_whole), *_terms(b, is_whole)]
            terms.sort(key=_by_number)
            labels, sign = terms[0][1], terms[0][2]
            tensors = [Tensor(e, wiring) for _, wiring, _, e in terms]
            labels, sizes, wired = _wired(tensors, ())
            pairs = zip(terms, wired, strict=True)
            flat = tuple([(number, w, s * sign, e) for (number, _, s, _), (e, w, _) in pairs])
        key = ("add", a.expr.dtype, flat)
        expr = self.known.get(key)
        if expr is None:
            if is_alike:
                labelled = [wiring, wiring]
            else:
                at = {label: k for k, label in enumerate(labels)}
                labelled = [t.relabelled(at).labels for t in (a, b)]
            pairs = zip((a, b), labelled, strict=True)
            operands = tuple([(t.expr, w, t.sign * sign) for t, w in pairs])
            expr = self._new("add", None, operands, sizes, len(labels), a.expr.dtype)
            expr.terms, expr.is_alike = flat, is_alike
            self.known[key] = expr
        return Tensor(expr, labels, sign)

    def scaled(self, a: Tensor, times: int) -> Tensor:
        """A tensor times an integer."""
        if times == 1:
            return a
        return self.raw_product(a, self.constant(times, a.expr.dtype))

    def diagonal(self, a: Tensor) -> Tensor:
        """The diagonal of a tensor along each pair of dimensions with the same label."""
        at = {label: k for k, label in enumerate(dict.fromkeys(a.labels))}
        if len(at) == len(a.labels):
            return a
        operands = (Tensor(a.expr, tuple([at[k] for k in a.labels])),)
        expr = self.operation("diagonal", None, operands, map(a.size_of, at), a.expr.dtype)
        return Tensor(expr, tuple(at), a.sign)

    def reshaped(
        self, a: Tensor, dims: Sequence[Labels], result: Sequence[Labels], sizes: Any
    ) -> Tensor:
        """A tensor with dimensions split and merged, labelled by the numbers of its dimensions.

        Args:
          dims: the labels of the parts of each dimension, in row-major order.
          result: the labels of the parts of each dimension of the result.
          sizes: the sizes of these labels, a mapping or a sequence.
        """
        at: dict[int, int] = {}
        for label in itertools.chain(*dims, *result):
            at.setdefault(label, len(at))
        parts = LabelledReshape(
            *(
                tuple([tuple([at[k] for k in labels]) for labels in dim_labels])
                for dim_labels in (dims, result)
            ),
            tuple([sizes[k] for k in at]),
        )
        shape = tuple([math.prod([sizes[k] for k in labels]) for labels in result])
        operands = (Tensor(a.expr, numbered(len(dims))),)
        expr = self.operation("reshape", parts, operands, shape, a.expr.dtype)
        return Tensor(expr, numbered(len(shape)), a.sign)

    def selected(self, a: Tensor, selector: Tensor, gone: Collection[int]) -> Tensor:
        """The product of a tensor and a selector."""
        product = self.apply("selection", None, [a.unsigned, selector], a.expr.dtype, gone)
        return product.times(a.sign)

    def _new(
        self, kind: str, params: Any, operands: Any, sizes: Any, rank: int, dtype: Any
    ) -> Expr:
        sums = len(sizes) > rank
        return Expr(len(self.known), kind, params, operands, sizes, rank, dtype, sums)


def _terms(t: Tensor, is_whole: bool) -> Sequence[SumTerm]:
    """The terms of a sum, with the labels of the tensor; itself if it is none or not whole."""
    if t.expr.kind != "add" or not is_whole:
        return ((t.expr.number, t.labels, t.sign, t.expr),)
    labels = t.labels
    in_order = numbered(len(labels))
    if labels == in_order:
        return _times(t.expr.terms, t.sign)
    return [
        (number, labels if w == in_order else tuple([labels[k] for k in w]), s * t.sign, e)
        for number, w, s, e in t.expr.terms
    ]


def _times(terms: Sequence[SumTerm], sign: int) -> Sequence[SumTerm]:
    return terms if sign == 1 else [(number, w, -s, e) for number, w, s, e in terms]


_number = operator.itemgetter(0)
_by_number = operator.itemgetter(0, 1)


@functools.cache
def numbered(rank: int) -> Labels:
    """The labels of dimensions in their order."""
    return tuple(range(rank))


def _wired(
    tensors: Sequence[Tensor], gone: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Operand, ...]]:
    """Numbers labels in order of occurrence, those in ``gone`` last.

    Returns:
      The labels of the result, the sizes by number, and the tensors as operands with numbered
      labels.
    """
    first = tensors[0]
    if not gone and all([t.labels == first.labels or not t.labels for t in tensors]):
        # The common case: elementwise ops of tensors with the same labels.
        in_order = numbered(len(first.labels))
        used = tuple([(expr, in_order if labels else (), sign) for expr, labels, sign in tensors])
        return first.labels, first.expr.sizes[: len(in_order)], used
    at: dict[int, int] = {}
    sizes: list[int] = []
    summed: dict[int, int] = {}
    for expr, labels, _ in tensors:
        for k, size in zip(labels, expr.sizes):  # noqa: B905 (more sizes than labels)
            if k in gone:
                summed[k] = size
            elif k not in at:
                at[k] = len(sizes)
                sizes.append(size)
    out_labels = tuple(at)
    for k, size in summed.items():
        at[k] = len(sizes)
        sizes.append(size)
    number = at.__getitem__
    used = tuple([(expr, tuple(map(number, labels)), sign) for expr, labels, sign in tensors])
    return out_labels, tuple(sizes), used


# Pattern: sum over k of I[i,k] B[k] = B[i]
def _through_identity(eye: Tensor, b: Tensor, gone: Collection[int]) -> Tensor | None:
    """The product with an identity matrix as a relabelling; ``None`` if it is none, as when
    neither label of the matrix is summed over."""
    for kept, summed in (eye.labels, eye.labels[::-1]):
        if summed in gone and kept not in b.labels:
            if summed not in b.labels and kept in gone:
                return None
            labels = tuple([kept if k == summed else k for k in b.labels])
            return Tensor(b.expr, labels, b.sign * eye.sign)
    return None


LINEAR = frozenset({"add", "div", "mask", "product"})
"""Kinds of expressions that are linear in some operand."""

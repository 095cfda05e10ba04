"""Tensors without a layout: what a program computes, whatever the order of its dimensions.

An :class:`Expr` is an operation on other expressions, whose dimensions are wired together by
*labels*, as the letters of an Einstein sum do.  A :class:`Tensor` is an expression with labels on
its dimensions, and a sign.  Transposes, broadcasts, reshapes that move nothing and changes of sign
are no operations here: they give other labels to the same expression.  So does an identity matrix
that is multiplied by.  There is one expression for each key, so that what is computed twice, in
two layouts, is one.

:class:`Reading` reads the ops of a function so.  The dimensions of a value are labelled by their
numbers; those of size 1, and those along which it is repeated, have no label.  So the operands of
an elementwise op are wired as they are, and an op that moves nothing gives its operand other
labels.  An op that is not read is a leaf.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import FunctionView, can_count
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors import wiring_of
from jaxmlir.passes.levels import NEEDED_OPS

Wiring = tuple[int, ...]
"""For each dimension of an operand, a label: that of a dimension of the result, or a higher one,
over which the operation sums."""

Operand = tuple["Expr", Wiring, int]
"""An operand of an operation: an expression, and its wiring and sign."""

Term = tuple[int, Wiring, int, "Expr"]
"""A term of a sum: an expression with its number, and its wiring and sign."""

# A sum of more terms than this is one term of another sum.
MAX_TERMS = 16
# So many ops are looked through for factors that can be taken out of a sum.
MAX_DEPTH = 32


@dataclass(eq=False, slots=True)
class Expr:
    """An operation on expressions; equal to itself only.

    Attributes:
      number: higher than that of the operands.
      kind: ``"product"`` of one or two operands, ``"add"`` of two, ``"div"``, ``"mask"`` of a mask
        and what it lets through, ``"eye"``, ``"constant"``, ``"leaf"``; else an elementwise op.
      params: what else tells it from others; of a product that is a ``dot_general``, its precision.
      operands: with the wiring of each, and its sign.
      sizes: of its dimensions, and then of the labels that are summed over.
      rank: the number of dimensions.
      sums: whether there are labels that are summed over.
      terms: of a sum, with those of operands that are sums themselves, in the order of numbers.
      is_alike: whether the terms are all laid out as the sum is, if it is one.
      value: the program's value that it is, by number, if it is one.
      layout: for each dimension of that value the dimension of the expression, or ``None``.
      sign: that of the value.
      uses: how often the program's expressions, other ops and results need it.
      cost: of computing it from its operands, once that has been asked for.
    """

    number: int
    kind: str
    params: Any
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    rank: int
    dtype: Any
    sums: bool
    terms: tuple[Term, ...] = ()
    is_alike: bool = True
    value: int | None = None
    layout: tuple[int | None, ...] = ()
    sign: int = 1
    uses: int = 0
    cost: float | None = None

    @property
    def size(self) -> int:
        return math.prod(self.sizes[: self.rank])


class Tensor(NamedTuple):
    """An expression with a label on each dimension, and a sign."""

    expr: Expr
    labels: tuple[int, ...]
    sign: int = 1

    def relabelled(self, new: Any) -> Tensor:
        """The tensor with the labels that a mapping or a sequence has for its own."""
        return Tensor(self.expr, tuple(map(new.__getitem__, self.labels)), self.sign)

    @property
    def unsigned(self) -> Tensor:
        return self if self.sign == 1 else Tensor(self.expr, self.labels)

    def times(self, sign: int) -> Tensor:
        return self if sign == 1 else Tensor(self.expr, self.labels, -self.sign)

    def size_of(self, label: int) -> int:
        return self.expr.sizes[self.labels.index(label)]


@dataclass(eq=False)
class Algebra:
    """All expressions of a function and of its rewrites, one for each key."""

    known: dict[Any, Expr] = field(default_factory=dict)
    _ones: dict[Any, Tensor] = field(default_factory=dict)
    _pulled: dict[Any, list[Tensor]] = field(default_factory=dict)
    _depth: int = 0

    def leaf(self, sizes: Sequence[int], dtype: Any) -> Expr:
        """An expression of which nothing is known."""
        expr = self._new("leaf", None, (), tuple(sizes), len(sizes), dtype)
        self.known[expr] = expr
        return expr

    def atom(self, kind: str, params: Any, sizes: Sequence[int], dtype: Any) -> Expr:
        """An expression without operands, known by its parameters."""
        key = (kind, params, dtype, tuple(sizes))
        found = self.known.get(key)
        if found is None:
            found = self._new(kind, params, (), tuple(sizes), len(sizes), dtype)
            self.known[key] = found
        return found

    def constant(self, number: Any, dtype: Any) -> Tensor:
        return Tensor(
            self.atom("constant", np.asarray(number).astype(dtype).tobytes(), (), dtype), ()
        )

    def one(self, dtype: Any) -> Tensor:
        found = self._ones.get(dtype)
        if found is None:
            found = self._ones[dtype] = self.constant(1, dtype)
        return found

    def apply(
        self,
        kind: str,
        params: Any,
        operands: Sequence[Tensor],
        dtype: Any,
        gone: Collection[int] = (),
    ) -> Tensor:
        """The expression of an operation as it is; labels that are ``gone`` are summed over."""
        labels, sizes, used = _wired(operands, gone)
        key = (kind, params, dtype, used, len(labels))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._new(kind, params, used, sizes, len(labels), dtype)
        return Tensor(found, labels)

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
        found = self.raw_product(a, b, gone)
        for factor in (*outer, *others):
            found = self.product(found, factor)
        return found

    def raw_product(
        self, a: Tensor, b: Tensor, gone: Collection[int] = (), params: Any = None
    ) -> Tensor:
        """The product as it is."""
        if a.expr.number > b.expr.number:
            a, b = b, a
        if not gone or {*a.labels, *b.labels}.isdisjoint(gone):
            gone, params = (), None
        unsigned = (a, b) if a.sign == b.sign == 1 else (a.unsigned, b.unsigned)
        found = self.apply("product", params, unsigned, a.expr.dtype, gone)
        return found if a.sign == b.sign else found.times(-1)

    def sum(self, a: Tensor, gone: Collection[int]) -> Tensor:
        """A tensor summed over those of some labels that it has."""
        if not any(k in gone for k in a.labels):
            return a
        a, *factors = self.pulled(a, gone)
        if factors:
            return self.product(self.sum(a, gone), factors[0], gone)
        expr = a.expr
        if expr.kind == "product" and not expr.sums and len(expr.operands) == 2:
            x, y = (Tensor(e, w).relabelled(a.labels) for e, w, _ in expr.operands)
            return self.product(x, y, gone).times(a.sign)
        found = self.apply("product", None, [a.unsigned], a.expr.dtype, gone)
        return found.times(a.sign)

    # Pattern: sum over i of (x[i] f + x[i] g) b[i] = (f + g) (sum over i of x[i] b[i])
    def pulled(self, a: Tensor, gone: Collection[int]) -> list[Tensor]:
        """A tensor as a product: what has labels that are gone, and a factor without, if any."""
        if not any(k in gone for k in a.labels):
            return [a]
        key = (a.expr, tuple([k in gone for k in a.labels]))
        found = self._pulled.get(key)
        if found is None:
            if self._depth == MAX_DEPTH:
                return [a]
            dims = range(a.expr.rank)
            own = [d for d in dims if key[1][d]]
            self._depth += 1
            found = self._pulled[key] = self._pull(Tensor(a.expr, tuple(dims)), own)
            self._depth -= 1
        core, *factors = (t.relabelled(a.labels) for t in found)
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
        """The sum of two tensors; the same for all ways to add up the same terms."""
        is_whole = len(a.expr.terms or "1") + len(b.expr.terms or "1") <= MAX_TERMS
        is_alike = a.labels == b.labels
        if is_alike and is_whole:
            is_alike = a.expr.is_alike and b.expr.is_alike
        if is_alike:
            # As most are: terms that are laid out alike.
            labels = a.labels
            own = numbered(len(labels))
            terms = [t for x in (a, b) for t in _terms(Tensor(x.expr, own, x.sign), is_whole)]
            terms.sort(key=_number)
            sign = terms[0][2]
            sizes = terms[0][3].sizes[: len(own)]
            flat = tuple(_times(terms, sign))
        else:
            terms = [*_terms(a, is_whole), *_terms(b, is_whole)]
            terms.sort(key=_by_number)
            labels, sign = terms[0][1], terms[0][2]
            tensors = [Tensor(e, own) for _, own, _, e in terms]
            labels, sizes, wired = _wired(tensors, ())
            pairs = zip(terms, wired, strict=True)
            flat = tuple([(number, w, s * sign, e) for (number, _, s, _), (e, w, _) in pairs])
        key = ("add", a.expr.dtype, flat)
        found = self.known.get(key)
        if found is None:
            if is_alike:
                wirings = [own, own]
            else:
                at = {label: k for k, label in enumerate(labels)}
                wirings = [t.relabelled(at).labels for t in (a, b)]
            pairs = zip((a, b), wirings, strict=True)
            operands = tuple([(t.expr, w, t.sign * sign) for t, w in pairs])
            found = self._new("add", None, operands, sizes, len(labels), a.expr.dtype)
            found.terms, found.is_alike = flat, is_alike
            self.known[key] = found
        return Tensor(found, labels, sign)

    def scaled(self, a: Tensor, times: int) -> Tensor:
        """A tensor times a whole number."""
        if times == 1:
            return a
        return self.product(a, self.constant(times, a.expr.dtype))

    def _new(
        self, kind: str, params: Any, operands: Any, sizes: Any, rank: int, dtype: Any
    ) -> Expr:
        sums = len(sizes) > rank
        return Expr(len(self.known), kind, params, operands, sizes, rank, dtype, sums)


def _terms(t: Tensor, is_whole: bool) -> Sequence[Term]:
    """The terms that a tensor is the sum of, by its labels; itself as one unless ``is_whole``."""
    if t.expr.kind != "add" or not is_whole:
        return ((t.expr.number, t.labels, t.sign, t.expr),)
    labels = t.labels
    own = numbered(len(labels))
    if labels == own:
        return _times(t.expr.terms, t.sign)
    return [
        (number, labels if w == own else tuple([labels[k] for k in w]), s * t.sign, e)
        for number, w, s, e in t.expr.terms
    ]


def _times(terms: Sequence[Term], sign: int) -> Sequence[Term]:
    return terms if sign == 1 else [(number, w, -s, e) for number, w, s, e in terms]


_number = operator.itemgetter(0)
_by_number = operator.itemgetter(0, 1)


@functools.cache
def numbered(rank: int) -> Wiring:
    """The labels of dimensions in their order."""
    return tuple(range(rank))


def _wired(
    tensors: Sequence[Tensor], gone: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Operand, ...]]:
    """Numbers labels in the order in which they occur, those that are gone last.

    Returns:
      The labels of the result, the sizes by number, and the tensors as operands: the numbers of
      their labels.
    """
    first = tensors[0]
    if not gone and all([t.labels == first.labels or not t.labels for t in tensors]):
        # As most are: elementwise ops of tensors that are laid out alike.
        wiring = numbered(len(first.labels))
        used = tuple([(expr, wiring if labels else (), sign) for expr, labels, sign in tensors])
        return first.labels, first.expr.sizes[: len(wiring)], used
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
    kept = tuple(at)
    for k, size in summed.items():
        at[k] = len(sizes)
        sizes.append(size)
    number = at.__getitem__
    used = tuple([(expr, tuple(map(number, labels)), sign) for expr, labels, sign in tensors])
    return kept, tuple(sizes), used


# Pattern: sum over k of I[i,k] B[k] = B[i]
def _through_identity(eye: Tensor, b: Tensor, gone: Collection[int]) -> Tensor | None:
    """The product of an identity matrix, if one of its labels is gone, with another tensor."""
    for kept, summed in (eye.labels, eye.labels[::-1]):
        if summed in gone and kept not in b.labels:
            if summed not in b.labels and kept in gone:
                return None
            new = tuple([kept if k == summed else k for k in b.labels])
            return Tensor(b.expr, new, b.sign * eye.sign)
    return None


LINEAR = frozenset({"add", "div", "mask", "product"})
"""Kinds of expressions that are linear in some operand."""

CONTRACTING = NEEDED_OPS["jaxpr-factor-linear-sums"]


class Reading:
    """A function's values as tensors.

    Attributes:
      tensors: of the values, by number.
      ops: for each expression of the program the op that computes it, by index.
      weight: of the work in the longest chain of linear ops that leads to an expression.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        self.algebra: Algebra = Algebra()
        self.tensors: list[Tensor] = []
        self.ops: dict[Expr, int] = {}
        self.weight: dict[Expr, float] = {}
        for type_ in body.types[: body.arity]:
            self._leaf(type_)
        for index, signature in enumerate(body.signatures):
            self._read(index, signature)
        for v in body.returned:
            self.tensors[v].expr.uses += 1

    def _leaf(self, type_: ir.Type) -> None:
        shape, dtype = _described(type_)
        dims = tuple([d for d, size in enumerate(shape) if size != 1])
        expr = self.algebra.leaf([shape[d] for d in dims], dtype)
        self._is_value(expr, len(shape), dims)
        self.tensors.append(Tensor(expr, dims))

    def _is_value(self, expr: Expr, rank: int, labels: Sequence[int]) -> None:
        """Notes that an expression is the next value."""
        expr.value = len(self.tensors)
        if labels == (own := numbered(rank)):
            expr.layout = own
            return
        layout: list[int | None] = [None] * rank
        for k, d in enumerate(labels):
            layout[d] = k
        expr.layout = tuple(layout)

    def _read(self, index: int, signature: Signature) -> None:
        operands = [self.tensors[v] for v in self.body.operands[index]]
        kind = _kind_of(signature)
        found = kind.reader and kind.reader(self.algebra, kind, operands)
        if found is None:
            for t in operands:
                t.expr.uses += 1
            for type_ in signature.results:
                self._leaf(type_)
                self.ops[self.tensors[-1].expr] = index
            return
        expr = found.expr
        if expr.value is None:
            # It is the first one of its kind; the op itself may have another sign.
            self._is_value(expr, len(kind.shape), found.labels)
            expr.sign = found.sign
            self.ops[expr] = index
            for operand, _, _ in expr.operands:
                operand.uses += 1
        self.tensors.append(found)


class Kind:
    """What the ops of a signature have in common, as they are read.

    Attributes:
      reader: how they are read; ``None`` if they are not.
      shape, dtype: of the result.
      attributes: decoded, if they are read.
    """

    def __init__(self, signature: Signature):
        self.signature = signature
        self.name: str = signature.name
        self.attributes: dict[str, Any] = {}
        self.reader: Reader | None = None
        self._types = list(map(_described, signature.types))
        shape, dtype = self._types[-1] if self._types else ((), None)
        self.shape: tuple[int, ...] = shape
        self.dtype: Any = dtype
        reader = _READERS.get(signature.name)
        is_plain = signature.named.keys().isdisjoint(("jaxpr.ctx", "jaxpr.effects"))
        is_one = len(signature.results) == 1
        if reader and is_plain and is_one and all(dtype is not None for _, dtype in self._types):
            self.reader = reader
            self.attributes = {key: codec.decode(attr) for key, attr in signature.attributes}

    @functools.cached_property
    def is_number(self) -> bool:
        """Whether they compute with numbers of one type whose sums may be added up in any order."""
        return all(dtype == self.dtype for _, dtype in self._types) and can_be_summed(self.dtype)

    @functools.cached_property
    def labels(self) -> Labels | None:
        """How their dimensions run together; ``None`` if some are split or merged."""
        if self.name in CONTRACTING and not self.is_number:
            return None
        if self.attributes.get("preferred_element_type") not in (None, self.dtype):
            return None
        shapes = [shape for shape, _ in self._types[:-1]]
        wiring = wiring_of(self.name, self.attributes.get, shapes, self.shape)
        if wiring is None or not wiring.is_whole:
            return None
        is_dot = "dimension_numbers" in self.attributes
        return Labels(
            [tuple([k[0] if k else -1 for k in dims]) for dims in wiring.operands],
            wiring.summed,
            Dot(self.attributes.get("precision")) if is_dot else None,
        )


_kind_of = functools.cache(Kind)


class Dot(NamedTuple):
    """The mark of a product that is a ``dot_general``, with its precision."""

    precision: Any


class Labels(NamedTuple):
    """How an op that moves, repeats, multiplies and sums dimensions labels them.

    Attributes:
      operands: the label of each dimension of each operand, that of the result's dimension which
        runs along; -1 where the size is 1.
      gone: the labels that are summed over.
      dot: of a matrix product.
    """

    operands: list[tuple[int, ...]]
    gone: list[int]
    dot: Dot | None


@functools.cache
def _described(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype; of what is no array on one device, a scalar of an unknown type."""
    aval = aval_of(type_)
    plain = isinstance(aval, core.ShapedArray) and is_array(type_) and aval.size > 0
    plain = plain and not isinstance(aval.dtype, dtypes.ExtendedDType)
    return (tuple(aval.shape), np.dtype(aval.dtype)) if plain else ((), None)


def can_be_summed(dtype: Any) -> bool:
    """Whether sums of a type may be added up in another order: narrow floats round too soon."""
    if dtypes.issubdtype(dtype, np.inexact):
        return dtype.itemsize >= 4
    return dtypes.issubdtype(dtype, np.integer)


Reader = Callable[[Algebra, Kind, list[Tensor]], Tensor | None]


def _elementwise(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    return algebra.apply(kind.name, kind.signature.attributes, operands, kind.dtype)


# Pattern: (a + b)[i] = a[i] + b[i]
def _add(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    if not kind.is_number:
        return _elementwise(algebra, kind, operands)
    a, b = operands
    return algebra.add(a, b.times(-1) if kind.name == "jaxpr.sub" else b)


def _mul(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    if not kind.is_number:
        return _elementwise(algebra, kind, operands)
    return algebra.raw_product(*operands)


def _neg(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    return operands[0].times(-1) if kind.is_number else _elementwise(algebra, kind, operands)


def _div(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    # Quotients of integers are rounded; those of four bits are of another kind to numpy.
    if not kind.is_number or not dtypes.issubdtype(kind.dtype, np.inexact):
        return _elementwise(algebra, kind, operands)
    a, b = operands
    found = algebra.apply("div", None, [t.unsigned for t in operands], kind.dtype)
    return found.times(a.sign * b.sign)


# Pattern: (sum over c of A[b,i,c] B[b,j,c])[b,i,j]
def _rewired(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor | None:
    labels = kind.labels
    if labels is None:
        return None
    a, *others = (t.relabelled(k) for t, k in zip(operands, labels.operands, strict=True))
    for k in labels.gone:
        if not any(k in t.labels for t in (a, *others)):
            return None
    if not others:
        if not labels.gone:
            return a
        found = algebra.apply("product", None, [a.unsigned], kind.dtype, labels.gone)
        return found.times(a.sign)
    (b,) = others
    # A product with an identity matrix is the other matrix.
    if "eye" in (a.expr.kind, b.expr.kind):
        return algebra.product(a, b, labels.gone)
    return algebra.raw_product(a, b, labels.gone, labels.dot)


def _convert(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    (a,) = operands
    if a.expr.dtype == kind.dtype:
        return a
    if a.expr.kind == "eye" and a.sign == 1:
        return Tensor(algebra.atom("eye", None, a.expr.sizes, kind.dtype), a.labels)
    return _elementwise(algebra, kind, operands)


# --- constants ------------------------------------------------------------------------------------


def _constant(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor | None:
    value = kind.attributes.get("value")
    if not isinstance(value, np.ndarray) or value.size > 4096:
        return None
    if value.ndim == 0 and dtypes.issubdtype(kind.dtype, np.number):
        return algebra.constant(value, kind.dtype)
    shape = kind.shape
    if len(shape) == 2 and shape[0] == shape[1] > 1 and np.array_equal(value, np.eye(len(value))):
        return Tensor(algebra.atom("eye", None, shape, kind.dtype), (0, 1))
    return None


def _iota(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor | None:
    if operands:
        return None
    d = kind.attributes["dimension"]
    size = kind.shape[d]
    if size == 1:
        return algebra.constant(0, kind.dtype)
    if not can_count(kind.dtype, size):
        return None
    return Tensor(algebra.atom("iota", None, (size,), kind.dtype), (d,))


# Pattern: (i == j)[i,j] = I[i,j]
def _eq(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    a, b = operands
    same = (a.expr, a.sign) == (b.expr, b.sign)
    if same and a.expr.kind == "iota" and a.labels != b.labels:
        size = a.expr.sizes[0]
        eye = algebra.atom("eye", None, (size, size), kind.dtype)
        return Tensor(eye, (*a.labels, *b.labels))
    return _elementwise(algebra, kind, operands)


# Pattern: select_n(i == j, 0, x)[i,j] = I[i,j] x[i,j]
def _select_n(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor:
    dtype = kind.dtype
    mask, *cases = operands
    if len(cases) == 2 and mask.expr.dtype == np.bool_ and can_be_summed(dtype):
        zero = algebra.constant(0, dtype).expr
        for which, (x, other) in enumerate((cases[::-1], cases)):
            if other.expr is zero:
                masked = algebra.apply("mask", which, [mask, x.unsigned], dtype)
                if mask.expr.kind == "eye" and not which and not may_guard(masked.expr):
                    eye = Tensor(algebra.atom("eye", None, mask.expr.sizes, dtype), mask.labels)
                    return algebra.raw_product(eye, x)
                return masked.times(x.sign)
    return _elementwise(algebra, kind, operands)


def may_guard(mask: Expr) -> bool:
    """Whether what a mask keeps out at one place may alone not be finite.

    So it may be if it is made of something that belongs to that place, which has all labels of the
    mask, and which is an operand of the program or a function that has poles.  The factors of a
    matrix product have rows or columns in common with other places: one that is not finite is seen
    there as well.  A constant belongs to all; one that is not finite is there to be kept out.
    """
    (_, labels, _), kept_out = mask.operands
    pending: list[tuple[Expr, frozenset[int]]] = []
    seen: set[tuple[Expr, frozenset[int]]] = set()

    def note(expr: Expr, wiring: Wiring, own: Collection[int]) -> None:
        there = expr, frozenset([k for k, label in enumerate(wiring) if label in own])
        is_float = dtypes.issubdtype(expr.dtype, np.inexact)
        belongs = expr.kind == "constant" or len(there[1]) == len(own)
        if is_float and belongs and there not in seen:
            seen.add(there)
            pending.append(there)

    note(*kept_out[:2], labels)
    while pending:
        expr, own = pending.pop()
        operands = expr.operands
        if expr.kind == "div" and operands[1][0].kind == "constant":
            operands = operands[:1]
        elif expr.kind == "constant":
            if not np.isfinite(np.frombuffer(expr.params, expr.dtype)).all():
                return True
        elif expr.kind not in _FINITE:
            return True
        for operand, wiring, _ in operands:
            note(operand, wiring, own)
    return False


# Kinds of expressions that are finite where their operands are, but for overflow.
_FINITE = frozenset({"add", "eye", "iota", "mask", "product"}) | {
    f"jaxpr.{name}"
    for name in (
        *("abs", "atan", "ceil", "clamp", "convert_element_type", "copy", "cos", "erf", "erfc"),
        *("floor", "logistic", "max", "min", "neg", "round", "sign", "sin", "square"),
        *("stop_gradient", "tanh"),
    )
}


_READERS: dict[str, Reader] = dict.fromkeys(ELEMENTWISE, _elementwise) | {
    **dict.fromkeys(with_trait(Trait.ADDITIVE), _add),
    "jaxpr.mul": _mul,
    "jaxpr.neg": _neg,
    "jaxpr.div": _div,
    "jaxpr.dot_general": _rewired,
    "jaxpr.reduce_sum": _rewired,
    "jaxpr.broadcast_in_dim": _rewired,
    "jaxpr.transpose": _rewired,
    **dict.fromkeys(with_trait(Trait.RESHAPE), _rewired),
    "jaxpr.split": _rewired,
    "jaxpr.convert_element_type": _convert,
    "jaxpr.constant": _constant,
    "jaxpr.iota": _iota,
    "jaxpr.eq": _eq,
    "jaxpr.select_n": _select_n,
}
"""How ops are read, by name."""

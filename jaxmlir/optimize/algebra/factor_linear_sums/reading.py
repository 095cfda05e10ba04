"""Reading the ops of a function as tensors.

The dimensions of a value are labelled by their numbers; those of size 1, and those along which it
is repeated, have no label.  So the operands of an elementwise op are wired as they are, and an op
that moves nothing gives its operand other labels.  An op that is not read is a leaf.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
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
from jaxmlir.optimize.algebra.factor_linear_sums.tensors import (
    Algebra,
    Expr,
    Tensor,
    Wiring,
    numbered,
)
from jaxmlir.optimize.algebra.labelled_tensors import wiring_of
from jaxmlir.passes.levels import NEEDED_OPS

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
def _wired(algebra: Algebra, kind: Kind, operands: list[Tensor]) -> Tensor | None:
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
    "jaxpr.dot_general": _wired,
    "jaxpr.reduce_sum": _wired,
    "jaxpr.broadcast_in_dim": _wired,
    "jaxpr.transpose": _wired,
    **dict.fromkeys(with_trait(Trait.RESHAPE), _wired),
    "jaxpr.split": _wired,
    "jaxpr.convert_element_type": _convert,
    "jaxpr.constant": _constant,
    "jaxpr.iota": _iota,
    "jaxpr.eq": _eq,
    "jaxpr.select_n": _select_n,
}
"""How ops are read, by name."""

"""Reading the ops of a function as tensors.

The dimensions of a value are labelled by their numbers; those of size 1, and those along which it
is repeated, have no label.  So the operands of an elementwise op are wired as they are, and an op
that moves nothing gives its operand other labels.  An op that is not read is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.op_view import can_count
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

LINEAR = frozenset({"add", "div", "mask", "product"})
"""Kinds of expressions that are linear in some operand."""

CONTRACTING = frozenset({"jaxpr.dot_general", "jaxpr.reduce_sum"})
"""Ops without which there is nothing to do."""


class Reading:
    """A function's values as tensors.

    Attributes:
      tensors: of the values, by number.
      ops: for each expression of the program the op that computes it, by index.
      weight: of the work in the longest chain of linear ops that leads to an expression.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        self.algebra = Algebra()
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
        known = _known.get(signature)
        if known is None:
            known = _known[signature] = _reader(signature)
        reader, attributes, rank = known
        found = reader and reader(self.algebra, attributes, signature, operands)
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
            self._is_value(expr, rank, found.labels)
            expr.sign = found.sign
            self.ops[expr] = index
            for operand, _, _ in expr.operands:
                operand.uses += 1
        self.tensors.append(found)


def _reader(signature: Signature) -> tuple[Reader | None, dict[str, Any], int]:
    """How ops of a signature are read, if they are; their attributes, and the result's rank."""
    reader = _READERS.get(signature.name)
    types = (*signature.operands, *signature.results)
    names = {name for name, _ in signature.attributes}
    if (
        reader is None
        or len(signature.results) != 1
        or names & {"jaxpr.ctx", "jaxpr.effects", "out_sharding"}
        or any(_described(t)[1] is None for t in types)
    ):
        return None, {}, 0
    attributes = {name: codec.decode(attr) for name, attr in signature.attributes}
    return reader, attributes, len(_described(signature.results[0])[0])


_known: dict[Signature, tuple[Reader | None, dict[str, Any], int]] = {}


def _described(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype; of what is no array on one device, a scalar of an unknown type."""
    found = _types.get(type_)
    if found is None:
        aval = aval_of(type_)
        plain = isinstance(aval, core.ShapedArray) and is_array(type_) and aval.size > 0
        plain = plain and not isinstance(aval.dtype, dtypes.ExtendedDType)
        found = _types[type_] = (tuple(aval.shape), np.dtype(aval.dtype)) if plain else ((), None)
    return found


_types: dict[ir.Type, tuple[tuple[int, ...], Any]] = {}


def can_be_summed(dtype: Any) -> bool:
    """Whether sums of a type may be added up in another order: narrow floats round too soon."""
    if dtypes.issubdtype(dtype, np.inexact):
        return dtype.itemsize >= 4
    return dtypes.issubdtype(dtype, np.integer)


Reader = Callable[[Algebra, dict[str, Any], Signature, list[Tensor]], Tensor | None]


def _is_number(signature: Signature) -> bool:
    """Whether an op computes with numbers of one type whose sums may be added up in any order."""
    found = _numbers.get(signature)
    if found is None:
        dtype = _described(signature.results[0])[1]
        same = all(_described(t)[1] == dtype for t in signature.operands)
        found = _numbers[signature] = same and can_be_summed(dtype)
    return found


_numbers: dict[Signature, bool] = {}


def _elementwise(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    dtype = _described(signature.results[0])[1]
    return algebra.apply(signature.name, signature.attributes, operands, dtype)


# Pattern: (a + b)[i] = a[i] + b[i]
def _add(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    if not _is_number(signature):
        return _elementwise(algebra, attrs, signature, operands)
    a, b = operands
    return algebra.add(a, b.times(-1) if signature.name == "jaxpr.sub" else b)


def _mul(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    if not _is_number(signature):
        return _elementwise(algebra, attrs, signature, operands)
    return algebra.raw_product(*operands)


def _neg(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    if not _is_number(signature):
        return _elementwise(algebra, attrs, signature, operands)
    return operands[0].times(-1)


def _div(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    dtype = _described(signature.results[0])[1]
    # Quotients of integers are rounded; those of four bits are of another kind to numpy.
    if not _is_number(signature) or not dtypes.issubdtype(dtype, np.inexact):
        return _elementwise(algebra, attrs, signature, operands)
    a, b = operands
    found = algebra.apply("div", None, [t.unsigned for t in operands], a.expr.dtype)
    return found.times(a.sign * b.sign)


class Dot(NamedTuple):
    """That a product is a ``dot_general``, of this precision."""

    precision: Any


class _Labels(NamedTuple):
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


def _labels_of(signature: Signature, attrs: dict[str, Any]) -> _Labels | None:
    (shape, dtype), is_dot = _described(signature.results[0]), "dimension_numbers" in attrs
    if signature.name in CONTRACTING and not _is_number(signature):
        return None
    if attrs.get("preferred_element_type") not in (None, dtype):
        return None
    shapes = [_described(type_)[0] for type_ in signature.operands]
    wiring = wiring_of(signature.name, attrs.get, shapes, shape)
    if wiring is None or not wiring.is_whole:
        return None
    labels = [tuple([k[0] if k else -1 for k in dims]) for dims in wiring.operands]
    return _Labels(labels, wiring.summed, Dot(attrs.get("precision")) if is_dot else None)


_labels: dict[Signature, _Labels | None] = {}


# Pattern: (sum over c of A[b,i,c] B[b,j,c])[b,i,j]
def _wired(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor | None:
    if signature not in _labels:
        _labels[signature] = _labels_of(signature, attrs)
    labels = _labels[signature]
    if labels is None:
        return None
    a, *others = (t.relabelled(k) for t, k in zip(operands, labels.operands, strict=True))
    for k in labels.gone:
        if not any(k in t.labels for t in (a, *others)):
            return None
    if not others:
        if not labels.gone:
            return a
        summed = algebra.apply("product", None, [a.unsigned], a.expr.dtype, labels.gone)
        return summed.times(a.sign)
    found = _identity_product(algebra, a, *others, labels.gone)
    return found or algebra.raw_product(a, *others, labels.gone, labels.dot)


def _identity_product(algebra: Algebra, a: Tensor, b: Tensor, gone: Sequence[int]) -> Tensor | None:
    """A matrix product with an identity matrix, which is the other matrix."""
    if "eye" not in (a.expr.kind, b.expr.kind):
        return None
    return algebra.product(a, b, gone)


def _convert(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    (a,) = operands
    dtype = _described(signature.results[0])[1]
    if a.expr.dtype == dtype:
        return a
    if a.expr.kind == "eye" and a.sign == 1:
        return Tensor(algebra.atom("eye", None, a.expr.sizes, dtype), a.labels)
    return _elementwise(algebra, attrs, signature, operands)


# --- constants ------------------------------------------------------------------------------------


def _constant(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor | None:
    value = attrs.get("value")
    if not isinstance(value, np.ndarray) or value.size > 4096:
        return None
    shape, dtype = _described(signature.results[0])
    if value.ndim == 0 and dtypes.issubdtype(dtype, np.number):
        return algebra.constant(value, dtype)
    if len(shape) == 2 and shape[0] == shape[1] > 1 and np.array_equal(value, np.eye(len(value))):
        return Tensor(algebra.atom("eye", None, shape, dtype), (0, 1))
    return None


def _iota(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor | None:
    if operands:
        return None
    shape, dtype = _described(signature.results[0])
    d = attrs["dimension"]
    if shape[d] == 1:
        return algebra.constant(0, dtype)
    if not can_count(dtype, shape[d]):
        return None
    return Tensor(algebra.atom("iota", None, (shape[d],), dtype), (d,))


# Pattern: (i == j)[i,j] = I[i,j]
def _eq(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    a, b = operands
    dtype = _described(signature.results[0])[1]
    same = (a.expr, a.sign) == (b.expr, b.sign)
    if same and a.expr.kind == "iota" and a.labels != b.labels:
        size = a.expr.sizes[0]
        return Tensor(algebra.atom("eye", None, (size, size), dtype), (*a.labels, *b.labels))
    return _elementwise(algebra, attrs, signature, operands)


# Pattern: select_n(i == j, 0, x)[i,j] = I[i,j] x[i,j]
def _select_n(
    algebra: Algebra, attrs: dict[str, Any], signature: Signature, operands: list[Tensor]
) -> Tensor:
    dtype = _described(signature.results[0])[1]
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
    return _elementwise(algebra, attrs, signature, operands)


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

"""Reads the ops of a function as expressions of labelled tensors.

The dimensions of a value are labelled by their numbers; dimensions of size 1, and those along which
the value is broadcast, have no label.  So the operands of an elementwise op have matching labels,
and an op that only changes the layout gives its operand other labels.  The results of an op that is
not read are leaves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView, can_count
from jaxmlir.analysis.op_counts import can_be_summed
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.algebra.labelled_tensors import selectors
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Expr, Labels, Tensor
from jaxmlir.optimize.algebra.labelled_tensors.kinds import (
    OpKind,
    TensorRule,
    Wiring,
    described,
    kind_of,
)


def read(body: FunctionView) -> FunctionTensors:
    """A function's values as tensors; cached in the view, for passes that share it."""
    if body.tensors is None:
        body.tensors = FunctionTensors(body)
    return body.tensors


class FunctionTensors:
    """A function's values as tensors.

    Attributes:
      tensors: the tensors of the values, by number.
      ops: for each expression of the program the index of the op that computes it.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        self.algebra: Algebra = Algebra()
        self.tensors: list[Tensor] = []
        self.ops: dict[Expr, int] = {}
        for type_ in body.types[: body.arity]:
            self._leaf(type_)
        for index, signature in enumerate(body.signatures):
            self._read(index, signature)
        for v in body.returned:
            self.tensors[v].expr.users.append(None)

    def operands(self, index: int) -> list[Tensor]:
        """The operands of an op."""
        return [self.tensors[v] for v in self.body.operands[index]]

    def _leaf(self, type_: ir.Type) -> None:
        shape, dtype = described(type_)
        dims = tuple([d for d, size in enumerate(shape) if size != 1])
        expr = self.algebra.leaf([shape[d] for d in dims], dtype)
        expr.value = len(self.tensors)
        self.tensors.append(Tensor(expr, dims))

    def layout(self, value: int) -> list[int | None]:
        """For each dimension of a value, the expression's dimension; ``None`` if it has none."""
        shape, _ = described(self.body.types[value])
        layout: list[int | None] = [None] * len(shape)
        for k, d in enumerate(self.tensors[value].labels):
            layout[d] = k
        return layout

    def is_before(self, expr: Expr, index: int) -> bool:
        """Whether an expression is computed before an op."""
        return expr.value is not None and self.ops.get(expr, -1) < index

    def _read(self, index: int, signature: Signature) -> None:
        tensors = self.tensors
        operands = [tensors[v] for v in self.body.operands[index]]
        kind, reader = _reader_of(signature)
        tensor = reader and reader(self.algebra, kind, operands)
        if tensor is None:
            for t in operands:
                t.expr.users.append(None)
            for type_ in signature.results:
                self._leaf(type_)
                self.ops[tensors[-1].expr] = index
            return
        expr = tensor.expr
        if expr.value is None:
            # This is the first value of the expression.
            expr.value = len(tensors)
            self.ops[expr] = index
            # If it has users, it was read before as an operand of another expression.
            if not expr.users:
                _use_operands(expr)
        tensors.append(tensor)


@functools.cache
def _reader_of(signature: Signature) -> tuple[OpKind, TensorRule | None]:
    """How the ops of a signature are read."""
    kind = kind_of(signature)
    return kind, READERS.get(signature.name) if kind.is_plain else None


def _use_operands(expr: Expr) -> None:
    """Records an expression as a user of its operands; so, too, operands that are no values."""
    for operand, _, _ in expr.operands:
        operand.users.append(expr)
        if operand.value is None and len(operand.users) == 1:
            _use_operands(operand)


def _elementwise(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    return algebra.apply(kind.name, kind.signature.attributes, operands, kind.dtype)


# Pattern: (a + b)[i] = a[i] + b[i]
def _add(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    if not kind.is_number:
        return _elementwise(algebra, kind, operands)
    a, b = operands
    total = algebra.add(a, b.times(-1) if kind.name == "jaxpr.sub" else b)
    in_order = {e for e, _, _ in total.expr.operands} == {a.expr, b.expr}
    # In another order of the terms, others cancel: (x + y) - x is not (x - x) + y.
    return total if in_order or total.expr.value is None else None


def _mul(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    if not kind.is_number:
        return _elementwise(algebra, kind, operands)
    return algebra.raw_product(*operands)


def _neg(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    return operands[0].times(-1) if kind.is_number else _elementwise(algebra, kind, operands)


def _div(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    # Integer quotients are rounded; numpy's dtype kind does not tell 4-bit integers from floats.
    if not kind.is_number or not dtypes.issubdtype(kind.dtype, np.inexact):
        return _elementwise(algebra, kind, operands)
    a, b = operands
    quotient = algebra.apply("div", None, [t.unsigned for t in operands], kind.dtype)
    return quotient.times(a.sign * b.sign)


# Pattern: (sum over c of A[b,i,c] B[b,j,c])[b,i,j]
def _rewired(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    wiring = kind.wiring
    if wiring is None:
        return None
    if not wiring.is_whole:
        return _split(algebra, wiring, operands[0])
    gone = wiring.summed
    a, *others = (
        t.relabelled([k[0] if k else -1 for k in dims])
        for t, dims in zip(operands, wiring.operands, strict=True)
    )
    met = {*a.labels}.union(*(t.labels for t in others))
    times = math.prod([wiring.sizes[k] for k in gone if k not in met])
    if not met.isdisjoint(gone) and not others:
        a = algebra.raw_sum(a, gone)
    # A product with an identity matrix is the other matrix.
    elif others and "eye" in (a.expr.kind, others[0].expr.kind):
        a = algebra.product(a, others[0], gone)
    elif others:
        a = algebra.raw_product(a, others[0], gone, kind.dot)
    return algebra.scaled(a, times)


# Pattern: reshape(x)[a,bc] = x[ab,c]
def _split(algebra: Algebra, wiring: Wiring, a: Tensor) -> Tensor:
    dims = [wiring.operands[0][d] for d in a.labels]
    met = {k for labels in dims for k in labels}
    result = {d: labels for d, labels in enumerate(wiring.result) if not met.isdisjoint(labels)}
    if all(len(labels) == 1 for labels in (*dims, *result.values())):
        at = {labels[0]: d for d, labels in result.items()}
        return Tensor(a.expr, tuple([at[k] for (k,) in dims]), a.sign)
    return algebra.reshaped(a, dims, [*result.values()], wiring.sizes).relabelled([*result])


# Pattern: concatenate(x, x)[i,d] = x[i]
def _concatenate(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    first, d = operands[0], kind.attributes["dimension"]
    is_repeated = all(t == first for t in operands) and d not in first.labels
    return first if is_repeated else None


def _convert(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    (a,) = operands
    expr, dtype = a.expr, kind.dtype
    if expr.dtype == dtype:
        return a
    if expr.kind == "eye" and a.sign == 1:
        return Tensor(algebra.atom("eye", None, expr.sizes, dtype), a.labels)
    if expr.kind == "iota" and a.sign == 1 and dtype.kind in "iu" and can_count(dtype, *expr.sizes):
        return Tensor(algebra.atom("iota", None, expr.sizes, dtype), a.labels)
    if expr.kind == "jaxpr.eq" and can_be_summed(dtype):
        one_hot = selectors.one_hot(algebra, a, dtype)
        if one_hot is not None:
            return one_hot
    return _elementwise(algebra, kind, operands)


# --- constants ------------------------------------------------------------------------------------


def _constant(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
    value = kind.attributes.get("value")
    if not isinstance(value, np.ndarray) or value.size > 4096:
        return None
    if dtypes.issubdtype(kind.dtype, np.number) and value.size:
        number = value.reshape(-1)[0]
        if value.tobytes() == number.tobytes() * value.size:
            return algebra.constant(number, kind.dtype)
    shape = kind.shape
    if len(shape) == 2 and shape[0] == shape[1] > 1 and np.array_equal(value, np.eye(len(value))):
        return Tensor(algebra.atom("eye", None, shape, kind.dtype), (0, 1))
    return None


def _iota(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor | None:
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
def _eq(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    a, b = operands
    same = (a.expr, a.sign) == (b.expr, b.sign)
    if same and a.expr.kind == "iota" and a.labels != b.labels:
        size = a.expr.sizes[0]
        eye = algebra.atom("eye", None, (size, size), kind.dtype)
        return Tensor(eye, (*a.labels, *b.labels))
    return _elementwise(algebra, kind, operands)


# Pattern: select_n(i == j, 0, x)[i,j] = I[i,j] x[i,j]
def _select_n(algebra: Algebra, kind: OpKind, operands: list[Tensor]) -> Tensor:
    dtype = kind.dtype
    mask, *cases = operands
    if len(cases) == 2 and mask.expr.dtype == np.bool_ and can_be_summed(dtype):
        for which, (x, other) in enumerate((cases[::-1], cases)):
            if algebra.is_zero(other):
                masked = algebra.apply("mask", which, [mask, x.unsigned], dtype)
                if mask.expr.kind == "eye" and not which and not may_guard(masked.expr):
                    eye = Tensor(algebra.atom("eye", None, mask.expr.sizes, dtype), mask.labels)
                    return algebra.raw_product(eye, x)
                return masked.times(x.sign)
    return _elementwise(algebra, kind, operands)


def may_guard(mask: Expr) -> bool:
    """Whether an element that a mask blocks may be non-finite while the others are finite.

    This is possible if it is computed from a tensor with all labels of the mask, i.e. with an
    element of its own at that place, that is a leaf or a function with poles.  The factors of a
    matrix product share rows or columns with other places, where a non-finite number shows as well.
    A non-finite constant counts too: the mask is there to block it.
    """
    (_, labels, _), kept_out = mask.operands
    pending: list[tuple[Expr, frozenset[int]]] = []
    seen: set[tuple[Expr, frozenset[int]]] = set()

    def note(expr: Expr, labels: Labels, own: Collection[int]) -> None:
        entry = expr, frozenset([k for k, label in enumerate(labels) if label in own])
        is_float = dtypes.issubdtype(expr.dtype, np.inexact)
        belongs = expr.kind == "constant" or len(entry[1]) == len(own)
        if is_float and belongs and entry not in seen:
            seen.add(entry)
            pending.append(entry)

    note(*kept_out[:2], labels)
    while pending:
        expr, mask_labels = pending.pop()
        operands = expr.operands
        if expr.kind == "div" and operands[1][0].kind == "constant":
            operands = operands[:1]
        elif expr.kind == "constant":
            if not np.isfinite(np.frombuffer(expr.params, expr.dtype)).all():
                return True
        elif expr.kind not in _FINITE:
            return True
        for operand, of_operand, _ in operands:
            note(operand, of_operand, mask_labels)
    return False


# Kinds of expressions that are finite if their operands are, except for overflow.
_FINITE = frozenset({"add", "eye", "iota", "mask", "product"}) | {
    f"jaxpr.{name}"
    for name in (
        *("abs", "atan", "ceil", "clamp", "convert_element_type", "copy", "cos", "erf", "erfc"),
        *("floor", "logistic", "max", "min", "neg", "round", "sign", "sin", "square"),
        *("stop_gradient", "tanh"),
    )
}


READERS: dict[str, TensorRule] = dict.fromkeys(ELEMENTWISE, _elementwise) | {
    **dict.fromkeys(with_trait(Trait.ADDITIVE), _add),
    **dict.fromkeys(with_trait(Trait.RESHAPE), _rewired),
    "jaxpr.broadcast_in_dim": _rewired,
    "jaxpr.concatenate": _concatenate,
    "jaxpr.constant": _constant,
    "jaxpr.convert_element_type": _convert,
    "jaxpr.div": _div,
    "jaxpr.dot_general": _rewired,
    "jaxpr.eq": _eq,
    "jaxpr.iota": _iota,
    "jaxpr.mul": _mul,
    "jaxpr.neg": _neg,
    "jaxpr.reduce_sum": _rewired,
    "jaxpr.select_n": _select_n,
    "jaxpr.split": _rewired,
    "jaxpr.transpose": _rewired,
    **selectors.READERS,
}
"""The functions that read ops, by op name."""

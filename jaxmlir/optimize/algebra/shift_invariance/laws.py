"""How values depend on a shift: the calculus of ``jaxpr-shift-invariance``, a rule for each op.

A rule takes an op and the laws of its operands, ``None`` for those that do not depend on the shift,
gives the law of its result, and raises :class:`Unknown` where there is none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from jaxmlir.analysis.function_view import FunctionView, OpView, number_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of


class Unknown(Exception):
    """A value depends on the shift in no way that the calculus knows."""


@dataclass(frozen=True)
class Law:
    """How a value ``v`` depends on a shift ``m``.

    Attributes:
      scaled: ``v = v0 exp(c m)``, else ``v = v0 + c m``.
      by: ``c``, not 0.
      dims: for each dimension of ``m`` of more than one element, that of ``v`` which runs along.
    """

    scaled: bool
    by: Fraction
    dims: tuple[int, ...]


Laws = Sequence[Law | None]
Rule = Callable[[OpView, Laws], Law | None]


def does_depend(shift: int, body: FunctionView) -> bool:
    """Whether what a function returns, or does, may depend on a value; also if nothing uses it.

    Args:
      shift: the number of the value.
    """
    shape = aval_of(body.types[shift]).shape
    dims = tuple(d for d, size in enumerate(shape) if size != 1)
    laws: dict[int, Law] = {shift: Law(False, Fraction(1), dims)}
    pending = list(body.users[shift])
    if not pending:
        return True
    done = -1
    while pending:
        index = heapq.heappop(pending)
        if index == done:
            # It uses several values that depend on the shift.
            continue
        done, name = index, body.names[index]
        if name not in RULES:
            return True
        try:
            law = RULES[name](body.op_views[index], [laws.get(v) for v in body.operands[index]])
        except Unknown:
            return True
        if law is not None:
            result, _ = body.results[index]
            laws[result] = law
            for user in body.users[result]:
                heapq.heappush(pending, user)
    return not body.outputs.isdisjoint(laws)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return aval_of(value.type).shape


def real_number(value: ir.Value) -> float | None:
    """The real number that a value is in every element, if that is known."""
    number = number_of(value)
    return None if number is None or number.dtype.kind not in "iuf" else float(number)


def _made(scaled: bool, by: Fraction, laws: Laws) -> Law | None:
    """A law of the form of some others, whose dimensions have to run along alike."""
    dims = {law.dims for law in laws if law is not None}
    if len(dims) > 1:
        raise Unknown
    return Law(scaled, by, *dims) if by else None


# --- elementwise ----------------------------------------------------------------------------------


# (a + c m) + (b + d m) = (a + b) + (c + d) m;  a exp(c m) + b exp(c m) = (a + b) exp(c m)
def _sum(sign: int) -> Rule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        if any(law is not None and law.scaled for law in laws):
            return _alike(node, laws)
        x, y = (Fraction(0) if law is None else law.by for law in laws)
        return _made(False, x + sign * y, laws)

    return rule


# a exp(c m) * b exp(d m) = a b exp((c + d) m);  k (a + c m) = k a + k c m
def _product(sign: int) -> Rule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        x, y = laws
        if all(law is None or law.scaled for law in laws):
            by = (x.by if x else Fraction(0)) + sign * (y.by if y else Fraction(0))
            return _made(True, by, laws)
        factor = real_number(node.operands[1 if y is None else 0])
        if (x is not None and y is not None) or (x is None and sign < 0):
            raise Unknown
        if factor is None or not np.isfinite(factor) or not factor:
            raise Unknown
        by = (x or y).by
        return _made(False, by * Fraction(factor) if sign > 0 else by / Fraction(factor), laws)

    return rule


def _alike(node: OpView, laws: Laws) -> Law:
    """Of ops whose result has the law that all operands have."""
    found = {law for law in laws if law is not None}
    if len(found) != 1:
        raise Unknown
    (law,) = found
    for v, of_operand in zip(node.operands, laws, strict=True):
        if of_operand is None:
            number = real_number(v)
            # Zero is scaled by everything, and an infinity shifted.
            if number is None or (number != 0 if law.scaled else not np.isinf(number)):
                raise Unknown
    return law


# x + c m < y + c m  does not depend on m
def _comparison(node: OpView, laws: Laws) -> None:
    _alike(node, laws)


def _select(node: OpView, laws: Laws) -> Law:
    if laws[0] is not None:
        raise Unknown
    return _alike(_Cases(node), laws[1:])


class _Cases(OpView):
    """A ``select_n`` without its predicate."""

    def __init__(self, node: OpView):
        super().__init__(node.op, node.name, node.operands[1:])


def _neg(node: OpView, laws: Laws) -> Law:
    (law,) = laws
    return law if law.scaled else replace(law, by=-law.by)


def _exp(node: OpView, laws: Laws) -> Law:
    if laws[0].scaled:
        raise Unknown
    return replace(laws[0], scaled=True)


def _log(node: OpView, laws: Laws) -> Law:
    return replace(_scaled(laws), scaled=False)


def _scaled(laws: Laws) -> Law:
    if not laws[0].scaled:
        raise Unknown
    return laws[0]


def _power(exponent: Callable[[OpView], Fraction]) -> Rule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        law = _scaled(laws)
        return _made(True, law.by * exponent(node), laws)

    return rule


def _convert(node: OpView, laws: Laws) -> Law:
    if aval_of(node.op.results[0].type).dtype.kind == "f":
        return laws[0]
    raise Unknown


# --- shapes, sums and products --------------------------------------------------------------------


def _moved(law: Law, position: Callable[[int], int]) -> Law:
    return replace(law, dims=tuple(map(position, law.dims)))


def _broadcast(node: OpView, laws: Laws) -> Law:
    if len(node.operands) != 1:
        raise Unknown
    dims = node.get("broadcast_dimensions")
    return _moved(laws[0], lambda d: dims[d])


def _transpose(node: OpView, laws: Laws) -> Law:
    return _moved(laws[0], node.get("permutation").index)


def _reshape(node: OpView, laws: Laws) -> Law:
    """Dimensions of size 1 may come and go."""
    old, new = _shape(node.operands[0]), _shape(node.op.results[0])
    before, after = ([d for d, size in enumerate(s) if size != 1] for s in (old, new))
    permutes = node.name == "jaxpr.reshape" and "dimensions" in node.attributes
    if permutes or [old[d] for d in before] != [new[d] for d in after]:
        raise Unknown
    return _moved(laws[0], lambda d: after[before.index(d)])


def _reduced(node: OpView, laws: Laws) -> Law:
    gone = node.get("axes")
    if not set(gone).isdisjoint(laws[0].dims):
        raise Unknown
    left = [d for d in range(len(_shape(node.operands[0]))) if d not in gone]
    return _moved(laws[0], left.index)


def _reduce_sum(node: OpView, laws: Laws) -> Law:
    _scaled(laws)
    return _reduced(node, laws)


# sum_j a_ij exp(c m_i) b_jk = (sum_j a_ij b_jk) exp(c m_i)
def _dot_general(node: OpView, laws: Laws) -> Law:
    side = 0 if laws[1] is None else 1
    law = laws[side]
    if laws[1 - side] is not None or not law.scaled:
        raise Unknown
    contracted, batch = node.get("dimension_numbers")
    rank = len(_shape(node.operands[side]))
    free = [d for d in range(rank) if d not in (*contracted[side], *batch[side])]
    if not set(contracted[side]).isdisjoint(law.dims):
        raise Unknown
    # Those of the result: batch, left, right.
    first = 0 if side == 0 else len(_shape(node.op.results[0])) - len(free) - len(batch[0])
    order = list(batch[side])
    return _moved(
        law, lambda d: order.index(d) if d in order else len(order) + first + free.index(d)
    )


RULES: dict[str, Rule] = {
    f"jaxpr.{name}": rule
    for name, rule in {
        "add": _sum(1),
        "add_any": _sum(1),
        "sub": _sum(-1),
        "mul": _product(1),
        "div": _product(-1),
        "neg": _neg,
        "exp": _exp,
        "log": _log,
        "max": _alike,
        "min": _alike,
        "select_n": _select,
        "convert_element_type": _convert,
        "square": _power(lambda node: Fraction(2)),
        "integer_pow": _power(lambda node: Fraction(node.get("y"))),
        "sqrt": _power(lambda node: Fraction(1, 2)),
        "rsqrt": _power(lambda node: Fraction(-1, 2)),
        **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _comparison),
        "broadcast_in_dim": _broadcast,
        "reshape": _reshape,
        "squeeze": _reshape,
        "transpose": _transpose,
        "reduce_max": _reduced,
        "reduce_min": _reduced,
        "reduce_sum": _reduce_sum,
        "dot_general": _dot_general,
    }.items()
}
"""Of the ops that the calculus knows."""

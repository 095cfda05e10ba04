"""``jaxpr-shift-invariance``: no derivative of a maximum that is only subtracted to avoid overflow.

A softmax subtracts the maximum ``m`` of its logits, ``e = exp(x - m)``, ``e / sum(e)``, so that
nothing overflows; its value does not depend on ``m``.  JAX's own functions declare that by
``stop_gradient``.  If users write the formula themselves, the derivative of the maximum is computed
with comparisons of all elements and sums, only to add up to zero with rounding errors.

The pass proves the invariance: every value computed from ``m`` is, as a function of ``m``, one of

    v = v0 + c m          shifted, by c
    v = v0 exp(c m)       scaled, by c

where ``v0`` and the number ``c`` do not depend on ``m``.  ``exp`` turns shifted values into scaled
ones, and ``log`` does the reverse.  The exponents of factors add up, and a sum of values with equal
exponents keeps the exponent.  A value with ``c = 0``, as a quotient of two with the same exponent,
does not depend on ``m``.  If this holds for every value that leaves this calculus, ``m`` gets a
``stop_gradient``.  No bit of the program's value changes; its derivatives of all orders only lose
the rounding errors of the zeros.

``m`` may be an array, for example with an element for each row.  So the law of a value also records
which of its dimensions run along with those of ``m``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView, OpView, node_of, number_of
from jaxmlir.analysis.index_maps import maps_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark

# -- How values depend on a shift: the calculus of ``jaxpr-shift-invariance``, a rule for each op --
#
# A rule takes an op and the laws of its operands, ``None`` for operands that do not depend on the
# shift.  It returns the law of the result, and raises :class:`NoShiftLaw` if there is none.


class NoShiftLaw(Exception):
    """A value depends on the shift in a way that the calculus does not know."""


class Law(NamedTuple):
    """A law by which a value ``v`` depends on a shift ``m``.

    Attributes:
      scaled: ``v = v0 exp(c m)``, else ``v = v0 + c m``.
      by: ``c``, not 0.
      dims: for each dimension of ``m`` of size above 1, the dimension of ``v`` that runs along.
    """

    scaled: bool
    by: Fraction
    dims: tuple[int, ...]


Laws = Sequence[Law | None]
LawRule = Callable[[OpView, Laws], Law | None]


def laws_of(body: FunctionView, shift: int) -> dict[int, Law] | None:
    """The laws of the values that depend on a value, by number; ``None`` if results or effects of
    the function may depend on it, or if it is unused."""
    shape = aval_of(body.types[shift]).shape
    dims = tuple(d for d, size in enumerate(shape) if size != 1)
    laws = {shift: Law(False, Fraction(1), dims)}
    # In the order of the ops.
    pending = [*body.users[shift]]
    met = set(pending)
    if not pending or shift in body.outputs:
        return None
    while pending:
        index = heapq.heappop(pending)
        rule = RULES.get(body.names[index])
        if rule is None:
            return None
        try:
            law = rule(body.op_views[index], [laws.get(v) for v in body.operands[index]])
        except NoShiftLaw:
            return None
        if law is None:
            continue
        (value,) = range(*body.results[index])
        if value in body.outputs:
            return None
        laws[value] = law
        for user in body.users[value]:
            if user not in met:
                met.add(user)
                heapq.heappush(pending, user)
    return laws


def real_number(value: ir.Value) -> float | None:
    """The real number that every element of a value equals, if known."""
    number = number_of(value)
    return float(number) if number is not None and _is_real(number.dtype) else None


def _is_real(dtype: Any) -> bool:
    return any(dtypes.issubdtype(dtype, kind) for kind in (np.floating, np.integer))


def _law(scaled: bool, by: Fraction, laws: Laws) -> Law | None:
    """A law with the dimensions of some others, which have to be the same; ``None`` if ``by`` is
    0."""
    dims = {law.dims for law in laws if law is not None}
    if len(dims) > 1:
        raise NoShiftLaw
    return Law(scaled, by, *dims) if by else None


# --- elementwise ----------------------------------------------------------------------------------


# (a + c m) + (b + d m) = (a + b) + (c + d) m;  a exp(c m) + b exp(c m) = (a + b) exp(c m)
def _sum(sign: int) -> LawRule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        if any(law is not None and law.scaled for law in laws):
            return _alike(node, laws)
        x, y = (Fraction(0) if law is None else law.by for law in laws)
        return _law(False, x + sign * y, laws)

    return rule


# a exp(c m) * b exp(d m) = a b exp((c + d) m);  k (a + c m) = k a + k c m
def _product(sign: int) -> LawRule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        x, y = laws
        if all(law is None or law.scaled for law in laws):
            by = (x.by if x else Fraction(0)) + sign * (y.by if y else Fraction(0))
            return _law(True, by, laws)
        factor = real_number(node.operands[1 if y is None else 0])
        if (x is not None and y is not None) or (x is None and sign < 0):
            raise NoShiftLaw
        if factor is None or not np.isfinite(factor) or not factor:
            raise NoShiftLaw
        by = (x or y).by
        return _law(False, by * Fraction(factor) if sign > 0 else by / Fraction(factor), laws)

    return rule


def _alike(node: OpView, laws: Laws) -> Law:
    """The common law of all operands of an op, which is that of its result."""
    distinct = {law for law in laws if law is not None}
    if len(distinct) != 1:
        raise NoShiftLaw
    (law,) = distinct
    for v, of_operand in zip(node.operands, laws, strict=True):
        if of_operand is None:
            number = real_number(v)
            # Zero is invariant under scaling, and an infinity under shifts.
            if number is None or (number != 0 if law.scaled else not np.isinf(number)):
                raise NoShiftLaw
    return law


# x + c m < y + c m  does not depend on m
def _comparison(node: OpView, laws: Laws) -> None:
    _alike(node, laws)


def _select(node: OpView, laws: Laws) -> Law:
    which, *cases = laws
    if which is not None:
        raise NoShiftLaw
    return _alike(OpView(node.op, node.name, node.operands[1:]), cases)


def _neg(node: OpView, laws: Laws) -> Law:
    (law,) = laws
    return law if law.scaled else law._replace(by=-law.by)


def _exp(node: OpView, laws: Laws) -> Law:
    if laws[0].scaled:
        raise NoShiftLaw
    return laws[0]._replace(scaled=True)


def _log(node: OpView, laws: Laws) -> Law:
    return _scaled(laws)._replace(scaled=False)


def _scaled(laws: Laws) -> Law:
    if not laws[0].scaled:
        raise NoShiftLaw
    return laws[0]


def _power(exponent: Callable[[OpView], Fraction]) -> LawRule:
    def rule(node: OpView, laws: Laws) -> Law | None:
        law = _scaled(laws)
        return _law(True, law.by * exponent(node), laws)

    return rule


def _convert(node: OpView, laws: Laws) -> Law:
    if dtypes.issubdtype(aval_of(node.op.results[0].type).dtype, np.floating):
        return laws[0]
    raise NoShiftLaw


# --- shapes, sums and products --------------------------------------------------------------------


def _moved(node: OpView, laws: Laws) -> Law:
    """The law of an op that maps dimensions of its operands to those of its result: none that run
    along with the shift may be reduced, split or merged."""
    (law,) = (law for law in laws if law is not None)
    maps = maps_of(op_signature.of_op(*node))
    if maps is None:
        raise NoShiftLaw
    (result,) = maps.results
    loops = [maps.operands[laws.index(law)][d] for d in law.dims]
    if None in loops or not set(loops) <= {*result}:
        raise NoShiftLaw
    return law._replace(dims=tuple(map(result.index, loops)))


def _reduce_sum(node: OpView, laws: Laws) -> Law:
    _scaled(laws)
    return _moved(node, laws)


# sum_j a_ij exp(c m_i) b_jk = (sum_j a_ij b_jk) exp(c m_i)
def _dot_general(node: OpView, laws: Laws) -> Law:
    if None not in laws or not all(law is None or law.scaled for law in laws):
        raise NoShiftLaw
    return _moved(node, laws)


RULES: dict[str, LawRule] = {
    f"jaxpr.{name}": rule
    for name, rule in {
        **dict.fromkeys(("add", "add_any"), _sum(1)),
        "sub": _sum(-1),
        "mul": _product(1),
        "div": _product(-1),
        "neg": _neg,
        "exp": _exp,
        "log": _log,
        "abs": _power(lambda node: Fraction(1)),
        "sign": _power(lambda node: Fraction(0)),
        "max": _alike,
        "min": _alike,
        "select_n": _select,
        "convert_element_type": _convert,
        "square": _power(lambda node: Fraction(2)),
        "integer_pow": _power(lambda node: Fraction(node.get("y"))),
        "sqrt": _power(lambda node: Fraction(1, 2)),
        "rsqrt": _power(lambda node: Fraction(-1, 2)),
        **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _comparison),
        **dict.fromkeys(("broadcast_in_dim", "reshape", "squeeze", "transpose"), _moved),
        **dict.fromkeys(("reduce_max", "reduce_min"), _moved),
        "reduce_sum": _reduce_sum,
        "dot_general": _dot_general,
    }.items()
}
"""The rules of the calculus, by op name."""


class ShiftInvariance(Pass):
    """Skip derivatives of maxima that results do not depend on, as in a softmax."""

    name: ClassVar[str] = "jaxpr-shift-invariance"

    def run(self, program: Module) -> bool:
        analyses, count = analyses_of(program), 0
        for function in analyses.graph.outside_kernels(NEEDED_OPS["jaxpr-shift-invariance"]):
            if analyses.graph.have(function.name.value, ("jaxpr.exp",)):
                count += _stop(analyses.body(function))
        return count > 0


def _stop(body: FunctionView) -> int:
    """Stops the derivatives of maxima in a function; returns their number."""
    count = 0
    # Maxima that keep their derivative, and values computed from them, as by a guard of infinities.
    maxima: set[int] = set()
    for index, (op, name) in enumerate(zip(body.ops, body.names, strict=True)):
        if name not in _OF_MAXIMA:
            continue
        if name != "jaxpr.reduce_max" and maxima.isdisjoint(body.operands[index]):
            continue
        (value,) = range(*body.results[index])
        if not is_array(body.types[value]) or laws_of(body, value) is None:
            maxima.add(value)
            continue
        remark(op, "excluded from differentiation: the results do not depend on it")
        stopped = _stopped(body.op_views[index])
        op.result.replace_all_uses_except(stopped, stopped.owner.operation)
        count += 1
    return count


_OF_MAXIMA = frozenset(
    f"jaxpr.{name}" for name in ("reduce_max", "max", "select_n", "broadcast_in_dim", "reshape")
)


def _stopped(node: OpView) -> ir.Value:
    """The value of an op with a ``stop_gradient``."""
    (value,) = node.op.results
    with ir.InsertionPoint.after(node.op.operation), node.op.location:
        value = _scaled_maximum(node) or value
        return ir.Operation.create("jaxpr.stop_gradient", [value.type], [value]).result


# max(x / c) = max(x) / c where c > 0
def _scaled_maximum(node: OpView) -> ir.Value | None:
    """A maximum of scaled values as a scaled maximum, which can be shared by several scales.

    Rounding is monotonic, so it is the same number; only ties may differ, and thus the derivative.
    """
    inner = node_of(node.operands[0]) if node.name == "jaxpr.reduce_max" else None
    if inner is None or inner.name not in ("jaxpr.div", "jaxpr.mul"):
        return None
    x, factor = inner.operands
    number = real_number(factor)
    if number is None or not 0 < number < math.inf or aval_of(factor.type).shape:
        return None
    if not aval_of(x.type).shape or x.type != inner.op.results[0].type:
        return None
    # Integers wrap around, and lose their order.
    if not dtypes.issubdtype(aval_of(x.type).dtype, np.floating):
        return None
    type_ = node.op.results[0].type
    maximum = ir.Operation.create(node.name, [type_], [x], node.attributes).result
    return ir.Operation.create(inner.name, [type_], [maximum, factor], inner.attributes).result

"""``jaxpr-shift-invariance``: no derivative of a number that is only there to keep another one
small.

A softmax is written with the maximum of its logits subtracted, ``e = exp(x - m)``, ``e / sum(e)``,
so that nothing overflows; its value does not depend on ``m``.  JAX's own functions say so by
``stop_gradient``.  Where users write the formula themselves, the derivative of the maximum is
computed, with comparisons of all elements and sums, to be added up to zero with rounding errors.

The pass proves it: every value computed from ``m`` is, as a function of it, one of

    v = v0 + c m          shifted, by c
    v = v0 exp(c m)       scaled, by c

with ``v0`` and the number ``c`` not depending on ``m``.  ``exp`` makes scaled values of shifted
ones, and ``log`` the reverse; the exponents of factors add up, a sum of values with one exponent
has it, and what is neither shifted nor scaled, as a quotient of two with the same exponent, does
not depend on ``m``.  If that holds of everything that leaves this calculus, ``m`` gets a
``stop_gradient``.  The value of the program does not change by a bit, its derivatives of all orders
by what rounding had left of the zeros.

``m`` has an element for each row, say; which dimensions of a value run along with it is part of
what is known of that value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.shift_invariance.laws import does_depend, real_number
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class ShiftInvariance(Pass):
    """Take no derivative of maxima that results do not depend on, as in a softmax."""

    name: ClassVar[str] = "jaxpr-shift-invariance"

    def run(self, program: Module) -> bool:
        return stop_shifts(program) > 0


def stop_shifts(program: Module) -> int:
    """Stops the derivatives of shifts, in place; of how many."""
    with scope():
        functions = outside_kernels(program, ("jaxpr.reduce_max",))
        count = sum(_stop(program, function) for function in functions)
    if count:
        program.changed()
    return count


def _stop(program: Module, function: func.FuncOp) -> int:
    body = analyses_of(program).body(function)
    if "jaxpr.reduce_max" not in body.names or "jaxpr.exp" not in body.names:
        return 0
    count = 0
    # Maxima whose derivative is taken, and what is put in place of those that are infinite.
    maxima: set[int] = set()
    for i, name in enumerate(body.names):
        if name != "jaxpr.reduce_max" and maxima.isdisjoint(body.operands[i]):
            continue
        if name not in _OF_MAXIMA:
            continue
        number, _ = body.results[i]
        if not is_array(body.types[number]) or does_depend(number, body):
            maxima.add(number)
            continue
        node = body.op_views[i]
        remark(node.op, "no derivative is taken of it: the results do not depend on it")
        stopped = _stopped(node, body.ops[i + 1])
        (value,) = node.op.results
        value.replace_all_uses_except(stopped, stopped.owner.operation)
        for user in (body.op_views[k] for k in body.users[number]):
            user.operands = [stopped if v == value else v for v in user.operands]
        count += 1
    return count


_OF_MAXIMA = frozenset(
    f"jaxpr.{name}" for name in ("reduce_max", "max", "select_n", "broadcast_in_dim", "reshape")
)


def _stopped(node: OpView, before: Any) -> ir.Value:
    """The value of an op without a derivative."""
    (value,) = node.op.results
    with ir.InsertionPoint(before), node.op.location:
        value = _scaled_maximum(node) or value
        return ir.Operation.create("jaxpr.stop_gradient", [value.type], [value]).result


# max(x / c) = max(x) / c where c > 0
def _scaled_maximum(node: OpView) -> ir.Value | None:
    """A maximum scaled, not of what is scaled: it may be needed at several scales.

    Rounding keeps the order, so it is the same number; only ties may be others, and with them the
    derivative.
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

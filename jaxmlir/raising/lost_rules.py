"""Remarks on ops whose plain derivative may differ from that of the program before lowering.

StableHLO has no custom derivative rules. A remark states the plain derivative of an op and where it
applies, which is certain; whether a rule gave another one is not known.
"""

from __future__ import annotations

from typing import Any

from jaxmlir.analysis.function_view import array_of, node_of, number_of
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import has_tangent
from jaxmlir.passes.remarks import remark

_UNDEFINED = {
    "div": "the divisor is 0",
    "log": "its operand is 0",
    "log1p": "its operand is -1",
    "sqrt": "its operand is 0",
    "rsqrt": "its operand is 0",
    "cbrt": "its operand is 0",
    "pow": "its operands are 0",
    "acos": "its operand is 1 or -1",
    "asin": "its operand is 1 or -1",
    "atanh": "its operand is 1 or -1",
    "acosh": "its operand is 1",
}
"""Where the derivatives of ops are not finite."""


def remark_lost_rules(program: Module) -> None:
    """Remarks on all functions of a program."""
    for function in program.functions.values():
        for view in body_of(function).operations:
            op = view.operation
            said = _remark_on(op)
            if said is not None:
                remark(op, said)


def _remark_on(op: Any) -> str | None:
    """The remark on the derivative of an op; ``None`` if there is none to make."""
    name = op.name.removeprefix("jaxpr.")
    if name in ("max", "min") and has_tangent(op.results[0]):
        bound = next((n for n in map(number_of, op.operands) if n is not None), None)
        if bound is not None:
            return (
                f"its derivative is 1/2 where the operand is {float(bound):g}; a custom rule, such "
                "as that of jax.nn.relu, may have given 0"
            )
    if name == "sqrt" and _is_sum_of_squares(op.operands[0]):
        return (
            "the derivative of the root of a sum of squares is NaN where all squares are 0; a "
            "custom rule of a norm may have given 0"
        )
    if name == "select_n" and has_tangent(op.results[0]):
        for value in list(op.operands)[1:]:
            at = _undefined_in(value)
            if at is not None:
                return (
                    f"its derivative is NaN where '{at.name}' is not selected and "
                    f"{_UNDEFINED[at.name.removeprefix('jaxpr.')]}; a custom rule may have given "
                    "another one"
                )
    return None


_SAME_ELEMENTS = ("jaxpr.broadcast_in_dim", "jaxpr.reshape", "jaxpr.neg", "jaxpr.mul")


def _undefined_in(value: ir.Value) -> Any | None:
    """The op, a few ops before a value, whose derivative is not finite everywhere."""
    for _ in range(4):
        op = node_of(value)
        if op is None:
            return None
        if op.name.removeprefix("jaxpr.") in _UNDEFINED:
            guarded = node_of(op.operands[-1])
            # The operand may be guarded by another select, or be a constant.
            is_constant = array_of(guarded) is not None
            return None if is_constant or (guarded and guarded.name == "jaxpr.select_n") else op
        if op.name not in _SAME_ELEMENTS:
            return None
        value = op.operands[-1]
    return None


def _is_sum_of_squares(value: ir.Value) -> bool:
    op = node_of(value)
    while op is not None and op.name in ("jaxpr.broadcast_in_dim", "jaxpr.reshape"):
        op = node_of(op.operands[0])
    if op is None or op.name != "jaxpr.reduce_sum":
        return False
    squares = node_of(op.operands[0])
    return squares is not None and (
        squares.name in ("jaxpr.square", "jaxpr.integer_pow")
        or (squares.name == "jaxpr.mul" and squares.operands[0] == squares.operands[1])
    )

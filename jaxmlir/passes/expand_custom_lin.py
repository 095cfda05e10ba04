"""``jaxpr-expand-custom-lin``: the forward derivative of a custom_vjp function.

A custom VJP rule says how cotangents are pulled back, and so its derivative, ``custom_lin``, has a
transpose only.  Where the backward rule is linear in the cotangent, as a correct one is, its own
transpose pushes tangents forward.  JAX does not look; this pass does, and refuses where linearity
does not follow from the ops: an affine rule, transposed, would lose its constant silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir import codec
from jaxmlir.errors import Diagnostic, TransformError
from jaxmlir.ir import file_line_col, func, ir, scope
from jaxmlir.ops import OPS
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import inline, ops_of, zeros
from jaxmlir.passes._rules import Rules
from jaxmlir.passes.jvp import tangent_type_of
from jaxmlir.passes.transpose import transpose

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class ExpandCustomLin(Pass):
    """Replace each custom_lin by the transpose of its backward rule, which must be linear."""

    name: ClassVar[str] = "jaxpr-expand-custom-lin"

    def run(self, program: Program) -> None:
        with scope():
            expand_custom_lin(Rules(program))
        program.changed()


def expand_custom_lin(rules: Rules) -> None:
    """Replaces the custom_lin ops of every function of a program.

    Raises:
      TransformError: a backward rule is not linear as far as its ops tell; names the op.
    """
    for function in list(rules.program.functions.values()):
        for op, name, operands in list(ops_of(function)):
            if name == "jaxpr.custom_lin":
                _expand(rules, op, operands)


def _expand(rules: Rules, op: Any, operands: list[ir.Value]) -> None:
    attributes = op.attributes
    bwd = ir.FlatSymbolRefAttr(attributes["bwd"]).value
    num_res = codec.decode(attributes["num_res"]) if "num_res" in attributes else 0
    in_zeros = codec.decode(attributes["in_zeros"])
    function = rules.program.function(bwd)
    linear = [i >= num_res for i in range(len(function.arguments))]
    check_linear(rules, bwd, {v for v, lin in zip(function.arguments, linear, strict=True) if lin})
    pushforward = transpose(rules, bwd, linear, f"{bwd}.transpose")
    with ir.InsertionPoint(op), op.location:
        given = iter(operands[num_res:])
        outputs = iter(function.type.results)
        tangents = []
        for zero_in, zero_out in zip(in_zeros, _out_zeros(function, len(in_zeros)), strict=True):
            tangent = None if zero_in else next(given)
            if not zero_out:
                type_ = next(outputs)
                tangents.append(zeros(tangent_type_of(type_)) if tangent is None else tangent)
        outs = inline(rules.program.function(pushforward), [*operands[:num_res], *tangents])
    for result, out in zip(list(op.results), outs, strict=True):
        result.replace_all_uses_with(out)
    op.operation.erase()


def _out_zeros(bwd: func.FuncOp, count: int) -> tuple[bool, ...]:
    attributes = bwd.attributes
    if "jaxpr.out_zeros" in attributes:
        return codec.decode(attributes["jaxpr.out_zeros"])
    return (False,) * count


# Linear in each of these operands, the others held fixed; linear in no two of them together.
_LINEAR_IN_ONE = {
    "conv_general_dilated": (0, 1),
    "div": (0,),
    "dot_general": (0, 1),
    "mul": (0, 1),
    "triangular_solve": (1,),
}
# Calls that compute what the function they name computes.
_CALLS = {"jit": "jaxpr", "closed_call": "call_jaxpr", "remat2": "jaxpr"}


def check_linear(rules: Rules, symbol: str, linear: set[ir.Value]) -> tuple[bool, ...]:
    """Checks that a function is linear in some of its arguments, jointly, by looking at its ops.

    Returns:
      Which results depend on them; the others are constants of the linear map.

    Raises:
      TransformError: an op is not linear in what depends on the arguments, or may not be.
    """
    function = rules.program.function(symbol)
    linear = set(linear)
    constants: set[ir.Value] = set()
    for op, name, operands in ops_of(function):
        short = name.removeprefix("jaxpr.")
        pattern = [v in linear for v in operands]
        if not any(pattern):
            if short == "constant" and _is_zero(op):
                constants.update(op.results)
            elif short in ("broadcast_in_dim", "convert_element_type") and operands[0] in constants:
                constants.update(op.results)
            continue
        record = OPS.get(short)
        # Zero is a linear function of anything.
        fits = [lin or v in constants for v, lin in zip(operands, pattern, strict=True)]
        joint = record.linear_operands(len(operands)) if record else ()
        if short in _CALLS:
            callee = ir.FlatSymbolRefAttr(op.attributes[_CALLS[short]]).value
            inner = rules.program.function(callee).arguments
            dependent = check_linear(
                rules, callee, {v for v, lin in zip(inner, pattern, strict=True) if lin}
            )
            linear.update(v for v, d in zip(op.results, dependent, strict=True) if d)
            continue
        if joint:
            good = all(fits[i] for i in joint) and not any(
                lin for i, lin in enumerate(pattern) if i not in joint
            )
        elif short == "select_n":
            good = not pattern[0] and all(fits[1:])
        elif short in _LINEAR_IN_ONE:
            good = sum(pattern) == 1 and pattern.index(True) in _LINEAR_IN_ONE[short]
        else:
            good = False
        if not good:
            file, line, col = file_line_col(op.location)
            message = (
                f"'{name}' op in @{symbol} is not linear in the cotangent as far as can be told, "
                "so the rule has no transpose that would push tangents forward"
            )
            raise TransformError([Diagnostic("error", message, file, line, col)])
        linear.update(op.results)
    *_, last = function.entry_block.operations
    return tuple(v in linear for v in last.operands)


def _is_zero(op: Any) -> bool:
    attributes = op.attributes
    return "value" in attributes and not codec.decode(attributes["value"]).any()

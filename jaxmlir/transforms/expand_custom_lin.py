"""``jaxpr-expand-custom-lin``: the forward derivative of a custom_vjp function.

A custom VJP rule says how cotangents are pulled back, so its derivative, ``custom_lin``, has a
transpose only.  Where the backward rule is linear in the cotangent, as a correct one is, its own
transpose pushes tangents forward.  JAX does not look into the rule.  This pass does, and refuses
where linearity does not follow from the ops: the transpose of an affine rule would silently lose
the constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from jaxmlir.analysis.call_graph import CALLS
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.builder import attribute, put_instead, reachable, returned, symbols_in, zeros
from jaxmlir.dialect.custom_rule_ops import out_zeros
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES, OPS
from jaxmlir.dialect.types import has_tangent, tangent_type_of
from jaxmlir.errors import TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.transforms.higher_order.custom_rules import fitting_rule
from jaxmlir.transforms.new_function import call
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import transpose


class ExpandCustomLin(Pass):
    """Replace each custom_lin by the transpose of its backward rule, which must be linear."""

    name: ClassVar[str] = "jaxpr-expand-custom-lin"

    def run(self, program: Module) -> None:
        expand_custom_lin(Rules(program))


def expand_custom_lin(rules: Rules, entries: Iterable[str] | None = None) -> None:
    """Replaces each custom_lin op by a call of its transposed backward rule.

    Args:
      entries: the functions to search, with those that they refer to; by default all functions.

    Raises:
      TransformError: the ops of a backward rule do not show that it is linear; names the op.
    """
    functions = rules.program.functions
    chosen = set(functions)
    if entries is not None:
        chosen = set().union(*(reachable(functions, entry) for entry in entries))
    for symbol in [symbol for symbol in functions if symbol in chosen]:
        for op, name, _ in list(ops_of(functions[symbol])):
            if name == "jaxpr.custom_lin":
                _expand(rules, op)


def _expand(rules: Rules, op: Any) -> None:
    # Read only now: the custom_lin that gave an operand may have been replaced.
    operands = list(op.operands)
    rules.program.trace_rules(of=op)
    function = fitting_rule(
        rules, op, op.attributes, "bwd", symbols_in(op, "bwd"), (True,) * len(op.results)
    )
    bwd = function.name.value
    num_res = attribute(op, "num_res", 0)
    in_zeros = attribute(op, "in_zeros", ())
    pushforward = rules.functions.once(_pushforward, bwd, num_res)
    in_tangents, outputs = iter(operands[num_res:]), iter(function.type.results)
    with ir.InsertionPoint(op), op.location:
        tangents = []
        for zero_in, zero_out in zip(in_zeros, out_zeros(function, len(in_zeros)), strict=True):
            tangent = None if zero_in else next(in_tangents)
            if not zero_out:
                type_ = tangent_type_of(next(outputs))
                tangents.append(zeros(type_) if tangent is None else tangent)
        outs = call(rules, pushforward, [*operands[:num_res], *tangents])
    put_instead(op, outs)


def _pushforward(rules: Rules, bwd: str, num_res: int) -> str:
    """The pushforward ``(*residuals, *tangents) -> (*tangents)``: a backward rule, transposed."""
    arguments = list(rules.program.function(bwd).arguments)
    check_linear(rules, bwd, set(arguments[num_res:]))
    linear = [i >= num_res for i in range(len(arguments))]
    return transpose(rules, bwd, linear, f"{bwd}.transpose")


def check_linear(rules: Rules, symbol: str, linear: set[ir.Value]) -> None:
    """Checks that the ops make all results of a function linear in some arguments, jointly: each op
    is known to be linear in the operands that depend on them, and each result depends on them or is
    zero."""
    for i, kind in enumerate(_results(rules, symbol, linear)):
        if kind == "fixed":
            function = rules.program.function(symbol)
            raise _error(
                function.location,
                f"result {i} of @{symbol} does not depend on the cotangents and is not zero",
            )


def _results(
    rules: Rules, symbol: str, linear: set[ir.Value], zero: frozenset[ir.Value] = frozenset()
) -> list[Literal["linear", "zero", "fixed"]]:
    """Classifies each result of a function: linear in some arguments, zero, or neither."""
    function = rules.program.function(symbol)
    linear, nothing = set(linear), set(zero)
    for op, name, operands in ops_of(function):
        short = name.removeprefix("jaxpr.")
        pattern = [v in linear for v in operands]
        # Zero is a linear function of anything.
        fits = [lin or v in nothing for v, lin in zip(operands, pattern, strict=True)]
        inner = _called(op, short, pattern)
        if inner is not None:
            callees, first = inner
            kinds = [
                _kinds_of_call(rules, callee, pattern[first:], fits[first:]) for callee in callees
            ]
            for v, of_result in zip(op.results, zip(*kinds, strict=True), strict=True):
                if set(of_result) == {"zero"}:
                    nothing.add(v)
                elif "fixed" not in of_result:
                    linear.add(v)
                elif "linear" in of_result:
                    raise _not_linear(op, name, symbol)
        elif any(pattern):
            if not _is_linear(op, short, pattern, fits):
                raise _not_linear(op, name, symbol)
            linear.update(op.results)
        elif (short == "constant" and _is_zero(op)) or (
            short in ("broadcast_in_dim", "convert_element_type") and all(fits)
        ):
            nothing.update(op.results)
    return [
        "linear" if v in linear else "zero" if v in nothing else "fixed" for v in returned(function)
    ]


def _called(op: Any, name: str, pattern: list[bool]) -> tuple[list[str], int] | None:
    """The functions that an op calls, or calls one of, and the first operand passed to them."""
    if op.name in CALLS or name == "remat2":
        return [op.attributes[CALLEES[op.name]].value], 0
    if name == "cond" and not pattern[0]:
        return [branch.value for branch in op.attributes["branches"]], 1
    return None


def _kinds_of_call(rules: Rules, callee: str, linear: list[bool], fits: list[bool]) -> list[str]:
    arguments = list(rules.program.function(callee).arguments)
    chosen = {v for v, lin in zip(arguments, linear, strict=True) if lin}
    zero = {v for v, fit in zip(arguments, fits, strict=True) if fit} - chosen
    return _results(rules, callee, chosen, frozenset(zero))


def _is_linear(op: Any, name: str, pattern: list[bool], fits: list[bool]) -> bool:
    """Whether an op is linear in the ``pattern`` operands; ``fits``: which are linear or zero."""
    if not all(map(has_tangent, op.results)):
        # A conversion to integers rounds.
        return False
    if name == "gather" and _fills(op):
        return False
    record = OPS.get(name)
    joint = record.linear_operands(len(pattern)) if record else ()
    if joint:
        others = (lin for i, lin in enumerate(pattern) if i not in joint)
        return all(fits[i] for i in joint) and not any(others)
    if name == "select_n":
        return not pattern[0] and all(fits[1:])
    if name == "custom_linear_solve":
        lengths = codec.decode(op.attributes["const_lengths"])
        return not any(pattern[: sum(lengths)]) and all(fits[sum(lengths) :])
    return record is not None and sum(pattern) == 1 and pattern.index(True) in record.linear_each


def _fills(op: Any) -> bool:
    """Whether a gather fills elements out of bounds with a nonzero number; the default, NaN, says
    that there should be none."""
    fill = attribute(op, "fill_value")
    return fill is not None and fill == fill and bool(fill)


def _not_linear(op: Any, name: str, symbol: str) -> TransformError:
    return _error(
        op.location, f"'{name}' op in @{symbol} is not known to be linear in the cotangents"
    )


def _error(location: ir.Location, message: str) -> TransformError:
    message += ", so the backward rule cannot be transposed for forward mode"
    return locations.error_at(TransformError, location, message)


def _is_zero(op: Any) -> bool:
    attributes = op.attributes
    return "value" in attributes and not codec.decode(attributes["value"]).any()

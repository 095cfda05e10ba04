"""Custom derivative rules: Python thunks in a jaxpr, functions in the dialect.

This module describes the ops that have rules and the attributes that name the rules.
:mod:`jaxmlir.bridge.custom_rules.tracing` traces the rules of an equation; it is only loaded when
rules are traced, and :mod:`jaxmlir.bridge.custom_rules.pending` decides when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import func, ir, symbol_uses
from jaxmlir.dialect.ops import record_of
from jaxmlir.errors import ExportError, UntracedRuleError

T = TypeVar("T")

PRIMITIVES = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_lin"})
# The other form of these, which :mod:`jaxmlir.bridge.custom_rules.hijax` reads.
HIGH_LEVEL = frozenset({"call_hi_primitive", "call_hi_primitive_linearized"})
HIGH_LEVEL_OPS = frozenset(f"jaxpr.{name}" for name in HIGH_LEVEL)

OPS = frozenset({"jaxpr.custom_jvp_call_jaxpr", "jaxpr.custom_vjp_call_jaxpr", "jaxpr.custom_lin"})
# The attributes of these ops that name their rules.
ATTRIBUTES = frozenset(
    attr.name for name in OPS for attr in record_of(name).functions if attr.name != "call_jaxpr"
)


# The number of an op's rules, while it lacks them or they can be traced for further zeros.
MARK = "jaxpr.untraced"
TRACED = ATTRIBUTES | {"jvp_error", "fwd_error", "bwd_error"}
"""The attributes of an op whose rules were traced, or could not be."""


def is_untraced(op: Any) -> bool:
    """Whether an op of :data:`jaxmlir.dialect.custom_rule_ops.OPS` lacks its rules."""
    attributes = op.attributes
    return MARK in attributes and not any(name in attributes for name in TRACED)


def is_choosy(op: Any) -> bool:
    """Whether the rules of an op are told which tangents are zero."""
    return "symbolic_zeros" in op.attributes


def stands_for_primitive(op: Any) -> bool:
    """Whether a call of a function with a JVP rule also has a primitive's other rules."""
    return "transposes" in op.attributes


def marked_ops(functions: Iterable[Any]) -> Iterator[Any]:
    """The ops of some functions that have marks."""
    for function in functions:
        for op in function.entry_block.operations:
            if type(op) is ir.OpView and op.name in OPS and MARK in op.attributes:
                yield op


def write(eqn: Any, importer: Any) -> dict[str, ir.Attribute]:
    """The attributes of a custom-derivative op, except those that name its rules."""
    params = eqn.params
    static = {name: params[name] for name in _STATIC if params.get(name)}
    if "in_zeros" in static:
        static["in_zeros"] = tuple(static["in_zeros"])
    return {name: codec.encode(value, importer) for name, value in static.items()}


# Left out if they have their default: 0, `False`, `()`.
_STATIC = ("call_jaxpr", "num_consts", "num_res", "in_zeros", "symbolic_zeros")


def fitting(zeros: Sequence[bool], rules: Iterable[tuple[T, Sequence[bool]]]) -> T | None:
    """The rule specialised to the largest subset of the given symbolic zeros; each rule has a mask
    of the tangents that it takes for zero."""
    fit = [
        (sum(taken), rule)
        for rule, taken in rules
        if all(zero or not t for zero, t in zip(zeros, taken, strict=True))
    ]
    return max(fit, key=lambda pair: pair[0])[1] if fit else None


def fitting_rule(
    attributes: Mapping[str, ir.Attribute],
    name: str,
    functions: Iterable[func.FuncOp],
    zeros: Sequence[bool],
) -> func.FuncOp:
    """The function of the rule of an op that is told of most of the zero (co)tangents.

    Args:
      attributes: the attributes of the op that name its rules.
      name: the attribute that names the rule which is told of no zeros.
      functions: the functions of the rules.
      zeros: which (co)tangents are zero.

    Raises:
      UntracedRuleError: there is no rule.
      ExportError: each rule requires a nonzero (co)tangent to be zero.
    """
    cases = [(f, in_zeros(f, len(zeros))) for f in functions]
    function = fitting(zeros, cases)
    if function is not None:
        return function
    default = attributes[name].value if name in attributes else None
    taken = next((taken for f, taken in cases if f.name.value == default), None)
    if taken is None:
        error = f"{name.split('_')[0]}_error"
        raise UntracedRuleError(name, attributes[error].value if error in attributes else None)
    operand = next(i for i, zero in enumerate(zeros) if taken[i] and not zero)
    raise ExportError(
        f"the custom derivative rule @{default} cannot take a tangent of argument {operand} of the "
        "function, which has one here: stop the tangent with jax.lax.stop_gradient, or make the "
        "argument (or a value that it closes over) a differentiated argument"
    )


def in_zeros(rule: Any, count: int) -> tuple[bool, ...]:
    """Which of ``count`` (co)tangents the function of a rule assumes to be zero, and so does not
    take."""
    return _mask(rule, "jaxpr.in_zeros", count)


def out_zeros(rule: Any, count: int) -> tuple[bool, ...]:
    """Which of ``count`` (co)tangents the function of a rule leaves out because they are zero."""
    return _mask(rule, "jaxpr.out_zeros", count)


def _mask(rule: Any, name: str, count: int) -> tuple[bool, ...]:
    attributes = rule.attributes
    return codec.decode(attributes[name]) if name in attributes else (False,) * count


def vjp_rules(attributes: Mapping[str, ir.Attribute]) -> dict[str, tuple[str, ...]]:
    """The forward rules of a custom_vjp_call_jaxpr, each with its backward rules."""
    rules: dict[str, tuple[str, ...]] = {}
    if "fwd_jaxpr" in attributes:
        bwd = (attributes["bwd_jaxpr"].value,) if "bwd_jaxpr" in attributes else ()
        rules[attributes["fwd_jaxpr"].value] = bwd
    for family in attributes.get("vjp_with_zeros", ()):
        fwd, *backward = symbol_uses(family)
        rules[fwd] = (*rules.get(fwd, ()), *backward)
    return rules


def backward_rules(attributes: Mapping[str, ir.Attribute]) -> list[str]:
    """The backward rules of a custom_lin."""
    names = ("bwd", "bwd_with_zeros")
    return [use for name in names if name in attributes for use in symbol_uses(attributes[name])]

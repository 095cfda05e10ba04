"""``jaxpr-jvp``: forward-mode differentiation.

Every op is replaced by its primitive's JVP rule: ``y = sin x`` becomes ``y = sin x`` and
``dy = cos x * dx``.  Tangents that are zero are never written down: an op none of whose operands
has a tangent is copied as it is, and so everything that depends on integers, constants or
``stop_gradient`` alone stays undifferentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import (
    NewFunction,
    copy,
    ops_of,
    returned,
    set_attribute,
    signature,
    zeros,
)
from jaxmlir.passes._rules import Rules, has_tangent
from jaxmlir.passes.discharge_refs import discharge_refs
from jaxmlir.types import aval_of, type_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class Jvp(Pass):
    """Add the function ``@f.jvp``: (*primals, *tangents) -> (*results, *tangents of results).

    Tangents of arguments without one (integers) are not taken; those of results that do not depend
    on a tangent are not returned, and ``jaxpr.active`` on the new function says which are.

    Options:
      func: the function to differentiate; by default the public one.
      argnums: the flat arguments to differentiate in; by default all that have tangents.
      custom-vjp-forward: ``transpose`` pushes tangents through functions with a custom VJP rule by
        the transpose of their backward rule; by default that is an error when the result is run.
    """

    name: ClassVar[str] = "jaxpr-jvp"
    func: str = ""
    argnums: tuple[int, ...] = ()
    custom_vjp_forward: Literal["error", "transpose"] = "error"

    def run(self, program: Program) -> None:
        from jaxmlir.passes.expand_custom_lin import expand_custom_lin

        discharge_refs(program)
        with scope():
            symbol, rules = self.func or program.name, Rules(program)
            new, _ = jvp(rules, symbol, active_arguments(program, symbol, self.argnums))
            if self.custom_vjp_forward == "transpose":
                expand_custom_lin(rules, [new])
        program.changed()


def active_arguments(program: Program, symbol: str, argnums: tuple[int, ...]) -> tuple[bool, ...]:
    """Which flat arguments are differentiated: those asked for, or all, if they have tangents."""
    arguments = program.function(symbol).arguments
    return tuple(
        has_tangent(value) and (not argnums or i in argnums) for i, value in enumerate(arguments)
    )


def jvp(
    rules: Rules, symbol: str, active: tuple[bool, ...], required: Sequence[bool] = ()
) -> tuple[str, tuple[bool, ...]]:
    """Writes ``@symbol.jvp``.

    Args:
      active: which arguments have tangents.
      required: the results that are to have one, be it zero; by default none.

    Returns:
      Its symbol, and which results have tangents.

    Raises:
      TransformError: an op has no JVP rule, or its rule fails; names the op and the user's line.
    """
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    chosen = [v for v, a in zip(arguments, active, strict=True) if a]
    types = [*(v.type for v in arguments), *(tangent_type(v) for v in chosen)]
    new = NewFunction(rules, f"{symbol}.jvp", types, function)
    primals = dict(zip(arguments, new.args, strict=False))
    tangents = dict(zip(chosen, new.args[len(arguments) :], strict=True))
    with new.body():
        for op, name, operands in ops_of(function):
            pattern = tuple([v in tangents for v in operands])
            args = [primals[v] for v in operands]
            results = op.results
            if True not in pattern:
                primals.update(zip(results, copy(op, name, args), strict=True))
                continue
            rule = rules.jvp(op, name, pattern, signature(op, name, operands))
            args += [tangents[v] for v in operands if v in tangents]
            outs = rule.inline(args, op.location)
            n = len(rule.pattern)
            primals.update(zip(results, outs[:n], strict=True))
            it = iter(outs[n:])
            tangents.update((v, next(it)) for v, a in zip(results, rule.pattern, strict=True) if a)
    outs = returned(function)
    required = required or (False,) * len(outs)
    active_out = tuple(v in tangents or r for v, r in zip(outs, required, strict=True))
    with new.body():
        given = [
            tangents[v] if v in tangents else zeros(tangent_type(v))
            for v, a in zip(outs, active_out, strict=True)
            if a
        ]
    new.finish([*(primals[v] for v in outs), *given])
    set_attribute(new.op, "jaxpr.active", active_out)
    return new.name, active_out


def tangent_type(value: ir.Value) -> ir.Type:
    """The type of a value's tangents."""
    return tangent_type_of(value.type)


def tangent_type_of(type_: ir.Type) -> ir.Type:
    """The type of tangents of values of a type; ``float0`` for integers."""
    return type_of(aval_of(type_).to_tangent_aval())

"""``jaxpr-jvp``: forward-mode differentiation.

Every op is replaced by its primitive's JVP rule: ``y = sin x`` becomes ``y = sin x`` and
``dy = cos x * dx``.  Zero tangents are never written down: an op none of whose operands has a
tangent is copied as it is.  So everything that depends only on integers, constants or
``stop_gradient`` stays undifferentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from jaxmlir.dialect.builder import copy, instantiated, set_attribute
from jaxmlir.dialect.module import Module, at_function, named_arguments
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import has_tangent, tangent_type_of
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import Mask, chosen, filled
from jaxmlir.transforms.discharge_refs import discharge_refs
from jaxmlir.transforms.emitters import Emitter, Template
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


class DerivativePass(Pass):
    """Base of the passes that differentiate a function.

    Options:
      func: the function to differentiate; by default the public one.
      argnums: the flat arguments to differentiate with respect to; by default all with tangents.
    """

    func: str = ""
    argnums: tuple[int, ...] = ()

    def prepared(self, program: Module) -> tuple[str, Mask]:
        """The function to differentiate, and which of its arguments have tangents; the program's
        references are values then."""
        discharge_refs(program)
        symbol = program.chosen(self.func)
        return symbol, active_arguments(program, symbol, self.argnums)


class Jvp(DerivativePass):
    """Add the function ``@f.jvp``: (*primals, *tangents) -> (*results, *tangents of results).

    Tangents of arguments without one (integers) are not taken; those of results that do not depend
    on a tangent are not returned, and ``jaxpr.active`` on the new function says which are.

    Options:
      custom-vjp-forward: ``transpose`` pushes tangents through functions with a custom VJP rule by
        the transpose of their backward rule; by default that is an error when the result is run.
    """

    name: ClassVar[str] = "jaxpr-jvp"
    custom_vjp_forward: Literal["error", "transpose"] = "error"

    def run(self, program: Module) -> None:
        from jaxmlir.transforms.expand_custom_lin import expand_custom_lin

        symbol, active = self.prepared(program)
        rules = Rules(program)
        derivative, _ = jvp(rules, symbol, active)
        if self.custom_vjp_forward == "transpose":
            expand_custom_lin(rules, [derivative])


def active_arguments(program: Module, symbol: str, argnums: tuple[int, ...]) -> Mask:
    """Which flat arguments are differentiated: those asked for, which must have tangents, by
    default all that have some."""
    named = named_arguments(program, symbol, argnums)
    function = program.function(symbol)
    active = tuple(map(has_tangent, function.arguments))
    if not argnums:
        return active
    for i in argnums:
        if not active[i]:
            type_ = function.arguments[i].type
            raise at_function(function, f"argument {i} of @{symbol}, a {type_}, has no tangents")
    return named


def jvp(rules: Rules, symbol: str, active: Mask, required: Sequence[bool] = ()) -> tuple[str, Mask]:
    """Writes ``@symbol.jvp``.

    Args:
      active: which arguments have tangents.
      required: the results that get a tangent even if it is zero; by default none.

    Returns:
      Its symbol, and which results have tangents.

    Raises:
      TransformError: an op has no JVP rule, or its rule fails; names the op and the user's line.
    """
    body = rules.functions.body(symbol)
    types = body.types[: body.arity]
    types += [tangent_type_of(t) for t in chosen(types, active)]
    new = NewFunction(rules, f"{symbol}.jvp", types, body.function)
    unwritten = [None] * (len(body.types) - body.arity)
    primals: list[Any] = [*new.args[: body.arity], *unwritten]
    tangents: list[Any] = [*filled(new.args[body.arity :], active), *unwritten]
    cache: dict[tuple[Signature, Mask], Template | Emitter] = {}
    with new.body():
        for i, (op, operands) in enumerate(zip(body.ops, body.operands, strict=True)):
            first, last = body.results[i]
            signature = body.signatures[i]
            args = [primals[v] for v in operands]
            pattern = tuple([tangents[v] is not None for v in operands])
            if True not in pattern:
                primals[first:last] = copy(op, signature.name, args)
                continue
            rule = cache.get((signature, pattern))
            if rule is None:
                rule = rules.jvp(op, signature, pattern)
                cache[signature, pattern] = rule
            args += [tangents[v] for v in operands if tangents[v] is not None]
            outs = rule.inline(args, op.location)
            primals[first:last] = outs[: last - first]
            tangents[first:last] = filled(outs[last - first :], rule.pattern)
        of_results = [tangents[v] for v in body.returned]
        required = required or (False,) * len(of_results)
        active_out = tuple([t is not None or r for t, r in zip(of_results, required, strict=True)])
        of_results = instantiated(
            chosen(of_results, active_out),
            (tangent_type_of(body.types[v]) for v in chosen(body.returned, active_out)),
        )
    new.finish([*(primals[v] for v in body.returned), *of_results])
    set_attribute(new.op, "jaxpr.active", active_out)
    return new.name, active_out


jvp_of = derived(jvp)
"""The result of :func:`jvp` for a function and a pattern, written once."""

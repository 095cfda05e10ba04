"""``jaxpr.custom_jvp_call_jaxpr``: a call of a function that has its own JVP rule.

Its derivative is a call of the rule, ``jvp(custom_jvp_call(f, f_jvp)) == f_jvp``, and batching
batches both, ``vmap(custom_jvp_call(f, f_jvp)) == custom_jvp_call(vmap(f), vmap(f_jvp))``.  A rule
takes a tangent for each operand: those that are zero are written down for it.

Reverse mode splits the rule by what is known when the values are computed, which its tangents are
not: what is left is linear in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.ir import ir
from jaxmlir.passes._build import zeros
from jaxmlir.passes.higher_order._custom_rules import (
    BatchedRules,
    Dims,
    attribute,
    batch_rules,
    batched_with_rules,
    create,
    error_at,
    is_float0,
    joined,
    keep_attributes,
    out_zeros,
    rule_symbol,
    symbol_ref,
)
from jaxmlir.passes.higher_order._rule import Halves, HigherOrderRule, Linearization, Written
from jaxmlir.passes.higher_order.call import call
from jaxmlir.passes.vmap import vmap

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules


class CustomJvp(HigherOrderRule):
    plain: ClassVar = frozenset(
        {"call_jaxpr", "jvp_jaxpr", "jvp_error", "num_consts", "symbolic_zeros", "jaxpr.ctx"}
    )

    def activity(
        self, rules: Rules, op: Any, kind: str, active: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        rule = _Rule(rules, op)
        if kind == "jvp":
            return tuple(i is not None for i in rule.tangents)
        unknown = rules.functions.unknown_results(rule.symbol, rule.unknown(active))
        return tuple(i is not None and unknown[i] for i in rule.tangents)

    def uses(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        return active

    def jvp(self, rules: Rules, op: Any, active: tuple[bool, ...]) -> Written:
        rule = _Rule(rules, op)
        n, consts = rule.num_results, rule.num_consts
        pattern = tuple(i is not None for i in rule.tangents)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            given = iter(args[len(active) :])
            tangents = [
                next(given) if a else zeros(t)
                for t, a in zip(rule.tangent_types, active[consts:], strict=True)
            ]
            outs = call(rules, rule.symbol, [*args[consts : len(active)], *tangents])
            return [*outs[:n], *(outs[i] for i in rule.tangents if i is not None)]

        return Written(pattern, write)

    def linearize(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Linearization:
        rule = _Rule(rules, op)
        n, active_in = rule.num_results, active[rule.num_consts :]
        asked = {i for i, w in zip(rule.tangents, wanted, strict=True) if i is not None and w}
        split = rules.functions.linearize_rule(
            rule.symbol,
            rule.unknown(active),
            tuple(i < n or i in asked for i in range(rule.num_outs)),
        )
        if any(split.pattern[:n]):
            raise error_at(
                op, f"the values that the rule @{rule.symbol} gives depend on the tangents"
            )
        pattern = tuple(i is not None and split.pattern[i] for i in rule.tangents)

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            known = list(args[rule.num_consts :])
            known += [zeros(t) for t, a in zip(rule.tangent_types, active_in, strict=True) if not a]
            results, residuals = split.values(known, call(rules, split.first, known))
            return [*results[:n], *residuals]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            return call(rules, split.second, args)

        return Linearization(Written(pattern, primal), Written(pattern, tangent), active)

    def partial_eval(self, rules: Rules, op: Any, unknown: tuple[bool, ...]) -> Halves:
        """Only derivative rules are split, and what waits is linear: no rule is needed for it."""
        split = rules.functions.partial_eval_call(op.attributes["call_jaxpr"].value, unknown)

        def known(args: Sequence[ir.Value]) -> list[ir.Value]:
            results, residuals = split.values(args, call(rules, split.first, args))
            return [*results, *residuals]

        return Halves(
            Written(split.pattern, known),
            Written(split.pattern, lambda args: call(rules, split.second, args)),
        )

    def transpose(
        self, rules: Rules, op: Any, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> Written:
        """A linear function is its own derivative."""
        symbol, given = rules.functions.transpose(
            op.attributes["call_jaxpr"].value, linear, nonzero
        )
        return Written(given, lambda args: call(rules, symbol, args))

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Written:
        attributes = dict(op.attributes.items())
        consts = attribute(op, "num_consts", 0)
        function = op.attributes["call_jaxpr"].value
        symbol, out_dims = rules.functions.batch(function, dims, axis)
        if "jvp_jaxpr" in attributes:
            rule = attributes["jvp_jaxpr"].value

            def write(entry: BatchedRules) -> Dims:
                return _batch_rule(rules, rule, dims[consts:], axis, entry)

            entry = batch_rules(
                rules, (function, rule, dims, axis), {"jvp_jaxpr": rule}, out_dims, write
            )
            attributes["jvp_jaxpr"] = symbol_ref(entry.symbols["jvp_jaxpr"])
            if entry.out_dims != out_dims:
                out_dims = entry.out_dims
                symbol, _ = rules.functions.batch(function, dims, axis, out_dims)
        attributes["call_jaxpr"] = symbol_ref(symbol)
        types = list(rules.program.function(symbol).type.results)
        name = op.operation.name
        return Written(out_dims, lambda args: create(name, types, args, attributes))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        return batched_with_rules(rules, op, dims, axis)


class _Rule:
    """The JVP rule of an op: a function ``(*primals, *tangents) -> (*primals, *tangents)``."""

    def __init__(self, rules: Rules, op: Any):
        self.symbol = rule_symbol(op, "jvp_jaxpr")
        self.num_consts = attribute(op, "num_consts", 0)
        self.num_results = n = len(op.results)
        function = rules.program.function(self.symbol)
        inputs, outputs = list(function.type.inputs), list(function.type.results)
        self.tangent_types = inputs[len(op.operands) - self.num_consts :]
        self.num_outs = len(outputs)
        position = iter(range(n, len(outputs)))
        where = [None if zero else next(position) for zero in out_zeros(function, n)]
        self.tangents = [None if i is None or is_float0(outputs[i]) else i for i in where]
        """For each result where the rule gives its tangent; ``None`` if it has none."""

    def unknown(self, active: tuple[bool, ...]) -> tuple[bool, ...]:
        """Which of the rule's arguments are tangents that there are."""
        active = active[self.num_consts :]
        return (*[False] * len(active), *active)


def _batch_rule(rules: Rules, rule: str, dims: Dims, axis: Any, entry: BatchedRules) -> Dims:
    """Writes the batched rule; the dimensions of its results, primal and tangent alike."""
    n = len(entry.out_dims)
    function = rules.program.function(rule)
    zero = out_zeros(function, n)
    found: list[int | None] = []

    def out_axes(own: Dims) -> Dims:
        tangents = iter(own[n:])
        of_tangents = [None if z else next(tangents) for z in zero]
        found[:] = map(joined, entry.out_dims, own[:n], of_tangents)
        return (*found, *(d for d, z in zip(found, zero, strict=True) if not z))

    vmap(rules, rule, (*dims, *dims), axis, out_axes, reserved=entry.symbols["jvp_jaxpr"])
    keep_attributes(function, rules.program.function(entry.symbols["jvp_jaxpr"]))
    return tuple(found)

"""``jaxpr.custom_jvp_call_jaxpr``: a call of a function that has its own JVP rule.

Its derivative is a call of the rule, ``jvp(custom_jvp_call(f, f_jvp)) == f_jvp``.  Batching batches
both functions, ``vmap(custom_jvp_call(f, f_jvp)) == custom_jvp_call(vmap(f), vmap(f_jvp))``.  A
rule takes a tangent for each operand; zero tangents are instantiated for it, unless there is a rule
that was told of them.

Reverse mode splits the rule by what is known when the values are computed.  The tangents are not
known then, and the second half is linear in them.

A function that stands for a primitive may have the primitive's transposes and batching rules.  Each
of these is for certain linear or batched operands.  It also serves if some of these operands are
known instead, or the same for the whole batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jaxmlir.dialect.builder import attribute, instantiated, reachable, references, zeros
from jaxmlir.dialect.custom_rule_ops import fitting, in_zeros, out_zeros, stands_for_primitive
from jaxmlir.dialect.ir import func, ir, symbol_uses
from jaxmlir.rewriting.dedupe import rename, rename_uses
from jaxmlir.rewriting.sizes import SizeSubstitution
from jaxmlir.support.masks import Dims, Mask, chosen, filled, inverted, left_out, present, split
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation, waiting
from jaxmlir.transforms.higher_order.call import linearize_rule_of, partial_eval_call_of
from jaxmlir.transforms.higher_order.custom_rules import (
    Batch,
    BatchedRules,
    batch_call,
    batch_rules,
    batched_with_rules,
    error_at,
    fitting_rule,
    is_float0,
    joined,
    keep_attributes,
    places_given,
)
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.new_function import call, clone_function
from jaxmlir.transforms.partial_eval import unknown_results
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import transpose_of
from jaxmlir.transforms.vmap import batched_results, move_all, vmap


class CustomJvp(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        if not any(_taken(op, active)):
            return (False,) * len(op.results)
        rule = _JvpRule(rules, op, active)
        if kind == "jvp":
            return tuple(i is not None for i in rule.tangents)
        unknown = unknown_results(rules, rule.symbol, rule.unknown)
        return tuple(i is not None and unknown[i] for i in rule.tangents)

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        return _taken(op, active)

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        rule = _JvpRule(rules, op, active)
        n, consts = rule.num_results, rule.num_consts
        pattern = tuple(i is not None for i in rule.tangents)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            in_tangents = args[len(active) + active[:consts].count(True) :]
            tangents = instantiated(filled(in_tangents, rule.active), rule.tangent_types)
            outs = call(rules, rule.symbol, [*args[consts : len(active)], *tangents])
            return [*outs[:n], *(outs[i] for i in rule.tangents if i is not None)]

        return Emitter(pattern, write)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        rule, uses = _JvpRule(rules, op, active), _taken(op, active)
        n = rule.num_results
        wanted_outs = {i for i, w in zip(rule.tangents, wanted, strict=True) if i is not None and w}
        needed = tuple(i < n or i in wanted_outs for i in range(rule.num_outs))
        halves = linearize_rule_of(rules, rule.symbol, rule.unknown, needed)
        if any(halves.pattern[:n]):
            raise error_at(
                op, f"the primal results of the rule @{rule.symbol} depend on the tangents"
            )
        pattern = tuple(i is not None and halves.pattern[i] for i in rule.tangents)

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            inputs = list(args[rule.num_consts :])
            inputs += map(zeros, left_out(rule.tangent_types, rule.active))
            results, residuals = halves.values(inputs, call(rules, halves.first, inputs))
            return [*results[:n], *residuals]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            return call(rules, halves.second, args)

        def pull(nonzero: Mask) -> Emitter:
            symbol, ct_pattern = halves.transpose(rules, uses.count(True), nonzero)
            return Emitter(ct_pattern, lambda args: call(rules, symbol, args))

        return Linearization(Emitter(pattern, primal), Emitter(pattern, tangent), uses, pull=pull)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation:
        """Lets a call wait as a whole, with its rule, if none of its results is known or if it
        stands for a primitive.  The halves of another call have no rule.  In a derivative rule
        the waiting half is linear and needs none; :func:`.scan.hoist` leaves such a call where
        it is."""
        symbol = op.attributes["call_jaxpr"].value
        if stands_for_primitive(op) or all(unknown_results(rules, symbol, unknown)):
            return waiting(op, unknown)
        halves = partial_eval_call_of(rules, symbol, unknown)

        def known(args: Sequence[ir.Value]) -> list[ir.Value]:
            results, residuals = halves.values(args, call(rules, halves.first, args))
            return [*results, *residuals]

        return PartialEvaluation(
            Emitter(halves.pattern, known),
            Emitter(halves.pattern, lambda args: call(rules, halves.second, args)),
        )

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        """The op's own transpose, or else its function's: a linear map is its own derivative."""
        rule = _rule_for(rules, op, "transpose", "jaxpr.linear", linear)
        if rule is None:
            symbol, ct_pattern = transpose_of(
                rules, op.attributes["call_jaxpr"].value, linear, nonzero
            )
            return Emitter(ct_pattern, lambda args: call(rules, symbol, args))
        symbol, taken = rule
        function = rules.program.function(symbol)
        moving = chosen(linear, taken)
        zero = out_zeros(function, len(moving))
        ct_pattern = inverted(chosen(zero, moving))
        ignored = in_zeros(function, len(nonzero))
        types = list(function.type.inputs)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            fixed, handed = split(args, linear.count(False))
            operands = left_out(filled(fixed, inverted(linear)), taken)
            cotangents = left_out(filled(handed, nonzero), ignored)
            operands += instantiated(cotangents, types[len(operands) :])
            outs = filled(call(rules, symbol, operands), inverted(zero))
            return present(chosen(outs, moving))

        return Emitter(ct_pattern, write)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        rule = _batching_rule(rules, op, dims)
        if rule is None:
            return batch_call(rules, op, dims, axis, _batch_attributes)
        symbol, taken = rule
        sized = rules.functions.once(_at_size, symbol, axis.size)
        wanted = [0 if t else d for d, t in zip(dims, taken, strict=True)]

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            return call(rules, sized, move_all(rules, args, dims, wanted, axis))

        return Emitter(_out_dims(rules, symbol), write)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        rule = _batching_rule(rules, op, dims)
        return (
            batched_with_rules(rules, op, dims, axis) if rule is None else _out_dims(rules, rule[0])
        )


def _batching_rule(rules: Rules, op: Any, dims: Dims) -> tuple[str, Mask] | None:
    return _rule_for(rules, op, "batch", "jaxpr.batched", tuple([d is not None for d in dims]))


def _rule_for(rules: Rules, op: Any, kind: str, key: str, wanted: Mask) -> tuple[str, Mask] | None:
    """The op's rule of a kind (``"transpose"`` or ``"batch"``) for the wanted operands and the
    fewest others, and the mask of its operands, an attribute ``key`` of its function.  ``None`` if
    the op has no such rules."""
    names = "transposes" if kind == "transpose" else "batches"
    symbols = symbol_uses(op.attributes[names]) if names in op.attributes else ()
    masks = {s: attribute(rules.program.function(s), key) for s in symbols}
    symbol = fitting(inverted(wanted), ((s, inverted(mask)) for s, mask in masks.items()))
    if symbol is not None:
        return symbol, masks[symbol]
    error = attribute(op, f"{kind}_error")
    if error is not None:
        raise error_at(op, f"its {kind} rule failed: {error}")
    if kind == "transpose" and symbols:
        where = [i for i, w in enumerate(wanted) if w]
        raise error_at(op, f"it has no transpose rule for operands {where} jointly")
    return None


def _out_dims(rules: Rules, symbol: str) -> Dims:
    batched = attribute(rules.program.function(symbol), "jaxpr.out_batched")
    return tuple([0 if b else None for b in batched])


def _at_size(rules: Rules, symbol: str, size: Any) -> str:
    """A batching rule, with all that it refers to, specialized to a batch size."""
    functions = rules.program.functions
    variable = attribute(functions[symbol], "jaxpr.batch_size")
    mentions = re.compile(rf"\b{variable}\b")
    uses = {name: set(references(functions[name])) for name in reachable(functions, symbol)}
    dependent = {symbol, *(n for n in uses if mentions.search(str(functions[n].operation)))}
    while more := {n for n in uses.keys() - dependent if not uses[n].isdisjoint(dependent)}:
        dependent |= more
    names, copies = {}, []
    for name in [name for name in uses if name in dependent]:
        names[name], copy = clone_function(rules, functions[name], name)
        copies.append(copy)
    substitution = SizeSubstitution({variable: size})
    for copy in copies:
        rename_uses(copy, names)
        substitution.function(copy)
    return names[symbol]


def _taken(op: Any, active: Mask) -> Mask:
    """The operands whose tangents a rule is given: not those that the function closes over, which
    JAX takes for constants."""
    consts = attribute(op, "num_consts", 0)
    return (*[False] * consts, *active[consts:])


class _JvpRule:
    """The JVP rule of an op for the tangents that are nonzero: a function ``(*primals, *tangents)
    -> (*primals, *tangents)``."""

    def __init__(self, rules: Rules, op: Any, active: Mask):
        self.num_consts = attribute(op, "num_consts", 0)
        self.num_results = n = len(op.results)
        active = active[self.num_consts :]
        function = _fitting(rules, op, active)
        self.symbol = function.name.value
        inputs, outputs = list(function.type.inputs), list(function.type.results)
        self.tangent_types = inputs[len(active) :]
        self.active = tuple(left_out(active, in_zeros(function, len(active))))
        """Which of the tangents that it takes are nonzero."""
        self.unknown = (*[False] * len(active), *self.active)
        """Which of its arguments are nonzero tangents."""
        self.num_outs = len(outputs)
        where = places_given(function, n, first=n)
        self.tangents = [None if i is None or is_float0(outputs[i]) else i for i in where]
        """For each result, where the rule gives its tangent; ``None`` if it has none."""


def _rules_of(attributes: Any) -> list[str]:
    names = ("jvp_jaxpr", "jvp_with_zeros")
    return [s for name in names if name in attributes for s in symbol_uses(attributes[name])]


def _fitting(rules: Rules, op: Any, active: Mask) -> func.FuncOp:
    """The rule that takes the fewest tangents besides those of active operands."""
    attributes = rules.told(op, inverted(active)) if any(active) else {}
    if "jvp_jaxpr" not in attributes:
        rules.program.trace_rules(of=op)
        attributes = op.attributes
    return fitting_rule(rules, op, attributes, "jvp_jaxpr", _rules_of(attributes), active)


def _batch_attributes(
    rules: Rules, attributes: dict[str, ir.Attribute], batch: Batch
) -> tuple[dict[str, ir.Attribute], Dims]:
    dims, axis, out_dims, _ = batch
    jvp_rules = _rules_of(attributes)
    transposes = symbol_uses(attributes["transposes"]) if "transposes" in attributes else ()
    if not (jvp_rules or transposes):
        return {}, out_dims

    def write(entry: BatchedRules) -> Dims:
        settled = _batch_rules(rules, jvp_rules, dims, axis, entry) if jvp_rules else out_dims
        for symbol in transposes:
            _batch_transpose(rules, symbol, dims, settled, axis, entry.symbols[symbol])
        return settled

    key = (*jvp_rules, *transposes, dims, axis, out_dims)
    symbols = {rule: rule for rule in (*jvp_rules, *transposes)}
    entry = batch_rules(rules, key, symbols, out_dims, write)
    names = [n for n in ("jvp_jaxpr", "jvp_with_zeros", "transposes") if n in attributes]
    return {n: rename(attributes[n], entry.symbols) for n in names}, entry.out_dims


def _batch_rules(
    rules: Rules, symbols: Sequence[str], dims: Dims, axis: Any, entry: BatchedRules
) -> Dims:
    """Writes the batched rules; gives the results' dimensions, for primals and tangents alike."""
    n = len(entry.out_dims)
    functions = [rules.program.function(symbol) for symbol in symbols]
    in_dims = [(*dims, *left_out(dims, in_zeros(f, len(dims)))) for f in functions]
    wanted = entry.out_dims
    # The rules have to agree.
    for symbol, function, rule_dims in zip(symbols, functions, in_dims, strict=True):
        own = batched_results(rules, symbol, rule_dims, axis)
        of_tangents = filled(own[n:], inverted(out_zeros(function, n)))
        wanted = tuple(map(joined, wanted, own[:n], of_tangents))
    for symbol, function, rule_dims in zip(symbols, functions, in_dims, strict=True):
        out_axes = (*wanted, *left_out(wanted, out_zeros(function, n)))
        reserved = entry.symbols[symbol]
        vmap(rules, symbol, rule_dims, axis, out_axes, reserved=reserved)
        keep_attributes(function, rules.program.function(reserved))
    return wanted


def _batch_transpose(
    rules: Rules, symbol: str, dims: Dims, out_dims: Dims, axis: Any, reserved: str
) -> None:
    """Writes the batched transpose under a reserved symbol; the cotangent of an unbatched operand
    is summed over the batch."""
    function = rules.program.function(symbol)
    linear = attribute(function, "jaxpr.linear")
    moving, fixed = chosen(dims, linear), left_out(dims, linear)
    cotangents = left_out(out_dims, in_zeros(function, len(out_dims)))
    ct_dims = left_out(moving, out_zeros(function, len(moving)))
    vmap(
        rules, symbol, (*fixed, *cotangents), axis, tuple(ct_dims), reserved=reserved, shared="sum"
    )
    batched = rules.program.function(reserved)
    batched.attributes["jaxpr.linear"] = function.attributes["jaxpr.linear"]
    keep_attributes(function, batched)

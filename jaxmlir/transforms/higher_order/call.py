"""``jaxpr.jit`` and similar ops only say which function to run: their rules are the passes.

A call with placement, donation, or effects on references is left to JAX's rule, which handles
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from jaxmlir.dialect.builder import create, returned, set_attribute, set_results, symbol_ref
from jaxmlir.dialect.effect_attributes import effects_of, is_on_operand
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import Dims, Mask
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp_of
from jaxmlir.transforms.linearize import linearize
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import SplitFunction
from jaxmlir.transforms.partial_eval import partial_eval
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import transpose_of
from jaxmlir.transforms.vmap import batched_results, vmap_of

# A residual that is an argument or a result of the function is already a value of the caller.
# Returned once more, it would be a second buffer to keep until the backward pass.


class ResidualSource(NamedTuple):
    """Where a caller finds a residual."""

    kind: Literal["operand", "result", "extra"]
    index: int
    """Among the operands, the results, or the results that were added for residuals."""


class ForwardedFunction(NamedTuple):
    """The two halves of a function; the second one needs residuals of the first."""

    first: str
    """``(*operands) -> (*results, *extra results)``."""
    second: str
    """``(*residuals, *operands) -> (*results)``."""
    residuals: tuple[ResidualSource, ...]
    pattern: Mask
    """Which results the second half gives: tangents, or unknown ones."""

    def values(
        self, operands: Sequence[ir.Value], outs: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The results and the residuals of a call of the first half that returned ``outs``."""
        extra = sum(source.kind == "extra" for source in self.residuals)
        results = list(outs[: len(outs) - extra])
        groups = {"operand": operands, "result": results, "extra": outs[len(results) :]}
        return results, [groups[kind][i] for kind, i in self.residuals]

    def transpose(self, rules: Rules, num_operands: int, nonzero: Mask) -> tuple[str, Mask]:
        """The transpose of the second half in its operands, as :func:`transpose_of` gives it."""
        linear = (False,) * len(self.residuals) + (True,) * num_operands
        return transpose_of(rules, self.second, linear, nonzero)


def linearize_call(rules: Rules, symbol: str, active: Mask, *how: Any) -> ForwardedFunction:
    """Linearizes a function for its callers."""
    return _forwarded(rules, linearize(rules, symbol, active, *how))


def partial_eval_call(rules: Rules, symbol: str, unknown: Mask, *how: Any) -> ForwardedFunction:
    """Splits a function for its callers."""
    return _forwarded(rules, partial_eval(rules, symbol, unknown, *how))


linearize_call_of = derived(linearize_call)
"""The result of :func:`linearize_call` for a function and a pattern, written once."""
partial_eval_call_of = derived(partial_eval_call)
"""The result of :func:`partial_eval_call` for a function and a pattern, written once."""


def linearize_rule_of(rules: Rules, symbol: str, unknown: Mask, wanted: Mask) -> ForwardedFunction:
    """Splits a JVP rule by which tangents there are: into ``@symbol.fwd`` and ``@symbol.lin``."""
    return partial_eval_call_of(rules, symbol, unknown, wanted, None, ("fwd", "lin"))


def _forwarded(rules: Rules, halves: SplitFunction) -> ForwardedFunction:
    """Removes from the first half's results the residuals that its caller has anyway."""
    function = rules.program.function(halves.first)
    values = returned(function)
    results = values[: len(values) - halves.num_residuals]
    source_of: dict[ir.Value, ResidualSource] = {}
    extra = []
    for i, v in enumerate(results):
        source_of.setdefault(v, ResidualSource("result", i))
    source_of.update((v, ResidualSource("operand", i)) for i, v in enumerate(function.arguments))
    sources = []
    for v in values[len(results) :]:
        if v not in source_of:
            source_of[v] = ResidualSource("extra", len(extra))
            extra.append(v)
        sources.append(source_of[v])
    set_results(function, [*results, *extra])
    set_attribute(function, "jaxpr.num_res", len(extra))
    return ForwardedFunction(halves.first, halves.second, tuple(sources), halves.pattern)


class Call(HigherOrderRule):
    """A call of the function that the attribute ``callee`` names."""

    def __init__(self, callee: str, *plain: str):
        self.callee = callee
        self.plain = frozenset({callee, "jaxpr.ctx", "jaxpr.effects", *plain})

    def handles(self, op: Any) -> bool:
        return super().handles(op) and not any(map(is_on_operand, effects_of(op) or ()))

    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        return active_results(rules, self._symbol(op), active, kind)

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        return used_arguments(rules, self._symbol(op), active, wanted)

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        return self._call(rules, op, *jvp_of(rules, self._symbol(op), active))

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        symbol = self._symbol(op)
        uses = used_arguments(rules, symbol, active, wanted)
        active = relevant_arguments(rules, symbol, active, uses)
        halves = linearize_call_of(rules, symbol, active, wanted, None, uses)
        name, attributes = self._written_as(op)

        def pull(nonzero: Mask) -> Emitter:
            transposed = halves.transpose(rules, uses.count(True), nonzero)
            return self._written(rules, name, attributes, *transposed)

        return Linearization(*self._halves(rules, op, halves), uses, pull=pull)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation:
        halves = partial_eval_call_of(rules, self._symbol(op), unknown)
        return PartialEvaluation(*self._halves(rules, op, halves))

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        return self._call(rules, op, *transpose_of(rules, self._symbol(op), linear, nonzero))

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        return self._call(rules, op, *vmap_of(rules, self._symbol(op), dims, axis))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return batched_results(rules, self._symbol(op), dims, axis)

    def _symbol(self, op: Any) -> str:
        return op.attributes[self.callee].value

    def _written_as(self, op: Any) -> tuple[str, dict[str, ir.Attribute]]:
        """The name of the op that calls a transformed function, and its other attributes."""
        return op.operation.name, dict(op.attributes.items())

    def _call(self, rules: Rules, like: Any, symbol: str, pattern: tuple[Any, ...]) -> Emitter:
        """A call of a transformed function, in place of the op ``like``."""
        return self._written(rules, *self._written_as(like), symbol, pattern)

    def _written(
        self,
        rules: Rules,
        name: str,
        attributes: dict[str, ir.Attribute],
        symbol: str,
        pattern: tuple[Any, ...],
    ) -> Emitter:
        attributes = attributes | {self.callee: symbol_ref(symbol)}
        if attributes.pop("jaxpr.effects", None) is not None:
            effects = rules.functions.given_effects.of_call(symbol)
            if effects is not None:
                attributes["jaxpr.effects"] = effects
        types = list(rules.program.function(symbol).type.results)
        return Emitter(pattern, lambda args: create(name, types, args, attributes))

    def _halves(
        self, rules: Rules, like: Any, halves: ForwardedFunction
    ) -> tuple[Emitter, Emitter]:
        """Calls of the two halves of a function."""
        first = self._call(rules, like, halves.first, halves.pattern)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            results, residuals = halves.values(args, first.write(args))
            return [*results, *residuals]

        return (
            Emitter(halves.pattern, write),
            self._call(rules, like, halves.second, halves.pattern),
        )


class ForwardRule(Call):
    """A call of the forward rule of a ``jaxpr.remat_opt``."""

    def __init__(self) -> None:
        super().__init__("jaxpr")

    def _symbol(self, op: Any) -> str:
        return op.attributes["fwd_jaxpr"].value

    def _written_as(self, op: Any) -> tuple[str, dict[str, ir.Attribute]]:
        return "jaxpr.jit", {"name": ir.StringAttr.get(self._symbol(op))}


class RematOpt(HigherOrderRule):
    """The rule of ``jaxpr.remat_opt``: linearized, it is a call of the forward rule.

    JAX's rules serve the rest.  They keep both functions, also in forward mode, where the results
    would depend on tangents: so JAX cannot linearize the op (once it is in a ``jax.jit``).
    """

    forward_rule: ClassVar[Call] = ForwardRule()

    def jvp(self, rules: Rules, op: Any, active: Mask) -> None:
        return None

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        return self.forward_rule.uses(rules, op, active, wanted)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        return self.forward_rule.linearize(rules, op, active, wanted)

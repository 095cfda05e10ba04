"""``jaxpr.jit`` and its like say nothing but which function to run: their rules are the passes.

One with placement, donation or effects is left to JAX's rule, which knows what becomes of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import Dims, Mask
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation
from jaxmlir.transforms.higher_order.residuals import (
    Forwarded,
    linearize_call_of,
    partial_eval_call_of,
)
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp_of
from jaxmlir.transforms.transpose import transpose_of
from jaxmlir.transforms.vmap import batched_results, vmap_of

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


class Call(HigherOrderRule):
    """A call of the function that the attribute ``callee`` names."""

    def __init__(self, callee: str, *plain: str):
        self.callee = callee
        self.plain = frozenset({callee, "jaxpr.ctx", *plain})

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
        found = linearize_call_of(rules, symbol, active, wanted, None, uses)
        name, attributes = op.operation.name, dict(op.attributes.items())

        def pull(nonzero: Mask) -> Emitter:
            transposed = found.transpose(rules, uses.count(True), nonzero)
            return self._written(rules, name, attributes, *transposed)

        return Linearization(*self._halves(rules, op, found), uses, pull=pull)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation:
        found = partial_eval_call_of(rules, self._symbol(op), unknown)
        return PartialEvaluation(*self._halves(rules, op, found))

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        return self._call(rules, op, *transpose_of(rules, self._symbol(op), linear, nonzero))

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        return self._call(rules, op, *vmap_of(rules, self._symbol(op), dims, axis))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return batched_results(rules, self._symbol(op), dims, axis)

    def _symbol(self, op: Any) -> str:
        return op.attributes[self.callee].value

    def _call(self, rules: Rules, like: Any, symbol: str, pattern: tuple[Any, ...]) -> Emitter:
        """A call of a transformed function, in place of the op ``like``."""
        attributes = dict(like.attributes.items())
        return self._written(rules, like.operation.name, attributes, symbol, pattern)

    def _written(
        self,
        rules: Rules,
        name: str,
        attributes: dict[str, ir.Attribute],
        symbol: str,
        pattern: tuple[Any, ...],
    ) -> Emitter:
        attributes = attributes | {self.callee: ir.FlatSymbolRefAttr.get(symbol)}
        types = list(rules.program.function(symbol).type.results)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            return list(ir.Operation.create(name, types, list(args), attributes).results)

        return Emitter(pattern, write)

    def _halves(self, rules: Rules, like: Any, found: Forwarded) -> tuple[Emitter, Emitter]:
        """Calls of the two halves of a function."""
        first = self._call(rules, like, found.first, found.pattern)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            results, residuals = found.values(args, first.write(args))
            return [*results, *residuals]

        return (Emitter(found.pattern, write), self._call(rules, like, found.second, found.pattern))

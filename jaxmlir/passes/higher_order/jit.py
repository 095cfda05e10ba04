"""``jaxpr.jit`` says nothing but which function to run: its rules are the passes themselves.

One with placement, donation or effects is left to JAX's rule, which knows what becomes of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.ir import ir
from jaxmlir.passes.higher_order._rule import HigherOrderRule, Linearization, Written

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules


class Jit(HigherOrderRule):
    plain: ClassVar = frozenset({"jaxpr", "name", "jaxpr.ctx"})

    def activity(
        self, rules: Rules, op: Any, kind: str, active: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        return rules.functions.activity(_callee(op), active, kind)

    def uses(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        return rules.functions.uses(_callee(op), active, wanted)

    def jvp(self, rules: Rules, op: Any, active: tuple[bool, ...]) -> Written:
        return _call(rules, op, *rules.functions.jvp(_callee(op), active))

    def linearize(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Linearization:
        uses = rules.functions.uses(_callee(op), active, wanted)
        found = rules.functions.linearize(_callee(op), uses, wanted)
        return Linearization(
            _call(rules, op, found.fwd, found.active_out),
            _call(rules, op, found.lin, found.active_out),
            uses,
        )

    def transpose(
        self, rules: Rules, op: Any, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> Written:
        return _call(rules, op, *rules.functions.transpose(_callee(op), linear, nonzero))

    def batch(self, rules: Rules, op: Any, dims: tuple[int | None, ...], axis: Any) -> Written:
        return _call(rules, op, *rules.functions.batch(_callee(op), dims, axis))


def _callee(op: Any) -> str:
    return op.attributes["jaxpr"].value


def _call(rules: Rules, like: Any, symbol: str, pattern: tuple[Any, ...]) -> Written:
    """A call of a transformed function, in place of the op ``like``."""
    attributes = dict(like.attributes.items())
    attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(symbol)
    types = list(rules.program.function(symbol).type.results)

    def write(args: Sequence[ir.Value]) -> list[ir.Value]:
        return list(ir.Operation.create("jaxpr.jit", types, list(args), attributes).results)

    return Written(pattern, write)

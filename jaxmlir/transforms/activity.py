"""Activity analysis: which values have tangents, and which tangents matter.

Two sweeps over a function, which write nothing.  The forward sweep finds the *active* values: an
op's derivative rule says which results have tangents, given which operands do.  The backward sweep
finds the *used* tangents: those of active values that a wanted tangent depends on.  Loops repeat
the sweeps over their body until the answer does not change.

A custom rule also computes the primal results of its call wherever the call is active, and a
further derivative differentiates what the rule computed.  So a function that holds such calls is
linearized in all active arguments, used or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.builder import symbols_of
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.support.masks import Mask, both
from jaxmlir.transforms.higher_order import has_rule
from jaxmlir.transforms.memo import derived

if TYPE_CHECKING:
    from jaxmlir.transforms.emitters import Linearization
    from jaxmlir.transforms.templates import Rules


_WITH_RULES = frozenset({"jaxpr.custom_jvp_call_jaxpr", "jaxpr.custom_vjp_call_jaxpr"})
# Ops that refer to functions, and whose results stay the same when they are differentiated.
_UNCHANGED = frozenset({"jaxpr.custom_lin", "jaxpr.custom_linear_solve", "jaxpr.linear_call"})


class ActiveOp(NamedTuple):
    """An op with an operand that has a tangent."""

    active: Mask
    """Which operands have tangents."""
    active_out: Mask
    """Which results have tangents."""
    halves: Linearization | None
    """The linearized op, unless it depends on which tangents are wanted."""


class Activity(NamedTuple):
    """A function under differentiation."""

    body: FunctionView
    steps: list[ActiveOp | None]
    """The step of each op; ``None`` if no operand has a tangent."""
    live: list[bool]
    """Whether each value has a tangent."""

    @property
    def results(self) -> Mask:
        """Which results of the function have tangents."""
        return tuple([self.live[v] for v in self.body.returned])


def forward(rules: Rules, symbol: str, active: Mask, kind: str) -> Activity:
    """The forward sweep: which values of ``@symbol`` have tangents, given the active arguments, by
    the rules of a kind, ``"jvp"`` or ``"linearize"``."""
    body = rules.functions.body(symbol)
    live = [*active, *[False] * (len(body.types) - body.arity)]
    steps: list[ActiveOp | None] = []
    cached: dict[tuple[Signature, Mask], ActiveOp] = {}
    columns = zip(body.ops, body.signatures, body.operands, body.results, strict=True)
    for op, signature, operands, (first, last) in columns:
        pattern = tuple([live[v] for v in operands])
        if True not in pattern:
            steps.append(None)
            continue
        step = cached.get((signature, pattern))
        if step is None:
            step = cached[signature, pattern] = _step(rules, kind, op, signature, pattern)
        live[first:last] = step.active_out
        steps.append(step)
    return Activity(body, steps, live)


def _step(rules: Rules, kind: str, op: object, signature: Signature, active: Mask) -> ActiveOp:
    name, every_result = signature.name, (True,) * len(signature.results)
    if kind == "linearize" and not has_rule(name):
        halves = rules.linearize(op, signature, active, every_result)
        return ActiveOp(active, halves.tangent.pattern, halves)
    return ActiveOp(active, rules.activity(kind, op, signature, active), None)


def backward(
    rules: Rules, activity: Activity, wanted: Sequence[bool]
) -> tuple[list[Mask | None], Mask]:
    """The backward sweep: for each op a mask of the results whose tangents are used for those of
    the wanted results, ``None`` if there are none; and a mask of the arguments whose tangents are
    used."""
    body, steps, _ = activity
    used = bytearray(len(body.types))
    for value, asked_for, active in zip(body.returned, wanted, activity.results, strict=True):
        if asked_for and active:
            used[value] = True
    masks: list[Mask | None] = [None] * len(steps)
    for i in range(len(steps) - 1, -1, -1):
        step, (first, last) = steps[i], body.results[i]
        if step is None or True not in used[first:last]:
            continue
        mask = masks[i] = tuple(map(bool, used[first:last]))
        uses = step.active
        if step.halves is None:
            signature = body.signatures[i]
            uses = rules.uses(body.ops[i], signature, step.active, mask)
        for value, is_used in zip(body.operands[i], uses, strict=True):
            if is_used:
                used[value] = True
    return masks, tuple(map(bool, used[: body.arity]))


def activity_of(rules: Rules, symbol: str, active: Mask, kind: str) -> Activity:
    """The result of :func:`forward` for ``@symbol``, computed once."""
    return rules.functions.once(forward, symbol, active, kind)


@derived
def active_results(rules: Rules, symbol: str, active: Mask, kind: str) -> Mask:
    """Which results of ``@symbol`` have tangents when it is differentiated by ``kind``."""
    return activity_of(rules, symbol, active, kind).results


@derived
def used_arguments(rules: Rules, symbol: str, active: Mask, wanted: Mask) -> Mask:
    """Which of the active arguments of ``@symbol`` the wanted results' tangents depend on."""
    _, used = backward(rules, activity_of(rules, symbol, active, "linearize"), wanted)
    return both(active, used)


def holds_rules(rules: Rules, op: Any) -> bool:
    """Whether an op calls, directly or indirectly, a function with a custom derivative rule, so
    that its results may differ once it is differentiated."""
    name = op.operation.name
    if name in _WITH_RULES:
        return True
    if name in _UNCHANGED or not may_have_functions(name):
        return False
    return any(function_holds_rules(rules, symbol) for symbol in symbols_of(op))


@derived
def function_holds_rules(rules: Rules, symbol: str) -> bool:
    """Whether an op of ``@symbol`` :func:`holds_rules`."""
    return any(holds_rules(rules, op) for op in rules.functions.body(symbol).ops)


def relevant_arguments(rules: Rules, symbol: str, active: Mask, used: Mask) -> Mask:
    """The active arguments in which ``@symbol`` has to be linearized when only the tangents of the
    ``used`` ones are needed: all of them if custom rules may change the primal results."""
    return active if function_holds_rules(rules, symbol) else used

"""What has a tangent, and which tangents matter: two sweeps over a function, writing nothing.

Forwards, a value is *active* if an op's derivative rule says that it has a tangent, given which
operands do.  Backwards, the tangent of an active value is *used* if a wanted one depends on it.
Loops ask these questions of their body until the answer does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import ops_of, returned, signature
from jaxmlir.passes.higher_order import has_rule

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Linearization, Rules


@dataclass(slots=True)
class Step:
    """One op of a function under differentiation."""

    op: Any
    name: str
    operands: list[ir.Value]
    results: list[ir.Value]
    active: tuple[bool, ...]
    """Which operands have tangents; ``()`` if none has."""
    active_out: tuple[bool, ...] = ()
    """Which results have tangents."""
    wanted: tuple[bool, ...] = ()
    """Which results' tangents are used; ``()`` if none is."""
    halves: Linearization | None = None
    """The op linearized, where that does not depend on what is wanted."""


def forward(
    rules: Rules, function: func.FuncOp, active: Sequence[bool], kind: str
) -> tuple[list[Step], set[ir.Value]]:
    """The ops of a function with their activity, and the active values.

    Args:
      active: which arguments have tangents.
      kind: ``"jvp"`` or ``"linearize"``, whose rules are asked.
    """
    live = {v for v, a in zip(function.arguments, active, strict=True) if a}
    steps = []
    for op, name, operands in ops_of(function):
        results = list(op.results)
        pattern = tuple([v in live for v in operands])
        if True not in pattern:
            steps.append(Step(op, name, operands, results, ()))
            continue
        step = Step(op, name, operands, results, pattern)
        known = signature(op, name, operands)
        if kind == "linearize" and not has_rule(name):
            step.halves = rules.linearize(op, name, pattern, (True,) * len(results), known)
            step.active_out = step.halves.tangent.pattern
        else:
            step.active_out = rules.activity(kind, op, name, pattern, known)
        live.update([v for v, a in zip(results, step.active_out, strict=True) if a])
        steps.append(step)
    return steps, live


def backward(rules: Rules, steps: Sequence[Step], wanted: set[ir.Value]) -> None:
    """Sets ``wanted`` of each step, and adds to the set the values whose tangents are used."""
    for step in reversed(steps):
        if step.active and not wanted.isdisjoint(step.results):
            step.wanted = tuple([v in wanted for v in step.results])
            uses = rules.uses(step.op, step.name, step.active, step.wanted)
            wanted.update([v for v, u in zip(step.operands, uses, strict=True) if u])


def active_results(
    rules: Rules, symbol: str, active: tuple[bool, ...], kind: str
) -> tuple[bool, ...]:
    """Which results of ``@symbol`` have tangents."""
    function = rules.program.function(symbol)
    _, live = forward(rules, function, active, kind)
    return tuple([v in live for v in returned(function)])


def used_arguments(
    rules: Rules, symbol: str, active: tuple[bool, ...], wanted: tuple[bool, ...]
) -> tuple[bool, ...]:
    """Which of the active arguments of ``@symbol`` the wanted results' tangents depend on."""
    function = rules.program.function(symbol)
    steps, live = forward(rules, function, active, "linearize")
    used = {v for v, w in zip(returned(function), wanted, strict=True) if w and v in live}
    backward(rules, steps, used)
    return tuple([a and v in used for v, a in zip(function.arguments, active, strict=True)])

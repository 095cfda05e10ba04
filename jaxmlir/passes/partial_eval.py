"""``jaxpr-partial-eval``: split a function by what is known of its arguments.

Ops that depend on known arguments alone go to the first half, ``@f.known``; the others wait in
``@f.unknown`` for the unknown arguments, and take what they need of the first half as residuals.  A
JVP rule is split so, to make a linear function of it: its primals are known, its tangents are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import (
    NewFunction,
    clone,
    copy,
    is_constant,
    ops_of,
    returned,
    set_attribute,
)
from jaxmlir.passes._rules import Rules

if TYPE_CHECKING:
    from jaxmlir.passes.higher_order import Halves
    from jaxmlir.program import Program


@dataclass(frozen=True)
class PartialEval(Pass):
    """Add ``@f.known``: (*known arguments) -> (*known results, *residuals), and ``@f.unknown``:
    (*residuals, *unknown arguments) -> (*unknown results).

    ``jaxpr.unknown`` on ``@f.unknown`` says which results depend on an unknown argument.

    Options:
      unknown: the flat arguments that are unknown.
      func: the function to split; by default the public one.
    """

    name: ClassVar[str] = "jaxpr-partial-eval"
    unknown: tuple[int, ...]
    func: str = ""

    def run(self, program: Program) -> None:
        with scope():
            symbol = self.func or program.name
            count = len(program.function(symbol).arguments)
            partial_eval(Rules(program), symbol, tuple(i in self.unknown for i in range(count)))
        program.changed()


@dataclass(frozen=True)
class Split:
    """The two functions that :func:`partial_eval` writes."""

    known: str
    unknown: str
    num_residuals: int
    unknown_out: tuple[bool, ...]


@dataclass(frozen=True)
class _Later:
    """An op that waits, or the part of one that does."""

    op: Any
    name: str
    halves: Halves | None
    """Of an op that is split: its parts."""
    residuals: tuple[ir.Value, ...]
    """What a split op's first part leaves, in ``@f.known``."""
    operands: tuple[ir.Value, ...]
    """All operands of an op that waits as a whole, the unknown ones of a split op."""
    results: tuple[ir.Value, ...]


def partial_eval(
    rules: Rules,
    symbol: str,
    unknown: Sequence[bool],
    wanted: Sequence[bool] | None = None,
    required: Sequence[bool] | None = None,
    suffixes: tuple[str, str] = ("known", "unknown"),
) -> Split:
    """Writes ``@symbol.known`` and ``@symbol.unknown``, or under other suffixes.

    Args:
      unknown: which arguments are not known.
      wanted: the unknown results that are asked for; by default all.
      required: results that the second half is to give even if they are known; by default none.

    Raises:
      TransformError: an op cannot be split; names the op and the user's line.
    """
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    waiting = {v for v, u in zip(arguments, unknown, strict=True) if u}
    given = [v for v in arguments if v not in waiting]
    known = NewFunction(rules, f"{symbol}.{suffixes[0]}", [v.type for v in given], function)
    values = dict(zip(given, known.args, strict=True))
    later: list[_Later] = []
    with known.body():
        for op, name, operands in ops_of(function):
            pattern = tuple([v in waiting for v in operands])
            results = tuple(op.results)
            if True not in pattern:
                args = [values[v] for v in operands]
                values.update(zip(results, copy(op, name, args), strict=True))
                continue
            halves = rules.partial_eval(op, name, pattern)
            if halves is None:
                waiting.update(results)
                later.append(_Later(op, name, None, (), tuple(operands), results))
                continue
            args = [values[v] for v in operands if v not in waiting]
            outs = halves.known.inline(args, op.location)
            held_back = halves.unknown.pattern
            first = [v for v, u in zip(results, held_back, strict=True) if not u]
            values.update(zip(first, outs, strict=False))
            rest = tuple(v for v in operands if v in waiting)
            results = tuple(v for v, u in zip(results, held_back, strict=True) if u)
            waiting.update(results)
            later.append(_Later(op, name, halves, tuple(outs[len(first) :]), rest, results))
    outs = returned(function)
    unknown_out = tuple(
        v in waiting and (wanted is None or wanted[i]) or (required is not None and required[i])
        for i, v in enumerate(outs)
    )
    asked_for = [v for v, u in zip(outs, unknown_out, strict=True) if u]
    later = _needed(later, set(asked_for))
    first_outs = [
        values[v] for v, u in zip(outs, unknown_out, strict=True) if not u and v not in waiting
    ]
    # What the second half uses of the first; constants are written again, not handed over.
    used = dict.fromkeys(
        v
        for step in later
        for v in (*step.residuals, *(values[v] for v in step.operands if v not in waiting))
    )
    used |= dict.fromkeys(values[v] for v in asked_for if v not in waiting)
    constants = [v for v in used if is_constant(v)]
    residuals = [v for v in used if not is_constant(v)]
    known.finish([*first_outs, *residuals])
    set_attribute(known.op, "jaxpr.num_res", len(residuals))

    rest = [v for v, u in zip(arguments, unknown, strict=True) if u]
    types = [v.type for v in (*residuals, *rest)]
    second = NewFunction(rules, f"{symbol}.{suffixes[1]}", types, function)
    handed = dict(zip(residuals, second.args, strict=False))
    own = dict(zip(rest, second.args[len(residuals) :], strict=True))
    with second.body():
        for v in constants:
            handed[v] = clone(v)
        for step in later:
            args = [handed[v] for v in step.residuals]
            args += [own[v] if v in waiting else handed[values[v]] for v in step.operands]
            outs = (
                copy(step.op, step.name, args)
                if step.halves is None
                else step.halves.unknown.inline(args, step.op.location)
            )
            own.update(zip(step.results, outs, strict=True))
    second.finish([own[v] if v in waiting else handed[values[v]] for v in asked_for])
    set_attribute(second.op, "jaxpr.num_res", len(residuals))
    set_attribute(second.op, "jaxpr.unknown", unknown_out)
    return Split(known.name, second.name, len(residuals), unknown_out)


def unknown_results(rules: Rules, symbol: str, unknown: Sequence[bool]) -> tuple[bool, ...]:
    """Which results of ``@symbol`` depend on an unknown argument."""
    function = rules.program.function(symbol)
    waiting = {v for v, u in zip(function.arguments, unknown, strict=True) if u}
    for op, name, operands in ops_of(function):
        pattern = tuple([v in waiting for v in operands])
        if True in pattern:
            halves = rules.partial_eval(op, name, pattern)
            results = list(op.results)
            later = (True,) * len(results) if halves is None else halves.unknown.pattern
            waiting.update(v for v, u in zip(results, later, strict=True) if u)
    return tuple(v in waiting for v in returned(function))


def _needed(later: list[_Later], wanted: set[ir.Value]) -> list[_Later]:
    """The waiting ops that results depend on, or that have effects."""
    kept = []
    for step in reversed(later):
        if not wanted.isdisjoint(step.results) or "jaxpr.effects" in step.op.attributes:
            wanted.update(step.operands)
            kept.append(step)
    return kept[::-1]

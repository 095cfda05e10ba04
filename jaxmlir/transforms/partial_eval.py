"""``jaxpr-partial-eval``: split a function by what is known of its arguments.

Ops that depend only on known arguments go to ``@f.known``.  The others wait in ``@f.unknown`` for
the unknown arguments, and take what they need of the first half as residuals.  This is how a JVP
rule becomes a linear function: its primals are known, its tangents are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.builder import clone, copy, is_constant, set_attribute
from jaxmlir.dialect.custom_rule_ops import OPS as OF_RULES
from jaxmlir.dialect.custom_rule_ops import stands_for_primitive
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module, named_arguments
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import Mask, chosen, filled, inverted, left_out, split
from jaxmlir.transforms.emitters import PartialEvaluation
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import NewFunction, SplitFunction
from jaxmlir.transforms.templates import Rules


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

    def run(self, program: Module) -> None:
        symbol = program.chosen(self.func)
        unknown = named_arguments(program, symbol, self.unknown)
        partial_eval(Rules(program), symbol, unknown)


class _DeferredOp(NamedTuple):
    """An op, or part of a split op, that waits for unknown arguments; values are numbers."""

    index: int
    halves: PartialEvaluation | None
    """The two parts of a split op; ``None`` if the op waits as a whole."""
    residuals: Sequence[ir.Value]
    """The residuals that a split op's first part computes in ``@f.known``."""
    operands: Sequence[int]
    """All operands of an op that waits as a whole, the unknown ones of a split op."""
    results: Sequence[int]


def partial_eval(
    rules: Rules,
    symbol: str,
    unknown: Sequence[bool],
    wanted: Sequence[bool] | None = None,
    required: Sequence[bool] | None = None,
    suffixes: tuple[str, str] = ("known", "unknown"),
) -> SplitFunction:
    """Writes ``@symbol.known`` and ``@symbol.unknown``, or under other suffixes.

    Args:
      unknown: which arguments are not known.
      wanted: the unknown results that are asked for; by default all.
      required: results that the second half gives even if they are known; by default none.

    Raises:
      TransformError: an op cannot be split; names the op and the user's line.
    """
    body = rules.functions.body(symbol)
    types, outs = body.types, body.returned
    rest = [i for i, u in enumerate(unknown) if u]
    known_types = left_out(types[: body.arity], unknown)
    first = NewFunction(rules, f"{symbol}.{suffixes[0]}", known_types, body.function)
    with first.body():
        values, waiting, later = _write_known(rules, body, unknown, first.args)
    unknown_out = tuple(
        waiting[v] and (wanted is None or wanted[i]) or (required is not None and required[i])
        for i, v in enumerate(outs)
    )
    asked_for = chosen(outs, unknown_out)
    later = _needed(body, later, asked_for)
    first_outs = [values[v] for v in left_out(outs, unknown_out) if not waiting[v]]
    # Values of the first half that the second uses.  Constants are written again, not passed.
    used = dict.fromkeys(
        v
        for step in later
        for v in (*step.residuals, *(values[v] for v in step.operands if not waiting[v]))
    )
    used |= dict.fromkeys(values[v] for v in asked_for if not waiting[v])
    constants = [v for v in used if is_constant(v)]
    residuals = [v for v in used if not is_constant(v)]
    first.finish([*first_outs, *residuals])
    set_attribute(first.op, "jaxpr.num_res", len(residuals))

    arg_types = [*(v.type for v in residuals), *(types[i] for i in rest)]
    second = NewFunction(rules, f"{symbol}.{suffixes[1]}", arg_types, body.function)
    handed = dict(zip(residuals, second.args, strict=False))
    in_second = dict(zip(rest, second.args[len(residuals) :], strict=True))
    with second.body():
        for v in constants:
            handed[v] = clone(v)
        for step in later:
            op = body.ops[step.index]
            args = [handed[v] for v in step.residuals]
            args += [in_second[v] if waiting[v] else handed[values[v]] for v in step.operands]
            computed = (
                copy(op, body.names[step.index], args)
                if step.halves is None
                else step.halves.unknown.inline(args, op.location)
            )
            in_second.update(zip(step.results, computed, strict=True))
    second.finish([in_second[v] if waiting[v] else handed[values[v]] for v in asked_for])
    set_attribute(second.op, "jaxpr.num_res", len(residuals))
    set_attribute(second.op, "jaxpr.unknown", unknown_out)
    return SplitFunction(first.name, second.name, len(residuals), unknown_out)


def _write_known(
    rules: Rules, body: FunctionView, unknown: Sequence[bool], args: Sequence[ir.Value]
) -> tuple[list[Any], list[bool], list[_DeferredOp]]:
    """Writes the known values; gives the values, which ones wait, and the ops that do."""
    known_args = filled(args, inverted(unknown))
    values: list[Any] = [*known_args, *[None] * (len(body.types) - body.arity)]
    waiting = _arguments_waiting(body, unknown)
    later = []
    for i, (op, operands) in enumerate(zip(body.ops, body.operands, strict=True)):
        pattern = tuple([waiting[v] for v in operands])
        first, last = body.results[i]
        if True not in pattern:
            values[first:last] = copy(op, body.names[i], [values[v] for v in operands])
            continue
        halves = rules.partial_eval(op, body.signatures[i], pattern)
        if halves is None:
            waiting[first:last] = [True] * (last - first)
            later.append(_DeferredOp(i, None, (), operands, range(first, last)))
            continue
        args = [values[v] for v in operands if not waiting[v]]
        held_back = halves.unknown.pattern
        known_outs, residuals = split(
            halves.known.inline(args, op.location), held_back.count(False)
        )
        waiting[first:last] = held_back
        values[first:last] = filled(known_outs, inverted(held_back))
        rest = [v for v in operands if waiting[v]]
        later.append(_DeferredOp(i, halves, residuals, rest, chosen(range(first, last), held_back)))
    return values, waiting, later


@derived
def unknown_results(rules: Rules, symbol: str, unknown: Mask) -> Mask:
    """Which results of ``@symbol`` depend on an unknown argument."""
    body = rules.functions.body(symbol)
    waiting = _arguments_waiting(body, unknown)
    for _ in _waiting_ops(rules, body, waiting):
        pass
    return tuple([waiting[v] for v in body.returned])


def _arguments_waiting(body: FunctionView, unknown: Sequence[bool]) -> list[bool]:
    """Which values of a function have to wait, as far as its arguments tell."""
    return [*unknown, *[False] * (len(body.types) - body.arity)]


def _waiting_ops(
    rules: Rules, body: FunctionView, waiting: list[bool]
) -> Iterator[tuple[int, Mask]]:
    """The ops that depend on an unknown argument, each with a mask of the operands that do.  Enters
    the results of an op that has to wait into ``waiting`` after the op has been yielded."""
    for i, operands in enumerate(body.operands):
        pattern = tuple([waiting[v] for v in operands])
        if True in pattern:
            yield i, pattern
            halves = rules.partial_eval(body.ops[i], body.signatures[i], pattern)
            first, last = body.results[i]
            later = [True] * (last - first) if halves is None else halves.unknown.pattern
            waiting[first:last] = later


def loses_rules(rules: Rules, op: Any, name: str, unknown: Sequence[bool]) -> bool:
    """Whether splitting an op may lose a custom JVP rule that a further derivative needs: by
    splitting a call with such a rule, or by a rule of JAX."""
    if name in OF_RULES:
        if name != "jaxpr.custom_jvp_call_jaxpr" or stands_for_primitive(op):
            return False
        callee = op.attributes["call_jaxpr"].value
        return not all(unknown_results(rules, callee, tuple(unknown)))
    callees = []
    if name == "jaxpr.jit":
        callees = [op.attributes["jaxpr"].value]
    elif name == "jaxpr.cond":
        index, *unknown = unknown
        # If the index is unknown, the op waits as a whole.
        callees = [] if index else [branch.value for branch in op.attributes["branches"]]
    elif may_have_functions(name):
        return any(True for _ in rules.custom_ops_within(op))
    return any(rules.functions.once(_splits_rules, callee, tuple(unknown)) for callee in callees)


def _splits_rules(rules: Rules, symbol: str, unknown: Sequence[bool]) -> bool:
    """Whether splitting a function loses the rules of one of its ops."""
    body = rules.functions.body(symbol)
    return any(
        loses_rules(rules, body.ops[i], body.names[i], pattern)
        for i, pattern in _waiting_ops(rules, body, _arguments_waiting(body, unknown))
    )


def _needed(
    body: FunctionView, later: list[_DeferredOp], wanted: Sequence[int]
) -> list[_DeferredOp]:
    """The waiting ops that wanted results depend on, or that have effects."""
    used = set(wanted)
    needed = []
    for step in reversed(later):
        if not used.isdisjoint(step.results) or step.index in body.effects:
            used.update(step.operands)
            needed.append(step)
    return needed[::-1]

"""``jaxpr-linearize``: split a function into its values and its derivative.

Linearization is forward-mode differentiation and partial evaluation at once.  Each op is replaced
by two templates: one computes its results and *residuals*, the other one the tangents of its
results from the residuals and the tangents of its operands.  The first halves make ``@f.fwd``, the
second halves ``@f.lin``, a linear function once the residuals are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from jaxmlir.dialect.builder import clone, copy, is_constant, set_attribute, zeros
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import tangent_type_of
from jaxmlir.support.masks import Mask, chosen, filled
from jaxmlir.transforms.activity import (
    Activity,
    activity_of,
    backward,
    function_holds_rules,
    holds_rules,
)
from jaxmlir.transforms.checkpoint_while import checkpoint_while
from jaxmlir.transforms.emitters import Linearization
from jaxmlir.transforms.jvp import DerivativePass
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import NewFunction, SplitFunction
from jaxmlir.transforms.templates import Rules


class ReversePass(DerivativePass):
    """Base of the passes that prepare a function for reverse mode.

    Options:
      while: ``checkpointed`` differentiates loops of unknown length, which are an error by default.
      checkpoints: how many states of such a loop are kept.
    """

    while_: Literal["error", "checkpointed"] = "error"
    checkpoints: int | None = None

    def prepared(self, program: Module) -> tuple[str, Mask]:
        symbol, active = super().prepared(program)
        checkpoint_while(program, symbol, self.while_, self.checkpoints)
        return symbol, active


class Linearize(ReversePass):
    """Add ``@f.fwd``: (*primals) -> (*results, *residuals), and ``@f.lin``: (*residuals, *tangents)
    -> (*tangents of results).

    Only arguments that have tangents take one, and only results that depend on one give one:
    ``jaxpr.active`` on ``@f.lin`` says which.

    Options:
      custom-vjp-forward: ``transpose`` lets ``@f.lin`` push tangents through functions with a
        custom VJP rule, by the transpose of their backward rule.
    """

    name: ClassVar[str] = "jaxpr-linearize"
    custom_vjp_forward: Literal["error", "transpose"] = "error"

    def run(self, program: Module) -> None:
        from jaxmlir.transforms.expand_custom_lin import expand_custom_lin

        symbol, active = self.prepared(program)
        rules = Rules(program)
        linearized = linearize(rules, symbol, active)
        if self.custom_vjp_forward == "transpose":
            expand_custom_lin(rules, [linearized.second])


def linearize(
    rules: Rules,
    symbol: str,
    active: Sequence[bool],
    wanted: Sequence[bool] | None = None,
    required: Sequence[bool] | None = None,
    taken: Sequence[bool] | None = None,
) -> SplitFunction:
    """Writes ``@symbol.fwd`` and ``@symbol.lin``.

    Args:
      active: which arguments have tangents.
      wanted: the results whose tangents are asked for; by default all.
      required: the results that get a tangent even if it is zero; by default none.
      taken: the active arguments whose tangents ``@symbol.lin`` takes, which include all that the
        wanted tangents depend on; by default all active ones.

    Raises:
      TransformError: an op cannot be linearized; names the op and the user's line.
    """
    activity = activity_of(rules, symbol, tuple(active), "linearize")
    body, outs = activity.body, activity.body.returned
    active_out = [a and (wanted is None or wanted[i]) for i, a in enumerate(activity.results)]
    fwd, linear, saved, written_again = write_forward(rules, symbol, activity, active_out)
    arguments = [i for i, a in enumerate(taken or active) if a]
    types = [*(v.type for v in saved), *(tangent_type_of(body.types[i]) for i in arguments)]
    lin = NewFunction(rules, f"{symbol}.lin", types, body.function)
    handed = dict(zip(saved, lin.args, strict=False))
    tangents: list[ir.Value | None] = [None] * len(body.types)
    for i, given_tangent in zip(arguments, lin.args[len(saved) :], strict=True):
        tangents[i] = given_tangent

    def tangent(value: int) -> ir.Value:
        nonzero = tangents[value]
        return zeros(tangent_type_of(body.types[value])) if nonzero is None else nonzero

    with lin.body():
        handed.update((v, clone(v)) for v in written_again)
        for i, halves, residuals in linear:
            args = [handed[v] for v in residuals]
            args += [tangent(v) for v in chosen(body.operands[i], halves.uses)]
            out_tangents = halves.tangent.inline(args, body.ops[i].location)
            first, last = body.results[i]
            tangents[first:last] = filled(out_tangents, halves.tangent.pattern)
        active_out = [g or (required is not None and required[i]) for i, g in enumerate(active_out)]
        lin.finish([tangent(v) for v in chosen(outs, active_out)])
    set_attribute(lin.op, "jaxpr.num_res", len(saved))
    set_attribute(lin.op, "jaxpr.active", tuple(active_out))
    return SplitFunction(fwd, lin.name, len(saved), tuple(active_out))


@derived
def primals_of(rules: Rules, symbol: str, active: Mask) -> str:
    """``@symbol`` with the results as its derivative computes them: where a call with a custom rule
    has a tangent, the rule computes them in place of the called function."""
    if not function_holds_rules(rules, symbol):
        return symbol
    nothing = [False] * len(rules.functions.body(symbol).returned)
    linearized = linearize(rules, symbol, active, nothing)
    lin = rules.program.functions.pop(linearized.second)
    lin.operation.erase()
    return linearized.first


class LinearOp(NamedTuple):
    """An op whose primal results have been written, and whose derivative is wanted."""

    index: int
    halves: Linearization
    residuals: list[ir.Value]


def write_primals(
    rules: Rules, activity: Activity, wanted: Sequence[bool], args: Sequence[ir.Value]
) -> tuple[list[ir.Value], list[LinearOp]]:
    """Writes the primal values of a function on its arguments, at the current insertion point, and
    the residuals that its derivative needs for the wanted results.  Gives all values, by number,
    and the ops whose tangents are used.  A custom rule computes the results of its call wherever
    the call has a tangent, used or not: a further derivative differentiates what the rule computed.
    """
    body = activity.body
    masks, _ = backward(rules, activity, wanted)
    values: list[Any] = [*args, *[None] * (len(body.types) - body.arity)]
    linear = []
    for i, (op, operands) in enumerate(zip(body.ops, body.operands, strict=True)):
        inputs = [values[v] for v in operands]
        first, last = body.results[i]
        mask, step, signature = masks[i], activity.steps[i], body.signatures[i]
        if mask is None and (step is None or not holds_rules(rules, op)):
            values[first:last] = copy(op, signature.name, inputs)
            continue
        mask = mask or (False,) * (last - first)
        halves = step.halves or rules.linearize(op, signature, step.active, mask)
        outs = halves.primal.inline(inputs, op.location)
        values[first:last] = outs[: last - first]
        if True in mask:
            linear.append(LinearOp(i, halves, outs[last - first :]))
    return values, linear


def write_forward(
    rules: Rules, symbol: str, activity: Activity, wanted: Sequence[bool]
) -> tuple[str, list[LinearOp], list[ir.Value], list[ir.Value]]:
    """Writes ``@symbol.fwd``: ``(*primals) -> (*results, *residuals)``.  Gives its symbol, the ops
    whose tangents are used, the residuals, and the constants among theirs, which are written again.
    """
    body = activity.body
    fwd = NewFunction(rules, f"{symbol}.fwd", body.types[: body.arity], body.function)
    with fwd.body():
        values, linear = write_primals(rules, activity, wanted, fwd.args)
    saved, again = [], []
    for v in dict.fromkeys(itertools.chain(*(op.residuals for op in linear))):
        (again if is_constant(v) else saved).append(v)
    fwd.finish([*(values[v] for v in body.returned), *saved])
    set_attribute(fwd.op, "jaxpr.num_res", len(saved))
    return fwd.name, linear, saved, again

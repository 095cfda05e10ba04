"""``jaxpr-linearize``: split a function into its values and its derivative.

Linearization is forward-mode differentiation and partial evaluation at once: each op is replaced by
two templates, one computing its results and *residuals*, and one the tangents of its results from
the residuals and the tangents of its operands.  The first halves make ``@f.fwd``, the second halves
``@f.lin``, a linear function once the residuals are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxmlir.ir import ir, scope
from jaxmlir.passes._activity import Step, backward, forward
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import (
    NewFunction,
    clone,
    copy,
    is_constant,
    returned,
    set_attribute,
    zeros,
)
from jaxmlir.passes._rules import Linearization, Rules
from jaxmlir.passes.checkpoint_while import checkpoint_while
from jaxmlir.passes.discharge_refs import discharge_refs
from jaxmlir.passes.jvp import active_arguments, tangent_type

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class Linearize(Pass):
    """Add ``@f.fwd``: (*primals) -> (*results, *residuals), and ``@f.lin``: (*residuals, *tangents)
    -> (*tangents of results).

    Only arguments that have tangents take one, and only results that depend on one give one:
    ``jaxpr.active`` on ``@f.lin`` says which.

    Options:
      func: the function to linearize; by default the public one.
      argnums: the flat arguments to differentiate in; by default all that have tangents.
      while: ``checkpointed`` differentiates loops of unknown length, which are an error by default.
      checkpoints: how many states of such a loop are kept.
      custom-vjp-forward: ``transpose`` lets ``@f.lin`` push tangents through functions with a
        custom VJP rule, by the transpose of their backward rule.
    """

    name: ClassVar[str] = "jaxpr-linearize"
    func: str = ""
    argnums: tuple[int, ...] = ()
    while_: Literal["error", "checkpointed"] = "error"
    checkpoints: int | None = None
    custom_vjp_forward: Literal["error", "transpose"] = "error"

    def run(self, program: Program) -> None:
        from jaxmlir.passes.expand_custom_lin import expand_custom_lin

        discharge_refs(program)
        with scope():
            symbol = self.func or program.name
            checkpoint_while(program, symbol, self.while_, self.checkpoints)
            rules = Rules(program)
            found = linearize(rules, symbol, active_arguments(program, symbol, self.argnums))
            if self.custom_vjp_forward == "transpose":
                expand_custom_lin(rules, [found.lin])
        program.changed()


@dataclass(frozen=True)
class Linearized:
    """The two functions that :func:`linearize` writes."""

    fwd: str
    lin: str
    num_residuals: int
    active_out: tuple[bool, ...]


def linearize(
    rules: Rules,
    symbol: str,
    active: Sequence[bool],
    wanted: Sequence[bool] | None = None,
    required: Sequence[bool] | None = None,
) -> Linearized:
    """Writes ``@symbol.fwd`` and ``@symbol.lin``.

    Args:
      active: which arguments have tangents.
      wanted: the results whose tangents are asked for; by default all.
      required: the results that are to have one, be it zero; by default none.

    Raises:
      TransformError: an op cannot be linearized; names the op and the user's line.
    """
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    outs = returned(function)
    steps, live = forward(rules, function, active, "linearize")
    given = [v in live and (wanted is None or wanted[i]) for i, v in enumerate(outs)]
    backward(rules, steps, {v for v, g in zip(outs, given, strict=True) if g})

    fwd = NewFunction(rules, f"{symbol}.fwd", [v.type for v in arguments], function)
    primals = dict(zip(arguments, fwd.args, strict=True))
    linear: list[tuple[Step, Linearization, list[ir.Value]]] = []
    with fwd.body():
        for step in steps:
            args = [primals[v] for v in step.operands]
            if not step.wanted:
                primals.update(zip(step.results, copy(step.op, step.name, args), strict=True))
                continue
            halves = step.halves or rules.linearize(step.op, step.name, step.active, step.wanted)
            values = halves.primal.inline(args, step.op.location)
            primals.update(zip(step.results, values, strict=False))
            linear.append((step, halves, values[len(step.results) :]))
    kept, written_again = _residuals(v for _, _, residuals in linear for v in residuals)
    fwd.finish([*(primals[v] for v in outs), *kept])
    set_attribute(fwd.op, "jaxpr.num_res", len(kept))

    chosen = [v for v, a in zip(arguments, active, strict=True) if a]
    lin = NewFunction(
        rules, f"{symbol}.lin", [*(v.type for v in kept), *map(tangent_type, chosen)], function
    )
    values = dict(zip(kept, lin.args, strict=False))
    tangents = dict(zip(chosen, lin.args[len(kept) :], strict=True))
    with lin.body():
        values.update((v, clone(v)) for v in written_again)
        for step, halves, residuals in linear:
            args = [
                *(values[v] for v in residuals),
                *(tangents[v] for v, u in zip(step.operands, halves.uses, strict=True) if u),
            ]
            results = halves.tangent.inline(args, step.op.location)
            has = (v for v, a in zip(step.results, halves.tangent.pattern, strict=True) if a)
            tangents.update(zip(has, results, strict=True))
        given = [g or (required is not None and required[i]) for i, g in enumerate(given)]
        lin.finish(
            [
                tangents[v] if v in tangents else zeros(tangent_type(v))
                for v, g in zip(outs, given, strict=True)
                if g
            ]
        )
    set_attribute(lin.op, "jaxpr.num_res", len(kept))
    set_attribute(lin.op, "jaxpr.active", tuple(given))
    return Linearized(fwd.name, lin.name, len(kept), tuple(given))


def _residuals(values: Iterable[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The distinct residuals, and apart from them the constants: these are written down again."""
    kept, again = [], []
    for v in dict.fromkeys(values):
        (again if is_constant(v) else kept).append(v)
    return kept, again

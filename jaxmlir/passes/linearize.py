"""``jaxpr-linearize``: split a function into its values and its derivative.

Linearization is forward-mode differentiation and partial evaluation at once: each op is replaced by
two templates, one computing its results and *residuals*, and one the tangents of its results from
the residuals and the tangents of its operands.  The first halves make ``@f.fwd``, the second halves
``@f.lin``, a linear function once the residuals are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import NewFunction, copy, ops_of, returned, set_attribute
from jaxmlir.passes._rules import Rule, Rules
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
    """

    name: ClassVar[str] = "jaxpr-linearize"
    func: str = ""
    argnums: tuple[int, ...] = ()

    def run(self, program: Program) -> None:
        with scope():
            symbol = self.func or program.name
            linearize(Rules(program), symbol, active_arguments(program, symbol, self.argnums))
        program.changed()


@dataclass(frozen=True)
class Linearized:
    """The two functions that :func:`linearize` writes."""

    fwd: str
    lin: str
    num_residuals: int
    active_out: tuple[bool, ...]


@dataclass(frozen=True)
class _Step:
    """One op's part of the linear function."""

    location: ir.Location
    rule: Rule
    residuals: tuple[ir.Value, ...]
    tangents_in: tuple[ir.Value, ...]
    tangents_out: tuple[ir.Value, ...]


def linearize(
    rules: Rules, symbol: str, active: tuple[bool, ...], wanted: tuple[bool, ...] | None = None
) -> Linearized:
    """Writes ``@symbol.fwd`` and ``@symbol.lin``.

    Args:
      active: which arguments have tangents.
      wanted: the results whose tangents are asked for; by default all.

    Raises:
      TransformError: an op cannot be linearized; names the op and the user's line.
    """
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    fwd = NewFunction(rules, f"{symbol}.fwd", [v.type for v in arguments], function)
    primals = dict(zip(arguments, fwd.args, strict=True))
    chosen = [v for v, a in zip(arguments, active, strict=True) if a]
    live = set(chosen)
    steps: list[_Step] = []
    with fwd.body():
        for op, name, operands in ops_of(function):
            pattern = tuple([v in live for v in operands])
            args = [primals[v] for v in operands]
            results = list(op.results)
            if True not in pattern:
                primals.update(zip(results, copy(op, name, args), strict=True))
                continue
            halves = rules.linearize(op, name, pattern, (True,) * len(results))
            location = op.location
            with location:
                outs = halves.primal.inline(args)
            primals.update(zip(results, outs, strict=False))
            tangents_out = tuple(
                v for v, a in zip(results, halves.tangent.pattern, strict=True) if a
            )
            if tangents_out:
                live.update(tangents_out)
                residuals = tuple(outs[len(results) :])
                tangents_in = tuple(v for v in operands if v in live)
                steps.append(_Step(location, halves.tangent, residuals, tangents_in, tangents_out))
    outs = returned(function)
    active_out = tuple(v in live and (wanted is None or wanted[i]) for i, v in enumerate(outs))
    differentiated = [v for v, a in zip(outs, active_out, strict=True) if a]
    steps = _needed(steps, set(differentiated))
    residuals = list(dict.fromkeys(v for step in steps for v in step.residuals))
    fwd.finish([*(primals[v] for v in outs), *residuals])
    set_attribute(fwd.op, "jaxpr.num_res", len(residuals))

    types = [*(v.type for v in residuals), *(tangent_type(v) for v in chosen)]
    lin = NewFunction(rules, f"{symbol}.lin", types, function)
    values = dict(zip(residuals, lin.args, strict=False))
    tangents = dict(zip(chosen, lin.args[len(residuals) :], strict=True))
    with lin.body():
        for step in steps:
            args = [*(values[v] for v in step.residuals), *(tangents[v] for v in step.tangents_in)]
            with step.location:
                tangents.update(zip(step.tangents_out, step.rule.inline(args), strict=True))
    lin.finish([tangents[v] for v in differentiated])
    set_attribute(lin.op, "jaxpr.num_res", len(residuals))
    set_attribute(lin.op, "jaxpr.active", active_out)
    return Linearized(fwd.name, lin.name, len(residuals), active_out)


def _needed(steps: list[_Step], wanted: set[ir.Value]) -> list[_Step]:
    """The steps that results depend on: what they do not need leaves no residuals."""
    kept = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.tangents_out):
            wanted.update(step.tangents_in)
            kept.append(step)
    return kept[::-1]

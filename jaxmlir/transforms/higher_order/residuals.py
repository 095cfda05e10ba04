"""Residuals of called functions: those that the caller has need not be returned to it.

A residual that is an argument of the function, or one of its results, is a value of the caller
already.  Returned once more it would be a second buffer to keep until the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jaxmlir.dialect.builder import returned, set_attribute, set_results
from jaxmlir.dialect.ir import func, ir
from jaxmlir.support.masks import Mask
from jaxmlir.transforms.linearize import linearize
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.partial_eval import partial_eval
from jaxmlir.transforms.transpose import transpose_of

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


class Source(NamedTuple):
    """Where a caller finds a residual."""

    kind: Literal["operand", "result", "extra"]
    index: int
    """Among the operands, the results, or the results that were added for residuals."""


class Forwarded(NamedTuple):
    """A function in two halves, of which the second needs residuals of the first."""

    first: str
    """``(*operands) -> (*results, *extra results)``."""
    second: str
    """``(*residuals, *operands) -> (*results)``."""
    residuals: tuple[Source, ...]
    pattern: Mask
    """Which results the second half gives: tangents, or unknown ones."""

    def values(
        self, operands: Sequence[ir.Value], outs: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The results and the residuals, of a call of the first half that gave ``outs``."""
        extra = sum(source.kind == "extra" for source in self.residuals)
        results = list(outs[: len(outs) - extra])
        known = {"operand": operands, "result": results, "extra": outs[len(results) :]}
        return results, [known[kind][i] for kind, i in self.residuals]

    def transpose(self, rules: Rules, num_operands: int, nonzero: Mask) -> tuple[str, Mask]:
        """The transpose of the second half in its operands, as :func:`transpose_of` gives it."""
        linear = (False,) * len(self.residuals) + (True,) * num_operands
        return transpose_of(rules, self.second, linear, nonzero)


def linearize_call(rules: Rules, symbol: str, active: Mask, *how: Any) -> Forwarded:
    """Linearizes a function for its callers."""
    found = linearize(rules, symbol, active, *how)
    sources = _forward(rules.program.function(found.fwd), found.num_residuals)
    return Forwarded(found.fwd, found.lin, sources, found.active_out)


def partial_eval_call(rules: Rules, symbol: str, unknown: Mask, *how: Any) -> Forwarded:
    """Splits a function for its callers."""
    found = partial_eval(rules, symbol, unknown, *how)
    sources = _forward(rules.program.function(found.known), found.num_residuals)
    return Forwarded(found.known, found.unknown, sources, found.unknown_out)


linearize_call_of = derived(linearize_call)
"""What :func:`linearize_call` gives for a function and a pattern, written once."""
partial_eval_call_of = derived(partial_eval_call)
"""What :func:`partial_eval_call` gives for a function and a pattern, written once."""


def linearize_rule_of(rules: Rules, symbol: str, unknown: Mask, wanted: Mask) -> Forwarded:
    """A JVP rule as ``@symbol.fwd`` and ``@symbol.lin``: split by which tangents there are."""
    return partial_eval_call_of(rules, symbol, unknown, wanted, None, ("fwd", "lin"))


def _forward(function: func.FuncOp, num_residuals: int) -> tuple[Source, ...]:
    """Takes the residuals that a caller has from a function's results."""
    values = returned(function)
    results = values[: len(values) - num_residuals]
    own: dict[ir.Value, Source] = {}
    extra = []
    for i, v in enumerate(results):
        own.setdefault(v, Source("result", i))
    own.update((v, Source("operand", i)) for i, v in enumerate(function.arguments))
    sources = []
    for v in values[len(results) :]:
        if v not in own:
            own[v] = Source("extra", len(extra))
            extra.append(v)
        sources.append(own[v])
    set_results(function, [*results, *extra])
    set_attribute(function, "jaxpr.num_res", len(extra))
    return tuple(sources)

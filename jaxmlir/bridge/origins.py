"""Which variables of jaxprs stand for which of the jaxprs around these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxmlir._compat import core, open_jaxpr

PASSING = frozenset(
    {
        "jaxpr.closed_call",
        "jaxpr.cond",
        "jaxpr.custom_jvp_call_jaxpr",
        "jaxpr.custom_vjp_call_jaxpr",
        "jaxpr.jit",
        "jaxpr.remat2",
        "jaxpr.scan",
        "jaxpr.while",
    }
)
"""The ops of which :func:`note_origins` takes note."""


def note_origins(
    origins: dict[Any, Any], name: str, params: Mapping[str, Any], operands: Sequence[Any]
) -> None:
    """Takes note of the jaxprs that an op passes operands to: which variables of theirs stand for
    which of the jaxpr around.

    A jaxpr may be called from several places: ``None`` where its variable does not stand for one.
    """
    for variable, operand in _passed(name, params, operands):
        if origins.setdefault(variable, operand) is not operand:
            origins[variable] = None


def chain_of(variable: Any, origins: Mapping[Any, Any]) -> Iterator[Any]:
    """A variable, and those that it stands for in the jaxprs around."""
    # An operand may be a number that stands in the jaxpr.
    while isinstance(variable, core.Var):
        yield variable
        variable = origins.get(variable)


def _passed(
    name: str, params: Mapping[str, Any], operands: Sequence[Any]
) -> Iterator[tuple[Any, Any]]:
    """The jaxprs of an op that get operands as they are: pairs of their variables and these."""
    match name:
        case "jaxpr.jit" | "jaxpr.closed_call" | "jaxpr.remat2":
            yield from _pairs(params["jaxpr" if "jaxpr" in params else "call_jaxpr"], operands)
        case "jaxpr.custom_jvp_call_jaxpr" | "jaxpr.custom_vjp_call_jaxpr":
            yield from _pairs(params["call_jaxpr"], operands)
        case "jaxpr.scan":
            yield from _pairs(params["jaxpr"], operands[: params["num_consts"]])
        case "jaxpr.while":
            first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            yield from _pairs(params["cond_jaxpr"], operands[:first])
            yield from _pairs(params["body_jaxpr"], operands[first:last])
        case "jaxpr.cond":
            for branch in params["branches"]:
                yield from _pairs(branch, operands[1:])


def _pairs(jaxpr: Any, operands: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    jaxpr, _ = open_jaxpr(jaxpr)
    for variable, operand in zip(jaxpr.invars, operands, strict=False):
        if not isinstance(operand, core.Literal):
            yield variable, operand

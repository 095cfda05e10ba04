"""Calls are transformed by transforming the function they call, once per pattern.

A ``jaxpr.jit`` op says nothing but which function to run, so its rules are the passes themselves.
One with placement, donation or effects is left to JAX's rule, which knows what becomes of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir.ir import ir

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules

_PLAIN = frozenset({"jaxpr", "name", "jaxpr.ctx"})


def callee(op: Any, name: str) -> str | None:
    """The symbol that an op calls, if calling it is all that the op does."""
    if name != "jaxpr.jit":
        return None
    attributes = op.attributes
    if any(key not in _PLAIN for key, _ in attributes.items()):
        return None
    return attributes["jaxpr"].value


@dataclass(frozen=True)
class Call:
    """A call of a transformed function; what a template is for other ops."""

    rules: Rules
    symbol: str
    like: Any
    """The op whose other attributes the call has."""
    pattern: tuple[Any, ...]

    def inline(self, args: Sequence[ir.Value]) -> list[ir.Value]:
        """Writes the call at the current insertion point; its results."""
        attributes = dict(self.like.attributes.items())
        attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(self.symbol)
        types = list(self.rules.program.function(self.symbol).type.results)
        return list(ir.Operation.create("jaxpr.jit", types, list(args), attributes).results)


def jvp(rules: Rules, symbol: str, active: tuple[bool, ...]) -> tuple[str, tuple[bool, ...]]:
    from jaxmlir.passes.jvp import jvp

    return jvp(rules, symbol, active)


def linearize(rules: Rules, symbol: str, active: tuple[bool, ...]) -> Any:
    from jaxmlir.passes.linearize import linearize

    return linearize(rules, symbol, active)


def transpose(
    rules: Rules, symbol: str, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[str, tuple[bool, ...]]:
    from jaxmlir.passes.transpose import transpose_nonzero

    name = f"{symbol.removesuffix('.lin')}.bwd"
    return transpose_nonzero(rules, symbol, linear, name, nonzero)


def batch(
    rules: Rules, symbol: str, dims: tuple[int | None, ...], axis: Any
) -> tuple[str, tuple[int | None, ...]]:
    from jaxmlir.passes.vmap import vmap

    return vmap(rules, symbol, dims, axis)

"""Interpreters of JAX that look at each equation, and what they make of a program's.

``jax.experimental.jet`` computes Taylor series, and ``checkify`` finds out what goes wrong, by a
rule for each primitive.  To them a call of a program is a ``jit`` of its equations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir._compat import core, resolve

if TYPE_CHECKING:
    from jaxmlir.callee import Callee


def register(primitive: Any) -> None:
    """Gives the primitive of calls its rules in the interpreters that are imported."""
    for module, (registry, make) in _PENDING.copy().items():
        if module in sys.modules:
            rules = resolve(module, registry)
            if rules is not None:
                rules[primitive] = make(rules)
            del _PENDING[module]


def _series(rules: Any) -> Callable[..., Any]:
    def rule(primals: Any, series: Any, *, callee: Callee, placement: Any) -> Any:
        eqn = _as_jit(callee, primals)
        return rules[eqn.primitive](primals, series, **eqn.params)

    return rule


def _checks(rules: Any) -> Callable[..., Any]:
    def rule(*args: Any, callee: Callee, placement: Any) -> Any:
        # Before the operands: what went wrong so far, and what JAX's versions add to that.
        eqn = _as_jit(callee, args[len(args) - len(callee.signature.operands) :])
        return rules[eqn.primitive](*args, **eqn.params)

    return rule


# By module, what its rules are called there, and what makes one of them.
_PENDING = {
    "jax.experimental.jet": ("jet_rules", _series),
    "jax._src.checkify": ("error_checks", _checks),
}


def _as_jit(callee: Callee, args: Any) -> Any:
    """The equation of a jit of the function."""

    def function(*xs: Any) -> list[Any]:
        return core.jaxpr_as_fun(callee.closed_jaxpr)(*xs)

    function.__name__ = callee.symbol
    avals = [core.typeof(x) for x in args]
    (eqn,) = jax.make_jaxpr(jax.jit(function))(*avals).eqns
    return eqn

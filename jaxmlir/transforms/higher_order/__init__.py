"""Rules for the ops that refer to functions, one file each.

JAX's rules work on jaxprs, so for an op like ``scan`` the body would have to be exported to a
jaxpr, and the result imported back.  The rules here transform the body by the pass itself, once per
pattern, and write the op around it.  An op without a rule here, or whose rule declines it (because
of an attribute or effect it does not know), is left to JAX's.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

# By op name: the module, the class, and the arguments of its constructor.
_RULES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "jaxpr.call": ("call", "Call", ("call_jaxpr",)),
    "jaxpr.closed_call": ("call", "Call", ("call_jaxpr",)),
    "jaxpr.cond": ("cond", "Cond", ()),
    "jaxpr.custom_jvp_call_jaxpr": ("custom_jvp", "CustomJvp", ()),
    "jaxpr.custom_lin": ("custom_vjp", "CustomLin", ()),
    "jaxpr.custom_linear_solve": ("custom_linear_solve", "CustomLinearSolve", ()),
    "jaxpr.custom_vjp_call_jaxpr": ("custom_vjp", "CustomVjp", ()),
    "jaxpr.eval_jaxpr": ("call", "Call", ("call_jaxpr",)),
    "jaxpr.jit": (
        "call",
        "Call",
        ("jaxpr", "name", "inline", "keep_unused", "compiler_options_kvs"),
    ),
    "jaxpr.linear_call": ("linear_call", "LinearCall", ()),
    "jaxpr.remat2": ("remat", "Remat", ()),
    "jaxpr.remat_opt": ("call", "RematOpt", ()),
    "jaxpr.scan": ("scan", "Scan", ()),
    "jaxpr.while": ("while_loop", "While", ()),
}


def has_rule(name: str) -> bool:
    """Whether ops called ``name`` have a rule here."""
    return name in _RULES


@functools.cache
def rule_of(name: str) -> Any | None:
    """The rule of ops called ``name``, a :class:`.rule.HigherOrderRule`; ``None`` if there is none.
    A rule is loaded when its op is first met.  Rules and passes import each other, and most
    programs have ops of a few kinds only."""
    if name not in _RULES:
        return None
    module, cls, args = _RULES[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), cls)(*args)

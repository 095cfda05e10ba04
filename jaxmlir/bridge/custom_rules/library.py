"""JVP rules of JAX's own functions, of ``jax.nn.relu`` say, traced once in a process.

A rule is traced anew for each equation, here as in JAX: one of a user's may read what has changed
meanwhile.  What is made of JAX's functions alone reads nothing but JAX's configuration.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from typing import Any

from jaxmlir._compat import core, flat_jvp, pe
from jaxmlir.bridge.custom_rules.closures import made_of, rules_may_read
from jaxmlir.bridge.custom_rules.identity import innermost
from jaxmlir.caching.configuration_key import setting
from jaxmlir.support.masks import Mask

LIMIT = 512
"""How many traces are kept: the last ones."""

Traced = tuple[Any, Sequence[Any], Sequence[bool]]
"""A jaxpr, its constants and which tangents of results are zero."""

traced_rules: dict[Any, Traced] = {}
_are_of_jax: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def trace_jvp(eqn: Any, in_avals: Sequence[Any], in_zeros: Mask) -> Traced:
    """Traces the rule of a ``custom_jvp_call`` equation, unless it is JAX's and was traced.

    What no result depends on is left out, within loops too: a rule that differentiates a function
    has primals and tangents of it in one loop, and may return some of them.

    Args:
      in_zeros: which tangents are zero.
    """
    thunk = eqn.params["jvp_jaxpr_fun"]
    key = _key(thunk)
    if key is None:
        return _live(thunk.call_wrapped(*in_zeros))
    told = eqn.params["symbolic_zeros"]
    key = (*key, tuple(in_avals), in_zeros, told, eqn.ctx, setting())
    found = traced_rules.get(key)
    if found is None:
        found = _live(thunk.call_wrapped(*in_zeros))
        _, consts, _ = found
        if not consts:
            traced_rules[key] = found
            if len(traced_rules) > LIMIT:
                traced_rules.pop(next(iter(traced_rules)), None)
    return found


def _live(traced: Traced) -> Traced:
    jaxpr, consts, out_zeros = traced
    live, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    # It takes longer to see what rules in it may read.
    if _size(live, {}) < _size(jaxpr, {}) and not rules_may_read(jaxpr):
        jaxpr = live
    return jaxpr, consts, out_zeros


def _size(jaxpr: Any, known: dict[Any, int]) -> int:
    """How many operands and results a jaxpr's equations have, those of inner jaxprs among them.

    Args:
      known: the sizes of jaxprs.
    """
    if jaxpr not in known:
        known[jaxpr] = sum(
            len(eqn.invars)
            + len(eqn.outvars)
            + sum(_size(inner, known) for inner in core.jaxprs_in_params(eqn.params))
            for eqn in jaxpr.eqns
        )
    return known[jaxpr]


def _key(thunk: Any) -> tuple[Any, ...] | None:
    """What tells the rule of a thunk and how it is called; ``None`` if it is not JAX's."""
    found = flat_jvp(innermost(thunk))
    if found is None or not isinstance(found[0], types.FunctionType):
        return None
    rule = found[0]
    if rule not in _are_of_jax:
        _are_of_jax[rule] = all(map(_is_of_jax, made_of([rule])))
    return found if _are_of_jax[rule] else None


def _is_of_jax(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return _package(value) == "jax"
    return _package(type(value)) in ("jax", "jaxlib", "builtins")


def _package(owner: Any) -> str:
    return (owner.__module__ or "").partition(".")[0]

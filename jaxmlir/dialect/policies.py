"""Checkpoint policies of JAX, by the names they have in JAX's namespace.

A policy is a Python function, but those of ``jax.checkpoint_policies`` are few: one of them, or
what a function of them returns for some names.  These are written as such; reading calls nothing
else.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import jax

from jaxmlir._compat import POLICY_MAKERS
from jaxmlir.errors import ExportError


def describe(policy: Any) -> tuple[str, dict[str, Any]] | None:
    """The name of a policy and the arguments that make it; ``None`` of a user's own policy.

    Arguments that are policies are not described.
    """
    namespace = vars(jax.checkpoint_policies)
    for name, known in namespace.items():
        if policy is known or (dataclasses.is_dataclass(policy) and policy == known):
            return name, {}
    if dataclasses.is_dataclass(policy) and type(policy).__name__ in POLICY_MAKERS:
        fields = {name: _sorted(value) for name, value in vars(policy).items()}
        if len(fields) == 1:
            fields = {"names": fields.popitem()[1]}
        return POLICY_MAKERS[type(policy).__name__], fields
    maker, _, rest = getattr(policy, "__qualname__", "").partition(".<locals>.")
    made_by_jax = getattr(policy, "__module__", "").startswith("jax.") and maker in namespace
    if not (made_by_jax and rest in ("policy", "<lambda>")):
        return None
    free = inspect.getclosurevars(policy).nonlocals
    parameters = inspect.signature(namespace[maker]).parameters.values()
    arguments = {p.name: _sorted(free[p.name]) for p in parameters if p.name in free}
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            # Names that the policy does not heed, it does not close over.
            arguments["names"] = arguments.pop(p.name, ())
    return maker, arguments


def _sorted(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, (set, frozenset)) else value


def make(name: str, arguments: dict[str, Any]) -> Any:
    """The policy that :func:`describe` described so.

    Raises:
      ExportError: the installed JAX has no policy of that name.
    """
    found = vars(jax.checkpoint_policies).get(name)
    if found is None:
        raise ExportError(f"this JAX has no checkpoint policy {name!r}")
    if not arguments:
        return found
    arguments = dict(arguments)
    return found(*arguments.pop("names", ()), **arguments)

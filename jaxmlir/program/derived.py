"""Programs that are derived from a program, each once.

``program.grad()(x)`` in a loop differentiates and compiles the first time, as ``jax.grad`` of a
``jax.jit`` function does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax

from jaxmlir.caching.configuration_key import setting
from jaxmlir.errors import TransformError, deep_calls_as
from jaxmlir.support.collector import collector_paused

Method = TypeVar("Method", bound=Callable[..., Any])


class _Derivable(Protocol):
    """A program, as far as what is derived from it depends on it.

    Attributes:
      custom_calls: what it may reach beyond XLA.
      state: another object after each change.
      derived: what was derived from it, by the method and its arguments.
    """

    custom_calls: frozenset[str] | None
    state: object
    derived: dict[Any, _Derived]


class _Derived(NamedTuple):
    """What a method gave, and the state that each program in it was in."""

    result: Any
    states: list[tuple[_Derivable, object]]

    def is_as_given(self) -> bool:
        return all(program.state is state for program, state in self.states)


def derived_once(method: Method) -> Method:
    """A method of a program that gives the same for the same arguments, until the program is
    changed, or what it gave is.

    Nothing is kept of calls with an argument that is to be called itself (``remarks``) or that
    cannot be hashed.
    """
    method = deep_calls_as(TransformError)(method)
    _, *parameters = inspect.signature(method).parameters.values()
    defaults = {p.name: p.default for p in parameters}
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    # In one go: what comes between two pauses would set off a collection of what the first made.
    @collector_paused
    @functools.wraps(method)
    def derived(program: _Derivable, *args: Any, **kwargs: Any) -> Any:
        by_position = dict(zip(positional, args, strict=False))
        bound = defaults | by_position | kwargs
        fits = len(args) == len(by_position) and len(bound) == len(defaults)
        if not fits or not by_position.keys().isdisjoint(kwargs):
            return method(program, *args, **kwargs)
        leaves, tree = jax.tree.flatten(tuple(bound.values()))
        # 0, False and 0.0 are equal and mean different things.
        given = [(type(leaf), leaf) for leaf in leaves]
        # What JAX's rules write depends on its configuration.
        key = (method.__name__, tree, *given, program.custom_calls, setting())
        try:
            known = program.derived.get(key)
        except TypeError:
            return method(program, *args, **kwargs)
        if known is not None and known.is_as_given():
            return known.result
        result = method(program, *args, **kwargs)
        programs = result if isinstance(result, tuple) else (result,)
        if all(isinstance(p, type(program)) for p in programs) and not any(map(callable, leaves)):
            program.derived[key] = _Derived(result, [(p, p.state) for p in programs])
        return result

    return derived  # type: ignore[return-value]

"""Programs that are derived from a program, each once.

``program.grad()(x)`` in a loop differentiates and compiles the first time, as ``jax.grad`` of a
``jax.jit`` function does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax

from jaxmlir.caching.configuration_key import setting
from jaxmlir.errors import TransformError, deep_calls_as
from jaxmlir.support.collector import collector_paused

if TYPE_CHECKING:
    from jaxmlir.program.program import Program

Method = TypeVar("Method", bound=Callable[..., Any])


class _Derived(NamedTuple):
    """What a method gave, and the state that each program in it was in."""

    result: Any
    states: list[tuple[Program, object]]

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
    def derived(program: Program, *args: Any, **kwargs: Any) -> Any:
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
        _keep_target(program, programs, bound, derived)
        if all(isinstance(p, type(program)) for p in programs) and not any(map(callable, leaves)):
            program.derived[key] = _Derived(result, [(p, p.state) for p in programs])
        return result

    return derived  # type: ignore[return-value]


def _keep_target(
    program: Program,
    programs: Sequence[Any],
    bound: Mapping[str, Any],
    method: Callable[..., Program],
) -> None:
    """Has what was made of a program be for the same target, or made again for others as it is."""
    if bound.get("target") is not None:
        return
    if program.recipe is None:
        for result in programs:
            if isinstance(result, type(program)) and result._target is None:
                result._target = program._target
    elif len(programs) == 1 and isinstance(programs[0], type(program)):
        (result,) = programs
        if result.recipe is None:
            again = bound | ({"remarks": None} if "remarks" in bound else {})
            result.recipe = program.recipe.then(lambda p, target, stored: method(p, **again))

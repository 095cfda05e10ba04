"""Programs that are derived from a program, each once.

``program.grad()(x)`` in a loop differentiates and compiles the first time, as ``jax.grad`` of a
``jax.jit`` function does.

What is derived while custom rules wait to be traced is not what is derived when they are there:
passes change and merge rules, too.  So whoever looks at it gets it derived again, from the program
with its rules, and reads the same whatever was read before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import jax

from jaxmlir._compat import ConfigSnapshot
from jaxmlir.caching.configuration_key import setting
from jaxmlir.errors import JaxmlirError, TransformError, deep_calls_as
from jaxmlir.runtime.differentiation import as_given
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.options import check_switch

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


class _WithRules:
    """What a method gives of a program whose custom rules are traced.

    Args:
      options: the method's, by name.
    """

    def __init__(self, method: Callable[..., Any], program: Any, options: dict[str, Any]):
        # Not the program itself, which has the function that calls it.
        self._method, self._of, self._state = method, program.core, program.state
        # What was done has been said.
        self._options = options | ({"remarks": None} if "remarks" in options else {})
        self._config = ConfigSnapshot()

    @functools.cached_property
    def programs(self) -> tuple[Any, ...]:
        """The derived programs; none where the program has been changed since, or cannot be derived
        from with its rules: that is no error before somebody asks for them."""
        if self._of.state is not self._state:
            return ()
        self._of.rule_tracing.looked_at()
        try:
            with self._config.restored():
                return _programs(self._method(self._of, **self._options))
        except JaxmlirError:
            return ()

    def program(self, i: int) -> Any | None:
        """One of them."""
        return self.programs[i] if self.programs else None


def _programs(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def derived_once(method: Method) -> Method:
    """A method of a program that gives the same for the same arguments, until the program is
    changed, or what it gave is.

    Nothing is kept of calls with an argument that is to be called itself (``remarks``) or that
    cannot be hashed; what they give is the same.
    """
    method = deep_calls_as(TransformError)(method)
    _, *parameters = inspect.signature(method).parameters.values()
    defaults = {p.name: p.default for p in parameters}
    switches = [p.name for p in parameters if isinstance(p.default, bool)]
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    # In one go: what comes between two pauses would set off a collection of what the first made.
    @collector_paused
    @as_given()
    @functools.wraps(method)
    def derived(program: _Derivable, *args: Any, **kwargs: Any) -> Any:
        by_position = dict(zip(positional, args, strict=False))
        bound = defaults | by_position | kwargs
        fits = len(args) == len(by_position) and len(bound) == len(defaults)
        if not fits or not by_position.keys().isdisjoint(kwargs):
            return method(program, *args, **kwargs)
        for name in switches:
            check_switch(name, bound[name])
        leaves, tree = jax.tree.flatten(tuple(bound.values()))
        # 0, False and 0.0 are equal and mean different things.
        given = [(type(leaf), leaf) for leaf in leaves]
        # What JAX's rules write depends on its configuration.
        key = (method.__name__, tree, *given, program.custom_calls, setting())
        try:
            known = program.derived.get(key)
        except TypeError:
            key = known = None
        if known is not None and known.is_as_given():
            return known.result
        known_rules = program.rule_tracing.is_read
        try:
            result = method(program, **bound)
        except TransformError:
            # A batch may be of too little for what its rules, traced since, turn out to need.
            if not program.rule_tracing.reads_as_another:
                raise
            program.rule_tracing.looked_at()
            result = method(program, **bound)
        programs = _programs(result)
        _keep_target(program, programs, bound, derived)
        if not all(isinstance(p, type(program)) for p in programs):
            return result
        if not (known_rules or program.rule_tracing.is_read):
            with_rules = _WithRules(method, program, bound)
            for i, p in enumerate(programs):
                p.rule_tracing.read_as(functools.partial(with_rules.program, i))
        if key is not None and not any(map(callable, leaves)):
            program.derived[key] = _Derived(result, [(p, p.state) for p in programs])
        return result

    return derived  # type: ignore[return-value]


def _keep_target(
    program: Any,
    programs: Sequence[Any],
    bound: Mapping[str, Any],
    method: Callable[..., Any],
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

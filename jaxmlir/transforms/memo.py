"""The transformed functions of a program, each written once per pattern.

The passes on functions and the rules of ops call each other.  A rule transforms the functions that
its op refers to through this memo, which depends on none of the transformations (``jvp_of`` is
``derived(jvp)``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import effect_attributes
from jaxmlir.dialect.custom_rule_ops import ATTRIBUTES
from jaxmlir.dialect.ir import body_of, func, ir, symbol_uses
from jaxmlir.dialect.module import Module

P = ParamSpec("P")
R = TypeVar("R")


class GivenEffects:
    """The effects of a program's functions that ops which refer to them have to list, by symbol.
    Effects on an operand, a reference, are not included: the ops in the function list these."""

    def __init__(self, listed: Callable[[str], set[ir.Attribute]]):
        self._listed = listed
        self._effects: dict[str, set[ir.Attribute]] = {}

    def of_call(self, symbol: str) -> ir.ArrayAttr | None:
        """The effects that a call of ``@symbol`` has to list."""
        effect_set = self._listed(symbol)
        if not effect_set:
            return None
        self._effects[symbol] = effect_set
        return _attribute(effect_set)

    def list_in(self, function: func.FuncOp) -> None:
        """Adds to each op of a finished function the effects of the functions that it refers to."""
        if not self._effects:
            return
        for op in body_of(function).operations:
            inherited: set[ir.Attribute] = set()
            for name, attribute in op.attributes.items():
                if name not in ATTRIBUTES:
                    inherited.update(*(self._effects.get(s, ()) for s in symbol_uses(attribute)))
            if inherited:
                op.attributes["jaxpr.effects"] = _attribute(inherited | _effects(op))
        if effect_set := listed(function):
            self._effects[function.name.value] = effect_set


def listed(function: func.FuncOp) -> set[ir.Attribute]:
    """The effects that the ops of a function list, except those on operands."""
    effect_set = set().union(*map(_effects, body_of(function).operations))
    return {effect for effect in effect_set if not effect_attributes.is_on_operand(effect)}


def _effects(op: Any) -> set[ir.Attribute]:
    attributes = op.attributes
    return set(attributes["jaxpr.effects"]) if "jaxpr.effects" in attributes else set()


def _attribute(effect_set: set[ir.Attribute]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get(sorted(effect_set, key=str))


class _Rules(Protocol):
    """The rules of the program, :class:`jaxmlir.transforms.templates.Rules`."""

    program: Module


class TransformedFunctions:
    """The transformed functions of one program, by symbol, transformation and pattern."""

    def __init__(self, rules: _Rules):
        self._rules = rules
        self._transformed: dict[Any, Any] = {}
        self.batched_rules: dict[Any, Any] = {}
        self.given_effects: GivenEffects = GivenEffects(
            functools.partial(self.once, _listed_effects)
        )

    def body(self, symbol: str) -> FunctionView:
        """``@symbol`` with its values numbered, read once: functions in use do not change."""
        return self.once(_body, symbol)

    def read(self, symbol: str) -> FunctionView:
        """``@symbol`` with its values numbered, for a function that may change later: it is read
        now, unless it was read before."""
        return self._transformed.get((_body, symbol, ())) or _body(self._rules, symbol)

    @contextmanager
    def having_read(self, symbol: str, body: FunctionView | None) -> Iterator[None]:
        """Has ``body``, if given, stand for ``@symbol`` in this context: it is not read again."""
        if body is None:
            yield
            return
        key = (_body, symbol, ())
        self._transformed[key] = body
        try:
            yield
        finally:
            del self._transformed[key]

    def mark(self) -> list[int]:
        """A point to return to, for :meth:`undo`."""
        return [len(self._transformed), len(self.batched_rules)]

    def undo(self, mark: Sequence[int]) -> None:
        """Forgets what was made since :meth:`mark`."""
        memos = self._transformed, self.batched_rules
        for memo, count in zip(memos, mark, strict=True):
            while len(memo) > count:
                memo.popitem()

    def once(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """``transform(rules, symbol, *pattern)``, or what it returned before."""
        key = (transform, symbol, pattern)
        if key not in self._transformed:
            # The functions it writes are not at the location of the op that asks for them first.
            with ir.Location.unknown():
                self._transformed[key] = transform(self._rules, symbol, *pattern)
        return self._transformed[key]


def derived(
    transform: Callable[Concatenate[Any, str, P], R],
) -> Callable[Concatenate[Any, str, P], R]:
    """Has a transformation of functions make each of its results once
    (:meth:`TransformedFunctions.once`).  Patterns are positional and hashable."""

    @functools.wraps(transform)
    def once(rules: Any, symbol: str, *pattern: Any) -> R:
        return rules.functions.once(transform, symbol, *pattern)

    return once


def _body(rules: _Rules, symbol: str) -> FunctionView:
    return FunctionView(rules.program.function(symbol))


def _listed_effects(rules: _Rules, symbol: str) -> set[ir.Attribute]:
    return listed(rules.program.function(symbol))

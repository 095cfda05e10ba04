"""Effects that a transformation gives to functions which had none.

A forward rule may print what the function that it belongs to does not.  Then the call of the rule
has that effect, and so has each op whose functions have such a call: without it, the op could be
dropped or reordered, and an ordered effect could not be lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxmlir._compat import effects
from jaxmlir.dialect import codec
from jaxmlir.dialect.custom_rule_ops import ATTRIBUTES
from jaxmlir.dialect.ir import body_of, func, ir, symbol_uses


class GivenEffects:
    """The effects of the functions of one program that were given some, by symbol.

    Those on an operand, a reference, are not among them: the ops in the function tell of these.

    Args:
      listed: gives the effects that the ops of ``@symbol`` list (:func:`listed`).
    """

    def __init__(self, listed: Callable[[str], set[ir.Attribute]]):
        self._listed = listed
        self._found: dict[str, set[ir.Attribute]] = {}

    def of_call(self, symbol: str) -> ir.ArrayAttr | None:
        """The effects that a call of ``@symbol`` is to list."""
        found = self._listed(symbol)
        if not found:
            return None
        self._found[symbol] = found
        return _attribute(found)

    def list_in(self, function: func.FuncOp) -> None:
        """Has each op of a finished function list the effects that its functions were given."""
        if not self._found:
            return
        for op in body_of(function).operations:
            given: set[ir.Attribute] = set()
            for name, attribute in op.attributes.items():
                if name not in ATTRIBUTES:
                    given.update(*(self._found.get(s, ()) for s in symbol_uses(attribute)))
            if given:
                op.attributes["jaxpr.effects"] = _attribute(given | _effects(op))
        if found := listed(function):
            self._found[function.name.value] = found


def listed(function: func.FuncOp) -> set[ir.Attribute]:
    """The effects that the ops of a function list, but for those on operands."""
    found = set().union(*map(_effects, body_of(function).operations))
    return {e for e in found if not isinstance(codec.decode(e), effects.JaxprInputEffect)}


def _effects(op: Any) -> set[ir.Attribute]:
    attributes = op.attributes
    return set(attributes["jaxpr.effects"]) if "jaxpr.effects" in attributes else set()


def _attribute(found: set[ir.Attribute]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get(sorted(found, key=str))

"""What an inverse rule is, and the registry of them.

A rule says how an op's operands follow from its results.  The solver offers it a :class:`Site`, the
op with what is known of its values, whenever something new is known, and the rule tells what
follows.  Most ops need a formula only::

    unary("exp", lax.log, log_slope=lambda x, y: x)

Rules stand in small files by family, under the names of the ops; an op's record says in words what
the rule does, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxmlir.transforms.inverses.solver import Rule

JACOBIAN = "the Jacobian"
"""The log-determinant is that of the matrix that the op's JVP rule gives, for all elements."""

UNDEFINED = "undefined"
"""There is no log-determinant: the results are not independent of each other."""


@dataclass(frozen=True)
class Formula:
    """The operands that are unknown, from the results and the other operands."""

    solve: Callable[..., Any]
    """``(*results, *known operands, **attributes) -> operand``, or a tuple where several are
    unknown."""
    log_det: Callable[..., Any] | str | None = JACOBIAN
    """``(operand, *results, *known operands, **attributes)`` -> log|d result / d operand|: of an
    elementwise op for each element, of others one number; ``None`` is zero."""


RULES: dict[str, Rule] = {}
"""The rules by op name."""


def rule(name: str) -> Callable[[type[Rule]], type[Rule]]:
    """Makes an instance of the decorated class the rule of an op."""

    def register(cls: type[Rule]) -> type[Rule]:
        RULES[name] = cls()
        return cls

    return register


def rule_of(op_name: str) -> Rule | None:
    """The rule of an op ``jaxpr.<name>``."""
    return RULES.get(op_name.removeprefix("jaxpr."))

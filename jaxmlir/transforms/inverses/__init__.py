"""Inverse rules: how the operands of ops follow from their results.

The rules stand in files by family, :mod:`_rule` says what one is, :mod:`_solver` applies them until
a function is solved for its arguments, and :mod:`_invert` writes the function that does so.
"""

from __future__ import annotations

from jaxmlir.transforms.inverses import (
    branches,
    calls,
    elementwise,
    linear,
    movement,
    scans,
    structured,
)
from jaxmlir.transforms.inverses.rule import RULES, NotInvertible, Rule

__all__ = ["RULES", "NotInvertible", "Rule", "rule_of"]

FAMILIES = (elementwise, movement, linear, structured, calls, scans, branches)


def rule_of(op_name: str) -> Rule | None:
    """The rule of an op ``jaxpr.<name>``."""
    return RULES.get(op_name.removeprefix("jaxpr."))

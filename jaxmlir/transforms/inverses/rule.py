"""What an inverse rule is, and the registry of them.

A rule says how an op's operands follow from its results.  The solver offers it a :class:`Site`, the
op with what is known of its values, whenever something new is known, and the rule tells what
follows.  Most ops need a formula only::

    unary("exp", lax.log, log_slope=lambda x, y: x)

Rules stand in small files by family, under the names of the ops; an op's record says in words what
the rule does, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jaxmlir.errors import DiagnosticError
    from jaxmlir.transforms.inverses.solver import Site


class NotInvertible(Exception):
    """Raised by a rule or a formula; the message is the reason, without the op's name."""

    def __init__(self, reason: str, because: DiagnosticError | None = None):
        """``because`` is about an op inside a function that the op refers to."""
        super().__init__(reason)
        self.because = because


class Rule(Protocol):
    """How one op is inverted."""

    late: bool
    """Whether to ask it only when all other ops have told what they can: it is expensive."""

    def learn(self, site: Site) -> None:
        """Tells ``site`` what follows about its values from what is known of them.

        Raises:
          NotInvertible: nothing ever will.
        """

    def forward(self, site: Site) -> None:
        """Tells what follows about the results from some of the operands, or some elements."""


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


@dataclass(frozen=True)
class Formulas:
    """The rule of an op whose results and known operands give the rest by a formula."""

    formulas: Mapping[tuple[int, ...], Formula]
    """By the operands that are unknown.  Several stand for one value that is all of them where
    ``same`` has them, else for values of their own."""
    same: Mapping[tuple[int, ...], Formula] = field(default_factory=dict)
    attributes: tuple[str, ...] | None = ()
    """The attributes that the formulas take; ``None``: all of the primitive's parameters."""
    elementwise: bool = False
    check: Callable[..., None] | None = None
    """``(unknown operands, *operand avals, **attributes)``; raises :class:`NotInvertible` for those
    that have no inverse."""
    lost: Callable[[Site, Any], Any] | None = None
    """``(site, operand)`` -> which elements of an operand the result says nothing about: a product
    with a constant zero."""
    late: bool = False

    def learn(self, site: Site) -> None:
        from jaxmlir.transforms.inverses import formulas as _formulas

        _formulas.learn(self, site)

    def forward(self, site: Site) -> None:
        if self.elementwise:
            from jaxmlir.transforms.inverses import formulas as _formulas

            _formulas.forward(site)


RULES: dict[str, Rule] = {}
"""The rules by op name."""


def rule(name: str) -> Callable[[type[Rule]], type[Rule]]:
    """Makes an instance of the decorated class the rule of an op."""

    def register(cls: type[Rule]) -> type[Rule]:
        RULES[name] = cls()
        return cls

    return register


def unary(
    name: str,
    solve: Callable[..., Any],
    log_slope: Callable[..., Any] | str | None = JACOBIAN,
    *,
    attributes: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
) -> None:
    """The rule of an elementwise op of one operand; ``log_slope(x, y)`` is log|dy/dx|."""
    formula = {(0,): Formula(solve, log_slope)}
    RULES[name] = Formulas(formula, attributes=attributes, elementwise=True, check=check)


def binary(
    name: str,
    first: Formula | None,
    second: Formula | None,
    same: Formula | None = None,
    *,
    check: Callable[..., None] | None = None,
) -> None:
    """The rule of an elementwise op of two operands: how each follows from the other, and what
    follows where both are one value."""
    formulas = {(i,): f for i, f in enumerate((first, second)) if f is not None}
    RULES[name] = Formulas(formulas, {(0, 1): same} if same else {}, (), True, check)


def whole(
    name: str,
    formulas: Mapping[tuple[int, ...], Formula],
    *,
    attributes: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
) -> None:
    """The rule of an op that is inverted for all elements together."""
    RULES[name] = Formulas(formulas, attributes=attributes, check=check)

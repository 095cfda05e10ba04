"""What programs have to do with inverses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from jaxmlir.program import transforms
from jaxmlir.program.derived import derived_once


class Inverses:
    """What a program has to do with inverses: the methods of :class:`Program` on them."""

    __slots__ = ()

    @derived_once
    def inverse(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """The program ``(result, *known arguments) -> unknown arguments``.

        Args:
          argnums: the positional arguments to find; by default all that are not known.
          known: those that are given, which the inverse takes in their order; by default all that
            are not to be found.
          newton: whether to solve for an unknown that occurs more than once, as in
            ``x + tanh(x)``, by a loop of safeguarded Newton steps.  Elementwise expressions of one
            unknown are then taken to be strictly monotone in it; where the loop finds no root, the
            result is NaN.

        Returns:
          A program that gives the argument, or a tuple of them where they are several.

        Raises:
          ArgumentError: ``argnums`` and ``known`` overlap, or name no argument.
          TransformError: an argument does not follow from the result and the known arguments; names
            an op that stands in the way, and the reason.
        """
        return transforms.inverse(self, argnums, known, newton)

    @derived_once
    def inverse_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """Like :meth:`inverse`, with log|det| of its Jacobian: ``(arguments, log_det)``.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse`; also where results and unknown
            arguments do not hold as many numbers.
        """
        return transforms.inverse(self, argnums, known, newton, log_det=True)

    @derived_once
    def forward_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """The program with log|det| of its Jacobian in the unknown arguments:
        ``(*arguments) -> (result, log_det)``.

        It is what :meth:`inverse_and_log_det` finds with the other sign, computed from the values
        on the way to the result, without Jacobians of the whole.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse_and_log_det`.
        """
        return transforms.forward_and_log_det(self, argnums, known, newton)

"""What the loops share: the operands of one, and the fixpoints over its carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from jaxmlir.dialect.builder import instantiated
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import batched_type, tangent_type_of
from jaxmlir.support.masks import chosen, filled

T = TypeVar("T")


def interleaved(*groups: Sequence[Sequence[T]]) -> list[T]:
    """The first pieces of each, then the second ones ...: ``[[a], [b]]`` and ``[[c], [d]]`` give
    ``[a, c, b, d]``."""
    return [v for pieces in zip(*groups, strict=True) for piece in pieces for v in piece]


def tangents_of(
    types: Sequence[ir.Type],
    has: Sequence[bool],
    tangents: Sequence[ir.Value],
    needs: Sequence[bool],
) -> list[ir.Value | None]:
    """The tangents of the operands that need one, zeros for those that have none; else ``None``.

    Args:
      types: of the operands.
      tangents: of those that have one.
    """
    given = chosen(filled(tangents, has), needs)
    return filled(instantiated(given, map(tangent_type_of, chosen(types, needs))), needs)


def stacked(type_: ir.Type, length: int) -> ir.Type:
    """The type of the values of every iteration together."""
    return batched_type(type_, 0, length)

"""What the loops share: the operands of one, and the fixpoints over its carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from jaxmlir.dialect.builder import zeros
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import batched_type, tangent_type_of
from jaxmlir.support.masks import Mask

T = TypeVar("T")


def interleaved(*groups: Sequence[Sequence[T]]) -> list[T]:
    """The first pieces of each, then the second ones ...: ``[[a], [b]]`` and ``[[c], [d]]`` give
    ``[a, c, b, d]``."""
    return [v for pieces in zip(*groups, strict=True) for piece in pieces for v in piece]


def spread(values: Sequence[T], mask: Sequence[Any]) -> list[T | None]:
    """The values where the mask is set, ``None`` elsewhere."""
    given = iter(values)
    return [next(given) if m else None for m in mask]


def present(values: Sequence[T | None]) -> list[T]:
    """The values that are not ``None``."""
    return [v for v in values if v is not None]


def both(a: Sequence[bool], b: Sequence[bool]) -> Mask:
    """Where both masks are set."""
    return tuple([x and y for x, y in zip(a, b, strict=True)])


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
    return [
        (zeros(tangent_type_of(type_)) if tangent is None else tangent) if needed else None
        for type_, tangent, needed in zip(types, spread(tangents, has), needs, strict=True)
    ]


def stacked(type_: ir.Type, length: int) -> ir.Type:
    """The type of the values of every iteration together."""
    return batched_type(type_, 0, length)

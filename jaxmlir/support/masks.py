"""Lists of an op's operands: splitting into groups, selecting by masks, fixpoints of masks.

The rules for loops share these helpers: the rules of the dialect's ops and of JAX's primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

Mask = tuple[bool, ...]
"""Which of some values have a property."""
Dims = tuple[int | None, ...]
"""The batch dimension of each of some values; ``None`` for values that are not batched."""


def split(values: Sequence[T], *counts: int) -> list[list[T]]:
    """The sequence split into pieces of these lengths, and the rest."""
    pieces, start = [], 0
    for count in counts:
        pieces.append(list(values[start : start + count]))
        start += count
    return [*pieces, list(values[start:])]


def chosen(values: Sequence[T], mask: Sequence[Any]) -> list[T]:
    """The values where the mask is set."""
    return [v for v, m in zip(values, mask, strict=True) if m]


def left_out(values: Sequence[T], mask: Sequence[Any]) -> list[T]:
    """The values where the mask is not set."""
    return [v for v, m in zip(values, mask, strict=True) if not m]


def inverted(mask: Iterable[Any]) -> Mask:
    """Where a mask is not set."""
    return tuple([not m for m in mask])


def filled(
    values: Iterable[Any], mask: Sequence[Any], others: Iterable[Any] | None = None
) -> list[Any]:
    """The values, in order, where the mask is set; elsewhere items of ``others``, or ``None``."""
    rest = iter(values)
    if others is None:
        return [next(rest) if m else None for m in mask]
    return [next(rest) if m else other for m, other in zip(mask, others, strict=True)]


def present(values: Sequence[T | None]) -> list[T]:
    """The values that are not ``None``."""
    return [v for v in values if v is not None]


def both(a: Sequence[bool], b: Sequence[bool]) -> Mask:
    """Where both masks are set."""
    return tuple([x and y for x, y in zip(a, b, strict=True)])


def fixpoint(start: Sequence[bool], step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The least mask of a loop's carry that contains ``start`` and that an iteration preserves.

    Args:
      step: maps the mask at the start of an iteration to the mask at its end.
    """
    carry = list(start)
    # A mask of the whole carry cannot grow.
    while not all(carry):
        after = [a or b for a, b in zip(carry, step(carry), strict=True)]
        if after == carry:
            break
        carry = after
    return carry

"""Which ops do no more than give their results, wherever they stand and however often they run."""

from __future__ import annotations

import functools

from jaxmlir import ops

# What they do depends on where they are, or is seen by somebody else.
_FIXED_FAMILIES = (
    ops.effects,
    ops.state,
    ops.hardware,
    ops.kernel,
    ops.collectives,
    ops.sharding,
)


@functools.cache
def is_pure(name: str) -> bool:
    """Whether ops of a name are so, save for effects that they say they have.

    A primitive that we know nothing of is taken at its word.
    """
    record = ops.OPS.get(name.removeprefix("jaxpr."))
    return record is None or not _is_fixed(record)


def _is_fixed(record: ops.Op) -> bool:
    return any(record in family.OPS for family in _FIXED_FAMILIES)

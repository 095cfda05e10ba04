"""Chooses the states of a loop that are kept as checkpoints.

There are N checkpoints, the first one always of the loop's initial state, and a row more for the
state that it works on.  The reversal of l steps computes each step at most r times if and only if l
<= B(N, r) = (N + r)! / (N! r!) (Griewank and Walther, 2000: "Algorithm 799: revolve").

**While the loop runs**, its length is unknown.  A checkpoint is placed at every step while there
are free rows.  From then on each new state takes the row of a checkpoint that is dropped, so that
two gaps between neighbours merge into one.  Gap number i will be reversed with N - i checkpoints.
So it may be B(N - i, r - 1) steps long if its steps are to be computed at most r - 1 times more; r
grows when no merged gap is that short.  Of the checkpoints whose gaps may merge, the one nearest to
its successor is dropped, or the first of several.  This is the scheme of Wang, Moin and Iaccarino
(2009), "Minimal repetition dynamic checkpointing algorithm for unsteady adjoint calculation".  The
choice among dispensable checkpoints is one that Stumm and Walther (2010), "New algorithms for
optimal online checkpointing", show to be possible: as few steps are computed as if the length had
been known, for lengths of at most B(N, 2) = (N + 1)(N + 2) / 2.  Beyond, it is up to an eighth
more.

**While the loop is reversed**, every gap's length is known, and revolve's placement is optimal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

INDEX = np.dtype(np.int32)


class CheckpointRecord(NamedTuple):
    """Where the checkpoints of a running loop are."""

    rows: Any
    """``i32[N+1]``: the buffer's rows, those in use first, in the order of their states."""
    positions: Any
    """``i32[N+1]``: the step of the state in each of these rows, ascending."""
    steps: Any
    """``i32[]``: how many states the loop has gone through; min(steps, N+1) rows are in use."""
    limits: Any
    """``i32[N]``: the maximal length of each gap between neighbours: B(N - i, r - 1)."""
    repetitions: Any
    """``i32[]``: r, how often a step is computed at most."""


def start(checkpoints: int) -> CheckpointRecord:
    """The record of a loop that has not begun."""
    rows = np.arange(checkpoints + 1, dtype=INDEX)
    zero, one = INDEX.type(0), INDEX.type(1)
    return CheckpointRecord(rows, np.zeros_like(rows), zero, np.ones(checkpoints, INDEX), one)


def _next(reach: Any, checkpoints: Any, repetitions: Any) -> Any:
    """B(s, r) from B(s, r - 1): times (s + r) / r, without a larger intermediate product."""
    whole, rest = lax.div(reach, repetitions), lax.rem(reach, repetitions)
    return reach + whole * checkpoints + lax.div(rest * checkpoints, repetitions)


def place(record: CheckpointRecord) -> tuple[Any, CheckpointRecord]:
    """The row for the loop's next state, and the record that includes this state."""
    rows, positions, steps, limits, repetitions = record
    last = limits.shape[0]
    filling = steps <= last
    gaps = jnp.append(positions[1:], steps) - positions
    # The gap that would be there without checkpoint i + 1.
    merged = gaps[:-1] + gaps[1:]
    enough = filling | jnp.any(merged <= limits)
    sizes = np.arange(last, 0, -1, dtype=INDEX)
    raised = _next(limits, sizes, jnp.full_like(limits, repetitions))
    limits = jnp.where(enough, limits, raised)
    repetitions = repetitions + (1 - enough.astype(INDEX))
    after = jnp.where(merged <= limits, gaps[1:], np.iinfo(INDEX).max)
    dropped = jnp.where(filling, last + 1, 1 + jnp.argmin(after).astype(INDEX))
    slot = jnp.where(filling, steps, last)
    row = rows[jnp.where(filling, slot, dropped)]

    index = np.arange(last + 1, dtype=INDEX)

    def moved(values: Any, value: Any) -> Any:
        shifted = jnp.where(index < dropped, values, jnp.roll(values, -1))
        return jnp.where(index == slot, value, shifted)

    return row, CheckpointRecord(
        moved(rows, row), moved(positions, steps), steps + 1, limits, repetitions
    )


def stride(length: Any, checkpoints: Any, most: int) -> Any:
    """The distance from the first of ``length`` states to the next one kept, when they are
    reversed.

    Args:
      length: the number of steps to reverse, at least 2.
      checkpoints: how many are available, including the one that holds the first state.
      most: an upper bound of ``checkpoints``, known when this is traced.

    Returns:
      At most ``length - 1``, which is the last state.
    """
    one = INDEX.type(1)
    # If B(s, r - 1) is smaller than this, B(s, r) is no larger than the largest integer.
    cap = INDEX.type(np.iinfo(INDEX).max // (most + 1))

    def short(state: tuple[Any, ...]) -> Any:
        return (state[2] < jnp.minimum(length, cap)) & (checkpoints > 1)

    def repeat(state: tuple[Any, ...]) -> Any:
        _, less, reach, r = state
        return less, reach, _next(reach, checkpoints, r + one), r + one

    # B(s, r - 2), B(s, r - 1) and B(s, r), from r = 1 to the first r that reaches ``length``.
    state = INDEX.type(0), one, checkpoints + one, one
    least, less, _, _ = lax.while_loop(short, repeat, state)
    # The first part is between B(s, r - 2) and B(s, r - 1) long,
    # and the rest between B(s - 1, r - 1) and B(s - 1, r).
    best = jnp.minimum(less, length - (less - least))
    return jnp.where(checkpoints > 1, jnp.clip(best, 1, length - 1), length - 1)

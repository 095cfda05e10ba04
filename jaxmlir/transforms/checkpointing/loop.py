"""``checkpointed_while``: a ``while`` loop that can be reversed.

``(*condition consts, *body consts, *carry) -> (*carry)``, like ``while``.  With ``record`` the
checkpoints follow: for each value of the carry a buffer of N + 1 states, and ``rows``,
``positions`` and ``steps``, which tell where they are.  For derivatives the record is a mere cache
of what the other operands determine, so it has no tangents.

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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import batching, core
from jaxmlir.support.masks import fixpoint, split
from jaxmlir.transforms.checkpointing.linear_map import (
    call,
    check_types,
    name_of,
    primitive,
    traced,
)

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


def run(
    cond: Any,
    body: Any,
    cond_consts: Sequence[Any],
    body_consts: Sequence[Any],
    carry: Sequence[Any],
    checkpoints: int,
    record: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Binds the primitive; gives the carry after the loop, and the record."""
    outs = checkpointed_while_p.bind(
        *cond_consts,
        *body_consts,
        *carry,
        cond_jaxpr=cond,
        body_jaxpr=body,
        cond_nconsts=len(cond_consts),
        body_nconsts=len(body_consts),
        checkpoints=checkpoints,
        record=record,
    )
    final, recorded = split(outs, len(carry))
    return final, recorded


def operands(values: Sequence[Any], params: dict[str, Any]) -> list[list[Any]]:
    """Splits values into the condition's constants, the body's constants, and the carry."""
    return split(values, params["cond_nconsts"], params["body_nconsts"])


def _evaluate(*args: Any, checkpoints: int, record: bool, **params: Any) -> list[Any]:
    cond_consts, body_consts, carry = operands(args, params)
    cond_jaxpr, body_jaxpr, body_consts = with_one_condition(
        params["cond_jaxpr"], params["body_jaxpr"], cond_consts, body_consts
    )
    buffers = [lax.broadcast(x, (checkpoints + 1,)) for x in carry] if record else []

    def goes_on(state: Any) -> Any:
        return call(cond_jaxpr, *cond_consts, *state[0])[0]

    def step(state: Any) -> Any:
        carry, buffers, places = state
        if record:
            row, places = place(places)
            buffers = [
                lax.dynamic_update_index_in_dim(buffer, x, row, 0)
                for buffer, x in zip(buffers, carry, strict=True)
            ]
        return call(body_jaxpr, *body_consts, *carry), buffers, places

    places = start(checkpoints) if record else ()
    carry, buffers, places = lax.while_loop(goes_on, step, (carry, buffers, places))
    return [*carry, *buffers, *places[:3]]


def _abstract_eval(*avals: Any, checkpoints: int, record: bool, **params: Any) -> list[Any]:
    cond_consts, body_consts, carry = operands(avals, params)
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    check_types("arguments of the condition", [*cond_consts, *carry], cond.in_avals)
    check_types("arguments of the body", [*body_consts, *carry], body.in_avals)
    check_types("results of the body", carry, body.out_avals)
    if checkpoints < 1:
        raise TypeError(f"checkpoints: expected at least 1, got {checkpoints}")
    carry = list(body.out_avals)
    return carry + (record_avals(carry, checkpoints) if record else [])


def record_avals(carry: Sequence[Any], checkpoints: int) -> list[Any]:
    """The types of the record of a loop with a carry of these types."""
    rows = core.ShapedArray((checkpoints + 1,), INDEX)
    steps = core.ShapedArray((), INDEX)
    buffers = [core.unmapped_aval(checkpoints + 1, 0, aval, None) for aval in carry]
    return [*buffers, rows, rows, steps]


checkpointed_while_p: Any = primitive("checkpointed_while", _abstract_eval, _evaluate)


# --- loops on batches ---------------------------------------------------------------------------


def guarded(
    guard: Any,
    step: Any,
    n: int,
    nconsts: int,
    otherwise: Callable[..., Any],
    on_batches: Sequence[bool] | None = None,
) -> Any:
    """A step that is taken where a condition on batches holds; ``otherwise(args)`` elsewhere.

    Args:
      guard: ``(*condition consts, *carry) -> condition``, an array whose dimensions come first in
        each result of the step.
      step: a function of ``nconsts`` constants, the carry, and maybe more.
      n: the number of the condition's constants, which the new function takes before the others.
      on_batches: which arguments of the step are batched, if no element of a batch looks at another
        one (see :func:`going_on`).
    """
    size = len(guard.in_avals) - n

    def both(*args: Any) -> list[Any]:
        cond_consts, args = args[:n], args[n:]
        (holds,) = call(guard, *cond_consts, *args[nconsts : nconsts + size])
        inputs = args if on_batches is None else going_on(holds, args, on_batches)
        return [
            where(holds, new, old)
            for new, old in zip(call(step, *inputs), otherwise(args), strict=True)
        ]

    return traced(both, [*guard.in_avals[:n], *step.in_avals], name_of(step))


def going_on(holds: Any, values: Sequence[Any], on_batches: Sequence[bool]) -> list[Any]:
    """The arguments of a step, with those of ended elements of the batch replaced by those of the
    first element whose condition holds.  The step of an element that has ended is computed, but not
    used.  Its pullback is computed too, for zero cotangents, and added to the cotangents of values
    that the elements share.  Where the slope is infinite, as it may be where the loop does not go,
    that would add NaN."""
    if not holds.size:
        return list(values)
    first = jnp.argmax(lax.reshape(holds, (holds.size,)))

    def given(x: Any) -> Any:
        rows = lax.reshape(x, (holds.size, *x.shape[holds.ndim :]))
        row = lax.dynamic_index_in_dim(lax.stop_gradient(rows), first, 0, keepdims=False)
        shape = tuple(range(holds.ndim, x.ndim))
        return where(holds, x, lax.broadcast_in_dim(row, x.shape, shape))

    return [given(x) if b else x for x, b in zip(values, on_batches, strict=True)]


def where(holds: Any, new: Any, old: Any) -> Any:
    """``new`` where a condition on batches holds, ``old`` where not."""
    shape = jnp.shape(new)
    return lax.select_n(lax.broadcast_in_dim(holds, shape, tuple(range(holds.ndim))), old, new)


def with_one_condition(
    cond: Any, body: Any, cond_consts: Sequence[Any], body_consts: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    """Makes the array condition of a loop a scalar one, whether it holds anywhere; gives it, the
    new body and its constants.  A ``while`` that JAX has batched has such a condition; where it
    does not hold, the carry stays as it is."""
    if not cond.out_avals[0].shape:
        return cond, body, list(body_consts)
    nconsts = len(body_consts)
    step = guarded(cond, body, len(cond_consts), nconsts, lambda args: args[nconsts:])
    return _anywhere(cond), step, [*cond_consts, *body_consts]


def _anywhere(cond: Any) -> Any:
    return traced(lambda *args: [jnp.any(call(cond, *args)[0])], cond.in_avals, name_of(cond))


def _batch(
    axis: Any, args: Any, dims: Any, *, checkpoints: int, record: bool, **params: Any
) -> tuple[list[Any], list[int | None]]:
    args = [to_front(x, d, axis, d is not None) for x, d in zip(args, dims, strict=True)]
    cond_consts, body_consts, carry = operands(args, params)
    in_cond, in_body, in_carry = operands([d is not None for d in dims], params)
    cond_jaxpr, body_jaxpr, in_body = with_one_condition(
        params["cond_jaxpr"], params["body_jaxpr"], in_cond, in_body
    )
    batched = BatchedLoop(axis, cond_jaxpr, body_jaxpr, in_cond, in_body, in_carry)
    carry = [
        x if had or not has else to_front(x, None, axis, True)
        for x, had, has in zip(carry, in_carry, batched.carry, strict=True)
    ]
    consts = [*cond_consts, *body_consts] if len(in_body) > len(body_consts) else body_consts
    if batched.guarded:
        consts = [*cond_consts, *consts]
    final, recorded = run(
        batched.cond, batched.body, cond_consts, consts, carry, checkpoints, record
    )
    out_dims: list[int | None] = [0 if b else None for b in batched.carry]
    if record:
        out_dims += [1 if b else None for b in batched.carry] + [None] * 3
    return [*final, *recorded], out_dims


def to_front(x: Any, dim: int | None, axis: Any, wanted: bool) -> Any:
    """A value with its batch dimension in front; it gets one if it has none."""
    return batching.bdim_at_front(x, dim, axis.size) if wanted else x


class BatchedLoop:
    """A loop on batches: still one loop, with one trip count.  If the condition is batched, the
    loop goes on while it holds for any element, and an element for which it does not hold keeps its
    state.  The body is *guarded* then, and takes the condition's constants first."""

    def __init__(
        self,
        axis: Any,
        cond: Any,
        body: Any,
        in_cond: list[bool],
        in_body: list[bool],
        in_carry: list[bool],
    ):
        def grow(carry: list[bool]) -> Sequence[bool]:
            return batching.batch_jaxpr(body, axis, in_body + carry, carry)[1]

        self.carry: list[bool] = fixpoint(in_carry, grow)
        self.cond, guarded = batching.batch_jaxpr(cond, axis, in_cond + self.carry, False)
        self.guarded: Any = guarded[0]
        if self.guarded:
            self.carry = [True] * len(in_carry)
            self._guard, _ = batching.batch_jaxpr(cond, axis, in_cond + self.carry, True)
            self._cond_consts = len(in_cond)
            self.cond: Any = _anywhere(self._guard)
        self.body, _ = batching.batch_jaxpr(body, axis, in_body + self.carry, self.carry)
        # Elements can look at one another only by the name of their axis.
        self._apart = axis.name is core.no_axis_name
        if self.guarded:
            # The states are the body's last arguments.
            self.body: Any = self.guard(self.body, in_body, lambda args: args[len(in_body) :])

    def guard(
        self,
        step: Any,
        consts: list[bool],
        otherwise: Callable[..., Any],
        more: Sequence[bool] = (),
    ) -> Any:
        """A step on batches, guarded by the condition (see :func:`guarded`); some of its constants,
        and of its arguments after the carry (``more``), are batched."""
        on_batches = [*consts, *self.carry, *more] if self._apart else None
        return guarded(self._guard, step, self._cond_consts, len(consts), otherwise, on_batches)


batching.fancy_primitive_batchers[checkpointed_while_p] = _batch

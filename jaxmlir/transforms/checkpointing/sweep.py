"""``reverse_sweep``: visits the states of a loop backwards.

A loop went through the states ``x[k+1] = advance(*consts, *x[k])``, K of them before the last.  The
sweep starts from ``y[K]`` and computes::

    (a[k], y[k]) = step(*consts, *x[k], *y[k+1])        for k = K-1 ... 0

The results are the sum of all ``a[k]``, and ``y[0]``; ``step`` is linear in ``y``.  If ``step`` is
the pullback of the loop's body, this is reverse mode: the ``y`` are the cotangents of the states,
and the ``a`` those of the body's constants.

Operands: ``(*condition consts, *consts, *x[0], *record, *y[K])`` with the record of the loop
(:mod:`.loop`).  The condition is that of the loop; the sweep itself need not evaluate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import ad, ad_util, batching, core
from jaxmlir.support.masks import fixpoint, split
from jaxmlir.transforms.checkpointing import loop
from jaxmlir.transforms.checkpointing.linear_map import (
    call,
    check_types,
    name_of,
    primitive,
    traced,
)


def run(
    cond: Any,
    advance: Any,
    step: Any,
    cond_consts: Sequence[Any],
    consts: Sequence[Any],
    first: Sequence[Any],
    record: Sequence[Any],
    last: Sequence[Any],
) -> tuple[list[Any], list[Any]]:
    """Binds the primitive; gives the sums, and ``y[0]``."""
    outs = reverse_sweep_p.bind(
        *cond_consts,
        *consts,
        *first,
        *record,
        *last,
        cond_jaxpr=cond,
        advance_jaxpr=advance,
        step_jaxpr=step,
        cond_nconsts=len(cond_consts),
        nconsts=len(consts),
    )
    sums, y = split(outs, len(outs) - len(last))
    return sums, y


def operands(values: Sequence[Any], params: dict[str, Any]) -> list[list[Any]]:
    """Splits values into the condition's constants, constants, ``x[0]``, record and ``y[K]``."""
    n = len(params["advance_jaxpr"].out_avals)
    return split(values, params["cond_nconsts"], params["nconsts"], n, n + 3)


def num_sums(params: dict[str, Any]) -> int:
    """The number of results that are sums."""
    n = len(params["advance_jaxpr"].out_avals)
    step = params["step_jaxpr"]
    return len(step.out_avals) - (len(step.in_avals) - params["nconsts"] - n)


def _evaluate(*args: Any, **params: Any) -> list[Any]:
    _, consts, first, record, last = operands(args, params)
    buffers, (rows, positions, steps) = split(record, len(first))
    n = rows.shape[0] - 1
    sums = [ad_util.zeros_like_aval(a) for a in params["step_jaxpr"].out_avals[: num_sums(params)]]
    one = loop.INDEX.type(1)

    def state_at(buffers: Any, index: Any) -> list[Any]:
        return [lax.dynamic_index_in_dim(b, rows[index], 0, keepdims=False) for b in buffers]

    def advance(to: Any, x: Any, position: Any) -> Any:
        return lax.while_loop(
            lambda s: s[1] < to,
            lambda s: (call(params["advance_jaxpr"], *consts, *s[0]), s[1] + one),
            (x, position),
        )

    def leg(target: Any, state: Any) -> Any:
        """Advances to the state of the next checkpoint, or to the target."""
        x, position, buffers, positions, top = state
        to = position + loop.stride(target - position + one, n - top, n)
        x, position = advance(to, x, position)
        # The row above the top is free, so it does no harm to write the target there too.
        row = rows[top + one]
        buffers = [
            lax.dynamic_update_index_in_dim(b, v, row, 0) for b, v in zip(buffers, x, strict=True)
        ]
        positions = lax.dynamic_update_index_in_dim(positions, position, top + one, 0)
        return x, position, buffers, positions, top + (to < target).astype(top.dtype)

    def reverse_one(state: Any) -> Any:
        k, buffers, positions, top, sums, y = state
        x, position = state_at(buffers, top), positions[top]
        x, _, buffers, positions, top = lax.while_loop(
            lambda s: s[1] < k, lambda s: leg(k, s), (x, position, buffers, positions, top)
        )
        top = top - (positions[top] == k).astype(top.dtype)
        terms, y = split(call(params["step_jaxpr"], *consts, *x, *y), len(sums))
        sums = [ad.add_jaxvals(a, b) for a, b in zip(sums, terms, strict=True)]
        return k - one, buffers, positions, top, sums, y

    top = jnp.minimum(steps, n + 1).astype(loop.INDEX) - one
    start = (steps - one, buffers, positions, top, sums, last)
    *_, sums, y = lax.while_loop(lambda s: s[0] >= 0, reverse_one, start)
    return [*sums, *y]


def _abstract_eval(*avals: Any, **params: Any) -> list[Any]:
    cond_consts, consts, first, record, last = operands(avals, params)
    step = params["step_jaxpr"]
    cond, advance = params["cond_jaxpr"], params["advance_jaxpr"]
    check_types("arguments of the condition", [*cond_consts, *first], cond.in_avals)
    check_types("arguments of the advance", [*consts, *first], advance.in_avals)
    check_types("arguments of the step", [*consts, *first, *last], step.in_avals)
    check_types("results of the step, after the sums", last, step.out_avals[num_sums(params) :])
    rows = record[-2].shape[0] if len(record) == len(first) + 3 and record[-2].shape else 2
    check_types("the record", loop.record_avals(first, rows - 1), record)
    return list(step.out_avals)


reverse_sweep_p: Any = primitive("reverse_sweep", _abstract_eval, _evaluate)


# --- batching -----------------------------------------------------------------------------------


def _batch(axis: Any, args: Any, dims: Any, **params: Any) -> tuple[list[Any], list[int | None]]:
    *_, record_dims, _ = operands(dims, params)
    if any(d is not None for d in record_dims[-3:]):
        args, dims, params = _with_one_trip_count(axis, args, dims, params)
    cond_consts, consts, first, record, last = operands(args, params)
    in_cond, in_consts, in_first, in_record, in_last = operands(
        [d is not None for d in dims], params
    )
    cond_dims, const_dims, first_dims, record_dims, last_dims = operands(dims, params)
    # A value of the carry is batched if the buffer of its states is.
    started = [a or b for a, b in zip(in_first, in_record, strict=False)]
    batched = loop.BatchedLoop(
        axis, params["cond_jaxpr"], params["advance_jaxpr"], in_cond, in_consts, started
    )
    step, sums = params["step_jaxpr"], num_sums(params)

    def batch_step(y: list[bool], keep: list[bool] | bool) -> tuple[Any, list[bool]]:
        return batching.batch_jaxpr(step, axis, in_consts + batched.carry + y, keep)

    if batched.guarded:
        batched_y = [True] * len(last)
        step, out = batch_step(batched_y, True)
        step = batched.guard(step, in_consts, _zeros_and_last(step, sums, len(last)), batched_y)
    else:
        batched_y = fixpoint(in_last, lambda y: batch_step(y, [False] * sums + y)[1][sums:])
        step, out = batch_step(batched_y, [False] * sums + batched_y)

    def front(values: Any, dims: Any, wanted: Any) -> list[Any]:
        return [loop.to_front(x, d, axis, w) for x, d, w in zip(values, dims, wanted, strict=True)]

    cond_consts = front(cond_consts, cond_dims, in_cond)
    consts = front(consts, const_dims, in_consts)
    buffers, places = split(record, len(first))
    buffers = [
        jnp.moveaxis(loop.to_front(x, d, axis, True), 0, 1) if w else x
        for x, d, w in zip(buffers, record_dims, batched.carry, strict=False)
    ]
    a, y = run(
        batched.cond,
        batched.body,
        step,
        cond_consts,
        [*cond_consts, *consts] if batched.guarded else consts,
        front(first, first_dims, batched.carry),
        [*buffers, *places],
        front(last, last_dims, batched_y),
    )
    return [*a, *y], [0 if b else None for b in out]


def _zeros_and_last(step: Any, sums: int, count: int) -> Any:
    """A step's results for a state from which the loop did not go on: unchanged cotangents."""
    avals = step.out_avals[:sums]
    return lambda args: [*map(ad_util.zeros_like_aval, avals), *args[len(args) - count :]]


def _with_one_trip_count(axis: Any, args: Any, dims: Any, params: Any) -> tuple[Any, Any, Any]:
    """The operands of a sweep whose record is not that of one loop on batches.

    That is the case if the record was made loop by loop, and batched later.  Then a loop on batches
    records the states again.  It also stops after the recorded number of steps: there may have been
    no loop, and then the values that it would start from mean nothing.
    """
    cond_consts, consts, first, record, last = operands(args, params)
    n = params["cond_nconsts"]
    size = np.shape(record[-3])[-1] - 1

    def goes_on(*values: Any) -> list[Any]:
        (steps, *values), (step, *carry) = values[: n + 1], values[n + 1 :]
        return [(step < steps) & call(params["cond_jaxpr"], *values, *carry)[0]]

    def advance(*values: Any) -> list[Any]:
        consts, (step, *carry) = values[: len(values) - len(first) - 1], values[-len(first) - 1 :]
        return [step + loop.INDEX.type(1), *call(params["advance_jaxpr"], *consts, *carry)]

    def step(*values: Any) -> list[Any]:
        values = [*values[: len(consts)], *values[len(consts) + 1 :]]
        return call(params["step_jaxpr"], *values)

    def with_counter(function: Any, jaxpr: Any, *place: int) -> Any:
        """A function of a jaxpr's arguments, with counters inserted before some of them."""
        avals = list(jaxpr.in_avals)
        for i in sorted(place, reverse=True):
            avals.insert(i, core.ShapedArray((), loop.INDEX))
        return traced(function, avals, name_of(jaxpr))

    counted = {
        "cond_jaxpr": with_counter(goes_on, params["cond_jaxpr"], 0, n),
        "advance_jaxpr": with_counter(advance, params["advance_jaxpr"], len(consts)),
        "step_jaxpr": with_counter(step, params["step_jaxpr"], len(consts)),
        "cond_nconsts": n + 1,
        "nconsts": len(consts),
    }
    cond_dims, const_dims, first_dims, record_dims, last_dims = operands(dims, params)
    cond_consts, cond_dims = [record[-1], *cond_consts], [record_dims[-1], *cond_dims]
    first, first_dims = [loop.INDEX.type(0), *first], [None, *first_dims]
    recorded, recorded_dims = batching.fancy_primitive_batchers[loop.checkpointed_while_p](
        axis,
        [*cond_consts, *consts, *first],
        [*cond_dims, *const_dims, *first_dims],
        cond_jaxpr=counted["cond_jaxpr"],
        body_jaxpr=counted["advance_jaxpr"],
        cond_nconsts=n + 1,
        body_nconsts=len(consts),
        checkpoints=size,
        record=True,
    )
    k = len(first)
    args = [*cond_consts, *consts, *first, *recorded[k:], *last]
    dims = [*cond_dims, *const_dims, *first_dims, *recorded_dims[k:], *last_dims]
    return args, dims, counted


batching.fancy_primitive_batchers[reverse_sweep_p] = _batch

"""Whiles that run as often as is known beforehand, as scans."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.dialect.builder import returned
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.loops.raise_loops.known import Known, counted, room, step_of
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.higher_order.while_op import WhileOp

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules

# The condition is evaluated for as many iterations as this at once, before it is for more; and for
# those in which a counter of few bits stays in its range.
_TRIES = (1 << 8, 1 << 14, 1 << 20)


def while_to_scan(rules: Rules, op: Any, known: Known) -> Any | None:
    """The scan that takes the place of a while of known length, or ``None``.

    Args:
      known: the integers that are known around it.
    """
    loop = WhileOp.of(op)
    if loop.other.keys() - {"jaxpr.ctx", "jaxpr.parallel"}:
        return None
    of_cond, of_body, init = loop.operands(list(op.operands))
    if not init:
        return None
    length = _trip_count(rules, loop, of_cond, init, known)
    if length is None:
        return None
    remark(op, f"runs {length} times: a scan")
    scan = ScanOp(loop.body, len(of_body), len(init), length, False, loop.other)
    with ir.InsertionPoint(op), op.location:
        results = scan.write(rules, [*of_body, *init])
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
    return results[0].owner.opview


def _trip_count(
    rules: Rules, loop: WhileOp, of_cond: list[ir.Value], init: list[ir.Value], known: Known
) -> int | None:
    """How often the body runs, if that follows from counters alone."""
    cond, body = rules.program.function(loop.cond), rules.program.function(loop.body)
    counters = list(body.arguments)[loop.body_consts :]
    steps = [step_of(arg, out) for arg, out in zip(counters, returned(body), strict=True)]
    consts, states = loop.operands(list(cond.arguments))[0], list(cond.arguments)[len(of_cond) :]
    fixed: dict[ir.Value, np.ndarray] = {}
    for value, arg in zip(of_cond, consts, strict=True):
        array = known.get(value)
        if array is not None and math.prod(array.shape[: known.depth]) == 1:
            fixed[arg] = array.reshape((1, *array.shape[known.depth :]))
    starts = [known.get(value) for value in init]
    running = [
        (arg, start.reshape(()), step)
        for arg, start, step in zip(states, starts, steps, strict=True)
        if start is not None and start.size == 1 and step is not None
    ]
    rooms = {room(int(start), step, start.dtype) for _, start, step in running}
    for count in sorted({*_TRIES, *(n for n in rooms if n and n < _TRIES[-1])}):
        given = dict(fixed)
        for arg, start, step in running:
            values = counted(start, step, count)
            if values is not None:
                given[arg] = values
        (outcome,) = returned(cond)
        holds = Known(given, 1).get(outcome)
        if holds is None:
            return None
        holds = np.broadcast_to(holds, (count,))
        if not holds.all():
            return int(np.argmin(holds))
    return None

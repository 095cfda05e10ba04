"""Finds reads of an array that ``jaxpr-materialize-shared`` orders before a write in place, in a
loop.

A loop that fills an array in place reads rows of it and writes others, and so does its derivative::

    row = ct[i]
    ct = ct.at[i].set(0)
    ct = ct.at[i - 1].add(f(row))

XLA's CPU compiler fuses the read with the op that uses the row, which comes after the write, and
copies the array in each step.  Here the write waits for the read: the update and the row go through
one barrier, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import elements, is_plain_array
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.analysis.purity import CountedOps
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, record_of, with_trait
from jaxmlir.optimize.barriers import JointFence
from jaxmlir.optimize.loops.scan_editor import LOOPS, body_symbol
from jaxmlir.passes.remarks import remark

# The least elements of the array: copying fewer takes less time than a kernel.  Gradients of loops
# of 40 steps that set a row of 50 numbers to a function of those around, times with fences /
# without, jax 0.10 and 0.12: 5000 numbers 0.75 to 0.95, 0.6 to 0.8; 20,000 0.6, 0.5; 400,000 0.2,
# 0.07.
MIN_ELEMENTS = 4096
# The least ratio of the array's elements to the elements of all fenced values.
MIN_RATIO = 8
# The most ops that are looked at for one write.
MOST = 1000

READS = with_trait(Trait.SLICING)
WRITES = with_trait(Trait.UPDATE)
_FUSED = ELEMENTWISE | with_trait(Trait.RESHAPE)


class InPlaceWrite(NamedTuple):
    """A write in place, and the reads of the array for other ops.

    Attributes:
      index: the op that writes.
      update: the number of the operand that it writes.
      late: the reads after the write, by index; they move before it.
      early: the ops before the write that use values read and that it does not need; they move
        after it.
      read: the values that have to be computed before the write.
      kept: for each of these values, the ops that use it to compute the update.
    """

    index: int
    update: int
    late: list[int]
    early: list[int]
    read: list[int]
    kept: list[list[int]]


def loop_bodies(bodies: Iterable[FunctionView]) -> dict[str, None]:
    """The bodies of scans and whiles, in order."""
    return {
        body_symbol(op, name): None
        for body in bodies
        for op, name in zip(body.ops, body.names, strict=True)
        if name in LOOPS
    }


def order_reads(body: FunctionView, counted: CountedOps, together: JointFence) -> int:
    """Makes the writes in a loop's body wait for reads; returns how many wait."""
    count = 0
    places = {op.operation: index for index, op in enumerate(body.ops)}
    writes = [op for op, index in places.items() if body.names[index] in WRITES]
    for op in writes:
        write = _overwritten(body, places[op], counted)
        if write is not None:
            _read_first(body, write, together)
            count += 1
            # Its fence is now between the values read and ops that later writes may need.
            body = FunctionView(body.function)
            places = {op.operation: index for index, op in enumerate(body.ops)}
    return count


def _is_in_place(body: FunctionView, array: int) -> bool:
    """Whether a large array is an argument, or an argument after writes."""
    if not is_plain_array(body.types[array]) or elements(body.types[array]) < MIN_ELEMENTS:
        return False
    while (maker := body.makers[array]) is not None and body.names[maker] in WRITES:
        array = body.operands[maker][0]
    return maker is None


def _overwritten(body: FunctionView, index: int, counted: CountedOps) -> InPlaceWrite | None:
    """The reads that a write must wait for; ``None`` if there are none, or it cannot wait."""
    users = body.users
    array, *inputs = body.operands[index]
    readers = [k for k in users[array] if k != index]
    if array in inputs or array in body.outputs or not _is_in_place(body, array):
        return None
    if not all(body.names[k] in READS and array not in body.operands[k][1:] for k in readers):
        return None
    late, source = [k for k in readers if k > index], body.makers[array]

    def makers(k: int) -> Iterable[int]:
        return (maker for v in body.operands[k] if (maker := body.makers[v]) is not None)

    # The reads of the array come after the op that computes it.
    needed = _reached([index], makers, range(0 if source is None else source + 1, index + 1))
    if needed is None:
        return None
    result = body.results[index][0]
    if any(v >= result for k in late for v in body.operands[k]):
        return None
    fenced: dict[int, list[int]] = {}
    pending = readers[::-1]
    while pending:
        value = body.results[pending.pop()][0]
        needed_users = [k for k in users[value] if k in needed]
        if len(needed_users) < len(users[value]) or value in body.outputs:
            fenced[value] = needed_users
        else:
            # XLA recomputes these in their other users.
            pending += [k for k in needed_users if body.names[k] in _FUSED]
    size = sum([elements(body.types[v]) for v in fenced])
    if not fenced or MIN_RATIO * size > elements(body.types[array]):
        return None
    others = (k for v, needed_users in fenced.items() for k in users[v] if k not in needed_users)
    early = _reached(
        others, lambda k: (user for v in range(*body.results[k]) for user in users[v]), range(index)
    )
    if early is None:
        return None
    of_late = {body.makers[v] for k in late for v in body.operands[k]}
    # If the position of a read is computed from another read, an op would have to be both before
    # and after the write.
    if not early.isdisjoint({*readers, *of_late}):
        return None
    if any(counted.keeps_order(body.signatures[k]) for k in early):
        return None
    update = record_of(body.names[index]).update
    return InPlaceWrite(index, update, late, sorted(early), [*fenced], [*fenced.values()])


def _reached(
    starts: Iterable[int], onward: Callable[[int], Iterable[int]], within: range
) -> set[int] | None:
    """The ops of a range that are reached from some ops, these included; ``None``: very many."""
    reached: set[int] = set()
    pending = [*starts]
    while pending:
        k = pending.pop()
        if k in within and k not in reached:
            if len(reached) == MOST:
                return None
            reached.add(k)
            pending += onward(k)
    return reached


def _read_first(body: FunctionView, each: InPlaceWrite, together: JointFence) -> None:
    """Makes a write wait for reads."""
    op = body.ops[each.index]
    remark(op, "ordered after the other reads of the array that it overwrites")
    for k in each.late:
        body.ops[k].operation.move_before(op.operation)
    for k in reversed(each.early):
        body.ops[k].operation.move_after(op.operation)
    values = [body.value(v) for v in each.read]
    with ir.InsertionPoint(op), op.location:
        *fenced, update = together([*values, op.operands[each.update]])
    for old, new, users in zip(values, fenced, each.kept, strict=True):
        kept_ops = [body.ops[k].operation for k in users]
        old.replace_all_uses_except(new, [update.owner.operation, *kept_ops])
    op.operation.operands[each.update] = update

"""Counters of loops: their known values in each body, and the removal of unused counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.dialect.builder import build, filled, is_used, returned, symbols_of
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import body_of, func, ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.known import KnownIntegers, affine, counted, room, vector
from jaxmlir.optimize.loops.scan_editor import CarriedValue, ScanEditor, SlicedOperand
from jaxmlir.passes.remarks import remark
from jaxmlir.support.lazy import memoized
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp, stacked
from jaxmlir.transforms.templates import Rules


class LoopContexts:
    """The known values of each function of a program."""

    def __init__(self, program: Module, graph: CallGraph):
        self._program = program
        # For the body of a single scan: the function that contains the scan, and the scan.
        callers: dict[str, list[tuple[str, Any]]] = {}
        for symbol, ops in graph.ops.items():
            for op, name in ops if graph.uses[symbol] else ():
                if may_have_functions(name):
                    for callee in symbols_of(op):
                        callers.setdefault(callee, []).append((symbol, op))
        self._callers = {
            symbol: sites[0]
            for symbol, sites in callers.items()
            if len(sites) == 1 and sites[0][1].operation.name == "jaxpr.scan"
        }

    @memoized
    def of(self, symbol: str) -> tuple[KnownIntegers, int]:
        """The known values of a function, and the number of loops around it."""
        function = self._program.function(symbol)
        if symbol not in self._callers or not is_private(function):
            return KnownIntegers({}, 0), 0
        outer, op = self._callers[symbol]
        known, depth = self.of(outer)
        return in_body(ScanOp.of(op), function, list(op.operands), known, depth), depth + 1


def in_body(
    scan: ScanOp, body: func.FuncOp, operands: Sequence[ir.Value], outer: KnownIntegers, depth: int
) -> KnownIntegers:
    """The known values of the body of a scan.

    Args:
      body: the current body; its first arguments are those of the scan.
      operands: the operands of the scan.
      outer: the known values of the function around the scan, which has ``depth`` loops around it.
    """
    groups = zip(scan.operands(operands), scan.operands(list(body_of(body).arguments)), strict=True)
    consts, carry, xs = (list(zip(*group, strict=True)) for group in groups)
    arrays: dict[ir.Value, np.ndarray] = {}
    for operand, arg in consts:
        if (array := outer.get(operand)) is not None:
            arrays[arg] = np.expand_dims(array, depth)
    for operand, arg in xs:
        if (array := outer.get(operand)) is not None:
            # The first axis of the value becomes the axis of the loop.
            arrays[arg] = array
    known = KnownIntegers(arrays, depth + 1)
    if not scan.is_counted:
        return known
    counters: dict[ir.Value, np.ndarray] = {}
    for (init, arg), out in zip(carry, returned(body), strict=False):
        if not is_integer(arg):
            continue
        step = _step(arg, out, known)
        if step is None or init not in outer:
            continue
        values = counted(outer[init], step, scan.length)
        if values is not None:
            counters[arg] = values[..., ::-1] if scan.reverse else values
    for arg, values in counters.items():
        known.give(arg, values)
    return known


def _step(arg: ir.Value, out: ir.Value, known: KnownIntegers) -> int | None:
    """The constant by which each iteration increases a carried value; ``None`` if there is none."""
    if isinstance(out.owner, ir.Block):
        return None
    op = out.owner
    if op.name not in ("jaxpr.add", "jaxpr.sub") or arg not in (operands := list(op.operands)):
        return None
    if op.name == "jaxpr.sub" and operands[0] != arg:
        return None
    other = operands[1] if operands[0] == arg else operands[0]
    amount = known.get(other)
    if amount is None or amount.size != 1:
        return None
    return int(amount.item()) * (-1 if op.name == "jaxpr.sub" else 1)


def step_of(arg: ir.Value, out: ir.Value) -> int | None:
    """The constant step of a carried value, if the body has one without other known values."""
    return _step(arg, out, KnownIntegers({}, 0)) if is_integer(arg) else None


def is_integer(value: ir.Value) -> bool:
    """Whether a value is a scalar integer."""
    aval = aval_of(value.type)
    dtype = getattr(aval, "dtype", None)
    return getattr(aval, "shape", None) == () and getattr(dtype, "kind", "") in "iu"


# -- Unused counters are not carried any more; used ones become slices of an iota --


def drop_counters(editor: ScanEditor, known: KnownIntegers) -> int:
    """Removes counters from the carry of a scan; returns how many.

    A counter that the body reads stays, unless only counters are carried: it becomes a slice then.
    """
    counters = [
        (item, v) for item in editor.carry if (v := _values(editor, item, known)) is not None
    ]
    only_counters = len(counters) == len(editor.carry)
    count = 0
    for item, values in counters:
        looked_at = _is_looked_at(editor, item)
        if looked_at and not only_counters:
            continue
        _drop(editor, item, values, looked_at)
        count += 1
    return count


def _values(editor: ScanEditor, item: CarriedValue, known: KnownIntegers) -> np.ndarray | None:
    """The values of a counter in each iteration and after the last, in order."""
    numbers = vector(known, item.arg, editor.scan.length)
    if numbers is None:
        return None
    ordered = numbers[::-1] if editor.scan.reverse else numbers
    progression = affine(ordered)
    dtype = aval_of(item.arg.type).dtype
    if progression is None or len(ordered) < 2 or tuple(aval_of(item.arg.type).shape):
        return None
    last = ordered[-1] + progression[1]
    limits = np.iinfo(dtype)
    if not limits.min <= last <= limits.max:
        return None
    return np.append(ordered, last).astype(dtype)


def _is_looked_at(editor: ScanEditor, item: CarriedValue) -> bool:
    out = editor.out(item)
    users = {use.owner for use in item.arg.uses}
    return any(user.operation != out.owner for user in users) or _is_returned(editor, item)


def _is_returned(editor: ScanEditor, item: CarriedValue) -> bool:
    """Whether the next value of the counter has other uses than to be carried."""
    return len(list(editor.out(item).uses)) > 1


def _drop(editor: ScanEditor, item: CarriedValue, values: np.ndarray, looked_at: bool) -> None:
    type_ = item.arg.type
    with ir.InsertionPoint(editor.op), editor.op.location:
        if is_used(item.result):
            attributes = {"value": dense(np.array(values[-1]))}
            last = ir.Operation.create("jaxpr.constant", [item.result.type], [], attributes)
            item.result.replace_all_uses_with(last.result)
        if looked_at:
            argument = editor.new_argument(type_)
            rows = _counters_iota(
                values[:-1], stacked(type_, editor.scan.length), editor.scan.reverse
            )
            item.arg.replace_all_uses_with(argument)
            editor.xs.append(SlicedOperand(rows, argument))
    editor.carry.remove(item)


def _counters_iota(values: np.ndarray, type_: ir.Type, reverse: bool) -> ir.Value:
    """Writes evenly spaced values as an array, by an ``iota``."""
    ordered = values[::-1] if reverse else values
    aval = aval_of(type_)
    start, step = int(ordered[0]), int(ordered[1]) - int(ordered[0])
    value = build("iota", [], type_, dimension=0, dtype=aval.dtype, shape=tuple(aval.shape))
    for name, number, neutral in (("mul", step, 1), ("add", start, 0)):
        if number != neutral:
            # Unsigned integers step down by wrapping around.
            wrapped = int(np.array(number).astype(aval.dtype))
            value = build(name, [value, filled(type_, wrapped)], type_)
    return value


# -- Whiles with a known trip count, as scans --


# The condition is evaluated for this many iterations at once, then for more; and for the number of
# iterations in which a counter of few bits stays in its range.
_TRIES = (1 << 8, 1 << 14, 1 << 20)


def while_to_scan(rules: Rules, op: Any, known: KnownIntegers) -> Any | None:
    """Replaces a while with a known trip count by a scan; returns the scan, or ``None``.

    Args:
      known: the integers that are known around the loop.
    """
    loop = WhileOp.of(op)
    # Its effects are only such as naming axes of a mesh: `loops_of` gives no other loops.
    if loop.other.keys() - {"jaxpr.ctx", "jaxpr.effects", "jaxpr.parallel"}:
        return None
    of_cond, of_body, init = loop.operands(list(op.operands))
    if not init:
        return None
    length = _trip_count(rules, loop, of_cond, init, known)
    if length is None:
        return None
    remark(op, f"replaced by a scan: the loop runs {length} times")
    scan = ScanOp(loop.body, len(of_body), len(init), length, False, loop.other)
    with ir.InsertionPoint(op), op.location:
        results = scan.write(rules, [*of_body, *init])
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()
    return results[0].owner.opview


def _trip_count(
    rules: Rules, loop: WhileOp, of_cond: list[ir.Value], init: list[ir.Value], known: KnownIntegers
) -> int | None:
    """The number of times that the body runs; ``None`` unless known counters determine it."""
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
        arrays = dict(fixed)
        for arg, start, step in running:
            values = counted(start, step, count)
            if values is not None:
                arrays[arg] = values
        (outcome,) = returned(cond)
        holds = KnownIntegers(arrays, 1).get(outcome)
        if holds is None:
            return None
        holds = np.broadcast_to(holds, (count,))
        if not holds.all():
            return int(np.argmin(holds))
    return None

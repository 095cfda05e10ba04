"""Counters that nobody needs any more are not carried, or are slices of what they would be."""

from __future__ import annotations

import numpy as np

from jaxmlir.dialect.builder import build, filled, is_used
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.raise_loops.known import Known, affine, vector
from jaxmlir.optimize.loops.scan_editor import Carried, ScanEditor, Sliced
from jaxmlir.transforms.higher_order.loops import stacked


def drop_counters(editor: ScanEditor, known: Known) -> int:
    """Takes counters out of the carry of a scan that then carries less; how many.

    A counter that the body looks at becomes a slice, if nothing but counters is carried.
    """
    found = [(item, v) for item in editor.carry if (v := _values(editor, item, known)) is not None]
    only_counters = len(found) == len(editor.carry)
    count = 0
    for item, values in found:
        looked_at = _is_looked_at(editor, item)
        if looked_at and not only_counters:
            continue
        _drop(editor, item, values, looked_at)
        count += 1
    return count


def _values(editor: ScanEditor, item: Carried, known: Known) -> np.ndarray | None:
    """What a counter is in each iteration and after the last, in order."""
    numbers = vector(known, item.arg, editor.scan.length)
    if numbers is None:
        return None
    ordered = numbers[::-1] if editor.scan.reverse else numbers
    found = affine(ordered)
    dtype = aval_of(item.arg.type).dtype
    if found is None or len(ordered) < 2 or tuple(aval_of(item.arg.type).shape):
        return None
    last = ordered[-1] + found[1]
    limits = np.iinfo(dtype)
    if not limits.min <= last <= limits.max:
        return None
    return np.append(ordered, last).astype(dtype)


def _is_looked_at(editor: ScanEditor, item: Carried) -> bool:
    out = editor.out(item)
    users = {use.owner for use in item.arg.uses}
    return any(user.operation != out.owner for user in users) or _is_returned(editor, item)


def _is_returned(editor: ScanEditor, item: Carried) -> bool:
    """Whether the next value of the counter is more than that."""
    return len(list(editor.out(item).uses)) > 1


def _drop(editor: ScanEditor, item: Carried, values: np.ndarray, looked_at: bool) -> None:
    type_ = item.arg.type
    with ir.InsertionPoint(editor.op), editor.op.location:
        if is_used(item.result):
            attributes = {"value": dense(np.array(values[-1]))}
            last = ir.Operation.create("jaxpr.constant", [item.result.type], [], attributes)
            item.result.replace_all_uses_with(last.result)
        if looked_at:
            argument = editor.new_argument(type_)
            rows = _iota(values[:-1], stacked(type_, editor.scan.length), editor.scan.reverse)
            item.arg.replace_all_uses_with(argument)
            editor.xs.append(Sliced(rows, argument))
    editor.carry.remove(item)


def _iota(values: np.ndarray, type_: ir.Type, reverse: bool) -> ir.Value:
    """The values, evenly spaced, as an array."""
    ordered = values[::-1] if reverse else values
    aval = aval_of(type_)
    start, step = int(ordered[0]), int(ordered[1]) - int(ordered[0])
    value = build("iota", [], type_, dimension=0, dtype=aval.dtype, shape=tuple(aval.shape))
    for name, number, neutral in (("mul", step, 1), ("add", start, 0)):
        if number != neutral:
            # Of unsigned integers, a step down is one around all of them.
            wrapped = int(np.array(number).astype(aval.dtype))
            value = build(name, [value, filled(type_, wrapped)], type_)
    return value

"""Integers that are known for every iteration of a loop before it runs: counters and what is
computed from them.

A value of a loop's body is known as an array with one axis for each loop around it, outermost
first, of size 1 where it does not depend on that loop, and then the value's own axes.  So an index
``3 * i + j`` of two loops is a matrix, and whether it stays in bounds is a look at its extremes.

Few values are asked for, so each is computed, with what it depends on, when it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute, build, filled, is_used, returned, symbols_of
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import body_of, func, ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.scan_editor import Carried, ScanEditor, Sliced
from jaxmlir.optimize.simplify.canonicalize.control import ANY, INTEGERS
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp, stacked
from jaxmlir.transforms.templates import Rules

MAX_ELEMENTS = 1 << 20
"""Larger arrays of known integers are not looked at."""


Bounds = tuple[int, int]


class Known:
    """The integers and booleans of a function that follow from its constants and some that are
    given.

    Attributes:
      depth: how many loops there are around it.
    """

    def __init__(self, given: Mapping[ir.Value, np.ndarray], depth: int):
        self.depth = depth
        self._known = dict(given)
        self._unknown: set[ir.Value] = set()
        self._bounds: dict[ir.Value, Bounds] = {}

    def __contains__(self, value: ir.Value) -> bool:
        return self.get(value) is not None

    def __getitem__(self, value: ir.Value) -> np.ndarray:
        return self._known[value]

    def get(self, value: ir.Value) -> np.ndarray | None:
        """A value's array, if it is known."""
        known, unknown = self._known, self._unknown
        found = known.get(value)
        if found is not None or value in unknown or not _can_be_known(value.type):
            return found
        pending = [value]
        while pending:
            v = pending[-1]
            missing = () if v in known or v in unknown else self._look_at(v)
            if missing:
                pending += missing
            else:
                pending.pop()
        return known.get(value)

    def bounds(self, value: ir.Value) -> Bounds | None:
        """The least and the greatest number that a scalar is in any iteration, if it is known."""
        found = self._bounds.get(value)
        if found is None and (array := self.get(value)) is not None:
            found = self._bounds[value] = bounds_of(array)
        return found

    def _look_at(self, value: ir.Value) -> list[ir.Value]:
        """Looks at the op that gives a value; the operands that have to be looked at before."""
        op, found = value.owner, None
        handler = None if isinstance(op, ir.Block) else _HANDLERS.get(op.name)
        if handler is not None and _can_be_known(value.type):
            operands = list(op.operands)
            missing = [v for v in operands if v not in self._known]
            if missing and self._unknown.isdisjoint(missing):
                return missing
            if not missing:
                arrays = [self._known[v] for v in operands]
                found = handler(op, arrays, aval_of(value.type), self.depth)
        if found is None or found.size > MAX_ELEMENTS or _is_huge(found):
            self._unknown.add(value)
        else:
            self._known[value] = found
        return []

    def give(self, value: ir.Value, array: np.ndarray) -> None:
        """Learns a value."""
        self._known[value] = array
        self._unknown.clear()

    def changed(self) -> None:
        """Takes note of new ops, and of ops that are gone, of which nothing was known."""
        self._unknown.clear()


def bounds_of(array: np.ndarray) -> Bounds:
    """The least and the greatest of some numbers; 0 of none, where no iteration runs."""
    if array.size > 1:
        return int(array.min()), int(array.max())
    # As most are, of which NumPy's functions take ten times as long.
    number = int(array.item()) if array.size else 0
    return number, number


def _is_huge(array: np.ndarray) -> bool:
    """Whether there are numbers that signed integers of 64 bits, as positions are, cannot hold."""
    return array.dtype == np.uint64 and array.size > 0 and bool(array.max() > _LIMITS.max)


_LIMITS = np.iinfo(np.int64)


def counted(start: np.ndarray, step: int, length: int) -> np.ndarray | None:
    """The values of a counter in ``length`` iterations, along a new last axis; ``None`` where they
    are too many, or leave the range of its type, or of signed integers."""
    if start.size * length > MAX_ELEMENTS:
        return None
    if length < 2 or not start.size:
        return start[..., None] + np.zeros(length, start.dtype)
    least, greatest = bounds_of(start)
    travel, info = step * (length - 1), np.iinfo(start.dtype)
    if min(least, least + travel) < max(info.min, _LIMITS.min):
        return None
    if max(greatest, greatest + travel) > min(info.max, _LIMITS.max):
        return None
    return (start[..., None].astype(np.int64) + step * np.arange(length)).astype(start.dtype)


def room(start: int, step: int, dtype: np.dtype) -> int | None:
    """The number of iterations for which a counter stays in the range of :func:`counted`; ``None``
    if that is no limit."""
    if not step:
        return None
    info = np.iinfo(dtype)
    end = min(info.max, _LIMITS.max) if step > 0 else max(info.min, _LIMITS.min)
    return max((end - start) // step + 1, 0)


class Contexts:
    """The known values of each function of a program."""

    def __init__(self, program: Module, graph: CallGraph):
        self._program = program
        # The scan that a function is the body of, and the function that it is in.
        callers: dict[str, list[tuple[str, Any]]] = {}
        for symbol, ops in graph.ops.items():
            for op, name in ops if graph.uses[symbol] else ():
                if may_have_functions(name):
                    for callee in symbols_of(op):
                        callers.setdefault(callee, []).append((symbol, op))
        self._callers = {
            symbol: found[0]
            for symbol, found in callers.items()
            if len(found) == 1 and found[0][1].operation.name == "jaxpr.scan"
        }
        self._found: dict[str, tuple[Known, int]] = {}

    def of(self, symbol: str) -> tuple[Known, int]:
        """The known values of a function, and how many loops are around it."""
        if symbol not in self._found:
            self._found[symbol] = self._of(symbol)
        return self._found[symbol]

    def _of(self, symbol: str) -> tuple[Known, int]:
        function = self._program.function(symbol)
        if symbol not in self._callers or not is_private(function):
            return Known({}, 0), 0
        outer, op = self._callers[symbol]
        known, depth = self.of(outer)
        return in_body(ScanOp.of(op), function, list(op.operands), known, depth), depth + 1


def in_body(
    scan: ScanOp, body: func.FuncOp, operands: Sequence[ir.Value], outer: Known, depth: int
) -> Known:
    """The known values of the body of a scan.

    Args:
      body: as it is now; its first arguments are those of the scan.
      operands: of the scan.
      outer: the known values of the function that it is in, which has ``depth`` loops around it.
    """
    groups = zip(scan.operands(operands), scan.operands(list(body_of(body).arguments)), strict=True)
    consts, carry, xs = (list(zip(*group, strict=True)) for group in groups)
    given: dict[ir.Value, np.ndarray] = {}
    for operand, arg in consts:
        if (array := outer.get(operand)) is not None:
            given[arg] = np.expand_dims(array, depth)
    for operand, arg in xs:
        if (array := outer.get(operand)) is not None:
            # The first axis of the value is that of the loop.
            given[arg] = array
    known = Known(given, depth + 1)
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


def _step(arg: ir.Value, out: ir.Value, known: Known) -> int | None:
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
    """The step of a carried value, in a body of which nothing else is known."""
    return _step(arg, out, Known({}, 0)) if is_integer(arg) else None


def is_integer(value: ir.Value) -> bool:
    """Whether a value is a scalar integer."""
    aval = aval_of(value.type)
    dtype = getattr(aval, "dtype", None)
    return getattr(aval, "shape", None) == () and getattr(dtype, "kind", "") in "iu"


@functools.cache
def _can_be_known(type_: ir.Type) -> bool:
    """Whether values of a type are integers or booleans, and not too many."""
    aval = aval_of(type_)
    if getattr(getattr(aval, "dtype", None), "kind", "O") not in "iub":
        return False
    return all(type(d) is int for d in aval.shape) and math.prod(aval.shape) <= MAX_ELEMENTS


def _rank(array: np.ndarray, depth: int) -> int:
    return array.ndim - depth


def _aligned(arrays: list[np.ndarray], depth: int) -> list[np.ndarray]:
    """Scalars with as many axes of their own as the other operands."""
    ranks = {_rank(a, depth) for a in arrays}
    if len(ranks) == 1:
        return arrays
    rank = max(ranks)
    return [a.reshape(a.shape + (1,) * (rank - _rank(a, depth))) for a in arrays]


def _spread(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array in a larger shape; most have it, and to ask costs less than to do it."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _elementwise(function: Callable[..., Any]) -> Callable[..., np.ndarray | None]:
    def handler(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
        arrays = _aligned(arrays, depth)
        if any(a.dtype.kind == "b" for a in arrays) and function not in _LOGICAL:
            return None
        if math.prod(a.size for a in arrays) > MAX_ELEMENTS:
            if np.broadcast(*arrays).size > MAX_ELEMENTS:
                return None
        with np.errstate(all="ignore"):
            found = function(*arrays)
        return found if found is not None and found.dtype == aval.dtype else None

    return handler


_LOGICAL = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.equal, np.not_equal)


def _constant(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    attributes = op.attributes
    if "value" not in attributes or not isinstance(attributes["value"], ir.DenseElementsAttr):
        return None
    array = codec.decode(attributes["value"])
    return array.reshape((1,) * depth + array.shape)


def _iota(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    if arrays:
        return None
    axis = attribute(op, "dimension")
    array = np.arange(aval.shape[axis], dtype=aval.dtype)
    array = array.reshape([-1 if d == axis else 1 for d in range(len(aval.shape))])
    return np.broadcast_to(array, aval.shape).reshape((1,) * depth + aval.shape)


def _broadcast(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    (x,) = arrays[:1]
    axes = x.shape[:depth]
    if len(arrays) > 1 or math.prod(axes) * math.prod(aval.shape) > MAX_ELEMENTS:
        return None
    mapped = attribute(op, "broadcast_dimensions")
    shape = [1] * len(aval.shape)
    for d, size in zip(mapped, x.shape[depth:], strict=True):
        shape[d] = size
    return _spread(x.reshape((*axes, *shape)), (*axes, *aval.shape))


def _reshape(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    if len(arrays) > 1 or attribute(op, "dimensions") is not None and op.name == "jaxpr.reshape":
        return None
    return arrays[0].reshape((*arrays[0].shape[:depth], *aval.shape))


def _convert(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    found = arrays[0].astype(aval.dtype)
    return found if np.array_equal(found, arrays[0]) else None


def _select(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    which, *cases = _aligned(arrays, depth)
    if len(cases) != 2 or np.broadcast(which, *cases).size > MAX_ELEMENTS:
        return None
    return np.where(which, cases[1], cases[0]).astype(aval.dtype)


def _slice(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    bounds = zip(
        attribute(op, "start_indices"),
        attribute(op, "limit_indices"),
        attribute(op, "strides") or (1,) * len(aval.shape),
        strict=True,
    )
    return arrays[0][(..., *(slice(a, b, s) for a, b, s in bounds))]


def _rev(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    return np.flip(arrays[0], tuple(depth + d for d in attribute(op, "dimensions")))


def _concatenate(op: Any, arrays: list[np.ndarray], aval: Any, depth: int) -> np.ndarray | None:
    axes = {a.shape[:depth] for a in arrays}
    shape = (*(axes.pop() if len(axes) == 1 else np.broadcast_shapes(*axes)), *aval.shape)
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    # A piece is spread out where it is put: to do that before takes longer than all the rest.
    found = np.empty(shape, aval.dtype)
    axis = depth + attribute(op, "dimension")
    place = [slice(None)] * len(shape)
    end = 0
    for a in arrays:
        place[axis] = slice(end, end := end + a.shape[axis])
        found[tuple(place)] = a
    return found


_HANDLERS: dict[str, Callable[..., np.ndarray | None]] = {
    **{f"jaxpr.{name}": _elementwise(f) for name, f in (ANY | INTEGERS).items()},
    "jaxpr.constant": _constant,
    "jaxpr.iota": _iota,
    "jaxpr.broadcast_in_dim": _broadcast,
    "jaxpr.reshape": _reshape,
    "jaxpr.squeeze": _reshape,
    "jaxpr.convert_element_type": _convert,
    "jaxpr.select_n": _select,
    "jaxpr.slice": _slice,
    "jaxpr.rev": _rev,
    "jaxpr.concatenate": _concatenate,
}


def vector(known: Known, value: ir.Value, length: int) -> np.ndarray | None:
    """A scalar of a body as an array over its iterations, if it depends on no loop outside."""
    array = known.get(value)
    # Of a loop outside that has no iteration, there is none.
    if array is None or not array.ndim or not array.size:
        return None
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) > 1 and not (rows == rows[:1]).all():
        return None
    return _spread(rows[0], (length,)).astype(np.int64)


def affine(numbers: np.ndarray) -> tuple[int, int] | None:
    """``(start, step)`` of evenly spaced numbers."""
    if not len(numbers):
        return None
    steps = np.diff(numbers)
    if len(steps) and not (steps == steps[0]).all():
        return None
    return int(numbers[0]), int(steps[0]) if len(steps) else 1


# -- Counters that nobody needs any more are not carried, or are slices of what they would be --


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
    """The values of a counter in each iteration and after the last, in order."""
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
            rows = _counters_iota(
                values[:-1], stacked(type_, editor.scan.length), editor.scan.reverse
            )
            item.arg.replace_all_uses_with(argument)
            editor.xs.append(Sliced(rows, argument))
    editor.carry.remove(item)


def _counters_iota(values: np.ndarray, type_: ir.Type, reverse: bool) -> ir.Value:
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


# -- Whiles that run as often as is known beforehand, as scans --


# The condition is evaluated for as many iterations as this at once, before it is for more; and for
# those in which a counter of few bits stays in its range.
_TRIES = (1 << 8, 1 << 14, 1 << 20)


def while_to_scan(rules: Rules, op: Any, known: Known) -> Any | None:
    """The scan that takes the place of a while of known length, or ``None``.

    Args:
      known: the integers that are known around it.
    """
    loop = WhileOp.of(op)
    # Of effects it has such as which axes of a mesh are named: `loops_of` gives no other loops.
    if loop.other.keys() - {"jaxpr.ctx", "jaxpr.effects", "jaxpr.parallel"}:
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
    """The number of times that the body runs; ``None`` unless it follows from counters alone."""
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

"""Loops whose trip count is a symbolic dimension: a ``while`` back to a ``scan``.

JAX lowers a ``scan`` to a ``while`` that counts from 0 to the length. It slices the scanned arrays
at the counter, forwards or backwards, and writes the stacked results there. If the length is a
number, ``jaxpr-raise-loops`` recognises this by checking the positions one by one. Here only the
form can tell, which is JAX's:

    while i < n: x = dynamic_slice(xs, i); c, y = f(c, x); ys = dynamic_update_slice(ys, y, i)
    == scan(f, c, xs, length=n)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import number_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import drop_dead_ops, is_used, set_results, symbol_ref
from jaxmlir.dialect.ir import body_of, functions, ir
from jaxmlir.raising.sizes import settled
from jaxmlir.raising.source import defining_op, end_of, shape_of, tensor
from jaxmlir.raising.writer import BodyWriter, Values


def scanned(
    w: BodyWriter, cond: str, body: str, consts: Sequence[Values], carry: list[ir.Value]
) -> Values | None:
    """The results of a loop of written functions, as a ``scan`` if its length is symbolic; ``None``
    for another loop.

    Args:
      consts: the constants of the condition and of the body.
    """
    symbol_table = functions(w.raising.importer.module)
    counted = _counted(w, body_of(symbol_table[cond]), *consts, carry)
    if counted is None:
        return None
    counter, length = counted
    loop = _CountedLoop(w, symbol_table[body], len(consts[1]), counter, length)
    if loop.counts_by != 1:
        return None
    xs, ys = loop.scan()
    carried = [k for k in range(len(carry)) if k not in ys]
    numbers = {"num_consts": len(consts[1]) - len(xs), "num_carry": len(carried)}
    results = w.emit(
        "scan",
        [
            *(v for k, v in enumerate(consts[1]) if k not in xs),
            *(carry[k] for k in carried),
            *(consts[1][k] for k in xs),
        ],
        [carry[k].type for k in (*carried, *ys)],
        jaxpr=symbol_ref(body),
        length=length,
        **{name: number for name, number in numbers.items() if number},
        **({"reverse": True} if loop.backwards else {}),
    )
    by_place = dict(zip((*carried, *ys), results, strict=True))
    return [by_place[k] for k in range(len(carry))]


def _counted(
    w: BodyWriter, test: ir.Block, of_test: Values, of_body: Values, carry: list[ir.Value]
) -> tuple[int, Any] | None:
    """The index of the carry that counts from 0 to a symbolic dimension, and that dimension."""
    (result,) = end_of(test).operands
    op = defining_op(result, "jaxpr.lt")
    if op is None:
        return None
    arguments = list(test.arguments)
    counter, limit = op.operands
    if counter not in arguments[len(of_test) :]:
        return None
    length = _size(limit)
    if limit in arguments[: len(of_test)]:
        bound = w.known(of_test[arguments.index(limit)])
        (length,) = (None if bound is None else settled(bound)) or (None,)
    if length is None or core.is_constant_dim(length):
        return None
    place = arguments.index(counter) - len(of_test)
    start = w.known(carry[place])
    return None if start is None or settled(start) != (0,) else (place, length)


class _CountedLoop:
    """The body of a loop that counts up to a symbolic length."""

    def __init__(self, w: BodyWriter, function: Any, n_consts: int, counter: int, length: Any):
        self.writer, self.function = w, function
        self.block = body_of(function)
        arguments = list(self.block.arguments)
        self.consts, self.carry = arguments[:n_consts], arguments[n_consts:]
        self.index = self.carry[counter]
        self.length = length
        self.results = list(end_of(self.block).operands)
        step = self._place(self.results[counter])
        self.counts_by = step[1] if step is not None and step[0] == 1 else None
        self.backwards = False

    def scan(self) -> tuple[list[int], list[int]]:
        """Turns the body into a scan body. Returns the indices of the constants that become slices
        (xs), and of the carries that become stacked results (ys)."""
        xs, ys = self._accesses()
        if not (xs or ys):
            self.backwards = True
            xs, ys = self._accesses()
            self.backwards = bool(xs or ys)
        for slices in xs.values():
            self._take(slices)
        stacked = [self._row(update) for update in ys.values()]
        set_results(self.function, [v for k, v in enumerate(self.results) if k not in ys] + stacked)
        drop_dead_ops(self.function)
        n = len(self.consts)
        for k in sorted([*xs, *(n + k for k in ys)], reverse=True):
            self.block.erase_argument(k)
        set_results(self.function, list(end_of(self.block).operands))
        return list(xs), list(ys)

    def _accesses(self) -> tuple[dict[int, list[Any]], dict[int, Any]]:
        """The slices of each constant that is only sliced, and the update of each carried array
        that is only updated by slices."""
        xs = {}
        for k, value in enumerate(self.consts):
            users = [use.owner.operation for use in value.uses]
            if users and all(self._is_slice(op, value) for op in users):
                xs[k] = users
        ys = {}
        for k, value in enumerate(self.carry):
            update = defining_op(self.results[k], "jaxpr.dynamic_update_slice")
            if update is None or [use.owner.operation for use in value.uses] != [update]:
                continue
            used = len(list(update.result.uses)) > 1
            array, row, *starts = update.operands
            if not used and array == value and self._is_row(shape_of(row), value, starts):
                ys[k] = update
        return xs, ys

    def _is_slice(self, op: Any, value: ir.Value) -> bool:
        if op.name != "jaxpr.dynamic_slice" or op.operands[0] != value:
            return False
        return self._is_row(shape_of(op.result), value, list(op.operands)[1:])

    def _is_row(self, row: Sequence[Any], value: ir.Value, starts: Values) -> bool:
        """Whether a slice is the row of the array that belongs to the iteration."""
        shape = shape_of(value)
        first, *others = map(self._place, starts)
        here = (-1, self.length - 1) if self.backwards else (1, 0)
        return (
            shape[0] == self.length
            and tuple(row) == (1, *shape[1:])
            and first == here
            and all(other == (0, 0) for other in others)
        )

    def _place(self, value: ir.Value, depth: int = 4) -> tuple[int, Any] | None:
        """The factor of the counter in a number, and the rest: ``(-1, n - 1)`` of ``n - i - 1``."""
        if value == self.index:
            return 1, 0
        size = _size(value)
        if size is not None:
            return 0, size
        for name, sign in (("jaxpr.add", 1), ("jaxpr.sub", -1)):
            op = defining_op(value, name)
            if op is not None and depth:
                a, b = (self._place(v, depth - 1) for v in op.operands)
                return None if a is None or b is None else (a[0] + sign * b[0], a[1] + sign * b[1])
        return None

    def _take(self, slices: list[Any]) -> None:
        """Replaces slices in the body by a new argument."""
        first = slices[0].result
        row = tensor(shape_of(first)[1:], first.type.element_type)
        argument = self.block.add_argument(row, ir.Location.unknown())
        for op in slices:
            for user in [use.owner.operation for use in op.result.uses]:
                if user.name == "jaxpr.reshape" and user.result.type == row:
                    user.result.replace_all_uses_with(argument)
            if is_used(op.result):
                with ir.InsertionPoint(op):
                    whole = self.writer.reshape(argument, shape_of(op.result))
                op.result.replace_all_uses_with(whole)
        self.results = list(end_of(self.block).operands)

    def _row(self, update: Any) -> ir.Value:
        """The row that an update writes, without the dimension of the iterations."""
        row = update.operands[1]
        type_ = tensor(shape_of(row)[1:], row.type.element_type)
        for name in ("jaxpr.broadcast_in_dim", "jaxpr.reshape"):
            op = defining_op(row, name)
            if op is not None and op.operands[0].type == type_:
                return op.operands[0]
        with ir.InsertionPoint(update):
            return self.writer.reshape(row, shape_of(row)[1:])


def _size(value: ir.Value) -> Any | None:
    """The number or symbolic dimension that a scalar in a written function is."""
    for name in ("jaxpr.convert_element_type", "jaxpr.reshape"):
        op = defining_op(value, name)
        if op is not None:
            return _size(op.operands[0])
    op = defining_op(value, "jaxpr.dim_as_value")
    if op is not None:
        return codec.decode(op.attributes["dim"])
    number = number_of(value)
    return int(number) if number is not None and number.dtype.kind in "iu" else None

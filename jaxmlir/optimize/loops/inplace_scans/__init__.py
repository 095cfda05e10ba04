"""``jaxpr-inplace-scans``: scans read and write the rows of arrays where they are.

What a scan goes over is one array whose rows are the steps, and so is what it gives.  A part of
another array, its reverse, or its columns are copied before the loop begins, and what becomes a
part of another array, or its columns, is copied after it::

    h, ys = scan(f, h, xs[:, 1:].T)
    zs = concatenate([y0[:, None], ys.T], 1)

Here the loop counts, and each step reads its row from the whole array, and writes one to where it
stays.  That is what XLA makes of the rows of a scan anyway::

    def step((h, i, zs)):
        h, y = f(h, xs[:, i + 1])
        return h, i + 1, zs.at[:, i + 1].set(y)

    h, _, zs = scan(step, (h, 0, concatenate([y0[:, None], zeros], 1)))

so that nothing is copied.  It is done where loops are all that read the parts, and where what is
written has no other use; and if a row is not in too many pieces for the cache (:mod:`._view`).
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.analysis.call_graph import SCANS, CallGraph, visit_functions
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.liveness import count_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_array
from jaxmlir.dialect.builder import build, drop_dead_ops, erase, filled
from jaxmlir.dialect.ir import body_of, func, ir, scope
from jaxmlir.dialect.types import type_of
from jaxmlir.optimize.loops.inplace_scans.view import Place, View
from jaxmlir.optimize.loops.scan_editor import (
    Carried,
    Constant,
    LoopEditor,
    ScanEditor,
    can_change,
    loops_of,
)
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.clone_plan import ClonePlan, is_model
from jaxmlir.transforms.edit import before_return
from jaxmlir.transforms.higher_order.scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class InplaceScans(Pass):
    """Let scans read parts of arrays where they are, and write them to where they will be."""

    name: ClassVar[str] = "jaxpr-inplace-scans"
    compilers: ClassVar = ("cpu",)

    def run(self, program: Module) -> bool:
        return scan_in_place(program) > 0


def scan_in_place(program: Module) -> int:
    """Has scans read and write in place; how many arrays are not copied any more."""
    with scope():
        graph = analyses_of(program).graph
        scans = _Scans(program, graph)
        visit_functions(program, scans.visit, graph, SCANS, scans.uses)
    return scans.count


class _Loop(NamedTuple):
    """A scan that is to read and write in place.

    Attributes:
      views: what is read in place of each slice.
      places: where each stacked result is written to.
    """

    op: Any
    scan: ScanOp
    operands: list[list[ir.Value]]
    results: list[list[ir.Value]]
    views: list[View | None]
    places: list[Place | None]

    @property
    def likeness(self) -> Hashable:
        """What decides, besides its body, what becomes of it."""
        scan = self.scan
        return (
            (*scan.counts, scan.length, scan.reverse, *scan.other.items(), self.op.location.attr),
            tuple([view and view.shape for view in self.views]),
            tuple([place and place.view.shape for place in self.places]),
        )


class _Edited(NamedTuple):
    """How a scan was written anew: also those whose bodies are alike are.

    Attributes:
      pattern: the body.
      types: of its results.
      consts, xs: which constants, also arrays that are read, and which slices it takes.
    """

    pattern: ClonePlan
    types: list[ir.Type]
    consts: list[bool]
    xs: list[bool]


class _Scans:
    """The scans of a program."""

    def __init__(self, program: Module, graph: CallGraph):
        self._program = program
        self._bodies = LoopEditor(Rules(program), graph)
        # Of the function's values, which may be read by as many scans as there are: what
        # :meth:`_view` gives.
        self._views: dict[ir.Value, View | None] = {}
        # What functions refer to, of those that are as they were read or copies of others.
        self.uses = graph.uses_in(program)
        self._edited: dict[Hashable, _Edited] = {}
        self.count = 0

    def visit(self, function: func.FuncOp) -> bool:
        """Has the scans of a function read and write in place; whether any do so now."""
        before = self.count
        self._views.clear()
        for op, name in loops_of(function):
            if name == "jaxpr.scan":
                self._in_place(op)
        if self.count > before:
            drop_dead_ops(function)
            self.uses.pop(function.name.value, None)
        return self.count > before

    def _in_place(self, op: Any) -> None:
        scan = ScanOp.of(op)
        if not scan.is_counted or scan.length < 2 or not scan.other.keys() <= PLAIN_SCAN:
            return
        operands, results = scan.operands(list(op.operands)), scan.results(list(op.results))
        views = [self._view(v) for v in operands[2]]
        places = [_place(v, op) for v in results[1]]
        loop = _Loop(op, scan, operands, results, views, places)
        function = self._program.function(scan.body)
        read, written = (sum(x is not None for x in group) for group in (views, places))
        if not (read or written) or not can_change(function):
            return
        self.count += read + written
        remark(op, f"arrays read in place: {read}, written in place: {written}")
        body = analyses_of(self._program).one_of_many(scan.body)
        key = body and (loop.likeness, body.likeness)
        known = self._edited.get(key)
        if known is not None:
            self._edit_like(known, loop, body)
        elif body is not None and is_model(body):
            self._edited[key] = self._edit(loop, body)
        else:
            self._edit(loop)
        for place in places:
            if place is not None:
                place.erase()
                # Others may have been read by what is gone.
                self._views.clear()
        erase(op)

    def _edit(self, loop: _Loop, body: FunctionView | None = None) -> _Edited | None:
        """Writes the op and its body anew; how, for others that are like it.

        Args:
          body: as it was, if others may be.
        """
        op = loop.op
        editor = ScanEditor(self._bodies, op, loop.scan)
        self.uses.pop(editor.body.name.value, None)
        first = next(iter(body_of(editor.body).operations))
        counter = _Counter(editor)
        for item, view in zip(editor.xs, loop.views, strict=True):
            if view is not None:
                array = Constant(view.array, editor.new_argument(view.array.type))
                editor.consts.append(array)
                index = counter.along(view)
                with counter.behind(), op.location:
                    item.arg.replace_all_uses_with(view.row(array.arg, index))
        for item, place in zip(list(editor.ys), loop.places, strict=True):
            if place is not None:
                init = place.prepared(editor.rules, op)
                argument = editor.new_argument(init.type)
                index = counter.along(place.view)
                with before_return(editor.body), op.location:
                    after = place.view.with_row(argument, index, editor.out(item))
                editor.ys.remove(item)
                editor.carry.append(Carried(init, argument, after, place.view.array))
        before = editor.consts, editor.xs
        editor.write()
        if body is None:
            return None
        # Since each op has kept its users, what is new is before and behind them.
        start = list(body_of(editor.body).operations).index(first)
        sources = [*[None] * start, *range(len(body.ops))]
        return _Edited(
            ClonePlan(editor.body, body.signatures, sources),
            list(editor.body.type.results),
            [item in editor.consts for item in before[0]],
            [item in editor.xs for item in before[1]],
        )

    def _edit_like(self, known: _Edited, loop: _Loop, body: FunctionView) -> None:
        """Writes an op and its body as others were that are alike."""
        op, scan, rules = loop.op, loop.scan, self._bodies.rules
        symbol = self._bodies.own_like(scan.body, known.pattern, body.signatures, self.uses)
        (consts, carry, xs), (final, rows) = loop.operands, loop.results
        places = [place for place in loop.places if place is not None]
        consts = [*consts, *(view.array for view in loop.views if view is not None)]
        carry = [*carry, _first_number(op, scan), *(place.prepared(rules, op) for place in places)]
        args = [*chosen(consts, known.consts), *carry, *chosen(xs, known.xs)]
        new = scan.with_body(symbol, sum(known.consts), len(carry))
        with ir.InsertionPoint(op), op.location:
            results = new.write(rules, args, known.types)
        rows = [v for v, place in zip(rows, loop.places, strict=True) if place is None]
        olds = [*final, None, *(place.view.array for place in places), *rows]
        for old, value in zip(olds, results, strict=True):
            if old is not None:
                old.replace_all_uses_with(value)

    def _view(self, value: ir.Value) -> View | None:
        """The array that a value is better read from, where loops are all that read it."""
        if value not in self._views:
            view = View.of(value) if is_plain_array(value.type) else None
            pays = view is not None and view.array != value and view.pays_to_read
            self._views[value] = view if pays and all(map(_is_scanned, value.uses)) else None
        return self._views[value]


def _place(value: ir.Value, op: Any) -> Place | None:
    """Where a stacked result ends up, if it is better written there."""
    if not is_plain_array(value.type):
        return None
    place = Place.of(value, op)
    return place if place.ops and place.view.pays_to_write else None


def _is_scanned(use: ir.OpOperand) -> bool:
    """Whether an op reads a value as what it goes over."""
    op = use.owner
    if op.operation.name != "jaxpr.scan":
        return False
    return use.operand_number >= count_of(op, "num_consts") + count_of(op, "num_carry")


class _Counter:
    """The number of the step, in the body of a loop; the last step first, if it runs backwards."""

    def __init__(self, editor: ScanEditor):
        self._block, self._location = body_of(editor.body), editor.op.location
        self._indices: dict[tuple[int, int], ir.Value] = {}
        type_, by = _number_type(), -1 if editor.scan.reverse else 1
        init = _first_number(editor.op, editor.scan)
        self._step = editor.new_argument(type_)
        with ir.InsertionPoint.at_block_begin(self._block), self._location:
            after = build("add", [self._step, filled(type_, by)], type_)
        self._last = after.owner
        editor.carry.append(Carried(init, self._step, after))

    def along(self, view: View) -> ir.Value:
        """Where the row of the step is along the array that it is in."""
        start, by = view.starts[view.along], view.steps[view.along]
        index = self._indices.get((start, by))
        if index is None:
            index = self._step
            with self.behind(), self._location:
                if by != 1:
                    index = build("mul", [index, filled(index.type, by)], index.type)
                if start:
                    index = build("add", [index, filled(index.type, start)], index.type)
            self._indices[start, by] = index
            if index != self._step:
                self._last = index.owner
        return index

    def behind(self) -> ir.InsertionPoint:
        """Where all indices are known that were asked for, and nothing has been done with them."""
        return ir.InsertionPoint.after(self._last)


def _first_number(op: Any, scan: ScanOp) -> ir.Value:
    """Of the step, before the loop."""
    with ir.InsertionPoint(op), op.location:
        return filled(_number_type(), scan.length - 1 if scan.reverse else 0)


@functools.cache
def _number_type() -> ir.Type:
    return type_of(core.ShapedArray((), np.dtype(np.int32)))

"""``jaxpr-inplace-scans``: scans read and write the rows of larger arrays in place.

A scan takes slices that are the rows of one array, and stacks its results as rows of one array.  If
the slices are a part of another array, its reverse, or its columns, they are copied before the
loop.  If the results become a part of another array, or its columns, they are copied after it::

    h, ys = scan(f, h, xs[:, 1:].T)
    zs = concatenate([y0[:, None], ys.T], 1)

The pass adds a counter to the loop.  Each step then reads its row from the whole array, and writes
its result to the final place.  XLA compiles the rows of a scan to such accesses anyway::

    def step((h, i, zs)):
        h, y = f(h, xs[:, i + 1])
        return h, i + 1, zs.at[:, i + 1].set(y)

    h, _, zs = scan(step, (h, 0, concatenate([y0[:, None], zeros], 1)))

so that nothing is copied.  The pass does so where only loops read the parts, and where the stacked
results have no other use; and if the contiguous pieces of memory of a row fill cache lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxmlir import toolbox
from jaxmlir.analysis.call_graph import SCANS, CallGraph
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.liveness import count_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import elements, is_plain_array, size
from jaxmlir.analysis.strided_view import VIEWS, StridedView, unit_dims
from jaxmlir.dialect.builder import build, copy, drop_dead_ops, erase, filled, reshaped
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import scalar_type, with_shape
from jaxmlir.optimize.loops.scan_editor import (
    CarriedValue,
    ConstantOperand,
    LoopEditor,
    ScanEditor,
    can_change,
    loops_of,
)
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import visit_functions
from jaxmlir.support.lazy import memoized
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.new_function import before_return
from jaxmlir.transforms.templates import Rules

# -- Views: arrays whose elements are elements of another array --


# The bytes of the shortest piece of memory that is accessed in place, a cache line.  Shorter pieces
# are better copied together.  Gradients with short pieces in place / copied, relative to `jax.jit`,
# jax 0.10 and 0.12: generalized advantages of 256 environments 1.12, 1.11 / 1.0, 0.92; a hidden
# Markov model of 10 states 1.12, 1.33 / 0.97, 1.09.
LINE = 64
# A value that XLA would fuse into its readers has to be materialized if rows are read from it: not
# if it has more than this many times the elements of the rows.
MOST = 2
# How many ops may move before a loop to make the array that it writes to: a first row, say.
MOST_SOONER = 16
# The ops that rows are read through.  Not splits: scans of 1,000 and 3,000 rows of 256 floats take
# 0.97 of the time and their gradients 1.05, on jax 0.10.
_MOVES = VIEWS - {"jaxpr.split", "jaxpr.unstack"}


class ViewRows(NamedTuple):
    """The rows of a view, along its first dimension.

    Attributes:
      along: the dimension of the array along which the rows follow one another.
      others: the dimensions of the array that are in a row, in the order of the row's dimensions.
    """

    view: StridedView

    @classmethod
    def of(cls, value: ir.Value) -> ViewRows:
        """The rows of a value, in the farthest array behind views that they can be read from."""
        rows = cls(StridedView.whole(value))
        while (view := rows.view.through(_MOVES)) is not None and cls(view).are_dense:
            rows = cls(view)
        return rows

    @property
    def along(self) -> int:
        return self.view.dims[0]

    @property
    def others(self) -> list[int]:
        return [d for d in self.view.dims[1:] if d is not None]

    @property
    def are_dense(self) -> bool:
        """Whether each row is a part of the array without gaps."""
        view = self.view
        return all(view.steps[d] == 1 or view.sizes[d] == 1 for d in self.others)

    @property
    def piece(self) -> int:
        """The bytes of each contiguous piece of memory of a row."""
        array, sizes = self.view.array, self._sizes
        bytes_ = size(with_shape(array.type, ()))
        for n, whole in zip(reversed(sizes), reversed(array.type.shape), strict=True):
            bytes_ *= n
            if n != whole:
                break
        return bytes_

    @property
    def would_be_copied(self) -> bool:
        """Whether reading all rows from the array saves a copy: not if XLA fuses the array's op and
        would compute only the elements of the rows."""
        array = self.view.array
        _, name = toolbox.definition(array) or (None, "")
        return name not in FUSIBLE or elements(array.type) <= MOST * math.prod(self.view.sizes)

    def read(self, array: ir.Value, index: ir.Value) -> ir.Value:
        """A row, at the insertion point.

        Args:
          array: the value of the array there.
          index: the position of the row in the array.
        """
        dims, sizes, others = self.view.dims[1:], self.view.sizes, self.others
        type_ = with_shape(array.type, self._sizes)
        row = build("dynamic_slice", [array, *self._indices(index)], type_, slice_sizes=self._sizes)
        row = reshaped(row, [sizes[d] for d in sorted(others)])
        row = _transposed(row, [sorted(others).index(d) for d in others])
        return reshaped(row, [1 if d is None else sizes[d] for d in dims])

    def write(self, array: ir.Value, index: ir.Value, row: ir.Value) -> ir.Value:
        """Writes a row, at the insertion point; returns the new array."""
        others = self.others
        row = reshaped(row, [self.view.sizes[d] for d in others])
        row = _transposed(row, [others.index(d) for d in sorted(others)])
        row = reshaped(row, self._sizes)
        return build("dynamic_update_slice", [array, row, *self._indices(index)], array.type)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(1 if d == self.along else n for d, n in enumerate(self.view.sizes))

    def _indices(self, index: ir.Value) -> list[ir.Value]:
        starts = enumerate(self.view.starts)
        return [index if d == self.along else filled(index.type, s) for d, s in starts]


class Destination(NamedTuple):
    """The array, and the place in it, where the rows of a value end up.

    Attributes:
      rows: the rows of the value, in that array.
      ops: the ops that move the value there, each with the number of its operand.
      sooner: the ops that have to move before the op that gives the value, in order: they compute
        the other parts of the array.
    """

    rows: ViewRows
    ops: tuple[tuple[Any, int], ...] = ()
    sooner: tuple[Any, ...] = ()

    @classmethod
    def of(cls, value: ir.Value, op: Any) -> Destination:
        """The place where a chain of ops, each the only user, puts a result of ``op``."""
        place = cls(ViewRows(StridedView.whole(value)))
        while (farther := place._through(op)) is not None and farther.rows.are_dense:
            place = farther
        return place

    @property
    def array(self) -> ir.Value:
        """The array that the rows are put in."""
        return self.rows.view.array

    def prepared(self, rules: Rules, op: Any) -> ir.Value:
        """Writes the array before ``op``, with arbitrary elements in the place of the value."""
        for other in self.sooner:
            # It may have been moved for another result of ``op`` already.
            if not other.is_before_in_block(op.operation):
                other.move_before(op.operation)
        array = None
        with ir.InsertionPoint(op), op.location:
            for mover, number in self.ops:
                if mover.name == "jaxpr.concatenate":
                    operands = list(mover.operands)
                    operands[number] = array or rules.filler(operands[number].type)
                    (array,) = copy(mover, mover.name, operands)
                elif array is not None:
                    (array,) = copy(mover, mover.name, [array])
            return array or rules.filler(self.array.type)

    def erase(self) -> None:
        """Erases the ops, once the array has no users any more."""
        for op, _ in reversed(self.ops):
            erase(op)

    def _through(self, before: Any) -> Destination | None:
        uses = list(self.array.uses)
        if len(uses) != 1:
            return None
        op, number = uses[0].owner.operation, uses[0].operand_number
        if len(op.results) != 1 or not is_plain_array(op.results[0].type):
            return None
        view, array = self.rows.view, op.results[0]
        node = OpView(op, op.name, list(op.operands))
        sooner = dict.fromkeys(self.sooner)
        if node.name == "jaxpr.transpose":
            permutation = node.get("permutation")
            view = view.placed(array, [permutation.index(d) for d in range(len(permutation))])
        elif node.name == "jaxpr.rev":
            view = view.reversed(array, node.get("dimensions"))
        elif node.name == "jaxpr.concatenate":
            others = [v for i, v in enumerate(node.operands) if i != number]
            if not all(_may_come_before(v, before, sooner) for v in others):
                return None
            dimension = node.get("dimension")
            before_it = sum(v.type.shape[dimension] for v in node.operands[:number])
            view = view._replace(array=array).moved(dimension, before_it)
        else:
            places = unit_dims(node, self.array.type.shape, array.type.shape)
            if places is None:
                return None
            view = view.placed(array, places)
        return Destination(ViewRows(view), (*self.ops, (op, number)), tuple(sooner))


def _may_come_before(value: ir.Value, op: Any, sooner: dict[Any, None], others: int = 0) -> bool:
    """Whether a value stands before an op, or may be moved there.

    Args:
      sooner: gets the ops that have to be moved, in order.
      others: the number of ops to be moved that depend on the value.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return True
    owner = owner.operation
    if owner in sooner or owner.is_before_in_block(op.operation):
        return True
    cheap = owner.name == "jaxpr.constant" or owner.name in FUSIBLE
    if not cheap or len(sooner) + others >= MOST_SOONER:
        return False
    # This stops at the first operand that cannot be moved: the others may depend on the same op.
    if not all(_may_come_before(v, op, sooner, others + 1) for v in owner.operands):
        return False
    sooner[owner] = None
    return True


def _transposed(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    if list(permutation) == list(range(len(permutation))):
        return value
    type_ = with_shape(value.type, tuple(value.type.shape[d] for d in permutation))
    return build("transpose", [value], type_, permutation=tuple(permutation))


class InplaceScans(Pass):
    """Let scans read rows from the arrays that hold them, and write rows to their destinations.

    Options:
      min-piece: rows whose contiguous pieces of memory have fewer bytes are copied.
    """

    name: ClassVar[str] = "jaxpr-inplace-scans"
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    min_piece: Count = LINE

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        scans = _Scans(program, graph, self.min_piece)
        return visit_functions(program, scans.visit, graph, SCANS)


class _Scans:
    """The scans of a program."""

    def __init__(self, program: Module, graph: CallGraph, min_piece: int):
        self._program = program
        self._min_piece = min_piece
        self._bodies = LoopEditor(Rules(program), graph)
        # The results of :meth:`_rows_of` for values of the function: many scans may read a value.
        self._rows: dict[ir.Value, ViewRows | None] = {}

    def visit(self, function: func.FuncOp) -> bool:
        """Makes the scans of a function read and write in place; whether any was changed."""
        self._rows.clear()
        changed = any([self._in_place(op) for op, _ in loops_of(function, SCANS)])
        if changed:
            drop_dead_ops(function)
        return changed

    def _in_place(self, op: Any) -> bool:
        """Makes a scan read and write in place; whether it was changed."""
        scan = ScanOp.of(op)
        if not scan.is_counted or scan.length < 2 or not scan.other.keys() <= PLAIN_SCAN:
            return False
        _, _, slices = scan.operands(list(op.operands))
        _, stacked = scan.results(list(op.results))
        rows = [self._rows_of(v) for v in slices]
        places = [self._place(v, op) for v in stacked]
        num_read, num_written = (sum(x is not None for x in group) for group in (rows, places))
        if not (num_read or num_written) or not can_change(self._program.function(scan.body)):
            return False
        remark(op, f"arrays read in place: {num_read}, written in place: {num_written}")
        self._edit(ScanEditor(self._bodies, op, scan), rows, places)
        for place in places:
            if place is not None:
                place.erase()
                # Other values may have been read by the erased ops.
                self._rows.clear()
        erase(op)
        return True

    def _edit(
        self,
        editor: ScanEditor,
        rows_of_slices: Sequence[ViewRows | None],
        places: Sequence[Destination | None],
    ) -> None:
        """Rewrites the op and its body.

        Args:
          rows_of_slices: the rows that are read in place of each slice.
          places: the destination of each stacked result.
        """
        op, counter = editor.op, _StepCounter(editor)
        for item, rows in zip(editor.xs, rows_of_slices, strict=True):
            if rows is not None:
                whole = rows.view.array
                array = ConstantOperand(whole, editor.new_argument(whole.type))
                editor.consts.append(array)
                index = counter.along(rows)
                with counter.behind(), op.location:
                    item.arg.replace_all_uses_with(rows.read(array.arg, index))
        for item, place in zip(list(editor.ys), places, strict=True):
            if place is not None:
                init = place.prepared(editor.rules, op)
                argument = editor.new_argument(init.type)
                index = counter.along(place.rows)
                with before_return(editor.body), op.location:
                    after = place.rows.write(argument, index, editor.out(item))
                editor.ys.remove(item)
                editor.carry.append(CarriedValue(init, argument, after, place.array))
        editor.write()

    def _rows_of(self, value: ir.Value) -> ViewRows | None:
        """The rows of a value in the array to read them from; ``None`` if that does not pay, or if
        not only scans take the value as slices."""
        if value not in self._rows:
            rows = ViewRows.of(value) if is_plain_array(value.type) else None
            pays = rows is not None and rows.view.array != value and self._is_long(rows)
            pays = pays and rows.would_be_copied and all(map(_is_scanned, value.uses))
            self._rows[value] = rows if pays else None
        return self._rows[value]

    def _place(self, value: ir.Value, op: Any) -> Destination | None:
        """The place where a stacked result ends up; ``None`` if writing it there does not pay."""
        if not is_plain_array(value.type):
            return None
        place = Destination.of(value, op)
        return place if place.ops and self._is_long(place.rows) else None

    def _is_long(self, rows: ViewRows) -> bool:
        return rows.piece >= self._min_piece


def _is_scanned(use: ir.OpOperand) -> bool:
    """Whether a use takes a value as slices (xs) of a scan."""
    op = use.owner
    if op.operation.name != "jaxpr.scan":
        return False
    return use.operand_number >= count_of(op, "num_consts") + count_of(op, "num_carry")


class _StepCounter:
    """The counter of the steps of a loop; it counts down if the loop runs backwards."""

    def __init__(self, editor: ScanEditor):
        self._block, self._location = body_of(editor.body), editor.op.location
        type_, by = scalar_type(np.int32), -1 if editor.scan.reverse else 1
        init = _first_number(editor.op, editor.scan)
        self._step = editor.new_argument(type_)
        with ir.InsertionPoint.at_block_begin(self._block), self._location:
            after = build("add", [self._step, filled(type_, by)], type_)
        self._last = after.owner
        editor.carry.append(CarriedValue(init, self._step, after))

    def along(self, rows: ViewRows) -> ir.Value:
        """The index of the step's row in the array."""
        return self._affine(rows.view.starts[rows.along], rows.view.steps[rows.along])

    @memoized
    def _affine(self, start: int, by: int) -> ir.Value:
        """The number of the step times a factor, plus a start."""
        index = self._step
        with self.behind(), self._location:
            if by != 1:
                index = build("mul", [index, filled(index.type, by)], index.type)
            if start:
                index = build("add", [index, filled(index.type, start)], index.type)
        if index != self._step:
            self._last = index.owner
        return index

    def behind(self) -> ir.InsertionPoint:
        """The insertion point behind all indices computed so far, before their uses."""
        return ir.InsertionPoint.after(self._last)


def _first_number(op: Any, scan: ScanOp) -> ir.Value:
    """Writes the number of the first step before the loop."""
    with ir.InsertionPoint(op), op.location:
        return filled(scalar_type(np.int32), scan.length - 1 if scan.reverse else 0)

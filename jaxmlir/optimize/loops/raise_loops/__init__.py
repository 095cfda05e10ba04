"""``jaxpr-raise-loops``: loops over a counter as scans over arrays, and these as batched ops.

People write ``for i in range(n): out = out.at[i].set(f(x[i]))``.  In reverse mode that takes time
quadratic in n: the cotangents of ``x`` and of ``out`` are arrays as large as these, added to or
overwritten in each iteration.  A ``scan`` that takes the rows of ``x`` and gives those of ``out``
takes linear time.
In this order, and for inner loops first:

1.  A ``while`` whose condition depends on a counter alone runs a number of times that is known:
    it is a ``scan``  (:mod:`._trip_counts`).
2.  Reads ``x[i]`` of constants become slices that the scan takes, writes ``out.at[i].set(c)`` of a
    carried array slices that it gives (:mod:`._arrays`).  ``i`` may be anything that is known for
    each iteration beforehand (:mod:`._known`): ``i + 1``, ``n - 1 - i``, ``2 * i``, a counter
    that runs backwards, indices normalized or clamped by JAX.
3.  A loop that then carries nothing but sums has independent iterations: it is batched, as many
    iterations at a time as memory allows (:mod:`._maps`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.analysis.call_graph import CallGraph, visit_functions
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import body_of, func, scope
from jaxmlir.optimize.loops.scan_editor import (
    LOOPS,
    LoopEditor,
    ScanEditor,
    body_symbol,
    can_change,
    loops_of,
)
from jaxmlir.passes.base import Count, Pass
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.optimize.loops.raise_loops.known import Known
    from jaxmlir.optimize.loops.raise_loops.maps import Maps

# Of the values of a batch of iterations.  Gradients of 500 vectors times a matrix of 64 rows on two
# cores, speed and memory against the loop, at 256 KiB / 4 MiB: a map 1.9 and 1.5 / 1.7 to 2.8 and
# 0.5, a sum of losses 2.0 and 1.3 / 1.9 and 0.4: all at once saves what a loop stacks up.
BATCH_BYTES = 4_194_304


class RaiseLoops(Pass):
    """Scan over what a loop reads and writes by its counter; batch independent iterations.

    Options:
      batch-bytes: how much memory the values of iterations that are computed together may take;
        0 leaves loops loops.
    """

    name: ClassVar[str] = "jaxpr-raise-loops"
    batch_bytes: Count = BATCH_BYTES

    def run(self, program: Module) -> bool:
        return raise_loops(program, self.batch_bytes) > 0


def raise_loops(program: Module, batch_bytes: int = BATCH_BYTES) -> int:
    """Raises the loops of a program, in place; how many are other loops now, or none."""
    with scope():
        graph = analyses_of(program).graph
        raiser = _Raiser(program, graph, batch_bytes)
        visit_functions(program, raiser.visit, graph, LOOPS)
    return raiser.count


class _Raiser:
    """Raises the loops of one program."""

    def __init__(self, program: Module, graph: CallGraph, batch_bytes: int):
        from jaxmlir.optimize.loops.raise_loops.alike import Alike
        from jaxmlir.optimize.loops.raise_loops.gain import Gains
        from jaxmlir.optimize.loops.raise_loops.known import Contexts

        self.count = 0
        self._program = program
        self._batch_bytes = batch_bytes
        self._target = program.target
        self._rules = Rules(program)
        self._uses = graph.counts()
        self._bodies = LoopEditor(self._rules, graph)
        self._contexts = Contexts(program, graph)
        self._gains = Gains(program)
        self._alike = Alike(self._rules, self._raise)
        self._changed = False
        # Of the functions that are as they were.
        self._ops = dict(graph.ops)

    def visit(self, function: func.FuncOp) -> bool:
        """Raises the loops of a function; whether it may have changed."""
        self._changed = False
        known, depth = self._contexts.of(function.name.value)
        for op, name in loops_of(function):
            body = body_symbol(op, name)
            raise_ = self._alike if self._uses[body] > 1 else self._raise
            count = raise_(op, name, known, depth)
            if count:
                known.changed()
                self.count += count
                self._changed = True
        if self._changed:
            self._ops.pop(function.name.value, None)
        return self._changed

    def _raise(self, op: Any, name: str, known: Known, depth: int) -> int:
        """Raises a loop; how often something became of it.

        Args:
          known: the integers that are known around it, where there are ``depth`` loops.
        """
        from jaxmlir.optimize.loops.raise_loops.known import MAX_ELEMENTS, is_integer
        from jaxmlir.optimize.loops.raise_loops.trip_counts import while_to_scan

        count = 0
        if name == "jaxpr.while":
            op = while_to_scan(self._rules, op, known)
            if op is None:
                return 0
            count += 1
        scan = ScanOp.of(op)
        body = self._program.function(scan.body)
        if not can_change(body) or not scan.is_counted:
            return count
        # Without an argument that could be a counter, it does nothing by one.
        may_count = any(map(is_integer, body_of(body).arguments))
        if 0 < scan.length <= MAX_ELEMENTS and may_count:
            raised = self._raise_arrays(op, scan, known, depth)
            if raised is None:
                return count + 1
            if raised is not op:
                count, op, scan = count + 1, raised, ScanOp.of(raised)
        if self._batch_bytes:
            count += self._maps.batch(op, scan, self._ops.get(scan.body))
        return count

    @functools.cached_property
    def _maps(self) -> Maps:
        from jaxmlir.optimize.loops.raise_loops.maps import Maps

        return Maps(self._rules, self._bodies, self._gains, self._batch_bytes, self._target)

    def _raise_arrays(self, op: Any, scan: ScanOp, outer: Known, depth: int) -> Any | None:
        """The scan with its arrays raised, or as it was; ``None`` of one that gives nothing."""
        from jaxmlir.optimize.loops.raise_loops.arrays import ArrayRaiser
        from jaxmlir.optimize.loops.raise_loops.counters import drop_counters
        from jaxmlir.optimize.loops.raise_loops.known import in_body
        from jaxmlir.optimize.loops.raise_loops.maps import would_gain
        from jaxmlir.optimize.loops.raise_loops.windows import simplify_windows

        # Windows are simplified whatever becomes of the loop.
        self._changed = True
        editor = ScanEditor(self._bodies, op, scan)
        known = in_body(editor.scan, editor.body, list(op.operands), outer, depth)
        arrays = {item.arg for item in (*editor.consts, *editor.carry)}
        ops = self._ops.pop(editor.body.name.value, None) or named_ops(editor.body)
        combined = simplify_windows(self._rules, ops, known, arrays)
        known.changed()
        raiser = ArrayRaiser(editor, known, combined)
        raiser.raise_reads()
        raiser.raise_carried()
        if self._batch_bytes and raiser.overlapping:
            if would_gain(editor, self._gains, known, self._target):
                raiser.raise_overlapping_reads()
        dropped = drop_counters(editor, known)
        if not raiser.count and not dropped:
            editor.cancel()
            return op
        editor.write()
        raiser.finish()
        editor.finish()
        return editor.written

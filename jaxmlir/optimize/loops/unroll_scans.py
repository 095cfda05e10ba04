"""``jaxpr-unroll-scans``: scans of few ops are unrolled where they wait for their kernels.

A device starts the kernels of an iteration one after the other.  Some of them compute nothing: one
increments the counter, others read a slice for a product, or store stacked results.  An unrolled
body needs these once, and the values that its copies hand to each other are fused::

    scan(f, c, xs)    ->    scan(f, c, xs) {unroll = 8}

This is the parameter ``unroll`` of ``jax.lax.scan``; lowering writes the copies.  Each copy has the
same ops on the same values as before.

The target's costs decide on the number of copies: the time of the kernels that are saved, against
compiling the ops of the copies.  If the number does not divide the length, the remaining iterations
are written behind the loop, and all slices and stacked results are copied once more.  A body that
contains a loop is left alone, because the inner loop takes most of its time; so is a body of whose
time little would be saved.  The user's own ``unroll`` stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import size
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.errors import count
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.loops.scan_editor import LOOPS, loops_of
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.levels import COMPILERS
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp

# Kernels of the gradient of a loop with 1 / 4 / 8 copies, relative to the loop as it is, counted in
# the HLO compiled for an H100, jax 0.10.
#   an LSTM of 200 steps          1.00 / 0.42 / 0.32
#   a Kalman filter, 200 steps    1.00 / 0.71 / 0.66
#   a random field, 200 steps     1.00 / 0.67 / 0.63
#   Lorenz-96, 100 steps          1.00 / 0.54 / 0.47
COPIES = 8
# The part of a loop's time that has to be saved.
PART = 0.05


class UnrollScans(Pass):
    """Unroll short loops, several iterations at a time.

    Options:
      copies: the maximum number of copies.
      calls: the assumed number of calls of the program: copies have to save, in these, the time
        to compile them.
    """

    name: ClassVar[str] = "jaxpr-unroll-scans"
    # A CPU does not wait for kernels.  A TPU stores stacked results in the kernels that compute
    # them: unrolled loops take 0.9 to 1.1 of the cycles there, and up to 35 times the memory.
    compilers: ClassVar[tuple[str, ...]] = COMPILERS[name]
    copies: Count = COPIES
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        changed = False
        unrolling = _Unrolling(program, self)
        for function in outside_kernels(program, SCANS):
            for op, _ in loops_of(function, SCANS):
                if PLAIN_SCAN.issuperset(dict(op.attributes.items())):
                    changed |= unrolling.visit(op, function.name.value)
        return changed


class _Unrolling:
    """Unrolls the loops of one program."""

    def __init__(self, program: Module, options: UnrollScans):
        self._functions = program.functions
        self._options = options
        self._costs = program.target.costs
        self._compile_time = CompileTime(program, options.calls)
        self._prices = Prices(program)

    def visit(self, op: Any, symbol: str) -> bool:
        """Unrolls a loop in ``@symbol``, if that pays."""
        scan = ScanOp.of(op)
        body = self._ops(scan.body)
        if "unroll" in scan.other or not scan.is_counted or body is None:
            return False
        saved, copies = max(self._choices(op, scan), default=(0.0, 1))
        ops = (copies - 1 + scan.length % copies) * body
        time = self._prices.function(scan.body) * scan.length
        if saved <= PART * time or not self._compile_time.pays(symbol, ops, saved):
            return False
        remark(op, f"unrolled by a factor of {copies}: the body has {count(body, 'op')}")
        op.attributes["unroll"] = codec.encode(copies)
        return True

    def _choices(self, op: Any, scan: ScanOp) -> Iterator[tuple[float, int]]:
        """The nanoseconds that are saved and the number of copies, for each allowed number."""
        _, stacks = scan.results(list(op.results))
        slices = scan.operands(list(op.operands))[2]
        arguments = body_of(self._functions[scan.body]).arguments
        num_read = sum(map(_is_read_alone, scan.operands(list(arguments))[2]))
        of_iteration = self._costs.iteration + self._costs.launch * num_read
        of_iteration += self._costs.stored_value * len(stacks)
        rows = [v.type for v in (*slices, *stacks)]
        copied = sum(self._costs.launch + size(t) * self._costs.stored_byte_kept for t in rows)
        for copies in range(2, min(self._options.copies, scan.length) + 1):
            turns, remainder = divmod(scan.length, copies)
            saved = (scan.length - turns - remainder) * of_iteration
            yield saved - (copied if remainder else 0.0), copies

    def _ops(self, symbol: str) -> int | None:
        """The number of ops of ``@symbol`` and its callees; ``None`` if one of them is a loop."""
        names = [name for _, name in reached_ops(self._functions, symbol, custom_rules=False)]
        return len(names) if LOOPS.isdisjoint(names) else None


def _is_read_alone(value: ir.Value) -> bool:
    """Whether a slice is read by a kernel of its own, as an op that XLA does not fuse takes it."""
    return any(use.owner.name not in FUSIBLE for use in value.uses)

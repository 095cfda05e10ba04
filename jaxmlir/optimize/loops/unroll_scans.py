"""``jaxpr-unroll-scans``: a loop of few ops does several iterations in one where it waits for them.

On a device the kernels of an iteration are started one after the other, and among them are some
that compute nothing: one counts, and others read what a product takes of a slice, or write stacked
results to their place.  A body that is written several times needs these once, and what its copies
hand to each other is fused::

    scan(f, c, xs)    ->    scan(f, c, xs) {unroll = 8}

That is the parameter of ``jax.lax.scan``; lowering writes the copies.  Each is the same ops on the
same values.

How many copies there are is weighed by the target's costs: what a kernel takes, against compiling
the ops of one more copy.  Where their number does not divide the length, what remains is written
behind the loop, and all that is sliced or stacked is copied once more.  A body with a loop of its
own is left alone, for that is what it waits for; so is one beside whose ops little is saved.  The
user's own ``unroll`` stays.
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
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.loops.scan_editor import LOOPS, loops_of
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.levels import COMPILERS
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp

# Gradients of loops as parts of those in loops as they are, once / 4 / 8 copies: kernels of an H100
# by the compiled HLO, jax 0.10.
#   an LSTM of 200 steps          1.00 / 0.42 / 0.32
#   a Kalman filter, 200 steps    1.00 / 0.71 / 0.66
#   a random field, 200 steps     1.00 / 0.67 / 0.63
#   Lorenz-96, 100 steps          1.00 / 0.54 / 0.47
COPIES = 8
# What is saved of a loop's time, at least.
PART = 0.05


class UnrollScans(Pass):
    """Do several iterations of a short loop in one.

    Options:
      copies: so many at most.
      calls: how often the program is taken to be called: the time that is saved has to make up
        within so many calls for that of compiling the copies.
    """

    name: ClassVar[str] = "jaxpr-unroll-scans"
    # A host does not wait for kernels.  A TPU stacks in those that compute: its loops take 0.9 to
    # 1.1 of the cycles, and up to 35 times the memory.
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
        """Unrolls a loop of ``@symbol``, if that pays."""
        scan = ScanOp.of(op)
        body = self._ops(scan.body)
        if "unroll" in scan.other or not scan.is_counted or body is None:
            return False
        saved, copies = max(self._choices(op, scan), default=(0.0, 1))
        ops = (copies - 1 + scan.length % copies) * body
        time = self._prices.function(scan.body) * scan.length
        if saved <= PART * time or not self._compile_time.pays(symbol, ops, saved):
            return False
        remark(op, f"unrolled: {copies} iterations of {body} ops in one")
        op.attributes["unroll"] = codec.encode(copies)
        return True

    def _choices(self, op: Any, scan: ScanOp) -> Iterator[tuple[float, int]]:
        """The nanoseconds that are saved, by the number of copies."""
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
        """How many ops a run of ``@symbol`` has; ``None`` if there is a loop among them."""
        names = [name for _, name in reached_ops(self._functions, symbol, custom_rules=False)]
        return len(names) if LOOPS.isdisjoint(names) else None


def _is_read_alone(value: ir.Value) -> bool:
    """Whether a slice is read by a kernel of its own, as what takes it is fused with nothing."""
    return any(use.owner.name not in FUSIBLE for use in value.uses)

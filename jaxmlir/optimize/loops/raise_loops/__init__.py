"""``jaxpr-raise-loops``: loops over a counter as scans over arrays, and these as batched ops.

People write ``for i in range(n): out = out.at[i].set(f(x[i]))``.  In reverse mode that takes time
quadratic in n: the cotangents of ``x`` and of ``out`` are arrays as large as these, added to or
overwritten in each iteration.  A ``scan`` with the rows of ``x`` as slices and those of ``out`` as
stacked results takes linear time.
The pass takes three steps, for inner loops first:

1.  A ``while`` whose condition depends on a counter alone has a known trip count: it becomes a
    ``scan`` (:mod:`.counters`).
2.  Reads ``x[i]`` of constants become slices of the scan, writes ``out.at[i].set(c)`` to a carried
    array become stacked results (:mod:`.arrays`).  ``i`` may be anything that is known for each
    iteration beforehand (:mod:`jaxmlir.optimize.loops.known`): ``i + 1``, ``n - 1 - i``, ``2 * i``,
    a counter that runs backwards, indices normalized or clamped by JAX.
3.  A loop that then carries nothing but sums has independent iterations: it is batched, as many
    iterations at a time as memory allows (:class:`LoopBatcher`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work, can_be_summed, elements, is_array, size
from jaxmlir.analysis.purity import CountedOps, is_pure
from jaxmlir.dialect.builder import (
    SPREAD,
    converted,
    erase,
    inline,
    named_ops,
    only_user,
    reshaped,
    returned,
)
from jaxmlir.dialect.ir import body_of, func, ir, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, may_have_functions, record_of, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.known import MAX_ELEMENTS, KnownIntegers
from jaxmlir.optimize.loops.raise_loops.accesses import simplify_windows, untyped
from jaxmlir.optimize.loops.raise_loops.arrays import ArrayRaiser
from jaxmlir.optimize.loops.raise_loops.counters import (
    LoopContexts,
    drop_counters,
    in_body,
    is_integer,
    while_to_scan,
)
from jaxmlir.optimize.loops.scan_editor import (
    LOOPS,
    CarriedValue,
    LoopEditor,
    ScanEditor,
    StackedResult,
    can_change,
    loops_of,
)
from jaxmlir.optimize.vectorize.batchable import BATCHED_CALLS, called, can_batch, is_slow_alone
from jaxmlir.optimize.vectorize.stacking import added, total_of
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import visit_functions
from jaxmlir.support.lazy import memoized
from jaxmlir.targets import Target
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis, vmap

# -- Whether batching a loop's body pays: gains and losses --
#
# On a CPU, XLA compiles a loop of small ops to a plain loop with little overhead, and elementwise
# code is as fast in it as on a batch.  A batch gains by contractions with a value that all
# iterations share, such as a vector times a matrix of weights: they become products of matrices.
# It also gains by convolutions of single images, whose gradients are slow, and by loops in the
# body, which a batch runs once.  It loses by reads and writes at positions that differ between
# iterations: in a batch they are gathers or scatters, which take time for each element.
#
# Elsewhere each op of an iteration is a kernel of its own, and everything is better batched.


# A gain of fewer flops per iteration does not count: XLA makes one kernel of so small a loop.
LEAST = 100
# Gradients of maps on two cores, at 4 MiB, speed relative to the loop: two products of a vector
# with a matrix of 3 / 8 / 16 / 32 / 64 / 256 rows 0.4 / 2.8 / 6.6 / 1.7 / 2.2 / 1.1, of four
# vectors with one of 64 / 256 rows 2.4 / 1.6, of 64 vectors 1.3 / 1.2; an inner loop of 20
# iterations 2.0.  If batched nevertheless, a softmax 0.9, and distances of points in space 0.5.


@dataclass(eq=False)
class Gain:
    """The work per iteration that batching changes."""

    shared: float = 0
    """Flops of contractions with a value that all iterations share, of slow convolutions, and for
    the overhead of inner loops."""
    indexed: int = 0
    """Elements read or written at positions that differ between iterations."""

    def pays(self, target: Target) -> bool:
        if not target.is_cpu:
            return True
        indexed = target.costs.indexed_element / target.costs.flop
        return self.shared > max(LEAST, indexed * self.indexed)


def may_pay(ops: Sequence[tuple[Any, str]], target: Target) -> bool:
    """Whether a body may have ops that a batch gains by; otherwise it need not be read."""
    if not target.is_cpu:
        return True
    names = {name for _, name in ops}
    return not _GAINING.isdisjoint(names) or any(map(may_have_functions, names))


_GAINING = with_trait(Trait.CONTRACTION)


class Gains:
    """Finds the gain of batching the bodies of a program's loops."""

    def __init__(self, program: Module):
        self.program = program
        self._work = Work(program)
        self.counted: CountedOps = CountedOps(program)
        self._bodies: dict[str, FunctionView] = {}

    def read(self, symbol: str, ops: Sequence[tuple[Any, str]] | None = None) -> FunctionView:
        """The view of a body that does not change any more.

        Args:
          ops: its ops with their names, if the caller has them.
        """
        body = self._bodies.get(symbol)
        if body is None:
            body = self._bodies[symbol] = FunctionView(self.program.function(symbol), ops)
        return body

    def of(self, body: FunctionView, batched: Sequence[bool]) -> Gain | None:
        """The gain of batching a body; ``None`` if it should not be batched for any target.

        Args:
          batched: which arguments are batched.
        """
        gain = Gain()
        return gain if self._add(gain, body, batched, 1) else None

    def _add(self, gain: Gain, body: FunctionView, batched: Sequence[bool], times: int) -> bool:
        """Adds the gain of a function that runs ``times`` times; whether it can be batched."""
        varying = {v for v, b in enumerate(batched) if b}
        for index, signature in enumerate(body.signatures):
            if not _can_stand(signature) or self.counted.has_state(signature):
                return False
            pattern = [v in varying for v in body.operands[index]]
            if True not in pattern:
                # A batch would run its VJP rule once for all iterations.
                if self.counted.has_vjp_rule(signature):
                    return False
                continue
            if not can_batch(self.program, signature):
                return False
            varying.update(range(*body.results[index]))
            if not self._add_op(gain, body, index, pattern, times):
                return False
        return True

    def _add_op(
        self, gain: Gain, body: FunctionView, index: int, pattern: list[bool], times: int
    ) -> bool:
        signature = body.signatures[index]
        name, record = signature.name, record_of(signature.name)
        if name == "jaxpr.dot_general":
            if pattern != [True, True]:
                gain.shared += times * self._work.at(body, index)
        elif name == "jaxpr.conv_general_dilated":
            if pattern[1]:
                # It would be a grouped convolution, which is slow.
                return False
            numbers = dict(signature.attributes)["dimension_numbers"]
            if is_slow_alone(numbers, signature.results[0]):
                gain.shared += times * self._work.at(body, index)
        elif record is not None and record.indices:
            if any(pattern[i] for i in record.index_operands(len(pattern))):
                update = record.update
                moved = signature.results[0] if update is None else signature.operands[update]
                gain.indexed += times * elements(moved)
        elif may_have_functions(name):
            return self._add_functions(gain, signature, pattern, times)
        return True

    def _add_functions(
        self, gain: Gain, signature: Signature, pattern: list[bool], times: int
    ) -> bool:
        if signature.name == "jaxpr.scan":
            scan = ScanOp.of_attributes(signature.attributes)
            if not scan.is_counted:
                return False
            gain.shared += times * self._work.iteration * scan.length
            inner = _in_scan(scan, pattern)
            return self._add(gain, self.read(scan.body), inner, times * scan.length)
        symbol = called(signature)
        if symbol is not None and signature.name in BATCHED_CALLS:
            return self._add(gain, self.read(symbol), pattern, times)
        return not any(symbol_uses(attr) for _, attr in signature.attributes)

    @memoized
    def bytes(self, body: FunctionView) -> int:
        """The bytes of all values of a function, including those of its callees."""
        total = 0
        constants: set[int] = set()
        for signature, operands, results in zip(
            body.signatures, body.operands, body.results, strict=True
        ):
            name = signature.name
            if name == "jaxpr.constant" or (name in SPREAD and constants.issuperset(operands)):
                constants.update(range(*results))
            else:
                total += sum(map(size, signature.results))
            symbol = called(signature) if may_have_functions(name) else None
            if symbol is not None:
                total += self.bytes(self.read(symbol))
        return total


@functools.lru_cache(maxsize=1 << 14)
def _can_stand(signature: Signature) -> bool:
    """Whether an op of a signature may be in a body that is batched."""
    if signature.effects is not None or any(key == "jaxpr.ctx" for key, _ in signature.attributes):
        return False
    return is_pure(signature.name) and signature.name not in _STAY


def _in_scan(scan: ScanOp, pattern: list[bool]) -> list[bool]:
    """The mask of the batched arguments of an inner scan's body: all carried values are batched."""
    consts, carry, xs = scan.operands(pattern)
    return [*consts, *[True] * len(carry), *xs]


# In a batch, each iteration would run all branches, and as many inner iterations as the one with
# the most.
_STAY = frozenset({"jaxpr.while", "jaxpr.cond", "jaxpr.custom_linear_solve"})


# -- Loops with independent iterations, batched: many iterations at a time, by the pass ``vmap`` --
#
# A scan that carries nothing is a map.  A scan that carries only sums, to which each iteration adds
# a value that does not depend on them, is a map and a sum of its results::
#
#     scan(lambda a, x: (a + g(x), f(x)))(a, xs)  =  a + sum(vmap(g)(xs)), vmap(f)(xs)
#
# In a batch, a product of a matrix and a vector becomes one of matrices, and there is no overhead
# of a loop.  The cost is memory: the values of all iterations are live at once.  So as many
# iterations are batched as fit into a given number of bytes, ideally those of a cache, and a loop
# runs over the batches.  If only a few fit, the overhead of the loop is small beside the work of an
# iteration, and the loop stays as it is.
#
# Iterations with branches or with a ``while`` stay a loop: in a batch, each would run all branches,
# and the iterations of the longest ``while``.


# If fewer iterations fit, an iteration is so large that the overhead of the loop does not matter,
# and that its values are better kept in cache: products of matrices with 200 rows, 800 KiB an
# iteration, are 0.8 times as fast in a batch.
MIN_BATCH = 8


class LoopBatcher:
    """Batches the loops of a program.

    Args:
      batch_bytes: the bytes that the values of a batch may take.
    """

    def __init__(
        self, rules: Rules, bodies: LoopEditor, gains: Gains, batch_bytes: int, target: Target
    ):
        self._rules, self._bodies, self._gains = rules, bodies, gains
        self._batch_bytes, self._target = batch_bytes, target

    def batch(self, op: Any, scan: ScanOp, ops: Sequence[tuple[Any, str]] | None) -> bool:
        """Batches a scan with independent iterations, if that pays; returns whether it did.

        Args:
          scan: the op without its operands.
          ops: the ops of its body with their names, if the caller has them.
        """
        body = self._rules.program.function(scan.body)
        if scan.length < 2 or not can_change(body):
            return False
        ops = ops or named_ops(body)
        if not may_pay(ops, self._target):
            return False
        if not all([is_array(v.type) for v in (*op.operands, *op.results)]):
            return False
        _, carry, _ = scan.operands(list(body_of(body).arguments))
        if not all(map(_is_only_added_to, carry, returned(body))):
            return False
        others = len(op.operands) - scan.num_consts
        gains = self._gains
        view = gains.read(scan.body, ops)
        gain = gains.of(view, (False,) * scan.num_consts + (True,) * others)
        if gain is None or not gain.pays(self._target):
            return False
        taken = max(gains.bytes(view), 1)
        batch = _batch_size(scan.length, self._batch_bytes // taken)
        if not batch:
            return False
        remark(
            op,
            f"batched {scan.length} independent iterations: {batch} at a time, {taken} bytes each",
        )
        self._write(op, scan, batch)
        return True

    def _write(self, op: Any, scan: ScanOp, batch: int) -> None:
        """Replaces the scan by the batched loop."""
        rules = self._rules
        sums: list[CarriedValue] = []
        subtracted: list[bool] = []
        results: list[ir.Value | None] = list(op.results)
        if scan.num_carry:
            editor = ScanEditor(self._bodies, op)
            sums = list(editor.carry)
            subtracted = [editor.out(item).owner.name == "jaxpr.sub" for item in sums]
            results = [item.result for item in editor.ys]
            op = _of_rows(editor)
            scan = ScanOp.of(op)
            body = FunctionView(editor.body)
        else:
            body = self._gains.read(scan.body)
        operands = list(op.operands)
        consts, _, xs = scan.operands(operands)
        dims = (*[None] * len(consts), *[0] * len(xs))
        batched = self._batched(body, dims, batch)
        with ir.InsertionPoint(op), op.location:
            if batch == scan.length:
                values = inline(batched, operands)
                totals = [
                    added(item.init, total_of(rules, value), negative)
                    for item, value, negative in zip(
                        sums, values[len(results) :], subtracted, strict=True
                    )
                ]
            else:
                values, totals = _in_batches(
                    rules, scan, batched, consts, xs, sums, subtracted, scan.length // batch
                )
        for result, value in zip(results, values, strict=False):
            result.replace_all_uses_with(value)
        for item, value in zip(sums, totals, strict=True):
            item.result.replace_all_uses_with(value)
        erase(op)
        if sums:
            editor.finish()

    def _batched(self, body: FunctionView, dims: tuple[int | None, ...], size: int) -> func.FuncOp:
        """The batched body, to be inlined.

        Args:
          dims: the batch dimension of each argument.
        """
        symbol, out_dims = body.function.name.value, (0,) * len(body.returned)
        with self._rules.functions.having_read(symbol, body):
            vmapped, _ = vmap(self._rules, symbol, dims, batch_axis(size), out_dims)
        return self._rules.program.function(vmapped)


def would_gain(editor: ScanEditor, gains: Gains, known: KnownIntegers, target: Target) -> bool:
    """Whether batching a scan under change would pay if its indexed reads cost nothing."""
    for item in editor.carry:
        if item.arg not in known and _addend(item.arg, editor.out(item)) is None:
            return False
    constants = {item.arg for item in editor.consts}
    batched = [v not in constants for v in body_of(editor.body).arguments]
    gain = gains.of(FunctionView(editor.body), batched)
    return gain is not None and replace(gain, indexed=0).pays(target)


def _batch_size(length: int, fitting: int) -> int:
    """The number of iterations to batch: all, or a divisor; 0 if too few fit."""
    if fitting < MIN_BATCH:
        return 0
    if fitting >= length:
        return length
    divisors = (d for d in range(fitting, MIN_BATCH - 1, -1) if length % d == 0)
    return next(divisors, 0)


def _is_only_added_to(arg: ir.Value, out: ir.Value) -> bool:
    """Whether a carried value is only added to, and the sum is only carried to the next
    iteration."""
    if _addend(arg, out) is None or not is_array(arg.type):
        return False
    while arg != out:
        user = only_user(arg)
        if user is None:
            return False
        arg = user.results[0]
    return only_user(out) is not None


def _addend(arg: ir.Value, out: ir.Value) -> ir.Value | None:
    """The value that an iteration adds to, or subtracts from, a carried value, or ``None``."""
    if isinstance(out.owner, ir.Block) or out.owner.name not in _SUMS:
        return None
    first, second = out.owner.operands
    if untyped(first) == arg:
        addend = second
    elif untyped(second) == arg and out.owner.name != "jaxpr.sub":
        addend = first
    else:
        return None
    # No broadcasts: a scalar would be added to each element.
    is_term = out.type.shape == arg.type.shape == addend.type.shape
    return addend if is_term and can_be_summed(aval_of(out.type).dtype) else None


_SUMS = with_trait(Trait.ADDITIVE)


def _of_rows(editor: ScanEditor) -> Any:
    """Rewrites the scan to stack the addends of its sums, behind its other stacked results."""
    sums = list(editor.carry)
    rows = [StackedResult(_addend(item.arg, editor.out(item))) for item in sums]
    with ir.InsertionPoint(editor.op), editor.op.location:
        for item in sums:
            item.init = converted(item.init, item.result.type)
    editor.carry, editor.ys = [], [*editor.ys, *rows]
    for item in editor.ys:
        item.result = None
    editor.write()
    return editor.written


def _in_batches(
    rules: Rules,
    scan: ScanOp,
    batched: func.FuncOp,
    consts: Sequence[ir.Value],
    xs: Sequence[ir.Value],
    sums: Sequence[CarriedValue],
    subtracted: Sequence[bool],
    count: int,
) -> tuple[list[ir.Value], list[ir.Value]]:
    """Writes a loop over batches; returns the stacked results and the sums."""
    inputs = list(batched.type.inputs)
    types = [*inputs[: len(consts)], *(item.init.type for item in sums), *inputs[len(consts) :]]
    new = NewFunction(rules, f"{scan.body}.batch", types, batched)
    with new.body(), batched.location:
        args = [*new.args[: len(consts)], *new.args[len(consts) + len(sums) :]]
        outs = inline(batched, args)
        num_rows = len(outs) - len(sums)
        carried = new.args[len(consts) :][: len(sums)]
        totals = [
            added(total, total_of(rules, value), negative)
            for total, value, negative in zip(carried, outs[num_rows:], subtracted, strict=True)
        ]
    body = new.finish([*totals, *outs[:num_rows]])
    loop = scan._replace(
        body=body, num_carry=len(sums), length=count, reverse=False, other=_plain(scan)
    )
    batches = inputs[len(consts) :]
    cut = [reshaped(v, (count, *t.shape)) for v, t in zip(xs, batches, strict=True)]
    results = loop.write(rules, [*consts, *(item.init for item in sums), *cut])
    whole = [reshaped(v, (scan.length, *v.type.shape[2:])) for v in results[len(sums) :]]
    return whole, results[: len(sums)]


def _plain(scan: ScanOp) -> dict[str, ir.Attribute]:
    """The attributes of the loop over batches, without ``unroll``, which was meant for the length
    of the old loop."""
    return {name: attr for name, attr in scan.other.items() if name != "unroll"}


# The values of a batch of iterations should fit into caches.  Gradients of 500 vectors times a
# matrix of 64 rows on two cores, speed and memory relative to the loop, at 256 KiB / 4 MiB: a map
# 1.9 and 1.5 / 1.7 to 2.8 and 0.5, a sum of losses 2.0 and 1.3 / 1.9 and 0.4.  A single batch saves
# the stacked results of a loop.


class RaiseLoops(Pass):
    """Scan over arrays that a loop indexes by its counter; batch independent iterations.

    Options:
      batch-bytes: the bytes that the values of a batch of iterations may take, by default the size
        of the caches; with 0 no loop is batched.
    """

    name: ClassVar[str] = "jaxpr-raise-loops"
    batch_bytes: Count | None = None

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        cached, batch_bytes = program.target.costs.cached, self.batch_bytes
        raiser = _Raiser(program, graph, cached if batch_bytes is None else batch_bytes)
        return visit_functions(program, raiser.visit, graph, LOOPS)


class _Raiser:
    """Raises the loops of one program."""

    def __init__(self, program: Module, graph: CallGraph, batch_bytes: int):
        self._program = program
        self._batch_bytes = batch_bytes
        self._target = program.target
        self._rules = Rules(program)
        self._bodies = LoopEditor(self._rules, graph)
        self._contexts = LoopContexts(program, graph)
        self._gains = Gains(program)
        self._changed = False
        # The ops of the functions that have not changed.
        self._ops = dict(graph.ops)

    def visit(self, function: func.FuncOp) -> bool:
        """Raises the loops of a function; whether it may have changed."""
        self._changed = False
        known, depth = self._contexts.of(function.name.value)
        for op, name in loops_of(function):
            if self._raise(op, name, known, depth):
                known.changed()
                self._changed = True
        if self._changed:
            self._ops.pop(function.name.value, None)
        return self._changed

    def _raise(self, op: Any, name: str, known: KnownIntegers, depth: int) -> bool:
        """Raises a loop; returns whether it changed.

        Args:
          known: the integers that are known around it.
          depth: the number of loops around it.
        """
        is_raised = name == "jaxpr.while"
        if is_raised:
            op = while_to_scan(self._rules, op, known)
            if op is None:
                return False
        scan = ScanOp.of(op)
        body = self._program.function(scan.body)
        if not can_change(body) or not scan.is_counted:
            return is_raised
        # A body without an integer argument has no counter.
        may_count = any(map(is_integer, body_of(body).arguments))
        if 0 < scan.length <= MAX_ELEMENTS and may_count:
            raised = self._raise_arrays(op, scan, known, depth)
            if raised is None:
                return True
            if raised is not op:
                is_raised, op, scan = True, raised, ScanOp.of(raised)
        if self._batch_bytes:
            is_raised |= self._maps.batch(op, scan, self._ops.get(scan.body))
        return is_raised

    @functools.cached_property
    def _maps(self) -> LoopBatcher:
        return LoopBatcher(self._rules, self._bodies, self._gains, self._batch_bytes, self._target)

    def _raise_arrays(self, op: Any, scan: ScanOp, outer: KnownIntegers, depth: int) -> Any | None:
        """The scan with its arrays raised, or the old scan; ``None`` if it has no results left."""
        # Windows are simplified even if nothing is raised.
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

"""``jaxpr-factor-logsumexp``: a log-sum-exp with loop-invariant terms is the log of a product.

The forward pass of a hidden Markov model or of a conditional random field, and the steps of
Sinkhorn's method, add a vector to the rows of a loop-invariant matrix, and compute as many
exponentials as the matrix has elements.  The exponential of a sum is a product, and the
exponentials of the matrix can be computed before the loop::

    log sum_i exp(x[i] + B[i, j])  =  m + r[j] + log sum_i exp(x[i] - m) E[i, j]

    m = max_i x[i],   r[j] = max_i B[i, j],   E[i, j] = exp(B[i, j] - r[j])

If no element of ``B`` is far below the maximum of its column, the greatest ``x[i]`` has no small
factor: no significant term underflows, and the rounding errors are as before.  The distance is
tested once, before the loop, of which there are two versions: a ``cond`` runs the version with
products or, if the numbers are too far apart, infinite or NaN, the original one.  The derivative of
the original version recomputes the exponentials instead of storing them (``remat2``).  Loops in the
original branch of such a ``cond``, for example in a derivative, get no second test.

The pass finds the ops of ``logsumexp``, applied to sums and differences of arrays, also multiplied
or divided by numbers.  Terms that are constant along the summed dimensions are added afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from jax import lax

from jaxmlir import toolbox
from jaxmlir.analysis.call_graph import SCANS, keep_reachable
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import Work
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import (
    clone,
    converted,
    create,
    inline,
    is_constant,
    named_ops,
    symbol_ref,
    symbols_of,
)
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.algebra.logsumexps import (
    MIN_RATIO,
    NEEDED,
    LogSumExpMatch,
    LogSumExpReader,
    is_near,
    worthwhile,
)
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.loops.licm import GROWTH, FunctionSplit, FunctionSplits, report
from jaxmlir.optimize.loops.scan_editor import LoopEditor, can_change
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules

# Gradients of hidden Markov models, time relative to that without the pass, jax 0.10 and 0.12:
#   states                 8           16          32          64          128
#   200 iterations         1.0, 1.1    0.74, 0.73  0.47, 0.48  0.30, 0.23  0.25, 0.24
#   10                                                         0.85, 0.87  0.59, 0.48
#   4                                                          1.1, 0.9    0.84, 0.94
#   50, of 16 sequences    1.5, 1.2    0.46, 0.45  0.29, 0.29
MIN_ITERATIONS = 8
# The number of ops that the second version of a loop counts as (many are separate kernels): it took
# 0.2 to 0.35 s to compile, and with its derivative, which saves as much again, 0.45 to 0.55 s.
VERSION_OPS = 600


class _Exponentials(NamedTuple):
    """The ops that sum up the exponentials of a log-sum-exp, as a function.

    Attributes:
      args: the values that are its arguments.
      constants: the constants that are cloned into it.
      total: the value that it returns.
    """

    args: list[int]
    constants: list[int]
    total: int


def _exponentials(body: FunctionView, log_sum_exp: LogSumExpMatch) -> _Exponentials:
    of_steps = {v for step in log_sum_exp.steps for v in range(*body.results[step])}
    operands = dict.fromkeys(
        v for step in log_sum_exp.steps for v in body.operands[step] if v not in of_steps
    )
    constants = [v for v in operands if is_constant(body.value(v))]
    (total,) = range(*body.results[log_sum_exp.steps[-1]])
    return _Exponentials([v for v in operands if v not in constants], constants, total)


def _unused(body: FunctionView, instead: Mapping[int, Collection[int]]) -> list[int]:
    """The ops that are dead once some are replaced, users first.

    Args:
      instead: for each op that is replaced, the operands of its replacement.
    """
    used = set(body.returned)
    unused = []
    for index in reversed(range(len(body.ops))):
        is_used = not used.isdisjoint(range(*body.results[index]))
        if index in instead:
            unused.append(index)
            used.update(instead[index])
        elif is_used or index in body.effects:
            used.update(body.operands[index])
        else:
            unused.append(index)
    return unused


class FactorLogsumexp(Pass):
    """Compute exponentials of loop-invariant terms of log-sum-exps before the loop.

    Options:
      min-iterations: the least number of iterations of the loop.
      min-elements: the least number of elements that an iteration sums; by default as many as
        take the time of starting the kernel of the product.
      min-ratio: the least number of exponentials that become products, for each that stays in an
        iteration.
      calls: the assumed number of calls of the program: the exponentials saved in these have to
        make up for the time to compile a second loop.
    """

    name: ClassVar[str] = "jaxpr-factor-logsumexp"
    # Matrix products in a loop are partitioned in another way than sums, and would move arrays
    # between devices in each iteration.
    partitioned: ClassVar = False
    min_iterations: Amount = MIN_ITERATIONS
    min_elements: Amount | None = None
    min_ratio: Amount = MIN_RATIO
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        if not any(names >= NEEDED for names in graph.names.values()):
            return False
        entries = graph.entry_points()
        loops = _LoopFactoring(program, self)
        count = 0
        # In the derivative of a version with recomputation, the exponentials are visible again.
        conds = [op for ops in graph.ops.values() for op, name in ops if name == "jaxpr.cond"]
        answered = {next(symbols_of(op)) for op in conds if is_near(op.operands[0])}
        for function in outside_kernels(program, SCANS):
            if function.name.value in answered:
                continue
            for op, name in named_ops(function):
                count += name == "jaxpr.scan" and loops.rewrite(function, op)
        if count:
            keep_reachable(program, entries)
        return count > 0


class _BodyVersions(NamedTuple):
    """The two versions of the body of a loop."""

    check: func.FuncOp
    """The function that chooses the version, given the loop's constants."""
    far: str
    """The body for numbers that are far apart."""
    near: str
    """The body with products."""
    split: FunctionSplit | None
    """The split of the body with products, if it has loop-invariant ops to hoist."""


class _LoopFactoring:
    """The loops of a program."""

    def __init__(self, program: Module, options: FactorLogsumexp):
        self._program = program
        self._rules = Rules(program)
        self._graph = analyses_of(program).graph
        self._bodies = LoopEditor(self._rules, self._graph)
        self._splits = FunctionSplits(self._rules, self._graph, self._bodies, GROWTH)
        self._work = Work(program)
        self._least = options.min_elements, options.min_ratio
        self._min_iterations = options.min_iterations
        self._compile_time = CompileTime(program, options.calls)
        self._exponential = program.target.costs.transcendental
        # By the body, and the numbers of its constants and carried values.
        self._by_body: dict[tuple[str, int, int], _BodyVersions | None] = {}
        self._changed: set[str] = set()

    def rewrite(self, function: func.FuncOp, op: Any) -> bool:
        """Gives a loop in a function a second version, if that pays; returns whether it does."""
        scan = ScanOp.of(op)
        if not scan.num_consts or not scan.is_counted or scan.length < self._min_iterations:
            return False
        if not PLAIN_SCAN.issuperset(scan.other):
            return False
        key = scan.body, *scan.counts
        if key not in self._by_body:
            self._by_body[key] = self._versions(scan)
        versions = self._by_body[key]
        if versions is None:
            return False
        self._changed.add(function.name.value)
        if versions.split is not None:
            report(versions.split, f"{scan.length} times")
        operands = list(op.operands)
        branches = [self._branch(name, versions, scan, op) for name in _BRANCHES]
        with ir.InsertionPoint(op), op.location:
            (index,) = inline(versions.check, operands[: scan.num_consts])
            attributes = {"branches": ir.ArrayAttr.get([symbol_ref(b) for b in branches])}
            types = list(op.results.types)
            toolbox.replace(op, create("jaxpr.cond", types, [index, *operands], attributes))
        return True

    def _branch(self, name: str, versions: _BodyVersions, scan: ScanOp, op: Any) -> str:
        """Writes a function that runs a loop with another body, with loop-invariant ops hoisted."""
        symbol, split = (versions.far, None) if name == _FAR else (versions.near, versions.split)
        like = self._program.function(scan.body)
        new = NewFunction(self._rules, name, [v.type for v in op.operands], like)
        with new.body(), op.location:
            args, counts = new.args, scan.counts
            if split is not None:
                values = inline(split.template, chosen(args, split.uses.fixed))
                args, counts = split.arguments(args, values), (split.num_before, scan.num_carry)
            results = scan.with_body(symbol, *counts).write(self._rules, args)
        return new.finish(results)

    def _versions(self, scan: ScanOp) -> _BodyVersions | None:
        symbol, num_consts = scan.body, scan.num_consts
        # Bodies that this pass has written are not in the graph.
        if not self._graph.names.get(symbol, set()) >= NEEDED:
            return None
        function = self._program.function(symbol)
        if not can_change(function):
            return None
        is_as_read = symbol not in self._changed
        body = analyses_of(self._program).body(function) if is_as_read else FunctionView(function)
        log_sum_exps = worthwhile(self._work, LogSumExpReader(body, num_consts), *self._least)
        saved = self._exponential * sum(f.sum.size for f in log_sum_exps)
        if not log_sum_exps or not self._compile_time.pays(symbol, VERSION_OPS, saved):
            return None
        for f in log_sum_exps:
            size = f.sum.size
            remark(body.ops[f.op], f"factored: {size} exponentials per iteration become a product")
        return self._write(log_sum_exps, body, scan)

    def _write(
        self, log_sum_exps: Sequence[LogSumExpMatch], body: FunctionView, scan: ScanOp
    ) -> _BodyVersions:
        far, near = (body.of_copy(self._bodies.copy(scan.body, body)) for _ in range(2))
        used_far: dict[int, Collection[int]] = {}
        for f in log_sum_exps:
            exponentials = _exponentials(body, f)
            self._recompute(f, exponentials, far)
            used_far[f.steps[-1]] = exponentials.args
        self._put(log_sum_exps, near)
        used_near = {f.op: f.operands for f in log_sum_exps}
        for version, used in ((far, used_far), (near, used_near)):
            for index in _unused(body, used):
                version.ops[index].operation.erase()
        check = self._check(log_sum_exps, body, scan.num_consts)
        near_view, symbol = FunctionView(near.function), near.function.name.value
        split = self._splits.of_scan(scan.with_body(symbol, *scan.counts), body.arity, near_view)
        return _BodyVersions(check, far.function.name.value, symbol, split)

    def _recompute(
        self, log_sum_exp: LogSumExpMatch, exponentials: _Exponentials, body: FunctionView
    ) -> None:
        """Has the derivative of a log-sum-exp recompute its exponentials: outlines these into a
        function, called by ``remat2``."""
        args, constants, total = exponentials
        types = [body.types[v] for v in args]
        new = NewFunction(self._rules, "exponentials", types, body.function)
        location = body.ops[log_sum_exp.op].location
        with new.body(), location:
            values = dict(zip(args, new.args, strict=True))
            values.update((v, clone(body.value(v))) for v in constants)
            for step in log_sum_exp.steps:
                copies = body.copy(step, [values[v] for v in body.operands[step]])
                values.update(zip(range(*body.results[step]), copies, strict=True))
        symbol = new.finish([values[total]])
        attributes = {"jaxpr": symbol_ref(symbol), "prevent_cse": codec.encode(False)}
        with ir.InsertionPoint(body.ops[log_sum_exp.steps[-1]]), location:
            operands = [body.value(v) for v in args]
            (again,) = create("jaxpr.remat2", [body.types[total]], operands, attributes)
        body.value(total).replace_all_uses_with(again)

    def _put(self, log_sum_exps: Sequence[LogSumExpMatch], body: FunctionView) -> None:
        """Replaces log-sum-exps by logs of products; the old ops stay, without users."""
        new: dict[int, ir.Value] = {}
        for f in log_sum_exps:
            op, (old,) = body.ops[f.op], range(*body.results[f.op])
            with ir.InsertionPoint(op), op.location:
                operands = [new[v] if v in new else body.value(v) for v in f.operands]
                (out,) = self._rules.emit(f.sum, operands)
                new[old] = converted(out, body.types[old])
            body.value(old).replace_all_uses_with(new[old])

    def _check(
        self, log_sum_exps: Sequence[LogSumExpMatch], body: FunctionView, num_consts: int
    ) -> func.FuncOp:
        """The function that computes the number of the version from the constants of a body."""
        types = body.types[:num_consts]
        new = NewFunction(self._rules, "near", types, body.function, detached=True)
        values = dict(enumerate(new.args))
        checked = [[f.operands[i] for i in f.sum.constants] for f in log_sum_exps]
        with new.body():
            body.copy_ops(body.backward_slice(itertools.chain(*checked))[0], values)
            answers = []
            for f, constants in zip(log_sum_exps, checked, strict=True):
                with body.ops[f.op].location:
                    operands = [values[v] for v in constants]
                    answers += self._rules.emit(f.sum.near, operands, ("near", f.sum))
            with body.function.location:
                index = self._rules.emit(_as_index, answers)
        new.finish(index)
        return new.op


_FAR = "far_apart"
_BRANCHES = (_FAR, "near")


def _as_index(*near: Any) -> list[Any]:
    """1 if all conditions hold, else 0."""
    are_near, *others = near
    for other in others:
        are_near = lax.bitwise_and(are_near, other)
    return [lax.convert_element_type(are_near, "int32")]

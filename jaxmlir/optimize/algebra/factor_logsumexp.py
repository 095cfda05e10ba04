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

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from jax import lax

from jaxmlir import toolbox
from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import Work
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import (
    SymbolUses,
    clone,
    converted,
    create,
    has_lasting_effects,
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
    Answers,
    LogSumExpMatch,
    LogSumExpReader,
    is_near,
    is_number,
    worthwhile,
)
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.loops.licm import GROWTH, FunctionSplit, FunctionSplits, report
from jaxmlir.optimize.loops.scan_editor import LoopEditor, can_change
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.new_function import ClonePlan, NewFunction
from jaxmlir.transforms.templates import Rules

# -- The rewriting of a loop body, in terms of the numbers of its ops and values --
#
# Bodies that only differ in the values of their constants share one plan.


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


class Exponentials(NamedTuple):
    """The ops that sum up the exponentials of a log-sum-exp, as a function.

    Attributes:
      args: the values that are its arguments.
      constants: the constants that are cloned into it.
      total: the value that it returns.
      ops: the numbers of its ops in the loop body.
    """

    args: tuple[int, ...]
    constants: tuple[int, ...]
    total: int
    ops: tuple[int, ...]


class FactoringPlan:
    """The rewriting of loop bodies that only differ in the values of their constants.

    Attributes:
      found: the log-sum-exps that become products.
      exponentials: for each, the function that recomputes its exponentials.
      check: the ops that compute the values that the test before the loop needs.
      unused_far: the ops that are dead once the exponentials are recomputed.
      unused_near: the ops that are dead once the log-sum-exps are logs of products.
    """

    def __init__(self, body: FunctionView, log_sum_exps: Sequence[LogSumExpMatch]):
        self._length = len(body.ops)
        self.found = log_sum_exps
        self.exponentials: list[Exponentials] = [_exponentials(body, f) for f in log_sum_exps]
        checked = [f.operands[i] for f in log_sum_exps for i in f.sum.constants]
        self.check: list[int] = body.backward_slice(checked)[0]
        self.unused_far: list[int] = _unused(
            body,
            {f.steps[-1]: e.args for f, e in zip(log_sum_exps, self.exponentials, strict=True)},
        )
        self.unused_near: list[int] = _unused(body, {f.op: f.operands for f in log_sum_exps})

    @property
    def far(self) -> list[int]:
        """The ops of the body that recomputes exponentials, by their numbers in the original body;
        a recomputing op has the number of the sum that it replaces."""
        again, unused = {f.steps[-1] for f in self.found}, set(self.unused_far)
        return [i for i in range(self._length) if i in again or i not in unused]


def _exponentials(body: FunctionView, log_sum_exp: LogSumExpMatch) -> Exponentials:
    of_steps = {v for step in log_sum_exp.steps for v in range(*body.results[step])}
    operands = dict.fromkeys(
        v for step in log_sum_exp.steps for v in body.operands[step] if v not in of_steps
    )
    constants = [v for v in operands if is_constant(body.value(v))]
    (total,) = range(*body.results[log_sum_exp.steps[-1]])
    args = [v for v in operands if v not in constants]
    ops = (*(i for v in constants for i in _cloned(body, v)), *log_sum_exp.steps)
    return Exponentials(tuple(args), tuple(constants), total, ops)


def _cloned(body: FunctionView, constant: int) -> list[int]:
    """The ops to clone for a constant, operands first."""
    index = body.makers[constant]
    return [*(i for v in body.operands[index] for i in _cloned(body, v)), index]


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
        elif is_used or has_lasting_effects(body.ops[index], body.names[index]):
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
            keep_reachable(program, entries, loops.uses)
        return count > 0


class _BodyVersions(NamedTuple):
    """The two versions of the body of a loop."""

    body: FunctionView
    check: func.FuncOp
    """The function that chooses the version, given the loop's constants."""
    far: str
    """The body for numbers that are far apart."""
    near: str
    """The body with products."""
    split: FunctionSplit | None
    """The split of the body with products, if it has loop-invariant ops to hoist."""
    patterns: _Patterns | None
    """The clone plans for bodies that are alike."""


@dataclass(frozen=True, eq=False)
class _Patterns:
    """The two versions of a body as patterns, from which the versions of like bodies are cloned."""

    check: ClonePlan
    far: ClonePlan
    near: ClonePlan
    exponentials: list[ClonePlan]
    split: FunctionSplit | None
    invariant: ClonePlan | None
    """The template of the split."""

    def write(
        self, rules: Rules, symbol: str, body: FunctionView, uses: SymbolUses
    ) -> _BodyVersions:
        """Writes the two versions of another body that is alike."""
        ops = body.signatures
        far, near = (pattern.write(rules, symbol, ops, uses) for pattern in (self.far, self.near))
        again = [pattern.write(rules, "exponentials", ops, uses) for pattern in self.exponentials]
        self.far.refer(rules, far, again, uses)
        split = self.split
        if split is not None and self.invariant is not None:
            split = replace(split, symbol=near, template=self.invariant.like(ops))
        return _BodyVersions(body, self.check.like(ops), far, near, split, self)


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
        # By the structure of a body: its plans, each with the answers about constants behind it.
        self._plans: dict[Hashable, list[tuple[Answers, FactoringPlan | None]]] = {}
        self._min_iterations = options.min_iterations
        self._compile_time = CompileTime(program, options.calls)
        self._exponential = program.target.costs.transcendental
        # By the body, and the numbers of its constants and carried values.
        self._by_body: dict[tuple[str, int, int], _BodyVersions | None] = {}
        # The symbol uses of functions that are unchanged, or copies of others.
        self.uses = self._graph.uses_in(program)
        # For each plan a body with products.
        self._near: dict[FactoringPlan, FunctionView] = {}
        self._patterns: dict[Hashable, _Patterns] = {}
        # By the patterns of the body, and the other properties of the loop.
        self._loops: dict[Hashable, ClonePlan] = {}

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
        self.uses.pop(function.name.value, None)
        if versions.split is not None:
            report(versions.split, f"{scan.length} times")
        operands = list(op.operands)
        branches = [self._branch(name, versions, scan, op, operands) for name in _BRANCHES]
        with ir.InsertionPoint(op), op.location:
            (index,) = inline(versions.check, operands[: scan.num_consts])
            attributes = {"branches": ir.ArrayAttr.get([symbol_ref(b) for b in branches])}
            types = list(op.results.types)
            toolbox.replace(op, create("jaxpr.cond", types, [index, *operands], attributes))
        return True

    def _branch(
        self,
        name: str,
        versions: _BodyVersions,
        scan: ScanOp,
        op: Any,
        operands: Sequence[ir.Value],
    ) -> str:
        """Writes a function that runs a loop with another body, with loop-invariant ops hoisted."""
        ops, patterns, types = (
            versions.body.signatures,
            versions.patterns,
            [v.type for v in operands],
        )
        symbol, split = (versions.far, None) if name == _FAR else (versions.near, versions.split)
        other = scan.length, scan.reverse, *scan.other.items(), *types
        key = patterns, name, other, op.location.attr
        pattern = None if patterns is None else self._loops.get(key)
        if pattern is not None:
            branch = pattern.write(self._rules, name, ops, self.uses)
            pattern.refer(self._rules, branch, [symbol], self.uses)
            return branch
        new = NewFunction(self._rules, name, types, versions.body.function)
        with new.body(), op.location:
            args, counts = new.args, scan.counts
            if split is not None:
                values = inline(split.template, chosen(args, split.uses.fixed))
                args, counts = split.arguments(args, values), (split.num_before, scan.num_carry)
            results = scan.with_body(symbol, *counts).write(self._rules, args)
        symbol = new.finish(results)
        if patterns is not None:
            sources = [] if split is None else patterns.invariant.sources
            self._loops[key] = ClonePlan(new.op, ops, sources, [(len(sources), "jaxpr")])
        return symbol

    def _versions(self, scan: ScanOp) -> _BodyVersions | None:
        symbol, num_consts = scan.body, scan.num_consts
        # Bodies that this pass has written are not in the graph.
        if not self._graph.names.get(symbol, set()) >= NEEDED:
            return None
        function = self._program.function(symbol)
        if not can_change(function):
            return None
        is_as_read = symbol in self.uses
        body = analyses_of(self._program).body(function) if is_as_read else FunctionView(function)
        plan = self._plan(body, num_consts)
        if plan is None:
            return None
        saved = self._exponential * sum(f.sum.size for f in plan.found)
        if not self._compile_time.pays(symbol, VERSION_OPS, saved):
            return None
        for f in plan.found:
            size = f.sum.size
            remark(body.ops[f.op], f"factored: {size} exponentials per iteration become a product")
        key = plan, scan.counts, body.likeness
        patterns = self._patterns.get(key)
        if patterns is not None:
            return patterns.write(self._rules, symbol, body, self.uses)
        versions = self._write(plan, body, scan)
        if versions.patterns is not None:
            self._patterns[key] = versions.patterns
        return versions

    def _plan(self, body: FunctionView, num_consts: int) -> FactoringPlan | None:
        """The plan of a body; ``None`` if it stays as it is."""
        plans = self._plans.setdefault((body.structure, num_consts), [])
        for answers, plan in plans:
            if all(is_number(body, *question) == answer for question, answer in answers.items()):
                return plan
        reader = LogSumExpReader(body, num_consts)
        matches = worthwhile(self._work, reader, *self._least)
        plan = FactoringPlan(body, matches) if matches else None
        plans.append((reader.answers, plan))
        return plan

    def _write(self, plan: FactoringPlan, body: FunctionView, scan: ScanOp) -> _BodyVersions:
        """Writes the two versions of a body that is like none before."""
        far, near = (body.of_copy(self._bodies.copy(scan.body, body)) for _ in range(2))
        again = [
            self._recompute(f, exponentials, far)
            for f, exponentials in zip(plan.found, plan.exponentials, strict=True)
        ]
        self._put(plan.found, near)
        for version, unused in ((far, plan.unused_far), (near, plan.unused_near)):
            for index in unused:
                version.ops[index].operation.erase()
        alike = self._near.get(plan)
        near_view = FunctionView(near.function) if alike is None else alike.of_copy(near.function)
        self._near[plan] = near_view
        check, sources = self._check(plan, body, scan.num_consts)
        # The constants of the body with products, mapped to those of the original body.
        remaining = set(range(len(body.ops))).difference(plan.unused_near)
        constants = {
            near_view.ops.index(near.ops[i]): i
            for i in remaining
            if body.names[i] == "jaxpr.constant"
        }
        symbol = near.function.name.value
        split = self._splits.of_scan(scan.with_body(symbol, *scan.counts), body.arity, near_view)
        patterns = None
        # References of the body to other functions are not tracked.
        if body.likeness and body.returned and not body.references():
            left = range(len(near_view.ops)) if split is None else split.left
            invariant, ops = None, body.signatures
            if split is not None:
                invariant = ClonePlan(split.template, ops, map(constants.get, split.moved))
            references = [(plan.far.index(f.steps[-1]), "jaxpr") for f in plan.found]
            patterns = _Patterns(
                check=ClonePlan(check, ops, sources),
                far=ClonePlan(far.function, ops, plan.far, references),
                near=ClonePlan(near.function, ops, map(constants.get, left)),
                exponentials=[
                    ClonePlan(function, ops, exponentials.ops)
                    for function, exponentials in zip(again, plan.exponentials, strict=True)
                ],
                split=split,
                invariant=invariant,
            )
        return _BodyVersions(body, check, far.function.name.value, symbol, split, patterns)

    def _recompute(
        self, log_sum_exp: LogSumExpMatch, exponentials: Exponentials, body: FunctionView
    ) -> func.FuncOp:
        """Has the derivative of a log-sum-exp recompute its exponentials: outlines these into a
        function, called by ``remat2``."""
        args, constants, total, _ = exponentials
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
        return new.op

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
        self, plan: FactoringPlan, body: FunctionView, num_consts: int
    ) -> tuple[func.FuncOp, list[int | None]]:
        """The function that computes the number of the version from the constants of a body; and
        for each of its ops the op of the body that it is a copy of, or ``None``."""
        types = body.types[:num_consts]
        new = NewFunction(self._rules, "near", types, body.function, detached=True)
        values = dict(enumerate(new.args))
        answers, sources = [], []
        with new.body():
            for f in plan.found:
                for index in plan.check:
                    if index < f.op and body.results[index][0] not in values:
                        copies = body.copy(index, [values[v] for v in body.operands[index]])
                        values.update(zip(range(*body.results[index]), copies, strict=True))
                        sources.append(index)
                constants = [values[f.operands[i]] for i in f.sum.constants]
                with body.ops[f.op].location:
                    answers += self._rules.emit(f.sum.near, constants, ("near", f.sum))
                sources += [None] * (len(new.block.operations) - len(sources))
            with body.function.location:
                index = self._rules.emit(_as_index, answers)
        new.finish(index)
        return new.op, sources


_FAR = "far_apart"
_BRANCHES = (_FAR, "near")


def _as_index(*near: Any) -> list[Any]:
    """1 if all conditions hold, else 0."""
    are_near, *others = near
    for other in others:
        are_near = lax.bitwise_and(are_near, other)
    return [lax.convert_element_type(are_near, "int32")]

"""``jaxpr-log-products``: a log-sum-exp with a constant of its loop is the log of a product.

The forward pass of a hidden Markov model or of a conditional random field, and the steps of
Sinkhorn's method, add a vector to the rows of a matrix that is the same in every iteration, and
take as many exponentials as the matrix has elements.  The exponential of a sum is a product, and
those of the matrix can be taken before the loop::

    log sum_i exp(x[i] + B[i, j])  =  m + r[j] + log sum_i exp(x[i] - m) E[i, j]

    m = max_i x[i],   r[j] = max_i B[i, j],   E[i, j] = exp(B[i, j] - r[j])

Where no element of ``B`` is far below the greatest of its column, the greatest ``x[i]`` meets no
small factor: nothing that counts underflows, and the rounding errors are those of the other side.
How far they are is asked once, before the loop, of which there are two versions: a ``cond`` runs
the one with products, or, if the numbers are too far apart, infinite or NaN, the one as it was.
The derivative of that one computes the exponentials again, rather than keep them (``remat2``).

Found is what ``logsumexp`` writes, of sums and differences of arrays, also multiplied with numbers
or divided by them; what does not change along the summed dimensions is added afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir import codec
from jaxmlir._lists import chosen
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes import toolbox
from jaxmlir.passes._base import Amount, Pass
from jaxmlir.passes._bodies import Bodies, can_change
from jaxmlir.passes._body import Body
from jaxmlir.passes._build import (
    NewFunction,
    clone,
    converted,
    inline,
    named_ops,
)
from jaxmlir.passes._call_graph import SCANS, keep_reachable, outside_kernels
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import Work
from jaxmlir.passes.higher_order._custom_rules import create, symbol_ref
from jaxmlir.passes.higher_order._scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.passes.licm import GROWTH, report
from jaxmlir.passes.licm._splits import Split, Splits
from jaxmlir.passes.log_products._plan import (
    MIN_ELEMENTS,
    MIN_ITERATIONS,
    MIN_RATIO,
    Exponentials,
    Plan,
    Plans,
)
from jaxmlir.passes.log_products._reader import NEEDED, Found

if TYPE_CHECKING:
    from jaxmlir.program import Program


class LogProducts(Pass):
    """Take the exponentials of the constants of a log-sum-exp before the loop.

    Options:
      min-iterations: of the loop.
      min-elements: that are summed up in an iteration.
      min-ratio: how many exponentials become products, for each that an iteration still takes.
    """

    name: ClassVar[str] = "jaxpr-log-products"
    min_iterations: Amount = MIN_ITERATIONS
    min_elements: Amount = MIN_ELEMENTS
    min_ratio: Amount = MIN_RATIO

    def run(self, program: Program) -> bool:
        return log_products(program, self.min_iterations, self.min_elements, self.min_ratio) > 0


def log_products(
    program: Program,
    min_iterations: float = MIN_ITERATIONS,
    min_elements: float = MIN_ELEMENTS,
    min_ratio: float = MIN_RATIO,
) -> int:
    """Gives loops a second version, in place; how many."""
    graph = program.reading.graph
    if not any(names >= NEEDED for names in graph.names.values()):
        return 0
    with scope():
        entries = graph.entry_points()
        loops = _Loops(program, min_iterations, min_elements, min_ratio)
        count = 0
        for function in outside_kernels(program, SCANS):
            for op, name in named_ops(function):
                count += name == "jaxpr.scan" and loops.rewrite(function, op)
        if count:
            keep_reachable(program, entries)
    return count


@dataclass(frozen=True)
class _Versions:
    """What the body of a loop becomes."""

    check: func.FuncOp
    """Of the constants, the number of the version."""
    far: str
    """The body for numbers that are far apart."""
    near: Body
    """The one with products, what of these is the same in every iteration being in it."""


class _Loops:
    """The loops of a program."""

    def __init__(
        self, program: Program, min_iterations: float, min_elements: float, min_ratio: float
    ):
        self._program = program
        self._rules = Rules(program)
        self._graph = program.reading.graph
        self._bodies = Bodies(self._rules, self._graph)
        self._splits = Splits(self._rules, self._graph, self._bodies, GROWTH)
        self._plans = Plans(Work(program), min_elements, min_ratio)
        self._min_iterations = min_iterations
        # By the body, and what of its arguments are constants and carried.
        self._known: dict[tuple[str, int, int], _Versions | None] = {}
        # The functions that are no more as they were read.
        self._changed: set[str] = set()
        # A body with products of each plan.
        self._near: dict[Plan, Body] = {}

    def rewrite(self, function: func.FuncOp, op: Any) -> bool:
        """Gives a loop in a function a second version, if that pays; whether it does."""
        scan = ScanOp.of(op)
        if not scan.num_consts or not scan.is_counted or scan.length < self._min_iterations:
            return False
        if not PLAIN_SCAN.issuperset(scan.other):
            return False
        key = scan.body, *scan.counts
        if key not in self._known:
            self._known[key] = self._versions(scan.body, scan.num_consts)
        versions = self._known[key]
        if versions is None:
            return False
        self._changed.add(function.name.value)
        operands = list(op.operands)
        near = scan.with_body(versions.near.function.name.value, *scan.counts)
        split = self._splits.of_scan(near, len(operands), versions.near)
        if split is not None:
            report(split, f"{scan.length} times")
        branches = [
            self._branch("far_apart", scan.with_body(versions.far, *scan.counts), op, operands),
            self._branch("near", near, op, operands, split),
        ]
        with ir.InsertionPoint(op), op.location:
            (index,) = inline(versions.check, operands[: scan.num_consts])
            attributes = {"branches": ir.ArrayAttr.get([symbol_ref(b) for b in branches])}
            types = list(op.results.types)
            toolbox.replace(op, create("jaxpr.cond", types, [index, *operands], attributes))
        return True

    def _branch(
        self,
        name: str,
        scan: ScanOp,
        op: Any,
        operands: Sequence[ir.Value],
        split: Split | None = None,
    ) -> str:
        """A function that is a loop.

        Args:
          split: its body in two, what the one half gives being computed before the loop.
        """
        like = self._program.function(scan.body)
        new = NewFunction(self._rules, name, [v.type for v in operands], like)
        with new.body(), op.location:
            args = new.args
            if split is not None:
                values = inline(split.template, chosen(args, split.uses.fixed))
                args = split.arguments(args, values)
                scan = scan.with_body(split.symbol, split.num_before, scan.num_carry)
            results = scan.write(self._rules, args)
        return new.finish(results)

    def _versions(self, symbol: str, num_consts: int) -> _Versions | None:
        # Bodies that have been written meanwhile are not in the graph.
        if not self._graph.names.get(symbol, set()) >= NEEDED:
            return None
        function = self._program.function(symbol)
        if not can_change(function):
            return None
        is_as_read = symbol not in self._changed
        body = self._program.reading.body(function) if is_as_read else Body(function)
        plan = self._plans.of(body, num_consts)
        if plan is None:
            return None
        far, near = (body.of_copy(self._bodies.copy(symbol, body)) for _ in range(2))
        for f, exponentials in zip(plan.found, plan.exponentials, strict=True):
            self._recompute(f, exponentials, far)
        self._put(plan.found, near)
        for version, unused in ((far, plan.unused_far), (near, plan.unused_near)):
            for index in unused:
                version.ops[index].operation.erase()
        alike = self._near.get(plan)
        read = Body(near.function) if alike is None else alike.of_alike(near.function)
        self._near[plan] = read
        return _Versions(self._check(plan, body, num_consts), far.function.name.value, read)

    def _recompute(self, found: Found, exponentials: Exponentials, body: Body) -> None:
        """Has the derivative of a log-sum-exp compute its exponentials again."""
        args, constants, total = exponentials
        types = [body.types[v] for v in args]
        new = NewFunction(self._rules, "exponentials", types, body.function)
        location = body.ops[found.op].location
        with new.body(), location:
            values = dict(zip(args, new.args, strict=True))
            values.update((v, clone(body.value(v))) for v in constants)
            for step in found.steps:
                copies = body.copy(step, [values[v] for v in body.operands[step]])
                values.update(zip(range(*body.results[step]), copies, strict=True))
        symbol = new.finish([values[total]])
        attributes = {"jaxpr": symbol_ref(symbol), "prevent_cse": codec.encode(False)}
        with ir.InsertionPoint(body.ops[found.steps[-1]]), location:
            given = [body.value(v) for v in args]
            (again,) = create("jaxpr.remat2", [body.types[total]], given, attributes)
        body.value(total).replace_all_uses_with(again)

    def _put(self, found: Sequence[Found], body: Body) -> None:
        """Writes logs of products in the place of log-sum-exps, which stay without users."""
        new: dict[int, ir.Value] = {}
        for f in found:
            op, (old,) = body.ops[f.op], range(*body.results[f.op])
            remark(op, f"{f.sum.size} exponentials of an iteration become a product")
            with ir.InsertionPoint(op), op.location:
                operands = [new[v] if v in new else body.value(v) for v in f.operands]
                (out,) = self._rules.emit(f.sum, operands, f.sum)
                new[old] = converted(out, body.types[old])
            body.value(old).replace_all_uses_with(new[old])

    def _check(self, plan: Plan, body: Body, num_consts: int) -> func.FuncOp:
        """The number of the version, of the constants of a body."""
        types = body.types[:num_consts]
        new = NewFunction(self._rules, "near", types, body.function, detached=True)
        values = dict(enumerate(new.args))
        answers = []
        with new.body():
            for f in plan.found:
                for index in plan.check:
                    if index < f.op and body.results[index][0] not in values:
                        copies = body.copy(index, [values[v] for v in body.operands[index]])
                        values.update(zip(range(*body.results[index]), copies, strict=True))
                constants = [values[f.operands[i]] for i in f.sum.constants]
                with body.ops[f.op].location:
                    answers += self._rules.emit(f.sum.near, constants, ("near", f.sum))
            with body.function.location:
                index = self._rules.emit(_as_index, answers, "log_products.index")
        new.finish(index)
        return new.op


def _as_index(*near: Any) -> list[Any]:
    """1 if all of them hold, else 0."""
    found, *others = near
    for other in others:
        found = lax.bitwise_and(found, other)
    return [lax.convert_element_type(found, "int32")]

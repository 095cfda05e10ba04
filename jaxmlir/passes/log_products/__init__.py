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

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
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
    drop_dead_ops,
    inline,
    is_constant,
    named_ops,
    returned,
    set_results,
)
from jaxmlir.passes._call_graph import SCANS, keep_reachable, outside_kernels
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import TRANSCENDENTAL, Work
from jaxmlir.passes.higher_order._custom_rules import create, symbol_ref
from jaxmlir.passes.higher_order._scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.passes.licm import GROWTH, report
from jaxmlir.passes.licm._splits import Split, Splits
from jaxmlir.passes.log_products._reader import NEEDED, Found, Reader

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Gradients of hidden Markov models, of the time that they took without, jax 0.10 and 0.12:
#   states                 8           16          32          64          128
#   200 iterations         1.0, 1.1    0.74, 0.73  0.47, 0.48  0.30, 0.23  0.25, 0.24
#   10                                                         0.85, 0.87  0.59, 0.48
#   4                                                          1.1, 0.9    0.84, 0.94
#   50, of 16 sequences    1.5, 1.2    0.46, 0.45  0.29, 0.29
MIN_ITERATIONS = 8
MIN_ELEMENTS = 256
MIN_RATIO = 12
# Of the work of an iteration, the part that the exponentials are: two loops take longer to compile.
MIN_SHARE = 0.5


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


def worthwhile(
    work: Work,
    body: Body,
    num_consts: int,
    min_elements: float = MIN_ELEMENTS,
    min_ratio: float = MIN_RATIO,
) -> list[Found]:
    """The log-sum-exps of the body of a long loop that become products; none if they are too small
    a part of its work."""
    found = [
        f
        for f in Reader(body, num_consts).found()
        if f.sum.size >= max(min_elements, min_ratio * f.sum.inner_size)
    ]
    if not found:
        return []
    taken = TRANSCENDENTAL * sum(f.sum.size for f in found)
    all_ = sum(work.at(body, index) for index in range(len(body.ops)))
    return found if taken >= MIN_SHARE * all_ else []


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
        self._work = Work(program)
        self._min_iterations = min_iterations
        self._min_elements = min_elements
        self._min_ratio = min_ratio
        # By the body, and what of its arguments are constants and carried.
        self._known: dict[tuple[str, int, int], _Versions | None] = {}
        # The functions that are no more as they were read.
        self._changed: set[str] = set()
        # Bodies with products, by what they are made of but for constants.
        self._near: dict[Hashable, Body] = {}

    def rewrite(self, function: func.FuncOp, op: Any) -> bool:
        """Gives a loop in a function a second version, if that pays; whether it does."""
        scan = ScanOp.of(op)
        if not scan.num_consts or not scan.is_counted or scan.length < self._min_iterations:
            return False
        if not PLAIN_SCAN.issuperset(name for name, _ in op.attributes.items()):
            return False
        key = scan.body, *scan.counts
        if key not in self._known:
            self._known[key] = self._versions(scan.body, scan.num_consts)
        versions = self._known[key]
        if versions is None:
            return False
        self._changed.add(function.name.value)
        operands = list(op.operands)
        near = replace(scan, body=versions.near.function.name.value)
        split = self._splits.of_scan(near, len(operands), versions.near)
        if split is not None:
            report(split, f"{scan.length} times")
        branches = [
            self._branch("far_apart", replace(scan, body=versions.far), op, operands),
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
                scan = replace(scan, body=split.symbol, num_consts=split.num_before)
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
        large = self._min_elements, self._min_ratio
        found = worthwhile(self._work, body, num_consts, *large)
        if not found:
            return None
        far, near = (body.of_copy(self._bodies.copy(symbol)) for _ in range(2))
        for f in found:
            self._recompute(f, far)
        answers = self._put(found, near)
        outs = returned(near.function)
        set_results(near.function, [*outs, *answers])
        check = self._check(near.function, num_consts, len(answers))
        set_results(near.function, outs)
        for version in (far, near):
            drop_dead_ops(version.function)
        key = body.structure, num_consts, tuple(found)
        alike = self._near.get(key)
        read = Body(near.function) if alike is None else alike.of_alike(near.function)
        self._near[key] = read
        return _Versions(check, far.function.name.value, read)

    def _recompute(self, found: Found, body: Body) -> None:
        """Has the derivative of a log-sum-exp compute its exponentials again."""
        made = {v for step in found.steps for v in range(*body.results[step])}
        operands = dict.fromkeys(
            v for step in found.steps for v in body.operands[step] if v not in made
        )
        constants = {v for v in operands if is_constant(body.value(v))}
        args = [v for v in operands if v not in constants]
        types = [body.types[v] for v in args]
        new = NewFunction(self._rules, "exponentials", types, body.function)
        location = body.ops[found.op].location
        with new.body(), location:
            values = dict(zip(args, new.args, strict=True))
            values.update((v, clone(body.value(v))) for v in operands if v in constants)
            for step in found.steps:
                copies = body.copy(step, [values[v] for v in body.operands[step]])
                values.update(zip(range(*body.results[step]), copies, strict=True))
        (total,) = range(*body.results[found.steps[-1]])
        symbol = new.finish([values[total]])
        attributes = {"jaxpr": symbol_ref(symbol), "prevent_cse": codec.encode(False)}
        with ir.InsertionPoint(body.ops[found.steps[-1]]), location:
            given = [body.value(v) for v in args]
            (again,) = create("jaxpr.remat2", [body.types[total]], given, attributes)
        body.value(total).replace_all_uses_with(again)

    def _put(self, found: Sequence[Found], body: Body) -> list[ir.Value]:
        """Writes logs of products in the place of log-sum-exps, which stay without users; of each,
        whether its constants are near enough to one another."""
        new: dict[int, ir.Value] = {}
        answers = []
        for f in found:
            op, (old,) = body.ops[f.op], range(*body.results[f.op])
            remark(op, f"{f.sum.size} exponentials of an iteration become a product")
            with ir.InsertionPoint(op), op.location:
                operands = [new[v] if v in new else body.value(v) for v in f.operands]
                out, near = self._rules.emit(f.sum, operands, f.sum)
                new[old] = converted(out, body.types[old])
            body.value(old).replace_all_uses_with(new[old])
            answers.append(near)
        return answers

    def _check(self, body: func.FuncOp, num_consts: int, count: int) -> func.FuncOp:
        """The number of the version, of the constants of a body whose last results are answers."""
        types = list(body.type.inputs)
        new = NewFunction(self._rules, "near", types[:num_consts], body, detached=True)
        with new.body(), body.location:
            others = [self._rules.filler(t) for t in types[num_consts:]]
            answers = inline(body, [*new.args, *others])[-count:]
            index = self._rules.emit(_as_index, answers, "log_products.index")
        new.finish(index)
        drop_dead_ops(new.op)
        return new.op


def _as_index(*near: Any) -> list[Any]:
    """1 if all of them hold, else 0."""
    found, *others = near
    for other in others:
        found = lax.bitwise_and(found, other)
    return [lax.convert_element_type(found, "int32")]

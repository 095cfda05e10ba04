"""``jaxpr-factor-linear-sums``: factors common linear functions out of sums.

The Laplacian of a network is written as ``jnp.trace(jax.hessian(f)(x))``: it takes for each basis
vector ``e_i`` a derivative of the gradient, ``H e_i``, and then one element of it.  Let ``L`` be
the backward pass, which is linear in its inputs ``c_i`` from the tangents ``t_i``.  Two facts make
the Laplacian cheaper::

    sum over i of L(c_i)      =  L(sum over i of c_i)         L is the same for all i
    <e_i, L(c_i)>             =  <L^T e_i, c_i>               L^T e_i are the tangents, again

So only the tangents are computed for each ``i`` (Li et al. 2023, "Forward Laplacian"; Dangel et al.
2025, "Collapsing Taylor mode automatic differentiation").  The pass does not know Laplacians; it
handles sums:

1. It reads the ops of a function as tensors without a layout (``labelled_tensors``).  So values
   that are computed twice, batched in different ways, become the same expression.
2. From a value, the *root*, a walk goes backwards through the ops that the root is linear in, and
   computes cotangents: tensors ``c`` with ``root = sum of <c, expr>`` over the expressions reached
   (:mod:`.region`).  It goes on while that is cheaper than to stop: if cotangents are values that
   the program computes anyway, or lose a dimension by a sum over ``i``.
3. If the estimate improves 1.3 times, the root is computed from the expressions at the end of the
   walk, and the ops between become dead.  Factors without an index are pulled out of the sum over
   it.

The notes of ``jaxpr-reassociate`` about rounding, and zeros times NaN, hold here as well.  Floats
of less than four bytes and sharded arrays are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_narrow
from jaxmlir.dialect.builder import drop_dead_ops
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.errors import count
from jaxmlir.optimize.algebra.factor_linear_sums.region import (
    AmbiguousDimension,
    CotangentWalk,
    cost,
    price,
    stops,
    transposed,
)
from jaxmlir.optimize.algebra.labelled_tensors import writing
from jaxmlir.optimize.algebra.labelled_tensors.cost import MIN_GAIN
from jaxmlir.optimize.algebra.labelled_tensors.expressions import LINEAR, Expr
from jaxmlir.optimize.algebra.labelled_tensors.kinds import SUMS
from jaxmlir.optimize.algebra.labelled_tensors.reading import FunctionTensors, read
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.rewriting.inline import inlined
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules


class FactorLinearSums(Pass):
    """Compute sums of linear functions by transposes or from sums of operands, if cheaper.

    Options:
      min-gain: how many times faster the sum has to get, by the estimate; 0 for any sum.
    """

    name: ClassVar[str] = "jaxpr-factor-linear-sums"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        entries, kernels = graph.entry_points(), graph.kernels()
        count = sum(
            _rewrite(program, symbol, self.min_gain)
            for symbol in list(program.functions)
            if symbol not in kernels and _may_gain(graph.ops[symbol])
        )
        if count:
            keep_reachable(program, entries)
        return count > 0


@dataclass(frozen=True)
class _SumRewrite:
    """The rewrite of a root that has a cheaper form.

    Attributes:
      recipe: the recipe of the root, given ``inputs``.
      gone: the expressions that become dead.
      before, after: estimates in nanoseconds.
    """

    root: Expr
    recipe: writing.TensorRecipe
    inputs: list[Expr]
    gone: list[Expr]
    before: float
    after: float


def _may_gain(ops: Sequence[tuple[Any, str]]) -> bool:
    """Whether the ops of a function include two sums: one, and one that it may be over."""
    return sum([name in SUMS for _, name in ops]) > 1


def _rewrite(program: Module, symbol: str, min_gain: float) -> int:
    """Rewrites a function, inlining its callees if need be; returns the number of sums."""
    function = program.function(symbol)
    reading = read(analyses_of(program).inlined(function))
    changes = _changes(reading, program.target.costs, min_gain)
    if not changes:
        return 0
    whole = inlined(program.functions, function)
    if whole is not function:
        reading.body = FunctionView(whole)
        function.operation.erase()
        program.functions[symbol] = whole
    rules = Rules(program)
    values: dict[Expr, ir.Value] = {}
    for change in changes:
        _write(rules, reading, change, values)
    drop_dead_ops(whole)
    # Other functions may call it.
    program.changed()
    return len(changes)


def _changes(reading: FunctionTensors, costs: Costs, min_gain: float) -> list[_SumRewrite]:
    """The rewrites of roots.

    A root is an expression that is linear in an operand and has a use that is not linear in it.
    Expressions at which a walk ends are roots as well.
    """
    linear_uses: dict[Expr, int] = {}
    weights: dict[Expr, float] = {}
    for expr in reading.ops:
        if expr.kind in LINEAR:
            heaviest = 0.0
            for e, _, _ in expr.operands:
                linear_uses[e] = linear_uses.get(e, 0) + 1
                if (weight := weights.get(e, 0.0)) > heaviest:
                    heaviest = weight
            weights[expr] = heaviest + cost(expr, costs)
    changes = []
    pending = [e for e in weights if linear_uses.get(e, 0) < e.uses]
    seen = set(pending)
    while pending:
        root = pending.pop()
        # Sums of floats of less than four bytes would be rounded too early.
        if is_narrow(root.dtype) or (min_gain and not _is_promising(root)):
            continue
        try:
            walk, change = _walked(reading, weights, costs, root, min_gain)
        except (AmbiguousDimension, writing.NotRecomputable):
            continue
        if change is not None:
            changes.append(change)
        for place in walk.leaves():
            if place.expr in weights and place.expr not in seen:
                seen.add(place.expr)
                pending.append(place.expr)
    return changes


def _is_promising(root: Expr) -> bool:
    """Whether only the root uses a product of matrices that is larger than itself, and that has a
    factor which is linear in others."""
    handed: dict[Expr, int] = {}
    pending = [root]
    while pending:
        for expr, _, _ in pending.pop().operands:
            if expr.kind not in LINEAR:
                continue
            handed[expr] = handed.get(expr, 0) + 1
            if handed[expr] == expr.uses:
                from_linear = any([e.kind in LINEAR for e, _, _ in expr.operands])
                if expr.size > root.size and from_linear and expr.contracts:
                    return True
                pending.append(expr)
    return False


def _walked(
    reading: FunctionTensors, weights: dict[Expr, float], costs: Costs, root: Expr, min_gain: float
) -> tuple[CotangentWalk, _SumRewrite | None]:
    """The walk from a root, and the rewrite if it pays.

    Args:
      weights: for each expression the cost of the most expensive chain of linear ops to it.

    Raises:
      AmbiguousDimension: the walk reaches a dimension by different labels of the root.
      writing.NotRecomputable: its result cannot be written.
    """
    last = reading.ops[root]

    def is_there(expr: Expr) -> bool:
        return reading.is_before(expr, last)

    walk = CotangentWalk(reading.algebra, weights, costs, root, is_there)
    ends = stops(walk) if min_gain else set()
    short = CotangentWalk(reading.algebra, weights, costs, root, is_there, ends) if ends else walk
    passed = [place.expr for place in short.places.values() if place.step]
    if not passed or (min_gain and not any([e.contracts for e in passed])):
        return walk, None
    rewritten = transposed(short)
    recipe, inputs = writing.recipe_of(reading, root.value, rewritten, is_there)
    gone = _dying(root, inputs)
    before = sum(cost(expr, costs) for expr in gone)
    after = price(rewritten.expr, costs, is_there, set(), set())
    if before < min_gain * after or (min_gain and not any([e.contracts for e in gone])):
        return walk, None
    return walk, _SumRewrite(root, recipe, inputs, gone, before, after)


def _dying(root: Expr, inputs: list[Expr]) -> list[Expr]:
    """The expressions that become dead if a root is computed from some inputs."""
    left: dict[Expr, int] = {e: e.uses + 1 for e in inputs}
    dying = []
    pending = [root]
    while pending:
        expr = pending.pop()
        dying.append(expr)
        for e, _, _ in expr.operands:
            left[e] = left.get(e, e.uses) - 1
            if not left[e]:
                pending.append(e)
    return dying


def _write(
    rules: Rules, reading: FunctionTensors, change: _SumRewrite, new: dict[Expr, ir.Value]
) -> None:
    """Rewrites a root.

    Args:
      new: the values that have replaced roots; this one is added.
    """
    if remarks_wanted():
        products = sum([e.contracts for e in change.gone])
        remark(
            reading.body.ops[reading.ops[change.root]],
            "computed the sum of a linear function by its transpose, which removes "
            f"{count(len(change.gone), 'op')} (matrix products: {products}): "
            f"{change.after / 1000:.3g} us instead of {change.before / 1000:.3g} us",
        )
    writing.write(rules, reading, change.root, change.recipe, change.inputs, new)

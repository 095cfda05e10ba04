"""``jaxpr-factor-linear-sums``: sums of linear functions, by what they have in common.

The Laplacian of a network is written as ``jnp.trace(jax.hessian(f)(x))``: for each of the basis
vectors ``e_i`` a derivative of the gradient, ``H e_i``, of which then one element is taken.  With
``L`` the backward pass, which is linear in what the tangents ``t_i`` bring into it, two facts make
it cheaper::

    sum over i of L(c_i)      =  L(sum over i of c_i)         L is the same for all i
    <e_i, L(c_i)>             =  <L^T e_i, c_i>               L^T e_i are the tangents, again

So nothing but the tangents is computed for each ``i`` (Li et al. 2023, "Forward Laplacian"; Dangel
et al. 2025, "Collapsing Taylor mode automatic differentiation").  The pass knows of no Laplacians;
it knows of sums:

1. A function's ops are read as tensors without a layout (:mod:`.tensors`), so
   that what is computed twice, batched in another way, is seen to be the same.
2. From a value, its *root*, a walk goes backwards through all that it is linear in, and carries the
   transpose along: tensors ``c`` with ``root = sum of <c, expr>`` over the expressions that it has
   come to (:mod:`.region`).  It goes on as long as that is cheaper than to stop: where cotangents
   are what the program has computed anyway, or have fewer dimensions, as a sum over ``i`` is left.
3. If the estimate gets 1.3 times better, the root is computed from the expressions at the end of
   the walk, and what led from there to it goes.  Factors that know nothing of an
   index are taken out of the sum over it.

What ``jaxpr-reassociate`` says of rounding, and of zeros times NaN, holds here as well.  Floats of
less than four bytes, and arrays that are sharded, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir.analysis.call_graph import keep_reachable
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import converted, drop_dead_ops
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.factor_linear_sums.region import (
    Unfit,
    Walk,
    contracts,
    cost,
    price,
    stops,
    transposed,
)
from jaxmlir.optimize.algebra.factor_linear_sums.tensors import (
    CONTRACTING,
    LINEAR,
    Expr,
    Reading,
    Tensor,
    Wiring,
)
from jaxmlir.optimize.algebra.labelled_tensors import LabelledArray, contracted
from jaxmlir.optimize.algebra.products import MIN_GAIN
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.inline import inlined
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

# -- Writing an expression: one JAX function, traced once for each plan --


class Step(NamedTuple):
    """An operation; operands are numbers of inputs and steps, with a wiring and a sign each."""

    kind: str
    params: Any
    operands: tuple[tuple[int, Wiring, int], ...]
    sizes: tuple[int, ...]
    rank: int
    contracts: bool


class Plan(NamedTuple):
    """A recipe that computes a tensor, as a function that JAX traces; hashable.

    Attributes:
      inputs: for each dimension of a value the dimension of the expression, or ``None``; and the
        value's sign.
      steps: what is computed, in order.
      labels: of the dimensions of the last one.
      sign: of the last one.
      layout: for each dimension of the result the label, or ``None`` if it is repeated.
      shape: of the result.
    """

    inputs: tuple[tuple[tuple[int | None, ...], int], ...]
    steps: tuple[Step, ...]
    labels: tuple[int, ...]
    sign: int
    layout: tuple[int | None, ...]
    shape: tuple[int, ...]
    dtype: Any

    def __call__(self, *args: Any) -> list[Any]:
        arrays = [_input(x, layout) for x, (layout, _) in zip(args, self.inputs, strict=True)]
        signs = [sign for _, sign in self.inputs]
        for step in self.steps:
            operands = [
                (arrays[i].relabelled(w), sign * (signs[i] if i < len(signs) else 1))
                for i, w, sign in step.operands
            ]
            arrays.append(_computed(step, operands, self.dtype, len(signs)))
        found = arrays[-1].relabelled(self.labels)
        if self.sign < 0:
            found = LabelledArray(lax.neg(found.array), found.labels)
        # Each dimension that is repeated has a label of its own.
        labels = [-1 - d if k is None else k for d, k in enumerate(self.layout)]
        return [found.spread(labels, dict(zip(labels, self.shape, strict=True)))]


def plan(
    root: Expr, shape: tuple[int, ...], new: Tensor, is_there: Callable[[Expr], bool]
) -> tuple[Plan, list[Expr]]:
    """The plan that computes a tensor in the place of a root, and the expressions that it takes.

    Raises:
      Unfit: something has to be computed again that cannot be.
    """
    inputs: list[Expr] = []
    order: list[Expr] = []
    seen: set[Expr] = set()
    pending = [(new.expr, False)]
    while pending:
        expr, done = pending.pop()
        if done:
            order.append(expr)
        elif expr not in seen:
            seen.add(expr)
            if is_there(expr) and expr.kind != "constant":
                inputs.append(expr)
            elif expr.kind not in _KINDS:
                raise Unfit
            else:
                pending.append((expr, True))
                pending += [(e, False) for e, _, _ in reversed(expr.operands)]
    number = {expr: k for k, expr in enumerate((*inputs, *order))}
    steps = tuple(
        Step(
            e.kind,
            e.params,
            tuple((number[x], w, s) for x, w, s in e.operands),
            e.sizes,
            e.rank,
            contracts(e),
        )
        for e in order
    )
    found = Plan(
        tuple((e.layout, e.sign) for e in inputs),
        steps,
        new.labels,
        new.sign * root.sign,
        root.layout,
        shape,
        root.dtype,
    )
    return found, inputs


def _input(value: Any, layout: Sequence[int | None]) -> LabelledArray:
    """A value without dimensions that the expression has not."""
    kept = [d for d, k in enumerate(layout) if k is not None]
    limits = [n if d in kept else 1 for d, n in enumerate(value.shape)]
    if tuple(limits) != value.shape:
        value = lax.slice(value, [0] * value.ndim, limits)
    if len(kept) < value.ndim:
        value = lax.reshape(value, [value.shape[d] for d in kept])
    return LabelledArray(value, tuple([layout[d] for d in kept]))


def _computed(
    step: Step, operands: list[tuple[LabelledArray, int]], dtype: Any, inputs: int
) -> LabelledArray:
    gone = range(step.rank, len(step.sizes))
    signs = [sign for _, sign in operands]
    match step.kind:
        case "constant":
            return LabelledArray(np.frombuffer(step.params, dtype)[0].reshape(()), ())
        case "eye":
            i, j = (lax.broadcasted_iota(np.int32, step.sizes, axis) for axis in (0, 1))
            return LabelledArray(lax.convert_element_type(lax.eq(i, j), dtype), (0, 1))
        case "product" if step.contracts:
            # What is computed comes first: it is of points, say, and the other one of weights.
            order = sorted(range(2), key=lambda k: step.operands[k][0] < inputs)
            a, b = (operands[k][0] for k in order)
            # A sum that was none of a matrix product keeps all digits.
            precision = lax.Precision.HIGHEST if step.params is None else step.params.precision
            found = contracted(a, b, gone, precision, dtype)
            negative = signs.count(-1) == 1
            return LabelledArray(lax.neg(found.array), found.labels) if negative else found
    # The result has its dimensions in the order of the largest operand.
    labels = max((a.labels for a, _ in operands), key=len)
    labels = (*labels, *(k for k in range(len(step.sizes)) if k not in labels))
    arrays = [a.spread(labels, step.sizes) for a, _ in operands]
    match step.kind:
        case "add":
            a, b = arrays
            if signs[0] < 0 and signs[1] > 0:
                found = lax.sub(b, a)
            else:
                a = lax.neg(a) if signs[0] < 0 else a
                found = lax.add(a, b) if signs[1] > 0 else lax.sub(a, b)
            return LabelledArray(found, labels)
        case "mask":
            zero = lax.full_like(arrays[1], 0)
            cases = [arrays[1], zero] if step.params else [zero, arrays[1]]
            found = lax.select_n(arrays[0], *cases)
        case "div":
            found = lax.div(*arrays)
        case _:
            found = arrays[0] if len(arrays) == 1 else lax.mul(*arrays)
    if signs.count(-1) % 2:
        found = lax.neg(found)
    return LabelledArray(found, labels).summed(gone)


_KINDS = frozenset({"add", "constant", "div", "eye", "mask", "product"})
"""What can be written."""


class FactorLinearSums(Pass):
    """Compute sums of linear functions by their transposes, or of sums, where that costs less.

    Options:
      min-gain: how many times faster it has to be in the estimate; 0 does what can be done.
    """

    name: ClassVar[str] = "jaxpr-factor-linear-sums"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        with scope():
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


class _Change(NamedTuple):
    """A root that is better computed otherwise.

    Attributes:
      plan: how, from ``inputs``.
      gone: what need not be computed any more.
      before, after: estimates in nanoseconds.
    """

    root: Expr
    plan: Plan
    inputs: list[Expr]
    gone: list[Expr]
    before: float
    after: float


def _may_gain(ops: Sequence[tuple[Any, str]]) -> bool:
    """Whether there is a sum, and something that it may be of, among the ops of a function."""
    return sum([name in CONTRACTING for _, name in ops]) > 1


def _rewrite(program: Module, symbol: str, min_gain: float) -> int:
    """Rewrites a function, with what is called in it inlined if need be; how many sums."""
    function = program.function(symbol)
    reading = Reading(analyses_of(program).inlined(function))
    changes = _changes(reading, program.target.costs, min_gain)
    if not changes:
        return 0
    whole = inlined(program.functions, function)
    if whole is not function:
        reading.body = FunctionView(whole)
        function.operation.erase()
        program.functions[symbol] = whole
    rules = Rules(program)
    new: dict[Expr, ir.Value] = {}
    for change in changes:
        _write(rules, reading, change, new)
    drop_dead_ops(whole)
    # Other functions may call it.
    program.changed()
    return len(changes)


def _changes(reading: Reading, costs: Costs, min_gain: float) -> list[_Change]:
    """The roots to compute otherwise.

    A root is what is linear in something and used by an op that is not linear in it; and, where a
    walk has ended at a value with other users, that value.
    """
    linear_uses: dict[Expr, int] = {}
    weights = reading.weight
    for expr in reading.ops:
        if expr.kind in LINEAR:
            heaviest = 0.0
            for e, _, _ in expr.operands:
                linear_uses[e] = linear_uses.get(e, 0) + 1
                if (weight := weights.get(e, 0.0)) > heaviest:
                    heaviest = weight
            weights[expr] = heaviest + cost(expr, costs)
    found = []
    pending = [e for e in reading.weight if linear_uses.get(e, 0) < e.uses]
    seen = set(pending)
    while pending:
        root = pending.pop()
        if min_gain and not _is_promising(root):
            continue
        try:
            walk, change = _walked(reading, costs, root, min_gain)
        except Unfit:
            continue
        if change is not None:
            found.append(change)
        for place in walk.leaves():
            if place.expr in reading.weight and place.expr not in seen:
                seen.add(place.expr)
                pending.append(place.expr)
    return found


def _is_promising(root: Expr) -> bool:
    """Whether a product of matrices that is larger than the root is made for it alone, from
    something that is itself linear in others."""
    handed: dict[Expr, int] = {}
    pending = [root]
    while pending:
        for expr, _, _ in pending.pop().operands:
            if expr.kind not in LINEAR:
                continue
            handed[expr] = handed.get(expr, 0) + 1
            if handed[expr] == expr.uses:
                from_linear = any([e.kind in LINEAR for e, _, _ in expr.operands])
                if expr.size > root.size and from_linear and contracts(expr):
                    return True
                pending.append(expr)
    return False


def _walked(
    reading: Reading, costs: Costs, root: Expr, min_gain: float
) -> tuple[Walk, _Change | None]:
    """The walk from a root, and what to make of it.

    Raises:
      Unfit: the walk does not know its way, or its result cannot be written.
    """
    last = reading.ops[root]

    def is_there(expr: Expr) -> bool:
        return expr.value is not None and reading.ops.get(expr, -1) < last

    walk = Walk(reading, costs, root, is_there)
    ends = stops(walk) if min_gain else set()
    short = Walk(reading, costs, root, is_there, ends) if ends else walk
    passed = [place.expr for place in short.places.values() if place.step]
    if not passed or (min_gain and not any(map(contracts, passed))):
        return walk, None
    new = transposed(short)
    made, inputs = plan(root, tuple(aval_of(reading.body.types[root.value]).shape), new, is_there)
    gone = _dying(root, inputs)
    before = sum(cost(expr, costs) for expr in gone)
    after = price(new.expr, costs, is_there, set(), set())
    if before < min_gain * after or (min_gain and not any(map(contracts, gone))):
        return walk, None
    return walk, _Change(root, made, inputs, gone, before, after)


def _dying(root: Expr, inputs: list[Expr]) -> list[Expr]:
    """The expressions that nobody needs any more if a root is computed from some inputs."""
    left: dict[Expr, int] = {e: e.uses + 1 for e in inputs}
    found = []
    pending = [root]
    while pending:
        expr = pending.pop()
        found.append(expr)
        for e, _, _ in expr.operands:
            left[e] = left.get(e, e.uses) - 1
            if not left[e]:
                pending.append(e)
    return found


def _write(rules: Rules, reading: Reading, change: _Change, new: dict[Expr, ir.Value]) -> None:
    """Computes a root otherwise.

    Args:
      new: the values that have taken the place of roots; this one is added.
    """
    body, root = reading.body, change.root
    op = body.ops[reading.ops[root]]
    if remarks_wanted():
        products = sum(map(contracts, change.gone))
        remark(
            op,
            f"sum of a linear function by its transpose, without {len(change.gone)} ops "
            f"(matrix products: {products}): {change.after / 1000:.3g} us instead of "
            f"{change.before / 1000:.3g} us",
        )
    old = body.value(root.value)
    with ir.InsertionPoint(op), op.location:
        values = [new[e] if e in new else body.value(e.value) for e in change.inputs]
        (value,) = rules.emit(change.plan, values)
        value = new[root] = converted(value, old.type)
    old.replace_all_uses_with(value)

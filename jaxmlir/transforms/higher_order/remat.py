"""``jaxpr.remat2`` (``jax.checkpoint``): values are recomputed when the derivative needs them.

Linearized, it becomes two ops: a plain call that computes the values and leaves its operands as the
only residuals, and a ``remat2`` of these and the tangents, which recomputes the values (``@f.fwd``)
and then the tangents (``@f.lin``).  Where there are custom rules, both compute the values that
these give: a further derivative differentiates what the rule computes, not its function.

If it is marked ``differentiated``, its lowering puts an optimization barrier around the operands,
so that the compiler does not find that the values exist already.

A policy that keeps some values is a Python function of primitives and parameters: JAX's rule calls
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jaxmlir.analysis.liveness import Liveness
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute, create, drop_dead_ops, inline, symbol_ref, zeros
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import Dims, Mask, chosen, filled, left_out
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp_of
from jaxmlir.transforms.linearize import linearize, primals_of
from jaxmlir.transforms.new_function import NewFunction, call, set_arguments
from jaxmlir.transforms.partial_eval import partial_eval
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import linear_type, transpose_nonzero
from jaxmlir.transforms.vmap import batched_results, vmap_of


class Remat(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        return active_results(rules, _callee(op), active, kind)

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask | None:
        return used_arguments(rules, _callee(op), active, wanted) if _keeps_nothing(op) else None

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        symbol, active_out = jvp_of(rules, _callee(op), active)
        return _remat(rules, op, symbol, [*_barrier(op), *[True] * sum(active)], active_out)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization | None:
        if not _keeps_nothing(op):
            return None
        callee = _callee(op)
        uses = used_arguments(rules, callee, active, wanted)
        values = primals_of(rules, callee, active)
        active = relevant_arguments(rules, callee, active, uses)
        symbol, used, active_out = rules.functions.once(_linear, callee, active, uses, wanted)
        barrier = _barrier(op)
        barrier = [*(barrier[i] for i in used), *[True] * sum(uses)]

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return [*call(rules, values, args), *(args[i] for i in used)]

        tangent = _remat(rules, op, symbol, barrier, active_out, differentiated=True)
        return Linearization(Emitter(active_out, primal), tangent, uses)

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        symbol, ct_pattern = rules.functions.once(_transposed, _callee(op), linear, nonzero)
        barrier = left_out(_barrier(op), linear)
        return _remat(rules, op, symbol, [*barrier, *[True] * sum(nonzero)], ct_pattern)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        symbol, out_dims = vmap_of(rules, _callee(op), dims, axis)
        return _remat(rules, op, symbol, _barrier(op), out_dims)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return batched_results(rules, _callee(op), dims, axis)


def _callee(op: Any) -> str:
    return op.attributes["jaxpr"].value


def _keeps_nothing(op: Any) -> bool:
    """Whether the policy is to recompute everything, as it is by default."""
    policy = attribute(op, "policy", None)
    return policy is None or policy is jax.checkpoint_policies.nothing_saveable


def _barrier(op: Any) -> list[bool]:
    """For each operand whether a barrier hides it from the compiler: ``prevent_cse``."""
    prevent_cse = attribute(op, "prevent_cse", True)
    return [prevent_cse] * len(op.operands) if isinstance(prevent_cse, bool) else list(prevent_cse)


def _remat(
    rules: Rules,
    like: Any,
    symbol: str,
    barrier: Sequence[bool],
    pattern: tuple[Any, ...],
    differentiated: bool = False,
) -> Emitter:
    """A remat2 of another function, with the policy of the op ``like``."""
    attributes = dict(like.attributes.items())
    attributes["jaxpr"] = symbol_ref(symbol)
    if not isinstance(attribute(like, "prevent_cse", True), bool):
        attributes["prevent_cse"] = codec.encode(tuple(barrier))
    if differentiated:
        attributes["differentiated"] = codec.encode(True)
    types = list(rules.program.function(symbol).type.results)
    return Emitter(pattern, lambda args: create("jaxpr.remat2", types, args, attributes))


def _linear(
    rules: Rules, symbol: str, active: Mask, taken: Mask, wanted: Mask
) -> tuple[str, tuple[int, ...], Mask]:
    """Writes the function ``(*operands that it uses, *tangents) -> (*tangents)``, which recomputes
    the values it needs.  Gives its symbol, these operands, and which results it gives tangents of.
    """
    halves = linearize(rules, symbol, active, wanted, None, taken)
    fwd, lin = map(rules.program.function, (halves.first, halves.second))
    operands, results = list(fwd.arguments), list(fwd.type.results)
    tangents = [v.type for v in list(lin.arguments)[halves.num_residuals :]]
    new = NewFunction(rules, f"{symbol}.remat", [*(v.type for v in operands), *tangents], fwd)
    primals, tangents = new.args[: len(operands)], new.args[len(operands) :]
    live = Liveness({}, read=rules.functions.body).arguments(symbol, (True,) * len(wanted))
    with new.body():
        # Zeros replace operands that only calls use whose callees ignore them.
        read = [
            v if is_live or not isinstance(v.type, ir.RankedTensorType) else zeros(v.type)
            for v, is_live in zip(primals, live, strict=True)
        ]
        values = inline(fwd, read)
        outs = inline(lin, [*values[len(results) - halves.num_residuals :], *tangents])
    new.finish(outs)
    drop_dead_ops(new.op)
    _erase(rules, fwd, lin)
    used = tuple(i for i, v in enumerate(primals) if next(iter(v.uses), None) is not None)
    set_arguments(new.op, [*(primals[i] for i in used), *tangents])
    return new.name, used, halves.pattern


def _transposed(rules: Rules, symbol: str, linear: Mask, nonzero: Mask) -> tuple[str, Mask]:
    """Writes the transpose of a function that also computes values, like one in forward mode: its
    known part is split off.  Gives its symbol, and which linear arguments it gives cotangents of.
    """
    function = rules.program.function(symbol)
    split = partial_eval(rules, symbol, linear, nonzero)
    n = split.num_residuals
    of_unknown, nonzeros = (*[False] * n, *[True] * sum(linear)), (True,) * sum(split.pattern)
    name = f"{split.second}.bwd"
    bwd, ct_pattern = transpose_nonzero(rules, split.second, of_unknown, name, nonzeros)
    fixed = left_out(function.type.inputs, linear)
    cotangents = map(linear_type, chosen(function.type.results, nonzero))
    new = NewFunction(rules, f"{symbol}.bwd", [*fixed, *cotangents], function)
    with new.body():
        outs = inline(rules.program.function(split.first), new.args[: len(fixed)])
        args = chosen(filled(new.args[len(fixed) :], nonzero), split.pattern)
        results = inline(rules.program.function(bwd), [*outs[len(outs) - n :], *args])
    new.finish(results)
    _erase(rules, *map(rules.program.function, (split.first, split.second, bwd)))
    drop_dead_ops(new.op)
    return new.name, ct_pattern


def _erase(rules: Rules, *functions: Any) -> None:
    """Erases functions that were written only to be copied into others."""
    for function in functions:
        del rules.program.functions[function.name.value]
        function.operation.erase()

"""``jaxpr.while``: the body is transformed, the condition looks at primals.

=========== ========================================================================================
jvp         tangents are carried beside their primals
linearize   how often the body runs is not known, so nothing can be kept of each iteration: the
            linear function runs the whole loop again, with tangents. It has no transpose, and so
            the loop no reverse mode
batch       what depends on a batched operand is batched; if the condition does, everything is, and
            each element stops changing when its own condition is false
=========== ========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import Dims, Mask, fixpoint, present, split
from jaxmlir.transforms.activity import active_results
from jaxmlir.transforms.emitters import Emitter, Linearization
from jaxmlir.transforms.higher_order.loops import WhileOp, tangents_of
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp
from jaxmlir.transforms.linearize import primals_of
from jaxmlir.transforms.new_function import ignoring, set_arguments
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batched_results, move_all, vmap_of


class While(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        # The linear function is the loop with tangents, so its activity is that of a JVP.
        return tuple(_active_carry(rules, WhileOp.of(op), active))

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        of_cond, of_body, carry = WhileOp.of(op).operands(active)
        return (*[False] * len(of_cond), *of_body, *carry)

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        loop = WhileOp.of(op)
        types = [v.type for v in op.operands]
        _, consts, _ = loop.operands(active)
        carry = _active_carry(rules, loop, active)
        body = rules.functions.once(_jvp_body, loop.body, (*consts, *carry), len(consts))
        inputs = list(rules.program.function(body).type.inputs)
        extra = tuple(inputs[len(inputs) - sum(carry) :])
        cond = rules.functions.once(ignoring, loop.cond, f"{loop.cond}.jvp", (), extra)
        new = loop._replace(cond=cond, body=body, body_consts=loop.body_consts + sum(consts))
        needs = (*[False] * loop.cond_consts, *consts, *carry)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            primals, in_tangents = split(args, len(types))
            tangents = tangents_of(types, active, in_tangents, needs)
            of_cond, of_body, init = loop.operands(primals)
            _, dbody, dinit = map(present, loop.operands(tangents))
            return new.write(rules, [*of_cond, *of_body, *dbody, *init, *dinit])

        return Emitter(tuple(carry), write)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        loop = WhileOp.of(op)
        uses = self.uses(rules, op, active, wanted)
        pushed = self.jvp(rules, op, uses)
        _, consts, _ = loop.operands(active)
        carry = _active_carry(rules, loop, active)
        primal = loop._replace(body=primals_of(rules, loop.body, (*consts, *carry)))

        def write_primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return [*primal.write(rules, args), *args]

        def write_tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            return pushed.write(args)[len(pushed.pattern) :]

        return Linearization(
            Emitter(pushed.pattern, write_primal), Emitter(pushed.pattern, write_tangent), uses
        )

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return _batched_carry(rules, WhileOp.of(op), dims, axis)[0]

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        loop = WhileOp.of(op)
        of_cond, of_body, _ = loop.operands(dims)
        carry, predicate = _batched_carry(rules, loop, dims, axis)
        cond, _ = vmap_of(rules, loop.cond, (*of_cond, *carry), axis, (predicate,))
        body, _ = vmap_of(rules, loop.body, (*of_body, *carry), axis, carry)
        new = loop._replace(cond=cond, body=body)
        want = (*of_cond, *of_body, *carry)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            return new.write(rules, move_all(rules, args, dims, want, axis))

        return Emitter(carry, write)


def _active_carry(rules: Rules, loop: WhileOp, active: Sequence[bool]) -> list[bool]:
    """Which parts of the carry have tangents in some iteration."""
    _, consts, carry = loop.operands(active)
    return fixpoint(carry, lambda carry: active_results(rules, loop.body, (*consts, *carry), "jvp"))


def _batched_carry(rules: Rules, loop: WhileOp, dims: Dims, axis: Any) -> tuple[Dims, int | None]:
    """The dimensions along which the carry is batched, and the condition.  If an outer
    transformation has batched the condition, its dimensions come first in the carry."""
    of_cond, of_body, init = loop.operands(dims)

    def after(carry: list[bool]) -> list[bool]:
        out_dims = batched_results(
            rules, loop.body, (*of_body, *(0 if b else None for b in carry)), axis
        )
        return [d is not None for d in out_dims]

    carry = fixpoint([d is not None for d in init], after)
    front = tuple([0 if b else None for b in carry])
    (predicate,) = batched_results(rules, loop.cond, (*of_cond, *front), axis)
    if predicate is not None:
        return (0,) * len(carry), 0
    (predicate_type,) = rules.program.function(loop.cond).type.results
    rank = len(predicate_type.shape)
    return tuple([rank if b else None for b in carry]), None


def _jvp_body(rules: Rules, symbol: str, active: Mask, num_consts: int) -> str:
    """The body that carries tangents: (*constants, *their tangents, *carry, *its tangents)."""
    name, _ = jvp(rules, symbol, active, active[num_consts:])
    function = rules.program.function(name)
    primals, tangents = split(list(function.arguments), len(active))
    consts, carry = split(primals, num_consts)
    dconsts, dcarry = split(tangents, sum(active[:num_consts]))
    set_arguments(function, [*consts, *dconsts, *carry, *dcarry])
    return name

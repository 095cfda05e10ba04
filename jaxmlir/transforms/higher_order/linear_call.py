"""``jaxpr.linear_call``: a function that is linear in its last operands, with its own transpose.

A linear function is its own derivative, and the transpose of its transpose.  So the op stays a
``linear_call`` in all derivatives, and transposition swaps its two functions.  How it depends on
the other operands, the residuals, is not known.

Batching batches both functions (JAX has no rule).  All results are batched, so that each cotangent
belongs to one element; the cotangent of an unbatched operand is the sum over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute, create, instantiated, symbol_ref
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import has_tangent
from jaxmlir.support.masks import Dims, Mask, chosen, filled
from jaxmlir.transforms.emitters import Emitter, Linearization
from jaxmlir.transforms.higher_order.custom_rules import error_at
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.new_function import ignoring
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import linear_type
from jaxmlir.transforms.vmap import vmap, vmap_of


class LinearCall(HigherOrderRule):
    plain: ClassVar[frozenset[str]] = frozenset(
        {"callee", "transpose", "num_callee_consts", "num_res", "jaxpr.ctx"}
    )

    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        return tuple(map(has_tangent, op.results))

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        return active

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        fixed = _num_fixed(op)
        if any(active[:fixed]):
            raise error_at(
                op,
                f"@{op.attributes['callee'].value} is differentiated with respect to a residual, "
                "but need not be linear in it; pass the value as a linear operand, or stop its "
                "gradient",
            )
        attributes, name = dict(op.attributes.items()), op.operation.name
        values = [v.type for v in op.results]
        # Integers have no tangents, but the functions take and return some for them.
        tangents = list(map(linear_type, values))
        linear = [linear_type(v.type) for v in list(op.operands)[fixed:]]
        pattern = tuple(map(has_tangent, op.results))

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return [*create(name, values, args, attributes), *args[:fixed]]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            operands = instantiated(filled(args[fixed:], active[fixed:]), linear)
            outs = create(name, tangents, [*args[:fixed], *operands], attributes)
            return chosen(outs, pattern)

        return Linearization(Emitter(pattern, primal), Emitter(pattern, tangent), active)

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter | None:
        fixed = _num_fixed(op)
        if any(linear[:fixed]):
            return None
        callee, transposed = _both(rules, op)
        attributes = _attributes(op, transposed, callee, fixed)
        types = [linear_type(v.type) for v in list(op.operands)[fixed:]]
        cotangents = [linear_type(v.type) for v in op.results]
        # A linear operand that is known is a constant for the transpose.
        moving = linear[fixed:]
        name = op.operation.name

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            cts = args[linear.count(False) :]
            handed = instantiated(filled(cts, nonzero), cotangents)
            outs = create(name, types, [*args[:fixed], *handed], attributes)
            return chosen(outs, moving)

        return Emitter((True,) * sum(moving), write)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        fixed = _num_fixed(op)
        callee, transposed = _both(rules, op)
        out_dims = (0,) * len(op.results)
        batched, _ = vmap_of(rules, callee, dims, axis, out_dims)
        back = rules.functions.once(
            _batched_transpose, transposed, (*dims[:fixed], *out_dims), dims[fixed:], axis
        )
        attributes = _attributes(op, batched, back, fixed)
        types = list(rules.program.function(batched).type.results)
        name = op.operation.name
        return Emitter(out_dims, lambda args: create(name, types, args, attributes))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return (0,) * len(op.results)


def _num_fixed(op: Any) -> int:
    """The number of operands before those in which the function is linear."""
    return attribute(op, "num_callee_consts", 0) + attribute(op, "num_res", 0)


def _both(rules: Rules, op: Any) -> tuple[str, str]:
    """The function and its transpose, which as written does not take the function's constants; here
    both take all operands before the linear ones."""
    count = attribute(op, "num_callee_consts", 0)
    callee, transposed = (op.attributes[name].value for name in ("callee", "transpose"))
    if count:
        types = tuple(v.type for v in list(op.operands)[:count])
        transposed = rules.functions.once(ignoring, transposed, transposed, types, ())
    return callee, transposed


def _attributes(like: Any, callee: str, transposed: str, fixed: int) -> dict[str, ir.Attribute]:
    attributes = dict(like.attributes.items())
    attributes.pop("num_callee_consts", None)
    attributes |= {"callee": symbol_ref(callee), "transpose": symbol_ref(transposed)}
    if fixed:
        attributes["num_res"] = codec.encode(fixed)
    return attributes


def _batched_transpose(rules: Rules, symbol: str, dims: Dims, out_dims: Dims, axis: Any) -> str:
    """The batched transpose, whose results have the dimensions of the corresponding operands."""
    batched, _ = vmap(rules, symbol, dims, axis, out_dims, shared="sum")
    return batched

"""``jaxpr.custom_vjp_call_jaxpr`` and ``jaxpr.custom_lin``: functions with their own VJP rule.

The derivative of a call runs the forward rule for values and residuals, and hands these with the
tangents to a ``custom_lin``: the linear map of which nothing is known but its transpose, the
backward rule.  Transposition puts that in its place; to push tangents through it is JAX's error (or
see ``jaxpr-expand-custom-lin``).

Batching batches the function, its forward and its backward rule; the cotangent of an operand that
is not batched is summed over the batch.  Then all results are batched: the cotangent of one that is
not is that of all elements together, and each of the summands would have all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir import codec
from jaxmlir.ir import func, ir
from jaxmlir.passes._build import zeros
from jaxmlir.passes._rules import has_tangent
from jaxmlir.passes.higher_order._custom_rules import (
    Attributes,
    BatchedRules,
    Dims,
    attribute,
    batch_call,
    batch_rules,
    batched_with_rules,
    create,
    error_at,
    joined,
    keep_attributes,
    out_zeros,
    rule_symbol,
    symbol_ref,
    with_batched_rules,
)
from jaxmlir.passes.higher_order._rule import HigherOrderRule, Linearization, Written
from jaxmlir.passes.higher_order.call import call
from jaxmlir.passes.jvp import tangent_type
from jaxmlir.passes.vmap import batched_type, vmap
from jaxmlir.rules import refused

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules

_CLOSED_OVER = (
    "a custom_vjp function is differentiated with respect to a value that it closes over: its rule "
    "speaks of explicit arguments only; pass the value as an argument"
)


class CustomVjp(HigherOrderRule):
    plain: ClassVar = frozenset(
        {
            "call_jaxpr",
            "fwd_jaxpr",
            "bwd_jaxpr",
            "fwd_error",
            "bwd_error",
            "num_consts",
            "symbolic_zeros",
            "jaxpr.ctx",
        }
    )

    def activity(
        self, rules: Rules, op: Any, kind: str, active: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        # The linear map takes all tangents to all: it is not known which results it leaves zero.
        return tuple(map(has_tangent, op.results))

    def uses(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        return active

    def jvp(self, rules: Rules, op: Any, active: tuple[bool, ...]) -> Written:
        n = len(op.results)
        return self.linearize(rules, op, active, (True,) * n).jvp(active, n)

    def linearize(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Linearization:
        consts = attribute(op, "num_consts", 0)
        if any(active[:consts]):
            raise error_at(op, _CLOSED_OVER)
        fwd = _Forward(rules.program.function(rule_symbol(op, "fwd_jaxpr")))
        wrong = refused(fwd.symbol, active[consts:], fwd.in_zeros)
        if wrong is not None:
            raise error_at(op, wrong)
        attributes = _lin_attributes(op, fwd.num_res, active[consts:])
        results = list(op.results)
        pattern = tuple(map(has_tangent, results))
        types = list(map(tangent_type, results))

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            residuals, values = fwd.split(args[consts:], call(rules, fwd.symbol, args[consts:]))
            return [*values, *residuals]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            outs = create("jaxpr.custom_lin", types, args, attributes)
            return [t for t, a in zip(outs, pattern, strict=True) if a]

        return Linearization(Written(pattern, primal), Written(pattern, tangent), active)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Written:
        return batch_call(rules, op, dims, axis, _batch_attributes)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        return batched_with_rules(rules, op, dims, axis)


class CustomLin(HigherOrderRule):
    plain: ClassVar = frozenset(
        {"bwd", "bwd_error", "num_res", "in_zeros", "symbolic_zeros", "jaxpr.ctx"}
    )

    def jvp(self, rules: Rules, op: Any, active: tuple[bool, ...]) -> Written:
        n = len(op.results)
        return self.linearize(rules, op, active, (True,) * n).jvp(active, n)

    def linearize(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Linearization:
        """A linear map is its own derivative; in its residuals it has none that is known."""
        num_res = attribute(op, "num_res", 0)
        if any(active[:num_res]):
            bwd = op.attributes["bwd"].value if "bwd" in op.attributes else "bwd"
            raise error_at(
                op,
                f"it is the derivative of a custom_vjp function, of which only the transpose is "
                f"known, @{bwd}: it cannot be differentiated with respect to the residuals",
            )
        attributes = dict(op.attributes.items())
        name, types = op.operation.name, [v.type for v in op.results]
        of_tangents = iter(active[num_res:])
        in_zeros = tuple(zero or not next(of_tangents) for zero in attribute(op, "in_zeros", ()))
        narrowed = attributes | {"in_zeros": codec.encode(in_zeros)}
        pattern = (True,) * len(types)

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return [*create(name, types, args, attributes), *args[:num_res]]

        return Linearization(
            Written(pattern, primal),
            Written(pattern, lambda args: create(name, types, args, narrowed)),
            active,
        )

    def transpose(
        self, rules: Rules, op: Any, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> Written:
        """A call of the backward rule: a cotangent of zero is written down for it."""
        num_res = attribute(op, "num_res", 0)
        bwd = rules.program.function(rule_symbol(op, "bwd"))
        symbol = bwd.name.value
        types = list(bwd.type.inputs)[num_res:]
        in_zeros = attribute(op, "in_zeros", ())
        # For each operand of the function where the rule gives its cotangent, if it does.
        position = iter(range(len(bwd.type.results)))
        where = [None if zero else next(position) for zero in out_zeros(bwd, len(in_zeros))]
        taken = [i for i, zero in zip(where, in_zeros, strict=True) if not zero]
        taken = [i for i, lin in zip(taken, linear[num_res:], strict=True) if lin]

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            given = iter(args[num_res:])
            cotangents = [
                next(given) if nz else zeros(t) for t, nz in zip(types, nonzero, strict=True)
            ]
            outs = call(rules, symbol, [*args[:num_res], *cotangents])
            return [outs[i] for i in taken if i is not None]

        return Written(tuple(i is not None for i in taken), write)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Written:
        """Any result may depend on any operand: all are batched, along the first dimension."""
        out_dims = (0,) * len(op.results)
        attributes, _ = with_batched_rules(rules, op, dims, axis, out_dims, _batch_lin_attributes)
        types = [batched_type(v.type, 0, axis.size, axis.explicit_mesh_axis) for v in op.results]
        name = op.operation.name
        return Written(out_dims, lambda args: create(name, types, args, attributes))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return (0,) * len(op.results)


class _Forward:
    """A forward rule: ``(*operands) -> (*residuals that are no operands, *results)``."""

    def __init__(self, function: func.FuncOp):
        self.symbol = function.name.value
        self.num_res = attribute(function, "jaxpr.num_res", 0)
        self.input_fwds = attribute(function, "jaxpr.input_fwds", (None,) * self.num_res)
        self.in_zeros = attribute(function, "jaxpr.in_zeros", (False,) * len(function.type.inputs))

    @property
    def num_extra(self) -> int:
        """How many residuals it returns."""
        return sum(i is None for i in self.input_fwds)

    def split(self, operands: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """All residuals, and the results; or what is known of them, such as their dimensions."""
        extra = iter(outs[: self.num_extra])
        residuals = [next(extra) if i is None else operands[i] for i in self.input_fwds]
        return residuals, list(outs[self.num_extra :])


def _lin_attributes(op: Any, num_res: int, active: tuple[bool, ...]) -> dict[str, ir.Attribute]:
    """The attributes of the custom_lin that stands for the derivative of a call."""
    attributes = op.attributes
    found = {
        "in_zeros": codec.encode(tuple(not a for a in active)),
        "num_res": codec.encode(num_res),
    }
    renamed = {"bwd_jaxpr": "bwd", "bwd_error": "bwd_error", "symbolic_zeros": "symbolic_zeros"}
    found |= {new: attributes[old] for old, new in renamed.items() if old in attributes}
    return found


def _batch_attributes(
    rules: Rules, attributes: Attributes, dims: Dims, axis: Any, out_dims: Dims
) -> tuple[Attributes, Dims]:
    if "fwd_jaxpr" not in attributes:
        return {}, out_dims
    names = [name for name in ("fwd_jaxpr", "bwd_jaxpr") if name in attributes]
    given = {name: attributes[name].value for name in names}

    def write(entry: BatchedRules) -> Dims:
        return _batch_rules(rules, given, dims, axis, entry)

    key = (*given.values(), dims, axis, out_dims)
    entry = batch_rules(rules, key, given, out_dims, write)
    return {name: symbol_ref(s) for name, s in entry.symbols.items()}, entry.out_dims


def _batch_lin_attributes(
    rules: Rules, attributes: Attributes, dims: Dims, axis: Any, out_dims: Dims
) -> tuple[Attributes, Dims]:
    if "bwd" not in attributes:
        return {}, out_dims
    bwd, num_res = attributes["bwd"].value, codec.decode(attributes["num_res"])
    given = iter(dims[num_res:])
    dims_in = tuple(None if zero else next(given) for zero in codec.decode(attributes["in_zeros"]))

    def write(entry: BatchedRules) -> Dims:
        rule_dims = (*dims[:num_res], *out_dims)
        _batch_bwd(rules, bwd, rule_dims, dims_in, axis, entry.symbols["bwd"])
        return out_dims

    entry = batch_rules(rules, (bwd, dims, dims_in, axis), {"bwd": bwd}, out_dims, write)
    return {"bwd": symbol_ref(entry.symbols["bwd"])}, out_dims


def _batch_rules(
    rules: Rules, symbols: dict[str, str], dims: Dims, axis: Any, entry: BatchedRules
) -> Dims:
    """Writes the batched rules of a call; the dimensions of its results."""
    function = rules.program.function(symbols["fwd_jaxpr"])
    fwd = _Forward(function)
    found: dict[str, Any] = {}

    def out_axes(own: Dims) -> Dims:
        residuals, results = fwd.split(dims, own)
        results = tuple(map(joined, entry.out_dims, results))
        if "bwd_jaxpr" in symbols and None in results:
            rule_dims = (*residuals, *results)
            if _sums(rules, symbols["bwd_jaxpr"], rule_dims, dims, axis):
                results = tuple(0 if d is None else d for d in results)
        found["residuals"], found["results"] = residuals, results
        return (*own[: fwd.num_extra], *results)

    new = entry.symbols["fwd_jaxpr"]
    vmap(rules, fwd.symbol, dims, axis, out_axes, reserved=new)
    keep_attributes(function, rules.program.function(new))
    if "bwd_jaxpr" in symbols:
        rule_dims = (*found["residuals"], *found["results"])
        _batch_bwd(rules, symbols["bwd_jaxpr"], rule_dims, dims, axis, entry.symbols["bwd_jaxpr"])
    return found["results"]


def _sums(rules: Rules, bwd: str, dims: Dims, out_dims: Dims, axis: Any) -> bool:
    """Whether a backward rule, batched so, gives a cotangent that is to be summed."""
    zeros = out_zeros(rules.program.function(bwd), len(out_dims))
    wanted = [d for d, zero in zip(out_dims, zeros, strict=True) if not zero]
    if None not in wanted:
        return False
    found = rules.functions.batched(bwd, dims, axis)
    return any(w is None and f is not None for w, f in zip(wanted, found, strict=True))


def _batch_bwd(
    rules: Rules, bwd: str, dims: Sequence[int | None], out_dims: Dims, axis: Any, reserved: str
) -> None:
    """Writes a batched backward rule; cotangents get the dimensions of the operands."""
    function = rules.program.function(bwd)
    zeros = out_zeros(function, len(out_dims))
    axes = tuple(d for d, zero in zip(out_dims, zeros, strict=True) if not zero)
    vmap(rules, bwd, dims, axis, axes, reserved=reserved, sum_results=True)
    keep_attributes(function, rules.program.function(reserved))

"""``jaxpr.custom_vjp_call_jaxpr`` and ``jaxpr.custom_lin``: functions with their own VJP rule.

The derivative of a call runs the forward rule for values and residuals, and passes the residuals
and the tangents to a ``custom_lin``: a linear map of which only the transpose is known, the
backward rule.  Transposition replaces it by the backward rule; pushing tangents through it is JAX's
error (or see ``jaxpr-expand-custom-lin``).  A rule may be told which tangents and cotangents are
zero, and be written for several such cases.  A call takes the fitting case with most zeros; cases
that are missing are written when they are needed.

Batching batches the function, its forward and its backward rule; the cotangent of an unbatched
operand is summed over the batch.  All results are batched then: the cotangent of an unbatched
result would be the sum over all elements, and each element would add all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from jaxmlir.bridge.custom_rules.pending import Backward, forward_mode_error
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute, create, instantiated, symbol_ref
from jaxmlir.dialect.custom_rule_ops import (
    MARK,
    backward_rules,
    fitting,
    in_zeros,
    out_zeros,
    vjp_rules,
)
from jaxmlir.dialect.ir import func, ir, symbol_uses
from jaxmlir.dialect.types import batched_type, has_tangent, tangent_type
from jaxmlir.rewriting.dedupe import rename
from jaxmlir.support.masks import Dims, Mask, chosen, filled, inverted, left_out
from jaxmlir.transforms.emitters import Emitter, Linearization
from jaxmlir.transforms.higher_order.custom_rules import (
    Batch,
    BatchedRules,
    batch_call,
    batch_rules,
    batched_with_rules,
    error_at,
    fitting_rule,
    is_float0,
    joined,
    keep_attributes,
    places_given,
    with_batched_rules,
)
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.new_function import call
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batched_results, vmap

_CLOSED_OVER = (
    "a custom_vjp function is differentiated with respect to a value that it closes over, but its "
    "rule covers explicit arguments only; pass the value as an argument"
)


class CustomVjp(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        # The linear map takes all tangents to all results; which of these stay zero is not known.
        return tuple(map(has_tangent, op.results))

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        return active

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        consts = attribute(op, "num_consts", 0)
        if any(active[:consts]):
            raise error_at(op, _CLOSED_OVER)
        fwd, attributes = _derivative(rules, op, active[consts:], True in wanted)
        results = list(op.results)
        pattern = tuple(map(has_tangent, results))
        types = list(map(tangent_type, results))

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            residuals, values = fwd.split(args[consts:], call(rules, fwd.symbol, args[consts:]))
            return [*values, *residuals]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            outs = create("jaxpr.custom_lin", types, args, attributes)
            return chosen(outs, pattern)

        def pull(nonzero: Mask) -> Emitter:
            bwd = rules.program.function(attributes["bwd"].value)
            handed = filled(nonzero, pattern, [False] * len(pattern))
            return _pulled(rules, bwd, attributes, tuple(handed))

        # The choice of the backward rule may depend on the op, and a missing one is the op's error.
        is_known = "bwd" in attributes and "symbolic_zeros" not in attributes
        halves = Emitter(pattern, primal), Emitter(pattern, tangent)
        return Linearization(*halves, active, pull=pull if is_known else None)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        return batch_call(rules, op, dims, axis, _batch_attributes)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        return batched_with_rules(rules, op, dims, axis)


class CustomLin(HigherOrderRule):
    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        """A linear map is its own derivative; its derivative in the residuals is not known."""
        num_res = attribute(op, "num_res", 0)
        if any(active[:num_res]):
            raise forward_mode_error(
                rules.program, op, "it cannot be differentiated with respect to the residuals"
            )
        attributes = dict(op.attributes.items())
        name, types = op.operation.name, [v.type for v in op.results]
        of_tangents = iter(active[num_res:])
        in_zeros = tuple(zero or not next(of_tangents) for zero in attribute(op, "in_zeros", ()))
        narrowed = attributes | {"in_zeros": codec.encode(in_zeros)}
        pattern = (True,) * len(types)

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return [*create(name, types, args, attributes), *args[:num_res]]

        tangent = Emitter(pattern, lambda args: create(name, types, args, narrowed))
        return Linearization(Emitter(pattern, primal), tangent, active)

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        """A call of the backward rule; zero cotangents are written unless it was told of them."""
        bwd = _backward(rules, op, nonzero)
        return _pulled(rules, bwd, dict(op.attributes.items()), nonzero, linear)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        """Batches all results along the first dimension: each may depend on any operand."""
        out_dims = (0,) * len(op.results)
        attributes, _ = with_batched_rules(
            rules, op, Batch(dims, axis, out_dims), _batch_lin_attributes
        )
        types = [batched_type(v.type, 0, axis.size, axis.explicit_mesh_axis) for v in op.results]
        name = op.operation.name
        return Emitter(out_dims, lambda args: create(name, types, args, attributes))

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        return (0,) * len(op.results)


class _ForwardRule:
    """A forward rule: ``(*operands) -> (*residuals that are no operands, *results)``."""

    def __init__(self, function: func.FuncOp):
        self.symbol = function.name.value
        self.num_res = attribute(function, "jaxpr.num_res", 0)
        self.input_fwds = attribute(function, "jaxpr.input_fwds", (None,) * self.num_res)
        self.in_zeros = in_zeros(function, len(function.type.inputs))

    @property
    def num_extra(self) -> int:
        """The number of residuals that it returns."""
        return sum(i is None for i in self.input_fwds)

    def split(self, operands: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Splits all residuals from the results; ``outs`` may be facts about them: dimensions."""
        extra = iter(outs[: self.num_extra])
        residuals = [next(extra) if i is None else operands[i] for i in self.input_fwds]
        return residuals, list(outs[self.num_extra :])


def _derivative(
    rules: Rules, op: Any, active: Mask, is_used: bool
) -> tuple[_ForwardRule, dict[str, ir.Attribute]]:
    """The forward rule for the active operands, and the attributes of the custom_lin that is the
    derivative of the call.  If none is used, nobody calls the backward rule, which may take far
    longer to trace than all else."""
    zeros = inverted(active)
    traced = rules.told(op, zeros)
    if not (traced or is_used):
        alone = rules.forward_alone(op)
        if "fwd_jaxpr" in alone:
            fwd = _ForwardRule(rules.program.function(alone["fwd_jaxpr"].value))
            if fitting(zeros, [(fwd, fwd.in_zeros)]) is not None:
                return fwd, {}
    if "fwd_jaxpr" in traced:
        fwd = _ForwardRule(rules.program.function(traced["fwd_jaxpr"].value))
        table = rules.program.rule_tracing.table
        of_rules = {MARK: table.number(Backward(table.of(op), zeros))}
    else:
        rules.program.trace_rules(of=op)
        by_fwd = vjp_rules(dict(op.attributes.items()))
        fwd = _ForwardRule(fitting_rule(rules, op, op.attributes, "fwd_jaxpr", by_fwd, active))
        of_rules = _backward_attributes(rules, op, by_fwd[fwd.symbol])
    attributes = dict(op.attributes.items())
    of_lin = {"in_zeros": codec.encode(zeros), "num_res": codec.encode(fwd.num_res)}
    of_lin |= {k: attributes[k] for k in ("bwd_error", "symbolic_zeros") if k in attributes}
    return fwd, of_lin | of_rules


def _backward(rules: Rules, op: Any, nonzero: Mask) -> func.FuncOp:
    """The backward rule for the nonzero cotangents."""
    traced = rules.told(op, inverted(nonzero))
    if "bwd" in traced:
        return rules.program.function(traced["bwd"].value)
    rules.program.trace_rules(of=op)
    symbols = backward_rules(dict(op.attributes.items()))
    return fitting_rule(rules, op, op.attributes, "bwd", symbols, nonzero)


def _pulled(
    rules: Rules,
    bwd: func.FuncOp,
    attributes: dict[str, ir.Attribute],
    nonzero: Mask,
    linear: Mask | None = None,
) -> Emitter:
    """The transpose of a custom_lin for the nonzero cotangents: a call of its backward rule.  It
    gives the cotangents of the ``linear`` operands, by default of all but the residuals."""
    num_res = codec.decode(attributes["num_res"]) if "num_res" in attributes else 0
    no_operands = codec.decode(attributes["in_zeros"]) if "in_zeros" in attributes else ()
    symbol = bwd.name.value
    expected = left_out(nonzero, in_zeros(bwd, len(nonzero)))
    types = list(bwd.type.inputs)[num_res:]
    # For each operand of the function, where the rule gives its cotangent, if it does.
    where = places_given(bwd, len(no_operands))
    taken = left_out(where, no_operands)
    if linear is not None:
        taken = chosen(taken, linear[num_res:])

    def write(args: Sequence[ir.Value]) -> list[ir.Value]:
        cotangents = instantiated(filled(args[num_res:], expected), types)
        outs = call(rules, symbol, [*args[:num_res], *cotangents])
        return [outs[i] for i in taken if i is not None]

    return Emitter(tuple(i is not None for i in taken), write)


def _backward_attributes(rules: Rules, op: Any, symbols: Iterable[str]) -> dict[str, ir.Attribute]:
    """The attributes of a custom_lin that name the backward rules of a forward rule."""
    attributes: dict[str, ir.Attribute] = {}
    with_zeros = []
    for symbol in symbols:
        if any(in_zeros(rules.program.function(symbol), len(op.results))):
            with_zeros.append(symbol_ref(symbol))
        else:
            attributes["bwd"] = symbol_ref(symbol)
    if with_zeros:
        attributes["bwd_with_zeros"] = ir.ArrayAttr.get(with_zeros)
    return attributes


def _batch_attributes(
    rules: Rules, attributes: dict[str, ir.Attribute], batch: Batch
) -> tuple[dict[str, ir.Attribute], Dims]:
    by_fwd = vjp_rules(attributes)
    if not by_fwd:
        return {}, batch.out_dims
    # A backward rule may belong to several forward rules, whose residuals are batched differently.
    named = {(fwd, rule): rule for fwd, backward in by_fwd.items() for rule in (fwd, *backward)}

    def write(entry: BatchedRules) -> Dims:
        return _batch_rules(rules, by_fwd, batch, entry)

    key = (tuple(by_fwd.items()), *batch)
    entry = batch_rules(rules, key, named, batch.out_dims, write)

    def new(fwd: str, rule: str) -> ir.Attribute:
        return symbol_ref(entry.symbols[fwd, rule])

    batched: dict[str, ir.Attribute] = {}
    for name in ("fwd_jaxpr", "bwd_jaxpr"):
        if name in attributes:
            batched[name] = new(attributes["fwd_jaxpr"].value, attributes[name].value)
    if "vjp_with_zeros" in attributes:
        families = map(symbol_uses, attributes["vjp_with_zeros"])
        batched["vjp_with_zeros"] = ir.ArrayAttr.get(
            [ir.ArrayAttr.get([new(family[0], rule) for rule in family]) for family in families]
        )
    return batched, entry.out_dims


def _batch_lin_attributes(
    rules: Rules, attributes: dict[str, ir.Attribute], batch: Batch
) -> tuple[dict[str, ir.Attribute], Dims]:
    dims, axis, out_dims, _ = batch
    bwds = backward_rules(attributes)
    if not bwds:
        return {}, out_dims
    num_res = codec.decode(attributes["num_res"])
    takes = inverted(codec.decode(attributes["in_zeros"]))
    dims_in = tuple(filled(dims[num_res:], takes))

    def write(entry: BatchedRules) -> Dims:
        for bwd in bwds:
            rule_dims = _dims_of_bwd(rules, bwd, dims[:num_res], out_dims)
            _batch_bwd(rules, bwd, rule_dims, dims_in, axis, entry.symbols[bwd])
        return out_dims

    key = (*bwds, dims, dims_in, axis)
    entry = batch_rules(rules, key, {bwd: bwd for bwd in bwds}, out_dims, write)
    batched = {}
    for name in ("bwd", "bwd_with_zeros"):
        if name in attributes:
            batched[name] = rename(attributes[name], entry.symbols)
    return batched, out_dims


def _batch_rules(
    rules: Rules, by_fwd: dict[str, tuple[str, ...]], batch: Batch, entry: BatchedRules
) -> Dims:
    """Writes the batched rules of a call; gives the dimensions of its results.

    Even if the dimensions are settled, a rule may need another result to be batched.  That result
    is the same for the whole batch, so the first element stands for it: the forward rule gives the
    first element's result, and the backward rule takes the cotangent for the first element's.  This
    is wrong if a batched operand has a cotangent that depends on it: from the sum of the elements'
    cotangents, each element's does not follow.
    """
    dims, axis, _, settled = batch
    wanted, fixed = entry.out_dims, entry.out_dims if settled else None

    def settle(fwd: _ForwardRule, own: Dims) -> list[int | None]:
        """Notes the dimensions of a batched forward rule's results; gives its residuals' ones."""
        nonlocal wanted
        residuals, results = fwd.split(dims, own)
        wanted = tuple(map(joined, wanted, results))
        if None in wanted and any(
            _sums(rules, bwd, residuals, _cotangent_dims(rules, bwd, wanted), dims, axis)
            for bwd in by_fwd[fwd.symbol]
        ):
            wanted = tuple(0 if d is None else d for d in wanted)
        return residuals

    functions = [rules.program.function(symbol) for symbol in by_fwd]
    while len(by_fwd) > 1:
        # The rules have to agree.
        before = wanted
        for function in functions:
            out_dims = batched_results(rules, function.name.value, dims, axis)
            settle(_ForwardRule(function), out_dims)
        if wanted == before:
            break
    for function in functions:
        fwd = _ForwardRule(function)
        own = batched_results(rules, fwd.symbol, dims, axis)
        residuals = settle(fwd, own)
        out_axes = (*own[: fwd.num_extra], *(fixed or wanted))
        reserved = entry.symbols[fwd.symbol, fwd.symbol]
        shared = "first" if settled else None
        vmap(rules, fwd.symbol, dims, axis, out_axes, reserved=reserved, shared=shared)
        keep_attributes(function, rules.program.function(reserved))
        for bwd in by_fwd[fwd.symbol]:
            symbol = entry.symbols[fwd.symbol, bwd]
            rule_dims = _dims_of_bwd(rules, bwd, residuals, fixed or wanted)
            needed = _dims_of_bwd(rules, bwd, residuals, wanted)
            types = rules.program.function(bwd).type.inputs
            of_first = [
                i
                for i, (dim, need) in enumerate(zip(rule_dims, needed, strict=True))
                if dim is None and need is not None and not is_float0(types[i])
            ]
            if _is_of_each(rules, bwd, of_first, dims, axis):
                return wanted
            _batch_bwd(rules, bwd, rule_dims, dims, axis, symbol, of_first)
    return fixed or wanted


def _is_of_each(
    rules: Rules, bwd: str, arguments: Collection[int], out_dims: Dims, axis: Any
) -> bool:
    """Whether some arguments of a backward rule affect a cotangent that is batched."""
    if not arguments:
        return False
    function = rules.program.function(bwd)
    in_dims = tuple(0 if i in arguments else None for i in range(len(function.type.inputs)))
    own_dims = batched_results(rules, bwd, in_dims, axis)
    ct_dims = left_out(out_dims, out_zeros(function, len(out_dims)))
    return any(w is not None and f is not None for w, f in zip(ct_dims, own_dims, strict=True))


def _dims_of_bwd(rules: Rules, bwd: str, residuals: Sequence[int | None], results: Dims) -> Dims:
    """The batch dimensions of a backward rule's arguments."""
    return (*residuals, *_cotangent_dims(rules, bwd, results))


def _cotangent_dims(rules: Rules, bwd: str, results: Dims) -> Dims:
    """The batch dimensions of the cotangents that a backward rule takes."""
    return tuple(left_out(results, in_zeros(rules.program.function(bwd), len(results))))


def _sums(
    rules: Rules,
    bwd: str,
    residuals: Sequence[int | None],
    cotangents: Dims,
    out_dims: Dims,
    axis: Any,
) -> bool:
    """Whether a backward rule, batched like this, gives a cotangent that is summed over the batch
    and to which each element adds an unbatched cotangent."""
    if None not in cotangents:
        return False
    ct_dims = left_out(out_dims, out_zeros(rules.program.function(bwd), len(out_dims)))
    if None not in ct_dims:
        return False
    own_dims = batched_results(rules, bwd, (*residuals, *cotangents), axis)
    return any(w is None and f is not None for w, f in zip(ct_dims, own_dims, strict=True))


def _batch_bwd(
    rules: Rules,
    bwd: str,
    dims: Sequence[int | None],
    out_dims: Dims,
    axis: Any,
    reserved: str,
    of_first: Collection[int] = (),
) -> None:
    """Writes a batched backward rule; its cotangents get the dimensions of the operands."""
    function = rules.program.function(bwd)
    axes = tuple(left_out(out_dims, out_zeros(function, len(out_dims))))
    vmap(rules, bwd, dims, axis, axes, reserved=reserved, shared="sum", of_first=of_first)
    keep_attributes(function, rules.program.function(reserved))

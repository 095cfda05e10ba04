"""``jaxpr.cond``: a call of one of several functions, chosen by an index.

Each branch is transformed by itself, and then made to take and return what all of them do: a result
that has a tangent in one branch has one in all.  The branches of a linearization have different
residuals.  Those that are operands or results of the ``cond`` need no slot of their own.  The
others share slots of the same type, and a branch fills the slots it does not use with zeros.

With a batched index, a ``cond`` becomes a selection from the results of all branches.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax import lax

from jaxmlir.dialect.builder import create, instantiated, returned, set_results, symbol_ref
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import has_tangent
from jaxmlir.support.masks import Dims, Mask, both, chosen, filled
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation
from jaxmlir.transforms.higher_order.call import (
    ForwardedFunction,
    ResidualSource,
    linearize_call,
    partial_eval_call,
)
from jaxmlir.transforms.higher_order.custom_rules import joined
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp_of
from jaxmlir.transforms.new_function import before_return, call, set_arguments
from jaxmlir.transforms.partial_eval import unknown_results
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import linear_type, transpose_nonzero
from jaxmlir.transforms.vmap import batched_results, move, move_all, vmap_of


class Cond(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        return _any(active_results(rules, b, active[1:], kind) for b in _branches(op))

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        used = _any(used_arguments(rules, b, active[1:], wanted) for b in _branches(op))
        return (False, *used)

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        required = self.activity(rules, op, "jvp", active)
        per_branch = [jvp_of(rules, b, active[1:], required) for b in _branches(op)]
        return _cond(rules, op, [symbol for symbol, _ in per_branch], required)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        uses = self.uses(rules, op, active, wanted)
        found_active = self.activity(rules, op, "linearize", uses)
        required = both(found_active, wanted)

        def halves(branch: str) -> ForwardedFunction:
            relevant = relevant_arguments(rules, branch, active[1:], uses[1:])
            return linearize_call(rules, branch, relevant, required, required, uses[1:])

        per_branch = [halves(b) for b in _branches(op)]
        return Linearization(*_halves(rules, op, per_branch, len(op.results), required), uses)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation | None:
        if unknown[0]:
            return None
        branches = _branches(op)
        required = _any(unknown_results(rules, b, unknown[1:]) for b in branches)
        per_branch = [
            partial_eval_call(rules, b, unknown[1:], required, required) for b in branches
        ]
        return PartialEvaluation(*_halves(rules, op, per_branch, required.count(False), required))

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter | None:
        if linear[0]:
            return None
        per_branch = [
            transpose_nonzero(rules, b, linear[1:], f"{b.removesuffix('.lin')}.bwd", nonzero)
            for b in _branches(op)
        ]
        ct_pattern = _any(ct_mask for _, ct_mask in per_branch)
        types = [linear_type(v.type) for v in chosen(op.operands, linear)]
        for symbol, ct_mask in per_branch:
            _give_zeros(rules.program.function(symbol), types, ct_mask, ct_pattern)
        return _cond(rules, op, [symbol for symbol, _ in per_branch], ct_pattern)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter | None:
        if dims[0] is not None:
            return None if "branches_platforms" in op.attributes else _select(rules, op, dims, axis)
        out_dims = self.batched(rules, op, dims, axis)
        per_branch = [vmap_of(rules, b, dims[1:], axis, out_dims) for b in _branches(op)]
        return _cond(rules, op, [symbol for symbol, _ in per_branch], out_dims)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        if dims[0] is not None:
            return None if "branches_platforms" in op.attributes else (0,) * len(op.results)
        per_branch = [batched_results(rules, b, dims[1:], axis) for b in _branches(op)]
        return tuple(joined(*of_result) for of_result in zip(*per_branch, strict=True))


def _branches(op: Any) -> list[str]:
    return [branch.value for branch in op.attributes["branches"]]


def _any(flags: Iterable[Mask]) -> Mask:
    return tuple(map(any, zip(*flags, strict=True)))


def _cond(rules: Rules, like: Any, branches: Sequence[str], pattern: tuple[Any, ...]) -> Emitter:
    """A ``cond`` like the given one, between other functions."""
    attributes = dict(like.attributes.items())
    attributes["branches"] = ir.ArrayAttr.get([symbol_ref(b) for b in branches])
    types = list(rules.program.function(branches[0]).type.results)
    return Emitter(pattern, lambda args: create("jaxpr.cond", types, args, attributes))


def _give_zeros(branch: func.FuncOp, types: Sequence[ir.Type], own: Mask, wanted: Mask) -> None:
    """Makes a branch return zeros of those types for the results that only other branches have."""

    if own == wanted:
        return
    outs = chosen(filled(returned(branch), own), wanted)
    with before_return(branch), branch.location:
        results = instantiated(outs, chosen(types, wanted))
    set_results(branch, results)


# --- branches in two halves ---------------------------------------------------------------------


_SlotNumbers = dict[ResidualSource, int]
"""The slots of residuals."""


class _ResidualSlots:
    """Slots for residuals; residuals of one type in different branches share a slot."""

    def __init__(self) -> None:
        self.types: list[ir.Type] = []

    def take(self, types: Sequence[ir.Type]) -> list[int]:
        """Assigns slots to one branch's residuals."""
        free = list(range(len(self.types)))
        taken = []
        for type_ in types:
            place = next((p for p in free if self.types[p] == type_), len(self.types))
            if place == len(self.types):
                self.types.append(type_)
            else:
                free.remove(place)
            taken.append(place)
        return taken

    def of(
        self, half: ForwardedFunction, types: Mapping[str, Sequence[ir.Type]], taken: Sequence[int]
    ) -> _SlotNumbers:
        """The slots of one branch's residuals, after all branches have taken theirs.  A residual
        that is an operand or a result also gets a slot, if only other branches have taken it.
        Otherwise a loop around the op, which has no other use for the value, would stack it besides
        the slots."""
        placed = {ResidualSource("extra", i): place for i, place in enumerate(taken)}
        for source in half.residuals:
            if source not in placed:
                type_ = types[source.kind][source.index]
                free = set(range(len(self.types))).difference(placed.values())
                fitting = (p for p in sorted(free) if self.types[p] == type_)
                if (place := next(fitting, None)) is not None:
                    placed[source] = place
        return placed


def _halves(
    rules: Rules, op: Any, halves: Sequence[ForwardedFunction], num_results: int, pattern: Mask
) -> tuple[Emitter, Emitter]:
    """The two conds of branches that are split in halves, which are adapted in place.  The second
    gives the results of the pattern; the first gives ``num_results`` and the residuals."""
    firsts = [rules.program.function(half.first) for half in halves]
    outputs = [list(first.type.results) for first in firsts]
    places = _ResidualSlots()
    extra = [places.take(of_branch[num_results:]) for of_branch in outputs]
    types = {"operand": [v.type for v in firsts[0].arguments], "result": outputs[0]}
    placed = [places.of(half, types, taken) for half, taken in zip(halves, extra, strict=True)]
    # Residuals that the op's user has already, in any branch; then the slots of the others.
    pairs = zip(halves, placed, strict=True)
    had = [s for half, place_of in pairs for s in half.residuals if s not in place_of]
    had = list(dict.fromkeys(had))
    for first, place_of in zip(firsts, placed, strict=True):
        _return_places(rules, first, num_results, places.types, place_of)
    residual_types = [*(types[kind][i] for kind, i in had), *places.types]
    for half, place_of in zip(halves, placed, strict=True):
        index = [had.index(s) if s in had else len(had) + place_of[s] for s in half.residuals]
        _take_residuals(rules.program.function(half.second), residual_types, index)
    first = _cond(rules, op, [half.first for half in halves], pattern)
    second = _cond(rules, op, [half.second for half in halves], pattern)

    def write(args: Sequence[ir.Value]) -> list[ir.Value]:
        outs = first.inline(args)
        values = {"operand": args[1:], "result": outs}
        residuals = [values[kind][i] for kind, i in had]
        return [*outs[:num_results], args[0], *residuals, *outs[num_results:]]

    return Emitter(pattern, write), second


def _return_places(
    rules: Rules,
    first: func.FuncOp,
    num_results: int,
    types: Sequence[ir.Type],
    placed: _SlotNumbers,
) -> None:
    """Makes a branch return all slots, with its own residuals in those it has taken."""
    outs = returned(first)
    values = {"extra": outs[num_results:], "operand": list(first.arguments), "result": outs}
    residual_at = {place: values[kind][i] for (kind, i), place in placed.items()}
    with before_return(first), first.location:
        rest = [
            residual_at[i] if i in residual_at else rules.filler(t) for i, t in enumerate(types)
        ]
    set_results(first, [*outs[:num_results], *rest])


def _take_residuals(second: func.FuncOp, types: Sequence[ir.Type], index: Sequence[int]) -> None:
    """Makes a branch take residuals of all these types; ``index`` says which are its own."""
    arguments = list(second.arguments)
    argument_at = dict(zip(index, arguments, strict=False))
    residuals = [argument_at.get(i, type_) for i, type_ in enumerate(types)]
    set_arguments(second, [*residuals, *arguments[len(index) :]])


# --- batched over the index ---------------------------------------------------------------------


def _select(rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
    """Runs all branches, and selects each result by the index.  An operand goes to a branch by a
    ``select`` whose other side is a constant for derivatives: what a branch that is not chosen
    makes of the operand (infinities, say) must not count."""
    tangible = [has_tangent(v) for v in op.operands]
    batched = [0 if t else dim for t, dim in zip(tangible, dims, strict=True)][1:]
    out_dims = (0,) * len(op.results)
    branches = [vmap_of(rules, b, tuple(batched), axis, out_dims)[0] for b in _branches(op)]

    def write(args: Sequence[ir.Value]) -> list[ir.Value]:
        index = move(rules, args[0], dims[0], 0, axis)
        operands = move_all(rules, args[1:], dims[1:], batched, axis)
        outs = []
        for i, branch in enumerate(branches):
            guard = functools.partial(_guarded, branch=i)
            guarded = rules.emit(guard, [index, *chosen(operands, tangible[1:])])
            outs.append(call(rules, branch, filled(guarded, tangible[1:], operands)))
        return [rules.emit(_choose, [index, *cases])[0] for cases in zip(*outs, strict=True)]

    return Emitter(out_dims, write)


def _guarded(index: Any, *xs: Any, branch: int) -> list[Any]:
    return [_choose(index == branch, lax.stop_gradient(x), x)[0] for x in xs]


def _choose(which: Any, *cases: Any) -> list[Any]:
    """For each element of the batch, the case with the number ``which``."""
    shape = cases[0].shape
    if which.shape != shape:
        which = lax.broadcast_in_dim(which, shape, tuple(range(which.ndim)))
    return [lax.select_n(which, *cases)]

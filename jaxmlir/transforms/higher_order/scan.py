"""``jaxpr.scan``: the body is transformed, and the loop is one loop again.

=========== ========================================================================================
jvp         tangents are carried, and scanned over, beside their primals
linearize   one scan computes the results and stacks what the derivative needs of each iteration;
            the other scans over that. What is the same in every iteration is computed before the
            loop and not stacked
transpose   a scan in the opposite direction; cotangents of the carry are carried, and those of
            constants are summed in the carry
batch       what depends on a batched operand is batched, the rest is not
=========== ========================================================================================

Which parts of the carry have tangents, are used, have cotangents or are batched is in each case the
least fixpoint of what the body says of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.dialect.builder import inline, instantiated, zeros
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import (
    Dims,
    Mask,
    both,
    chosen,
    filled,
    fixpoint,
    present,
    split,
)
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization
from jaxmlir.transforms.higher_order.loops import interleaved, tangents_of
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.higher_order.scan_bodies import jvp_body, linearize_body, transpose_body
from jaxmlir.transforms.higher_order.scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.transpose import linear_results, linear_type, reached_arguments
from jaxmlir.transforms.vmap import batched_results, move_all, vmap_of

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


class Scan(HigherOrderRule):
    plain: ClassVar[frozenset[str]] = PLAIN_SCAN

    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        scan = ScanOp.of(op)
        return _active_results(rules, scan, _active(rules, scan, active, kind), kind)

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        scan = ScanOp.of(op)
        used, _ = _used(rules, scan, _active(rules, scan, active, "linearize"), wanted)
        return both(used, active)

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter:
        scan = ScanOp.of(op)
        types = [v.type for v in op.operands]
        num_slices = len(op.results) - scan.num_carry
        body_active = _active(rules, scan, active, "jvp")
        body, active_out = rules.functions.once(jvp_body, scan.body, scan.counts, body_active)
        consts, carry, _ = scan.operands(body_active)
        new = scan.with_body(body, scan.num_consts + sum(consts), scan.num_carry + sum(carry))

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            primals, given = split(args, len(types))
            tangents = tangents_of(types, active, given, body_active)
            operands = interleaved(
                scan.operands(primals), [present(group) for group in scan.operands(tangents)]
            )
            values, dvalues, slices, dslices = split(
                new.write(rules, operands), scan.num_carry, sum(carry), num_slices
            )
            return [*values, *slices, *dvalues, *dslices]

        return Emitter(active_out, write)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        scan = ScanOp.of(op)
        types = [v.type for v in op.operands]
        body_active = _active(rules, scan, active, "linearize")
        used, wanted = _used(rules, scan, body_active, wanted)
        uses = both(used, active)
        body_active = relevant_arguments(rules, scan.body, body_active, used)
        body = rules.functions.once(
            linearize_body, scan.body, scan.counts, body_active, used, wanted
        )
        hoisted = body.hoisted

        def write_primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            consts, carry, xs = scan.operands(args)
            values, invariant = split(inline(hoisted.function, consts), hoisted.num_values)
            new_consts = [*(consts[i] for i in hoisted.constants), *values]
            new = scan.with_body(body.fwd, len(new_consts), scan.num_carry)
            outs = new.write(rules, [*new_consts, *carry, *xs])
            sources = {"operand": args, "invariant": invariant, "result": outs}
            return [*outs[: len(wanted)], *(sources[kind][i] for kind, i in body.residuals)]

        def write_tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            invariant, sliced, given = split(args, body.num_invariant, body.num_sliced)
            tangents = tangents_of(types, uses, given, used)
            consts, carry, xs = map(present, scan.operands(tangents))
            new = scan.with_body(body.lin, len(invariant) + len(consts), len(carry))
            return new.write(rules, [*invariant, *consts, *carry, *xs, *sliced])

        return Linearization(Emitter(wanted, write_primal), Emitter(wanted, write_tangent), uses)

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter | None:
        scan = ScanOp.of(op)
        consts_lin, carry_lin, xs_lin = scan.operands(linear)
        depends = fixpoint(
            carry_lin,
            lambda carry: scan.results(
                linear_results(rules, scan.body, (*consts_lin, *carry, *xs_lin))
            )[0],
        )
        if not all(depends):
            # A part of the carry that is no linear function has to be computed forwards first.
            return None
        body_linear = (*consts_lin, *depends, *xs_lin)
        ct_carry, ct_ys = scan.results(nonzero)
        carry_nonzero = fixpoint(
            ct_carry,
            lambda carry: scan.operands(
                reached_arguments(rules, scan.body, body_linear, (*carry, *ct_ys))
            )[1],
        )
        body, given = rules.functions.once(
            transpose_body, scan.body, scan.counts, body_linear, (*carry_nonzero, *ct_ys)
        )
        given_consts, given_carry, _ = scan.operands(given)
        const_types, carry_types, _ = scan.operands([v.type for v in op.operands])
        new = replace(
            scan,
            body=body,
            num_consts=consts_lin.count(False),
            num_carry=sum(given_consts) + sum(given_carry),
            reverse=not scan.reverse,
        )

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            fixed, cts = split(args, linear.count(False))
            consts, _, xs = scan.operands(filled(fixed, [not lin for lin in linear]))
            sums = [zeros(linear_type(t)) for t in chosen(const_types, given_consts)]
            handed, slices = split(cts, sum(ct_carry))
            carried = instantiated(
                chosen(filled(handed, ct_carry), carry_nonzero),
                map(linear_type, chosen(carry_types, carry_nonzero)),
            )
            operands = [*present(consts), *sums, *carried, *slices, *present(xs)]
            found = filled(new.write(rules, operands), given)
            return present(chosen(found, linear))

        return Emitter(tuple(chosen(given, linear)), write)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        scan = ScanOp.of(op)
        _, body_dims = _batched(rules, scan, dims, axis)
        carry, ys = scan.results(batched_results(rules, scan.body, body_dims, axis))
        _, carry_dims, _ = scan.operands(body_dims)
        return (*carry_dims, *(None if d is None else 1 for d in ys))

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        scan = ScanOp.of(op)
        want, body_dims = _batched(rules, scan, dims, axis)
        _, carry_dims, _ = scan.operands(body_dims)
        body, found = vmap_of(rules, scan.body, body_dims, axis, _CarryAt(tuple(carry_dims)))
        new = scan.with_body(body, scan.num_consts, scan.num_carry)
        carry, ys = scan.results(found)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            return new.write(rules, move_all(rules, args, dims, want, axis.size))

        return Emitter((*carry, *(None if d is None else 1 for d in ys)), write)


def _active(rules: Rules, scan: ScanOp, active: Mask, kind: str) -> Mask:
    """Which arguments of the body have tangents in some iteration."""
    consts, carry, xs = scan.operands(active)

    def after(carry: list[bool]) -> list[bool]:
        found = active_results(rules, scan.body, (*consts, *carry, *xs), kind)
        return scan.results(found)[0]

    return (*consts, *fixpoint(carry, after), *xs)


def _active_results(rules: Rules, scan: ScanOp, active: Mask, kind: str) -> Mask:
    """Which results have tangents, from what :func:`_active` says of the body's arguments."""
    _, ys = scan.results(active_results(rules, scan.body, active, kind))
    _, carry, _ = scan.operands(active)
    return (*carry, *ys)


def _used(rules: Rules, scan: ScanOp, body_active: Mask, wanted: Mask) -> tuple[Mask, Mask]:
    """The active arguments of the body that matter in some iteration, and the results that do."""
    active_out = _active_results(rules, scan, body_active, "linearize")
    carry, ys = scan.results(both(active_out, wanted))

    def before(carry: list[bool]) -> list[bool]:
        found = used_arguments(rules, scan.body, body_active, (*carry, *ys))
        return scan.operands(found)[1]

    carry = fixpoint(carry, before)
    used = used_arguments(rules, scan.body, body_active, (*carry, *ys))
    consts, _, xs = scan.operands(used)
    return (*consts, *carry, *xs), (*carry, *ys)


def _batched(rules: Rules, scan: ScanOp, dims: Dims, axis: Any) -> tuple[list[int | None], Dims]:
    """The dimensions along which the operands, and the body's arguments, are to be batched."""
    consts, carry, xs = scan.operands(dims)
    body_xs = [None if d is None else 0 for d in xs]

    def body_dims(carry: Sequence[bool]) -> Dims:
        return (*consts, *(0 if b else None for b in carry), *body_xs)

    def after(carry: list[bool]) -> list[bool]:
        found = batched_results(rules, scan.body, body_dims(carry), axis)
        return [d is not None for d in scan.results(found)[0]]

    batched = body_dims(fixpoint([d is not None for d in carry], after))
    xs = [None if d is None else 1 for d in body_xs]
    return [*batched[: scan.num_consts + scan.num_carry], *xs], batched


@dataclass(frozen=True)
class _CarryAt:
    """Where the batch dimensions of a body's results go: the carry's as given, others first."""

    carry: Dims

    def __call__(self, found: Dims) -> Dims:
        return (*self.carry, *(None if d is None else 0 for d in found[len(self.carry) :]))

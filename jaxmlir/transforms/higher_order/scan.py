"""``jaxpr.scan``: the body is transformed, and the loop is one loop again.

=========== ========================================================================================
jvp         tangents are carried, and scanned over, beside their primals
linearize   one scan computes the results and stacks what the derivative needs of each iteration;
            the other scans over that. What is the same in every iteration is computed before the
            loop and not stacked
partial     one scan computes what is known, and stacks what the other needs of each iteration;
eval        what is known of the carry at first only is handed over as the other begins
transpose   a scan in the opposite direction; cotangents of the carry are carried, and those of
            constants are summed in the carry
batch       what depends on a batched operand is batched, the rest is not
=========== ========================================================================================

In each case a least fixpoint over the body tells which parts of the carry have tangents, are used,
have cotangents or are batched.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import (
    build,
    clone,
    copy,
    erase,
    inline,
    instantiated,
    is_constant,
    put_instead,
    returned,
    set_results,
    zeros,
)
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.support.masks import (
    Dims,
    Mask,
    both,
    chosen,
    filled,
    fixpoint,
    inverted,
    left_out,
    present,
    split,
)
from jaxmlir.transforms.activity import active_results, relevant_arguments, used_arguments
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp, interleaved, tangents_of
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.jvp import jvp
from jaxmlir.transforms.linearize import linearize
from jaxmlir.transforms.new_function import NewFunction, before_return, set_arguments
from jaxmlir.transforms.partial_eval import loses_rules, partial_eval, unknown_results
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import (
    linear_results,
    linear_type,
    reached_arguments,
    transpose_nonzero,
)
from jaxmlir.transforms.vmap import batched_results, move_all, vmap_of


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
            primals, in_tangents = split(args, len(types))
            tangents = tangents_of(types, active, in_tangents, body_active)
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

        def write_primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            return _write_first(rules, scan, body, args, scan.counts, len(wanted))

        def write_tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            residuals, in_tangents = split(args, len(body.residuals))
            tangents = tangents_of(types, uses, in_tangents, used)
            groups = map(present, scan.operands(tangents))
            return _write_second(rules, scan, body, residuals, *groups)

        return Linearization(Emitter(wanted, write_primal), Emitter(wanted, write_tangent), uses)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation:
        scan = ScanOp.of(op)
        consts, carry, xs = scan.operands(unknown)

        def after(carry: list[bool]) -> list[bool]:
            return scan.results(unknown_results(rules, scan.body, (*consts, *carry, *xs)))[0]

        # A carry that is known only at first is the initial value of the second loop's carry.
        carry_unknown = fixpoint(carry, after)
        begun = [later and not u for u, later in zip(carry, carry_unknown, strict=True)]
        body, unknown_out = rules.functions.once(
            partial_eval_body, scan.body, scan.counts, (*consts, *carry_unknown, *xs)
        )
        counts = (consts.count(False), carry_unknown.count(False))
        num_known = unknown_out.count(False)

        def write_known(args: Sequence[ir.Value]) -> list[ir.Value]:
            own_consts, own_carry, own_xs = split(args, counts[0], carry.count(False))
            later = left_out(begun, carry)
            operands = [*own_consts, *left_out(own_carry, later), *own_xs]
            outs = _write_first(rules, scan, body, operands, counts, num_known)
            return [*outs, *chosen(own_carry, later)]

        def write_unknown(args: Sequence[ir.Value]) -> list[ir.Value]:
            residuals, first, own_consts, own_carry, own_xs = split(
                args, len(body.residuals), sum(begun), sum(consts), sum(carry)
            )
            carried = present(filled(own_carry, carry, filled(first, begun)))
            return _write_second(rules, scan, body, residuals, own_consts, carried, own_xs)

        known, rest = Emitter(unknown_out, write_known), Emitter(unknown_out, write_unknown)
        return PartialEvaluation(known, rest)

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
            # A part of the carry that is not linear has to be computed forwards first.
            return None
        body_linear = (*consts_lin, *depends, *xs_lin)
        ct_carry, ct_ys = scan.results(nonzero)
        carry_nonzero = fixpoint(
            ct_carry,
            lambda carry: scan.operands(
                reached_arguments(rules, scan.body, body_linear, (*carry, *ct_ys))
            )[1],
        )
        body, ct_pattern = rules.functions.once(
            transpose_body, scan.body, scan.counts, body_linear, (*carry_nonzero, *ct_ys)
        )
        given_consts, given_carry, _ = scan.operands(ct_pattern)
        const_types, carry_types, _ = scan.operands([v.type for v in op.operands])
        new = scan._replace(
            body=body,
            num_consts=consts_lin.count(False),
            num_carry=sum(given_consts) + sum(given_carry),
            reverse=not scan.reverse,
        )

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            fixed, cts = split(args, linear.count(False))
            consts, _, xs = scan.operands(filled(fixed, inverted(linear)))
            sums = [zeros(linear_type(t)) for t in chosen(const_types, given_consts)]
            handed, slices = split(cts, sum(ct_carry))
            carried = instantiated(
                chosen(filled(handed, ct_carry), carry_nonzero),
                map(linear_type, chosen(carry_types, carry_nonzero)),
            )
            operands = [*present(consts), *sums, *carried, *slices, *present(xs)]
            outs = filled(new.write(rules, operands), ct_pattern)
            return present(chosen(outs, linear))

        return Emitter(tuple(chosen(ct_pattern, linear)), write)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        scan = ScanOp.of(op)
        _, body_dims = _batched(rules, scan, dims, axis)
        carry, ys = scan.results(batched_results(rules, scan.body, body_dims, axis))
        _, carry_dims, _ = scan.operands(body_dims)
        return (*carry_dims, *(None if d is None else 1 for d in ys))

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        scan = ScanOp.of(op)
        want, body_dims = _batched(rules, scan, dims, axis)
        out_dims = self.batched(rules, op, dims, axis)
        of_body = tuple([None if d is None else 0 for d in out_dims])
        body, _ = vmap_of(rules, scan.body, body_dims, axis, of_body)
        new = scan.with_body(body, scan.num_consts, scan.num_carry)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            return new.write(rules, move_all(rules, args, dims, want, axis))

        return Emitter(out_dims, write)


def _write_first(
    rules: Rules,
    scan: ScanOp,
    body: SplitScanBodies,
    args: Sequence[ir.Value],
    counts: tuple[int, int],
    num_results: int,
) -> list[ir.Value]:
    """Writes the first of the two loops that a scan with some constants and carried values
    (``counts``) is split into: its results and the residuals."""
    num_consts, num_carry = counts
    consts, rest = split(args, num_consts)
    hoisted = body.hoisted
    values, invariant = split(inline(hoisted.function, consts), hoisted.num_values)
    new_consts = [*(consts[i] for i in hoisted.constants), *values]
    outs = scan.with_body(body.first, len(new_consts), num_carry).write(rules, [*new_consts, *rest])
    sources = {"operand": args, "invariant": invariant, "result": outs}
    return [*outs[:num_results], *(sources[kind][i] for kind, i in body.residuals)]


def _write_second(
    rules: Rules,
    scan: ScanOp,
    body: SplitScanBodies,
    residuals: Sequence[ir.Value],
    consts: Sequence[ir.Value],
    carry: Sequence[ir.Value],
    xs: Sequence[ir.Value],
) -> list[ir.Value]:
    """Writes the second of the two loops that a scan is split into."""
    invariant, sliced = split(residuals, body.num_invariant)
    new = scan.with_body(body.second, len(invariant) + len(consts), len(carry))
    return new.write(rules, [*invariant, *consts, *carry, *xs, *sliced])


def _active(rules: Rules, scan: ScanOp, active: Mask, kind: str) -> Mask:
    """Which arguments of the body have tangents in some iteration."""
    consts, carry, xs = scan.operands(active)

    def after(carry: list[bool]) -> list[bool]:
        active_out = active_results(rules, scan.body, (*consts, *carry, *xs), kind)
        return scan.results(active_out)[0]

    return (*consts, *fixpoint(carry, after), *xs)


def _active_results(rules: Rules, scan: ScanOp, active: Mask, kind: str) -> Mask:
    """Which results have tangents, if ``active`` of the body's arguments do (:func:`_active`)."""
    _, ys = scan.results(active_results(rules, scan.body, active, kind))
    _, carry, _ = scan.operands(active)
    return (*carry, *ys)


def _used(rules: Rules, scan: ScanOp, body_active: Mask, wanted: Mask) -> tuple[Mask, Mask]:
    """The body's active arguments, and its results, whose tangents some iteration uses."""
    active_out = _active_results(rules, scan, body_active, "linearize")
    carry, ys = scan.results(both(active_out, wanted))

    def before(carry: list[bool]) -> list[bool]:
        needed = used_arguments(rules, scan.body, body_active, (*carry, *ys))
        return scan.operands(needed)[1]

    carry = fixpoint(carry, before)
    used = used_arguments(rules, scan.body, body_active, (*carry, *ys))
    consts, _, xs = scan.operands(used)
    return (*consts, *carry, *xs), (*carry, *ys)


def _batched(rules: Rules, scan: ScanOp, dims: Dims, axis: Any) -> tuple[list[int | None], Dims]:
    """The dimensions along which the operands, and the body's arguments, have to be batched."""
    consts, carry, xs = scan.operands(dims)
    body_xs = [None if d is None else 0 for d in xs]

    def body_dims(carry: Sequence[bool]) -> Dims:
        return (*consts, *(0 if b else None for b in carry), *body_xs)

    def after(carry: list[bool]) -> list[bool]:
        out_dims = batched_results(rules, scan.body, body_dims(carry), axis)
        return [d is not None for d in scan.results(out_dims)[0]]

    batched = body_dims(fixpoint([d is not None for d in carry], after))
    xs = [None if d is None else 1 for d in body_xs]
    return [*batched[: scan.num_consts + scan.num_carry], *xs], batched


# -- Bodies of transformed scans, with their arguments in the order of a scan's --
#
# Each function takes the body's symbol, the counts of its arguments that are constants and carry
# (the rest are slices), and a pattern of its arguments or results.


def jvp_body(
    rules: Rules, symbol: str, counts: tuple[int, int], active: Sequence[bool]
) -> tuple[str, Mask]:
    """The body that carries and scans over tangents beside primals, for the active arguments: its
    symbol, and which results of the body have tangents."""
    _, num_carry = counts
    results = rules.program.function(symbol).type.results
    _, carry, _ = split(active, *counts)
    name, active_out = jvp(rules, symbol, active, (*carry, *[False] * (len(results) - num_carry)))
    function = rules.program.function(name)
    primals, tangents = split(list(function.arguments), len(active))
    consts, carry, _ = split(active, *counts)
    set_arguments(
        function, interleaved(split(primals, *counts), split(tangents, sum(consts), sum(carry)))
    )
    values, tangents = split(returned(function), len(active_out))
    set_results(function, interleaved(split(values, num_carry), split(tangents, sum(carry))))
    return name, active_out


class SplitScanBodies(NamedTuple):
    """The bodies of the two loops that a scan is split into, and the residuals between them."""

    hoisted: HoistedFunction
    """The computation before the loops."""
    first: str
    """``(*constants, *carry, *slices) -> (*carry, *slices, *residuals of this iteration)``."""
    second: str
    """``(*invariant residuals, *own constants, *carry, *slices, *residuals of this iteration) ->
    (*carry, *slices)``."""
    residuals: tuple[tuple[str, int], ...]
    """The source of each residual, the invariant ones first: an ``operand`` of the first loop, an
    ``invariant`` that is computed before it, or a ``result`` of it."""
    num_invariant: int


def linearize_body(
    rules: Rules,
    symbol: str,
    counts: tuple[int, int],
    active: Sequence[bool],
    used: Sequence[bool],
    wanted: Sequence[bool],
) -> SplitScanBodies:
    """The bodies of the loop that computes the results, and of the linear loop, which takes and
    gives tangents.

    Args:
      active: the arguments that have tangents.
      used: the active arguments whose tangents the linear loop takes.
      wanted: the results whose tangents it gives; for the carry, the same as in ``used``.
    """
    required = [w and i < counts[1] for i, w in enumerate(wanted)]
    halves = linearize(rules, symbol, active, wanted, required, used)
    return _two_bodies(rules, halves.first, halves.second, counts, len(wanted))


def partial_eval_body(
    rules: Rules, symbol: str, counts: tuple[int, int], unknown: Sequence[bool]
) -> tuple[SplitScanBodies, Mask]:
    """The bodies of the loops over known and over unknown values, and which results the second one
    gives.  A carry counts as unknown if it is unknown in any iteration."""
    consts, carry, _ = split(unknown, *counts)
    slices = len(rules.program.function(symbol).type.results) - len(carry)
    halves = partial_eval(rules, symbol, unknown, required=(*carry, *[False] * slices))
    known_counts = (consts.count(False), carry.count(False))
    num_known = halves.pattern.count(False)
    bodies = _two_bodies(rules, halves.first, halves.second, known_counts, num_known)
    return bodies, halves.pattern


def _two_bodies(
    rules: Rules, first: str, second: str, counts: tuple[int, int], num_results: int
) -> SplitScanBodies:
    """Makes the halves of a body the bodies of two loops, in place.  ``counts`` are the first
    half's constants and carried values; it has ``num_results`` and residuals."""
    num_consts, num_carry = counts
    fwd, lin = rules.program.function(first), rules.program.function(second)

    # Not returned as residuals: slices that are taken or returned anyway, and constants.
    arguments = list(fwd.arguments)
    outs = returned(fwd)
    at_hand = {v: ("result", i) for i, v in enumerate(outs) if num_carry <= i < num_results}
    at_hand |= {
        v: ("operand", i)
        for i, v in enumerate(arguments)
        if not num_consts <= i < num_consts + num_carry
    }
    sources = [at_hand.get(v) for v in outs[num_results:]]
    stored = [v for v, source in zip(outs[num_results:], sources, strict=True) if source is None]
    set_results(fwd, [*outs[:num_results], *stored])
    hoisted = hoist(rules, fwd, num_consts, num_results)
    places, stacked = itertools.count(num_results), itertools.count(num_results)
    before, taken = itertools.count(), frozenset(hoisted.results)

    def place_of_stored() -> tuple[str, int]:
        is_invariant = next(places) in taken
        return ("invariant", next(before)) if is_invariant else ("result", next(stacked))

    sources = [place_of_stored() if source is None else source for source in sources]

    invariant = [
        kind == "invariant" or (kind == "operand" and i < num_consts) for kind, i in sources
    ]
    residuals, tangents = split(list(lin.arguments), len(sources))
    sliced = inverted(invariant)
    set_arguments(lin, [*chosen(residuals, invariant), *tangents, *chosen(residuals, sliced)])
    ordered = (*chosen(sources, invariant), *chosen(sources, sliced))
    return SplitScanBodies(hoisted, first, second, ordered, sum(invariant))


def transpose_body(
    rules: Rules,
    symbol: str,
    counts: tuple[int, int],
    linear: Sequence[bool],
    nonzero: Sequence[bool],
) -> tuple[str, Mask]:
    """The body of the backward loop: ``(*fixed constants, *sums, *cotangents of the carry,
    *cotangents of slices, *fixed slices) -> (*sums, *cotangents of the carry, *cotangents of
    slices)``, where ``sums`` add up the constants' cotangents.

    Args:
      linear: which arguments the body is linear in; the carry is among them.
      nonzero: which results have cotangents; a carry counts if it has one in any iteration.

    Returns:
      Its symbol, and the arguments of the body whose cotangents it gives.
    """
    num_consts, num_carry = counts
    consts_lin, _, xs_lin = split(linear, *counts)
    carry, _ = split(nonzero, num_carry)
    required = [False] * num_consts + carry + [False] * len(xs_lin)
    name, ct_pattern = transpose_nonzero(
        rules, symbol, linear, f"{symbol.removesuffix('.lin')}.bwd", nonzero, required
    )
    function = rules.program.function(name)
    flags = iter(ct_pattern)
    ct_pattern = tuple([lin and next(flags) for lin in linear])
    num_sums = sum(ct_pattern[:num_consts])
    sum_types = list(function.type.results)[:num_sums]
    fixed_consts, fixed_xs, ct_carry, ct_ys = split(
        list(function.arguments), consts_lin.count(False), xs_lin.count(False), sum(carry)
    )
    arguments = set_arguments(function, [*fixed_consts, *sum_types, *ct_carry, *ct_ys, *fixed_xs])
    sums = arguments[len(fixed_consts) :][:num_sums]

    outs = returned(function)
    with before_return(function), function.location:
        pairs = zip(sums, outs, strict=False)
        added = [build("add_any", [total, ct], total.type) for total, ct in pairs]
    set_results(function, [*added, *outs[num_sums:]])
    return name, ct_pattern


class HoistedFunction(NamedTuple):
    """What :func:`hoist` moved out of a function."""

    function: func.FuncOp
    """Detached: ``(*constants) -> (*values for the function, *hoisted results)``."""
    constants: tuple[int, ...]
    """The loop-invariant arguments that the function still takes, before those values."""
    num_values: int
    results: tuple[int, ...]
    """The results that were moved out."""


def _split_calls(
    rules: Rules, function: func.FuncOp, known: set[ir.Value], wanted: set[ir.Value]
) -> None:
    """Splits the calls that compute some results from known operands alone; enters what becomes
    known.  A call without known operands is looked into for the ``wanted`` values only: they may be
    constants in the callee."""
    for op, name, _ in list(ops_of(function)):
        operands, results = [*op.operands], [*op.results]
        unknown = tuple([v not in known and not is_constant(v) for v in operands])
        if True not in unknown:
            known.update(results)
            continue
        if known.isdisjoint(operands):
            if name != "jaxpr.jit" or wanted.isdisjoint(results):
                continue
            callee = op.attributes["jaxpr"].value
            later = rules.functions.once(_dependent_results, callee, unknown)
            if wanted.isdisjoint(left_out(results, later)):
                continue
        if loses_rules(rules, op, name, unknown):
            continue
        halves = rules.split_call(op, op_signature.of_op(op, name, operands), unknown)
        if halves is None or all(halves.unknown.pattern):
            continue
        with ir.InsertionPoint(op), op.location:
            outs = halves.known.inline(left_out(operands, unknown))
            later = halves.unknown.pattern
            first, residuals = split(outs, later.count(False))
            rest = halves.unknown.inline([*residuals, *chosen(operands, unknown)])
        known.update(outs)
        put_instead(op, filled(rest, later, filled(first, inverted(later))))


def _dependent_results(rules: Rules, symbol: str, unknown: Sequence[bool]) -> Mask:
    """Which results of ``@symbol`` depend on an unknown argument, as far as ``jit`` calls tell.
    :func:`jaxmlir.transforms.partial_eval.unknown_results` looks into more ops, but asks for their
    rules."""
    function = rules.program.function(symbol)
    waiting = set(chosen(body_of(function).arguments, unknown))
    for op, name, operands in ops_of(function):
        pattern = tuple([v in waiting for v in operands])
        if True in pattern:
            later = (True,) * len(op.results)
            if name == "jaxpr.jit":
                callee = op.attributes["jaxpr"].value
                later = rules.functions.once(_dependent_results, callee, pattern)
            waiting.update(chosen(op.results, later))
    return tuple(v in waiting for v in returned(function))


def hoist(rules: Rules, function: func.FuncOp, num_constants: int, first: int) -> HoistedFunction:
    """Hoists loop-invariant ops out of a loop's body: those that need only its first
    ``num_constants`` arguments, which are the same in every iteration.

    The body then takes only those of these arguments that it still uses, followed by the hoisted
    values that it uses.  Of its results from the ``first`` on, it returns only those that are not
    loop-invariant.  Constants stay in the body.
    """
    arguments = list(body_of(function).arguments)
    outputs = set(returned(function)[first:])
    _split_calls(rules, function, set(arguments[:num_constants]), outputs)
    outer = NewFunction(
        rules, "hoisted", [v.type for v in arguments[:num_constants]], function, detached=True
    )
    values = dict(zip(arguments, outer.args, strict=False))
    moved = []
    used: dict[ir.Value, None] = {}
    constants = []
    free: set[ir.Value] = set()
    with outer.body():
        for op, name, operands in ops_of(function):
            results = list(op.results)
            if all(v in values or v in free for v in operands):
                if len(results) == 1 and is_constant(results[0]):
                    constants.append(op)
                    free.update(results)
                    continue
                args = [values[v] if v in values else clone(v) for v in operands]
                values.update(zip(results, copy(op, name, args), strict=True))
                moved.append(op)
            else:
                used.update(dict.fromkeys(v for v in operands if v in values))
    outs = returned(function)
    taken = tuple(i for i, v in enumerate(outs) if i >= first and v in values)
    used.update(dict.fromkeys(v for i, v in enumerate(outs) if i < first and v in values))
    remaining = tuple(i for i, v in enumerate(arguments[:num_constants]) if v in used)
    given = set(arguments)
    computed = [v for v in used if v not in given]
    outer.finish([values[v] for v in [*computed, *(outs[i] for i in taken)]])

    set_results(function, [v for i, v in enumerate(outs) if i not in taken])
    added = []
    for value in computed:
        added.append(body_of(function).add_argument(value.type, ir.Location.unknown()))
        value.replace_all_uses_with(added[-1])
    for op in reversed(moved):
        erase(op)
    for op in reversed(constants):
        if not list(op.results[0].uses):
            op.operation.erase()
    set_arguments(
        function, [*(arguments[i] for i in remaining), *added, *arguments[num_constants:]]
    )
    return HoistedFunction(outer.op, remaining, len(computed), taken)

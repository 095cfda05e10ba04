"""Bodies of transformed scans, with their arguments in the order of a scan's.

Each function takes the body's symbol, the counts of its arguments that are constants and carry (the
rest are slices), and a pattern of its arguments or results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxmlir.dialect.builder import returned, set_results
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import Mask, chosen, split
from jaxmlir.transforms.edit import Hoisted, before_return, hoist, set_arguments
from jaxmlir.transforms.higher_order.loops import interleaved
from jaxmlir.transforms.jvp import jvp
from jaxmlir.transforms.linearize import linearize
from jaxmlir.transforms.transpose import transpose_nonzero

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def jvp_body(
    rules: Rules, symbol: str, counts: tuple[int, int], active: Sequence[bool]
) -> tuple[str, Mask]:
    """The body that carries and scans over tangents beside primals.

    Args:
      active: which arguments have tangents.

    Returns:
      Its symbol, and which results of the body have tangents.
    """
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


@dataclass(frozen=True)
class LinearizedBody:
    """The bodies of the two loops that a scan is linearized to, and what goes between them."""

    hoisted: Hoisted
    """What is computed before the loops."""
    fwd: str
    """``(*constants, *carry, *slices) -> (*carry, *slices, *residuals of this iteration)``."""
    lin: str
    """``(*invariant residuals, *tangents, *residuals of this iteration) -> tangents``."""
    residuals: tuple[tuple[str, int], ...]
    """Where each residual comes from, the invariant ones first: an ``operand`` of the scan, an
    ``invariant`` that is computed before the loop, or a ``result`` of the first loop."""
    num_invariant: int

    @property
    def num_sliced(self) -> int:
        return len(self.residuals) - self.num_invariant


def linearize_body(
    rules: Rules,
    symbol: str,
    counts: tuple[int, int],
    active: Sequence[bool],
    used: Sequence[bool],
    wanted: Sequence[bool],
) -> LinearizedBody:
    """The bodies of the loop that computes the results, and of the linear one.

    Args:
      active: the arguments that have tangents.
      used: those of them whose tangents the linear loop takes.
      wanted: the results whose tangents it gives; of the carry, the same as in ``used``.
    """
    num_consts, num_carry = counts
    num_results = len(wanted)
    required = [w and i < num_carry for i, w in enumerate(wanted)]
    found = linearize(rules, symbol, active, wanted, required, used)
    fwd, lin = rules.program.function(found.fwd), rules.program.function(found.lin)

    # What is at hand anyway need not be returned: slices given or returned, and constants.
    arguments = list(fwd.arguments)
    outs = returned(fwd)
    at_hand = {v: ("result", i) for i, v in enumerate(outs) if num_carry <= i < num_results}
    at_hand |= {
        v: ("operand", i)
        for i, v in enumerate(arguments)
        if not num_consts <= i < num_consts + num_carry
    }
    sources = [at_hand.get(v) for v in outs[num_results:]]
    own = [v for v, source in zip(outs[num_results:], sources, strict=True) if source is None]
    set_results(fwd, [*outs[:num_results], *own])
    hoisted = hoist(rules, fwd, num_consts, num_results)
    taken = iter(hoisted.results)
    next_taken, num_taken, num_stacked = next(taken, None), 0, 0
    position = num_results
    for i, source in enumerate(sources):
        if source is None:
            if position == next_taken:
                sources[i] = ("invariant", num_taken)
                next_taken, num_taken = next(taken, None), num_taken + 1
            else:
                sources[i] = ("result", num_results + num_stacked)
                num_stacked += 1
            position += 1

    invariant = [
        kind == "invariant" or (kind == "operand" and i < num_consts) for kind, i in sources
    ]
    residuals, tangents = split(list(lin.arguments), len(sources))
    consts, carry, _ = split(used, *counts)
    dconsts, dcarry, dxs = split(tangents, sum(consts), sum(carry))
    sliced = [not i for i in invariant]
    set_arguments(
        lin, [*chosen(residuals, invariant), *dconsts, *dcarry, *dxs, *chosen(residuals, sliced)]
    )
    ordered = (*chosen(sources, invariant), *chosen(sources, sliced))
    return LinearizedBody(hoisted, found.fwd, found.lin, ordered, sum(invariant))


def transpose_body(
    rules: Rules,
    symbol: str,
    counts: tuple[int, int],
    linear: Sequence[bool],
    nonzero: Sequence[bool],
) -> tuple[str, Mask]:
    """The body of the loop backwards: ``(*fixed constants, *sums, *cotangents of the carry,
    *cotangents of slices, *fixed slices) -> (*sums, *cotangents of the carry, *cotangents of
    slices)``, where the sums are those of the constants' cotangents.

    Args:
      linear: which arguments the body is linear in, the carry among them.
      nonzero: which results have cotangents; of the carry, in any iteration.

    Returns:
      Its symbol, and which arguments of the body it gives cotangents of.
    """
    num_consts, num_carry = counts
    consts_lin, _, xs_lin = split(linear, *counts)
    carry, _ = split(nonzero, num_carry)
    required = [False] * num_consts + carry + [False] * len(xs_lin)
    name, given = transpose_nonzero(
        rules, symbol, linear, f"{symbol.removesuffix('.lin')}.bwd", nonzero, required
    )
    function = rules.program.function(name)
    given_of = iter(given)
    given = tuple([lin and next(given_of) for lin in linear])
    num_sums = sum(given[:num_consts])
    sum_types = list(function.type.results)[:num_sums]
    fixed_consts, fixed_xs, ct_carry, ct_ys = split(
        list(function.arguments), consts_lin.count(False), xs_lin.count(False), sum(carry)
    )
    new = set_arguments(function, [*fixed_consts, *sum_types, *ct_carry, *ct_ys, *fixed_xs])
    sums = new[len(fixed_consts) :][:num_sums]

    outs = returned(function)
    with before_return(function), function.location:
        added = [
            ir.Operation.create("jaxpr.add_any", [total.type], [total, ct]).result
            for total, ct in zip(sums, outs, strict=False)
        ]
    set_results(function, [*added, *outs[num_sums:]])
    return name, given

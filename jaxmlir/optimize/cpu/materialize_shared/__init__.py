"""``jaxpr-materialize-shared``: keep XLA from computing a value again for each of its users.

XLA's CPU compiler fuses an elementwise or data-moving op into every op that uses it, and so
computes it once for each.  That is right where recomputing is cheaper than a trip to memory, but it
compounds: if a stencil is applied twenty times, each element of the result reads five elements of
the step before, each of which reads five ...; fused all the way down, work and compile time grow
exponentially.  A *fence* on a value is the identity, which XLA does not fuse across: the value is
computed once and stored.  :mod:`.recomputation` finds the values for which this pays.

Other values are fenced as well: the parts of sums of many arrays, whatever they cost
(:mod:`.wide_sums`); operands of reductions, where another value would be stored for the reduction
(:mod:`.reduction_inputs`); slices that an op reads in two arrangements (:mod:`.slices`); and values
that would be computed element by element (:mod:`.scalar_kernels`).  In loops that write arrays in
place, values read from an array are fenced together with the update that overwrites them
(:mod:`.in_place_updates`).

An array that a call returns twice, as it is and reshaped, gets one fence for both: if the array
were also read without the fence, XLA might overwrite it (:mod:`jaxmlir.optimize.barriers`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from jaxmlir.analysis.function_view import FunctionView, InsertedOp
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.purity import CountedOps
from jaxmlir.dialect.builder import build
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import FencedValue, alone, fences
from jaxmlir.optimize.cpu.materialize_shared.in_place_updates import loop_bodies, order_reads
from jaxmlir.optimize.cpu.materialize_shared.recomputation import dear_values
from jaxmlir.optimize.cpu.materialize_shared.reduction_inputs import summed_apart
from jaxmlir.optimize.cpu.materialize_shared.scalar_kernels import computed_singly
from jaxmlir.optimize.cpu.materialize_shared.slices import read_in_two_ways
from jaxmlir.optimize.cpu.materialize_shared.wide_sums import crowded_sums
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark


class MaterializeShared(Pass):
    """Store expensive values with several readers, where XLA would recompute them for each.

    Options:
      threshold: the cost of an element, in ops, over which a value is fenced.
    """

    name: ClassVar[str] = "jaxpr-materialize-shared"
    # Other compilers weigh recomputation themselves.
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    # Gradients on two cores, speed against no fences, at 4 / 8 / 16 / 32: an unrolled Lorenz-96
    # 30 / 56 / 83 / 82, a stencil 61 / 80 / 82 / 6; programs of matrix products stay the same.
    threshold: Count = 16

    def run(self, program: Module) -> bool:
        together, analyses, counted = fences(program), analyses_of(program), CountedOps(program)
        dear = functools.partial(dear_values, threshold=self.threshold)
        singly = functools.partial(computed_singly, target=program.target)
        finders = (dear, crowded_sums, summed_apart, read_in_two_ways, singly)
        # Callees first: programs may be nested deeper than Python's stack.
        count = store(program, alone(together), finders, analyses.graph.callees_first())
        bodies = [analyses.body(function) for function in program.functions.values()]
        for symbol in loop_bodies(bodies):
            body = analyses.body(program.function(symbol))
            count += order_reads(body, counted, together)
        if count:
            program.changed()
        return count > 0


FindValues = Callable[
    [Iterable[str], Callable[[str], FunctionView]], Mapping[str, Collection[FencedValue]]
]
"""Finds the values to store, by function.

It gets the symbols of functions, and reads these by a function of the symbol."""


def store(
    program: Module,
    put: Callable[[ir.Value], ir.Value],
    finders: Iterable[FindValues],
    symbols: Iterable[str],
) -> int:
    """Puts fences on the values that are found in functions; returns how many.

    The views of the functions are updated, but the caller has to call ``program.changed()``.

    Args:
      put: writes a fence.
    """
    analyses, symbols, count = analyses_of(program), [*symbols], 0

    def bodies(symbol: str) -> FunctionView:
        return analyses.body(program.function(symbol))

    for find in finders:
        for symbol, values in find(symbols, bodies).items():
            body = bodies(symbol)
            new = [op for v in sorted(values, reverse=True) for op in _store(body, v, put)]
            if new:
                analyses.put_in(symbol, sorted(new, key=lambda op: op.after))
                count += len(values)
    return count


def _store(
    body: FunctionView, fenced: FencedValue, put: Callable[[ir.Value], ir.Value]
) -> list[InsertedOp]:
    """Puts a fence on a value."""
    index, result, reason, views = fenced
    op = body.function if index < 0 else body.ops[index]
    first, values = (0, op.arguments) if index < 0 else (body.results[index][0], op.results)
    remark(op, f"stored because {reason}")
    value, replaced = values[result], [first + result]
    with _after(body, index), op.location:
        new = put(value)
        inserted = [InsertedOp(new.owner, index, [first + result], replaced)]
        for v in views:
            view = _reshaped(new, values[v].type)
            values[v].replace_all_uses_with(view)
            if view is new:
                replaced.append(first + v)
            else:
                inserted.append(InsertedOp(view.owner, index, [first + result], [first + v]))
    value.replace_all_uses_except(new, new.owner.operation)
    return inserted


def _after(body: FunctionView, index: int) -> ir.InsertionPoint:
    """The insertion point after an op and the fences that were put after it."""
    if index + 1 < len(body.ops):
        return ir.InsertionPoint(body.ops[index + 1])
    return ir.InsertionPoint.at_block_terminator(body_of(body.function))


def _reshaped(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return build("reshape", [value], type_, new_sizes=aval_of(type_).shape)

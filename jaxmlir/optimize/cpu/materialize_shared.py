"""``jaxpr-materialize-shared``: keep XLA from computing a value again for each of its users.

XLA's CPU compiler fuses an elementwise or data-moving op into every op that uses it, and so
computes it once for each.  That is right where recomputing is cheaper than a trip to memory, but it
compounds: if a stencil is applied twenty times, each element of the result reads five elements of
the step before, each of which reads five ...; fused all the way down, work and compile time grow
exponentially.  A *fence* on a value is the identity, which XLA does not fuse across: the value is
computed once and stored.  :mod:`jaxmlir.optimize.cpu.recomputation` finds the values for which this
pays.

Other values are fenced as well: the parts of sums of many arrays, whatever they cost
(:mod:`jaxmlir.optimize.cpu.split_wide_sums`); operands of reductions, where another value would be
stored for the reduction (:mod:`jaxmlir.optimize.cpu.materialize_reduction_inputs`); and slices that
an op reads in two arrangements (:mod:`jaxmlir.optimize.cpu.materialize_slices`).  In loops that
write arrays in place, values read from an array are fenced together with the update that overwrites
them (:mod:`jaxmlir.optimize.cpu.order_in_place_updates`).

An array that a call returns twice, as it is and reshaped, gets one fence for both: if the array
were also read without the fence, XLA might overwrite it (:mod:`jaxmlir.optimize.barriers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from jaxmlir.analysis.function_view import FunctionView, InsertedOp
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import build
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import alone, fences_together
from jaxmlir.optimize.cpu.materialize_reduction_inputs import summed_apart
from jaxmlir.optimize.cpu.materialize_slices import read_in_two_ways, slices_of_scans
from jaxmlir.optimize.cpu.order_in_place_updates import loop_bodies, overwritten, read_first
from jaxmlir.optimize.cpu.recomputation import FencedValue, RecomputeCosts
from jaxmlir.optimize.cpu.split_wide_sums import MAX_READ, crowded_sums
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark


class MaterializeShared(Pass):
    """Store expensive values that are read several times, where XLA would compute them for each.

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
        return fence(program, self.threshold)


def fence(program: Module, threshold: int = MaterializeShared.threshold) -> bool:
    """Puts fences into a program, in place; returns whether it put any."""
    together = fences_together(program)
    if together is None:
        return False
    put = alone(together)
    bodies = _BodyReader(program)
    costs = RecomputeCosts(bodies, threshold)
    chosen = {symbol: costs.of(symbol).fenced for symbol in program.functions}
    for symbol, values in chosen.items():
        if values:
            bodies.put_in(symbol, _fence(bodies(symbol), values, put))
    count = sum(map(len, chosen.values()))

    def cut(by_symbol: Mapping[str, list[tuple[int, int]]], reason: str) -> int:
        for symbol, cuts in by_symbol.items():
            if cuts:
                bodies.put_in(symbol, _cut(bodies(symbol), cuts, put, reason))
        return sum(map(len, by_symbol.values()))

    sums = crowded_sums(list(program.functions), bodies)
    count += cut(sums, f"what is added up reads more than {MAX_READ} arrays")
    apart = {symbol: summed_apart(bodies(symbol)) for symbol in program.functions}
    count += cut(apart, "a sum of it would store what others compute again")
    slices = slices_of_scans(program.functions, bodies)
    sliced = {
        symbol: read_in_two_ways(bodies(symbol), slices.get(symbol, ()))
        for symbol in program.functions
    }
    count += cut(sliced, "its user reads this slice in two arrangements")
    for symbol in loop_bodies(map(bodies, program.functions)):
        body = bodies(symbol)
        for write in overwritten(body):
            read_first(body, write, together)
            count += 1
    if count:
        program.changed()
    return count > 0


class _BodyReader:
    """The functions of a program, each read once."""

    def __init__(self, program: Module):
        self._program = program
        self._by_symbol: dict[str, FunctionView] = {}

    def __call__(self, symbol: str) -> FunctionView:
        body = self._by_symbol.get(symbol)
        if body is None:
            function = self._program.function(symbol)
            body = self._by_symbol[symbol] = analyses_of(self._program).body(function)
        return body

    def put_in(self, symbol: str, fences: Iterable[InsertedOp]) -> None:
        """Updates the view of a function into which fences were put."""
        in_order = sorted(fences, key=lambda new: new.after)
        self._by_symbol[symbol] = self(symbol).with_put_in(in_order)


def _fence(
    body: FunctionView, values: list[FencedValue], put: Callable[..., ir.Value]
) -> list[InsertedOp]:
    """Puts fences on values."""
    fences = []
    for index, result, cost, users, views, is_branched in sorted(values, reverse=True):
        use = f"{users} ops use it" if users > 1 else "its user reads each element several times"
        if is_branched:
            use = "the kernel that reads it asks where each element is"
        reason = f"{use}, and an element costs {cost} ops"
        fences += _store(body, (index, result), views, put, reason)
    return fences


def _cut(
    body: FunctionView, cuts: list[tuple[int, int]], put: Callable[..., ir.Value], reason: str
) -> list[InsertedOp]:
    """Puts fences on values, given by an op's index (-1: the function) and a result's number."""
    return [stored for cut in reversed(cuts) for stored in _store(body, cut, (), put, reason)]


def _store(
    body: FunctionView,
    place: tuple[int, int],
    views: Sequence[int],
    put: Callable[..., ir.Value],
    reason: str,
) -> list[InsertedOp]:
    """Puts a fence on a value.

    Args:
      views: other results of the op that are the same array in another shape.
    """
    index, result = place
    op = body.function if index < 0 else body.ops[index]
    first, values = (0, op.arguments) if index < 0 else (body.results[index][0], op.results)
    remark(op, f"stored: {reason}")
    value, replaced = values[result], [first + result]
    with _after(body, index), op.location:
        fenced = put(value)
        fences = [InsertedOp(fenced.owner, index, [first + result], replaced)]
        for v in views:
            view = _reshaped(fenced, values[v].type)
            values[v].replace_all_uses_with(view)
            if view is fenced:
                replaced.append(first + v)
            else:
                fences.append(InsertedOp(view.owner, index, [first + result], [first + v]))
    value.replace_all_uses_except(fenced, fenced.owner.operation)
    return fences


def _after(body: FunctionView, index: int) -> ir.InsertionPoint:
    """The insertion point after an op and the fences that were put after it."""
    if index + 1 < len(body.ops):
        return ir.InsertionPoint(body.ops[index + 1])
    return ir.InsertionPoint.at_block_terminator(body_of(body.function))


def _reshaped(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return build("reshape", [value], type_, new_sizes=aval_of(type_).shape)

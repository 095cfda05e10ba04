"""Fences: identities that XLA's compilers do not move or fuse across, and do not see through.

A *fence* is the identity of a value, which is stored there.  From JAX 0.11 on it is an optimization
barrier.  Before that, the CPU compiler fuses across barriers, and a fence is a call that it does
not inline.

To XLA, the operand and the result of such a call are one buffer.  XLA does not see that a kernel
that reads both must not write to it.  So if both are read, the value does not go through the call:
it is selected by a boolean that does (:data:`WaitFence`).
"""

from __future__ import annotations

import itertools
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxmlir.analysis.fusion import kept_call
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import filled, zeros
from jaxmlir.dialect.ir import free_symbol, func, ir, new_function
from jaxmlir.dialect.module import Module
from jaxmlir.support.lazy import memoized

# The first JAX whose CPU compiler does not fuse across optimization barriers.  Other platforms need
# no fences.
_BARRIER_SINCE = (0, 11)

JointFence = Callable[[Sequence[ir.Value]], list[ir.Value]]
"""Writes a fence on several values: none of the results is available before all operands are."""

WaitFence = Callable[
    [Sequence[ir.Value], ir.Value, Sequence[ir.Value]], tuple[list[ir.Value], list[ir.Value]]
]
"""``(values, after, others) -> (values, others)``: copies that wait until ``after`` is available.

Compilers do not find out that the copied values equal the originals, and both may be read.  The
originals of ``others`` must not be read any more."""


def fences(program: Module) -> Callable[[ir.Value], ir.Value] | None:
    """A function that writes a fence on a value at the insertion point; ``None`` if the target
    needs no fences."""
    together = fences_together(program)
    return together and alone(together)


def alone(together: JointFence) -> Callable[[ir.Value], ir.Value]:
    """A function that writes a fence on one value."""
    return lambda value: together([value])[0]


def fences_together(program: Module) -> JointFence | None:
    """A function that writes a fence on several values; ``None`` if the target needs no fences."""
    if not program.target.is_cpu:
        return None
    return barrier if program.target.compiler[:2] >= _BARRIER_SINCE else _FenceCalls(program)


def waiting(program: Module) -> WaitFence:
    """A function that makes values of a program wait for another value."""
    # XLA's CPU compiler removes barriers before it schedules, and schedules ops early unless that
    # takes far more memory.
    return _wait_for_call(program) if program.target.is_cpu else _wait_behind_barrier


def _wait_for_call(program: Module) -> WaitFence:
    calls = _FenceCalls(program)

    def wait(
        values: Sequence[ir.Value], after: ir.Value, others: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        chosen, *others = calls([_yes(), *others], after)
        return _selected(chosen, values), others

    return wait


def _wait_behind_barrier(
    values: Sequence[ir.Value], after: ir.Value, others: Sequence[ir.Value]
) -> tuple[list[ir.Value], list[ir.Value]]:
    fenced = barrier([*values, *others, after])
    return fenced[: len(values)], fenced[len(values) : -1]


def _selected(chosen: ir.Value, values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values, selected by a boolean that is always true."""
    name = "jaxpr.select_n"
    return [ir.Operation.create(name, [v.type], [chosen, zeros(v.type), v]).result for v in values]


def _yes() -> ir.Value:
    return filled(ir.RankedTensorType.get([], ir.IntegerType.get_signless(1)), True)


def barrier(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Writes an optimization barrier on values, which also stops fusion in XLA's TPU compiler."""
    name, types = "jaxpr.optimization_barrier", [v.type for v in values]
    return list(ir.Operation.create(name, types, list(values)).results)


class _FenceCalls:
    """Calls, not inlined, of functions that return their arguments."""

    def __init__(self, program: Module):
        self._program = program
        self._taken = ChainMap[str, Any](program.functions, {})
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def __call__(self, values: Sequence[ir.Value], after: ir.Value | None = None) -> list[ir.Value]:
        """The values, which are there when all of them are, and another value."""
        types = tuple([v.type for v in values])
        waits = [] if after is None else [after]
        name = "fence" if after is None else "wait"
        symbol = self._symbol(name, types, *[v.type for v in waits])
        attributes = {
            "jaxpr": ir.FlatSymbolRefAttr.get(symbol),
            "name": ir.StringAttr.get(name),
            "jaxpr.ctx": kept_call(),
        }
        return list(ir.Operation.create("jaxpr.jit", types, [*values, *waits], attributes).results)

    @memoized
    def _symbol(self, name: str, types: tuple[ir.Type, ...], *waits: ir.Type) -> str:
        """The function that returns arguments of some types when others are there."""
        symbol = free_symbol(name, self._taken, self._numbers[name])
        self._taken.maps[1][symbol] = None
        # It, and what is in it, is where it is called first; lowered, where it is called.
        _, place = locations.split(ir.Location.current)
        at_end = ir.InsertionPoint(self._program.module.body)
        _, block = new_function(symbol, [*types, *waits], types, place, at_end)
        with ir.InsertionPoint(block), place:
            func.ReturnOp(barrier(block.arguments)[: len(types)])
        return symbol

"""``jaxpr-remat``: which values loops store for their derivative, and which they recompute.

A loop and a later loop that reads its stacked results, such as the forward and the backward loop of
a gradient, are rewritten together (:mod:`.joint`).  The first loop stores the cheapest set of
values from which the second can compute what it needs.  This is a minimum cut (:mod:`.choice`)
under prices of storing and computing (:mod:`jaxmlir.optimize.memory.price`).

A memory budget (:mod:`.straight`) raises the price of storing until the program meets it, and cuts
long loops into segments that are run again.  If that is not enough, batches are computed in tiles
(``jaxpr-tile``), and straight-line code is cut into segments.  With a budget, fences are set
(``jaxpr-materialize-shared``) where they reduce memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import ClassVar

from jaxmlir.analysis.call_graph import SCANS, is_plain_call
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.dialect.builder import has_lasting_effects, named_ops
from jaxmlir.dialect.ir import func
from jaxmlir.dialect.module import Module
from jaxmlir.errors import PipelineError, count
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.cpu.materialize_shared import MaterializeShared
from jaxmlir.optimize.loops.sink_reductions import SinkReductions
from jaxmlir.optimize.memory.price import SLOWDOWN, Prices, most_at_once, traffic
from jaxmlir.optimize.memory.remat.choice import StorageChoice, choose
from jaxmlir.optimize.memory.remat.joint import (
    JointBody,
    Loop,
    LoopPair,
    PairReplacement,
    counted_loops,
    segments,
    separate,
)
from jaxmlir.optimize.memory.remat.joint import in_segments as loops_in_segments
from jaxmlir.optimize.memory.straight import MemoryStrategy, in_segments, within
from jaxmlir.optimize.memory.tile import tile
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.support.options import in_units, is_budget
from jaxmlir.transforms.templates import Rules


class Remat(Pass):
    """Choose what each iteration of a loop stores for its derivative, and recompute the rest.

    Straight-line code is rewritten as well, if a memory budget is not met without that.

    Options:
      memory-budget: memory that the program may take besides its arguments and results: a fraction
        of what it takes now, up to 1, or, from 2 on, bytes.  By default values are recomputed
        where that pays.
      measure: compile the program for JAX's default backend, up to sixteen times, to see what
        memory it takes.  By default that is estimated.
      calls: the assumed number of calls of the program: without a budget, recomputing values has
        to save, in these, the time to compile it.
    """

    name: ClassVar[str] = "jaxpr-remat"
    memory_budget: float | None = None
    measure: bool = False
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        if self.memory_budget is None:
            return self._where_it_pays(program)
        if not is_budget(self.memory_budget):
            raise PipelineError(
                f"option 'memory-budget' of pass '{self.name}' expects a fraction of what the "
                f"program takes, above 0 and up to 1, or at least 2 bytes, got {self.memory_budget}"
            )
        # Loops, and, where the budget is not met by these alone, batches and straight-line code.
        way = within(program, self.memory_budget, self.measure, _go)
        return way is not None and _go(program, way)

    def _where_it_pays(self, program: Module) -> bool:
        """Rewrites loops where it pays by the target's costs; returns whether any changed."""
        costs = program.target.costs
        if not outside_kernels(program, SCANS):
            return False
        if program.target.is_cpu:
            return _in_loops(program, None, 0, SLOWDOWN, self.calls)
        if costs.fused_value < costs.stored_value:
            # A value that a matrix product after the loop reads is stored for that product, so the
            # second loop can read it as well.
            sunk = SinkReductions().run(program)
            return _in_loops(program, None, 0, 0.0, self.calls) or sunk
        # If a device's fast memory holds all values, the kernels that compute them store them
        # there; one more kernel, which recomputes a value, takes longer.
        is_cached = most_at_once(program) <= costs.cached
        return not is_cached and _in_loops(program, None, 0, 0.0, self.calls)


# The choice with calls inlined has to cost less than this fraction of the choice with calls.
# Gradients of loops, estimate and CPU time: of ten steps of molecular dynamics, two forces each,
# 0.71 and 0.5; of Lorenz-96, four slopes each, 0.98 and 1.35.
FLAT = 0.9
# The fractions of the price of memory that are tried, until the loops are not too slow.
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0)


def _go(program: Module, way: MemoryStrategy) -> bool:
    tiled = way.tile_bytes is not None and tile(program, None, way.tile_bytes, 0)
    changed = _in_loops(program, way.price, way.depth, inf) or tiled
    if way.segments > 1:
        for symbol in analyses_of(program).graph.entry_points():
            changed |= in_segments(program, symbol, way.segments)
    if way.fences and program.target.is_cpu:
        changed |= MaterializeShared().run(program)
    return changed


def _in_loops(
    program: Module, price: float | None, depth: int, slowdown: float, calls: float = inf
) -> bool:
    functions = program.functions
    before = {*functions}
    graph = analyses_of(program).graph
    entries = graph.entry_points()
    with_loops = [symbol for symbol in graph.callees_first() if graph.have(symbol, SCANS)]
    # Estimated before anything is rewritten, and only if there may be a pair.
    ops = itertools.chain(*[graph.ops[symbol] for symbol in with_loops])
    has_pairs = sum(name in SCANS for _, name in ops) > 1
    of_byte = traffic(program) if has_pairs else 0.0
    compile_time = CompileTime(program, calls)
    loops = _LoopRemat(
        Rules(program), Prices(program, price), of_byte, depth, slowdown, compile_time
    )
    if any([loops.rewrite(functions[symbol]) for symbol in with_loops]):
        keep_reachable(program, entries)
        return True
    # Nobody uses the bodies that were written on trial.
    tried = functions.keys() - before
    for symbol in tried:
        functions[symbol].operation.erase()
    if tried:
        program.changed()
    return False


@dataclass(frozen=True)
class _LoopRemat:
    """Rewrites the loops of functions.

    Attributes:
      traffic: the time to store a byte and read it, in nanoseconds.
      depth: how deep loops may be segmented.
      slowdown: the fraction of its time that a pair of loops may take longer to save memory.
      known: the choices and the new loops, by what pairs have in common.
    """

    rules: Rules
    prices: Prices
    traffic: float
    depth: int
    slowdown: float
    compile_time: CompileTime
    known: dict[Hashable, tuple[StorageChoice, PairReplacement] | None] = field(
        default_factory=dict
    )

    def rewrite(self, function: func.FuncOp) -> bool:
        """Rewrites the pairs of loops in a function; whether it changed any."""
        changed = False
        loops: list[Loop | None] = list(counted_loops(function))
        owner = {v: i for i, loop in enumerate(loops) for v in loop.stacked}
        for j in range(len(loops)):
            producers = {owner[v] for v in loops[j].operands[2] if v in owner}
            for i in sorted(producers):
                pair = LoopPair(loops[i], loops[j])
                if not pair.links:
                    continue
                for v in (*pair.first.stacked, *pair.second.stacked):
                    del owner[v]
                loops[i], loops[j] = self._segmented(pair) or self._stored(pair, self.depth)
                changed |= loops[i] is not pair.first or loops[j] is not pair.second
                owner |= {v: k for k in (i, j) if loops[k] for v in loops[k].stacked}
        return changed

    def _segmented(self, pair: LoopPair) -> tuple[Loop | None, Loop] | None:
        """The pair in segments, if that takes less memory; else ``None``."""
        if not self.depth:
            return None
        joint = JointBody.of(self.rules, pair)
        start = choose(joint, self.prices)
        per_segment = choose(joint, Prices(self.prices.program))
        if start is None or per_segment is None:
            return None
        count, _ = segments(pair.first.scan.length, self.depth, start.size, per_segment.size)
        if not count:
            return None
        if remarks_wanted():
            length = pair.first.scan.length
            remark(
                pair.first.op,
                f"split into {count} segments of {length // count} iterations: the derivative runs "
                f"each again, from {start.size:,.0f} bytes stored at its start",
            )
        parts = loops_in_segments(self.rules, pair, count)
        return [self._stored(part, self.depth - 1) for part in parts][0]

    def _stored(self, pair: LoopPair, depth: int) -> tuple[Loop | None, Loop]:
        """The pair that stores the cheapest set of values."""
        key = depth, pair.symbols, pair.likeness
        cheapest = self.known.get(key, ())
        if cheapest == ():
            cheapest = self.known[key] = self._cheapest(pair, depth)
        if cheapest is None:
            return pair.first, pair.second
        choice, parts = cheapest
        if remarks_wanted():
            remark(pair.first.op, _explanation(pair, choice))
        return parts.take_place(self.rules, pair)

    def _cheapest(self, pair: LoopPair, depth: int) -> tuple[StorageChoice, PairReplacement] | None:
        """The best choice, and the loops that make it; ``None`` if the pair is to stay as it is."""
        best = self._joint(JointBody.of(self.rules, pair), depth)
        bodies = map(self.rules.program.function, pair.symbols)
        if any(is_plain_call(op, name) for body in bodies for op, name in named_ops(body)):
            # A call is run again as a whole, even for one of its values.  Inlining avoids that, but
            # a fence set in a function serves all its callers.
            flat = self._joint(JointBody.of(self.rules, pair, flat=True), depth)
            if flat and (not best or flat[1].price < FLAT * best[1].price):
                best = flat
        if best is None:
            return None
        joint, choice = best
        length, now = pair.first.scan.length, pair.stored
        if choice.size * length >= now:
            return None
        saved = (self.traffic + self.prices.memory) * (now - choice.size * length)
        costs = self.rules.program.target.costs
        if costs.waits_for_kernels:
            saved += costs.fused_value * (len(pair.links) - len(choice.stored)) * length
        if not self.compile_time.pays(pair.first.symbol, len(choice.again), saved):
            return None
        return choice, separate(self.rules, joint, choice.stored)

    def _joint(self, joint: JointBody, depth: int) -> tuple[JointBody, StorageChoice] | None:
        """A joint body, with the loops in it rewritten, and the best choice for it."""
        length = joint.pair.first.scan.length
        prices = self.prices.within(length)
        inner = replace(self, prices=prices, depth=depth, known={})
        if inner.rewrite(joint.function):
            joint = replace(joint, links=())
        choice = self._choice(joint, joint.pair.stored / length)
        return None if choice is None else (joint, choice)

    def _choice(self, joint: JointBody, now: float) -> StorageChoice | None:
        """The cheapest choice under the highest price of memory that makes it not too slow.

        Args:
          now: bytes that each iteration stores so far.
        """
        functions, body = self.rules.program.functions, joint.body
        ops = zip(body.ops, body.names, strict=True)
        if any(has_lasting_effects(*op, functions) for op in ops):
            # The loops are written from what their results need.
            return None
        prices = replace(self.prices, traffic=self.traffic)
        times = (prices.at(joint.body, index) for index in range(len(joint.body.ops)))
        time = sum(filter(isfinite, times))
        for share in _SHARES:
            choice = choose(joint, replace(prices, memory=prices.memory * share))
            if choice is None:
                return None
            slower = choice.price - prices.traffic * (now - choice.size)
            if slower <= self.slowdown * time:
                return choice
        return choice


def _explanation(pair: LoopPair, choice: StorageChoice) -> str:
    length = pair.first.scan.length
    return (
        f"stores {in_units(choice.size * length)} for {count(length, 'iteration')} instead of "
        f"{in_units(pair.stored)}: "
        f"{count(len(choice.stored), 'value')}, not {len(pair.links)}, per iteration; an iteration "
        f"recomputes {count(len(choice.again), 'op')}, about {choice.price:,.0f} ns"
    )

"""``jaxpr-tile``: computes batches of independent rows, some rows at a time.

Programs compute most values of a batch for each row by itself, and so do their derivatives.  Run op
by op, a program has all intermediate values of all rows in memory at once.  This pass makes the ops
that are independent along the batch the body of a scan over tiles of it::

    s = softmax(x @ w)                 for each tile x' of x, dy' of dy:
    dx = pullback(s, dy) @ w.T   ->        s' = softmax(x' @ w);  p' = pullback(s', dy')
    dw = x.T @ pullback(s, dy)             dx' = p' @ w.T;  dw += x'.T @ p'

Besides arguments and results, the ops then need the memory of one tile only, which stays in cache.

Indexing maps (:mod:`jaxmlir.analysis.index_maps`) say along which dimensions ops are independent.
A region of such ops grows from each of the largest values.  It is cut into stages where rows read a
reduction over the batch.  The pass estimates what tiles save and cost, chooses their size, and
writes the loops (:mod:`.regions`).  ``jaxpr-remat`` decides what is stored between two loops over
one batch.

Nothing is computed twice, and the same ops as before compute each row.  Sums over the batch are
added in another order, and matrix products are rounded as the library rounds them for fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from math import inf
from typing import ClassVar, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_array
from jaxmlir.analysis.purity import CountedOps
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import PipelineError
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.optimize.memory.profile import MemoryProfile, total
from jaxmlir.optimize.memory.tile.regions import Region, Schedule, Tiles, TileWriter, dim_of, grow
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.rewriting.inline import inlined
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

# Savings and costs of tiles are estimated from the target's table.  Whether these estimates tell
# what pays was measured on two cores of an x86 server with the XLA of jax 0.10 and 0.12, on
# gradients of four programs with respect to arguments and weights, n rows each: softmaxes of 2048
# logits, three times over; attention of 512 positions; tanh, sine and normalization of 2048
# elements, four times over; a perceptron of widths 256, 1024, 1024, 256.
#
# A C library keeps a freed block of up to 32 MiB for the next call.  A larger block is mapped anew,
# and each page is zeroed when it is first touched: tiles save this time.  CPU time of tiles / of
# the entire batch, by the memory that the latter takes:
#                  7 to 14 MiB  20 to 28  40 to 56  80 to 112  160 to 320
#   softmaxes      1.07         1.06      0.70      0.76       0.65
#   attention      1.04         0.96      0.67      0.66       0.40
#   normalization               1.0       0.63      0.67       0.6
#   perceptron                  1.05      0.92                 0.8
#
# All threads start each kernel of a tile and wait for its end.  Attention of 135 kernels, wall time
# in four tiles / of the entire batch, of 34 MiB, in ms: 10.5 / 16 if each call maps its memory
# anew; 10 / 8 if the C library has kept the memory, as can happen after larger programs.

# The number of ops that a loop adds besides those of its body.
OPS = 10
# The factor by which a gain has to exceed the cost: the estimates are no better.
MARGIN = 1.5
# Bytes of all values of a tile.  CPU time by these bytes, 4096 rows or 64 sequences, jax 0.10:
#                  4 to 5 MiB  7 to 9  11 to 16  22 to 31  58
#   softmaxes      1.24        1.07    1         1.03      1.23
#   attention                  1       1.08      1.16      1.46
#   normalization  1.17                1.07      1
#   perceptron     1.25        1.03    1         1
TILE_BYTES = 16_777_216


class StageEstimate(NamedTuple):
    """The memory and the memory traffic of a stage, in bytes.

    Attributes:
      peak: the most bytes that the stage stores at once for the entire batch, without tiles.
      rows: the bytes that the loop reads and writes by rows.
      shared: the bytes that each tile reads and writes as a whole.
      kernels: the number of kernels of a tile.
      added: the bytes stored for other stages of values that were not stored before, but computed
        where they were read.
    """

    peak: int
    rows: int
    shared: int
    kernels: int
    added: int

    def saved(self, tiles: Tiles) -> float:
        """Bytes that are stored at once without tiles and not with them."""
        return self.peak * (1 - tiles.size / tiles.rows) - self.added

    def cost(self, tiles: Tiles, costs: Costs) -> float:
        """Nanoseconds that tiles take beyond the time that the batch takes."""
        count = tiles.count + (tiles.rest > 0)
        # A cache holds what each tile reads or writes as a whole, i.e. weights of matrix products
        # and their gradients, and the copies of rows: 0.08 to 0.19 ns a byte in the perceptron.
        copied = costs.stored_byte_cached
        per_tile = copied * self.shared + costs.fork * self.kernels
        return count * per_tile + copied * self.rows + costs.stored_byte_mapped * self.added


def estimate(
    schedule: Schedule, number: int, profile: MemoryProfile, again: Set[int]
) -> StageEstimate:
    """The memory and the memory traffic of a stage.

    Args:
      again: the rows that are recomputed rather than stored for another stage.
    """
    body, ops = schedule.body, schedule.stages[number].rows
    outer = set(schedule.outer(number))
    reads: set[int] = set()
    shared: set[int] = set()
    for i, v, d in schedule.read_elsewhere(number):
        if d is not None:
            reads.add(v)
        elif body.names[i] not in FUSIBLE:
            shared.add(v)
    sums = schedule.sums(number)
    bytes_of = profile.sizes.__getitem__
    stored = profile.stored
    added = sum(bytes_of(v) for v in outer - again if not stored[v])
    # Partial sums are left out: they are small beside the rows that they sum up.
    results = [v for i in ops for v in range(*body.results[i])]
    leaving = outer | {v for v in results if schedule.dim(v) is None}
    # Recomputed rows count, both those that this stage reads and those that later stages read.
    return StageEstimate(
        int(profile.needed(ops, {v for v in reads & again if stored[v]}, leaving - again).max()),
        sum(map(bytes_of, reads - again)) + sum(map(bytes_of, outer - again)),
        sum(map(bytes_of, shared)) + 2 * sum(map(bytes_of, sums)),
        sum(stored[v] or v in leaving for v in results),
        added,
    )


def computed_again(schedule: Schedule, prices: Prices, sizes: Sequence[int]) -> set[int]:
    """The rows that only other loops read, and that cost no more to recompute in each of these than
    to store: ``jaxpr-remat`` will recompute them."""
    body = schedule.body
    of_byte = prices.program.target.costs.stored_byte_mapped
    costs: dict[int, float] = {}
    again: set[int] = set()
    for number, stage in enumerate(schedule.stages):
        outer = set(schedule.outer(number))
        for i in stage.rows:
            cost = prices.at(body, i)
            for v, is_inner in zip(body.operands[i], schedule.inner[i], strict=True):
                if is_inner and v not in outer:
                    cost += costs[v]
            for v in range(*body.results[i]):
                costs[v] = cost
                # A value with a name is stored because the user asked for it.
                if v not in outer or schedule.is_read_whole(v) or body.names[i] == "jaxpr.name":
                    continue
                readers = {schedule.stage[u] for u in body.users[v]} - {number}
                if len(readers) * cost <= of_byte * sizes[v]:
                    again.add(v)
    return again


def tiles_of(rows: int, bytes_: int, tile_bytes: int) -> Tiles | None:
    """Tiles of about ``tile_bytes``, all of one size if possible; ``None``: one tile holds all.

    Args:
      bytes_: the bytes of all rows.
    """
    most = rows * tile_bytes // max(bytes_, 1)
    if most >= rows:
        return None
    most = max(most, 1)
    # As many rows as fit, or down to half of them so that none is left over.
    for count in range(-(-rows // most), min(2 * rows // most, rows) + 1):
        if rows % count == 0:
            return Tiles(rows, rows // count)
    return Tiles(rows, most)


# -- The choice of a batch, of the rows of a tile, and of stages --
#
# A region grows from each dimension of the largest values.  Stages that cost more than they gain
# are taken out of it, until there are none; their ops are computed on the entire batch.  The region
# that gains most in its remaining stages is chosen.


# Regions grow from the first value of each of the SEEDS largest types.
SEEDS = 3
# How often stages are taken out of a region and the others judged anew.
SWEEPS = 4


class TilePlan(NamedTuple):
    """Loops over a batch.

    Attributes:
      estimates: the estimates of the stages that have a loop, by number.
      costs: the costs of the target.
    """

    schedule: Schedule
    tiles: Tiles
    estimates: dict[int, StageEstimate]
    costs: Costs

    @property
    def saved(self) -> float:
        """Bytes saved at the peak: the maximum, because one stage reuses the memory of another."""
        return max(e.saved(self.tiles) for e in self.estimates.values())

    @property
    def gain(self) -> float:
        """Nanoseconds that the smaller memory saves."""
        return self.costs.mapped_byte * self.saved

    @property
    def cost(self) -> float:
        """Nanoseconds that the loops cost."""
        return sum(e.cost(self.tiles, self.costs) for e in self.estimates.values())

    @property
    def time(self) -> float:
        """Nanoseconds by which the plan is faster."""
        return self.gain - self.cost

    @property
    def ops(self) -> int:
        """The number of ops added: for each loop its own, and those for the rows left over."""
        rest = self.tiles.rest > 0
        return sum(OPS + rest * len(self.schedule.stages[n].rows) for n in self.estimates)

    @property
    def pays(self) -> bool:
        """Whether the plan is faster by a safe margin."""
        return self.tiles.count > 1 and self.gain > MARGIN * self.cost

    def only(self, number: int) -> TilePlan:
        """The plan with one of the stages."""
        return self._replace(estimates={number: self.estimates[number]})


def best_plan(
    program: Module, body: FunctionView, tile_size: int | None, tile_bytes: int, min_peak: int
) -> TilePlan | None:
    """The plan for a function; ``None`` if there is nothing to gain, or if fewer than ``min_peak``
    bytes are stored at once.

    Args:
      tile_size: rows of a tile; if given, the plan is chosen that saves most memory.  By default
        the plan is chosen that saves most time, with tiles of about ``tile_bytes``.
    """
    signatures = set(body.signatures)
    # Stages change the order of ops.
    counted = CountedOps(program)
    if any(s.is_lasting or counted.keeps_order(s) for s in signatures):
        return None
    profile = MemoryProfile(body)
    if profile.peak < min_peak:
        return None
    search = _TileSearch(body, Prices(program), profile, tile_size, tile_bytes)
    if tile_size is None:
        return max(search.plans(), key=lambda plan: plan.time, default=None)
    return max(search.plans(), key=lambda plan: (plan.saved, -plan.cost), default=None)


class _TileSearch(NamedTuple):
    """The plans for a function."""

    body: FunctionView
    prices: Prices
    profile: MemoryProfile
    tile_size: int | None
    tile_bytes: int

    def plans(self) -> Iterator[TilePlan]:
        """One plan for each region that is worth it."""
        regions: list[Region] = []
        for value in self._seeds():
            for dim, rows in enumerate(aval_of(self.body.types[value]).shape):
                # A region is the same from whichever of its values it grows.
                if rows == 1 or any(dim_of(self.body, r, value) == dim for r in regions):
                    continue
                regions.append(grow(self.body, value, dim))
                plan = self._judged(regions[-1], rows)
                if plan is not None:
                    yield plan

    def _seeds(self) -> list[int]:
        body = self.body
        seeds: dict[ir.Type, int] = {}
        for v in range(body.arity, len(body.types)):
            if is_plain_array(body.types[v]):
                seeds.setdefault(body.types[v], v)
        return sorted(seeds.values(), key=lambda v: -self.profile.sizes[v])[:SEEDS]

    def _judged(self, region: Region, rows: int) -> TilePlan | None:
        """The plan with the stages of a region that are worth it; ``None`` if there are none."""
        for _ in range(SWEEPS):
            plan = self._plan(region, rows)
            if plan is None:
                return None
            poor = {n for n in plan.estimates if not self._is_worth(plan.only(n))}
            if not poor:
                return plan if self._is_worth(plan) else None
            stage = plan.schedule.stage
            region = {i: op for i, op in region.items() if stage[i] not in poor}
        return None

    def _plan(self, region: Region, rows: int) -> TilePlan | None:
        """The plan with all stages of a region; ``None`` if everything fits in a tile."""
        schedule = Schedule(self.body, region)
        again = computed_again(schedule, self.prices, self.profile.sizes)
        estimates = {
            number: estimate(schedule, number, self.profile, again)
            for number, stage in enumerate(schedule.stages)
            if stage.rows
        }
        if not estimates:
            return None
        tiles = self._tiles(rows, max(e.peak for e in estimates.values()))
        costs = self.prices.program.target.costs
        return None if tiles is None else TilePlan(schedule, tiles, estimates, costs)

    def _tiles(self, rows: int, bytes_: int) -> Tiles | None:
        if self.tile_size is None:
            return tiles_of(rows, bytes_, self.tile_bytes)
        return Tiles(rows, self.tile_size) if self.tile_size < rows else None

    def _is_worth(self, plan: TilePlan) -> bool:
        return plan.pays if self.tile_size is None else plan.saved > 0


class Tile(Pass):
    """Compute independent rows of a batch a few at a time.

    Options:
      tile-size: rows of a tile.  By default as many as fit in ``tile-bytes``, where that pays;
        on targets other than CPUs nothing is tiled by default.
      tile-bytes: bytes of all values of a tile.
      min-peak: programs that need fewer bytes at once are left alone; by default those that fit in
        a block that the C library keeps.
      calls: the assumed number of calls of the program: unless ``tile-size`` is given, loops have
        to save, in these, the time to compile them.
    """

    name: ClassVar[str] = "jaxpr-tile"
    # Rows on different devices would be gathered, and each device would compute all of them.
    partitioned: ClassVar = False
    tile_size: int | None = None
    tile_bytes: Count = TILE_BYTES
    min_peak: Count | None = None
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        if self.tile_size is not None and self.tile_size < 1:
            raise PipelineError(
                f"option 'tile-size' of pass '{self.name}' expects a positive number of rows, got "
                f"{self.tile_size}"
            )
        if self.tile_size is None and not program.target.is_cpu:
            return False
        return tile(program, self.tile_size, self.tile_bytes, self.min_peak, self.calls)


def tile(
    program: Module,
    tile_size: int | None = None,
    tile_bytes: int = TILE_BYTES,
    min_peak: int | None = None,
    calls: float = inf,
) -> bool:
    """Writes loops over tiles of rows, in place; returns whether it wrote any.

    Args:
      tile_size: rows of a tile; by default chosen, where tiles pay.
      calls: how often the program is called; loops have to save the time to compile them.
    """
    if min_peak is None:
        min_peak = program.target.costs.kept_block
    if total(program) < min_peak:
        return False
    graph = analyses_of(program).graph
    entries, kernels = graph.entry_points(), graph.kernels()
    compile_time, changed = CompileTime(program, calls), False
    for symbol in entries:
        if symbol not in kernels:
            function = program.function(symbol)
            body = analyses_of(program).inlined(function)
            plan = best_plan(program, body, tile_size, tile_bytes, min_peak)
            if plan is None:
                continue
            if tile_size is None and not compile_time.pays(symbol, plan.ops, plan.time):
                continue
            _write(program, function, plan)
            changed = True
    if changed:
        keep_reachable(program, entries)
    return changed


def _write(program: Module, function: func.FuncOp, plan: TilePlan) -> None:
    """Writes the loops of a plan into a function, whose calls are inlined if it has any."""
    symbol = function.name.value
    whole = inlined(program.functions, function)
    if whole is not function:
        plan.schedule.body = FunctionView(whole)
        function.operation.erase()
        program.functions[symbol] = whole
    if remarks_wanted():
        _explain(plan)
    TileWriter(Rules(program), whole, plan.schedule, plan.tiles).write()
    # Other functions may call this one.
    program.changed()


def _explain(plan: TilePlan) -> None:
    schedule, tiles = plan.schedule, plan.tiles
    for number, estimated in plan.estimates.items():
        ops = schedule.stages[number].rows
        time = plan.only(number).time / 1e6
        remark(
            schedule.body.ops[ops[0]],
            f"tiled {tiles.rows} rows, {tiles.size} at a time: the values of {len(ops)} ops take "
            f"{estimated.peak * tiles.size // tiles.rows:,} bytes instead of {estimated.peak:,}, "
            f"estimated {abs(time):,.2f} ms {'faster' if time > 0 else 'slower'}",
        )

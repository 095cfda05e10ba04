"""``jaxpr-tile``: batches of independent rows, some rows at a time.

Most of what a program computes of a batch it computes of each row by itself, and the derivative is
the same.  Run op by op, all intermediate values of all rows are there at once.  Here the ops that
are independent along the batch become the body of a scan over tiles of it::

    s = softmax(x @ w)                 for each tile x' of x, dy' of dy:
    dx = pullback(s, dy) @ w.T   ->        s' = softmax(x' @ w);  p' = pullback(s', dy')
    dw = x.T @ pullback(s, dy)             dx' = p' @ w.T;  dw += x'.T @ p'

so that what they need besides arguments and results is what a tile needs, which stays in cache.

Which ops are independent along which dimension is read off how their operands and results follow
their loops (:mod:`jaxmlir.analysis.index_maps`); a region of them grows from the largest values,
and is cut where the batch is reduced to something that its rows are then computed with.  What that
saves and costs, and how large a tile is, is estimated, and the loops are written
(:mod:`.regions`).  Between two loops over one batch, ``jaxpr-remat`` decides what is stored.

Nothing is computed twice, and each row by the same ops as before.  Sums over the batch are rounded
in another order, and products of matrices as the library rounds them for fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from math import inf
from typing import ClassVar, NamedTuple

from jaxmlir.analysis.call_graph import keep_reachable
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
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
from jaxmlir.rewriting.inline import inlined
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

# What tiles save and cost is estimated by the table of the target.  Whether that tells what pays
# was measured on two cores of an x86 server with the XLA of jax 0.10 and 0.12, on gradients of four
# programs in their arguments and weights, n rows each: softmaxes of 2048 logits, three times over;
# attention of 512 positions; tanh, sine and normalization of 2048 elements, four times over; a
# perceptron of widths 256, 1024, 1024, 256.
#
# A C library keeps a freed block of up to 32 MiB for the next call; a larger one is mapped anew,
# and each of its pages zeroed when it is first touched: that is what tiles save.  CPU time of tiles
# / of the entire batch, by the memory that the latter takes:
#                  7 to 14 MiB  20 to 28  40 to 56  80 to 112  160 to 320
#   softmaxes      1.07         1.06      0.70      0.76       0.65
#   attention      1.04         0.96      0.67      0.66       0.40
#   normalization               1.0       0.63      0.67       0.6
#   perceptron                  1.05      0.92                 0.8
#
# Each kernel of a tile is begun and awaited by all threads.  Attention of 135 kernels in four
# tiles, and the entire batch, of 34 MiB, ms on the wall: 10.5 and 16 where a call gets its memory
# anew; where the C library has kept it, which after larger programs it may, 10 and 8.

# Ops of a loop besides those of its body.
OPS = 10
# What a gain has to exceed the cost by: neither is known better.
MARGIN = 1.5
# What the values of a tile take together.  CPU time by that, 4096 rows or 64 sequences, jax 0.10:
#                  4 to 5 MiB  7 to 9  11 to 16  22 to 31  58
#   softmaxes      1.24        1.07    1         1.03      1.23
#   attention                  1       1.08      1.16      1.46
#   normalization  1.17                1.07      1
#   perceptron     1.25        1.03    1         1
TILE_BYTES = 16_777_216


class StageEstimate(NamedTuple):
    """What a stage takes, in bytes.

    Attributes:
      peak: of values of the entire batch that are stored at once, where a tile would do.
      rows: what is read and given by rows.
      shared: what each tile reads and writes as a whole.
      kernels: how many loops over memory a tile is.
      added: what is stored for other stages that was not stored before, only computed where it
        was read.
    """

    peak: int
    rows: int
    shared: int
    kernels: int
    added: int

    def saved(self, tiles: Tiles) -> float:
        """Bytes that are not stored at once, for only those of a tile are."""
        return self.peak * (1 - tiles.size / tiles.rows) - self.added

    def cost(self, tiles: Tiles, costs: Costs) -> float:
        """Nanoseconds that tiles take beyond the time that the batch takes."""
        count = tiles.count + (tiles.rest > 0)
        # What every tile reads or writes as a whole, the weights of its matrix products and their
        # gradients, is in a cache as the copies of rows are: of the perceptron 0.08 to 0.19 ns.
        copied = costs.stored_byte_cached
        per_tile = copied * self.shared + costs.fork * self.kernels
        return count * per_tile + copied * self.rows + costs.stored_byte_mapped * self.added


def estimate(
    schedule: Schedule, number: int, profile: MemoryProfile, again: Set[int]
) -> StageEstimate:
    """What a stage takes.

    Args:
      again: those that are computed again rather than stored for another stage.
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
    # Parts of sums are small beside what they are summed up from.
    results = [v for i in ops for v in range(*body.results[i])]
    leaving = outer | {v for v in results if schedule.dim(v) is None}
    # Rows that are computed again are there while they are read, from before the loop or after it.
    return StageEstimate(
        int(profile.needed(ops, {v for v in reads & again if stored[v]}, leaving - again).max()),
        sum(map(bytes_of, reads - again)) + sum(map(bytes_of, outer - again)),
        sum(map(bytes_of, shared)) + 2 * sum(map(bytes_of, sums)),
        sum(stored[v] or v in leaving for v in results),
        added,
    )


def computed_again(schedule: Schedule, prices: Prices, sizes: Sequence[int]) -> set[int]:
    """The rows that one loop gives to others alone, and that are no dearer to compute again in each
    than to store: ``jaxpr-remat`` will see to it."""
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
                # A value with a name is stored as its user asked for.
                if v not in outer or schedule.is_read_whole(v) or body.names[i] == "jaxpr.name":
                    continue
                readers = {schedule.stage[u] for u in body.users[v]} - {number}
                if len(readers) * cost <= of_byte * sizes[v]:
                    again.add(v)
    return again


def tiles_of(rows: int, bytes_: int, tile_bytes: int) -> Tiles | None:
    """Tiles of about so many bytes, all of one size if that may be.

    Args:
      bytes_: what all rows take.
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


# -- Which batch of a function is computed in tiles, of how many rows, and in which stages --
#
# Regions grow from each dimension of the largest values.  Of the stages of each, those that cost
# more than they gain are taken out, as long as there are any; their ops are computed on the entire
# batch. Of what is left, the region that gains most is taken.


# The values from which regions grow: of so many types the first one of each, the largest first.
SEEDS = 3
# How often stages are taken out of a region, for others to be judged anew.
SWEEPS = 4


class TilePlan(NamedTuple):
    """Loops over a batch.

    Attributes:
      estimates: of the stages that have a loop, by number.
      costs: of the target.
    """

    schedule: Schedule
    tiles: Tiles
    estimates: dict[int, StageEstimate]
    costs: Costs

    @property
    def saved(self) -> float:
        """Bytes that are not stored at once; one stage takes the memory that another has left."""
        return max(e.saved(self.tiles) for e in self.estimates.values())

    @property
    def gain(self) -> float:
        """Nanoseconds that it saves."""
        return self.costs.mapped_byte * self.saved

    @property
    def cost(self) -> float:
        """Nanoseconds that it takes."""
        return sum(e.cost(self.tiles, self.costs) for e in self.estimates.values())

    @property
    def time(self) -> float:
        """Nanoseconds less."""
        return self.gain - self.cost

    @property
    def ops(self) -> int:
        """How many ops there are more: of each loop, those of the rows that are left over."""
        rest = self.tiles.rest > 0
        return sum(OPS + rest * len(self.schedule.stages[n].rows) for n in self.estimates)

    @property
    def pays(self) -> bool:
        """Whether it is faster, and surely so."""
        return self.tiles.count > 1 and self.gain > MARGIN * self.cost

    def only(self, number: int) -> TilePlan:
        """With one of the stages."""
        return self._replace(estimates={number: self.estimates[number]})


def best_plan(
    program: Module, body: FunctionView, tile_size: int | None, tile_bytes: int, min_peak: int
) -> TilePlan | None:
    """The plan for a function; ``None`` if there is nothing to gain, or less than ``min_peak``
    bytes are stored at once.

    Args:
      tile_size: rows of a tile: what saves most memory is taken then.  By default what saves most
        time is, with tiles of about ``tile_bytes``.
    """
    if any(s.effects is not None or s.is_lasting for s in set(body.signatures)):
        # Stages change the order of ops.
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
        """One for each region that is worth one."""
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
            seeds.setdefault(body.types[v], v)
        return sorted(seeds.values(), key=lambda v: -self.profile.sizes[v])[:SEEDS]

    def _judged(self, region: Region, rows: int) -> TilePlan | None:
        """The stages of a region that are worth it."""
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
        """All stages of a region, unless everything fits in a tile."""
        if self.tile_size is None and self._stored(region) <= self.tile_bytes:
            return None
        schedule = Schedule(self.body, region)
        if self.tile_size is None and self._fits(schedule):
            return None
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

    def _stored(self, region: Region) -> int:
        """The bytes of all rows that are stored: no fewer than are there at once."""
        results, bytes_of = self.body.results, self.profile.sizes
        total = 0
        for i, op in region.items():
            for v, dim in zip(range(*results[i]), op.results, strict=True):
                if dim is not None and self.profile.stored[v]:
                    total += bytes_of[v]
        return total

    def _fits(self, schedule: Schedule) -> bool:
        """Whether the rows that are stored of each stage, or for it, fit in a tile: no fewer bytes
        than are there at once."""
        body, bytes_of = self.body, self.profile.sizes
        for stage in schedule.stages:
            places = [(*body.operands[i], *range(*body.results[i])) for i in stage.rows]
            values = {v for of_op in places for v in of_op if self.profile.stored[v]}
            if sum([bytes_of[v] for v in values if schedule.dim(v) is not None]) > self.tile_bytes:
                return False
        return True

    def _tiles(self, rows: int, bytes_: int) -> Tiles | None:
        if self.tile_size is None:
            return tiles_of(rows, bytes_, self.tile_bytes)
        return Tiles(rows, self.tile_size) if self.tile_size < rows else None

    def _is_worth(self, plan: TilePlan) -> bool:
        return plan.pays if self.tile_size is None else plan.saved > 0


class Tile(Pass):
    """Compute rows of a batch that are independent of each other some at a time.

    Options:
      tile-size: rows of a tile; by default as many as ``tile-bytes`` hold, where that pays; on
        other targets than CPUs none.
      tile-bytes: what the values of a tile take together.
      min-peak: programs that need fewer bytes at once are left alone; by default those that fit in
        a block that the C library keeps.
      calls: how often the program is taken to be called: loops whose size is not given have to save
        the time that they take to compile within so many calls.
    """

    name: ClassVar[str] = "jaxpr-tile"
    # Rows that are on different devices would be gathered, to be computed by all of them.
    partitioned: ClassVar = False
    tile_size: int | None = None
    tile_bytes: Count = TILE_BYTES
    min_peak: Count | None = None
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        if self.tile_size is not None and self.tile_size < 1:
            raise PipelineError(
                f"tile-size of {self.name} is a number of rows: a positive number, got "
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
    """Writes loops over tiles of rows in place; whether there are any.

    Args:
      tile_size: rows of a tile, by default chosen, where it pays.
      calls: how often the program is called, for loops that have to save the time to compile them.
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
    """Writes the loops of a plan for a function, with what is called in it inlined if need be."""
    symbol = function.name.value
    whole = inlined(program.functions, function)
    if whole is not function:
        plan.schedule.body = FunctionView(whole)
        function.operation.erase()
        program.functions[symbol] = whole
    if remarks_wanted():
        _explain(plan)
    TileWriter(Rules(program), whole, plan.schedule, plan.tiles).write()
    # Other functions may call it.
    program.changed()


def _explain(plan: TilePlan) -> None:
    schedule, tiles = plan.schedule, plan.tiles
    for number, estimated in plan.estimates.items():
        ops = schedule.stages[number].rows
        time = plan.only(number).time / 1e6
        remark(
            schedule.body.ops[ops[0]],
            f"{tiles.rows} rows, {tiles.size} at a time: {len(ops)} ops whose values take "
            f"{estimated.peak:,} bytes take {estimated.peak * tiles.size // tiles.rows:,}, by an "
            f"estimate {abs(time):,.2f} ms {'faster' if time > 0 else 'slower'}",
        )

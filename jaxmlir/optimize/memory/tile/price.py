"""What tiles of a batch save and cost, and how many rows a tile has.

By the table of the target.  Whether that tells what pays was measured on two cores of an x86 server
with the XLA of jax 0.10 and 0.12, on gradients of four programs in their arguments and weights,
``n`` rows each: softmaxes of 2048 logits, three times over; attention of 512 positions; tanh, sine
and normalization of 2048 elements, four times over; a perceptron of widths 256, 1024, 1024, 256.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jaxmlir.analysis.fusion import FUNCTIONS, FUSIBLE, SLOW
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.materialize_shared import MaterializeShared
from jaxmlir.optimize.memory.remat.price import Prices
from jaxmlir.optimize.memory.tile.regions import Region, Schedule, Tiles, Uses, grow

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.targets.costs import Costs


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


@dataclass(frozen=True)
class Estimate:
    """What a stage takes, in bytes.

    Attributes:
      peak: of values of the entire batch that are stored at once, where a tile would do.
      rows: what is read and given by rows.
      shared: what each tile reads and writes as a whole.
      kernels: how many loops over memory a tile is.
      added: what is stored for other stages that was not stored before, only computed where it
        was read.
      costs: of the target.
    """

    peak: int
    rows: int
    shared: int
    kernels: int
    added: int
    costs: Costs

    def saved(self, tiles: Tiles) -> float:
        """Bytes that are not stored at once, for only those of a tile are."""
        return self.peak * (1 - tiles.size / tiles.rows) - self.added

    def cost(self, tiles: Tiles) -> float:
        """Nanoseconds that tiles take beyond the time that the batch takes."""
        count = tiles.count + (tiles.rest > 0)
        # What every tile reads or writes as a whole, the weights of its matrix products and their
        # gradients, is in a cache as the copies of rows are: of the perceptron 0.08 to 0.19 ns.
        copied = self.costs.stored_byte_cached
        each = copied * self.shared + self.costs.fork * self.kernels
        return count * each + copied * self.rows + self.costs.stored_byte_mapped * self.added


def estimate(
    schedule: Schedule, number: int, stored: Stored, again: Set[int], costs: Costs
) -> Estimate:
    """What a stage takes.

    Args:
      again: those that are computed again rather than stored for another stage.
    """
    body, ops = schedule.uses.body, schedule.stages[number].rows
    outer = set(schedule.outer(number))
    reads: set[int] = set()
    shared: set[int] = set()
    for i in ops:
        dims = schedule.rows[i].operands
        for v, d, is_inner in zip(body.operands[i], dims, schedule.inner[i], strict=True):
            if is_inner:
                continue
            if d is not None:
                reads.add(v)
            elif body.names[i] not in FUSIBLE:
                shared.add(v)
    sums = schedule.sums(number)
    bytes_of = schedule.uses.bytes.__getitem__
    added = sum(map(bytes_of, outer - stored.values - again))
    # Parts of sums are small beside what they are summed up from.
    results = [v for i in ops for v in range(*body.results[i])]
    leaving = outer | {v for v in results if schedule.dim(v) is None}
    # Rows that are computed again are there while they are read, from before the loop or after it.
    return Estimate(
        stored.peak(ops, given=reads & again & stored.values, without=leaving - again),
        sum(map(bytes_of, reads - again)) + sum(map(bytes_of, outer - again)),
        sum(map(bytes_of, shared)) + 2 * sum(map(bytes_of, sums)),
        sum(v in stored.values or v in leaving for v in results),
        added,
        costs,
    )


def computed_again(schedule: Schedule, prices: Prices) -> set[int]:
    """The rows that one loop gives to others alone, and that are no dearer to compute again in each
    than to store: ``jaxpr-remat`` will see to it."""
    body, uses = schedule.uses.body, schedule.uses
    of_byte = prices.program.target.costs.stored_byte_mapped
    costs: dict[int, float] = {}
    of_ops: dict[Signature, float] = {}
    found: set[int] = set()
    for number, stage in enumerate(schedule.stages):
        outer = set(schedule.outer(number))
        for i in stage.rows:
            signature = body.signatures[i]
            if signature not in of_ops:
                of_ops[signature] = prices.computing(body.ops[i], signature)
            cost = of_ops[signature]
            for v, is_inner in zip(body.operands[i], schedule.inner[i], strict=True):
                if is_inner and v not in outer:
                    cost += costs[v]
            for v in range(*body.results[i]):
                costs[v] = cost
                # A value with a name is stored as its user asked for.
                if v not in outer or schedule.is_read_whole(v) or body.names[i] == "jaxpr.name":
                    continue
                readers = {schedule.stage[u] for u in uses.users[v]} - {number}
                if len(readers) * cost <= of_byte * uses.bytes[v]:
                    found.add(v)
    return found


class Stored:
    """What the compiler has in memory of a function, not only in kernels as a part of them.

    Attributes:
      values: those that it does not compute elementwise, or that are dear and used twice.
      end: of each value the op that reads it last, by index, or reads last what is computed where
        it is read, of that value.
    """

    def __init__(self, uses: Uses):
        self._uses, body = uses, uses.body
        self.values = set(range(body.arity))
        # Of an element, in ops, if all that is not stored is computed with it.
        ops_of = [0] * len(body.types)
        storing = {i for i, name in enumerate(body.names) if name in _STORING}
        for i, name in enumerate(body.names):
            results = range(*body.results[i])
            if name not in FUSIBLE:
                self.values.update(results)
                continue
            cost = sum([ops_of[v] for v in body.operands[i]]) + SLOW.get(name, 1)
            is_dear = name in FUNCTIONS or cost > MaterializeShared.threshold
            for v in results:
                users = uses.users[v]
                read = not storing.isdisjoint(users)
                if v in uses.is_returned or read or (len(users) > 1 and is_dear):
                    self.values.add(v)
                else:
                    ops_of[v] = cost
        self.end = end = [0] * len(body.types)
        for i in reversed(range(len(body.ops))):
            last = i
            for v in range(*body.results[i]):
                if end[v] > last and v not in self.values:
                    last = end[v]
            for v in body.operands[i]:
                if end[v] < last:
                    end[v] = last

    def peak(self, ops: Iterable[int], *, given: Set[int] = frozenset(), without: Set[int]) -> int:
        """Bytes of the values that some ops, in order, have stored at once.

        What is computed elementwise may take the place of what is read for the last time.

        Args:
          given: what is there before them, and counts too.
          without: what of their results does not count.
        """
        names, results, bytes_of = self._uses.body.names, self._uses.body.results, self._uses.bytes
        ending: defaultdict[int, list[int]] = defaultdict(list)
        for v in given:
            ending[self.end[v]].append(bytes_of[v])
        ends = sorted(ending)
        live = most = sum(map(bytes_of.__getitem__, given))
        for i in ops:
            while ends and ends[0] < i:
                live -= sum(ending.pop(heapq.heappop(ends)))
            for v in range(*results[i]):
                if v in self.values and v not in without:
                    if names[i] in ELEMENTWISE and bytes_of[v] in ending.get(i, ()):
                        ending[i].remove(bytes_of[v])
                    else:
                        live += bytes_of[v]
                    end = max(i, self.end[v])
                    if end not in ending:
                        heapq.heappush(ends, end)
                    ending[end].append(bytes_of[v])
            most = max(most, live)
        return most


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


# They read their operands from memory.
_STORING = with_trait(Trait.CONTRACTION) | {
    f"jaxpr.{name}" for name in ("cholesky", "lu", "sort", "triangular_solve")
}


# -- Which batch of a function is computed in tiles, of how many rows, and in which stages --
#
# Regions grow from each dimension of the largest values.  Of the stages of each, those that cost
# more than they gain are taken out, as long as there are any; their ops are computed on the entire
# batch. Of what is left, the region that gains most is taken.


# The values from which regions grow: of so many types the first one of each, the largest first.
SEEDS = 3
# How often stages are taken out of a region, for others to be judged anew.
SWEEPS = 4


@dataclass(frozen=True)
class Plan:
    """Loops over a batch.

    Attributes:
      estimates: of the stages that have a loop, by number.
    """

    schedule: Schedule
    tiles: Tiles
    estimates: dict[int, Estimate]

    @property
    def saved(self) -> float:
        """Bytes that are not stored at once; one stage takes the memory that another has left."""
        return max(e.saved(self.tiles) for e in self.estimates.values())

    @property
    def gain(self) -> float:
        """Nanoseconds that it saves."""
        costs = next(iter(self.estimates.values())).costs
        return costs.mapped_byte * self.saved

    @property
    def cost(self) -> float:
        """Nanoseconds that it takes."""
        return sum(e.cost(self.tiles) for e in self.estimates.values())

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

    def only(self, number: int) -> Plan:
        """With one of the stages."""
        return replace(self, estimates={number: self.estimates[number]})


def best_plan(
    program: Module, uses: Uses, tile_size: int | None, tile_bytes: int, min_peak: int
) -> Plan | None:
    """The plan for a function; ``None`` if there is nothing to gain, or less than ``min_peak``
    bytes are stored at once.

    Args:
      tile_size: rows of a tile: what saves most memory is taken then.  By default what saves most
        time is, with tiles of about ``tile_bytes``.
    """
    if any(s.effects is not None or s.is_lasting for s in set(uses.body.signatures)):
        # Stages change the order of ops.
        return None
    stored = Stored(uses)
    if stored.peak(range(len(uses.body.ops)), without=uses.is_returned) < min_peak:
        return None
    search = _Search(uses, Prices(program), stored, tile_size, tile_bytes)
    if tile_size is None:
        return max(search.plans(), key=lambda plan: plan.time, default=None)
    return max(search.plans(), key=lambda plan: (plan.saved, -plan.cost), default=None)


@dataclass(frozen=True)
class _Search:
    """The plans for a function."""

    uses: Uses
    prices: Prices
    stored: Stored
    tile_size: int | None
    tile_bytes: int

    def plans(self) -> Iterator[Plan]:
        """One for each region that is worth one."""
        regions: list[Region] = []
        for value in self._seeds():
            for dim, rows in enumerate(aval_of(self.uses.body.types[value]).shape):
                # A region is the same from whichever of its values it grows.
                if rows == 1 or any(self.uses.dim(r, value) == dim for r in regions):
                    continue
                regions.append(grow(self.uses, value, dim))
                plan = self._judged(regions[-1], rows)
                if plan is not None:
                    yield plan

    def _seeds(self) -> list[int]:
        body = self.uses.body
        found: dict[ir.Type, int] = {}
        for v in range(body.arity, len(body.types)):
            found.setdefault(body.types[v], v)
        return sorted(found.values(), key=lambda v: -self.uses.bytes[v])[:SEEDS]

    def _judged(self, region: Region, rows: int) -> Plan | None:
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

    def _plan(self, region: Region, rows: int) -> Plan | None:
        """All stages of a region, unless everything fits in a tile."""
        if self.tile_size is None and self._stored(region) <= self.tile_bytes:
            return None
        schedule = Schedule(self.uses, region)
        if self.tile_size is None and self._fits(schedule):
            return None
        again = computed_again(schedule, self.prices)
        costs = self.prices.program.target.costs
        estimates = {
            number: estimate(schedule, number, self.stored, again, costs)
            for number, stage in enumerate(schedule.stages)
            if stage.rows
        }
        if not estimates:
            return None
        tiles = self._tiles(rows, max(e.peak for e in estimates.values()))
        return None if tiles is None else Plan(schedule, tiles, estimates)

    def _stored(self, region: Region) -> int:
        """The bytes of all rows that are stored: no fewer than are there at once."""
        results, bytes_of, stored = self.uses.body.results, self.uses.bytes, self.stored.values
        total = 0
        for i, op in region.items():
            for v, dim in zip(range(*results[i]), op.results, strict=True):
                if dim is not None and v in stored:
                    total += bytes_of[v]
        return total

    def _fits(self, schedule: Schedule) -> bool:
        """Whether the rows that are stored of each stage, or for it, fit in a tile: no fewer bytes
        than are there at once."""
        places, bytes_of = self.uses.places, self.uses.bytes
        for stage in schedule.stages:
            values = set(itertools.chain.from_iterable([places[i] for i in stage.rows]))
            values &= self.stored.values
            if sum([bytes_of[v] for v in values if schedule.dim(v) is not None]) > self.tile_bytes:
                return False
        return True

    def _tiles(self, rows: int, bytes_: int) -> Tiles | None:
        if self.tile_size is None:
            return tiles_of(rows, bytes_, self.tile_bytes)
        return Tiles(rows, self.tile_size) if self.tile_size < rows else None

    def _is_worth(self, plan: Plan) -> bool:
        return plan.pays if self.tile_size is None else plan.saved > 0

"""Which batch of a function is computed in tiles, of how many rows, and in which stages.

Regions grow from each dimension of the largest values.  Of the stages of each, those that cost more
than they gain are taken out, as long as there are any; their ops are computed on the entire batch.
Of what is left, the region that gains most is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.memory.remat.price import Prices
from jaxmlir.optimize.memory.tile.price import (
    MARGIN,
    MEMORY,
    Estimate,
    Stored,
    computed_again,
    estimate,
    tiles_of,
)
from jaxmlir.optimize.memory.tile.regions import Region, Schedule, TileView, grow
from jaxmlir.optimize.memory.tile.write import Tiles

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

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
        return MEMORY * self.saved

    @property
    def cost(self) -> float:
        """Nanoseconds that it takes."""
        return sum(e.cost(self.tiles) for e in self.estimates.values())

    @property
    def time(self) -> float:
        """Nanoseconds less."""
        return self.gain - self.cost

    @property
    def pays(self) -> bool:
        """Whether it is faster, and surely so."""
        return self.tiles.count > 1 and self.gain > MARGIN * self.cost

    def only(self, number: int) -> Plan:
        """With one of the stages."""
        return replace(self, estimates={number: self.estimates[number]})


def best_plan(
    program: Module, view: TileView, tile_size: int | None, tile_bytes: int, min_peak: int
) -> Plan | None:
    """The plan for a function; ``None`` if there is nothing to gain, or less than ``min_peak``
    bytes are stored at once.

    Args:
      tile_size: rows of a tile: what saves most memory is taken then.  By default what saves most
        time is, with tiles of about ``tile_bytes``.
    """
    if any(s.effects is not None or s.is_lasting for s in set(view.body.signatures)):
        # Stages change the order of ops.
        return None
    stored = Stored(view)
    if stored.peak(range(len(view.body.ops)), without=view.body.outputs) < min_peak:
        return None
    search = _Search(view, Prices(program), stored, tile_size, tile_bytes)
    if tile_size is None:
        return max(search.plans(), key=lambda plan: plan.time, default=None)
    return max(search.plans(), key=lambda plan: (plan.saved, -plan.cost), default=None)


@dataclass(frozen=True)
class _Search:
    """The plans for a function."""

    view: TileView
    prices: Prices
    stored: Stored
    tile_size: int | None
    tile_bytes: int

    def plans(self) -> Iterator[Plan]:
        """One for each region that is worth one."""
        regions: list[Region] = []
        for value in self._seeds():
            for dim, rows in enumerate(aval_of(self.view.body.types[value]).shape):
                # A region is the same from whichever of its values it grows.
                if rows == 1 or any(self.view.dim(r, value) == dim for r in regions):
                    continue
                regions.append(grow(self.view, value, dim))
                plan = self._judged(regions[-1], rows)
                if plan is not None:
                    yield plan

    def _seeds(self) -> list[int]:
        body = self.view.body
        found: dict[ir.Type, int] = {}
        for v in range(body.arity, len(body.types)):
            found.setdefault(body.types[v], v)
        return sorted(found.values(), key=lambda v: -self.view.bytes[v])[:SEEDS]

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
        schedule = Schedule(self.view, region)
        if self.tile_size is None and self._fits(schedule):
            return None
        again = computed_again(schedule, self.prices)
        estimates = {
            number: estimate(schedule, number, self.stored, again)
            for number, stage in enumerate(schedule.stages)
            if stage.rows
        }
        if not estimates:
            return None
        tiles = self._tiles(rows, max(e.peak for e in estimates.values()))
        return None if tiles is None else Plan(schedule, tiles, estimates)

    def _stored(self, region: Region) -> int:
        """The bytes of all rows that are stored: no fewer than are there at once."""
        results, bytes_of, stored = self.view.body.results, self.view.bytes, self.stored.values
        total = 0
        for i, op in region.items():
            for v, dim in zip(range(*results[i]), op.results, strict=True):
                if dim is not None and v in stored:
                    total += bytes_of[v]
        return total

    def _fits(self, schedule: Schedule) -> bool:
        """Whether the rows that are stored of each stage, or for it, fit in a tile: no fewer bytes
        than are there at once."""
        places, bytes_of = self.view.places, self.view.bytes
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

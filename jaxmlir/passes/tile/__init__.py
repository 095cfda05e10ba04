"""``jaxpr-tile``: batches of independent rows, some rows at a time.

Most of what a program computes of a batch it computes of each row by itself, and the derivative is
the same.  Run op by op, all intermediate values of all rows are there at once.  Here the ops that
are independent along the batch become the body of a scan over tiles of it::

    s = softmax(x @ w)                 for each tile x' of x, dy' of dy:
    dx = pullback(s, dy) @ w.T   ->        s' = softmax(x' @ w);  p' = pullback(s', dy')
    dw = x.T @ pullback(s, dy)             dx' = p' @ w.T;  dw += x'.T @ p'

so that what they need besides arguments and results is what a tile needs, which stays in cache.

Which ops are independent along which dimension is read off how their operands and results follow
their loops (:mod:`._maps`); a region of them grows from the largest values, and is cut where the
batch is reduced to something that its rows are then computed with (:mod:`._regions`).  What that
saves and costs, and how large a tile is, is estimated (:mod:`._price`), and the loops are written
(:mod:`._write`).  Between two loops over one batch, ``jaxpr-remat`` decides what is stored.

Nothing is computed twice, and each row by the same ops as before.  Sums over the batch are rounded
in another order, and products of matrices as the library rounds them for fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.errors import PipelineError
from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._body import Body
from jaxmlir.passes._build import named_ops
from jaxmlir.passes._call_graph import CallGraph, keep_reachable
from jaxmlir.passes._remarks import remark, remarks_wanted
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import size
from jaxmlir.passes.inline import inlined
from jaxmlir.passes.remat._peak import peak
from jaxmlir.passes.tile._price import (
    MIN_PEAK,
    TILE_BYTES,
    Estimate,
    estimate,
    stored_values,
    tiles_of,
)
from jaxmlir.passes.tile._regions import RowOp, Schedule, Uses, grow
from jaxmlir.passes.tile._write import Tiles, Writer
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

# The values from which regions are grown: of so many types the first one of each, in order of size.
SEEDS = 3
# How often stages that do not pay are taken out of a region, for others to be judged anew.
SWEEPS = 4


@dataclass(frozen=True)
class Tile(Pass):
    """Compute rows of a batch that are independent of each other some at a time.

    Options:
      tile-size: rows of a tile; by default as many as ``tile-bytes`` hold, where that pays.
      tile-bytes: what the values of a tile take together.
      min-peak: programs that need fewer bytes at once are left alone.
      platform: what the program will be compiled for; by default JAX's default backend. On others
        than the CPU, only what a ``tile-size`` asks for is done.
    """

    name: ClassVar[str] = "jaxpr-tile"
    tile_size: int | None = None
    tile_bytes: int = TILE_BYTES
    min_peak: int = MIN_PEAK
    platform: str = ""

    def run(self, program: Program) -> None:
        import jax

        if self.tile_size is not None and self.tile_size < 1:
            raise PipelineError(
                f"tile-size of {self.name} is a number of rows: a positive number, got "
                f"{self.tile_size}"
            )
        platform = self.platform or jax.default_backend()
        if platform == "cpu" or self.tile_size is not None:
            tile(program, self.tile_size, self.tile_bytes, self.min_peak)


def tile(
    program: Program,
    tile_size: int | None = None,
    tile_bytes: int = TILE_BYTES,
    min_peak: int = MIN_PEAK,
) -> int:
    """Writes loops over tiles of rows in place; how many.

    Args:
      tile_size: rows of a tile, by default chosen, where it pays.
    """
    with scope():
        if _total(program) < min_peak or peak(program) < min_peak:
            return 0
        graph = CallGraph(program.functions)
        entries, kernels = graph.entry_points(), graph.kernels()
        count = 0
        for symbol in entries:
            if symbol not in kernels:
                count += _Function(program, symbol, tile_size, tile_bytes).tile()
        if count:
            keep_reachable(program, entries)
    program.changed()
    return count


def _total(program: Program) -> int:
    """The bytes of all values that the ops of a program give: no fewer than are there at once."""
    return sum(
        size(result.type)
        for function in program.functions.values()
        for op, _ in named_ops(function)
        for result in op.results
    )


@dataclass(frozen=True)
class _Plan:
    """Loops over a batch.

    Attributes:
      estimates: of the stages that have one.
    """

    schedule: Schedule
    tiles: Tiles
    estimates: dict[int, Estimate]

    @property
    def gain(self) -> float:
        """Nanoseconds."""
        return sum(e.gain() - e.cost(self.tiles.count) for e in self.estimates.values())

    @property
    def saved(self) -> int:
        """Bytes."""
        return sum(e.peak for e in self.estimates.values())


@dataclass(frozen=True)
class _Function:
    """A function that is called once, with what is called in it."""

    program: Program
    symbol: str
    tile_size: int | None
    tile_bytes: int

    def tile(self) -> int:
        """Rewrites the function; how many loops it got."""
        function = self.program.function(self.symbol)
        whole = inlined(self.program.functions, function)
        plan = self._plan(Uses(Body(whole)))
        if plan is None:
            if whole is not function:
                whole.operation.erase()
            return 0
        self._explain(plan)
        if whole is not function:
            function.operation.erase()
            self.program.functions[self.symbol] = whole
        Writer(Rules(self.program), whole, plan.schedule, plan.tiles).write()
        return len(plan.estimates)

    def _plan(self, uses: Uses) -> _Plan | None:
        """The region, of those that grow from large values, that gains most."""
        if any(s.effects is not None for s in uses.body.signatures):
            # Stages change the order of ops.
            return None
        stored = stored_values(uses)
        plans: list[_Plan] = []
        tried: list[dict[int, RowOp]] = []
        for value in _seeds(uses.body):
            for dim, rows in enumerate(aval_of(uses.body.types[value]).shape):
                # A region is the same from whichever of its values it grows.
                if rows == 1 or any(uses.dim(region, value) == dim for region in tried):
                    continue
                tried.append(grow(uses, value, dim))
                plan = self._judged(uses, tried[-1], rows, stored)
                plans += [] if plan is None else [plan]
        if self.tile_size is None:
            return max(plans, key=lambda p: p.gain, default=None)
        return max(plans, key=lambda p: p.saved, default=None)

    def _judged(
        self, uses: Uses, region: dict[int, RowOp], rows: int, stored: set[int]
    ) -> _Plan | None:
        """The stages of a region that pay."""
        for _ in range(SWEEPS):
            if not self._may_pay(uses, region, stored):
                return None
            schedule = Schedule(uses, region)
            estimates = {
                number: estimate(schedule, number, stored)
                for number, stage in enumerate(schedule.stages)
                if stage.rows
            }
            if not estimates:
                return None
            tiles = self._tiles(rows, max(e.peak for e in estimates.values()))
            if tiles is None:
                return None
            poor = {n for n, e in estimates.items() if not self._is_worth(e, tiles)}
            if not poor:
                return _Plan(schedule, tiles, estimates)
            region = {i: op for i, op in region.items() if schedule.stage[i] not in poor}
        return None

    def _may_pay(self, uses: Uses, region: dict[int, RowOp], stored: set[int]) -> bool:
        """Whether the rows of a region, were all there at once, are more than a tile holds."""
        if self.tile_size is not None:
            return True
        rows = (v for i in region for v in range(*uses.body.results[i]) if v in stored)
        found = sum(size(uses.body.types[v]) for v in rows if uses.dim(region, v) is not None)
        return found > self.tile_bytes

    def _tiles(self, rows: int, bytes_: int) -> Tiles | None:
        if self.tile_size is None:
            return tiles_of(rows, bytes_, self.tile_bytes)
        return Tiles(rows, self.tile_size) if self.tile_size < rows else None

    def _is_worth(self, found: Estimate, tiles: Tiles) -> bool:
        if self.tile_size is not None:
            return found.peak > 0
        return found.pays(tiles.count)

    def _explain(self, plan: _Plan) -> None:
        if not remarks_wanted():
            return
        schedule, tiles = plan.schedule, plan.tiles
        for number, found in plan.estimates.items():
            ops = schedule.stages[number].rows
            time = (found.gain() - found.cost(tiles.count)) / 1e6
            remark(
                schedule.uses.body.ops[ops[0]],
                f"{tiles.rows} rows, {tiles.size} at a time: {len(ops)} ops whose values take "
                f"{found.peak:,} bytes take {found.peak * tiles.size // tiles.rows:,}, by an "
                f"estimate {abs(time):,.2f} ms {'faster' if time > 0 else 'slower'}",
            )


def _seeds(body: Body) -> list[int]:
    """The values from which regions are grown."""
    found: dict[ir.Type, int] = {}
    for v, type_ in enumerate(body.types):
        if v >= body.arity:
            found.setdefault(type_, v)
    return sorted(found.values(), key=lambda v: -size(body.types[v]))[:SEEDS]

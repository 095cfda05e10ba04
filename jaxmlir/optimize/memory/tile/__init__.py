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
saves and costs, and how large a tile is, is estimated (:mod:`.price`), and the loops are written
(:mod:`.regions`).  Between two loops over one batch, ``jaxpr-remat`` decides what is stored.

Nothing is computed twice, and each row by the same ops as before.  Sums over the batch are rounded
in another order, and products of matrices as the library rounds them for fewer rows.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.call_graph import keep_reachable
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import func, scope
from jaxmlir.errors import PipelineError
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.profile import total
from jaxmlir.optimize.memory.tile.price import TILE_BYTES, Plan, best_plan
from jaxmlir.optimize.memory.tile.regions import Writer
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.inline import inlined
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


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
        wanted = program.target.is_cpu or self.tile_size is not None
        if not wanted:
            return False
        return tile(program, self.tile_size, self.tile_bytes, self.min_peak, self.calls) > 0


def tile(
    program: Module,
    tile_size: int | None = None,
    tile_bytes: int = TILE_BYTES,
    min_peak: int | None = None,
    calls: float = inf,
) -> int:
    """Writes loops over tiles of rows in place; how many.

    Args:
      tile_size: rows of a tile, by default chosen, where it pays.
      calls: how often the program is called, for loops that have to save the time to compile them.
    """
    if min_peak is None:
        min_peak = program.target.costs.kept_block
    with scope():
        graph = analyses_of(program).graph
        if total(program) < min_peak:
            return 0
        entries, kernels = graph.entry_points(), graph.kernels()
        compile_time, count = CompileTime(program, calls), 0
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
                count += len(plan.estimates)
        if count:
            keep_reachable(program, entries)
    return count


def _write(program: Module, function: func.FuncOp, plan: Plan) -> None:
    """Writes the loops of a plan for a function, with what is called in it inlined if need be."""
    symbol = function.name.value
    whole = inlined(program.functions, function)
    if whole is not function:
        plan.schedule.body = FunctionView(whole)
        function.operation.erase()
        program.functions[symbol] = whole
    if remarks_wanted():
        _explain(plan)
    Writer(Rules(program), whole, plan.schedule, plan.tiles).write()
    # Other functions may call it.
    program.changed()


def _explain(plan: Plan) -> None:
    schedule, tiles = plan.schedule, plan.tiles
    for number, found in plan.estimates.items():
        ops = schedule.stages[number].rows
        time = plan.only(number).time / 1e6
        remark(
            schedule.body.ops[ops[0]],
            f"{tiles.rows} rows, {tiles.size} at a time: {len(ops)} ops whose values take "
            f"{found.peak:,} bytes take {found.peak * tiles.size // tiles.rows:,}, by an "
            f"estimate {abs(time):,.2f} ms {'faster' if time > 0 else 'slower'}",
        )

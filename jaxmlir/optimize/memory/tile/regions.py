"""Regions of a function whose ops are independent of each other along one dimension.

A region grows from one value and one of its dimensions, the *batch*.  An op that computes or reads
a value of the region follows the batch along one of its loops
(:mod:`jaxmlir.analysis.index_maps`).  Those dimensions of its other operands and results that
follow the same loop are batch dimensions, too.  Every row reads the other operands whole.  Ops that
reduce over the batch end the region.

A value that is read whole must be complete before the first row is computed.  So a value that is
computed from the rows and read whole, such as a mean over the batch, cuts the region in two: one
loop over rows before it and one after it.  The *stage* of an op is the number of such cuts on the
way to it::

    s = exp(x)            rows of loop 0
    m = sum(s) / n        the sum is complete after loop 0; the quotient is computed at stage 1
    y = sum(s / m)        rows of loop 1, from rows of s that loop 0 stored

A linear op that reads only sums over the batch is applied to the parts of these sums in the loop,
and its result is summed up: a weight that is used twice has one gradient to sum up, not two.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.arithmetic import identity
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.index_maps import IndexingMaps, maps_of
from jaxmlir.dialect.builder import build, clone, converted, erase, filled, is_constant, reshaped
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of, type_of, with_shape
from jaxmlir.support.lazy import memoized
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


class RowOp:
    """An op of a region.

    Attributes:
      maps: how its operands and results follow its loops.
      loop: the loop over the batch, or ``None`` for an op that is linear in sums over the batch.
      operands: for each operand, its batch dimension; ``None`` if it is read whole.
      results: likewise for results; ``None`` for those of a reduction over the batch.
      is_reduction: whether the results are parts that are combined over the batch.
      combine: the primitive that combines these parts.
    """

    def __init__(self, maps: IndexingMaps, loop: int | None):
        self.maps: IndexingMaps = maps
        self.loop: int | None = loop
        operands, results = (
            tuple(dims.index(loop) if loop is not None and loop in dims else None for dims in group)
            for group in (maps.operands, maps.results)
        )
        self.operands: tuple[int | None, ...] = operands
        self.results: tuple[int | None, ...] = results
        self.is_of_parts: bool = loop is None
        self.is_reduction: bool = self.is_of_parts or loop in maps.reduced
        self.combine: str | None = "add" if self.is_of_parts else maps.combine

    @staticmethod
    @functools.lru_cache(maxsize=1 << 14)
    def of(signature: Signature, loop: int | None) -> RowOp:
        """The row op, shared by all ops of a signature that follow the batch along a loop."""
        return RowOp(maps_of(signature), loop)


Region = dict[int, RowOp]
"""The ops of a region, by index."""


def dim_of(body: FunctionView, rows: Region, value: int) -> int | None:
    """The batch dimension of a value that a region computes by rows; else ``None``."""
    maker = body.makers[value]
    if maker is None or maker not in rows:
        return None
    return rows[maker].results[value - body.results[maker][0]]


def grow(body: FunctionView, value: int, dim: int) -> Region:
    """The ops that follow dimension ``dim`` of a value, by index."""
    dims = {value: dim}
    region: Region = {}
    pending = [value]
    while pending:
        v = pending.pop()
        maker = body.makers[v]
        for i in body.users[v] if maker is None else (maker, *body.users[v]):
            if i in region:
                continue
            places = (*body.operands[i], *range(*body.results[i]))
            op = _join(body.signatures[i], tuple([dims.get(place) for place in places]))
            if op is None:
                continue
            region[i] = op
            for place, d in zip(places, (*op.operands, *op.results), strict=True):
                if d is not None and place not in dims:
                    dims[place] = d
                    pending.append(place)
    return region


@functools.lru_cache(maxsize=1 << 14)
def _join(signature: Signature, dims: tuple[int | None, ...]) -> RowOp | None:
    """The row op of an op some of whose values follow the batch; ``None``: it can't be one.

    Args:
      dims: for each operand and each result, its batch dimension, as far as known.
    """
    maps = maps_of(signature)
    if maps is None:
        return None
    count = len(signature.operands)
    of_operands, of_results = (
        [loops[d] for loops, d in zip(group, group_dims, strict=True) if d is not None]
        for group, group_dims in ((maps.operands, dims[:count]), (maps.results, dims[count:]))
    )
    loop = next((loop for loop in (*of_results, *of_operands) if loop is not None), None)
    if loop is None or any(other != loop for other in of_results):
        return None
    op = RowOp.of(signature, loop)
    if op.is_reduction:
        # An operand whose batch dimension is another one is read whole.
        return op if maps.combine and None not in op.operands else None
    return None if None in op.results else op


@dataclass(eq=False)
class Stage:
    """The ops between two cuts: first those on whole values, then those of a loop over rows."""

    whole: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


class _ReadModes(NamedTuple):
    """How values are read.

    Attributes:
      inner: :attr:`Schedule.inner`.
      outside: the values that are returned, or read outside the loop that computes them.
      whole: the values that are returned, or read otherwise than by rows.
    """

    inner: dict[int, list[bool]]
    outside: set[int]
    whole: set[int]


class Schedule:
    """The ops of a function in stages.

    Attributes:
      rows: the ops that are computed in loops, by index.
      stages: in order; the ops of each in the order of the function.
      stage: for each row op, the number of its stage.
    """

    def __init__(self, body: FunctionView, rows: Region):
        self.body: FunctionView = body
        self.rows: dict[int, RowOp] = dict(rows)
        self.stage: dict[int, int] = {}
        self._dims: list[int | None] = [None] * len(body.types)
        for i, op in rows.items():
            first, last = body.results[i]
            self._dims[first:last] = op.results
        self._place()
        self._sink()
        self.stages: list[Stage] = self._staged()

    @property
    def inner(self) -> dict[int, list[bool]]:
        """For each operand of each row op, whether the op's own loop computes it: rows, or parts
        of sums."""
        return self._reads.inner

    def dim(self, value: int) -> int | None:
        """The batch dimension of a value that is computed by rows; else ``None``."""
        return self._dims[value]

    def outer(self, stage: int) -> list[int]:
        """The values computed by rows in a stage that are read elsewhere."""
        return [v for v in self._leaving(stage) if self.dim(v) is not None]

    def sums(self, stage: int) -> list[int]:
        """The values that are reduced over the rows of a stage, and read elsewhere."""
        return [v for v in self._leaving(stage) if self.dim(v) is None]

    def read_elsewhere(self, stage: int) -> Iterator[tuple[int, int, int | None]]:
        """What the ops of a stage read that its loop does not compute: the op, the value, and the
        dimension along which rows are read; ``None`` where it is read whole."""
        for i in self.stages[stage].rows:
            dims = self.rows[i].operands
            for v, d, is_inner in zip(self.body.operands[i], dims, self.inner[i], strict=True):
                if not is_inner:
                    yield i, v, d

    def is_read_whole(self, value: int) -> bool:
        """Whether a value that is computed by rows is returned, or read otherwise than by rows."""
        return value in self._reads.whole

    @memoized
    def _leaving(self, stage: int) -> list[int]:
        """The values that the loop of a stage computes and that are read elsewhere."""
        results = (range(*self.body.results[i]) for i in self.stages[stage].rows)
        return [v for group in results for v in group if v in self._reads.outside]

    @functools.cached_property
    def _reads(self) -> _ReadModes:
        dims, maker, stage_of = self._dims, self.body.makers, self.stage
        returned = self.body.outputs
        reads = _ReadModes({}, set(returned), set(returned))
        for i, operands in enumerate(self.body.operands):
            row = self.rows.get(i)
            if row is None:
                reads.outside.update(operands)
                reads.whole.update(operands)
            elif row.is_of_parts:
                reads.inner[i] = [True] * len(operands)
            else:
                inner = reads.inner[i] = []
                stage = stage_of[i]
                for v, d in zip(operands, row.operands, strict=True):
                    by_rows = d == dims[v]
                    inner.append(by_rows and d is not None and stage_of[maker[v]] == stage)
                    if not inner[-1]:
                        reads.outside.add(v)
                        if not by_rows:
                            reads.whole.add(v)
        return reads

    def _place(self) -> None:
        """Places each op in the first stage in which it can be computed."""
        body, rows, dims, maker = self.body, self.rows, self._dims, self.body.makers
        # The first stage in which each value is complete.
        whole = [0] * len(body.types)
        self._ops = [0] * len(body.ops)
        for i, operands in enumerate(body.operands):
            op = rows.get(i)
            if op is None and body.names[i] in _LINEAR and self._is_of_parts(i):
                op = rows[i] = RowOp.of(body.signatures[i], None)
            stage = 0
            if op is None:
                for v in operands:
                    if whole[v] > stage:
                        stage = whole[v]
                after = stage
            else:
                for v, d in zip(operands, op.operands, strict=True):
                    is_row = op.is_of_parts or (d is not None and dims[v] == d)
                    least = self.stage[maker[v]] if is_row else whole[v]
                    if least > stage:
                        stage = least
                self.stage[i] = stage
                after = stage + 1
            self._ops[i] = stage
            if after:
                for v in range(*body.results[i]):
                    whole[v] = after

    def _is_of_parts(self, i: int) -> bool:
        """Whether a linear op reads only sums over rows of one stage, each read by no other op."""
        body = self.body
        operands = body.operands[i]
        if not operands or maps_of(body.signatures[i]) is None:
            return False
        makers = [body.makers[v] for v in operands]
        ops = [self.rows.get(maker) for maker in makers]
        if not all(op is not None and op.is_reduction and op.combine == "add" for op in ops):
            return False
        values = [*operands, *range(*body.results[i])]
        return (
            len({self.stage[maker] for maker in makers}) == 1
            and all(body.users[v] == [i] for v in operands)
            and body.outputs.isdisjoint(operands)
            # If one operand is broadcast to the other's shape, there is more to sum up.
            and (len(operands) == 1 or len({body.types[v] for v in values}) == 1)
        )

    def _sink(self) -> None:
        """Moves row ops that read no rows into the stage that reads their results."""
        body = self.body
        for i in sorted(self.rows, reverse=True):
            if self.rows[i].is_reduction:
                continue
            if any([self._dims[v] is not None for v in body.operands[i]]):
                continue
            results = range(*body.results[i])
            if any(v in body.outputs for v in results):
                continue
            users = {u for v in results for u in body.users[v]}
            if users and users <= self.rows.keys():
                stages = {self.stage[u] for u in users}
                if len(stages) == 1 and all(
                    self.rows[u].operands[k] == self.dim(v)
                    for u in users
                    for k, v in enumerate(body.operands[u])
                    if v in results
                ):
                    self.stage[i] = self._ops[i] = stages.pop()

    def _staged(self) -> list[Stage]:
        stages: dict[int, Stage] = defaultdict(Stage)
        for i, stage in enumerate(self._ops):
            (stages[stage].rows if i in self.rows else stages[stage].whole).append(i)
        return [stages[stage] for stage in range(max(stages, default=-1) + 1)]


_LINEAR = with_trait(Trait.ADDITIVE) | {"jaxpr.neg", "jaxpr.transpose"}


# -- Writes the stages of a schedule: ops on whole values, then a scan over tiles of rows --
#
# A batch of ``n`` rows is ``count`` tiles of ``size`` rows and a rest.  The values that every row
# reads whole are constants of the scan, those that are read by rows are its slices, and sums are
# its carry.  The rest is computed after the scan by the same ops, in its own size::
#
#     total, ys = scan(lambda total, x: (total + sum(f(x)), f(x)), 0, x[:count * size])
#     y = f(x[count * size:])
#     total, ys = total + sum(y), concatenate(ys, y)
#
# Rows that one loop computes and another reads stay in tiles in between.


@dataclass(frozen=True)
class Tiles:
    """A batch of ``rows`` rows: ``count`` tiles of ``size`` rows, and ``rest`` rows."""

    rows: int
    size: int

    @property
    def count(self) -> int:
        return self.rows // self.size

    @property
    def rest(self) -> int:
        return self.rows % self.size


class _TiledRows(NamedTuple):
    """The rows of a value that a loop has computed.

    Attributes:
      dim: the batch dimension.
      stacked: the tiles, along a new leading dimension.
      rest: the rows after the last whole tile, if there are any.
    """

    dim: int
    stacked: ir.Value
    rest: ir.Value | None


RowRead = tuple[int, int]
"""A value of the function, and the dimension along which its rows are read."""


class TileWriter:
    """Writes a function's stages in place.

    Args:
      rules: the rules of the program.
      function: the function that was scheduled.
    """

    def __init__(self, rules: Rules, function: func.FuncOp, schedule: Schedule, tiles: Tiles):
        self._rules, self._function = rules, function
        self._schedule, self._tiles = schedule, tiles
        self._body = schedule.body
        self._whole: dict[int, ir.Value] = {}
        """The values that are complete."""
        self._rows: dict[int, _TiledRows] = {}
        """The values that loops have computed in tiles."""

    def write(self) -> None:
        """Rewrites the function."""
        body, rows = self._body, self._schedule.rows
        end = self._function.entry_block.operations[-1]
        for v in range(len(body.types)):
            if body.makers[v] not in rows:
                self._whole[v] = body.value(v)
        for number, stage in enumerate(self._schedule.stages):
            for i in stage.whole:
                body.ops[i].operation.move_before(end.operation)
            if stage.rows:
                with ir.InsertionPoint(end), body.ops[stage.rows[0]].location:
                    self._stage(number)
        for i in sorted(rows, reverse=True):
            for old, v in zip(body.ops[i].results, range(*body.results[i]), strict=True):
                if v in self._whole:
                    old.replace_all_uses_with(self._whole[v])
            erase(body.ops[i])

    def _stage(self, number: int) -> None:
        """Writes the loop of a stage, and the ops on the rows that are left over."""
        read = [*dict.fromkeys((v, d) for _, v, d in self._schedule.read_elsewhere(number))]
        reads = [(v, d) for v, d in read if d is not None]
        wholes = [v for v, d in read if d is None]
        outer, sums = self._schedule.outer(number), self._schedule.sums(number)
        totals = [_CarriedTotal(self._combine(v), self._body.types[v]) for v in sums]
        carried, stacked = self._scan(number, reads, wholes, outer, sums, totals)
        rest: dict[int, ir.Value] = {}
        if self._tiles.rest:
            rest = self._ops(
                number, self._tiles.rest, {read: self._rest_of(read) for read in reads}, self._whole
            )
            carried = [t.add(c, rest[v]) for t, c, v in zip(totals, carried, sums, strict=True)]
        for v, total, value in zip(sums, totals, carried, strict=True):
            self._whole[v] = converted(value, total.type)
        for v, tiles in zip(outer, stacked, strict=True):
            rows = self._rows[v] = _TiledRows(self._schedule.dim(v), tiles, rest.get(v))
            if self._schedule.is_read_whole(v):
                together = functools.partial(_together, dim=rows.dim)
                parts = [rows.stacked, *([] if rows.rest is None else [rows.rest])]
                (whole,) = self._rules.emit(together, parts)
                self._whole[v] = converted(whole, self._body.types[v])

    def _combine(self, value: int) -> str:
        return self._schedule.rows[self._body.makers[value]].combine

    def _tiled(self, read: RowRead) -> _TiledRows | None:
        """The rows that a loop has computed in tiles along that dimension, if one has."""
        rows = self._rows.get(read[0])
        return rows if rows is not None and rows.dim == read[1] else None

    def _rest_of(self, read: RowRead) -> ir.Value:
        rows, (v, dim) = self._tiled(read), read
        if rows is not None:
            return rows.rest
        start = self._tiles.count * self._tiles.size
        return _cut(self._whole[v], dim, start, self._tiles.rest)

    # --- the loop ---

    def _scan(
        self,
        number: int,
        reads: Sequence[RowRead],
        wholes: Sequence[int],
        outer: Sequence[int],
        sums: Sequence[int],
        totals: Sequence[_CarriedTotal],
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Writes the scan over whole tiles; returns its final carry and its stacked results."""
        tiles = self._tiles
        passed = [v for v in wholes if not is_constant(self._whole[v])]
        # Rows along a leading dimension are reshaped into tiles, the others are cut in the body.
        sliced = {read: self._stacked(read) for read in reads}
        cut = [read for read in reads if sliced[read] is None]
        xs = [value for value in sliced.values() if value is not None]
        starts = [_starts(tiles)] if cut else []

        consts = [*(self._whole[v] for v in passed), *(self._whole[v] for v, _ in cut)]
        operands = [*consts, *(total.start() for total in totals), *xs, *starts]
        types = [v.type for v in operands]
        slices = len(consts) + len(totals)
        types[slices:] = [with_shape(t, tuple(aval_of(t).shape[1:])) for t in types[slices:]]
        name = f"{self._function.name.value}.tile"
        body = NewFunction(self._rules, name, types, self._function)
        of_passed, of_cut, of_totals, rest = split(body.args, len(passed), len(cut), len(totals))
        of_xs, of_start = split(rest, len(xs))
        with body.body():
            rows = dict(zip((r for r in reads if sliced[r] is not None), of_xs, strict=True))
            for (v, dim), whole in zip(cut, of_cut, strict=True):
                rows[v, dim] = _cut(whole, dim, of_start[0], tiles.size)
            values = dict(zip(passed, of_passed, strict=True))
            values |= {v: clone(self._whole[v]) for v in wholes if v not in values}
            results = self._ops(number, tiles.size, rows, values)
            carried = [
                t.add(c, results[v]) for t, c, v in zip(totals, of_totals, sums, strict=True)
            ]
        symbol = body.finish([*carried, *(results[v] for v in outer)])
        scan = ScanOp(symbol, len(consts), len(totals), tiles.count, False, {})
        final, stacked = split(scan.write(self._rules, operands), len(totals))
        return final, stacked

    def _stacked(self, read: RowRead) -> ir.Value | None:
        """The whole tiles that are read, along a leading dimension; ``None`` if rows would have to
        be moved for that."""
        rows, (v, dim) = self._tiled(read), read
        if rows is not None:
            return rows.stacked
        if dim or self._tiles.rest:
            return None
        value = self._whole[v]
        shape = aval_of(value.type).shape
        return reshaped(value, (self._tiles.count, self._tiles.size, *shape[1:]))

    def _ops(
        self,
        number: int,
        size: int,
        rows: Mapping[RowRead, ir.Value],
        wholes: Mapping[int, ir.Value],
    ) -> dict[int, ir.Value]:
        """Writes the ops of a stage for some rows, at the insertion point; returns their results.

        Args:
          size: the number of rows.
          rows: these rows of the values that are read by rows from elsewhere.
        """
        body, results = self._body, {}
        for i in self._schedule.stages[number].rows:
            row, signature = self._schedule.rows[i], body.signatures[i]
            operands = []
            for k, (v, d) in enumerate(zip(body.operands[i], row.operands, strict=True)):
                if self._schedule.inner[i][k]:
                    operands.append(results[v])
                else:
                    operands.append(wholes[v] if d is None else rows[v, d])
            types = [
                type_ if d is None else _with_size(type_, d, size)
                for type_, d in zip(signature.results, row.results, strict=True)
            ]
            attributes = row.maps.resized(dict(signature.attributes), row.loop, size)
            op = ir.Operation.create(
                signature.name, types, operands, attributes, loc=body.ops[i].location
            )
            results.update(zip(range(*body.results[i]), op.results, strict=True))
        return results


# --- sums -----------------------------------------------------------------------------------------


class _CarriedTotal:
    """A reduction over the batch, as the scan carries it from tile to tile.

    Sums and products of floats of less than 32 bits are carried in 32, as a compiler reduces them.

    Args:
      combine: the primitive that combines two parts.
      type_: the type of a part.
    """

    def __init__(self, combine: str, type_: ir.Type):
        self.type, self._combine = type_, combine
        aval = aval_of(type_)
        self._dtype = aval.dtype
        if combine in ("add", "mul") and dtypes.issubdtype(aval.dtype, np.floating):
            self._dtype = np.promote_types(aval.dtype, np.float32)
        self._carried = type_of(core.ShapedArray(aval.shape, self._dtype))

    def start(self) -> ir.Value:
        """The neutral element of the combination."""
        return filled(self._carried, identity(self._combine, self._dtype).item())

    def add(self, total: ir.Value, part: ir.Value) -> ir.Value:
        part = converted(part, self._carried)
        name = f"jaxpr.{self._combine}"
        return ir.Operation.create(name, [self._carried], [total, part]).result


# --- moving rows ----------------------------------------------------------------------------------


def _with_size(type_: ir.Type, dim: int, size: int) -> ir.Type:
    shape = list(aval_of(type_).shape)
    shape[dim] = size
    return with_shape(type_, shape)


def _starts(tiles: Tiles) -> ir.Value:
    """The number of the first row of each tile."""
    type_ = type_of(core.ShapedArray((tiles.count,), np.dtype(np.int32)))
    numbers = build("iota", [], type_, dtype=np.dtype(np.int32), shape=(tiles.count,), dimension=0)
    return build("mul", [numbers, filled(with_shape(type_, ()), tiles.size)], type_)


def _cut(value: ir.Value, dim: int, start: ir.Value | int, size: int) -> ir.Value:
    """``size`` rows along a dimension."""
    type_ = _with_size(value.type, dim, size)
    shape = aval_of(type_).shape
    if isinstance(start, int):
        starts = tuple([start if d == dim else 0 for d in range(len(shape))])
        limits = tuple([first + n for first, n in zip(starts, shape, strict=True)])
        return build("slice", [value], type_, start_indices=starts, limit_indices=limits)
    zero = filled(start.type, 0)
    indices = [start if d == dim else zero for d in range(len(shape))]
    return build("dynamic_slice", [value, *indices], type_, slice_sizes=shape)


def _together(stacked: Any, *rest: Any, dim: int) -> list[Any]:
    """The rows of all tiles, and those after the last one, as one array."""
    # The dimension of the tiles comes right before that of their rows.
    rows = lax.collapse(jnp.moveaxis(stacked, 0, dim), dim, dim + 2)
    return [lax.concatenate([rows, *rest], dim) if rest else rows]

"""Writes the stages of a schedule: ops on whole values, then a scan over tiles of rows.

A batch of ``n`` rows is ``count`` tiles of ``size`` rows and a rest.  The body of a scan takes what
every row reads whole as constants, slices of what is read by rows, and carries what is summed up.
The rest is computed after the scan by the same ops, in its own size::

    total, ys = scan(lambda total, x: (total + sum(f(x)), f(x)), 0, x[:count * size])
    y = f(x[count * size:])
    total, ys = total + sum(y), concatenate(ys, y)

Rows that one loop gives and another reads stay in tiles between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.op_counts import with_shape
from jaxmlir.dialect.builder import build, clone, converted, erase, filled, is_constant
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.optimize.memory.tile.regions import Schedule
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


@dataclass(frozen=True)
class Tiles:
    """A batch in tiles: of ``rows`` rows ``count`` times ``size``, and the rest."""

    rows: int
    size: int

    @property
    def count(self) -> int:
        return self.rows // self.size

    @property
    def rest(self) -> int:
        return self.rows % self.size


@dataclass
class _Rows:
    """What a loop has given of a value.

    Attributes:
      dim: the batch dimension.
      stacked: the tiles, along a new leading dimension.
      rest: the rows after the last whole tile, if there are any.
    """

    dim: int
    stacked: ir.Value
    rest: ir.Value | None


Read = tuple[int, int]
"""A value of the function and the dimension along which its rows are read."""


class Writer:
    """Writes a function's stages in place.

    Args:
      rules: of the program.
      function: the one that was scheduled.
    """

    def __init__(self, rules: Rules, function: func.FuncOp, schedule: Schedule, tiles: Tiles):
        self._rules, self._function = rules, function
        self._schedule, self._tiles = schedule, tiles
        self._view, self._body = schedule.view, schedule.view.body
        self._whole: dict[int, ir.Value] = {}
        """The values that are there as a whole."""
        self._rows: dict[int, _Rows] = {}
        """Those that loops have given in tiles."""

    def write(self) -> None:
        """Rewrites the function."""
        body, rows = self._body, self._schedule.rows
        end = self._function.entry_block.operations[-1]
        for v in range(len(body.types)):
            if self._view.body.makers[v] not in rows:
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
        """Writes the loop of a stage, and the rows that it leaves."""
        reads, wholes = self._reads(number)
        outer, sums = self._schedule.outer(number), self._schedule.sums(number)
        totals = [_Total(self._combine(v), self._body.types[v]) for v in sums]
        carried, stacked = self._scan(number, reads, wholes, outer, sums, totals)
        rest: dict[int, ir.Value] = {}
        if self._tiles.rest:
            rest = self._ops(
                number,
                self._tiles.rest,
                {read: self._rest_of(read) for read in reads},
                self._whole,
            )
            carried = [t.add(c, rest[v]) for t, c, v in zip(totals, carried, sums, strict=True)]
        for v, total, value in zip(sums, totals, carried, strict=True):
            self._whole[v] = converted(value, total.type)
        for v, tiles in zip(outer, stacked, strict=True):
            rows = self._rows[v] = _Rows(self._schedule.dim(v), tiles, rest.get(v))
            if self._schedule.is_read_whole(v):
                self._whole[v] = _together(rows, self._body.types[v])

    def _reads(self, number: int) -> tuple[list[Read], list[int]]:
        """What the ops of a stage read from elsewhere: by rows, and whole."""
        reads: dict[Read, None] = {}
        wholes: dict[int, None] = {}
        for i in self._schedule.stages[number].rows:
            dims = self._schedule.rows[i].operands
            for k, (v, d) in enumerate(zip(self._body.operands[i], dims, strict=True)):
                if self._schedule.inner[i][k]:
                    continue
                if d is None:
                    wholes[v] = None
                else:
                    reads[v, d] = None
        return list(reads), list(wholes)

    def _combine(self, value: int) -> str:
        return self._schedule.rows[self._view.body.makers[value]].combine

    def _tiled(self, read: Read) -> _Rows | None:
        """What a loop has given in tiles along that dimension, if one has."""
        rows = self._rows.get(read[0])
        return rows if rows is not None and rows.dim == read[1] else None

    def _rest_of(self, read: Read) -> ir.Value:
        rows, (v, dim) = self._tiled(read), read
        if rows is not None:
            return rows.rest
        start = self._tiles.count * self._tiles.size
        return _cut(self._whole[v], dim, start, self._tiles.rest)

    # --- the loop ---

    def _scan(
        self,
        number: int,
        reads: Sequence[Read],
        wholes: Sequence[int],
        outer: Sequence[int],
        sums: Sequence[int],
        totals: Sequence[_Total],
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """The scan over whole tiles: what it sums up, and the tiles that it gives."""
        tiles = self._tiles
        kept = [v for v in wholes if not is_constant(self._whole[v])]
        # Rows along a leading dimension are tiles without being moved.
        sliced = {read: self._stacked(read) for read in reads}
        cut = [read for read in reads if sliced[read] is None]
        xs = [value for value in sliced.values() if value is not None]
        starts = [_starts(tiles)] if cut else []

        consts = [*(self._whole[v] for v in kept), *(self._whole[v] for v, _ in cut)]
        operands = [*consts, *(total.start() for total in totals), *xs, *starts]
        types = [v.type for v in operands]
        slices = len(consts) + len(totals)
        types[slices:] = [with_shape(t, tuple(aval_of(t).shape[1:])) for t in types[slices:]]
        name = f"{self._function.name.value}.tile"
        body = NewFunction(self._rules, name, types, self._function)
        of_kept, of_cut, of_totals, rest = split(body.args, len(kept), len(cut), len(totals))
        of_xs, of_start = split(rest, len(xs))
        with body.body():
            rows = dict(zip((r for r in reads if sliced[r] is not None), of_xs, strict=True))
            for (v, dim), whole in zip(cut, of_cut, strict=True):
                rows[v, dim] = _cut(whole, dim, of_start[0], tiles.size)
            values = dict(zip(kept, of_kept, strict=True))
            values |= {v: clone(self._whole[v]) for v in wholes if v not in values}
            found = self._ops(number, tiles.size, rows, values)
            carried = [t.add(c, found[v]) for t, c, v in zip(totals, of_totals, sums, strict=True)]
        symbol = body.finish([*carried, *(found[v] for v in outer)])
        scan = ScanOp(symbol, len(consts), len(totals), tiles.count, False, {})
        final, stacked = split(scan.write(self._rules, operands), len(totals))
        return final, stacked

    def _stacked(self, read: Read) -> ir.Value | None:
        """The whole tiles that are read, along a leading dimension; ``None`` if that is to move
        them."""
        rows, (v, dim) = self._tiled(read), read
        if rows is not None:
            return rows.stacked
        if dim or self._tiles.rest:
            return None
        value = self._whole[v]
        shape = aval_of(value.type).shape
        return _reshape(value, (self._tiles.count, self._tiles.size, *shape[1:]))

    def _ops(
        self,
        number: int,
        size: int,
        rows: Mapping[Read, ir.Value],
        wholes: Mapping[int, ir.Value],
    ) -> dict[int, ir.Value]:
        """The ops of a stage on some rows, at the insertion point; their results.

        Args:
          size: the number of rows.
          rows: what is read by rows from elsewhere, cut to them.
        """
        body, found = self._body, {}
        for i in self._schedule.stages[number].rows:
            row, signature = self._schedule.rows[i], body.signatures[i]
            operands = []
            for k, (v, d) in enumerate(zip(body.operands[i], row.operands, strict=True)):
                if self._schedule.inner[i][k]:
                    operands.append(found[v])
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
            found.update(zip(range(*body.results[i]), op.results, strict=True))
        return found


# --- sums -----------------------------------------------------------------------------------------


class _Total:
    """A reduction over the batch as it is carried from tile to tile.

    Sums and products of less than 32 bits are carried in 32, as a compiler reduces them.

    Args:
      combine: the primitive that combines two parts.
      type_: of a part.
    """

    def __init__(self, combine: str, type_: ir.Type):
        self.type, self._combine = type_, combine
        aval = aval_of(type_)
        self._dtype = aval.dtype
        if combine in ("add", "mul") and dtypes.issubdtype(aval.dtype, np.floating):
            self._dtype = np.promote_types(aval.dtype, np.float32)
        self._carried = type_of(core.ShapedArray(aval.shape, self._dtype))

    def start(self) -> ir.Value:
        """What leaves everything as it is that it is combined with."""
        return filled(self._carried, _neutral(self._combine, self._dtype))

    def add(self, total: ir.Value, part: ir.Value) -> ir.Value:
        part = converted(part, self._carried)
        name = f"jaxpr.{self._combine}"
        return ir.Operation.create(name, [self._carried], [total, part]).result


def _neutral(combine: str, dtype: Any) -> Any:
    match combine:
        case "add" | "or" | "xor":
            return 0
        case "mul":
            return 1
        case "and":
            return True if dtype == np.bool_ else ~np.zeros((), dtype)
    if dtypes.issubdtype(dtype, np.floating):
        # Some of eight bits have no infinity.
        most = np.inf if np.isinf(np.asarray(np.inf, dtype)) else dtypes.finfo(dtype).max
        return -most if combine == "max" else most
    if dtype == np.bool_:
        return combine == "min"
    return dtypes.iinfo(dtype).min if combine == "max" else dtypes.iinfo(dtype).max


# --- moving rows ----------------------------------------------------------------------------------


def _with_size(type_: ir.Type, dim: int, size: int) -> ir.Type:
    shape = list(aval_of(type_).shape)
    shape[dim] = size
    return with_shape(type_, shape)


def _build(
    name: str, operands: Sequence[ir.Value], shape: Sequence[int], **attributes: Any
) -> ir.Value:
    return build(name, operands, with_shape(operands[0].type, shape), **attributes)


def _reshape(value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    return _build("reshape", [value], shape, new_sizes=shape)


def _starts(tiles: Tiles) -> ir.Value:
    """The number of the first row of each tile."""
    type_ = type_of(core.ShapedArray((tiles.count,), np.dtype(np.int32)))
    numbers = build("iota", [], type_, dtype=np.dtype(np.int32), shape=(tiles.count,), dimension=0)
    return build("mul", [numbers, filled(with_shape(type_, ()), tiles.size)], type_)


def _cut(value: ir.Value, dim: int, start: ir.Value | int, size: int) -> ir.Value:
    """``size`` rows along a dimension."""
    shape = list(aval_of(value.type).shape)
    shape[dim] = size
    starts = [start if d == dim else 0 for d in range(len(shape))]
    if isinstance(start, int):
        limits = tuple(first + n for first, n in zip(starts, shape, strict=True))
        return _build("slice", [value], shape, start_indices=tuple(starts), limit_indices=limits)
    zero = filled(start.type, 0)
    indices = [start if d == dim else zero for d in range(len(shape))]
    return _build("dynamic_slice", [value, *indices], shape, slice_sizes=tuple(shape))


def _together(rows: _Rows, type_: ir.Type) -> ir.Value:
    """The rows of all tiles as one array."""
    count, *shape = aval_of(rows.stacked.type).shape
    value, dim = rows.stacked, rows.dim
    if dim:
        # Tiles stand where their rows do.
        order = (*range(1, dim + 1), 0, *range(dim + 1, len(shape) + 1))
        moved = tuple((count, *shape)[d] for d in order)
        value = _build("transpose", [value], moved, permutation=order)
    shape[dim] *= count
    value = _reshape(value, tuple(shape))
    if rows.rest is None:
        return value
    return _build("concatenate", [value, rows.rest], aval_of(type_).shape, dimension=dim)

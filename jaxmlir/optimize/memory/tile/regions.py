"""Regions of a function whose ops are independent of each other along one dimension.

A region grows from one value and one of its dimensions, the *batch*: an op that gives or reads a
value of the region follows the batch along one of its loops (:mod:`._maps`), and then so do its
other operands and results along the dimensions that follow that loop.  Operands that do not follow
it are read whole by every row.  Ops that reduce over the batch end the region.

What is read whole must be there before the first row is computed.  So a value that is computed from
the rows and read whole, a mean over the batch, say, cuts the region in two: there is one loop over
rows before it and one after it.  The *stage* of an op is the number of such cuts that lead to it::

    s = exp(x)            rows of loop 0
    m = sum(s) / n        the sum is complete after loop 0; the quotient is computed at stage 1
    y = sum(s / m)        rows of loop 1, from rows of s that loop 0 stored

What is linear in sums over the batch alone is a sum of what it is of their parts: a weight that is
used twice has one gradient that is summed up, not two.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.index_maps import IndexingMaps, maps_of
from jaxmlir.analysis.op_counts import size
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait


class RowOp:
    """An op of a region.

    Attributes:
      maps: how its operands and results follow its loops.
      loop: the one that the batch is, or ``None`` if it is linear in sums over the batch.
      operands: of each operand the dimension that is the batch; ``None`` of one that is read whole.
      results: likewise; ``None`` of the results of a reduction over the batch.
      is_reduction: whether these are parts of what is combined over the batch, ...
      combine: ... and by which primitive.
    """

    def __init__(self, maps: IndexingMaps, loop: int | None):
        self.maps, self.loop = maps, loop
        self.operands, self.results = (
            tuple(dims.index(loop) if loop is not None and loop in dims else None for dims in group)
            for group in (maps.operands, maps.results)
        )
        self.is_of_parts = loop is None
        self.is_reduction = self.is_of_parts or loop in maps.reduced
        self.combine = "add" if self.is_of_parts else maps.combine

    @staticmethod
    @functools.lru_cache(maxsize=1 << 14)
    def of(signature: Signature, loop: int | None) -> RowOp:
        """The same for all ops of a signature that follow the batch along one loop."""
        return RowOp(maps_of(signature), loop)


Region = dict[int, RowOp]
"""Ops of a region, by index."""


class TileView:
    """A function with what its ops read and give, and how large it is.

    Attributes:
      places: of each op its operands and results.
      linear: the ops that are linear in all operands.
      bytes: how many each value takes.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        sizes = {type_: size(type_) for type_ in set(body.types)}
        self.bytes = [sizes[type_] for type_ in body.types]
        self.places = [
            (*operands, *range(*results))
            for operands, results in zip(body.operands, body.results, strict=True)
        ]
        self.linear = {i for i, name in enumerate(body.names) if name in _LINEAR}

    def dim(self, rows: Region, value: int) -> int | None:
        """The batch dimension of a value that is one of a region's rows; else ``None``."""
        maker = self.body.makers[value]
        if maker is None or maker not in rows:
            return None
        return rows[maker].results[value - self.body.results[maker][0]]


def grow(view: TileView, value: int, dim: int) -> Region:
    """The ops that follow dimension ``dim`` of a value, by index."""
    body = view.body
    dims = {value: dim}
    found: Region = {}
    pending = [value]
    while pending:
        v = pending.pop()
        maker = view.body.makers[v]
        for i in view.body.users[v] if maker is None else (maker, *view.body.users[v]):
            if i in found:
                continue
            places = view.places[i]
            op = _join(body.signatures[i], tuple([dims.get(place) for place in places]))
            if op is None:
                continue
            found[i] = op
            for place, d in zip(places, (*op.operands, *op.results), strict=True):
                if d is not None and place not in dims:
                    dims[place] = d
                    pending.append(place)
    return found


@functools.lru_cache(maxsize=1 << 14)
def _join(signature: Signature, dims: tuple[int | None, ...]) -> RowOp | None:
    """An op of which a value follows the batch, as one that follows it as a whole.

    Args:
      dims: of each operand and each result the dimension that is the batch, as far as known.
    """
    maps = maps_of(signature)
    if maps is None:
        return None
    count = len(signature.operands)
    of_operands, of_results = (
        [loops[d] for loops, d in zip(group, given, strict=True) if d is not None]
        for group, given in ((maps.operands, dims[:count]), (maps.results, dims[count:]))
    )
    loop = next((loop for loop in (*of_results, *of_operands) if loop is not None), None)
    if loop is None or any(other != loop for other in of_results):
        return None
    op = RowOp.of(signature, loop)
    if op.is_reduction:
        # Where an operand's other dimension is the batch of the region, it would be read whole.
        return op if maps.combine and None not in op.operands else None
    return None if None in op.results else op


@dataclass
class Stage:
    """What is computed between two cuts: first ops on whole values, then a loop over rows."""

    whole: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


class _Reads(NamedTuple):
    """How values are read.

    Attributes:
      inner: :attr:`Schedule.inner`.
      outside: those that are read outside of the loop that computes them, or returned, ...
      whole: ... and those of them that are read otherwise than by rows.
    """

    inner: dict[int, list[bool]]
    outside: set[int]
    whole: set[int]


class Schedule:
    """The ops of a function in stages.

    Attributes:
      rows: the ops that are computed in loops, by index.
      stages: in order; the ops of each in the order of the function.
      stage: of each row op the number of its stage.
    """

    def __init__(self, view: TileView, rows: Region):
        self.view, self.rows = view, dict(rows)
        self.stage: dict[int, int] = {}
        self._found: dict[int, list[int]] = {}
        self._dims: list[int | None] = [None] * len(view.body.makers)
        for i, op in rows.items():
            first, last = view.body.results[i]
            self._dims[first:last] = op.results
        self._place()
        self._sink()
        self.stages = self._staged()

    @property
    def inner(self) -> dict[int, list[bool]]:
        """Of each row op and operand, whether that is a row, or a part, that its own loop has
        computed."""
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

    def is_read_whole(self, value: int) -> bool:
        """Whether a value that is computed by rows is returned, or read otherwise than by rows."""
        return value in self._reads.whole

    def _leaving(self, stage: int) -> list[int]:
        """The values that a stage computes and others read."""
        if stage not in self._found:
            results = (range(*self.view.body.results[i]) for i in self.stages[stage].rows)
            self._found[stage] = [v for group in results for v in group if v in self._reads.outside]
        return self._found[stage]

    @functools.cached_property
    def _reads(self) -> _Reads:
        dims, maker, stage_of = self._dims, self.view.body.makers, self.stage
        returned = self.view.body.outputs
        found = _Reads({}, set(returned), set(returned))
        for i, operands in enumerate(self.view.body.operands):
            row = self.rows.get(i)
            if row is None:
                found.outside.update(operands)
                found.whole.update(operands)
            elif row.is_of_parts:
                found.inner[i] = [True] * len(operands)
            else:
                inner = found.inner[i] = []
                stage = stage_of[i]
                for v, d in zip(operands, row.operands, strict=True):
                    by_rows = d == dims[v]
                    inner.append(by_rows and d is not None and stage_of[maker[v]] == stage)
                    if not inner[-1]:
                        found.outside.add(v)
                        if not by_rows:
                            found.whole.add(v)
        return found

    def _place(self) -> None:
        """Each op in the first stage in which it can be computed."""
        body, rows, dims, maker = self.view.body, self.rows, self._dims, self.view.body.makers
        # The stage from which on a value is there as a whole, and that which computes its rows.
        whole = [0] * len(body.types)
        self._ops = [0] * len(body.ops)
        for i, operands in enumerate(body.operands):
            op = rows.get(i)
            if op is None and i in self.view.linear and self._is_of_parts(i):
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
        """Whether a linear op is one of sums over the rows of one stage that nobody else reads."""
        body = self.view.body
        operands = body.operands[i]
        if not operands or maps_of(body.signatures[i]) is None:
            return False
        makers = [self.view.body.makers[v] for v in operands]
        ops = [self.rows.get(maker) for maker in makers]
        if not all(op is not None and op.is_reduction and op.combine == "add" for op in ops):
            return False
        read = [*operands, *range(*body.results[i])]
        return (
            len({self.stage[maker] for maker in makers}) == 1
            and all(self.view.body.users[v] == [i] for v in operands)
            and self.view.body.outputs.isdisjoint(operands)
            # If one is repeated for the other, there is more to sum up.
            and (len(operands) == 1 or len({body.types[v] for v in read}) == 1)
        )

    def _sink(self) -> None:
        """Rows that are made of nothing that is computed by rows, where they are read."""
        body = self.view.body
        for i in sorted(self.rows, reverse=True):
            if self.rows[i].is_reduction:
                continue
            if any([self._dims[v] is not None for v in body.operands[i]]):
                continue
            results = range(*body.results[i])
            if any(v in self.view.body.outputs for v in results):
                continue
            users = {u for v in results for u in self.view.body.users[v]}
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
        found: dict[int, Stage] = defaultdict(Stage)
        for i, stage in enumerate(self._ops):
            (found[stage].rows if i in self.rows else found[stage].whole).append(i)
        return [found[stage] for stage in range(max(found, default=-1) + 1)]


_LINEAR = with_trait(Trait.ADDITIVE) | {"jaxpr.neg", "jaxpr.transpose"}

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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from jaxmlir.passes._body import Body
from jaxmlir.passes.tile._maps import Dims, IndexingMaps, maps_of


@dataclass(frozen=True)
class RowOp:
    """An op of a region.

    Attributes:
      maps: how its operands and results follow its loops.
      loop: the one that the batch is.
    """

    maps: IndexingMaps
    loop: int

    @property
    def operands(self) -> Dims:
        """Of each operand the dimension that is the batch; ``None`` of one that is read whole."""
        return tuple(map(self._batch, self.maps.operands))

    @property
    def results(self) -> Dims:
        """Likewise; ``None`` of the results of a reduction over the batch."""
        return tuple(map(self._batch, self.maps.results))

    @property
    def is_reduction(self) -> bool:
        return self.loop in self.maps.reduced

    def _batch(self, dims: Dims) -> int | None:
        return dims.index(self.loop) if self.loop in dims else None


class Uses:
    """A function with the users of its values."""

    def __init__(self, body: Body):
        self.body = body
        self.users: list[list[int]] = [[] for _ in body.types]
        self.maker: list[int | None] = [None] * len(body.types)
        for i, operands in enumerate(body.operands):
            for v in dict.fromkeys(operands):
                self.users[v].append(i)
            for v in range(*body.results[i]):
                self.maker[v] = i
        self.is_returned = set(body.returned)


def grow(uses: Uses, value: int, dim: int) -> dict[int, RowOp]:
    """The ops that follow dimension ``dim`` of a value, by index."""
    body = uses.body
    dims = {value: dim}
    found: dict[int, RowOp] = {}
    pending = [value]
    while pending:
        v = pending.pop()
        maker = uses.maker[v]
        for i in uses.users[v] if maker is None else (maker, *uses.users[v]):
            if i in found:
                continue
            op = _join(body, i, dims)
            if op is None:
                continue
            found[i] = op
            first, last = body.results[i]
            places = (*body.operands[i], *range(first, last))
            for place, d in zip(places, (*op.operands, *op.results), strict=True):
                if d is not None and place not in dims:
                    dims[place] = d
                    pending.append(place)
    return found


def _join(body: Body, i: int, dims: dict[int, int]) -> RowOp | None:
    """An op of which a value follows the batch, as one that follows it as a whole."""
    maps = maps_of(body.signatures[i])
    if maps is None:
        return None
    first, last = body.results[i]
    of_results = [
        maps.results[k][dims[v]] for k, v in enumerate(range(first, last)) if v in dims
    ]
    of_operands = [
        maps.operands[k][dims[v]] for k, v in enumerate(body.operands[i]) if v in dims
    ]
    loop = next((loop for loop in (*of_results, *of_operands) if loop is not None), None)
    if loop is None or any(other != loop for other in of_results):
        return None
    op = RowOp(maps, loop)
    if op.is_reduction:
        # Where an operand's other dimension is the batch of the region, it would be read whole.
        return op if maps.combine and None not in op.operands else None
    return None if None in op.results else op


@dataclass
class Stage:
    """What is computed between two cuts: first ops on whole values, then a loop over rows."""

    whole: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


class Schedule:
    """The ops of a function in stages.

    Attributes:
      rows: the ops that are computed by rows, by index.
      stages: in order; the ops of each in the order of the function.
      stage: of each row op the number of its stage.
    """

    def __init__(self, uses: Uses, rows: dict[int, RowOp]):
        self.uses, self.rows = uses, rows
        self.stage: dict[int, int] = {}
        self._place()
        self._sink()
        self.stages = self._staged()

    def dim(self, value: int) -> int | None:
        """The batch dimension of a value that is computed by rows; else ``None``."""
        maker = self.uses.maker[value]
        if maker is None or maker not in self.rows:
            return None
        return self.rows[maker].results[value - self.uses.body.results[maker][0]]

    def outer(self, stage: int) -> list[int]:
        """The values computed by rows in a stage that are read elsewhere."""
        return [v for v in self._values(stage) if self.dim(v) is not None and self._leaves(v)]

    def sums(self, stage: int) -> list[int]:
        """The values that are reduced over the rows of a stage."""
        return [v for v in self._values(stage) if self.dim(v) is None]

    def is_row(self, i: int, k: int) -> bool:
        """Whether operand ``k`` of a row op is a row that its own stage has computed."""
        v = self.uses.body.operands[i][k]
        maker = self.uses.maker[v]
        d = self.rows[i].operands[k]
        return d is not None and self.dim(v) == d and self.stage[maker] == self.stage[i]

    def is_read_whole(self, value: int) -> bool:
        """Whether a value that is computed by rows is returned, or read otherwise than by rows."""
        if value in self.uses.is_returned:
            return True
        for i in self.uses.users[value]:
            row = self.rows.get(i)
            if row is None:
                return True
            pairs = zip(self.uses.body.operands[i], row.operands, strict=True)
            if any(v == value and d != self.dim(v) for v, d in pairs):
                return True
        return False

    def _values(self, stage: int) -> Iterable[int]:
        for i in self.stages[stage].rows:
            yield from range(*self.uses.body.results[i])

    def _leaves(self, value: int) -> bool:
        if value in self.uses.is_returned:
            return True
        stage = self.stage[self.uses.maker[value]]
        for i in self.uses.users[value]:
            if self.stage.get(i) != stage:
                return True
            for k, v in enumerate(self.uses.body.operands[i]):
                if v == value and not self.is_row(i, k):
                    return True
        return False

    def _place(self) -> None:
        """Each op in the first stage in which it can be computed."""
        body = self.uses.body
        # The stage from which on a value is there as a whole, and that which computes its rows.
        whole = [0] * len(body.types)
        self._whole = whole
        self._last = 0
        self._ops = [0] * len(body.ops)
        for i, operands in enumerate(body.operands):
            op = self.rows.get(i)
            if op is None:
                stage = max((whole[v] for v in operands), default=0)
                after = stage
            else:
                stage = 0
                for v, d in zip(operands, op.operands, strict=True):
                    there = whole[v]
                    if d is not None and self.dim(v) == d:
                        there = self.stage[self.uses.maker[v]]
                    stage = max(stage, there)
                self.stage[i] = stage
                after = stage + 1
            self._ops[i] = stage
            for v in range(*body.results[i]):
                whole[v] = after

    def _sink(self) -> None:
        """Rows that are made of nothing that is computed by rows, where they are read."""
        body = self.uses.body
        for i in sorted(self.rows, reverse=True):
            if self.rows[i].is_reduction:
                continue
            made = body.operands[i]
            if any(self.dim(v) is not None for v in made):
                continue
            results = range(*body.results[i])
            if any(v in self.uses.is_returned for v in results):
                continue
            users = {u for v in results for u in self.uses.users[v]}
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


"""Where values that may be alike meet: in a concatenation, a sum, or as parts of one array."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import ADDITIONS
from jaxmlir.optimize.vectorize.slp.writes import SCATTERS, Parts, chain, parts_of
from jaxmlir.optimize.vectorize.stacking import JOINS

# Members of a batch, at least.
MIN_LANES = 4


@dataclass(frozen=True)
class Seed:
    """Values that meet in one place, and are given in one way.

    Attributes:
      values: one for each lane.
      meeting: all that meet there, in order.
      chain: the ops where they meet, from the top: a concatenation, the additions of a sum, or
        scatters.
      parts: of an array, where scatters write them.
    """

    values: tuple[int, ...]
    meeting: tuple[int, ...]
    chain: tuple[int, ...]
    parts: Parts | None = None

    @property
    def sink(self) -> int:
        """The op that gives what the values are together."""
        return self.chain[-1]


def seeds(body: FunctionView) -> Iterator[Seed]:
    """The seeds of a function, from the bottom: those of outer loops before those of inner ones."""
    seen: set[int] = set()
    for index in reversed(range(len(body.ops))):
        name = body.names[index]
        if name in JOINS:
            operands = body.operands[index]
            for values in _runs(_kinds(body, operands), operands):
                yield Seed(values, tuple(operands), (index,))
        elif name in ADDITIONS and index not in seen:
            additions, terms = _sum(body, index)
            seen.update(additions)
            for values in _groups(_kinds(body, terms), terms):
                yield Seed(values, tuple(terms), additions)
        elif name in SCATTERS and index not in seen:
            scatters = chain(body, index)
            seen.update(scatters)
            kinds = _kinds(body, [body.operands[op][2] for op in scatters])
            for ops in _runs(kinds, scatters):
                parts = parts_of(body, ops)
                if parts is not None:
                    values = tuple([body.operands[op][2] for op in ops])
                    yield Seed(values, (body.operands[ops[0]][0], *values), ops, parts)


def _groups(kinds: list[Hashable], items: list[int]) -> Iterator[tuple[int, ...]]:
    """Those of some items that are of one kind."""
    if len(items) < MIN_LANES:
        return
    groups = collections.defaultdict(list)
    for kind, item in zip(kinds, items, strict=True):
        groups[kind].append(item)
    yield from (tuple(group) for group in groups.values() if len(group) >= MIN_LANES)


def _runs(kinds: list[Hashable], items: list[int]) -> Iterator[tuple[int, ...]]:
    """Those of some items that follow on one another and are of one kind."""
    pairs = zip(kinds, items, strict=True)
    for _, run in itertools.groupby(pairs, key=operator.itemgetter(0)):
        found = tuple([item for _, item in run])
        if len(found) >= MIN_LANES:
            yield found


def _kinds(body: FunctionView, values: list[int]) -> list[Hashable]:
    """Of each of the values that meet, what it has in common with others; what stands there twice
    has nothing."""
    times = collections.Counter(values)
    return [
        _kind(body, value) if times[value] == 1 else ("again", i) for i, value in enumerate(values)
    ]


def _kind(body: FunctionView, value: int) -> Hashable:
    """What values have in common that may be the lanes of a seed: the op that gives them, or an
    array that they are parts of."""
    index = body.makers[value]
    if index is None:
        return value
    if body.names[index] in ("jaxpr.slice", "jaxpr.split", "jaxpr.unstack"):
        return body.names[index], body.operands[index][0], body.types[value]
    return body.signatures[index], value - body.results[index][0]


def _sum(body: FunctionView, last: int) -> tuple[tuple[int, ...], list[int]]:
    """The additions of values one after another, and all that is added, in order."""
    additions, terms = [last], []
    # Of terms that are sums themselves what they are, and on which side they were added.
    sides: dict[Hashable, int] = {}
    while True:
        operands = body.operands[additions[-1]]
        # Python adds on the right.
        side = 0 if _is_sum(body, operands[1]) and not _is_sum(body, operands[0]) else 1
        before, term = operands[1 - side], operands[side]
        terms.append(term)
        if _is_sum(body, term):
            sides.setdefault(_kind(body, term), side)
        if not _is_sum(body, before) or _is_term(body, before, sides):
            terms.append(before)
            return tuple(reversed(additions)), terms[::-1]
        additions.append(body.makers[before])


def _is_term(body: FunctionView, value: int, sides: dict[Hashable, int]) -> bool:
    """Whether a sum is the first of terms that are sums, and not what they are added to."""
    kind = _kind(body, value)
    operands = body.operands[body.makers[value]]
    return kind in sides and _kind(body, operands[sides[kind]]) != kind


def _is_sum(body: FunctionView, value: int) -> bool:
    """Whether a value is a sum that is used once."""
    index = body.makers[value]
    is_sum = index is not None and body.names[index] in ADDITIONS
    return is_sum and body.use_counts[value] == 1

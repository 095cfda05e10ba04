"""Where values that may be alike meet: in a concatenation, a sum, or as parts of one array."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from jaxmlir.analysis.op_counts import ADDITIONS
from jaxmlir.optimize.vectorize.slp.uses import Uses
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


def seeds(uses: Uses) -> Iterator[Seed]:
    """The seeds of a function, from the bottom: those of outer loops before those of inner ones."""
    body = uses.body
    seen: set[int] = set()
    for index in reversed(range(len(body.ops))):
        name = body.names[index]
        if name in JOINS:
            operands = body.operands[index]
            for values in _runs(_kinds(uses, operands), operands):
                yield Seed(values, tuple(operands), (index,))
        elif name in ADDITIONS and index not in seen:
            additions, terms = _sum(uses, index)
            seen.update(additions)
            for values in _groups(_kinds(uses, terms), terms):
                yield Seed(values, tuple(terms), additions)
        elif name in SCATTERS and index not in seen:
            scatters = chain(uses, index)
            seen.update(scatters)
            kinds = _kinds(uses, [body.operands[op][2] for op in scatters])
            for ops in _runs(kinds, scatters):
                parts = parts_of(uses, ops)
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


def _kinds(uses: Uses, values: list[int]) -> list[Hashable]:
    """Of each of the values that meet, what it has in common with others; what stands there twice
    has nothing."""
    times = collections.Counter(values)
    return [
        _kind(uses, value) if times[value] == 1 else ("again", i) for i, value in enumerate(values)
    ]


def _kind(uses: Uses, value: int) -> Hashable:
    """What values have in common that may be the lanes of a seed: the op that gives them, or an
    array that they are parts of."""
    index = uses.maker[value]
    if index < 0:
        return value
    body = uses.body
    if body.names[index] in ("jaxpr.slice", "jaxpr.split", "jaxpr.unstack"):
        return body.names[index], body.operands[index][0], body.types[value]
    return body.signatures[index], value - body.results[index][0]


def _sum(uses: Uses, last: int) -> tuple[tuple[int, ...], list[int]]:
    """The additions of values one after another, and all that is added, in order."""
    additions, terms = [last], []
    # Of terms that are sums themselves what they are, and on which side they were added.
    sides: dict[Hashable, int] = {}
    while True:
        operands = uses.body.operands[additions[-1]]
        # Python adds on the right.
        side = 0 if _is_sum(uses, operands[1]) and not _is_sum(uses, operands[0]) else 1
        before, term = operands[1 - side], operands[side]
        terms.append(term)
        if _is_sum(uses, term):
            sides.setdefault(_kind(uses, term), side)
        if not _is_sum(uses, before) or _is_term(uses, before, sides):
            terms.append(before)
            return tuple(reversed(additions)), terms[::-1]
        additions.append(uses.maker[before])


def _is_term(uses: Uses, value: int, sides: dict[Hashable, int]) -> bool:
    """Whether a sum is the first of terms that are sums, and not what they are added to."""
    kind = _kind(uses, value)
    operands = uses.body.operands[uses.maker[value]]
    return kind in sides and _kind(uses, operands[sides[kind]]) != kind


def _is_sum(uses: Uses, value: int) -> bool:
    """Whether a value is a sum that is used once."""
    index = uses.maker[value]
    return index >= 0 and uses.body.names[index] in ADDITIONS and len(uses.users[value]) == 1

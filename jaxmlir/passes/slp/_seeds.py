"""Where values that may be alike meet: in a concatenation, or in a sum of several."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from jaxmlir.passes._stacking import JOINS
from jaxmlir.passes._work import ADDITIONS
from jaxmlir.passes.slp._uses import Uses

# Members of a batch, at least.
MIN_LANES = 4


@dataclass(frozen=True)
class Seed:
    """Values that meet in one place, and are given in one way.

    Attributes:
      values: one for each lane.
      meeting: all that meet there, in order.
      sink: the op where they meet: a concatenation, or the last addition of a sum.
      additions: those of the sum, from the top; none of a concatenation.
    """

    values: tuple[int, ...]
    meeting: tuple[int, ...]
    sink: int
    additions: tuple[int, ...] = ()


def seeds(uses: Uses) -> Iterator[Seed]:
    """The seeds of a function, from the top."""
    body = uses.body
    for index, name in enumerate(body.names):
        if name in JOINS:
            for values in _runs(uses, body.operands[index]):
                yield Seed(values, tuple(body.operands[index]), index)
        elif name in ADDITIONS and _is_last(uses, index):
            additions, terms = _sum(uses, index)
            if len(terms) < MIN_LANES:
                continue
            groups = collections.defaultdict(list)
            for value, kind in zip(terms, _kinds(uses, terms), strict=True):
                groups[kind].append(value)
            for values in groups.values():
                if len(values) >= MIN_LANES:
                    yield Seed(tuple(values), tuple(terms), index, additions)


def _runs(uses: Uses, operands: list[int]) -> Iterator[tuple[int, ...]]:
    """Operands that follow on one another and are given in one way."""
    pairs = zip(_kinds(uses, operands), operands, strict=True)
    for _, run in itertools.groupby(pairs, key=operator.itemgetter(0)):
        values = tuple([value for _, value in run])
        if len(values) >= MIN_LANES:
            yield values


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


def _is_last(uses: Uses, index: int) -> bool:
    """Whether the result of an addition is not added to another value only."""
    (result,) = uses.results(index)
    users = uses.users[result]
    return len(users) != 1 or users[0] == uses.end or uses.body.names[users[0]] not in ADDITIONS


def _sum(uses: Uses, last: int) -> tuple[tuple[int, ...], list[int]]:
    """The additions of values one after another, and all that is added, in order."""
    operands, maker = uses.body.operands, uses.maker
    # Python adds on the right.
    side = 0 if _is_sum(uses, operands[last][1]) and not _is_sum(uses, operands[last][0]) else 1
    kind = _kind(uses, operands[last][side])
    additions, terms = [last], []
    while True:
        before, term = operands[additions[-1]][1 - side], operands[additions[-1]][side]
        terms.append(term)
        if not _is_sum(uses, before) or (
            # The first term: a sum itself, as each of them, and not what they are added to.
            _kind(uses, before) == kind != _kind(uses, operands[maker[before]][side])
        ):
            terms.append(before)
            return tuple(reversed(additions)), terms[::-1]
        additions.append(maker[before])


def _is_sum(uses: Uses, value: int) -> bool:
    """Whether a value is a sum that is used once."""
    index = uses.maker[value]
    return index >= 0 and uses.body.names[index] in ADDITIONS and len(uses.users[value]) == 1

"""Where values that may be alike meet: in a concatenation, or in a sum of several."""

from __future__ import annotations

import collections
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
            for value in terms:
                groups[_kind(uses, value)].append(value)
            for values in groups.values():
                if _are_lanes(values, terms):
                    yield Seed(tuple(values), tuple(terms), index, additions)


def _runs(uses: Uses, operands: list[int]) -> Iterator[tuple[int, ...]]:
    """Operands that follow on one another and are given in one way."""
    run: list[int] = []
    kinds = [_kind(uses, value) for value in operands]
    for i, value in enumerate(operands):
        run.append(value)
        if i + 1 == len(operands) or kinds[i + 1] != kinds[i]:
            if _are_lanes(run, operands):
                yield tuple(run)
            run = []


def _are_lanes(values: list[int], among: list[int]) -> bool:
    """Whether values are enough, and each stands once among all that meet."""
    found = set(values)
    return (
        len(values) >= MIN_LANES
        and len(found) == len(values)
        and sum(value in found for value in among) == len(values)
    )


def _kind(uses: Uses, value: int) -> Hashable:
    """What the values of one seed have in common: the op that gives them, or an array that they are
    parts of."""
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
    body, index = uses.body, last
    additions, terms = [last], []
    while True:
        left, right = body.operands[index]
        inner = [
            value
            for value in (left, right)
            if len(uses.users[value]) == 1
            and uses.maker[value] >= 0
            and body.names[uses.maker[value]] in ADDITIONS
        ]
        if not inner:
            terms += [right, left]
            return tuple(reversed(additions)), terms[::-1]
        # Python adds the next term on the right.
        before = inner[0]
        terms.append(right if before == left else left)
        index = uses.maker[before]
        additions.append(index)

"""Finding what a function does several times over: blocks of ops that are equal but for their
operands.

The ops of a function are read as a text, one letter for an op: its name, attributes and types.
Constants, numbers made of them, and slices of arguments are no letters: they differ from one
repetition to the next (layer 3 reads the third slice), cost nothing, and can stand anywhere.

Repeated words of the text are found by doubling (Karp, Miller and Rosenberg 1972): the words of 2k
letters are numbered by the pairs of words of k letters that they consist of.  For each length the
nearest earlier occurrence of each word is known, and where it is at one distance ``d`` all along a
stretch of text, that stretch stands ``d`` letters before once more.  If the two overlap or touch,
the text has the period ``d`` there, and the repetitions are the turns of a loop: where a turn ends
and the next one begins is chosen so that few values cross from one to the next.  All of this is
O(n log n) for n ops, in numpy.

Equal letters do not make equal code: that operands come from the same places is checked next
(:meth:`Text.alike`).
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import SPREAD, NewFunction, clone, copy, ops_of, returned
from jaxmlir.passes._work import ELEMENTWISE

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules

SHORTEST = 8
"""The shortest word that is looked for."""

MOST_APART = 256
"""How many of the words that do not follow on one another are looked for: the longest."""

Place = tuple[int, int]
"""An op of a block, and one of its operands or results."""

_VIEWS = frozenset({"jaxpr.reshape", "jaxpr.slice", "jaxpr.squeeze"})


@dataclass(frozen=True)
class Word:
    """A stretch of ops that stands at several places.

    Attributes:
      length: how many ops it has.
      starts: where it stands, by the index of its first op, from the top and without overlap.
    """

    length: int
    starts: tuple[int, ...]

    @property
    def is_tandem(self) -> bool:
        """Whether each place begins where the one before it ends."""
        return all(b - a == self.length for a, b in zip(self.starts, self.starts[1:], strict=False))


class Text:
    """The ops of a function as letters, and where their operands come from.

    Attributes:
      function: that was read.
      ops: the ops that are letters, each with its name.
      letters: their numbers, equal for equal ops.
      sources: for each operand of each op the index of the op that gives it and which of its
        results it is; ``None`` of arguments and of what is no letter.
      free: the constants among the values that are no letters.
      last_use: of each result of each op, the index of the last op that uses it; ``len(ops)`` of
        what the function returns.
    """

    def __init__(self, function: func.FuncOp):
        self.function = function
        self.ops: list[tuple[Any, str]] = []
        self.sources: list[list[tuple[int, int] | None]] = []
        self.last_use: list[list[int]] = []
        self.free: set[ir.Value] = set()
        arguments = set(function.arguments)
        numbers: dict[Any, int] = {}
        letters: list[int] = []
        source: dict[ir.Value, tuple[int, int]] = {}
        for op, name, operands in ops_of(function):
            attributes, results = op.attributes, list(op.results)
            if name == "jaxpr.constant" or (
                self.free.issuperset(operands) and _costs_nothing(name, results)
            ):
                self.free.update(results)
                continue
            if name in _VIEWS and arguments.issuperset(operands):
                arguments.update(results)
                continue
            items = tuple(attributes.items()) if len(attributes) else ()
            types = (tuple([v.type for v in operands]), tuple([v.type for v in results]))
            # What has effects is like nothing else.
            unlike = len(letters) if "jaxpr.effects" in attributes else None
            letters.append(numbers.setdefault((name, items, types, unlike), len(numbers)))
            index = len(self.ops)
            found = [source.get(v) for v in operands]
            for place in found:
                if place is not None:
                    self.last_use[place[0]][place[1]] = index
            self.ops.append((op, name))
            self.sources.append(found)
            self.last_use.append([-1] * len(results))
            source.update((v, (index, i)) for i, v in enumerate(results))
        for v in returned(function):
            if v in source:
                i, j = source[v]
                self.last_use[i][j] = len(self.ops)
        self.letters = np.array(letters, np.int64)

    def operand(self, start: int, place: Place) -> ir.Value:
        """An operand of the block that starts there."""
        i, j = place
        return self.ops[start + i][0].operands[j]

    def result(self, start: int, place: Place) -> ir.Value:
        """A result of the block that starts there."""
        i, j = place
        return self.ops[start + i][0].results[j]

    def words(self) -> Iterator[Word]:
        """Words that stand at two places at least, those that cover most first; they may overlap
        one another."""
        crossing: dict[int, np.ndarray] = {}
        found: dict[tuple[int, tuple[int, ...]], None] = {}
        apart: dict[bytes, int] = {}
        for start, length, distance in _stretches(self.letters):
            if length < distance:
                apart[self.letters[start : start + length].tobytes()] = length
                continue
            first, end = start - distance, start + length
            if distance not in crossing:
                crossing[distance] = self._crossing(distance)
            phase = _best_phase(crossing[distance][first:end], distance)
            starts = tuple(range(first + phase, end - distance + 1, distance))
            if len(starts) > 1:
                found[distance, starts] = None
        whole = self.letters.tobytes()
        longest = sorted(apart.items(), key=lambda item: -item[1])[:MOST_APART]
        for content, length in longest:
            found[length, tuple(_occurrences(whole, content, self.letters.itemsize))] = None
        order = sorted(found, key=lambda word: -word[0] * (len(word[1]) - 1))
        return (Word(length, starts) for length, starts in order)

    def _crossing(self, period: int) -> np.ndarray:
        """How many values that are used within a period cross from above each op to it."""
        values, made, used = self._uses
        near = used - made <= period
        last = np.full(len(self._made), -1)
        np.maximum.at(last, values[near], used[near])
        crosses = last >= 0
        change = np.zeros(len(self.ops) + 1, np.int64)
        np.add.at(change, self._made[crosses] + 1, 1)
        np.subtract.at(change, last[crosses] + 1, 1)
        return np.cumsum(change)[:-1]

    @functools.cached_property
    def _made(self) -> np.ndarray:
        """The op that gives each result of the ops, which are numbered one after the other."""
        return np.repeat(np.arange(len(self.ops)), [len(last) for last in self.last_use])

    @functools.cached_property
    def _uses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each use of a result: the result's number, the op that gives it, the op that uses it."""
        first = np.cumsum([0, *(len(last) for last in self.last_use)])
        found = [
            (*place, index)
            for index, places in enumerate(self.sources)
            for place in places
            if place is not None
        ]
        made, result, used = np.array(found, np.int64).reshape(-1, 3).T
        return first[made] + result, made, used

    def alike(self, word: Word) -> Word:
        """The places of a word where operands come from the same ops in it, or from without.

        If there are no two, then those of the longest part of the word of which there are.
        """
        if len(word.starts) < 2:
            return word
        classes = collections.defaultdict(list)
        for start in word.starts:
            classes[tuple(self._wiring(start, word.length))].append(start)
        best = max(classes.values(), key=len)
        if len(best) > 1:
            return Word(word.length, tuple(best))
        one, other = (self._wiring(start, word.length) for start in word.starts[:2])
        differ = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        edges = [-1, *differ, word.length]
        before, end = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
        starts = tuple([start + before + 1 for start in word.starts[:2]])
        return Word(end - before - 1, starts)

    def _wiring(self, start: int, length: int) -> list[tuple[tuple[int, int] | None, ...]]:
        """For each op of a word and each operand the op in the word that gives it, and its result;
        ``None`` where it comes from without."""
        return [
            tuple(
                [
                    None if place is None or place[0] < start else (place[0] - start, place[1])
                    for place in places
                ]
            )
            for places in self.sources[start : start + length]
        ]

    def inputs(self, word: Word) -> list[list[tuple[int, int]]]:
        """The operands of a word that come from without: each as the places in the word, op and
        operand, that read it, at all places of the word the same value."""
        columns: dict[tuple[ir.Value, ...], list[tuple[int, int]]] = collections.defaultdict(list)
        first = word.starts[0]
        for i in range(word.length):
            operands = None
            for j, place in enumerate(self.sources[first + i]):
                if place is None or place[0] < first:
                    if operands is None:
                        operands = [list(self.ops[s + i][0].operands) for s in word.starts]
                    columns[tuple([values[j] for values in operands])].append((i, j))
        return list(columns.values())

    def outputs(self, word: Word) -> list[tuple[int, int]]:
        """The results, op and result, that are used outside of the word, at some of its places."""
        return [
            (i, j)
            for i in range(word.length)
            for j in range(len(self.last_use[word.starts[0] + i]))
            if any(self.last_use[s + i][j] >= s + word.length for s in word.starts)
        ]


def write_block(
    rules: Rules,
    name: str,
    text: Text,
    start: int,
    indices: Iterable[int],
    arguments: Sequence[Sequence[Place]],
    constants: Sequence[Sequence[Place]],
    outputs: Sequence[Place],
) -> str:
    """Writes a block as a function of its own; the function's symbol.

    Args:
      start: the block's first op in the text.
      indices: those of its ops that the function has.
      arguments: operands from without, each as the places that read it.
      constants: likewise, those that are written again in the function.
      outputs: the results that it gives.
    """

    types = [text.operand(start, places[0]).type for places in arguments]
    new = NewFunction(rules, name, types, text.function)
    columns = zip(arguments, new.args, strict=True)
    given = {place: arg for places, arg in columns for place in places}
    values: dict[ir.Value, ir.Value] = {}
    with new.body():
        for places in constants:
            constant = clone(text.operand(start, places[0]))
            given.update((place, constant) for place in places)
        for i in indices:
            op, op_name = text.ops[start + i]
            operands = [
                given[i, j] if (i, j) in given else values[v] for j, v in enumerate(op.operands)
            ]
            values.update(zip(op.results, copy(op, op_name, operands), strict=True))
    return new.finish([values[text.result(start, place)] for place in outputs])


def _costs_nothing(name: str, results: Sequence[ir.Value]) -> bool:
    """Whether an op makes a constant of constants: spreads one out, or computes a number."""
    return name in SPREAD or (name in ELEMENTWISE and not results[0].type.shape)


def _stretches(letters: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Stretches of a text that stand in it once more: start, length, and how far before."""
    count = len(letters)
    rank, k = letters, 1
    found = []
    while k < count:
        following = np.zeros(count, np.int64)
        following[:-k] = rank[k:] + 1
        rank = np.unique(rank * (count + 1) + following, return_inverse=True)[1].reshape(-1)
        k *= 2
        if k >= SHORTEST:
            found.append(_equidistant(rank, k))
        if rank.max() == count - 1:
            break
    if found:
        yield from map(tuple, np.unique(np.concatenate(found), axis=0).tolist())


def _equidistant(rank: np.ndarray, k: int) -> np.ndarray:
    """The stretches where the word of ``k`` letters has its nearest earlier occurrence at one
    distance; rows of start, length, distance."""
    count = len(rank)
    order = np.argsort(rank, kind="stable")
    distance = np.zeros(count, np.int64)
    same = rank[order[1:]] == rank[order[:-1]]
    distance[order[1:][same]] = (order[1:] - order[:-1])[same]
    edges = np.flatnonzero(np.diff(distance)) + 1
    starts = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [count]))
    rows = np.stack([starts, ends - starts - 1 + k, distance[starts]], axis=1)
    return rows[rows[:, 2] > 0]


def _best_phase(crossing: np.ndarray, period: int) -> int:
    """Where in a period to cut, so that fewest values cross."""
    turns = len(crossing) // period
    return int(np.argmin(crossing[: turns * period].reshape(turns, period).sum(0)))


def _occurrences(text: bytes, word: bytes, size: int) -> Iterator[int]:
    """Where a word stands in a text, without overlap, in letters of ``size`` bytes."""
    at = text.find(word)
    while at >= 0:
        if at % size:
            at = text.find(word, at + 1)
        else:
            yield at // size
            at = text.find(word, at + len(word))

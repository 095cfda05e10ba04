"""Finds repeated blocks in a function: blocks of ops that are equal up to their operands.

The ops of a function are read as a text, with one letter per op: its name, attributes and types.
Some ops are not letters.  Constants, numbers computed from them, and slices of arguments differ
between repetitions (layer 3 reads the third slice), cost nothing, and can stand anywhere.  A value
computed from constants for all repetitions, such as a mask, stands in the middle of the first one.
The slices of a table, a value that is computed once and then taken apart (a product hoisted out of
all steps of a loop), are not letters either.  The op that gives a table gets a letter of its own,
so that no repetition contains it.

Repeated words of the text are found by doubling (Karp, Miller and Rosenberg 1972): the words of 2k
letters are numbered by the pairs of words of k letters that they consist of.  For each length, the
nearest earlier occurrence of each word is known.  If it is at one distance ``d`` all along a
stretch of text, then the stretch also occurs ``d`` letters before.  If the two occurrences overlap
or touch, the text has period ``d`` there, and the repetitions are the iterations of a loop.  The
boundary between iterations is chosen so that few values cross it.  All of this is O(n log n) for n
ops, in numpy.

Equal letters do not make equal code.  :meth:`OpString.alike` then checks that operands come from
the same places.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import SPREAD
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait

SHORTEST = 8
"""The length of the shortest word that is searched for."""

MOST_APART = 256
"""The maximal number of words with non-adjacent occurrences that are searched for: the longest."""

MOST_KINDS = 16
"""The maximal number of kinds of blocks that alternate."""

_VIEWS = with_trait(Trait.RESHAPE) | {"jaxpr.slice"}

ROWS = 4
"""The minimal number of slices of one size of a table, per value that is sliced in the same way.  A
value that a block computes and slices is sliced in the same way in all blocks, and is no table."""


class RepeatedBlock(NamedTuple):
    """A stretch of ops that occurs at several places.

    Attributes:
      length: the number of ops.
      starts: the index of the first op of each occurrence, increasing and without overlap.
    """

    length: int
    starts: tuple[int, ...]

    @property
    def is_tandem(self) -> bool:
        """Whether each occurrence begins where the previous one ends."""
        return all(b - a == self.length for a, b in zip(self.starts, self.starts[1:], strict=False))


def op_string_of(body: FunctionView) -> OpString:
    """The op string of a function, read once."""
    if body.op_string is None:
        body.op_string = OpString(body)
    return body.op_string


class OpString:
    """The ops of a function as letters, and where their operands come from.

    Attributes:
      body: the function that was read.
      index: for each letter, the index of its op in the body.
      letters: the number of each letter, equal for equal ops.
      free: the constants that cost nothing, by value number.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        self.index: list[int] = []
        tables = _tables(body)
        arguments = {*range(body.arity), *tables}
        numbers: dict[Any, int] = {}
        letters: list[int] = []
        free, constant_ops = _of_constants(body)
        self.free: set[int] = free
        for i, signature in enumerate(body.signatures):
            if i in constant_ops:
                continue
            if signature.name in _VIEWS and arguments.issuperset(body.operands[i]):
                arguments.update(range(*body.results[i]))
            else:
                # An op with effects, or one that gives a table, equals no other.
                is_alone = signature.effects is not None or (
                    tables and not tables.isdisjoint(range(*body.results[i]))
                )
                key = i if is_alone else signature
                letters.append(numbers.setdefault(key, len(numbers)))
                self.index.append(i)
        self.letters: np.ndarray = np.array(letters, np.int64)

    @functools.cached_property
    def _operands(self) -> _FlatLists:
        return _FlatLists([self.body.operands[i] for i in self.index])

    @functools.cached_property
    def _results(self) -> _FlatLists:
        return _FlatLists([range(*self.body.results[i]) for i in self.index])

    @functools.cached_property
    def made(self) -> np.ndarray:
        """The letter that gives each value, by value number; -1 for arguments and for results of
        ops that are not letters."""
        makers = np.full(len(self.body.types), -1)
        makers[self._results.items] = self._results.owners
        return makers

    @functools.cached_property
    def last_use(self) -> np.ndarray:
        """The last letter that uses each value; ``len(letters)`` if it is returned, -1 if
        unused."""
        last = np.full(len(self.body.types), -1)
        # The last of several uses is written last, and stays.
        last[self._operands.items] = self._operands.owners
        last[self.body.returned] = len(self.letters)
        return last

    def op(self, letter: int) -> Any:
        """The op of a letter."""
        return self.body.ops[self.index[letter]]

    def sources(self, word: RepeatedBlock) -> tuple[np.ndarray, np.ndarray]:
        """The operands at each place of a word: value numbers, and the letters that give them or
        -1."""
        values = self._at(self._operands, word)
        return values, self.made[values]

    def readers(self, word: RepeatedBlock) -> np.ndarray:
        """Which op of a word reads each of its operands."""
        first = word.starts[0]
        return self._operands.owners[self._operands.of(first, word.length)] - first

    def used_by(self, first: int, which: np.ndarray) -> np.ndarray:
        """The values that some letters (a mask, from the first one on) use, by their numbers."""
        slots = self._operands.of(first, len(which))
        return self._operands.items[slots][which[self._operands.owners[slots] - first]]

    @functools.cached_property
    def words(self) -> list[RepeatedBlock]:
        """Words that occur at least twice, by decreasing coverage; they may overlap one another."""
        crossing: dict[int, np.ndarray] = {}
        words: dict[tuple[int, tuple[int, ...]], None] = {}
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
                words[distance, starts] = None
        whole = self.letters.tobytes()
        longest = sorted(apart.items(), key=lambda item: -item[1])[:MOST_APART]
        for content, length in longest:
            words[length, tuple(_occurrences(whole, content, self.letters.itemsize))] = None
        order = sorted(words, key=lambda word: -word[0] * (len(word[1]) - 1))
        return [RepeatedBlock(length, starts) for length, starts in order]

    def _crossing(self, period: int) -> np.ndarray:
        """For each letter, how many values made before it are read at or after it; only uses within
        ``period`` letters of the maker count."""
        values, used = self._uses
        near = used - self.made[values] <= period
        last = np.full(len(self.made), -1)
        last[values[near]] = used[near]
        crosses = last >= 0
        change = np.zeros(len(self.letters) + 1, np.int64)
        np.add.at(change, self.made[crosses] + 1, 1)
        np.subtract.at(change, last[crosses] + 1, 1)
        return np.cumsum(change)[:-1]

    @functools.cached_property
    def _uses(self) -> tuple[np.ndarray, np.ndarray]:
        """Each use of a letter's result, in order: the value's number and the using letter."""
        of_letters = self.made[self._operands.items] >= 0
        return self._operands.items[of_letters], self._operands.owners[of_letters]

    def alike(self, word: RepeatedBlock) -> RepeatedBlock:
        """The places of a word at which operands come from the same ops of the word, or from
        outside.  If no two places agree: of the longest part of the word in which the first two do.
        """
        if len(word.starts) < 2:
            return word
        wiring = self._wiring(word)
        classes = collections.defaultdict(list)
        for start, row in zip(word.starts, wiring, strict=True):
            classes[row.tobytes()].append(start)
        best = max(classes.values(), key=len)
        if len(best) > 1:
            return RepeatedBlock(word.length, tuple(best))
        slots = self._operands.of(word.starts[0], word.length)
        differ = np.unique(self._operands.owners[slots][wiring[0] != wiring[1]]) - word.starts[0]
        edges = [-1, *differ.tolist(), word.length]
        before, end = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
        starts = tuple([start + before + 1 for start in word.starts[:2]])
        return RepeatedBlock(end - before - 1, starts)

    def in_turns(self, word: RepeatedBlock) -> RepeatedBlock:
        """If blocks of several kinds alternate, like layers of a network that repeat a series, the
        rows of blocks with one block of each kind.  Kinds differ in how far back their operands are
        made, within the repetitions."""
        values, makers = self.sources(word)
        above = np.array(word.starts)[:, None] - makers
        number = values - self._first_result[makers]
        sources = np.where(makers < word.starts[0], -1, above * self._most_results + number)
        if (sources == sources[0]).all():
            return word
        kinds = np.unique(sources, axis=0, return_inverse=True)[1].reshape(-1)
        best, turn = slice(0, 1), 1
        for period in range(1, min(MOST_KINDS, len(kinds) // 2) + 1):
            stretch = _longest(kinds[period:] == kinds[:-period])
            stretch = slice(stretch.start, stretch.stop + period)
            if stretch.stop - stretch.start > best.stop - best.start:
                best, turn = stretch, period
        starts = word.starts[best]
        count = len(starts) // turn * turn
        return RepeatedBlock(word.length * turn, starts[:count:turn])

    def _wiring(self, word: RepeatedBlock) -> np.ndarray:
        """For each operand at each place, the result of the word that it is, by a number relative
        to the place; -1 if it comes from outside."""
        values, makers = self.sources(word)
        starts = np.array(word.starts)[:, None]
        within = makers - starts
        number = values - self._first_result[makers]
        return np.where(within < 0, -1, within * self._most_results + number)

    @functools.cached_property
    def _first_result(self) -> np.ndarray:
        """The number of each letter's first result."""
        return np.array([self.body.results[i][0] for i in self.index], np.int64)

    @functools.cached_property
    def _most_results(self) -> int:
        """The maximal number of results of a letter."""
        return int(np.diff(self._results.starts).max())

    @staticmethod
    def _at(lists: _FlatLists, word: RepeatedBlock) -> np.ndarray:
        """The items of the lists of a word's letters, one row per place."""
        first = lists.of(word.starts[0], word.length)
        slots = lists.starts[list(word.starts)][:, None] + np.arange(first.stop - first.start)
        return lists.items[slots]

    def packs(self, word: RepeatedBlock) -> list[tuple[int, ...]]:
        """For each op of a word, the indices in the body of its copies at the word's places."""
        return [tuple([self.index[start + i] for start in word.starts]) for i in range(word.length)]

    def outputs(self, word: RepeatedBlock) -> list[tuple[int, ...]]:
        """The results that are used outside of the word at some place, as numbers at every
        place."""
        ends = np.array(word.starts)[:, None] + word.length
        numbers = self._at(self._results, word)
        used = (self.last_use[numbers] >= ends).any(0)
        return [tuple(column) for column in numbers[:, used].T.tolist()]


class _FlatLists:
    """Lists of numbers as one array.

    Attributes:
      items: the items of all lists, one list after the other.
      starts: where each list begins, and where the last one ends.
      owners: for each item, the list that it is in.
    """

    def __init__(self, lists: Sequence[Sequence[int]]):
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        self.starts = np.concatenate(([0], np.cumsum(lengths)))
        self.items = np.fromiter(itertools.chain.from_iterable(lists), np.int64, self.starts[-1])
        self.owners = np.repeat(np.arange(len(lists)), lengths)

    def of(self, first: int, count: int) -> slice:
        """The slice of the items of ``count`` lists."""
        return slice(int(self.starts[first]), int(self.starts[first + count]))


def _tables(body: FunctionView) -> set[int]:
    """The values, by number, that are tables: their slices are not letters.  Excludes arguments."""
    rows: dict[tuple[int, ir.Type], set[Signature]] = collections.defaultdict(set)
    sliced: dict[Signature, set[int]] = collections.defaultdict(set)
    for signature, operands in zip(body.signatures, body.operands, strict=True):
        if signature.name == "jaxpr.slice" and operands[0] >= body.arity:
            rows[operands[0], signature.results[0]].add(signature)
            sliced[signature].add(operands[0])
    return {
        value
        for (value, _), of_it in rows.items()
        if len(of_it) >= ROWS * max(len(sliced[signature]) for signature in of_it)
    }


def _costs_nothing(signature: Signature) -> bool:
    """Whether an op on constants is free: a broadcast or the like, or a scalar computation."""
    name = signature.name
    return (
        name == "jaxpr.constant"
        or name in SPREAD
        or (name in ELEMENTWISE and not signature.results[0].shape)
    )


def _of_constants(body: FunctionView) -> tuple[set[int], set[int]]:
    """The constants that cost nothing, and the ops on constants alone that are not letters: the ops
    that give the free constants, those whose result several ops of one signature read as the same
    operand, and the ops that these depend on.  Other ops on constants are letters: the first step
    of a loop may be one, if the initial state is constant."""
    free: set[int] = set()
    constant_ops: set[int] = set()
    makers: dict[int, int] = {}
    readers: dict[int, list[int]] = collections.defaultdict(list)
    alike: collections.Counter[Any] = collections.Counter()
    for i, signature in enumerate(body.signatures):
        operands = body.operands[i]
        for j, value in enumerate(operands):
            if value in makers:
                readers[makers[value]].append(i)
                alike[makers[value], j, signature] += 1
        if free.issuperset(operands) and _costs_nothing(signature):
            free.update(range(*body.results[i]))
            constant_ops.add(i)
        elif signature.effects is None and all(v in free or v in makers for v in operands):
            makers.update(dict.fromkeys(range(*body.results[i]), i))
    constant_ops.update(maker for (maker, _, _), count in alike.items() if count > 1)
    # An op that is not a letter must not use one: the text must show all uses of its letters.
    for maker in reversed(readers):
        if not constant_ops.isdisjoint(readers[maker]):
            constant_ops.add(maker)
    return free, constant_ops


def _stretches(letters: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Stretches of a text that also occur earlier: start, length, distance to that occurrence."""
    count = len(letters)
    rank, k = letters, 1
    stretches = []
    while k < count:
        following = np.zeros(count, np.int64)
        following[:-k] = rank[k:] + 1
        rank = np.unique(rank * (count + 1) + following, return_inverse=True)[1].reshape(-1)
        k *= 2
        if k >= SHORTEST:
            stretches.append(_equidistant(rank, k))
        if rank.max() == count - 1:
            break
    if stretches:
        yield from sorted(set(map(tuple, np.concatenate(stretches).tolist())))


def _equidistant(rank: np.ndarray, k: int) -> np.ndarray:
    """The stretches along which the nearest earlier occurrence of each word of ``k`` letters is at
    the same distance; rows of start, length, distance."""
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


def _longest(mask: np.ndarray) -> slice:
    """The longest run of true elements."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
    if not len(edges):
        return slice(0, 0)
    first = 2 * int(np.argmax(edges[1::2] - edges[::2]))
    return slice(int(edges[first]), int(edges[first + 1]))


def _best_phase(crossing: np.ndarray, period: int) -> int:
    """The place in a period at which the fewest values cross."""
    turns = len(crossing) // period
    return int(np.argmin(crossing[: turns * period].reshape(turns, period).sum(0)))


def _occurrences(text: bytes, word: bytes, size: int) -> Iterator[int]:
    """The occurrences of a word in a text, without overlap, in letters of ``size`` bytes."""
    at = text.find(word)
    while at >= 0:
        if at % size:
            at = text.find(word, at + 1)
        else:
            yield at // size
            at = text.find(word, at + len(word))

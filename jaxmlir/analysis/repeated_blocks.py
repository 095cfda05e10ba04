"""Finding what a function does several times over: blocks of ops that are equal but for their
operands.

The ops of a function are read as a text, one letter for an op: its name, attributes and types.
Constants, numbers made of them, and slices of arguments are no letters: they differ from one
repetition to the next (layer 3 reads the third slice), cost nothing, and can stand anywhere.  Nor
is what is made of constants for all repetitions, such as a mask, which the first one has in its
midst.  Nor are the rows of a table, a value that is taken apart once for all: a product that has
been taken out of all steps of a loop.  What gives the table is like nothing else, so that it is in
no repetition.

Repeated words of the text are found by doubling (Karp, Miller and Rosenberg 1972): the words of 2k
letters are numbered by the pairs of words of k letters that they consist of.  For each length the
nearest earlier occurrence of each word is known, and where it is at one distance ``d`` all along a
stretch of text, that stretch stands ``d`` letters before once more.  If the two overlap or touch,
the text has the period ``d`` there, and the repetitions are the turns of a loop: where a turn ends
and the next one begins is chosen so that few values cross from one to the next.  All of this is
O(n log n) for n ops, in numpy.

Equal letters do not make equal code: that operands come from the same places is checked next
(:meth:`OpString.alike`).
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
"""The shortest word that is looked for."""

MOST_APART = 256
"""How many of the words that do not follow on one another are looked for: the longest."""

MOST_KINDS = 16
"""How many kinds of blocks may take turns."""

_VIEWS = with_trait(Trait.RESHAPE) | {"jaxpr.slice"}

ROWS = 4
"""How many slices of one size a table has at least, for each value that is sliced like it: what a
block makes and slices is sliced alike in all blocks."""


class RepeatedBlock(NamedTuple):
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


def op_string_of(body: FunctionView) -> OpString:
    """The op string of a function, read once."""
    if body.op_string is None:
        body.op_string = OpString(body)
    return body.op_string


class OpString:
    """The ops of a function as letters, and where their operands come from.

    Attributes:
      body: the function that was read.
      index: of each letter, its op's index in the body.
      letters: their numbers, equal for equal ops.
      free: the constants among the values that are no letters.
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
                # What has effects is like nothing else.
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
        """The letter that gives each value, by its number in the body; -1 for arguments and for
        what is no letter."""
        makers = np.full(len(self.body.types), -1)
        makers[self._results.items] = self._results.owners
        return makers

    @functools.cached_property
    def last_use(self) -> np.ndarray:
        """The last letter that uses each value; ``len(letters)`` for what the function returns, -1
        for what nobody uses."""
        last = np.full(len(self.body.types), -1)
        # Of several uses the last one counts, which is written last.
        last[self._operands.items] = self._operands.owners
        last[self.body.returned] = len(self.letters)
        return last

    def op(self, letter: int) -> Any:
        """The op of a letter."""
        return self.body.ops[self.index[letter]]

    def sources(self, word: RepeatedBlock) -> tuple[np.ndarray, np.ndarray]:
        """The number of each operand at each place of a word, and the letter that gives it; -1
        where none does."""
        values = self._at(self._operands, word)
        return values, self.made[values]

    def readers(self, word: RepeatedBlock) -> np.ndarray:
        """Which op of a word reads each of its operands."""
        first = word.starts[0]
        return self._operands.owners[self._operands.of(first, word.length)] - first

    def used_by(self, first: int, which: np.ndarray) -> np.ndarray:
        """The values that some letters use, by their numbers.

        Args:
          which: of the letters from the first one on, as a mask.
        """
        slots = self._operands.of(first, len(which))
        return self._operands.items[slots][which[self._operands.owners[slots] - first]]

    @functools.cached_property
    def words(self) -> list[RepeatedBlock]:
        """Words that stand at two places at least, those that cover most first; they may overlap
        one another."""
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
        """How many values that are used within a period cross from above each op to it."""
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
        """Each use of a letter's result, in order: its number, and the letter that uses it."""
        of_letters = self.made[self._operands.items] >= 0
        return self._operands.items[of_letters], self._operands.owners[of_letters]

    def alike(self, word: RepeatedBlock) -> RepeatedBlock:
        """The places of a word where operands come from the same ops in it, or from without.

        If there are no two, then those of the longest part of the word of which there are.
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
        """The rows of blocks of several kinds that take turns, as the layers of a network do that
        goes through a series: rows with one of each.

        The kinds are told apart by how far above operands come from, if from another block.
        """
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
        """The result in the word that each operand at each place is, by a number that is the same
        at all places; -1 where it comes from without."""
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
        """How many results a letter has at most."""
        return int(np.diff(self._results.starts).max())

    @staticmethod
    def _at(lists: _FlatLists, word: RepeatedBlock) -> np.ndarray:
        """The items of lists at the letters of a word, a row for each of its places."""
        first = lists.of(word.starts[0], word.length)
        slots = lists.starts[list(word.starts)][:, None] + np.arange(first.stop - first.start)
        return lists.items[slots]

    def packs(self, word: RepeatedBlock) -> list[tuple[int, ...]]:
        """For each op of a word the ops, by index in the body, that it is at the word's places."""
        return [tuple([self.index[start + i] for start in word.starts]) for i in range(word.length)]

    def outputs(self, word: RepeatedBlock) -> list[tuple[int, ...]]:
        """The results that are used outside of the word, at some of its places: of each, its number
        at every place."""
        ends = np.array(word.starts)[:, None] + word.length
        numbers = self._at(self._results, word)
        used = (self.last_use[numbers] >= ends).any(0)
        return [tuple(column) for column in numbers[:, used].T.tolist()]


class _FlatLists:
    """Lists of numbers as one array.

    Attributes:
      items: of all lists, one after the other.
      starts: where each list begins, and where the last one ends.
      owners: of each item the list that it is in.
    """

    def __init__(self, lists: Sequence[Sequence[int]]):
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        self.starts = np.concatenate(([0], np.cumsum(lengths)))
        self.items = np.fromiter(itertools.chain.from_iterable(lists), np.int64, self.starts[-1])
        self.owners = np.repeat(np.arange(len(lists)), lengths)

    def of(self, first: int, count: int) -> slice:
        """The items of some lists."""
        return slice(int(self.starts[first]), int(self.starts[first + count]))


def _tables(body: FunctionView) -> set[int]:
    """The values, by number, whose slices are no letters: arguments are not among them."""
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
    """Whether an op makes a constant of constants: spreads one out, or computes a number."""
    name = signature.name
    return (
        name == "jaxpr.constant"
        or name in SPREAD
        or (name in ELEMENTWISE and not signature.results[0].shape)
    )


def _of_constants(body: FunctionView) -> tuple[set[int], set[int]]:
    """The values that are constants and cost nothing, and the ops of constants alone that are no
    letters: those which give these values, and those whose results ops of one signature read alike,
    with what these are made of.

    Not all that is made of constants: the first step of a loop may be, from a constant state.
    """
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
    # What is no letter is made of none: who reads the text sees all uses of its letters.
    for maker in reversed(readers):
        if not constant_ops.isdisjoint(readers[maker]):
            constant_ops.add(maker)
    return free, constant_ops


def _stretches(letters: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Stretches of a text that stand in it once more: start, length, and how far before."""
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


def _longest(mask: np.ndarray) -> slice:
    """The longest run of what is true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
    if not len(edges):
        return slice(0, 0)
    first = 2 * int(np.argmax(edges[1::2] - edges[::2]))
    return slice(int(edges[first]), int(edges[first + 1]))


def _best_phase(crossing: np.ndarray, period: int) -> int:
    """The place in a period to cut, so that fewest values cross."""
    turns = len(crossing) // period
    return int(np.argmin(crossing[: turns * period].reshape(turns, period).sum(0)))


def _occurrences(text: bytes, word: bytes, size: int) -> Iterator[int]:
    """The places of a word in a text, without overlap, in letters of ``size`` bytes."""
    at = text.find(word)
    while at >= 0:
        if at % size:
            at = text.find(word, at + 1)
        else:
            yield at // size
            at = text.find(word, at + len(word))

"""``jaxpr-vectorize-blocks``: the same done to several things one after another is done to a batch.

A loop over examples, over the heads of an attention or over the members of an ensemble, unrolled by
Python, is a block of ops that stands several times in a program.  Of blocks that are equal but for
their operands (:mod:`jaxmlir.analysis.repeated_blocks`), those ops are taken that need nothing of
another block; they are one block on a batch::

    y0 = f(x0, w);  y1 = f(x1, w);  ...   ->   y = vmap(f, (0, None))(stack(x0, x1, ...), w)

Operands that are the same everywhere are not batched, others are stacked, or are the rows of an
array as it is.  Results are rows of the batched ones, but often all of them go to one place::

    t + y0 + y1 + ...        ->   t + sum(y, 0)
    concatenate(y0, y1, ...) ->   reshape(moveaxis(y, ...))

What stands between the blocks and needs results of the first ones moves behind the batch.  Slices
of one size are alike wherever they begin (:mod:`jaxmlir.optimize.vectorize.parametrize_slices`).
Where each example takes several steps that are alike, all of them are one block: it ends where a
step needs nothing of the one before.

What is gained: a factor that products have in common is read once, so that those of a matrix and
many vectors are one product of matrices; and a kernel is started once, not once for each block.
What it costs is to put operands together, and to take results apart.  Blocks that are large gain
nothing and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import ADDITIONS, Work, is_plain_array, size
from jaxmlir.analysis.repeated_blocks import OpString, Place, RepeatedBlock, op_string_of
from jaxmlir.dialect.builder import converted, erase, inline, only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.vectorize.batchable import MIN_GAIN, STACKED, Batchable, gain, make_batches
from jaxmlir.optimize.vectorize.blocks import Blocks
from jaxmlir.optimize.vectorize.parametrize_slices import with_dynamic_slices
from jaxmlir.optimize.vectorize.stacking import JOINS, joined, rows_of, stack, total_of
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis, vmap_of

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


# -- Where the results of blocks go: the rows of a batched result, or all of them at once --


def use(
    rules: Rules, values: Sequence[ir.Value], batched: ir.Value, place: ir.Operation
) -> list[ir.Operation]:
    """Uses the rows of a batched result, or all of them at once; the ops that are needed no more.

    Args:
      values: the results that the rows take the place of.
      place: the op before which rows are taken apart.
    """
    chain = sum_of(values)
    if chain is not None:
        start, users = chain
        with ir.InsertionPoint(users[-1]), users[-1].location:
            total = converted(total_of(rules, batched), users[-1].results[0].type)
            if start is not None:
                name, type_ = users[0].name, users[-1].results[0].type
                total = ir.Operation.create(name, [type_], [start, total]).result
        users[-1].results[0].replace_all_uses_with(total)
        return users
    whole = concatenation_of(values)
    if whole is not None:
        with ir.InsertionPoint(whole), whole.location:
            value = joined(rules, batched, whole, whole.name)
        whole.results[0].replace_all_uses_with(converted(value, whole.results[0].type))
        return [whole]
    with ir.InsertionPoint(place), place.location:
        rows = rows_of(rules, batched)
    for value, row in zip(values, rows, strict=True):
        value.replace_all_uses_with(row)
    return []


def sum_of(values: Sequence[ir.Value]) -> tuple[ir.Value | None, list[ir.Operation]] | None:
    """If values are added up one after another, and used by nothing else: what they are added to,
    and the additions."""
    users: list[ir.Operation] = []
    start: ir.Value | None = None
    total: ir.Value | None = None
    for k, value in enumerate(values):
        user = only_user(value)
        if user is None or user.name not in ADDITIONS:
            return None
        left, right = user.operands
        other = right if left == value else left
        if user.results[0].type.shape != value.type.shape:
            return None
        if k == 0:
            start = None if other == values[1] else other
        elif k == 1 and start is None:
            if user != users[0]:
                return None
            continue
        elif other != total:
            return None
        if total is not None:
            next_user = only_user(total)
            if next_user is None or next_user != user:
                return None
        users.append(user)
        total = user.results[0]
    return start, users


def concatenation_of(values: Sequence[ir.Value]) -> ir.Operation | None:
    """The op that puts all of some values together in order, if nothing else uses them."""
    user = only_user(values[0])
    if user is None or user.name not in JOINS or list(user.operands) != list(values):
        return None
    return user if all(only_user(v) is not None for v in values) else None


# -- Which ops of equal blocks can be one batch, and whether that pays --
#
# An op of a block is *free* if nothing that it needs is made by another block, and if its batch
# does to each member what the op does to it alone, no dearer.  What an op that is not free gives is
# of all blocks, and so is what any op between the blocks makes of results of theirs: it moves
# behind the batch.


# Ops of a block, at least.
MIN_OPS = 2


@dataclass
class Candidate(Blocks):
    """Blocks that are to be one.

    Attributes:
      free: the ops of a block that are free.
      inputs: operands from without: each as the places that read it.
      outputs: results that something without reads.
      moved: ops between the blocks that need results of theirs, by index in the body.
    """

    free: list[int] = field(default_factory=list)
    inputs: list[list[Place]] = field(default_factory=list)
    outputs: list[Place] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls, rules: Rules, text: OpString, word: RepeatedBlock, batchable: Batchable
    ) -> Candidate | None:
        """The blocks; ``None`` if they cannot be one."""
        found = cls(rules, text, word)
        if not found._find_free(batchable):
            return None
        found._find_edges()
        types = [*map(found.operand_type, found.inputs), *map(found.result_type, found.outputs)]
        return found if all(map(is_plain_array, types)) else None

    def _find_free(self, batchable: Batchable) -> bool:
        """Finds the ops that are free; whether they are enough, and the others can move."""
        text, body = self.text, self.text.body
        first, length = self.word.starts[0], self.word.length
        if not all(text.signature(first + i).results for i in range(length)):
            return False
        between, given = self._between()
        bound = self._bound(given)

        def is_common(i: int, j: int) -> bool:
            return self.is_same([(i, j)])

        # An op may be bound in one block only, by which those that use it are in all.
        missing: set[int] = set()
        for i, index in enumerate(text.index[first : first + length]):
            # The blocks have the same signatures.
            if (
                i in bound
                or not missing.isdisjoint(body.operands[index])
                or not batchable.is_so(body.signatures[index], partial(is_common, i))
            ):
                missing.update(range(*body.results[index]))
            else:
                self.free.append(i)
        if len(self.free) < MIN_OPS:
            return False
        last = text.index[self.word.starts[-1] + self.free[-1]]
        others = sorted({*range(length)} - {*self.free})
        stay = [text.index[start + i] for start in self.word.starts for i in others]
        self.moved = [index for index in sorted([*between, *stay]) if index < last]
        return all(body.signatures[index].effects is None for index in self.moved)

    def _between(self) -> tuple[list[int], set[int]]:
        """The ops between the blocks that need results of theirs, by index in the body, and the
        values that they give."""
        text, body, starts = self.text, self.text.body, self.word.starts
        letters = [letter for start in starts for letter in range(start, start + self.word.length)]
        members = {text.index[letter] for letter in letters}
        of_blocks = set(text.numbers(self.word).ravel().tolist())
        found: list[int] = []
        given: set[int] = set()
        for index in range(min(members), max(members)):
            if index not in members and not of_blocks.isdisjoint(body.operands[index]):
                found.append(index)
                given.update(range(*body.results[index]))
                of_blocks.update(range(*body.results[index]))
        return found, given

    def _bound(self, given: set[int]) -> set[int]:
        """The ops of a block that in one of the blocks need what another one has made.

        Args:
          given: what is made between them of what they have made.
        """
        text, word = self.text, self.word
        first = word.starts[0]
        block = np.full(word.starts[-1] + word.length - first, -1)
        for number, start in enumerate(word.starts):
            block[start - first :][: word.length] = number
        values, made = text.sources(word)
        maker = np.where(made < first, -1, block[np.maximum(made - first, 0)])
        of_others = (maker >= 0) & (maker != np.arange(len(word.starts))[:, None])
        if given:
            of_others |= np.isin(values, [*given])
        return set(text.readers(word)[of_others.any(0)].tolist())

    def _find_edges(self) -> None:
        """Finds what goes in and what comes out."""
        text, word, free = self.text, self.word, set(self.free)
        groups = ([p for p in places if p[0] in free] for places in text.inputs(word))
        self.inputs = sorted(filter(None, groups))
        first, end = word.starts[0], word.starts[-1] + word.length
        others = np.ones(end - first, bool)
        for start in word.starts:
            others[np.array(self.free) + start - first] = False
        used = set(text.used_by(first, others).tolist())
        for i in self.free:
            for j in range(len(text.signature(first + i).results)):
                numbers = [text.result_number(start, (i, j)) for start in word.starts]
                if not used.isdisjoint(numbers) or (text.last_use[numbers] >= end).any():
                    self.outputs.append((i, j))

    def pays(self, work: Work, min_gain: float, stacked: float) -> bool:
        """Whether what is saved is worth what is put together and taken apart."""
        text, body, count = self.text, self.text.body, len(self.word.starts)
        apart = [places for places in self.inputs if not self.is_same(places)]
        first = self.word.starts[0]
        index = text.index[first : first + self.word.length]
        varying = {(index[i], j) for places in apart for i, j in places}
        total, saved = gain(work, body, [index[i] for i in self.free], varying)
        if (count - 1) * saved < min_gain * count * total:
            return False
        moved = 0
        for places in apart:
            if not self.is_at_hand(places):
                moved += count * size(self.operand_type(places))
        for place in self.outputs:
            values = self.results(place)
            if sum_of(values) is None and concatenation_of(values) is None:
                moved += count * size(self.result_type(place))
        return moved <= stacked * (count - 1) * saved


# -- Writing a batch in place of blocks --


def write(blocks: Candidate) -> list[int]:
    """Writes the batch in place of the blocks; which letters of the text besides these are gone."""
    text, starts, count = blocks.text, blocks.word.starts, len(blocks.word.starts)
    first = text.op(starts[0] + blocks.free[0])
    remark(
        first,
        f"batched: {count} independent blocks of {len(blocks.free)} ops are one, of which "
        f"{len(blocks.inputs)} values go in and {len(blocks.outputs)} come out",
    )
    last = text.op(starts[-1] + blocks.free[-1]).operation
    place = last
    for index in blocks.moved:
        op = text.body.ops[index].operation
        op.move_after(place)
        place = op
    results = _write_batch(blocks, first.location, last)
    gone: list[int] = []
    for output, batched in zip(blocks.outputs, results, strict=True):
        users = use(blocks.rules, blocks.results(output), batched, last)
        for op in reversed(users):
            erase(op)
        if users:
            # Each was the only one of a result.
            numbers = [text.result_number(start, output) for start in starts]
            gone += text.last_use[numbers].tolist()
    for start in reversed(starts):
        for i in reversed(blocks.free):
            erase(text.op(start + i))
    return gone


def _write_batch(blocks: Candidate, location: ir.Location, last: ir.Operation) -> list[ir.Value]:
    """Writes the ops of the batch before an op; what they give."""
    rules, count = blocks.rules, len(blocks.word.starts)
    symbol, arguments = _write_function(blocks)
    dims = tuple([None if blocks.is_same(places) else 0 for places in arguments])
    batched, _ = vmap_of(rules, symbol, dims, batch_axis(count), (0,) * len(blocks.outputs))
    with ir.InsertionPoint(last), location:
        args = [
            blocks.column(places)[0] if dim is None else stack(rules, blocks.column(places))
            for places, dim in zip(arguments, dims, strict=True)
        ]
        return inline(rules.program.function(batched), args)


def _write_function(blocks: Candidate) -> tuple[str, list[list[Place]]]:
    """A block as a function; its symbol, and the inputs that are its arguments."""
    arguments, constants = blocks.arguments_and_constants(blocks.inputs)
    name = f"{blocks.text.body.function.name.value}.block"
    symbol = blocks.write_function(name, blocks.free, arguments, constants, blocks.outputs)
    return symbol, arguments


# How often a function is read again after blocks of it have been batched.
MAX_ROUNDS = 4


class VectorizeBlocks(Pass):
    """Make blocks of ops that are alike and independent of each other one block on a batch.

    Options:
      min-gain: the part of the work that has to be saved.
      stacked: how many bytes may be put together or taken apart for each flop that is saved.
    """

    name: ClassVar[str] = "jaxpr-vectorize-blocks"
    min_gain: Amount = MIN_GAIN
    stacked: Amount = STACKED

    def run(self, program: Module) -> bool:
        return batch_blocks(program, self.min_gain, self.stacked) > 0


def batch_blocks(program: Module, min_gain: float = MIN_GAIN, stacked: float = STACKED) -> int:
    """Batches blocks in place; how many batches were made."""

    def search(rules: Rules, work: Work) -> Callable[[FunctionView], int]:
        return _Search(rules, work, min_gain, stacked).batched

    return make_batches(program, search, MAX_ROUNDS)


class _Search:
    """The search for blocks of a program that are worth batching."""

    def __init__(self, rules: Rules, work: Work, min_gain: float, stacked: float):
        self._rules, self._work = rules, work
        self._min_gain, self._stacked = min_gain, stacked
        self._batchable = Batchable(rules)

    def batched(self, body: FunctionView) -> int:
        """Batches blocks of a function that do not stand within each other; how many batches."""
        return with_dynamic_slices(self._rules.program, body, self._batched)

    def _batched(self, body: FunctionView) -> int:
        text = op_string_of(body)
        taken = np.zeros(len(text.letters), bool)
        count = 0
        for word in _in_turns(text):
            word = text.alike(word)
            span = slice(word.starts[0], word.starts[-1] + word.length)
            if len(word.starts) < 2 or word.length < MIN_OPS or taken[span].any():
                continue
            blocks = Candidate.of(self._rules, text, word, self._batchable)
            if blocks is None or not blocks.pays(self._work, self._min_gain, self._stacked):
                continue
            taken[span] = True
            taken[write(blocks)] = True
            count += 1
        return count


def _in_turns(text: OpString) -> Iterator[RepeatedBlock]:
    """The words of a text that follow on one another; before those of which several are a block
    that is independent of others, as the steps of each example are, these blocks."""
    for word in text.words:
        if not word.is_tandem:
            continue
        # Two blocks of two.
        if len(word.starts) >= 4:
            turns = text.in_turns(word)
            if turns.length > word.length:
                yield turns
        yield word

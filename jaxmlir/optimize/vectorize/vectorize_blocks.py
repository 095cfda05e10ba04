"""``jaxpr-vectorize-blocks``: independent blocks of equal ops become one block on a batch.

A loop over examples, over the heads of an attention or over the members of an ensemble, unrolled by
Python, is a block of ops that repeats in a program.  The blocks are equal but for their operands
(:mod:`jaxmlir.analysis.repeated_blocks`).  The pass takes those of their ops that do not depend on
another block, and makes one block on a batch of them::

    y0 = f(x0, w);  y1 = f(x1, w);  ...   ->   y = vmap(f, (0, None))(stack(x0, x1, ...), w)

Operands that are the same in all blocks are not batched.  The others are stacked, unless they are
the rows of an array already.  Results are rows of the batched ones, but often all of them have one
user, or one chain of users::

    t + y0 + y1 + ...        ->   t + sum(y, 0)
    concatenate(y0, y1, ...) ->   reshape(moveaxis(y, ...))

Ops between the blocks that depend on the first blocks move behind the batch.  Slices of one size
count as equal wherever they begin (:func:`.with_dynamic_slices`).
If each example takes several equal steps, these together are one block: it ends where a step does
not depend on the one before.

The gain: a common factor of products is read once, so that products of a matrix and many vectors
are one product of matrices; and a kernel is started once, not once for each block.  The cost:
operands are stacked, and results are sliced.  Large blocks gain nothing and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import ADDITIONS, is_plain_array
from jaxmlir.analysis.repeated_blocks import OpString, RepeatedBlock, op_string_of
from jaxmlir.dialect.builder import erase
from jaxmlir.dialect.ir import ir
from jaxmlir.errors import count
from jaxmlir.optimize.vectorize.batchable import Batchable
from jaxmlir.optimize.vectorize.isomorphic import (
    BatchGroups,
    Column,
    Group,
    GroupSearch,
    dependents_between,
    may_move,
    move_behind,
    with_dynamic_slices,
)
from jaxmlir.optimize.vectorize.slp import Seed, seeds
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

# -- The users of the results of blocks: one sink for all of them, or any others --


class _Sinks:
    """The sinks of a function as it was read: concatenations, sums, scatters of alike values."""

    def __init__(self, body: FunctionView):
        self._body = body
        self._seeds = {frozenset(seed.values): seed for seed in seeds(body, 2)}
        # Ops that are erased.
        self._gone: set[int] = set()

    def of(self, column: Column) -> Seed | None:
        """The only sink of all values of a column; ``None`` if there is none.

        The sink may take other values, too.
        """
        seed = self._seeds.get(frozenset(column))
        if seed is None:
            return None
        body = self._body
        is_sum = body.names[seed.sink] in ADDITIONS
        if seed.values != column and not is_sum:
            return None
        chain = set(seed.chain)
        if not body.outputs.isdisjoint(column):
            return None
        if not all(chain.issuperset(body.users[value]) for value in column):
            return None
        is_there = self._gone.isdisjoint({*chain, *map(body.makers.__getitem__, seed.meeting)})
        return seed if is_there else None

    def forget(self, ops: Iterable[int]) -> None:
        """Records that ops are erased."""
        self._gone.update(ops)


# -- Which ops of equal blocks can be one batch, and whether that pays --
#
# An op of a block is *free* if it does not depend on another block, and if its batch gives the same
# results at no higher cost per member.  An op that is not free counts as depending on all blocks,
# and so does any op between the blocks that depends on one of them: it moves behind the batch.


# The least number of ops of a block.
MIN_OPS = 2


class BlockBatch(Group):
    """The free ops of blocks, which become one batch.

    Attributes:
      behind: the ops that have to move behind the batch, by index in the body.
    """

    behind: list[int]

    @classmethod
    def of(
        cls, rules: Rules, text: OpString, block: RepeatedBlock, batchable: Batchable
    ) -> BlockBatch | None:
        """The batch of repeated blocks; ``None`` if they cannot be one."""
        body, packs = text.body, text.packs(block)
        signatures = [body.signatures[pack[0]] for pack in packs]
        if not all(signature.results for signature in signatures):
            return None
        members = {op for pack in packs for op in pack}
        between = dependents_between(body, members)
        bound = _bound(text, block, between)
        blocks = Group(rules, body, packs, constants=text.free)
        free: list[Column] = []
        # Values of the first block that are not free: an op that is bound in one block only binds
        # its users in all blocks.
        missing: set[int] = set()
        for i, (pack, signature) in enumerate(zip(packs, signatures, strict=True)):
            columns = blocks.operands(pack)

            def is_common(j: int, columns: list[Column] = columns) -> bool:
                return blocks.is_same(columns[j])

            if (
                i in bound
                or not missing.isdisjoint(body.operands[pack[0]])
                or not batchable.is_so(signature, is_common)
            ):
                missing.update(range(*body.results[pack[0]]))
            else:
                free.append(pack)
        if len(free) < MIN_OPS:
            return None
        last = free[-1][-1]
        stay = members.difference(*free)
        moved = [index for index in sorted({*between, *stay}) if index < last]
        if not may_move(rules, body, moved):
            return None
        candidate = cls(rules, body, free, constants=text.free)
        candidate.behind = moved
        candidate.outputs = candidate._used_outside(text, block)
        types = map(candidate.type, (*candidate.inputs, *candidate.outputs))
        return candidate if all(map(is_plain_array, types)) else None

    def _used_outside(self, text: OpString, block: RepeatedBlock) -> list[Column]:
        """The results that other ops read, in the blocks or outside."""
        first, end = block.starts[0], block.starts[-1] + block.length
        free = {op for pack in self.packs for op in pack}
        others = np.array([index not in free for index in text.index[first:end]])
        used = set(text.used_by(first, others).tolist())
        return [
            column
            for pack in self.packs
            for column in self.results(pack)
            if not used.isdisjoint(column) or (text.last_use[list(column)] >= end).any()
        ]

    def is_worth_it(self, search: GroupSearch, sinks: _Sinks) -> bool:
        """Whether the savings are worth the stacked operands and sliced results."""

        def apart() -> list[Column]:
            return [column for column in self.outputs if sinks.of(column) is None]

        total, saved = self.gain(search.work)
        return self.pays(search, total, saved, apart)

    def write(self, sinks: _Sinks) -> list[int]:
        """Replaces the ops by the batch; returns which other ops are erased."""
        body, packs, rules = self.body, self.packs, self.rules
        first, last = body.ops[packs[0][0]], body.ops[packs[-1][-1]].operation
        remark(
            first,
            f"batched {self.count} independent blocks of {len(packs)} ops into one, with "
            f"{count(len(self.inputs), 'input')} and {count(len(self.outputs), 'output')}",
        )
        move_behind(body, self.behind, last)
        name = f"{body.function.name.value}.block"
        gone: list[int] = []
        apart: list[tuple[Column, ir.Value]] = []
        results = self.write_batch(name, self.outputs, last, first.location)
        for column, batched in zip(self.outputs, results, strict=True):
            sink = sinks.of(column)
            if sink is None:
                apart.append((column, batched))
                continue
            sink.write(rules, body, batched)
            for op in reversed(sink.chain):
                erase(body.ops[op])
            gone += sink.chain
            sinks.forget(sink.chain)
        # Only now, as the new sinks may read other results of the blocks.
        for column, batched in apart:
            with ir.InsertionPoint(last), last.location:
                self.take_apart(column, batched)
        self.erase()
        sinks.forget(op for pack in packs for op in pack)
        return gone


def _bound(text: OpString, block: RepeatedBlock, between: Sequence[int]) -> set[int]:
    """The ops of a block that depend on another block, in at least one of the blocks.

    Args:
      between: the ops between the blocks that depend on them.
    """
    first = block.starts[0]
    member = np.full(block.starts[-1] + block.length - first, -1)
    for number, start in enumerate(block.starts):
        member[start - first :][: block.length] = number
    values, sources = text.sources(block)
    maker = np.where(sources < first, -1, member[np.maximum(sources - first, 0)])
    of_others = (maker >= 0) & (maker != np.arange(len(block.starts))[:, None])
    derived = [value for index in between for value in range(*text.body.results[index])]
    if derived:
        of_others |= np.isin(values, derived)
    return set(text.readers(block)[of_others.any(0)].tolist())


class _BlockSearch(GroupSearch):
    """Finds the blocks of a program that are worth batching."""

    def batch(self, body: FunctionView) -> int:
        """Batches blocks of a function that do not overlap; returns the number of batches."""
        return with_dynamic_slices(self.rules.program, body, self._batch)

    def _batch(self, body: FunctionView) -> int:
        text = op_string_of(body)
        taken = np.zeros(len(text.letters), bool)
        sinks: _Sinks | None = None
        count = 0
        for block in _in_turns(text):
            block = text.alike(block)
            span = slice(block.starts[0], block.starts[-1] + block.length)
            if len(block.starts) < 2 or block.length < MIN_OPS or taken[span].any():
                continue
            blocks = BlockBatch.of(self.rules, text, block, self.batchable)
            if blocks is None:
                continue
            sinks = sinks or _Sinks(body)
            if not blocks.is_worth_it(self, sinks):
                continue
            taken[span] = True
            for op in blocks.write(sinks):
                letters = text.made[range(*body.results[op])]
                taken[letters[letters >= 0]] = True
            count += 1
        return count


def _in_turns(text: OpString) -> Iterator[RepeatedBlock]:
    """The words of a text that repeat consecutively.

    If several occurrences of a word make a block that is independent of others, such as the steps
    of an example, the larger block comes before the word.
    """
    for word in text.words:
        if not word.is_tandem:
            continue
        # At least two blocks of two steps.
        if len(word.starts) >= 4:
            turns = text.in_turns(word)
            if turns.length > word.length:
                yield turns
        yield word


class VectorizeBlocks(BatchGroups):
    """Batch similar blocks of ops that are independent of each other."""

    name: ClassVar[str] = "jaxpr-vectorize-blocks"
    search: ClassVar = _BlockSearch
    max_rounds: ClassVar[int] = 4

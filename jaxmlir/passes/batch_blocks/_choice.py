"""Which ops of equal blocks can be one batch, and whether that pays.

An op of a block is *free* if nothing that it needs is made by another block, and if its batch does
to each member what the op does to it alone, no dearer.  What an op that is not free gives is of all
blocks, and so is what any op between the blocks makes of results of theirs: it moves behind the
batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from jaxmlir.passes._batchable import Batchable, gain
from jaxmlir.passes._blocks import Blocks
from jaxmlir.passes._repeats import Place, Text, Word
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import Work, is_plain_array, size
from jaxmlir.passes.batch_blocks._results import concatenation_of, sum_of

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
    def of(cls, rules: Rules, text: Text, word: Word, batchable: Batchable) -> Candidate | None:
        """The blocks; ``None`` if they cannot be one."""
        found = cls(rules, text, word)
        if not found._find_free(batchable) or len(found.free) < MIN_OPS:
            return None
        found._find_edges()
        types = [*map(found.operand_type, found.inputs), *map(found.result_type, found.outputs)]
        return found if all(map(is_plain_array, types)) else None

    def _find_free(self, batchable: Batchable) -> bool:
        """Finds the ops that are free; whether the others can move."""
        text, body = self.text, self.text.body
        first, length = self.word.starts[0], self.word.length
        if not all(text.signature(first + i).results for i in range(length)):
            return False
        members = {
            text.index[start + i]: (block, i)
            for block, start in enumerate(self.word.starts)
            for i in range(length)
        }
        is_common = cache(lambda i, j: self.is_same([(i, j)]))
        # The blocks have the same signatures.
        can_be = cache(lambda i: batchable.is_so(text.signature(first + i), partial(is_common, i)))
        bound: set[int] = set()
        # The block of which each value is made, or several.
        several = len(self.word.starts)
        block_of: dict[int, int] = {}
        dependent = []
        for index in range(min(members), max(members) + 1):
            read = [block_of[v] for v in body.operands[index] if v in block_of]
            block, i = members.get(index, (several, None))
            if i is not None and (read.count(block) < len(read) or not can_be(i)):
                bound.add(i)
                block = several
            if i is not None or read:
                dependent.append(index)
                for v in range(*body.results[index]):
                    block_of[v] = block
        # An op may be bound in one block only, by which those that use it are in all.
        missing: set[int] = set()
        for i, index in enumerate(text.index[first : first + length]):
            if i in bound or not missing.isdisjoint(body.operands[index]):
                missing.update(range(*body.results[index]))
            else:
                self.free.append(i)
        if not self.free:
            return False
        free = set(self.free)
        last = text.index[self.word.starts[-1] + self.free[-1]]
        self.moved = [
            index
            for index in dependent
            if index < last and not (index in members and members[index][1] in free)
        ]
        return all(body.signatures[index].effects is None for index in self.moved)

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

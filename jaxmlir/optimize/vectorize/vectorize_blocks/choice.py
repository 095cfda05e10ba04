"""Which ops of equal blocks can be one batch, and whether that pays.

An op of a block is *free* if nothing that it needs is made by another block, and if its batch does
to each member what the op does to it alone, no dearer.  What an op that is not free gives is of all
blocks, and so is what any op between the blocks makes of results of theirs: it moves behind the
batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from jaxmlir.analysis.op_counts import Work, is_plain_array, size
from jaxmlir.analysis.repeated_blocks import OpString, Place, RepeatedBlock
from jaxmlir.optimize.vectorize.batchable import Batchable, gain
from jaxmlir.optimize.vectorize.blocks import Blocks
from jaxmlir.optimize.vectorize.vectorize_blocks.results import concatenation_of, sum_of
from jaxmlir.transforms.templates import Rules

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

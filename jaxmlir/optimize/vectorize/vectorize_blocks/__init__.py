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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import Work
from jaxmlir.analysis.repeated_blocks import OpString, RepeatedBlock, op_string_of
from jaxmlir.optimize.vectorize.batchable import MIN_GAIN, STACKED, Batchable, make_batches
from jaxmlir.optimize.vectorize.parametrize_slices import with_dynamic_slices
from jaxmlir.optimize.vectorize.vectorize_blocks.choice import MIN_OPS, Candidate
from jaxmlir.optimize.vectorize.vectorize_blocks.write import write
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

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

"""``jaxpr-slp-vectorize``: what is put together, added up or written is computed together.

What Python computes in a loop and stacks, or adds up, is one op over and over, on operands that
are given by the same op over and over.  Starting where the results meet, such ops are packed into
one on a batch, and so are those that give their operands, until there are values that are not given
alike::

    stack(sin(x[0]) @ w, sin(x[1]) @ w, ...)  ->  sin(x) @ w
    c + f(x[0:3], 0) + f(x[1:4], 1) + ...     ->  c + sum(vmap(f)(windows(x), arange(n)))
    c.at[0].set(g(x[0])).at[1].set(g(x[1]))   ->  c.at[0:2].set(vmap(g)(x[0:2]))

Vectorizing compilers do so with scalars (superword-level parallelism, Larsen and Amarasinghe 2000);
here they are arrays.  The ops of a lane may stand anywhere: unlike ``jaxpr-vectorize-blocks``,
which finds blocks by their order and asks nothing of where results go.  Loops in loops are packed
from the outer ones inwards.

Values that differ from lane to lane are stacked, at a cost, unless together they are an array that
is there: rows, columns, tiles (:mod:`jaxmlir.optimize.vectorize.windows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import Work
from jaxmlir.dialect.builder import is_used
from jaxmlir.optimize.vectorize.batchable import MIN_GAIN, STACKED, Batchable, make_batches
from jaxmlir.optimize.vectorize.slp.lanes import Tree
from jaxmlir.optimize.vectorize.slp.seeds import seeds
from jaxmlir.optimize.vectorize.slp.write import write
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# How often a function is read again after something of it has been packed: how deep loops are.
MAX_ROUNDS = 6


class SlpVectorize(Pass):
    """Compute together, as a batch, what is made alike and then put together or added up.

    Options:
      min-gain: the part of the work that has to be saved.
      stacked: how many bytes may be put together or taken apart for each flop that is saved.
    """

    name: ClassVar[str] = "jaxpr-slp-vectorize"
    min_gain: Amount = MIN_GAIN
    stacked: Amount = STACKED

    def run(self, program: Module) -> bool:
        return slp_vectorize(program, self.min_gain, self.stacked) > 0


def slp_vectorize(program: Module, min_gain: float = MIN_GAIN, stacked: float = STACKED) -> int:
    """Packs ops in place; how many batches were made."""

    def search(rules: Rules, work: Work) -> Callable[[FunctionView], int]:
        return _Search(rules, work, min_gain, stacked).packed

    return make_batches(program, search, MAX_ROUNDS)


class _Search:
    """The search for what is worth packing."""

    def __init__(self, rules: Rules, work: Work, min_gain: float, stacked: float):
        self._rules, self._work = rules, work
        self._min_gain, self._stacked = min_gain, stacked
        self._batchable = Batchable(rules)

    def packed(self, body: FunctionView) -> int:
        """Packs what a function has been read to have; how many batches."""
        # Ops that a batch has taken the place of, and those that it needs.
        gone: set[int] = set()
        needed: set[int] = set()
        count = 0
        for seed in seeds(body):
            if seed.sink in gone:
                continue
            tree = Tree.of(body, seed, self._batchable)
            if tree is None or not gone.isdisjoint(tree.read()):
                continue
            replaced = {*tree.gone, *seed.chain}
            if not needed.isdisjoint(replaced):
                continue
            if not tree.pays(self._rules, self._work, self._min_gain, self._stacked):
                continue
            write(self._rules, tree)
            gone |= replaced
            needed |= tree.read() - replaced
            count += 1
        for index in sorted(gone, reverse=True):
            operation = body.ops[index].operation
            if not any(map(is_used, operation.results)):
                operation.erase()
        return count

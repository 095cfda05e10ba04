"""``jaxpr-reroll``: consecutive blocks of equal ops become the iterations of a scan.

The pass rolls up loops that Python's ``for`` unrolled.  The blocks stand one after the other and
are equal but for their operands (:mod:`jaxmlir.analysis.repeated_blocks`).  Each operand from
outside of a block becomes one of three things:

* a constant of the loop, if it is the same value in all blocks;
* a carried value, if it is a result of the block before, or of an earlier one that each block
  passes on; an array that a block reads in parts and then writes in place is stored only once;
* a slice of a stack, if it is a constant, a row of one array, or any value from above the blocks.
  So are the start indices of slices (:func:`.with_dynamic_slices`).

Results of the blocks that are used afterwards become final carried values or rows of a stacked
result.

A loop is one block to compile, and one copy of its kernels to keep in cache.  But XLA does not fuse
across iterations.  Values that straight-line code recomputes for each use are stored for each
iteration in the derivative of a loop, and separate slices are stacked first.  So the pass rolls up
blocks of small kernels that store few bytes beside their work.  Bytes of log-sum-exps do not count
if ``jaxpr-factor-logsumexp`` makes products of them in a loop.  Other blocks, and too few blocks,
are left to ``jaxpr-outline``.  On a GPU a loop starts each of its kernels in each iteration, also
the ones that slice its arrays, which straight-line code fuses: 24 steps of an LSTM cell take 0.9 of
JAX's time straight and 1.4 of it in a loop there (H200).

XLA may run blocks in parallel that at most add to a result of the block before.  They are rolled up
only if their slices are rows of one array already: the gradient of 8 heads of attention takes 1.4
times the memory as a loop, and 2.2 times as long to compile.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSED, FUSIBLE
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import Work, is_array, size
from jaxmlir.analysis.repeated_blocks import OpString, RepeatedBlock, op_string_of
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import count
from jaxmlir.optimize.algebra.logsumexps import NEEDED, LogSumExpReader, worthwhile
from jaxmlir.optimize.cpu.materialize_shared.in_place_updates import READS, WRITES
from jaxmlir.optimize.vectorize.batchable import called
from jaxmlir.optimize.vectorize.isomorphic import Column, Group, with_dynamic_slices
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

# The least number of iterations.  Time of the gradient straight / in the loop on two cores, with
# jax 0.10 and 0.12 alike, of 6, 16, 40 and 80 iterations; straight-line code runs independent ops
# in parallel:
#   h' = tanh(x + h w),  1 x  8     0.8   1.1   2.6   3.0
#                        8 x 64     0.95  0.95  1.1   1.2
#   x + tanh(tanh(x a) b), 64 x 32  0.8   0.9   0.9   1.1
#   x + tanh(x w[t]),    64 x 64    0.8   1.4   2.0   3.4
# The same for compile time: 0.7 to 1 with 6 iterations, 1 to 6 with 16, 2 to 20 with 80.
MIN_LENGTH = 16
# An unrolled recurrent network, h' = f(x w + h u), against its loop, on two cores with the XLA of
# jax 0.12 (the last two rows: and 0.10): time straight / time in the loop of the gradient (and of
# the value), with rows x columns, flops of a block, and stored bytes as a share of these.
#   1 x 4       1.6 to 2.0 (2.5)    64 flops  0.00
#   1 x 64      2.9 (2.0)          16 Kflops  0.05
#   8 x 64      1.4 (1.4)         131 Kflops  0.10
#  16 x 128     1.4 (1.2)           1 Mflops  0.05
#  32 x 256     1.0 (1.0)           8 Mflops  0.02
#  64 x 384     0.95 (0.97)        38 Mflops  0.01
# 128 x 512     0.95 (0.7 to 1.0) 134 Mflops  0.01
# With sums in place of products: 4 x 64 gives 1.6 (1.1), and 64 x 512, with a share of 0.8, 1.3
# (0.6).  A stencil on 512 x 512, all of it fused, gives 0.25, written as a scan by hand.
MAX_WORK = 2e7
# The part of the work that may be stores.
STORED = 0.5
# The cost of a byte of slices that have to be stacked, in bytes stored: x + tanh(x w), 64 x 64,
# with a separate w for each of 4 to 20 blocks takes 1.3 to 1.4 times as long in the loop, and three
# times as long to compile.
APART = 64


class Reroll(Pass):
    """Roll consecutive repeats of a block of ops into a scan, where the loop costs little.

    Options:
      stored: the part of the work of an iteration that storing its results may take.
      max-work: blocks of more flops are left alone.
      min-length: the least number of iterations of a loop. Without it, loops are made for CPUs
        only: elsewhere each iteration starts its kernels.
    """

    name: ClassVar[str] = "jaxpr-reroll"
    stored: Amount = STORED
    max_work: Amount = MAX_WORK
    min_length: Count | None = None

    def run(self, program: Module) -> bool:
        if self.min_length is None and not program.target.is_cpu:
            return False
        min_length = MIN_LENGTH if self.min_length is None else self.min_length
        search = _RerollSearch(program, self, min_length)
        loops = [
            with_dynamic_slices(program, analyses_of(program).body(function), search.reroll)
            for function in outside_kernels(program)
            # Shorter functions, such as the bodies of most loops, need not be read.
            if len(function.entry_block.operations) > min_length
        ]
        return sum(loops) > 0


class _RerollSearch:
    """Finds the blocks of a program that are worth a loop."""

    def __init__(self, program: Module, options: Reroll, min_length: int):
        self._rules, self._work = Rules(program), Work(program)
        self._options, self._min_length = options, min_length

    def reroll(self, body: FunctionView) -> int:
        """Rolls up repeated blocks of a function in place; returns the number of loops."""
        text = op_string_of(body)
        taken = np.zeros(len(text.letters), bool)
        count = 0
        for word in text.words:
            if len(word.starts) < self._min_length or not word.is_tandem:
                continue
            loop = self._loop(text, word) or self._loop(text, text.in_turns(word))
            if loop is None or taken[loop.span].any():
                continue
            if not loop.is_worth_it(self._work, self._options):
                continue
            taken[loop.span] = True
            loop.write()
            count += 1
        return count

    def _loop(self, text: OpString, word: RepeatedBlock) -> _RolledBlocks | None:
        """The longest loop of blocks that are alike."""
        row = _in_a_row(text.alike(word))
        if len(row.starts) < self._min_length:
            return None
        return _RolledBlocks.of(self._rules, text, row)


def _in_a_row(word: RepeatedBlock) -> RepeatedBlock:
    """The longest run of consecutive occurrences of a word."""
    best: list[int] = []
    run: list[int] = []
    for start in word.starts:
        if not run or start != run[-1] + word.length:
            run = []
        run.append(start)
        if len(run) > len(best):
            best = run
    return RepeatedBlock(word.length, tuple(best))


class _RolledBlocks(Group):
    """Blocks that are to be the iterations of a loop.

    Attributes:
      span: the range of their letters in the text.
      carry: the carried inputs, each with its value in the next block: a result of the block, or
        another carried input.
      outputs: results to stack: used after the loop, and not only as final carried values.
    """

    span: slice
    carry: dict[Column, Column]

    @classmethod
    def of(cls, rules: Rules, text: OpString, word: RepeatedBlock) -> _RolledBlocks | None:
        """The loop of the blocks; ``None`` if a block uses a value that cannot be carried to it."""
        loop = cls(rules, text.body, text.packs(word), constants=text.free)
        first, end = word.starts[0], word.starts[-1] + word.length
        loop.span, loop.carry = slice(first, end), {}
        before = {result[:-1]: result for pack in loop.packs for result in loop.results(pack)}
        further: list[Column] = []
        for column in loop.inputs:
            if not is_array(loop.type(column)):
                return None
            if loop.is_same(column):
                continue
            if column[1:] in before:
                loop.carry[column] = before[column[1:]]
            elif (text.made[list(column)] >= first).any():
                further.append(column)
        if not loop._passes_on(further):
            return None
        finals = {*loop.carry.values()}
        loop.outputs = [
            column
            for column in text.outputs(word)
            if column not in finals or (text.last_use[list(column[:-1])] >= end).any()
        ]
        return loop if all(is_array(loop.type(column)) for column in loop.outputs) else None

    def _passes_on(self, further: list[Column]) -> bool:
        """Whether each operand from further back equals a carried input of the block before.

        If so, it is carried as well: its next value is that input.
        """
        before = {column[:-1]: column for column in self.carry}
        while further:
            column = next((c for c in further if c[1:] in before), None)
            if column is None:
                return False
            further.remove(column)
            self.carry[column] = before[column[1:]]
            before[column[:-1]] = column
        return True

    def is_worth_it(self, work: Work, options: Reroll) -> bool:
        """Whether the blocks are small kernels, and store few bytes beside their work."""
        body, block = self.body, [pack[0] for pack in self.packs]
        apart = [
            column
            for column in self.inputs
            if not (column in self.carry or self.is_same(column) or self.is_at_hand(column))
        ]
        if apart and not self.is_chain():
            return False
        kernels = [i for i in block if not self.is_fused(i)]
        if not kernels:
            return False
        block_work = sum(work.at(body, i) for i in block)
        if block_work > options.max_work:
            return False
        # Straight-line code stores the results of kernels as well.
        types = [t for i in block if body.names[i] in FUSED for t in body.signatures[i].results]
        for column, before in self.carry.items():
            if before in self.carry or not self.is_in_place(column, before):
                types.append(self.type(column))
        types += map(self.type, self.outputs)
        # Slices are stacked and read, and so are their cotangents.
        types += [self.type(column) for column in apart for _ in range(APART)]
        most = options.stored * (block_work + work.kernel * len(kernels))
        if work.stored_byte * sum(map(size, types)) <= most:
            return True
        gone = self._made_products(work)
        left = sum(size(t) for t in types if aval_of(t).shape not in gone)
        return work.stored_byte * left <= most

    def is_in_place(self, column: Column, result: Column) -> bool:
        """Whether a block only reads parts of a carried array, and then writes it in place.

        The array is stored once then, and the derivative needs the positions only.

        Args:
          column: the input that is the array.
          result: the value of the array for the next block.
        """
        array = column
        versions = {array}
        for pack in self.packs:
            operands, name = self.operands(pack), self.body.names[pack[0]]
            if versions.isdisjoint(operands):
                continue
            # Overwritten elements are gone, unless the array is copied before.
            if operands[0] != array or not versions.isdisjoint(operands[1:]):
                return False
            if name in _WRITES:
                (array,) = self.results(pack)
                versions.add(array)
            elif name not in READS:
                return False
        return array == result

    def _made_products(self, work: Work) -> set[tuple[int, ...]]:
        """The shapes of the sums of log-sum-exps that ``jaxpr-factor-logsumexp`` gets rid of."""
        names = {self.body.names[pack[0]] for pack in self.packs}
        if not names >= NEEDED:
            return set()
        symbol, consts, _ = self.write_scan_body(self._name, self.carry, self.outputs)
        function = self.rules.program.functions.pop(symbol)
        log_sum_exps = worthwhile(work, LogSumExpReader(FunctionView(function), len(consts)))
        function.operation.erase()
        return {f.sum.shape for f in log_sum_exps}

    @property
    def _name(self) -> str:
        return f"{self.body.function.name.value}.body"

    def is_chain(self) -> bool:
        """Whether a kernel of a block depends on the block before."""
        carried = set(self.carry)
        for pack in self.packs:
            if not carried.isdisjoint(self.operands(pack)):
                if not self.is_fused(pack[0]):
                    return True
                carried.update(self.results(pack))
        return False

    def is_fused(self, index: int) -> bool:
        """Whether XLA fuses an op with others; for a call, all ops of its callee."""
        signature = self.body.signatures[index]
        if signature.name != "jaxpr.jit":
            return signature.name in FUSIBLE
        ops = reached_ops(self.rules.program.functions, called(signature))
        return all(name in FUSIBLE or name == "jaxpr.jit" for _, name in ops)

    def write(self) -> None:
        """Writes the loop in place of the blocks."""
        body, packs = self.body, self.packs
        first, last = body.ops[packs[0][0]], body.ops[packs[-1][-1]]
        slices = [c for c in self.inputs if c not in self.carry and not self.is_same(c)]
        takes = f"{count(len(self.carry), 'carried value')} and {count(len(slices), 'slice')}"
        blocks = f"{self.count} blocks of {len(packs)} ops"
        remark(first, f"rolled {blocks} into one loop with {takes}")
        outs = self.write_scan(self._name, self.carry, self.outputs, last, first.location)
        with ir.InsertionPoint(last), first.location:
            for before, out in zip(self.carry.values(), outs, strict=False):
                if before not in self.carry:
                    body.value(before[-1]).replace_all_uses_with(out)
            for column, rows in zip(self.outputs, outs[len(self.carry) :], strict=True):
                self.use_rows(column, rows)
        self.erase()


# The derivatives of these do not read the array.  Those of products, maxima and minima do.
_WRITES = WRITES - {f"jaxpr.scatter_{kind}" for kind in ("max", "min", "mul")}

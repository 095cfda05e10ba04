"""``jaxpr-reroll``: blocks of ops that follow on one another become the iterations of a scan.

What ``for`` in Python unrolled is rolled up again.  Of blocks that are equal but for their operands
(:mod:`jaxmlir.analysis.repeated_blocks`), and stand one after the other, each operand from without
is in all of them

* the same value: a constant of the loop;
* what the block before gives, or was given so: carried; an array that a block reads in parts and
  then writes in place is stored once for all of them;
* constants, rows of one array, or any values from above the blocks: a slice of what these are
  together.  So are the places of slices (:mod:`jaxmlir.optimize.vectorize.parametrize_slices`).

and what is used of a block afterwards is a final carried value, or a row of a stacked result.

A loop is one block to compile, and one copy of its kernels to keep in cache.  But XLA does not fuse
across iterations, and what it computes again for each use in straight-line code is stored for each
iteration in the derivative of a loop; slices that were apart are put together first.  So blocks are
rolled up that consist of small kernels, and where those bytes are few beside the blocks' own work,
but for those of log-sum-exps of which ``jaxpr-factor-logsumexp`` makes products in a loop; others
are left to ``jaxpr-outline``, and so are those that are few.  On a GPU a loop starts each of its
kernels in each iteration, and those that slice its arrays, which straight code fuses: 24 steps of
an LSTM cell take 0.9 of JAX's time straight and 1.4 of it in a loop there (H200).

Blocks that at most add to what the block before gives, XLA may run side by side.  They are rolled
up only if their slices are together as it is: the gradient of 8 heads of attention takes 1.4 times
the memory as a loop, and 2.2 times as long to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView, ops_of
from jaxmlir.analysis.fusion import FUSED, FUSIBLE
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import KERNEL, Work, is_array, size
from jaxmlir.analysis.repeated_blocks import OpString, Place, RepeatedBlock, op_string_of
from jaxmlir.dialect.builder import erase, is_used
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.factor_logsumexp import worthwhile
from jaxmlir.optimize.algebra.factor_logsumexp.reader import NEEDED, Reader
from jaxmlir.optimize.cpu.order_in_place_updates import READS, WRITES
from jaxmlir.optimize.vectorize.blocks import Blocks
from jaxmlir.optimize.vectorize.parametrize_slices import with_dynamic_slices
from jaxmlir.optimize.vectorize.stacking import row_of, stack
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Iterations, at least.  Time of the gradient straight / in the loop on two cores, with jax 0.10 and
# 0.12 alike, of 6, 16, 40 and 80 iterations; straight code runs what is independent side by side:
#   h' = tanh(x + h w),  1 x  8     0.8   1.1   2.6   3.0
#                        8 x 64     0.95  0.95  1.1   1.2
#   x + tanh(tanh(x a) b), 64 x 32  0.8   0.9   0.9   1.1
#   x + tanh(x w[t]),    64 x 64    0.8   1.4   2.0   3.4
# and of compiling it: 0.7 to 1 with 6 iterations, 1 to 6 with 16, 2 to 20 with 80.
MIN_LENGTH = 16
# An unrolled recurrent network, h' = f(x w + h u), against its loop, on two cores with the XLA of
# jax 0.12 (the last two rows: and 0.10): time straight / time in the loop of the gradient (and of
# the value), with rows x columns, flops of a block, and the share of its stored bytes in that.
#   1 x 4       1.6 to 2.0 (2.5)    64 flops  0.00
#   1 x 64      2.9 (2.0)          16 Kflops  0.05
#   8 x 64      1.4 (1.4)         131 Kflops  0.10
#  16 x 128     1.4 (1.2)           1 Mflops  0.05
#  32 x 256     1.0 (1.0)           8 Mflops  0.02
#  64 x 384     0.95 (0.97)        38 Mflops  0.01
# 128 x 512     0.95 (0.7 to 1.0) 134 Mflops  0.01
# With sums in place of products: 4 x 64 gives 1.6 (1.1), and 64 x 512, of which 0.8 are stored,
# 1.3 (0.6).  A stencil on 512 x 512, all of it fused, gives 0.25, written as a scan by hand.
MAX_WORK = 2e7
# How much of the work may be bytes to store.
STORED = 0.25
# A byte of slices that have to be put together, beside one that is stored: x + tanh(x w), 64 x 64,
# with a w of its own for each of 4 to 20 blocks takes 1.3 to 1.4 times as long in the loop, and
# three times as long to compile.
APART = 64


class Reroll(Pass):
    """Make a scan of blocks of ops that repeat one after the other, where the loop costs little.

    Options:
      stored: how many bytes may be stored in an iteration for each flop of it.
      max-work: blocks of more flops are left alone.
      min-length: how many iterations a loop has at least. Without it, a loop is made for CPUs only:
        elsewhere each of its steps starts its kernels.
    """

    name: ClassVar[str] = "jaxpr-reroll"
    stored: Amount = STORED
    max_work: Amount = MAX_WORK
    min_length: Count | None = None

    def run(self, program: Module) -> bool:
        if self.min_length is None and not program.target.is_cpu:
            return False
        min_length = MIN_LENGTH if self.min_length is None else self.min_length
        return reroll(program, self.stored, self.max_work, min_length) > 0


def reroll(
    program: Module,
    stored: float = STORED,
    max_work: float = MAX_WORK,
    min_length: int = MIN_LENGTH,
) -> int:
    """Rolls up repeated blocks in place; how many loops were made of them."""
    with scope():
        rules, work = Rules(program), Work(program)

        fused_calls: dict[str, bool] = {}

        def search(body: FunctionView) -> int:
            return _reroll(rules, work, fused_calls, body, stored, max_work, min_length)

        count = sum(
            with_dynamic_slices(program, analyses_of(program).body(function), search)
            for function in outside_kernels(program)
            # Shorter ones, such as the bodies of most loops, need not be read.
            if len(function.entry_block.operations) > min_length
        )
    if count:
        program.changed()
    return count


def _reroll(
    rules: Rules,
    work: Work,
    fused_calls: dict[str, bool],
    body: FunctionView,
    stored: float,
    max_work: float,
    min_length: int,
) -> int:
    text = op_string_of(body)
    taken = np.zeros(len(text.letters), bool)
    count = 0
    for word in text.words:
        if len(word.starts) < min_length or not word.is_tandem:
            continue
        loop = _loop(rules, fused_calls, text, word, min_length) or _loop(
            rules, fused_calls, text, text.in_turns(word), min_length
        )
        if loop is None or taken[loop.span].any() or not loop.pays(work, stored, max_work):
            continue
        taken[loop.span] = True
        loop.write()
        count += 1
    return count


def _loop(
    rules: Rules, fused_calls: dict[str, bool], text: OpString, word: RepeatedBlock, min_length: int
) -> _Loop | None:
    """The longest loop of blocks that are alike."""
    row = _in_a_row(text.alike(word))
    return _Loop.of(rules, fused_calls, text, row) if len(row.starts) >= min_length else None


def _in_a_row(word: RepeatedBlock) -> RepeatedBlock:
    """The most places of a word that follow on one another."""
    best: list[int] = []
    run: list[int] = []
    for start in word.starts:
        if not run or start != run[-1] + word.length:
            run = []
        run.append(start)
        if len(run) > len(best):
            best = run
    return RepeatedBlock(word.length, tuple(best))


@dataclass
class _Loop(Blocks):
    """Blocks that are to be the iterations of a loop.

    Attributes:
      fused_calls: which functions consist of ops that XLA fuses, as far as somebody has asked.
      consts: operands that are the same value in each block.
      carry: operands that are a result of the block before, with this result; or what another one
        of them is in the block before, with the number of that one.
      xs: operands that are apart for each block.
      constants: operands that are the same constant in each block: written again in the body.
      ys: results that are used after the loop, other than the last block's, or not carried.
    """

    fused_calls: dict[str, bool]
    consts: list[list[Place]]
    carry: list[tuple[list[Place], Place | int]]
    xs: list[list[Place]]
    constants: list[list[Place]]
    ys: list[Place]

    @classmethod
    def of(
        cls, rules: Rules, fused_calls: dict[str, bool], text: OpString, word: RepeatedBlock
    ) -> _Loop | None:
        """The loop; ``None`` if a block uses what is not carried to it."""
        loop = cls(rules, text, word, fused_calls, [], [], [], [], [])
        further: list[list[Place]] = []
        for places in text.inputs(word):
            if not is_array(loop.operand_type(places)):
                return None
            if loop.is_same(places):
                (loop.constants if loop.is_known(places) else loop.consts).append(places)
                continue
            sources = [text.source(start, places[0]) for start in word.starts]
            before = _result_before(sources, word)
            if before is not None:
                loop.carry.append((places, before))
            elif all(s is None or s[0] < word.starts[0] for s in sources):
                loop.xs.append(places)
            else:
                further.append(places)
        if not loop.passes_on(further):
            return None
        finals = {before for _, before in loop.carry}
        for place in text.outputs(word):
            if loop.is_stacked(place, place in finals):
                if not is_array(loop.result_type(place)):
                    return None
                loop.ys.append(place)
        return loop

    def passes_on(self, further: list[list[Place]]) -> bool:
        """Whether operands that come from further back are, each, what one that is carried is in
        the block before; they are carried as well then, from that one."""
        columns = {tuple(self.column_numbers(p)[:-1]): k for k, (p, _) in enumerate(self.carry)}
        while further:
            numbers = [self.column_numbers(places) for places in further]
            found = (i for i, column in enumerate(numbers) if tuple(column[1:]) in columns)
            i = next(found, None)
            if i is None:
                return False
            columns[tuple(numbers[i][:-1])] = len(self.carry)
            self.carry.append((further.pop(i), columns[tuple(numbers[i][1:])]))
        return True

    @property
    def span(self) -> slice:
        """The letters of the blocks."""
        return slice(self.word.starts[0], self.word.starts[-1] + self.word.length)

    def is_stacked(self, place: Place, is_carried: bool) -> bool:
        """Whether a result is used after the loop for another block than the last one, or is not
        carried."""
        if not is_carried:
            return True
        word = self.word
        end = word.starts[-1] + word.length
        return any(
            self.text.last_use[self.text.result_number(start, place)] >= end
            for start in word.starts[:-1]
        )

    def pays(self, work: Work, stored: float, max_work: float) -> bool:
        """Whether the blocks are small kernels, and bytes to store few beside what they do."""
        if not (self.is_chain() or all(map(self.is_at_hand, self.xs))):
            return False
        body, block = self.text.body, self._block
        kernels = [i for i in block if not self.is_fused(body.ops[i], body.names[i])]
        if not kernels:
            return False
        own = sum(work.at(body, i) for i in block)
        # Its kernels' results are stored by straight-line code as well.
        types = [t for i in block if body.names[i] in FUSED for t in body.signatures[i].results]
        for places, before in self.carry:
            if isinstance(before, int) or not self.is_in_place(places, before):
                types.append(self.operand_type(places))
        types += [self.result_type(place) for place in self.ys]
        for places in self.xs:
            if not self.is_at_hand(places):
                # Put together, and taken apart; the same of its cotangent.
                types += APART * [self.operand_type(places)]
        most = stored * (own + KERNEL * len(kernels))
        if own > max_work:
            return False
        if sum(map(size, types)) <= most:
            return True
        gone = self._made_products(work)
        return sum(size(t) for t in types if aval_of(t).shape not in gone) <= most

    def is_in_place(self, places: Sequence[Place], result: Place) -> bool:
        """Whether a carried array is only read in parts, and written in place after that.

        It is stored once then, and its derivative needs no more of it than where.

        Args:
          places: the operands that are the array.
          result: what the next block has for it.
        """
        body = self.text.body
        array = self.text.operand_number(self.word.starts[0], places[0])
        versions = {array}
        for i in self._block:
            operands = body.operands[i]
            if versions.isdisjoint(operands):
                continue
            # What has been written over is there no more, unless the array is copied before.
            if operands[0] != array or not versions.isdisjoint(operands[1:]):
                return False
            if body.names[i] in _WRITES:
                (array,) = range(*body.results[i])
                versions.add(array)
            elif body.names[i] not in READS:
                return False
        return array == self.text.result_number(self.word.starts[0], result)

    def _made_products(self, work: Work) -> set[tuple[int, ...]]:
        """The shapes that log-sum-exps are of which ``jaxpr-factor-logsumexp`` does without."""
        names = {self.text.body.names[i] for i in self._block}
        if not names >= NEEDED:
            return set()
        function = self.rules.program.functions.pop(self.write_body())
        found = worthwhile(work, Reader(FunctionView(function), len(self.consts)))
        function.operation.erase()
        return {f.sum.shape for f in found}

    @property
    def _block(self) -> Sequence[int]:
        """The numbers of the ops of the first block."""
        first = self.word.starts[0]
        return self.text.index[first : first + self.word.length]

    def is_chain(self) -> bool:
        """Whether a kernel of a block needs what the block before gives."""
        body = self.text.body
        carried = {place for places, _ in self.carry for place in places}
        values: set[int] = set()
        for k, i in enumerate(self._block):
            if any((k, j) in carried or v in values for j, v in enumerate(body.operands[i])):
                if not self.is_fused(body.ops[i], body.names[i]):
                    return True
                values.update(range(*body.results[i]))
        return False

    def is_fused(self, op: Any, name: str) -> bool:
        """Whether XLA fuses an op with others; of a call, all ops of its function."""
        if name != "jaxpr.jit":
            return name in FUSIBLE
        symbol = op.attributes["jaxpr"].value
        found = self.fused_calls.get(symbol)
        if found is None:
            function = self.rules.program.function(symbol)
            found = all(self.is_fused(op, name) for op, name, _ in ops_of(function))
            self.fused_calls[symbol] = found
        return found

    def write(self) -> None:
        """Writes the loop in place of the blocks."""
        word, last = self.word, self.word.starts[-1]
        ops = [self.text.op(i) for i in range(word.starts[0], last + word.length)]
        remark(
            ops[0],
            f"rolled up: {len(word.starts)} blocks of {word.length} ops are one loop, "
            f"with {len(self.carry)} carried values and {len(self.xs)} slices",
        )
        body = self.write_body()
        scan = ScanOp(body, len(self.consts), len(self.carry), len(word.starts), False, {})
        with ir.InsertionPoint(ops[-1]), ops[0].location:
            operands = [
                *(self.text.operand(last, places[0]) for places in self.consts),
                *(self.text.operand(word.starts[0], places[0]) for places, _ in self.carry),
                *(self.stack(places) for places in self.xs),
            ]
            outs = scan.write(self.rules, operands)
            for (_, before), out in zip(self.carry, outs, strict=False):
                if not isinstance(before, int):
                    self.text.result(last, before).replace_all_uses_with(out)
            for place, rows in zip(self.ys, outs[len(self.carry) :], strict=True):
                self.use_rows(place, rows)
        for op in reversed(ops):
            erase(op)

    def use_rows(self, place: Place, rows: ir.Value) -> None:
        """Uses the rows of a stacked result."""
        for i, value in enumerate(self.results(place)):
            if is_used(value):
                value.replace_all_uses_with(row_of(self.rules, rows, i))

    def stack(self, places: Sequence[Place]) -> ir.Value:
        """The slices together."""
        return stack(self.rules, self.column(places))

    def write_body(self) -> str:
        """The block as a function: ``(*consts, *carry, *xs) -> (*carry, *ys)``."""
        groups = [*self.consts, *(places for places, _ in self.carry), *self.xs]
        first = len(self.consts)
        nexts = (first + b if isinstance(b, int) else b for _, b in self.carry)
        outs = [*nexts, *self.ys]
        name = f"{self.text.body.function.name.value}.body"
        return self.write_function(name, range(self.word.length), groups, self.constants, outs)


def _result_before(sources: Sequence[Place | None], word: RepeatedBlock) -> Place | None:
    """The result of the block before that all blocks but the first use."""
    found = {
        None if source is None else (source[0] - start, source[1])
        for start, source in zip(word.starts, sources[1:], strict=False)
    }
    if len(found) != 1:
        return None
    (place,) = found
    return place if place is not None and 0 <= place[0] < word.length else None


# Their derivatives need nothing of the array: not so what multiplies in place, or takes a maximum.
_WRITES = WRITES - {f"jaxpr.scatter_{kind}" for kind in ("max", "min", "mul")}

"""``jaxpr-batch-blocks``: the same done to several things one after another is done to a batch.

A loop over examples, over the heads of an attention or over the members of an ensemble, unrolled by
Python, is a block of ops that stands several times in a program.  Of blocks that are equal but for
their operands (:mod:`jaxmlir.passes._repeats`), those ops are taken that need nothing of another
block; they are one block on a batch::

    y0 = f(x0, w);  y1 = f(x1, w);  ...   ->   y = vmap(f, (0, None))(stack(x0, x1, ...), w)

Operands that are the same everywhere are not batched, others are stacked, or are the rows of an
array as it is.  Results are rows of the batched ones, but often all of them go to one place::

    t + y0 + y1 + ...        ->   t + sum(y, 0)
    concatenate(y0, y1, ...) ->   reshape(moveaxis(y, ...))

What stands between the blocks and needs results of the first ones moves behind the batch.

What is gained: a factor that products have in common is read once, so that those of a matrix and
many vectors are one product of matrices; and a kernel is started once, not once for each block.
What it costs is to put operands together, and to take results apart.  Blocks that are large gain
nothing and stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxmlir import ops
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes import toolbox
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import converted, inline, ops_of
from jaxmlir.passes._call_graph import CallGraph, keep_reachable
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._purity import is_pure, is_same_in_a_batch
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._repeats import Place, Text, Word, write_block
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._stacking import rows_of, stack
from jaxmlir.passes._work import KERNEL, Work, is_plain_array, is_plain_op, size
from jaxmlir.passes.fence import FUSED, MOVED
from jaxmlir.passes.vmap import batch_axis

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Gradients of blocks apart / batched, on two cores with the XLA of jax 0.10: k blocks, each of two
# products of b x n numbers with matrices of n x n, unless it is attention.
#   one matrix for all      k 16, b   1, n 128   1.8      saved 2.0 of  1 Mflops, nothing stacked
#                           k 16, b  16, n 128   1.05           2.0    17
#                           k  8, b 128, n 256   0.8            3.7   270
#   a matrix for each       k  8, b   1, n  64   0.8            0.2   0.1         260 KB stacked
#                           k  8, b  64, n 128   0.7            0.4    34           1 MB
#   a head of attention     k  4, b  64, n  64   1.3            0.4     3          50 KB
#                           k  8, b 128, n 128   1.5            1.9    25         200 KB
#                           k  4, b 256, n 256   1.1            2.6   100         800 KB
# The part of the work that has to be saved, and how many bytes may be stacked for each flop of it:
# they are written and read, and so are their cotangents.
MIN_GAIN = 0.05
STACKED = 0.25
# Ops of a block, at least.
MIN_OPS = 4
# How often a function is read again after blocks of it have been batched.
MAX_ROUNDS = 4

# Ops with functions that are no dearer in a batch.
_CALLS = frozenset(
    f"jaxpr.{name}" for name in ("custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr", "jit", "remat2")
)
_ADDITIONS = frozenset({"jaxpr.add", "jaxpr.add_any"})


class BatchBlocks(Pass):
    """Make blocks of ops that are alike and independent of each other one block on a batch.

    Options:
      min-gain: the part of the work that has to be saved.
      stacked: how many bytes may be put together or taken apart for each flop that is saved.
    """

    name: ClassVar[str] = "jaxpr-batch-blocks"
    min_gain: float = MIN_GAIN
    stacked: float = STACKED

    def run(self, program: Program) -> None:
        batch_blocks(program, self.min_gain, self.stacked)


def batch_blocks(program: Program, min_gain: float = MIN_GAIN, stacked: float = STACKED) -> int:
    """Batches blocks in place; how many batches were made."""
    count = 0
    with scope():
        graph = CallGraph(program.functions)
        entries = graph.entry_points()
        rules, work = Rules(program), Work(program)
        for function in graph.outside_kernels():
            for _ in range(MAX_ROUNDS):
                made = _round(rules, work, function, min_gain, stacked)
                count += made
                if not made:
                    break
        if count:
            keep_reachable(program, entries)
    program.changed()
    return count


def _round(rules: Rules, work: Work, function: func.FuncOp, min_gain: float, stacked: float) -> int:
    """Batches blocks of a function that do not stand within each other; how many batches."""
    text = Text(function)
    taken = np.zeros(len(text.ops), bool)
    order: _Order | None = None
    count = 0
    for word in text.words():
        if not word.is_tandem:
            continue
        word = text.alike(word)
        span = slice(word.starts[0], word.starts[-1] + word.length)
        if len(word.starts) < 2 or word.length < MIN_OPS or taken[span].any():
            continue
        order = order or _Order(text)
        blocks = _Blocks.of(rules, text, word, order)
        if blocks is None or not blocks.pays(work, min_gain, stacked):
            continue
        taken[span] = True
        taken[blocks.write(order)] = True
        count += 1
    return count


class _Order:
    """The ops of a function as they stood, constants and all.

    Attributes:
      index: of what gives a value, among these ops.
      letter: likewise, among those of the text.
    """

    def __init__(self, text: Text):
        self.ops = [(op, name) for op, name, _ in ops_of(text.function)]
        self.index: dict[ir.Value, int] = {
            v: i for i, (op, _) in enumerate(self.ops) for v in op.results
        }
        self.letter = {v: i for i, (op, _) in enumerate(text.ops) for v in op.results}


@dataclass
class _Blocks:
    """Blocks that are to be one.

    Attributes:
      free: the ops of a block that need nothing of another one.
      inputs: operands from without: each as the places that read it.
      outputs: results that something without reads.
      moved: ops between the blocks that need results of theirs.
    """

    rules: Rules
    text: Text
    word: Word
    free: list[int]
    inputs: list[list[Place]]
    outputs: list[Place]
    moved: list[int]

    @classmethod
    def of(cls, rules: Rules, text: Text, word: Word, order: _Order) -> _Blocks | None:
        """The blocks; ``None`` if they cannot be one."""
        found = cls(rules, text, word, [], [], [], [])
        if not found._find_free(order) or len(found.free) < MIN_OPS:
            return None
        found._find_edges()
        values = [v for places in found.inputs for v in found.column(places)]
        values += [v for place in found.outputs for v in found.results(place)]
        return found if all(is_plain_array(v.type) for v in values) else None

    def op(self, start: int, index: int) -> Any:
        return self.text.ops[start + index][0]

    def column(self, places: Sequence[Place]) -> list[ir.Value]:
        """An operand of each of the blocks."""
        return [self.text.operand(start, places[0]) for start in self.word.starts]

    def results(self, place: Place) -> list[ir.Value]:
        """A result of each of the blocks."""
        return [self.text.result(start, place) for start in self.word.starts]

    def _find_free(self, order: _Order) -> bool:
        """Finds the ops that need nothing of another block; whether the others can move."""
        word, foreign = self.word, 1 << len(self.word.starts)
        members = {}
        for m, start in enumerate(word.starts):
            for i in range(word.length):
                results = self.op(start, i).results
                if not len(results):
                    return False
                members[order.index[results[0]]] = m, i
        bound: set[int] = set()
        after: dict[ir.Value, int] = {}
        needs: dict[int, int] = {}
        for index in range(min(members), max(members) + 1):
            op, name = order.ops[index]
            # As they are now: batches that were made meanwhile give other values.
            operands = list(op.operands)
            mask = 0
            for v in operands:
                mask |= after.get(v, 0)
            if index in members:
                m, i = members[index]
                if mask & ~(1 << m) or not _can_be_batched(self.rules, op, name, operands):
                    bound.add(i)
                    mask |= foreign
                mask |= 1 << m
            elif mask:
                mask |= foreign
            if mask:
                needs[index] = mask
                after.update(dict.fromkeys(op.results, mask))
        self.free = [i for i in range(word.length) if i not in bound]
        # An op may be bound in one block only, by which those that use it are in all.
        places = set(self.free)
        for i in self.free:
            sources = self.text.sources[word.starts[0] + i]
            inside = [p[0] - word.starts[0] for p in sources if p and p[0] >= word.starts[0]]
            if not places.issuperset(inside):
                places.discard(i)
        self.free = sorted(places)
        if not self.free:
            return False
        last = max(index for index, (_, i) in members.items() if i in places)
        self.moved = [
            index
            for index in needs
            if index < last and not (index in members and members[index][1] in places)
        ]
        return not any("jaxpr.effects" in order.ops[index][0].attributes for index in self.moved)

    def _find_edges(self) -> None:
        """Finds what goes in and what comes out."""
        first, columns = self.word.starts[0], {}
        own = {
            v for start in self.word.starts for i in self.free for v in self.op(start, i).results
        }
        for i in self.free:
            for j, source in enumerate(self.text.sources[first + i]):
                if source is None or source[0] < first:
                    columns.setdefault(tuple(self.column([(i, j)])), []).append((i, j))
        self.inputs = list(columns.values())
        self.outputs = [
            (i, j)
            for i in self.free
            for j in range(len(self.op(first, i).results))
            if any(_is_used_without(v, own) for v in self.results((i, j)))
        ]

    def is_same(self, places: Sequence[Place]) -> bool:
        """Whether an operand is the same value in all blocks."""
        values = self.column(places)
        return all(v == values[0] for v in values)

    def pays(self, work: Work, min_gain: float, stacked: float) -> bool:
        """Whether what is saved is worth what is put together and taken apart."""
        first, count = self.word.starts[0], len(self.word.starts)
        same = {place for places in self.inputs if self.is_same(places) for place in places}
        inside = {place for places in self.inputs for place in places}
        varying: set[int] = set()
        total = saved = 0.0
        for i in self.free:
            op, name = self.text.ops[first + i]
            pattern = [
                (i, j) not in same if (i, j) in inside else source[0] - first in varying
                for j, source in enumerate(self.text.sources[first + i])
            ]
            if True not in pattern:
                continue
            varying.add(i)
            total += work.of(op, name)
            if name not in FUSED and name not in MOVED:
                saved += KERNEL
            if name == "jaxpr.dot_general" and not all(pattern):
                # The common factor is read once.
                saved += size(op.operands[pattern.index(False)].type)
        if (count - 1) * saved < min_gain * count * total:
            return False
        moved = 0
        for places in self.inputs:
            values = self.column(places)
            at_hand = all(v in self.text.free for v in values) or rows_of(values) is not None
            if not self.is_same(places) and not at_hand:
                moved += count * size(values[0].type)
        for place in self.outputs:
            values = self.results(place)
            if _sum_of(values) is None and _concatenation_of(values) is None:
                moved += count * size(values[0].type)
        return moved <= stacked * (count - 1) * saved

    def write(self, order: _Order) -> list[int]:
        """Writes the batch in place of the blocks; which ops of the text besides these are gone."""
        starts, count = self.word.starts, len(self.word.starts)
        first = self.op(starts[0], self.free[0])
        remark(
            first,
            f"batched: {count} independent blocks of {len(self.free)} ops are one, of which "
            f"{len(self.inputs)} values go in and {len(self.outputs)} come out",
        )
        last = self.op(starts[-1], self.free[-1]).operation
        place = last
        for index in self.moved:
            op = order.ops[index][0].operation
            op.move_after(place)
            place = op
        symbol, arguments = self._write_function()
        dims = tuple([None if self.is_same(places) else 0 for places in arguments])
        axis = batch_axis(count)
        symbol, _ = self.rules.functions.batch(symbol, dims, axis, (0,) * len(self.outputs))
        with ir.InsertionPoint(last), first.location:
            args = [
                self.column(places)[0] if dim is None else stack(self.rules, self.column(places))
                for places, dim in zip(arguments, dims, strict=True)
            ]
            results = inline(self.rules.program.function(symbol), args)
        gone: list[int] = []
        for output, batched in zip(self.outputs, results, strict=True):
            users = self._use(self.results(output), batched, last)
            # A sum that a batch before has written is no letter.
            letters = (order.letter.get(op.results[0]) for op in users)
            gone += [letter for letter in letters if letter is not None]
            for op in reversed(users):
                op.erase()
        for start in reversed(starts):
            for i in reversed(self.free):
                self.op(start, i).operation.erase()
        return gone

    def _write_function(self) -> tuple[str, list[list[Place]]]:
        """A block as a function; its symbol, and the inputs that are its arguments."""
        free = self.text.free
        constants = [p for p in self.inputs if self.column(p)[0] in free and self.is_same(p)]
        arguments = [places for places in self.inputs if places not in constants]
        symbol = write_block(
            self.rules,
            f"{self.text.function.name.value}.block",
            self.text,
            self.word.starts[0],
            self.free,
            arguments,
            constants,
            self.outputs,
        )
        return symbol, arguments

    def _use(
        self, values: Sequence[ir.Value], batched: ir.Value, place: ir.Operation
    ) -> list[ir.Operation]:
        """Uses the rows of a batched result, or all of them at once; the ops that are needed no
        more."""
        chain = _sum_of(values)
        if chain is not None:
            start, users = chain
            with ir.InsertionPoint(users[-1]), users[-1].location:
                (total,) = self.rules.emit(_total, [batched], _total)
                total = converted(total, users[-1].results[0].type)
                if start is not None:
                    name, type_ = users[0].name, users[-1].results[0].type
                    total = ir.Operation.create(name, [type_], [start, total]).result
            users[-1].results[0].replace_all_uses_with(total)
            return users
        whole = _concatenation_of(values)
        if whole is not None:
            dim = int(toolbox.attribute(whole, "dimension"))
            joined = _Joined(dim)
            with ir.InsertionPoint(whole), whole.location:
                (value,) = self.rules.emit(joined, [batched], joined)
            whole.results[0].replace_all_uses_with(converted(value, whole.results[0].type))
            return [whole]
        with ir.InsertionPoint(place), place.location:
            rows = self.rules.emit(_rows, [batched], _rows)
        for value, row in zip(values, rows, strict=True):
            value.replace_all_uses_with(row)
        return []


def _can_be_batched(rules: Rules, op: Any, name: str, operands: list[ir.Value]) -> bool:
    """Whether an op gives the same in a batch, and is no dearer for each member than alone."""
    if "jaxpr.effects" in op.attributes or not is_pure(name):
        return False
    if not is_same_in_a_batch(name, [v.type for v in (*operands, *op.results)]):
        return False
    if name == "jaxpr.conv_general_dilated":
        # A batch of kernels is a grouped convolution, which is slow.
        return False
    record = ops.OPS.get(name.removeprefix("jaxpr."))
    if record is None or not is_plain_op(OpNode(op, name, operands)):
        return False
    if name in _CALLS:
        attributes = op.attributes
        symbol = attributes["jaxpr" if "jaxpr" in attributes else "call_jaxpr"].value
        return rules.functions.once(_function_can_be_batched, symbol)
    return not record.functions


def _function_can_be_batched(rules: Rules, symbol: str) -> bool:
    """Whether all ops of ``@symbol`` can."""
    return all(_can_be_batched(rules, *op) for op in ops_of(rules.program.function(symbol)))


def _is_used_without(value: ir.Value, own: set[ir.Value]) -> bool:
    """Whether an op uses a value that gives none of some values."""
    for use in value.uses:
        results = use.owner.results
        if not len(results) or results[0] not in own:
            return True
    return False


def _only_user(value: ir.Value) -> ir.Operation | None:
    users = [use.owner for use in value.uses]
    return users[0] if len(users) == 1 else None


def _sum_of(values: Sequence[ir.Value]) -> tuple[ir.Value | None, list[ir.Operation]] | None:
    """If values are added up one after another, and used by nothing else: what they are added to,
    and the additions."""
    users: list[ir.Operation] = []
    start: ir.Value | None = None
    total: ir.Value | None = None
    for k, value in enumerate(values):
        user = _only_user(value)
        if user is None or user.name not in _ADDITIONS:
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
        if users and _only_user(total) != user:
            return None
        users.append(user)
        total = user.results[0]
    return start, users


def _concatenation_of(values: Sequence[ir.Value]) -> ir.Operation | None:
    """The op that puts all of some values together in order, if nothing else uses them."""
    user = _only_user(values[0])
    if user is None or user.name != "jaxpr.concatenate" or list(user.operands) != list(values):
        return None
    return user if all(_only_user(v) is not None for v in values) else None


def _total(rows: Any) -> list[Any]:
    from jax import lax

    return [lax.reduce(rows, np.zeros((), rows.dtype), lax.add, (0,))]


def _rows(batched: Any) -> list[Any]:
    """By one op, whose transpose is one op."""
    from jax import lax

    parts = lax.split(batched, (1,) * batched.shape[0], 0)
    return [lax.reshape(part, part.shape[1:]) for part in parts]


@dataclass(frozen=True)
class _Joined:
    """The concatenation of the rows of an array; hashable."""

    dim: int

    def __call__(self, batched: Any) -> list[Any]:
        from jax import lax

        order = list(range(1, batched.ndim))
        order.insert(self.dim, 0)
        shape = list(batched.shape[1:])
        shape[self.dim] *= batched.shape[0]
        return [lax.reshape(lax.transpose(batched, order), shape)]

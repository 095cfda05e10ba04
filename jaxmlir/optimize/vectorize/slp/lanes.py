"""What the values of a seed are made of, packed lane by lane."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from jaxmlir import toolbox
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import ADDITIONS, Work, is_plain_array, size
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.vectorize.batchable import Batchable, gain
from jaxmlir.optimize.vectorize.slp.seeds import Seed
from jaxmlir.optimize.vectorize.windows import Windows
from jaxmlir.transforms.templates import Rules

# Lanes that only move and fuse save no time when they run, but each op of theirs takes some tenths
# of a millisecond to compile: where that many meet in a sum.  XLA computes a sum over an array's
# leading dimension in a loop of its own, and that of fewer terms as part of what uses it.
MANY_LANES = 16

# Ops that cost nothing, so that they are packed even if something else needs them as well.
_VIEWS = with_trait(Trait.VIEW)

Lanes = tuple[int, ...]
"""An op, or a value, of each lane."""


@dataclass
class Tree:
    """The ops of each lane that a batch takes the place of.

    Attributes:
      packs: the ops, from the top.
      leaves: values that are made elsewhere, in the order of their use.
      outputs: values that are also used behind the sink.
      gone: the ops that nothing needs any more, and their lanes.
    """

    body: FunctionView
    seed: Seed
    packs: list[Lanes] = field(default_factory=list)
    leaves: dict[Lanes, None] = field(default_factory=dict)
    outputs: list[Lanes] = field(default_factory=list)
    gone: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, body: FunctionView, seed: Seed, batchable: Batchable) -> Tree | None:
        """The tree of a seed; ``None`` if nothing can be packed, or not as plain arrays."""
        tree = cls(body, seed)
        tree._grow(batchable)
        types = [body.types[lanes[0]] for lanes in (*tree.leaves, *tree.outputs)]
        return tree if tree.packs and all(map(is_plain_array, types)) else None

    def _grow(self, batchable: Batchable) -> None:
        """Packs from the sink upwards: each pack after all that use it."""
        makers = self.body.makers
        packed = set()
        heap = [(0, self.seed.values)]
        while heap:
            _, values = heapq.heappop(heap)
            ops = tuple([makers[value] for value in values])
            if ops in packed or values in self.leaves:
                continue
            if not self._can_pack(ops, values, batchable):
                self.leaves[values] = None
                continue
            packed.add(ops)
            self.packs.append(ops)
            for column in self.operands(ops):
                depths = [-1 if (maker := makers[v]) is None else maker for v in column]
                heapq.heappush(heap, (-max(depths), column))
        self.packs.reverse()

    def _can_pack(self, ops: Lanes, values: Lanes, batchable: Batchable) -> bool:
        body = self.body
        if None in ops or self.is_same(values):
            return False
        signature = body.signatures[ops[0]]
        first = values[0] - body.results[ops[0]][0]
        if not signature.operands:
            return False
        for op, value in zip(ops, values, strict=True):
            if body.signatures[op] != signature or value - body.results[op][0] != first:
                return False
        if not batchable.is_so(signature, lambda j: len({body.operands[op][j] for op in ops}) == 1):
            return False
        if len(set(ops)) == len(ops) and self._is_free(ops):
            return True
        return signature.name in _VIEWS

    def _is_free(self, ops: Lanes) -> bool:
        """Whether nothing needs the ops but their own lanes, or what stands behind the sink."""
        seed, body, gone = self.seed, self.body, self.gone
        meet = set(seed.chain)
        outputs = []
        for column in self.results(ops):
            # What the lanes are made of may meet with them, too.
            ends = meet if column == seed.values else ()
            behind = not body.outputs.isdisjoint(column)
            for lane, value in enumerate(column):
                for user in body.users[value]:
                    if user in ends or gone.get(user) == lane:
                        continue
                    if user <= seed.sink:
                        return False
                    behind = True
            if behind:
                outputs.append(column)
        self.outputs += outputs
        gone.update((op, lane) for lane, op in enumerate(ops))
        return True

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return len(self.seed.values)

    def operands(self, ops: Lanes) -> Iterator[Lanes]:
        """Each operand of the ops of a pack."""
        return zip(*(self.body.operands[op] for op in ops), strict=True)

    def results(self, ops: Lanes) -> Iterator[Lanes]:
        """Each result of theirs."""
        return zip(*(range(*self.body.results[op]) for op in ops), strict=True)

    def read(self) -> set[int]:
        """The ops that are packed, that give leaves, or what the lanes meet in, or with."""
        seed, makers = self.seed, self.body.makers
        values = {*seed.meeting, *(value for leaf in self.leaves for value in leaf)}
        packed = (op for ops in self.packs for op in ops)
        return {*seed.chain, *packed, *map(makers.__getitem__, values)} - {None}

    def is_same(self, values: Lanes) -> bool:
        """Whether a leaf is the same in all lanes."""
        return len(set(values)) == 1

    def values(self, lanes: Lanes) -> list[ir.Value]:
        """The values of a leaf, or of an output."""
        return list(map(self.body.value, lanes))

    def pays(self, rules: Rules, work: Work, min_gain: float, stacked: float) -> bool:
        """Whether what is saved is worth what is put together and taken apart."""
        body, count = self.body, self.count
        varying = {
            (ops[0], j)
            for ops in self.packs
            for j, column in enumerate(self.operands(ops))
            if column in self.leaves and not self.is_same(column)
        }
        total, saved = gain(work, body, [ops[0] for ops in self.packs], varying)
        apart = [lanes for lanes in self.outputs if not self._go_on_alike(lanes)]
        moved = sum(count * size(body.types[lanes[0]]) for lanes in apart)
        moved += sum(self._moved(rules, leaf) for leaf in self.leaves)
        sink = self.seed.sink
        if self.seed.parts is not None:
            total += work.at(body, sink)
            saved += work.kernel
        if not saved and not moved:
            return body.names[sink] not in ADDITIONS or count >= MANY_LANES
        if (count - 1) * saved < min_gain * count * total:
            return False
        return moved <= stacked * (count - 1) * saved

    def _go_on_alike(self, lanes: Lanes) -> bool:
        """Whether behind the sink each lane of an output is used as the others are, by ops of its
        own: these can be packed in turn, and then take the output as it is."""
        body, sink = self.body, self.seed.sink
        taken: set[int] = set()
        kinds = set()
        for value in lanes:
            users = [user for user in body.users[value] if user > sink]
            if value in body.outputs or not taken.isdisjoint(users):
                return False
            taken.update(users)
            kinds.add(tuple([self._use(user, value) for user in users]))
        return len(kinds) == 1

    def _use(self, user: int, value: int) -> tuple[Signature, tuple[int, ...]]:
        """What an op is, and which of its operands a value is."""
        operands = self.body.operands[user]
        positions = tuple([i for i, operand in enumerate(operands) if operand == value])
        return self.body.signatures[user], positions

    def _moved(self, rules: Rules, leaf: Lanes) -> int:
        """How many bytes have to be put together for a leaf."""
        if self.is_same(leaf):
            return 0
        values = self.values(leaf)
        if all(toolbox.constant_value(rules.program, value) is not None for value in values):
            return 0
        windows = Windows.of(values)
        if windows is not None and windows.is_view:
            return 0
        return self.count * size(self.body.types[leaf[0]])

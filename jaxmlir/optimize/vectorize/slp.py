"""``jaxpr-slp-vectorize``: values that are stacked, added up or scattered are computed in a batch.

Values that Python computes in a loop, and stacks or adds up, are results of equal ops, whose
operands are also results of equal ops.  From the op where the results meet, the pass packs such ops
into one op on a batch.  It goes on with the ops that give their operands, up to values of ops that
are not alike::

    stack(sin(x[0]) @ w, sin(x[1]) @ w, ...)  ->  sin(x) @ w
    c + f(x[0:3], 0) + f(x[1:4], 1) + ...     ->  c + sum(vmap(f)(windows(x), arange(n)))
    c.at[0].set(g(x[0])).at[1].set(g(x[1]))   ->  c.at[0:2].set(vmap(g)(x[0:2]))

Vectorizing compilers do so with scalars (superword-level parallelism, Larsen and Amarasinghe 2000);
here the lanes are arrays.  The ops of a lane may be anywhere, while ``jaxpr-vectorize-blocks``
finds blocks by the order of their ops, but does not care about the users of results.  Nested loops
are packed from the outer ones inwards.

A sum of lanes that are all negative zeros becomes a positive zero, as in ``jnp.sum``.

Values that differ between lanes are stacked, at a cost, unless together they are a part of an
existing array: rows, columns, tiles (:mod:`jaxmlir.optimize.vectorize.stacking`).
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import operator
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir.analysis.arithmetic import additive_identity
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import ADDITIONS, can_be_summed, is_plain_array, is_plain_signature
from jaxmlir.dialect.builder import build, converted, is_used, overwrites, window_sizes
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.errors import count
from jaxmlir.optimize.loops.known import KnownIntegers
from jaxmlir.optimize.vectorize.batchable import Batchable
from jaxmlir.optimize.vectorize.isomorphic import BatchGroups, Column, Group, GroupSearch
from jaxmlir.optimize.vectorize.stacking import JOINS, WindowLevel, joined, levels_of, total_of
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

# -- Parts of an array that are written one after another, written at once --
#
# Adjacent parts are one part: their updates are joined, and written at the start of the first part.
# Other parts become one scatter of several windows.


SCATTERS = frozenset({"jaxpr.scatter", "jaxpr.scatter_add"})

# The most parts that are compared in pairs to see whether they overlap.
MOST_PARTS = 2_000
# The largest start of a part: starts are written as int32.
_MOST = int(np.iinfo(np.int32).max)


def chain(body: FunctionView, last: int) -> list[int]:
    """A chain of scatters of one kind, from the top to ``last``: only the next one uses each."""
    scatters = [last]
    while True:
        array = body.operands[scatters[-1]][0]
        before = body.makers[array]
        is_one = before is not None and body.signatures[before] == body.signatures[last]
        if not is_one or body.use_counts[array] != 1:
            return scatters[::-1]
        scatters.append(before)


class ArrayParts(NamedTuple):
    """Parts of an array and how they are written, as a function of the array and the updates, of
    which each row is for one part; hashable.

    Attributes:
      starts: the start of each part, by dimension.
      sizes: the size of each part.
      numbers, mode: the attributes of the scatters.
      adds: whether the updates are added.
    """

    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    numbers: Any
    mode: Any
    adds: bool

    @classmethod
    def of(cls, body: FunctionView, ops: Sequence[int]) -> ArrayParts | None:
        """The parts that scatters of one kind write; ``None`` if they cannot be written at once.

        Each scatter must write a single window at a known place.  Windows must not overlap unless
        they are added.
        """
        first, adds = body.ops[ops[0]], body.names[ops[0]] == "jaxpr.scatter_add"
        if not is_plain_signature(body.signatures[ops[0]]) or not (adds or overwrites(first)):
            return None
        numbers = toolbox.attribute(first, "dimension_numbers")
        array, indices, update = (tuple(v.type.shape) for v in first.operands)
        # XLA has no scatter of several numbers into an array without dimensions.
        if len(indices) != 1 or numbers.operand_batching_dims or not array:
            return None
        sizes = window_sizes(numbers, update)
        known = KnownIntegers({}, 0)
        starts = np.zeros((len(ops), len(array)), np.int64)
        for start, op in zip(starts, ops, strict=True):
            index = known.get(body.ops[op].operands[1])
            if index is None:
                return None
            start[list(numbers.scatter_dims_to_operand_dims)] = index
        mode = toolbox.attribute(first, "mode")
        if mode == lax.GatherScatterMode.CLIP:
            # The scatter clamps windows that are out of bounds, which may then overlap others.
            starts = np.clip(starts, 0, np.array(array) - sizes)
        elif not -_MOST <= starts.min() <= starts.max() <= _MOST:
            return None
        places = tuple(map(tuple, starts.tolist()))
        parts = cls(places, tuple(sizes), numbers, mode, adds)
        return parts if adds or parts.apart else None

    @property
    def apart(self) -> bool:
        """Whether no two parts overlap; false if there are too many to find out."""
        starts = np.array(self.starts)
        if _side_by_side(starts, self.sizes) is not None:
            return True
        if len(starts) > MOST_PARTS:
            return False
        near = (abs(starts[:, None] - starts) < self.sizes).all(-1)
        return int(near.sum()) == len(starts)

    def _layout(self, shape: Sequence[int]) -> tuple[WindowLevel, ...] | None:
        """The loops over parts that together are one part in the array; ``None`` for others."""
        starts = np.array(self.starts)
        if (starts < 0).any() or (starts + self.sizes > shape).any():
            return None
        return _side_by_side(starts, self.sizes)

    def __call__(self, array: Any, updates: Any) -> list[Any]:
        layout = self._layout(array.shape)
        if layout is None:
            return [self._scattered(array, updates)]
        counts = [level.count for level in layout]
        part = lax.reshape(updates, (*counts, *self.sizes))
        for depth in reversed(range(len(layout))):
            part = layout[depth].join(part, depth)
        low = np.min(self.starts, 0)
        if self.adds:
            high = np.array(array.shape) - low - part.shape
            padding = [(int(a), int(b), 0) for a, b in zip(low, high, strict=True)]
            return [lax.add(array, lax.pad(part, additive_identity(part.dtype), padding))]
        if part.shape == array.shape:
            return [part]
        return [lax.dynamic_update_slice(array, part, [np.int32(i) for i in low])]

    def _scattered(self, array: Any, updates: Any) -> Any:
        numbers = self.numbers
        dims = list(numbers.scatter_dims_to_operand_dims)
        batch = lax.ScatterDimensionNumbers(
            update_window_dims=tuple([d + 1 for d in numbers.update_window_dims]),
            inserted_window_dims=numbers.inserted_window_dims,
            scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
        )
        indices = np.array(self.starts, np.int32)[:, dims]
        scatter = lax.scatter_add if self.adds else lax.scatter
        return scatter(array, indices, updates, batch, unique_indices=self.apart, mode=self.mode)


def _side_by_side(starts: np.ndarray, sizes: Sequence[int]) -> tuple[WindowLevel, ...] | None:
    """The loops over adjacent parts: each begins where the one before it ends."""
    levels = levels_of(starts, sizes)
    return levels if levels is not None and all(level.is_exact for level in levels) else None


# -- Where values that may be alike meet: in a concatenation, a sum, or as parts of one array --


# The least number of members of a batch.
MIN_LANES = 4


class Seed(NamedTuple):
    """Values that meet in one place, and are results of equal ops.

    Attributes:
      values: one for each lane.
      meeting: all values that meet there, in order.
      chain: the ops where they meet, from the top: a concatenation, the additions of a sum, or
        scatters.
      parts: the parts of the array that scatters write, else ``None``.
    """

    values: tuple[int, ...]
    meeting: tuple[int, ...]
    chain: tuple[int, ...]
    parts: ArrayParts | None = None

    @property
    def sink(self) -> int:
        """The last op of the chain, which gives the concatenation, sum or array."""
        return self.chain[-1]

    def write(self, rules: Rules, body: FunctionView, batched: ir.Value) -> None:
        """Replaces the sink's result by one that is computed from the rows of an array."""
        sink = body.ops[self.sink].operation
        with ir.InsertionPoint(sink), sink.location:
            if self.parts is not None:
                array = body.value(self.meeting[0])
                value = rules.emit(self.parts, [array, batched])[0]
            elif sink.name in JOINS:
                value = self._joined(rules, body, batched)
            else:
                value = self._sum(rules, body, batched)
            sink.results[0].replace_all_uses_with(converted(value, sink.results[0].type))

    def _sum(self, rules: Rules, body: FunctionView, batched: ir.Value) -> ir.Value:
        """The sum of the rows and of the other terms."""
        sink = body.ops[self.sink].operation
        type_ = sink.results[0].type
        total = total_of(rules, batched)
        shape = tuple(type_.shape)
        if tuple(total.type.shape) != shape:
            # The terms are broadcast: scalars, or arrays that are repeated along a dimension.
            spread = type_of(aval_of(total.type).update(shape=shape))
            dims = tuple(range(total.type.rank))
            total = build(
                "broadcast_in_dim", [total], spread, shape=shape, broadcast_dimensions=dims
            )
        total = converted(total, type_)
        lanes = set(self.values)
        for other in reversed(self.meeting):
            if other not in lanes:
                operands = [body.value(other), total]
                total = ir.Operation.create(sink.name, [type_], operands).result
        return total

    def _joined(self, rules: Rules, body: FunctionView, batched: ir.Value) -> ir.Value:
        """The rows joined with the other values, before and behind them."""
        sink, name = body.ops[self.sink], body.names[self.sink]
        whole = joined(rules, batched, sink, name)
        if len(self.values) == len(self.meeting):
            return whole
        first = self.meeting.index(self.values[0])
        others = self.meeting[:first], self.meeting[first + len(self.values) :]
        before, behind = ([body.value(other) for other in part] for part in others)
        if name == "jaxpr.stack":
            axis, place = toolbox.attribute(sink, JOINS[name]), len(before)
            among = functools.partial(_stacked_among, axis=axis, place=place)
            return rules.emit(among, [*before, whole, *behind])[0]
        return body.copy(self.sink, [*before, whole, *behind])[0]


def _stacked_among(*parts: Any, axis: int, place: int) -> list[Any]:
    """A stack of values, of which the one at ``place`` is already a stack of several."""
    axis %= parts[place].ndim
    stacks = [x if k == place else lax.expand_dims(x, (axis,)) for k, x in enumerate(parts)]
    return [lax.concatenate(stacks, axis)]


def seeds(body: FunctionView, least: int = MIN_LANES) -> Iterator[Seed]:
    """The seeds of a function, from the bottom: those of outer loops before those of inner ones.

    Args:
      least: the least number of values of a seed.
    """
    seen: set[int] = set()
    for index in reversed(range(len(body.ops))):
        name = body.names[index]
        if name in JOINS:
            operands = body.operands[index]
            for values in _runs(_kinds(body, operands), operands, least):
                yield Seed(values, tuple(operands), (index,))
        elif name in ADDITIONS and index not in seen:
            additions, terms = _sum(body, index)
            seen.update(additions)
            if not can_be_summed(aval_of(body.types[terms[0]]).dtype):
                continue
            for values in _groups(_kinds(body, terms), terms, least):
                yield Seed(values, tuple(terms), additions)
        elif name in SCATTERS and index not in seen:
            scatters = chain(body, index)
            seen.update(scatters)
            kinds = _kinds(body, [body.operands[op][2] for op in scatters])
            for ops in _runs(kinds, scatters, least):
                parts = ArrayParts.of(body, ops)
                if parts is not None:
                    values = tuple([body.operands[op][2] for op in ops])
                    yield Seed(values, (body.operands[ops[0]][0], *values), ops, parts)


def _groups(kinds: list[Hashable], items: list[int], least: int) -> Iterator[tuple[int, ...]]:
    """Groups of items of one kind, each of at least ``least`` items."""
    if len(items) < least:
        return
    groups = collections.defaultdict(list)
    for kind, item in zip(kinds, items, strict=True):
        groups[kind].append(item)
    yield from (tuple(group) for group in groups.values() if len(group) >= least)


def _runs(kinds: list[Hashable], items: list[int], least: int) -> Iterator[tuple[int, ...]]:
    """Runs of consecutive items of one kind, each of at least ``least`` items."""
    pairs = zip(kinds, items, strict=True)
    for _, run in itertools.groupby(pairs, key=operator.itemgetter(0)):
        members = tuple([item for _, item in run])
        if len(members) >= least:
            yield members


def _kinds(body: FunctionView, values: list[int]) -> list[Hashable]:
    """The kind of each value; a value that occurs twice has a kind of its own."""
    times = collections.Counter(values)
    return [
        _kind(body, value) if times[value] == 1 else ("again", i) for i, value in enumerate(values)
    ]


def _kind(body: FunctionView, value: int) -> Hashable:
    """A key, equal for values that may be lanes of one seed: the signature of the op that gives
    the value, or the array that it is a part of."""
    index = body.makers[value]
    if index is None:
        return value
    if body.names[index] in ("jaxpr.slice", "jaxpr.split", "jaxpr.unstack"):
        return body.names[index], body.operands[index][0], body.types[value]
    return body.signatures[index], value - body.results[index][0]


def _sum(body: FunctionView, last: int) -> tuple[tuple[int, ...], list[int]]:
    """The chain of additions of a sum, and its terms, in order."""
    additions, terms = [last], []
    # For terms that are sums themselves: their kind, and on which side they were added.
    sides: dict[Hashable, int] = {}
    while True:
        operands = body.operands[additions[-1]]
        # Python's ``sum`` and ``+=`` add terms on the right.
        side = 0 if _is_sum(body, operands[1]) and not _is_sum(body, operands[0]) else 1
        before, term = operands[1 - side], operands[side]
        terms.append(term)
        if _is_sum(body, term):
            sides.setdefault(_kind(body, term), side)
        if not _is_sum(body, before) or _is_term(body, before, sides):
            terms.append(before)
            return tuple(reversed(additions)), terms[::-1]
        additions.append(body.makers[before])


def _is_term(body: FunctionView, value: int, sides: dict[Hashable, int]) -> bool:
    """Whether a sum is the first one of terms that are sums, and not a partial sum of the chain."""
    kind = _kind(body, value)
    operands = body.operands[body.makers[value]]
    return kind in sides and _kind(body, operands[sides[kind]]) != kind


def _is_sum(body: FunctionView, value: int) -> bool:
    """Whether a value is a sum with one use."""
    index = body.makers[value]
    is_sum = index is not None and body.names[index] in ADDITIONS
    return is_sum and body.use_counts[value] == 1


# -- The ops that compute the values of a seed, packed lane by lane --


# The least number of lanes of a sum if all their ops are fused or only move data.  Packing these
# saves no run time, but some tenths of a millisecond of compile time for each op.  XLA computes a
# sum over the leading dimension of an array in a separate loop, but fuses a sum of fewer terms into
# its user.
MANY_LANES = 16

# Ops that cost nothing, so that they are packed even if they have other users.
_VIEWS = with_trait(Trait.VIEW)


class SlpTree(Group):
    """The ops of each lane that a batch replaces.

    The inputs are values of other ops, in the order of their use; the outputs are used behind the
    sink.

    Attributes:
      gone: the ops that have no users left once the batch is written, with their lanes.
    """

    def __init__(self, rules: Rules, body: FunctionView, seed: Seed, batchable: Batchable):
        super().__init__(rules, body, [])
        self.seed = seed
        self.gone: dict[int, int] = {}
        self._grow(batchable)

    @classmethod
    def of(
        cls, rules: Rules, body: FunctionView, seed: Seed, batchable: Batchable
    ) -> SlpTree | None:
        """The tree of a seed; ``None`` if nothing can be packed, or not as plain arrays."""
        tree = cls(rules, body, seed, batchable)
        types = map(tree.type, (*tree.inputs, *tree.outputs))
        return tree if tree.packs and all(map(is_plain_array, types)) else None

    def _grow(self, batchable: Batchable) -> None:
        """Packs from the sink upwards: each pack after all packs that use it."""
        makers = self.body.makers
        packed = set()
        leaves: dict[Column, None] = {}
        heap = [(0, self.seed.values)]
        while heap:
            _, values = heapq.heappop(heap)
            ops = tuple([makers[value] for value in values])
            if ops in packed or values in leaves:
                continue
            if not self._can_pack(ops, values, batchable):
                leaves[values] = None
                continue
            packed.add(ops)
            self.packs.append(ops)
            for column in self.operands(ops):
                depths = [-1 if (maker := makers[v]) is None else maker for v in column]
                heapq.heappush(heap, (-max(depths), column))
        self.packs.reverse()
        self.inputs = list(leaves)

    def _can_pack(self, ops: Column, values: Column, batchable: Batchable) -> bool:
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

    def _is_free(self, ops: Column) -> bool:
        """Whether only their own lanes, and ops behind the sink, use the ops."""
        seed, body, gone = self.seed, self.body, self.gone
        meet = set(seed.chain)
        outputs = []
        for column in self.results(ops):
            # Uses in the chain are fine for the seed's values, not for other values of the lanes.
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

    def read(self) -> set[int]:
        """The ops that are packed or give inputs, the chain, and the ops of all values there."""
        seed, makers = self.seed, self.body.makers
        values = {*seed.meeting, *(value for leaf in self.inputs for value in leaf)}
        packed = (op for ops in self.packs for op in ops)
        return {*seed.chain, *packed, *map(makers.__getitem__, values)} - {None}

    def is_known(self, column: Column) -> bool:
        """Whether a column consists of constants."""
        program = self.rules.program
        values = map(self.body.value, column)
        return all(toolbox.constant_value(program, value) is not None for value in values)

    def split_constants(self) -> tuple[list[Column], list[Column]]:
        """All inputs as arguments: constants need not be copied into the batch."""
        return self.inputs, []

    def is_worth_it(self, search: GroupSearch) -> bool:
        """Whether the savings are worth the stacked inputs and sliced outputs."""

        def apart() -> list[Column]:
            return [lanes for lanes in self.outputs if not self._go_on_alike(lanes)]

        total, saved = self.gain(search.work)
        sink = self.seed.sink
        if self.seed.parts is not None:
            total += search.work.at(self.body, sink)
            saved += search.work.kernel
        if not saved and not self.moved(apart()):
            return self.body.names[sink] not in ADDITIONS or self.count >= MANY_LANES
        return self.pays(search, total, saved, apart)

    def _go_on_alike(self, lanes: Column) -> bool:
        """Whether all lanes of an output have equal but separate users behind the sink.

        These can be packed as well, and then take the output without slicing.
        """
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
        """The signature of an op, and the numbers of its operands that are a value."""
        operands = self.body.operands[user]
        positions = tuple([i for i, operand in enumerate(operands) if operand == value])
        return self.body.signatures[user], positions

    # -- replacing the lanes by a batch --

    def write(self) -> None:
        """Writes the batch before the sink, and makes the sink use it."""
        body, seed, rules = self.body, self.seed, self.rules
        sink = body.ops[seed.sink].operation
        lanes = f"{self.count} lanes of {len(self.packs)} ops"
        remark(sink, f"packed {lanes} into one batch with {count(len(self.inputs), 'input')}")
        results = list(dict.fromkeys([seed.values, *self.outputs]))
        name, location = f"{body.function.name.value}.lane", body.ops[self.packs[-1][0]].location
        batch = self.write_batch(name, results, sink, location)
        batched = dict(zip(results, batch, strict=True))
        with ir.InsertionPoint(sink), location:
            for lanes in self.outputs:
                self.take_apart(lanes, batched[lanes])
        seed.write(rules, body, batched[seed.values])


class _PackSearch(GroupSearch):
    """Finds the seeds of a program that are worth packing."""

    def batch(self, body: FunctionView) -> int:
        """Packs the seeds of a function, as it was read; returns the number of batches."""
        # The ops that batches have replaced, and those that they need.
        gone: set[int] = set()
        needed: set[int] = set()
        count = 0
        for seed in seeds(body):
            if seed.sink in gone:
                continue
            tree = SlpTree.of(self.rules, body, seed, self.batchable)
            if tree is None or not gone.isdisjoint(tree.read()):
                continue
            replaced = {*tree.gone, *seed.chain}
            if not needed.isdisjoint(replaced):
                continue
            if not tree.is_worth_it(self):
                continue
            tree.write()
            gone |= replaced
            needed |= tree.read() - replaced
            count += 1
        for index in sorted(gone, reverse=True):
            operation = body.ops[index].operation
            if not any(map(is_used, operation.results)):
                operation.erase()
        return count


class SlpVectorize(BatchGroups):
    """Batch similar computations whose results are stacked, summed or scattered."""

    name: ClassVar[str] = "jaxpr-slp-vectorize"
    search: ClassVar = _PackSearch
    max_rounds: ClassVar[int] = 6

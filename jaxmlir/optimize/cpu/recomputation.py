"""Which values XLA's CPU compiler would compute so often that it pays to store them.

The cost of a value is how many elementary ops of the program compute one element of it, if all of
them are fused::

    cost(v) = weight + sum of cost(u) over the operands u of v's op
    cost(v) = 0    after a fence, a constant, or an op that XLA does not fuse into its users,
                   and of a number where it is read by each element of an array

What several operands are computed of counts for each of them.  A kernel computes it once, if it is
the same element; where it counts once, seven of 43 gradients have fewer fences, and take 0.93 to
1.04 of the time and 1 to 1.18 of the memory; with a threshold of 12 instead, a stencil takes 1.8 of
the time.

XLA does not compute a quotient, an exponential or the like in several kernels, but stores it: of a
value that several kernels read, each computes again only the ops since those, and they are its
cost.

A value is fenced if it costs more than a threshold, which is higher for values of few elements, and

- several kernels compute it: it has several users, which do not all come together in one kernel or
  in one value that is fenced instead, and do not read a part each; or
- its user is larger and reads each element several times, as a broadcast does; or
- the kernel that reads it asks of each element in which of several joined or padded arrays it is,
  and so is not vectorized.

The weight of an op is 1, but that of a sine or another slow function as many ops as it takes the
time of.  An element of joined arrays costs more where it is read several times, as a kernel asks
for each which array it is in.  A call costs what the called function does, as XLA inlines it before
it fuses; a fence inside a function is there for all of its callers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import (
    FEW_ELEMENTS,
    FUSED,
    FUSIBLE,
    INDEXED,
    MOVED,
    SLOW,
    TAKEN_FOR_QUICK,
    inlined_calls,
    is_stored_if_shared,
)
from jaxmlir.analysis.op_counts import aval_if_any, elements
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.barriers import FencedValue

_SLOW = SLOW.keys() - TAKEN_FOR_QUICK
_JOINS = with_trait(Trait.JOINING)
_VIEWS = with_trait(Trait.VIEW) | {"jaxpr.slice"}
_RESHAPES = with_trait(Trait.RESHAPE) | {"jaxpr.broadcast_in_dim"}


class ElementCost(NamedTuple):
    """What computing an element of a value takes, with all that it is computed of fused into it."""

    ops: int
    """How many elementary ops, if the function's arguments cost nothing."""
    reads: int
    """How often an argument is read."""


_FREE = ElementCost(0, 0)
_ARGUMENT = ElementCost(0, 1)
# Beyond this, how much more does not matter.
_MUCH = 1 << 20


class FunctionSummary(NamedTuple):
    """What a function's callers have to know of it, and the values in it to fence."""

    fenced: list[FencedValue]
    results: list[ElementCost]
    again: list[ElementCost]
    """For each result, the part of its cost that each of several kernels that read it computes."""
    users: list[int]
    """How many ops use each argument."""
    same: list[int]
    """For each result, the first one that is the same array, in whatever shape."""
    spread: dict[int, bool]
    """The arguments that are read several times for each element: see :func:`_spread`."""
    joined: list[bool]
    """For each result, whether it is computed of one that several arrays are joined to."""
    branches: list[int]
    """For each result, how often a kernel asks of an element of it where it is."""


def dear_values(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView], threshold: int
) -> dict[str, list[FencedValue]]:
    """The values to store, by function.

    Args:
      bodies: the function of a symbol.
      threshold: the cost of an element over which a value is fenced.
    """
    summaries: dict[str, FunctionSummary] = {}

    def of(symbol: str) -> FunctionSummary:
        if symbol not in summaries:
            body = bodies(symbol)
            # A rule that calls its own function: in itself this costs nothing.
            outs = len(body.returned)
            free, nowhere = [_FREE] * outs, [False] * outs
            summaries[symbol] = FunctionSummary(
                [], free, free, [1] * body.arity, [], {}, nowhere, [0] * outs
            )
            summaries[symbol] = _FenceWalk(body, of, threshold).run()
        return summaries[symbol]

    return {symbol: of(symbol).fenced for symbol in symbols}


class _FenceWalk:
    """A walk through a function, operands first, that finds the values to fence.

    Lists have an entry for each value of the function.
    """

    def __init__(self, body: FunctionView, of: Callable[[str], FunctionSummary], threshold: int):
        of_types = {type_: elements(type_) for type_ in set(body.types)}
        self._body = body
        self._of = of
        self._threshold = threshold
        self._calls = inlined_calls(body)
        self._counts = [of_types[type_] for type_ in body.types]
        self._users = _users(body, self._calls, self._counts, of)
        self._spread = _spread(body, self._calls, self._counts, of)
        self._costs = [_ARGUMENT] * body.arity + [_FREE] * (len(self._counts) - body.arity)
        self._again = list(self._costs)
        self._slow: set[int] = set()
        self._joined: set[int] = set()
        self._branches = _Branches()
        # Of a value that is another one in another shape, that one.
        self._arrays: dict[int, int] = {}
        self._fenced: list[FencedValue] = []

    def run(self) -> FunctionSummary:
        for index in range(len(self._body.ops)):
            self._visit(index)
        body, outs, first_of = self._body, self._body.returned, dict[int, int]()
        return FunctionSummary(
            self._fenced,
            [self._costs[v] for v in outs],
            [self._again[v] for v in outs],
            self._users[: body.arity],
            [first_of.setdefault(self._arrays.get(v, v), i) for i, v in enumerate(outs)],
            {v: by_index for v, by_index in self._spread.items() if v < body.arity},
            [v in self._joined for v in outs],
            [self._branches.counts[v] for v in outs],
        )

    @functools.cached_property
    def _once(self) -> set[int]:
        return _computed_once(self._body, self._calls)

    def _visit(self, index: int) -> None:
        """Tells what an op's results cost, and fences them or what the op reads if that pays."""
        name, operands = self._body.names[index], self._body.operands[index]
        first, last = self._body.results[index]
        is_reshape = name in _RESHAPES and self._counts[first] == self._counts[operands[0]]
        if name in _SLOW or (is_reshape and operands[0] in self._slow):
            self._slow.add(first)
        inputs = self._read_by_each_element(name, operands, first)
        callee = self._of(self._calls[index]) if index in self._calls else None
        if callee is not None:
            self._joined.update(itertools.compress(range(first, last), callee.joined))
            self._branches.counts.update(dict(enumerate(callee.branches, start=first)))
        elif name in FUSIBLE:
            if name in _JOINS or not self._joined.isdisjoint(inputs):
                self._joined.add(first)
            if name not in INDEXED:
                self._fence_branched(name, inputs, first)
        costs = _of_op(name, callee and callee.results, [self._costs[v] for v in inputs])
        again = _of_op(name, callee and callee.again, [self._again[v] for v in inputs])
        if is_stored_if_shared(self._body.signatures[index]):
            again = [_FREE]
        views = {} if callee is None else _views(callee, first, self._users)
        for value, cost, cost_again in zip(range(first, last), costs, again, strict=False):
            array = self._arrays.get(value)
            if array is None:
                self._weigh(index, value, cost, cost_again, views.get(value, ()))
            else:
                self._costs[value], self._again[value] = self._costs[array], self._again[array]
        if is_reshape:
            self._arrays[first] = self._arrays.get(operands[0], operands[0])

    def _read_by_each_element(self, name: str, operands: Sequence[int], result: int) -> set[int]:
        """The operands of an op but those that are computed once for several of its elements."""
        if name not in FUSED and name != "jaxpr.broadcast_in_dim":
            return set(operands)
        count = self._counts[result]
        return {v for v in operands if not _is_hoisted(v, count, self._counts, self._slow)}

    def _fence_branched(self, name: str, read: Collection[int], result: int) -> None:
        """Fences what an op would compute in a kernel that is not vectorized."""
        dear = [
            v
            for v in read
            if self._counts[v] >= FEW_ELEMENTS
            and self._costs[v].ops > self._threshold
            and _is_array(self._body.types[v])
        ]
        for v in self._branches.meet(name, result, read, dear):
            if self._costs[v] != _FREE:
                use = "the kernel that reads it asks where each element is"
                self._fence(self._body.makers[v], v, self._costs[v].ops, use)

    def _weigh(
        self, index: int, value: int, cost: ElementCost, again: ElementCost, others: Sequence[int]
    ) -> None:
        """Notes what a result costs its users, or fences it if that is too much.

        Args:
          again: the part of the cost that each of several kernels computes.
          others: results of the same call that are the same array.
        """
        alike = (value, *others)
        self._arrays.update(dict.fromkeys(others, value))
        users = sum([self._users[v] for v in alike])
        is_spread = not self._spread.keys().isdisjoint(alike)
        ops = cost.ops + (JOINED if is_spread and value in self._joined else 0)
        is_shared = (
            users > 1 and ops > self._threshold and (bool(others) or value not in self._once)
        )
        if is_shared:
            cost = again
            ops = ops if is_spread else again.ops
        self._costs[value], self._again[value] = cost, again
        if (
            (is_shared or is_spread)
            and ops > self._least(alike, users, is_spread)
            and _is_array(self._body.types[value])
        ):
            use = (
                f"{users} ops use it" if users > 1 else "its user reads each element several times"
            )
            self._fence(index, value, ops, use, others)
            self._joined.difference_update(alike)
            self._branches.forget(alike)

    def _least(self, alike: Sequence[int], users: int, is_spread: bool) -> int:
        """The cost over which values that are the same array are fenced."""
        value, least = alike[0], self._threshold
        # XLA itself stores a slow function of few numbers that are spread.
        if not is_spread or value in self._slow:
            least *= _factor(self._counts[value], users)
        return least // GATHERED_FACTOR if any(map(self._spread.get, alike)) else least

    def _fence(
        self, index: int, value: int, ops: int, use: str, others: Sequence[int] = ()
    ) -> None:
        first, reason = self._body.results[index][0], f"{use}, and an element costs {ops} ops"
        views = tuple([v - first for v in others])
        self._fenced.append(FencedValue(index, value - first, reason, views))
        self._costs[value] = self._again[value] = _FREE


class _Branches:
    """How often kernels ask of each element of a value where it is, and what they compute that does
    not depend on it and would be vectorized alone."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._dear: dict[int, set[int]] = {}

    def meet(
        self, name: str, result: int, read: Collection[int], dear: Collection[int]
    ) -> Collection[int]:
        """The expensive values to store, now that an op has been fused with what it reads.

        Args:
          dear: the expensive ones that it reads.
        """
        count = sum([self.counts[v] for v in read]) + (name in _BRANCHING)
        if not count:
            return ()
        self.counts[result] = count
        met = {v for v in dear if not self.counts[v]}
        met.update(*(self._dear.get(v, ()) for v in read))
        if count >= MAX_BRANCHES:
            return met
        self._dear[result] = met
        return ()

    def forget(self, values: Iterable[int]) -> None:
        """Notes that values are stored."""
        for v in values:
            self.counts.pop(v, None)
            self._dear.pop(v, None)


def _of_op(
    name: str, called: Sequence[ElementCost] | None, read: Sequence[ElementCost]
) -> list[ElementCost]:
    """The costs of an op's results, given those of its operands; none where it is not fused.

    Args:
      called: of a call, the costs of what the function returns.
    """
    if called is not None:
        # Which argument a result reads is not told apart: the dearest stands for all.
        ops = max([cost.ops for cost in read], default=0)
        reads = max([cost.reads for cost in read], default=0)
        return [
            ElementCost(min(cost.ops + cost.reads * ops, _MUCH), min(cost.reads * reads, _MUCH))
            for cost in called
        ]
    if name in FUSIBLE:
        ops = sum([cost.ops for cost in read]) + SLOW.get(name, name in FUSED)
        return [ElementCost(min(ops, _MUCH), min(sum([cost.reads for cost in read]), _MUCH))]
    return []


def _users(
    body: FunctionView,
    calls: Mapping[int, str],
    counts: Sequence[int],
    callee: Callable[[str], FunctionSummary],
) -> list[int]:
    """How many ops use each value, those of called functions included."""
    use_counts = [0] * len(counts)
    for v in set(body.returned):
        use_counts[v] = 1
    sliced: Counter[int] = Counter()
    for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
        if index in calls:
            of_arguments = dict(zip(operands, callee(calls[index]).users, strict=True))
            for v, users in of_arguments.items():
                use_counts[v] += users
        elif name == "jaxpr.slice":
            sliced[operands[0]] += counts[body.results[index][0]]
        else:
            for v in set(operands):
                use_counts[v] += 1
    # Slices that share no element are one user: each element is computed for one of them.
    for v, count in sliced.items():
        use_counts[v] += math.ceil(count / max(1, counts[v]))
    return use_counts


def _views(callee: FunctionSummary, first: int, users: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The other results of a call that are the same array as each result that is used.

    Args:
      first: the number of its first result.
    """
    arrays: dict[int, list[int]] = {}
    for value, array in enumerate(callee.same, start=first):
        if users[value]:
            arrays.setdefault(array, []).append(value)
    return {value: tuple(others) for value, *others in arrays.values()}


# Kernels of more ops than this gain by fences, and smaller ones lose: ten steps of Newton's method
# in one kernel, 80 ops, take 0.6 ms on jax 0.12, and with a fence in each step 2.8; 120 ops of
# another chain take 1.2 ms on jax 0.10 and 0.12, and with fences 0.4.
MAX_KERNEL = 96


def _computed_once(body: FunctionView, calls: Mapping[int, str]) -> set[int]:
    """The values of a function that are computed in one kernel if everything is fused.

    A value is computed at the ops that it flows to through elementwise ops only, which read each of
    its elements once.  Where it flows to a single value that is computed at several, that is
    fenced, for it costs no less: a kernel ends there.
    """
    # Two places stand for many.
    places_of: dict[int, set[Any]] = {v: {v} for v in body.returned}
    sizes: Counter[Any] = Counter()
    shapes = {t: getattr(aval_if_any(t), "shape", None) for t in set(body.types)}
    for index in reversed(range(len(body.ops))):
        name, (first, last) = body.names[index], body.results[index]
        results = range(first, last)
        places = places_of.get(first, set()) if results else set()
        if len(places) > 1:
            places = {first}
        is_fused = name in FUSED
        if is_fused:
            for place in places:
                sizes[place] += 1
        shape = shapes[body.types[first]] if is_fused and len(results) == 1 else None
        for v in dict.fromkeys(body.operands[index]):
            where = places_of.setdefault(v, set())
            if len(where) > 1:
                continue
            if is_fused and len(results) == 1 and shapes[body.types[v]] == shape:
                where |= places
            elif name in MOVED or index in calls:
                # Each element may be read several times.
                where |= {*results[:1], name}
            else:
                where.add(first if results else name)
    return {
        v
        for v, where in places_of.items()
        if len(where) == 1 and sizes[next(iter(where))] <= MAX_KERNEL
    }


# Where a value has few elements, the threshold is so many times as high: computing little again
# takes less time than a fence, unless each element of something larger does so.  Tridiagonal
# systems of 256 unknowns, times of JAX's, jax 0.10 and 0.12: at 1, 1.25 and 1.03; at 4, 1.08 and
# 0.66.
FEW_FACTOR = 4
# Where few are computed again, by all users but one, it is higher, in the proportion that makes it
# the same for 1024, up to this: a fence takes 2 to 4 microseconds.  The gradient of a Lagrangian,
# 1536 values, on one core, jax 0.10, of JAX's time: 0.95, and so 0.89.  At twice the proportion it
# takes 0.84, but that of an image's blurs, of shifted reads, 2.4 times as long.
MAX_FEW_FACTOR = 16
# Of a number, which a kernel computes once.  The gradient of 25 steps of the Lorenz equations, of
# three numbers, takes 0.074 ms on jax 0.10 at 4, 0.056 at 16 and 64, 0.042 at 256, and 0.026 with
# JAX.
NUMBER_FACTOR = 256

# Of a larger op, from which on what it reads several times is fenced: pairs of points in three
# dimensions, times of fused / fenced on jax 0.10 and 0.12, of 8 points 1.7 to 2.2 and 0.8, of 64
# 2.8 and 3.1, of 256 3.4 and 4.8.
MIN_ELEMENTS = 4096
# Of what is read by index the threshold is a part: such a kernel is not vectorized.  1000 sums of
# eight products for 5000 edges, jax 0.10 and 0.12, ms: 0.36, 0.35 / stored 0.30, 0.25.
GATHERED_FACTOR = 4
# What an element costs that is read of several arrays which are put beside one another, in ops: a
# kernel asks of each which array it is in, and is not vectorized.  Two to eight arrays, spread to 2
# / 5 / 20 rows, jax 0.10 and 0.12, time of fused over stored: of 4096 elements 1.3 to 1.5 / 1.8 to
# 2.3 / 3.2 to 4.7; of 200,000 0.8 to 2.4 / 1.2 to 2.3 / 1.9 to 5.  Where two kernels read it, 0.6
# to 1.4.
JOINED = 32
# Kernels that ask of each element so many times where it is, for arrays that are put beside one
# another or padded, are not vectorized.  A chain of 20 / 40 ops, and what is read of its operand at
# one shifted place, at two, three, four, jax 0.10, time of fused over stored: 1.0, 1.2, 1.2, 1.6 /
# 1.0, 0.9, 1.6, 1.4; of two and of four padded arrays 1.2, 1.3 / 1.3, 1.4; of 10 ops 0.8 to 1.1.
# On 0.12, of padded arrays 1.1, 1.3 / 1.4, 1.4, and of shifted ones 1.  The adjoint of a step of a
# fluid, with a cosine and five shifts, on 0.10: 2.2.
MAX_BRANCHES = 2
_BRANCHING = _JOINS | {"jaxpr.pad"}


def _factor(count: int, users: int) -> int:
    """How many times the threshold a value of few elements may cost before it is fenced.

    Args:
      count: its elements.
      users: how many ops use it.
    """
    if count == 1:
        return NUMBER_FACTOR
    factor = FEW_FACTOR if count < FEW_ELEMENTS else 1
    again = count * max(1, users - 1)
    return max(factor, min(FEW_FACTOR * FEW_ELEMENTS // max(1, again), MAX_FEW_FACTOR))


def _spread(
    body: FunctionView,
    calls: Mapping[int, str],
    counts: Sequence[int],
    callee: Callable[[str], FunctionSummary],
) -> dict[int, bool]:
    """The values that an op reads each element of several times, for as many of its own, and
    whether it finds them by index.  The op may be one of a called function."""
    views: dict[int, int] = {}
    parts: defaultdict[int, defaultdict[int, bool]] = defaultdict(lambda: defaultdict(bool))
    spread: defaultdict[int, bool] = defaultdict(bool)
    for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
        if index in calls:
            for i, by_index in callee(calls[index]).spread.items():
                spread[operands[i]] |= by_index
            continue
        first = body.results[index][0]
        for v in _read_again(name, operands):
            if counts[first] >= MIN_ELEMENTS and 1 < counts[v] <= counts[first] // 2:
                parts[views.get(v, v)][v] |= name == "jaxpr.gather"
        if name in _VIEWS and counts[first] <= counts[operands[0]]:
            views[first] = views.get(operands[0], operands[0])
    for whole, reads in parts.items():
        # Of what is read part by part, all is stored at once.
        is_read_whole = sum([counts[v] for v in reads]) >= counts[whole]
        for v, by_index in reads.items():
            spread[whole if is_read_whole else v] |= by_index
    return spread


def _read_again(name: str, operands: Sequence[int]) -> Sequence[int]:
    """The operands of an op of which it may read each element several times."""
    if name == "jaxpr.gather":
        return operands[:1]
    # XLA takes one array beside itself for an array that is spread.
    is_repeated = name in _JOINS and len(operands) > len(set(operands)) == 1
    is_spreading = is_repeated or name in FUSED or name == "jaxpr.broadcast_in_dim"
    return operands if is_spreading else ()


def _is_hoisted(value: int, larger: int, counts: Sequence[int], slow: Collection[int]) -> bool:
    """Whether an operand costs a kernel nothing, which uses each of its elements for several of a
    number of elements that are computed of it.

    A number is computed before a kernel goes through its elements, as LLVM moves what is the same
    for all of them out of the loop: 100,000 products with the lgamma of a number take as long as
    with the number.  And XLA fuses few slow ops with one that spreads their result.
    """
    count = counts[value]
    return count < larger and (count == 1 or value in slow)


@functools.cache
def _is_array(type_: ir.Type) -> bool:
    aval = aval_if_any(type_)
    return isinstance(aval, core.ShapedArray) and not isinstance(aval.dtype, dtypes.ExtendedDType)

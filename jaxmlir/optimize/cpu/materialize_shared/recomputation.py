"""Finds the values that XLA's CPU compiler would recompute so often that it pays to store them.

The cost of a value is the number of elementary ops that compute one element of it, if all of them
are fused::

    cost(v) = weight + sum of cost(u) over the operands u of v's op
    cost(v) = 0    after a fence, a constant, or an op that XLA does not fuse into its users,
                   and for a number that each element of an array reads

If several operands are computed from one value, it counts for each of them, although a kernel
computes an element that they share only once.  If it counted once, seven of 43 gradients would have
fewer fences, and take 0.93 to 1.04 of the time and 1 to 1.18 of the memory; with a threshold of 12
instead, a stencil takes 1.8 of the time.

XLA stores quotients, exponentials and the like rather than compute them in several kernels.  So
each of several kernels that read a value recomputes only the ops after these, and only those ops
count.

A value is fenced if it costs more than a threshold, which is higher for values of few elements, and

- several kernels compute it: it has several users, which do not all end up in one kernel, or in one
  value that is fenced instead, and do not read separate parts of it; or
- its user is larger and reads each element several times, as a broadcast does; or
- the kernel that reads it has to find out which of several joined or padded arrays each element is
  in, and so is not vectorized.

The weight of an op is 1; that of a sine or another slow function is the number of ops that take the
same time.  An element of joined arrays costs more if it is read several times, because the kernel
has to find out each time which array it is in.  A call costs what its callee costs, because XLA
inlines it before it fuses; a fence in the callee serves all its callers.
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
    inlined_calls,
    is_recomputed,
    is_stored_if_shared,
    ops_per_element,
)
from jaxmlir.analysis.op_counts import aval_if_any, elements
from jaxmlir.analysis.strided_view import SLICES
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.barriers import FencedValue

_PIECES = SLICES - FUSIBLE
_JOINS = with_trait(Trait.JOINING)
_VIEWS = with_trait(Trait.VIEW) | {"jaxpr.slice"}
_RESHAPES = with_trait(Trait.RESHAPE) | {"jaxpr.broadcast_in_dim"}


class ElementCost(NamedTuple):
    """The cost of an element of a value if all ops that it is computed by are fused."""

    ops: int
    """The number of elementary ops, if the function's arguments cost nothing."""
    reads: int
    """How often an argument is read."""


_FREE = ElementCost(0, 0)
_ARGUMENT = ElementCost(0, 1)
# Costs are capped here: beyond, the exact number does not matter.
_MUCH = 1 << 20


class FunctionSummary(NamedTuple):
    """The properties of a function that its callers need, and the values in it to fence."""

    fenced: list[FencedValue]
    results: list[ElementCost]
    again: list[ElementCost]
    """For each result, the part of its cost that each of several kernels reading it recomputes."""
    users: list[int]
    """How many ops use each argument."""
    same: list[int]
    """For each result, the first result that is the same array, perhaps in another shape."""
    spread: dict[int, bool]
    """The arguments whose elements are read several times each: see :func:`_spread`."""
    joined: list[bool]
    """For each result, whether joined arrays are fused into it."""
    branches: list[int]
    """For each result, the number of branches per element: see :class:`_Branches`."""

    @classmethod
    def of_recursive(cls, body: FunctionView) -> FunctionSummary:
        """The summary of a function for the calls within a cycle: they cost nothing."""
        outs = len(body.returned)
        free = [_FREE] * outs
        return cls([], free, free, [1] * body.arity, [], {}, [False] * outs, [0] * outs)


def dear_values(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView], threshold: int
) -> dict[str, list[FencedValue]]:
    """The values to store, by function.

    Args:
      symbols: the functions, callees first.
      bodies: gives the function of a symbol.
      threshold: the cost of an element over which a value is fenced.
    """
    summaries: dict[str, FunctionSummary] = {}

    def of(symbol: str) -> FunctionSummary:
        return summaries.get(symbol) or FunctionSummary.of_recursive(bodies(symbol))

    for symbol in symbols:
        summaries[symbol] = _FenceWalk(bodies(symbol), of, threshold).run()
    return {symbol: summary.fenced for symbol, summary in summaries.items()}


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
        # The values that a kernel computes with a function that it recomputes.
        self._recomputed: set[int] = set()
        self._joined: set[int] = set()
        self._branches = _Branches()
        # For each value that is another value in another shape, that other value.
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
        """Computes the costs of an op's results, and fences these or operands if that pays."""
        name, operands = self._body.names[index], self._body.operands[index]
        first, last = self._body.results[index]
        is_reshape = name in _RESHAPES and self._counts[first] == self._counts[operands[0]]
        signature = self._body.signatures[index]
        is_slow = name in SLOW and not is_recomputed(signature)
        if is_slow or (is_reshape and operands[0] in self._slow):
            self._slow.add(first)
        inputs = self._read_by_each_element(name, operands, first)
        callee = self._of(self._calls[index]) if index in self._calls else None
        if callee is not None:
            self._joined.update(itertools.compress(range(first, last), callee.joined))
            self._branches.counts.update(dict(enumerate(callee.branches, start=first)))
        # Pieces are stored where they are cheap, and computed by each kernel that reads them if
        # that takes a function.
        is_fused = name in FUSIBLE or (name in _PIECES and operands[0] in self._recomputed)
        if is_fused:
            if is_recomputed(signature) or not self._recomputed.isdisjoint(inputs):
                self._recomputed.update(range(first, last))
            if name in _JOINS or not self._joined.isdisjoint(inputs):
                self._joined.update(range(first, last))
            if name not in INDEXED:
                self._fence_branched(signature, inputs, range(first, last))
        costs, again = [], []
        if callee is not None or is_fused:
            costs = _of_op(signature, callee and callee.results, [self._costs[v] for v in inputs])
            again = _of_op(signature, callee and callee.again, [self._again[v] for v in inputs])
        if is_stored_if_shared(signature):
            again = [_FREE] * (last - first)
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
        """The operands of an op, except those that are computed once for several elements."""
        if name not in FUSED and name != "jaxpr.broadcast_in_dim":
            return set(operands)
        count = self._counts[result]
        return {v for v in operands if not _is_hoisted(v, count, self._counts, self._slow)}

    def _fence_branched(
        self, signature: Signature, read: Collection[int], results: Iterable[int]
    ) -> None:
        """Fences values that an op would compute in a kernel that is not vectorized."""
        arrays = [
            v for v in read if self._counts[v] >= FEW_ELEMENTS and _is_array(self._body.types[v])
        ]
        if is_recomputed(signature):
            # This op is vectorized if its operand is stored.
            for v in arrays:
                if self._branches.counts[v] >= MAX_BRANCHES:
                    self._fence_in_branches(v)
                    self._branches.forget([v])
        dear = [v for v in arrays if self._costs[v].ops > self._threshold]
        for v in self._branches.meet(signature.name, results, read, dear):
            if self._costs[v] != _FREE:
                self._fence_in_branches(v)

    def _fence_in_branches(self, value: int) -> None:
        use = "the kernel that reads it branches for each element"
        self._fence(self._body.makers[value], value, self._costs[value].ops, use)

    def _weigh(
        self, index: int, value: int, cost: ElementCost, again: ElementCost, others: Sequence[int]
    ) -> None:
        """Notes the cost of a result for its users, or fences it if the cost is too high.

        Args:
          again: the part of the cost that each of several kernels recomputes.
          others: other results of the same call that are the same array.
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
        """The cost over which an array is fenced, given the values that are this array."""
        value, least = alike[0], self._threshold
        # XLA itself stores a slow function of few elements that are read several times.
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
        self._recomputed.discard(value)


class _Branches:
    """The joins and pads fused into each value, which are branches for each element of a kernel;
    and the expensive values fused with them that would be vectorized by themselves."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._dear: dict[int, set[int]] = {}

    def meet(
        self, name: str, results: Iterable[int], read: Collection[int], dear: Collection[int]
    ) -> Collection[int]:
        """The expensive values to store, once an op is fused with the values that it reads.

        Args:
          dear: the expensive values that it reads.
        """
        count = sum([self.counts[v] for v in read]) + (name in _BRANCHING)
        if not count:
            return ()
        self.counts.update(dict.fromkeys(results, count))
        met = {v for v in dear if not self.counts[v]}
        met.update(*(self._dear.get(v, ()) for v in read))
        if count >= MAX_BRANCHES:
            return met
        self._dear.update(dict.fromkeys(results, met))
        return ()

    def forget(self, values: Iterable[int]) -> None:
        """Notes that values are stored."""
        for v in values:
            self.counts.pop(v, None)
            self._dear.pop(v, None)


def _of_op(
    signature: Signature, called: Sequence[ElementCost] | None, read: Sequence[ElementCost]
) -> list[ElementCost]:
    """The costs of the results of a call or a fused op, given those of its operands.

    Args:
      called: for a call, the costs of the callee's results.
    """
    if called is not None:
        # It is unknown which argument a result reads: the most expensive one stands for all.
        ops = max([cost.ops for cost in read], default=0)
        reads = max([cost.reads for cost in read], default=0)
        return [
            ElementCost(min(cost.ops + cost.reads * ops, _MUCH), min(cost.reads * reads, _MUCH))
            for cost in called
        ]
    ops = sum([cost.ops for cost in read]) + ops_per_element(signature)
    cost = ElementCost(min(ops, _MUCH), min(sum([cost.reads for cost in read]), _MUCH))
    return [cost] * len(signature.results)


def _users(
    body: FunctionView,
    calls: Mapping[int, str],
    counts: Sequence[int],
    callee: Callable[[str], FunctionSummary],
) -> list[int]:
    """The number of ops that use each value, callees' ops included."""
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
    """For each array that a call returns, its first result that is used, and its other ones.

    Args:
      first: the number of the call's first result.
    """
    arrays: dict[int, list[int]] = {}
    for value, array in enumerate(callee.same, start=first):
        if users[value]:
            arrays.setdefault(array, []).append(value)
    return {value: tuple(others) for value, *others in arrays.values()}


# Larger kernels gain from fences, and smaller ones lose: ten steps of Newton's method in one
# kernel, 80 ops, take 0.6 ms on jax 0.12, and 2.8 with a fence in each step; 120 ops of another
# chain take 1.2 ms on jax 0.10 and 0.12, and 0.4 with fences.
MAX_KERNEL = 96


def _computed_once(body: FunctionView, calls: Mapping[int, str]) -> set[int]:
    """The values of a function that a single kernel computes if everything is fused.

    A value is computed in the kernels that it flows to through elementwise ops of its shape, which
    read each element once.  If it flows only to one value that several kernels compute, this value
    is fenced instead, because it costs no less: a kernel ends there.
    """
    # Two places stand for any greater number.
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
                # The op may read each element several times.
                where |= {*results[:1], name}
            else:
                where.add(first if results else name)
    return {
        v
        for v, where in places_of.items()
        if len(where) == 1 and sizes[next(iter(where))] <= MAX_KERNEL
    }


# The threshold is this many times as high for values of fewer than FEW_ELEMENTS elements.
# Recomputing these takes less time than a fence, unless each element of a larger value does so.
# Tridiagonal systems of 256 unknowns, times relative to JAX's, jax 0.10 and 0.12: at 1, 1.25 and
# 1.03; at 4, 1.08 and 0.66.
FEW_FACTOR = 4
# The factor is higher if all users but one recompute few elements together: inversely proportional
# to their number, FEW_FACTOR for 1024 of them, and up to this.  A fence takes 2 to 4 microseconds.
# The gradient of a Lagrangian, 1536 values, on one core, jax 0.10, time relative to JAX's: 0.89,
# and 0.95 without this.  At twice the factor it takes 0.84, but the gradient of an image's blurs,
# of shifted reads, takes 2.4 times as long.
MAX_FEW_FACTOR = 16
# The factor for a single number, which a kernel computes once.  The gradient of 25 steps of the
# Lorenz equations, of three numbers, takes 0.074 ms on jax 0.10 at 4, 0.056 at 16 and 64, 0.042 at
# 256, and 0.026 with JAX.
NUMBER_FACTOR = 256

# A value that a larger op reads several times is fenced if the op has at least this many elements.
# Pairs of points in three dimensions, times of fused / fenced on jax 0.10 and 0.12: 8 points 1.7 to
# 2.2 and 0.8, 64 points 2.8 and 3.1, 256 points 3.4 and 4.8.
MIN_ELEMENTS = 4096
# The threshold is divided by this for values that are read by index, because such a kernel is not
# vectorized.  1000 sums of eight products for 5000 edges, jax 0.10 and 0.12, ms: 0.36, 0.35 /
# stored 0.30, 0.25.
GATHERED_FACTOR = 4
# The added cost, in ops, of an element of joined arrays that is read several times: a kernel has to
# find out which array it is in, and is not vectorized.  Two to eight arrays, spread to 2 / 5 / 20
# rows, jax 0.10 and 0.12, time of fused over stored: 4096 elements 1.3 to 1.5 / 1.8 to 2.3 / 3.2 to
# 4.7; 200,000 elements 0.8 to 2.4 / 1.2 to 2.3 / 1.9 to 5.  If two kernels read it, 0.6 to 1.4.
JOINED = 32
# Kernels with this many branches per element, for joined or padded arrays, are not vectorized.  A
# chain of 20 / 40 ops, and reads of its operand at one, two, three, four shifted places, jax 0.10,
# time of fused over stored: 1.0, 1.2, 1.2, 1.6 / 1.0, 0.9, 1.6, 1.4; two and four padded arrays
# 1.2, 1.3 / 1.3, 1.4; chains of 10 ops 0.8 to 1.1.  On 0.12, padded arrays 1.1, 1.3 / 1.4, 1.4, and
# shifted reads 1.  The adjoint of a step of a fluid, with a cosine and five shifts, on 0.10: 2.2.
MAX_BRANCHES = 2
_BRANCHING = _JOINS | {"jaxpr.pad"}


def _factor(count: int, users: int) -> int:
    """The factor by which the threshold is higher for a value of few elements.

    Args:
      count: the number of its elements.
      users: the number of ops that use it.
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
    """The values whose elements a larger op reads several times each, and whether by index.

    The op may be in a callee.
    """
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
        # If the parts of an array that are read make up the whole, the whole is stored.
        is_read_whole = sum([counts[v] for v in reads]) >= counts[whole]
        for v, by_index in reads.items():
            spread[whole if is_read_whole else v] |= by_index
    return spread


def _read_again(name: str, operands: Sequence[int]) -> Sequence[int]:
    """The operands whose elements an op may read several times each."""
    if name == "jaxpr.gather":
        return operands[:1]
    # XLA treats the concatenation of an array with itself like a broadcast.
    is_repeated = name in _JOINS and len(operands) > len(set(operands)) == 1
    is_spreading = is_repeated or name in FUSED or name == "jaxpr.broadcast_in_dim"
    return operands if is_spreading else ()


def _is_hoisted(value: int, larger: int, counts: Sequence[int], slow: Collection[int]) -> bool:
    """Whether an operand costs a kernel nothing, because the kernel reads each of its elements for
    several of the ``larger`` number of elements of a result.

    A single number is computed before the kernel's loop, because LLVM hoists it: 100,000 products
    with the lgamma of a number take as long as with the number.  And XLA fuses hardly any slow op
    into one that reads each element of its result several times.
    """
    count = counts[value]
    return count < larger and (count == 1 or value in slow)


@functools.cache
def _is_array(type_: ir.Type) -> bool:
    aval = aval_if_any(type_)
    return isinstance(aval, core.ShapedArray) and not isinstance(aval.dtype, dtypes.ExtendedDType)

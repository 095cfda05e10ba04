"""``jaxpr-materialize-shared``: keep XLA from computing a value again for each of its users.

XLA's CPU compiler fuses an elementwise or data-moving op into every op that uses it, and so
computes it once for each.  That is right where recomputing is cheaper than a trip to memory, and
it compounds: of a stencil that is applied twenty times, each element of the result reads five of
the step before, each of which reads five ...; fused all the way down, work and compile time grow
exponentially.  A *fence* on a value is the identity, which XLA does not fuse across: the value is
computed once and stored.

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

A value whose cost is over a threshold, which is higher for values of few elements, is fenced if
it has several users, unless all of them come together in one kernel, which computes it once, or in
one value that has several users in turn, which is fenced instead, or read a part each; or, however
few they are, if its user is larger and reads each element several times, as that of a broadcast
does, or if the kernel asks of each element which of several arrays that are put beside one another,
or padded, it is in, and so is not vectorized. The weight of an op is 1, but that of a sine or
another slow function as many ops as it takes the time of; and an element of several arrays that are
put beside one another costs more where it is read several times, as a kernel asks for each which
array that is in. So nothing changes in programs whose values are cheap or read once. Calls, of
functions with rules of their own too, cost what the called function does: XLA inlines them before
it fuses. A fence inside a function is there for all of its callers.

Sums of many arrays are fenced as well, part by part, whatever they cost
(:mod:`jaxmlir.optimize.cpu.split_wide_sums`), and what is summed along an axis, where something
else would be stored for that (:mod:`jaxmlir.optimize.cpu.materialize_reduction_inputs`); and
slices that are read in two arrangements (:mod:`jaxmlir.optimize.cpu.materialize_slices`).  In
loops that write arrays in place, what is read of these is fenced together with what it is written
over with (:mod:`jaxmlir.optimize.cpu.order_in_place_updates`).

What a call returns twice, as it is and reshaped, is one array, and is fenced once: where both were
read, XLA might write over one of them (:mod:`jaxmlir.optimize.barriers`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import FunctionView, PutIn
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
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import aval_if_any, elements
from jaxmlir.dialect.builder import build
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import alone, fences_together
from jaxmlir.optimize.cpu.materialize_reduction_inputs import summed_apart
from jaxmlir.optimize.cpu.materialize_slices import read_in_two_ways, slices_of_scans
from jaxmlir.optimize.cpu.order_in_place_updates import loop_bodies, overwritten, read_first
from jaxmlir.optimize.cpu.split_wide_sums import MAX_READ, crowded_sums
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark


class MaterializeShared(Pass):
    """Store expensive values that are read several times, where XLA would compute them for each.

    Options:
      threshold: the cost of an element, in ops, over which a value is fenced.
    """

    name: ClassVar[str] = "jaxpr-materialize-shared"
    # Other compilers weigh recomputation themselves.
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    # Gradients on two cores, speed against no fences, at 4 / 8 / 16 / 32: an unrolled Lorenz-96
    # 30 / 56 / 83 / 82, a stencil 61 / 80 / 82 / 6; programs of matrix products do not care.
    threshold: Count = 16

    def run(self, program: Module) -> bool:
        return fence(program, self.threshold)


def fence(program: Module, threshold: int = MaterializeShared.threshold) -> bool:
    """Puts fences into a program, in place; whether any."""
    together = fences_together(program)
    if together is None:
        return False
    put = alone(together)
    bodies = _Bodies(program)
    costs = _Costs(bodies, threshold)
    chosen = {symbol: costs.of(symbol).fenced for symbol in program.functions}
    for symbol, values in chosen.items():
        if values:
            bodies.put_in(symbol, _fence(bodies(symbol), values, put))
    count = sum(map(len, chosen.values()))

    def cut(found: Mapping[str, list[tuple[int, int]]], reason: str) -> int:
        for symbol, cuts in found.items():
            if cuts:
                bodies.put_in(symbol, _cut(bodies(symbol), cuts, put, reason))
        return sum(map(len, found.values()))

    sums = crowded_sums(list(program.functions), bodies)
    count += cut(sums, f"what is added up reads more than {MAX_READ} arrays")
    apart = {symbol: summed_apart(bodies(symbol)) for symbol in program.functions}
    count += cut(apart, "a sum of it would store what others compute again")
    slices = slices_of_scans(program.functions, bodies)
    sliced = {
        symbol: read_in_two_ways(bodies(symbol), slices.get(symbol, ()))
        for symbol in program.functions
    }
    count += cut(sliced, "its user reads this slice in two arrangements")
    for symbol in loop_bodies(map(bodies, program.functions)):
        body = bodies(symbol)
        for write in overwritten(body):
            read_first(body, write, together)
            count += 1
    if count:
        program.changed()
    return count > 0


class _Bodies:
    """The functions of a program, each read once."""

    def __init__(self, program: Module):
        self._program = program
        self._found: dict[str, FunctionView] = {}

    def __call__(self, symbol: str) -> FunctionView:
        found = self._found.get(symbol)
        if found is None:
            function = self._program.function(symbol)
            found = self._found[symbol] = analyses_of(self._program).body(function)
        return found

    def put_in(self, symbol: str, fences: Iterable[PutIn]) -> None:
        """Notes that a function has fences now."""
        in_order = sorted(fences, key=lambda new: new.after)
        self._found[symbol] = self(symbol).with_put_in(in_order)


class _Expensive(NamedTuple):
    """A value to fence."""

    index: int
    """The number of the op whose result it is, in its function."""
    result: int
    cost: int
    users: int
    views: tuple[int, ...]
    """Other results of the op that are the same array in another shape."""
    is_branched: bool = False
    """Whether it is fenced for the kernel that reads it, which would not be vectorized."""


def _fence(
    body: FunctionView, values: list[_Expensive], put: Callable[..., ir.Value]
) -> list[PutIn]:
    """Puts fences on values."""
    found = []
    for index, result, cost, users, views, is_branched in sorted(values, reverse=True):
        use = f"{users} ops use it" if users > 1 else "its user reads each element several times"
        if is_branched:
            use = "the kernel that reads it asks where each element is"
        reason = f"{use}, and an element costs {cost} ops"
        found += _store(body, (index, result), views, put, reason)
    return found


def _cut(
    body: FunctionView, cuts: list[tuple[int, int]], put: Callable[..., ir.Value], reason: str
) -> list[PutIn]:
    """Puts fences on values: of which ops they are which results, or which arguments (-1)."""
    return [new for cut in reversed(cuts) for new in _store(body, cut, (), put, reason)]


def _store(
    body: FunctionView,
    place: tuple[int, int],
    views: Sequence[int],
    put: Callable[..., ir.Value],
    reason: str,
) -> list[PutIn]:
    """Puts a fence on a value.

    Args:
      views: other results of the op that are the same array in another shape.
    """
    index, result = place
    op = body.function if index < 0 else body.ops[index]
    first, values = (0, op.arguments) if index < 0 else (body.results[index][0], op.results)
    remark(op, f"stored: {reason}")
    value, replaced = values[result], [first + result]
    with _after(body, index), op.location:
        fenced = put(value)
        found = [PutIn(fenced.owner, index, [first + result], replaced)]
        for v in views:
            view = _reshaped(fenced, values[v].type)
            values[v].replace_all_uses_with(view)
            if view is fenced:
                replaced.append(first + v)
            else:
                found.append(PutIn(view.owner, index, [first + result], [first + v]))
    value.replace_all_uses_except(fenced, fenced.owner.operation)
    return found


def _after(body: FunctionView, index: int) -> ir.InsertionPoint:
    """After an op, and what has been put in after it."""
    if index + 1 < len(body.ops):
        return ir.InsertionPoint(body.ops[index + 1])
    return ir.InsertionPoint.at_block_terminator(body_of(body.function))


def _reshaped(value: ir.Value, type_: ir.Type) -> ir.Value:
    if value.type == type_:
        return value
    return build("reshape", [value], type_, new_sizes=aval_of(type_).shape)


class _Cost(NamedTuple):
    """What a function's callers have to know of it, and the fences in it."""

    fenced: list[_Expensive]
    results: list[tuple[int, int]]
    """For each result, as for any value in the function: what it costs if arguments cost nothing,
    and how often it reads an argument."""
    again: list[tuple[int, int]]
    """For each result, the part of that which each of several kernels that read it computes."""
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


# Beyond this, how much more does not matter.
_MUCH = 1 << 20


class _Costs:
    """How many elementary ops compute an element of a value, those of called functions included."""

    def __init__(self, bodies: Callable[[str], FunctionView], threshold: int):
        self._bodies = bodies
        self._threshold = threshold
        self._found: dict[str, _Cost] = {}

    def of(self, symbol: str) -> _Cost:
        found = self._found.get(symbol)
        if found is None:
            body = self._bodies(symbol)
            # A rule that calls its own function: in itself this costs nothing.
            outs = len(body.returned)
            free, users = [(0, 0)] * outs, [1] * body.arity
            self._found[symbol] = _Cost([], free, free, users, [], {}, [False] * outs, [0] * outs)
            found = self._found[symbol] = self._walk(body)
        return found

    def _walk(self, body: FunctionView) -> _Cost:
        names, ops, outs = body.names, body.operands, body.returned
        calls = inlined_calls(body)
        of_types = {type_: elements(type_) for type_ in set(body.types)}
        counts = [of_types[type_] for type_ in body.types]
        users = _users(body, calls, counts, self.of)
        spread = _spread(body, calls, counts, self.of)
        fenced = []
        nothing = (0, 0)
        costs = [(0, 1)] * body.arity + [nothing] * (len(counts) - body.arity)
        again = list(costs)
        once: set[int] | None = None
        arrays: dict[int, int] = {}
        slow: set[int] = set()
        joined: set[int] = set()
        branches = _Branches()
        for index, (name, operands, (first, last)) in enumerate(
            zip(names, ops, body.results, strict=True)
        ):
            is_reshape = name in _RESHAPES and counts[first] == counts[operands[0]]
            of_slow = is_reshape and operands[0] in slow
            if of_slow or (name in SLOW and name not in TAKEN_FOR_QUICK):
                slow.add(first)
            read = set(operands)
            if name in FUSED or name == "jaxpr.broadcast_in_dim":
                read = {v for v in read if not _is_hoisted(v, counts[first], counts, slow)}
            called = calls.get(index)
            callee = None if called is None else self.of(called)
            if callee is not None:
                joined.update(itertools.compress(range(first, last), callee.joined))
                branches.counts.update(dict(zip(range(first, last), callee.branches, strict=True)))
            elif name in _JOINS or (_is_part_of_users(name) and not joined.isdisjoint(read)):
                joined.add(first)
            if callee is None and _is_part_of_users(name) and name not in INDEXED:
                dear = [
                    v
                    for v in read
                    if counts[v] >= FEW_ELEMENTS
                    and costs[v][0] > self._threshold
                    and _is_array(body.types[v])
                ]
                for v in branches.meet(name, first, read, dear):
                    if costs[v] == nothing:
                        continue
                    index_of = body.makers[v]
                    place = (index_of, v - body.results[index_of][0])
                    fenced.append(_Expensive(*place, costs[v][0], users[v], (), True))
                    costs[v] = again[v] = nothing
            found = _of_op(name, callee and callee.results, [costs[v] for v in read])
            found_again = _of_op(name, callee and callee.again, [again[v] for v in read])
            if is_stored_if_shared(body.signatures[index]):
                found_again = [nothing]
            views = {} if callee is None else _views(callee, first, users)
            for value, cost, cost_again in zip(
                range(first, last), found, found_again, strict=False
            ):
                if value in arrays:
                    costs[value], again[value] = costs[arrays[value]], again[arrays[value]]
                    continue
                own = cost[0]
                others = views.get(value, ())
                alike = (value, *others)
                arrays.update(dict.fromkeys(others, value))
                uses = sum([users[v] for v in alike])
                is_spread = not spread.keys().isdisjoint(alike)
                # XLA itself stores a slow function of few numbers that are spread.
                few = not is_spread or value in slow
                least = self._threshold * (_factor(counts[value], uses) if few else 1)
                if any(map(spread.get, alike)):
                    least //= GATHERED_FACTOR
                if is_spread and value in joined:
                    own += JOINED
                is_shared = False
                if uses > 1 and own > self._threshold:
                    once = _computed_once(body, calls) if once is None else once
                    is_shared = value not in once or bool(others)
                if is_shared:
                    cost = cost_again
                    own = own if is_spread else cost_again[0]
                costs[value], again[value] = cost, cost_again
                if (is_shared or is_spread) and own > least and _is_array(body.types[value]):
                    views_of = tuple([v - first for v in others])
                    fenced.append(_Expensive(index, value - first, own, uses, views_of))
                    costs[value] = again[value] = nothing
                    joined.difference_update(alike)
                    branches.forget(alike)
            if is_reshape:
                arrays[first] = arrays.get(operands[0], operands[0])
        first_of: dict[int, int] = {}
        same = [first_of.setdefault(arrays.get(v, v), i) for i, v in enumerate(outs)]
        return _Cost(
            fenced,
            [costs[v] for v in outs],
            [again[v] for v in outs],
            users[: body.arity],
            same,
            {v: by_index for v, by_index in spread.items() if v < body.arity},
            [v in joined for v in outs],
            [branches.counts[v] for v in outs],
        )


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


def _users(
    body: FunctionView,
    calls: Mapping[int, str],
    counts: Sequence[int],
    callee: Callable[[str], _Cost],
) -> list[int]:
    """How many ops use each value, those of called functions included."""
    found = [0] * len(counts)
    for v in set(body.returned):
        found[v] = 1
    sliced: Counter[int] = Counter()
    for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
        if index in calls:
            of_arguments = dict(zip(operands, callee(calls[index]).users, strict=True))
            for v, users in of_arguments.items():
                found[v] += users
        elif name == "jaxpr.slice":
            sliced[operands[0]] += counts[body.results[index][0]]
        else:
            for v in set(operands):
                found[v] += 1
    # Slices that share no element are one user: each element is computed for one of them.
    for v, count in sliced.items():
        found[v] += math.ceil(count / max(1, counts[v]))
    return found


def _views(callee: _Cost, first: int, users: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The other results of a call that are the same array as each result that is used.

    Args:
      first: the number of its first result.
    """
    arrays: dict[int, list[int]] = {}
    for value, array in enumerate(callee.same, start=first):
        if users[value]:
            arrays.setdefault(array, []).append(value)
    return {value: tuple(others) for value, *others in arrays.values()}


def _of_op(
    name: str, called: list[tuple[int, int]] | None, read: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The costs of an op's results, given those of its operands; none where it is not fused.

    Args:
      called: of a call, the costs of what the function returns.
    """
    if called is not None:
        # Which argument a result reads is not told apart: the dearest stands for all.
        own = max([cost for cost, _ in read], default=0)
        reads = max([times for _, times in read], default=0)
        return [
            (min(cost + times * own, _MUCH), min(times * reads, _MUCH)) for cost, times in called
        ]
    if _is_part_of_users(name):
        own = sum([cost for cost, _ in read]) + SLOW.get(name, name in FUSED)
        return [(min(own, _MUCH), min(sum([times for _, times in read]), _MUCH))]
    return []


def _is_part_of_users(name: str) -> bool:
    """Whether XLA computes an op in what uses it."""
    return name in FUSIBLE


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
    found: dict[int, set[Any]] = {v: {v} for v in body.returned}
    sizes: Counter[Any] = Counter()
    shapes = {t: getattr(aval_if_any(t), "shape", None) for t in set(body.types)}
    for index in reversed(range(len(body.ops))):
        name, (first, last) = body.names[index], body.results[index]
        results = range(first, last)
        places = found.get(first, set()) if results else set()
        if len(places) > 1:
            places = {first}
        is_fused = name in FUSED
        if is_fused:
            for place in places:
                sizes[place] += 1
        shape = shapes[body.types[first]] if is_fused and len(results) == 1 else None
        for v in dict.fromkeys(body.operands[index]):
            where = found.setdefault(v, set())
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
        for v, where in found.items()
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
_JOINS = with_trait(Trait.JOINING)
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
    callee: Callable[[str], _Cost],
) -> dict[int, bool]:
    """The values that an op reads each element of several times, for as many of its own, and
    whether it finds them by index.  The op may be one of a called function."""
    views: dict[int, int] = {}
    parts: defaultdict[int, dict[int, bool]] = defaultdict(dict)
    found: dict[int, bool] = {}
    for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
        if index in calls:
            for i, by_index in callee(calls[index]).spread.items():
                found[operands[i]] = found.get(operands[i], False) or by_index
            continue
        first = body.results[index][0]
        is_gather = name == "jaxpr.gather"
        # XLA takes one array beside itself for an array that is spread.
        is_repeated = name in _JOINS and len(operands) > len(set(operands)) == 1
        if is_repeated or name in FUSED or name == "jaxpr.broadcast_in_dim" or is_gather:
            size = counts[first]
            if size >= MIN_ELEMENTS:
                for v in operands[:1] if is_gather else operands:
                    if 1 < counts[v] <= size // 2:
                        read = parts[views.get(v, v)]
                        read[v] = read.get(v, False) or is_gather
        if name in _VIEWS and counts[first] <= counts[operands[0]]:
            views[first] = views.get(operands[0], operands[0])
    for whole, read in parts.items():
        # Of what is read part by part, all is stored at once.
        if sum([counts[v] for v in read]) >= counts[whole]:
            read = {whole: any(read.values())}
        for v, by_index in read.items():
            found[v] = found.get(v, False) or by_index
    return found


def _is_hoisted(value: int, larger: int, counts: Sequence[int], slow: Collection[int]) -> bool:
    """Whether an operand costs a kernel nothing, which uses each of its elements for several of a
    number of elements that are computed of it.

    A number is computed before a kernel goes through its elements, as LLVM moves what is the same
    for all of them out of the loop: 100,000 products with the lgamma of a number take as long as
    with the number.  And XLA fuses few slow ops with one that spreads their result.
    """
    count = counts[value]
    return count < larger and (count == 1 or value in slow)


_VIEWS = with_trait(Trait.VIEW) | {"jaxpr.slice"}
_RESHAPES = with_trait(Trait.RESHAPE) | {"jaxpr.broadcast_in_dim"}


@functools.cache
def _is_array(type_: ir.Type) -> bool:
    aval = aval_if_any(type_)
    return isinstance(aval, core.ShapedArray) and not isinstance(aval.dtype, dtypes.ExtendedDType)

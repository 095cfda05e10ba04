"""``jaxpr-sink-recompute``: what a backward pass reads is computed when it is, of what is there.

A derivative stores what its rules ask for.  Some of it follows from the rest: of the softmax

::

    e = exp(s - m);    p = e / sum(e)

both ``e`` and ``p`` are read in the backward pass.  And some of it the backward pass alone reads,
as it does ``y**-2`` of a quotient ``x / y``, ``1 - u``, or what a scaled activation was before a
bias was added.  XLA's CPU compiler runs an op as soon as its operands are there, and stores such
values from then on::

    v = f(a, small);  early(v);  ...  late(v, g)
    ->   v = f(a, small);  early(v);  ...  late(f(a, wait(small, g)), g)

What waits is selected by a boolean, true, that comes out of a call with ``g`` which is not inlined;
if there is nothing small it is ``a``.  So ``v`` is computed when ``g`` is there, and the compiler
does not take it for the ``v`` of before.

The steps of the function, calls inlined, are gone through for the place where most memory is
needed (:mod:`jaxmlir.optimize.memory.sink_recompute.timeline`).  A value that is in memory there
is a candidate if its last reader before that place, and its first one after it, are far apart, and
it follows by few elementwise ops, no more than one of them an exponential or a quotient, from what
is in memory before and after it anyway: arguments, values that others read later, and small ones.
Those that save most bytes for their time are chosen, until they take a part of the estimated time
of the program; a value that nobody reads early is not computed twice, and costs the call alone.

Time and temporary memory of gradients after and before, jax 0.10 and 0.12: residual networks 0.96,
0.95 and 0.77, transformers 0.83, 0.81 and 0.87 (with less than 32 MiB, which a C library keeps for
the next call), Newton's method 1.0, 0.98 and 0.82, attention whose heads are batched 0.98 and 0.76.
"""

from __future__ import annotations

import copy as _copy
import functools
import sys
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from jaxmlir.analysis.fusion import FUSIBLE, SLOW, is_inlined
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_array, is_plain_signature, size
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import copy, symbols_of
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.optimize.barriers import Wait, waiting
from jaxmlir.optimize.memory.duplicate_producers import FUNCTIONS, FUSED, REDUCTIONS, VIEWS
from jaxmlir.optimize.memory.remat.price import CALL, Peaks, Prices
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark

if TYPE_CHECKING:
    from jaxmlir.analysis.function_view import FunctionView
    from jaxmlir.dialect.module import Module


# The ops of a function in their order, those of inlined calls in their place, and which of the
# values between them are in memory when.
#
# XLA inlines calls.  It computes cheap elementwise values in each kernel that reads them, and
# others as well if that is a single one; all else is stored by a kernel of its own, and is there
# until the last kernel that reads it has run.  Matrix products and reductions are kernels of a
# library: what they read is stored, but for a product that is summed up by one.


# Elementwise functions that are not computed in several kernels. Powers may be quotients.
EXPENSIVE = FUNCTIONS | SLOW.keys() | {"jaxpr.integer_pow"}
_FUSED = FUSIBLE - {f"jaxpr.{name}" for name in ("dynamic_slice", "gather", "stack")}
Kernels = tuple[int, int, int]
"""The kernels that read a value: the least and the greatest of their numbers, and the last of them.

A kernel has the number of its last step, ``~i`` if that reads the value from memory.
"""
_NONE: Kernels = (sys.maxsize, -sys.maxsize, -1)
# Longer functions, calls inlined, are left alone.
MAX_STEPS = 100_000


class Step(NamedTuple):
    """An op; its operands and results are numbers of values."""

    op: Any
    name: str
    operands: list[int]
    results: range
    top: int
    """Which of the function's own ops it is, or is called by."""


def is_short(program: Module, function: func.FuncOp) -> bool:
    """Whether a function has no more than ``MAX_STEPS`` steps."""
    lengths: dict[str, int] = {}

    def length(of: func.FuncOp) -> int:
        body = analyses_of(program).body(of)
        found = len(body.ops)
        for op, name in zip(body.ops, body.names, strict=True):
            symbol = _callee(op, name)
            if symbol is not None:
                if symbol not in lengths:
                    lengths[symbol] = 1
                    lengths[symbol] = length(program.function(symbol))
                found += lengths[symbol]
        return found

    return length(function) <= MAX_STEPS


class Timeline:
    """The steps of a function, and the values between them, by number.

    Attributes:
      body: the function, in which values have numbers of their own.
      flat: the same with calls inlined: its ops are the steps.
      types: of each value.
      outer: of values the function's own values that are the same, the first first; what is
        computed in a call and not returned is not among them.
      makers: of each value the step that gives it; none, of an argument.
      users: of each value the steps that read it.
      stored: of each value whether it is in memory.
      ends: of each value the last kernel that reads it, by its last step; -1 if there is none.
      returned: the values that the function returns.
    """

    def __init__(self, program: Module, function: func.FuncOp):
        self._program = program
        self.body = analyses_of(program).body(function)
        self.flat = flat = self.body.with_calls_inlined(_Callees(program))
        self.types = flat.types
        self.outer: dict[int, list[int]] = {}
        for own, number in enumerate(flat.own):
            self.outer.setdefault(number, []).append(own)
        self.makers, self.users = flat.makers, flat.users
        self.returned = flat.outputs
        self._find_stored()

    # --- steps ---

    def step(self, index: int) -> Step:
        flat = self.flat
        results = range(*flat.results[index])
        name, operands, top = flat.names[index], flat.operands[index], flat.tops[index]
        return Step(flat.ops[index], name, operands, results, top)

    def own_value(self, number: int) -> ir.Value:
        """The first of the function's own values that are a value."""
        return self.body.value(self.outer[number][0])

    def number(self, own: int) -> int:
        """Which value one of the function's own values is."""
        return self.flat.own[own]

    def maker(self, value: int) -> Step | None:
        """The step that gives a value."""
        index = self.makers[value]
        return None if index is None else self.step(index)

    @functools.cached_property
    def depths(self) -> list[int]:
        """Of each value how many steps one after another it takes."""
        found = [0] * self.flat.arity
        for operands, (first, last) in zip(self.flat.operands, self.flat.results, strict=True):
            found += [1 + max([found[v] for v in operands], default=0)] * (last - first)
        return found

    def unread(self, places: Mapping[int, int]) -> Timeline:
        """The same where nobody reads some values at a step or later, by value."""
        new = _copy.copy(self)
        new.users = [
            [i for i in users if i < places[v]] if v in places else users
            for v, users in enumerate(self.users)
        ]
        new._find_stored()
        return new

    # --- what is in memory ---

    def _find_stored(self) -> None:
        """Finds where values are read, from the end."""
        self.stored = [True] * len(self.types)
        self._kernels = [_NONE] * len(self.types)
        for index in reversed(range(len(self.flat.ops))):
            is_fused = self.flat.names[index] in _FUSED
            for v in range(*self.flat.results[index]):
                self._find_kernels(v)
                if is_fused and v not in self.returned:
                    self.stored[v] = self._is_stored(index, v)
        for v in range(self.flat.arity):
            self._find_kernels(v)
        self.ends = [end for _, _, end in self._kernels]

    def _find_kernels(self, value: int) -> None:
        users = self.users[value]
        if len(users) == 1:
            self._kernels[value] = self.reading(users[0])
        elif users:
            least, greatest, ends = zip(*map(self.reading, users), strict=True)
            self._kernels[value] = min(least), max(greatest), max(ends)

    def reading(self, index: int) -> Kernels:
        """The kernels in which a step reads its operands."""
        name, (first, last) = self.flat.names[index], self.flat.results[index]
        if name not in _FUSED:
            is_identity = self._is_identity(index)
            end = max([end for _, _, end in self._kernels[first:last]]) if is_identity else index
            return ~index, ~index, end
        if name not in VIEWS and self.stored[first]:
            return index, index, index
        return self._kernels[first]

    def _is_stored(self, index: int, value: int) -> bool:
        """Whether the result of an op that can be fused is in memory, but for being returned."""
        name, (least, greatest, _) = self.flat.names[index], self._kernels[value]
        if name in EXPENSIVE and least < greatest:
            return True
        return least < 0 and not self._is_summed(name, value)

    def _is_summed(self, name: str, value: int) -> bool:
        """Whether an op of a name is a part of the reduction of its result."""
        users = self.users[value]
        return (
            name in ("jaxpr.mul", "jaxpr.square")
            and len(users) == 1
            and self.flat.names[users[0]] in REDUCTIONS
        )

    def _is_identity(self, index: int) -> bool:
        """Whether a step is a fence: its results are its operands, in the same memory."""
        name = self.flat.names[index]
        if name == "jaxpr.jit":
            return dict(self.flat.signatures[index].attributes)["name"].value == "fence"
        return name == "jaxpr.optimization_barrier"

    def memory(self) -> np.ndarray:
        """The bytes that each step needs, with all steps of its kernels, besides arguments and
        results of the function."""
        names, peaks = self.flat.names, Peaks(self._program)
        change = [0] * (len(names) + 1)
        for v, maker in enumerate(self.makers):
            if self.is_counted(v):
                bytes_ = size(self.types[v])
                change[maker] += bytes_
                change[max(maker, self.ends[v]) + 1] -= bytes_
        found = np.cumsum(change, dtype=float)[:-1]
        for i, name in enumerate(names):
            if may_have_functions(name) and not self._is_identity(i):
                found[i] += max(map(peaks.of, symbols_of(self.flat.ops[i])), default=0.0)
        return found

    def is_counted(self, value: int) -> bool:
        """Whether a value takes memory of its own, which is no argument's or result's."""
        maker = self.makers[value]
        if maker is None or not self.stored[value] or value in self.returned:
            return False
        return self.flat.names[maker] not in VIEWS and not self._is_identity(maker)


class _Callees:
    """The functions that ops call and that XLA inlines, with their own calls inlined."""

    def __init__(self, program: Module):
        self._program = program
        self._found: dict[str, FunctionView | None] = {}

    def __call__(self, op: Any, name: str) -> FunctionView | None:
        symbol = _callee(op, name)
        if symbol is None:
            return None
        if symbol not in self._found:
            # In itself a function stays a call.
            self._found[symbol] = None
            body = analyses_of(self._program).body(self._program.function(symbol))
            self._found[symbol] = body.with_calls_inlined(self)
        return self._found[symbol]


def _callee(op: Any, name: str) -> str | None:
    """The function that an op calls and that XLA inlines, with nothing asked of the call."""
    if not is_inlined(op, name) or "jaxpr.ctx" in op.attributes:
        return None
    return op.attributes["jaxpr"].value


# -- Which values are to be computed late, and of what --


# Ops that compute one value from what there is, and the expensive ones among them.
MAX_OPS = 12
MAX_EXPENSIVE = 1
# In how many times as large values one is as good as nothing.
SMALL = 8
# Steps one after another that a value waits for. What is read again at once is in a cache, and
# would not be computed any later.
MIN_DEPTH = 8
# Ops that are gone back through to find what is in memory.
MAX_BACK = 6
# Nanoseconds: writing and reading again a byte of what is computed a second time, while it is in a
# cache. Four layers of attention, whose 512 KiB of weights each are computed twice, take 0.15 ms
# more than 6.8, jax 0.10 and 0.12.
AGAIN = 0.06


class Late(NamedTuple):
    """A value to be computed late."""

    value: int
    tree: list[int]
    """The steps that do so, in order."""
    leaves: list[int]
    """What they read, the largest first."""
    tied: list[int]
    """Those of the leaves that have to wait."""
    after: ir.Value
    """What they wait for."""
    users: list[int]
    """Those of the function's own ops that read it late."""
    start: int
    end: int
    """Between which steps it is not in memory any more."""
    gain: int
    """In bytes."""
    cost: float
    """In nanoseconds."""


class Choice:
    """The values of a function that are computed late."""

    def __init__(self, program: Module, line: Timeline, memory: np.ndarray, min_bytes: int):
        self._line = line
        self._memory = memory
        self._min_bytes = min_bytes
        self._peak = int(np.argmax(memory))
        self._top = line.flat.tops[self._peak]
        prices, flat = Prices(program), line.flat
        ops = dict(zip(flat.signatures, flat.ops, strict=True))
        of_signatures = {s: prices.computing(op, s) for s, op in ops.items()}
        self._prices = [of_signatures[signature] for signature in flat.signatures]

    def find(self, slowdown: float, min_gain: float) -> list[Late]:
        """The values to compute late, in the order in which they are needed: those that save most
        bytes for their time.

        Args:
          slowdown: the part of the function's time that it may take.
          min_gain: the part of its memory that it has to save.
        """
        candidates = map(self._candidate, sorted(self._line.outer))
        found = [c for c in candidates if c is not None]
        left = slowdown * sum(filter(isfinite, self._prices))
        memory = self._memory.copy()
        chosen: list[Late] = []
        gone: set[int] = set()
        kept: set[int] = set()
        for c in sorted(found, key=lambda c: c.cost / c.gain):
            if c.cost > left or c.value in kept or not gone.isdisjoint(c.leaves):
                continue
            left -= c.cost
            gone.add(c.value)
            kept.update(c.leaves)
            memory[c.start + 1 : c.end] -= c.gain
            chosen.append(c)
        if memory.max() > (1 - min_gain) * self._memory.max():
            return []
        return sorted(chosen, key=lambda c: c.users[0])

    def _candidate(self, value: int) -> Late | None:
        """How a value would be computed late; ``None`` if it cannot be, or there is no use."""
        line = self._line
        index = line.makers[value]
        if index is None or not line.stored[value]:
            return None
        whole, name = size(line.types[value]), line.flat.names[index]
        if whole < self._min_bytes or index >= self._peak or value in line.returned:
            return None
        late = self._late_users(value)
        if not late or name not in ELEMENTWISE:
            return None
        read = self._read(value, late[0])
        if read is None:
            return None
        start, depth, end, twice = read
        made = self._made_of(value)
        if made is None or not start < self._peak < end:
            return None
        tree, leaves, tied = made
        after = self._late_value(value, late[0], depth + MIN_DEPTH)
        gain = whole - sum(size(line.types[v]) for v in leaves if not self._is_there(v))
        if after is None or gain <= 0:
            return None
        cost = CALL + sum(self._prices[i] for i in tree)
        cost += AGAIN * whole if twice else -self._prices[index]
        return Late(value, tree, leaves, tied, after, late, start, end, gain, cost)

    def _late_users(self, value: int) -> list[int]:
        """The function's own ops that read a value when most memory is needed, or later."""
        users = self._line.body.users
        return sorted({i for v in self._line.outer[value] for i in users[v] if i >= self._top})

    def _read(self, value: int, late: int) -> tuple[int, int, int, bool] | None:
        """The last step that reads a value early, and the depth of what it gives; the first one
        that reads it late; whether it is stored for the early ones. ``None`` if kernels read it
        early and late at once, or what is cheap is stored for early ones: not all that seem to
        read it from memory do."""
        line = self._line
        maker = line.makers[value]
        assert maker is not None
        expensive = line.flat.names[maker] in EXPENSIVE
        start, depth, end, twice = maker, line.depths[value], len(line.flat.ops), False
        for i in line.users[value]:
            if line.flat.tops[i] >= late:
                end = min(end, i)
                continue
            least, _, last = line.reading(i)
            if not expensive and least >= 0:
                continue
            if not expensive or last > self._peak:
                return None
            twice, start = True, max(start, last)
            depth = max(depth, *(line.depths[v] for v in line.step(i).results))
        return start, depth, end, twice

    def _is_there(self, value: int) -> bool:
        """Whether a value is in memory before and after most of it is needed."""
        line = self._line
        maker = line.makers[value]
        if maker is None:
            return True
        return line.stored[value] and maker < self._peak < line.ends[value]

    def _made_of(self, root: int) -> tuple[list[int], list[int], list[int]] | None:
        """The steps that compute a value from what is there late; what they read; what of it has
        to be tied. ``None`` if there is too much of it."""
        line = self._line
        whole = size(line.types[root])
        first = line.makers[root]
        assert first is not None
        found, leaves, pending, expensive = {first}, set[int](), [first], 0
        while pending:
            index = pending.pop()
            step = line.step(index)
            if step.name == "jaxpr.constant":
                continue
            expensive += step.name in EXPENSIVE
            if (
                not _is_cheap(line.flat.signatures[index])
                or expensive > MAX_EXPENSIVE
                or len(found) > MAX_OPS
            ):
                return None
            for v in step.operands:
                maker = line.makers[v]
                constant = maker is not None and line.flat.names[maker] == "jaxpr.constant"
                small = SMALL * size(line.types[v]) <= whole
                if not constant and v in line.outer and (small or self._is_there(v)):
                    leaves.add(v)
                elif maker is None:
                    return None
                elif maker not in found:
                    found.add(maker)
                    pending.append(maker)
        ordered = sorted(leaves, key=lambda v: (-size(line.types[v]), v))
        tied = self._tied(root, sorted(found), ordered)
        return None if tied is None else (sorted(found), ordered, tied)

    def _tied(self, root: int, tree: list[int], leaves: list[int]) -> list[int] | None:
        """The leaves that have to wait so that no expensive step is done early: the small ones if
        these will do, else the largest."""
        line = self._line
        whole = size(line.types[root])
        small = [v for v in leaves if SMALL * size(line.types[v]) <= whole]
        for tied in (small, leaves[:1]):
            waiting = set(tied)
            for i in tree:
                step = line.step(i)
                if not waiting.isdisjoint(step.operands):
                    waiting.update(step.results)
                elif step.name in EXPENSIVE:
                    break
            else:
                if root in waiting:
                    return tied
        return None

    def _late_value(self, value: int, top: int, depth: int) -> ir.Value | None:
        """Something that an op of the function needs, and that is not there before so many steps
        one after another are done; if there is, something that is in memory."""
        line = self._line
        read = [line.number(v) for v in line.body.operands[top]]
        read = [v for v in read if v != value and is_plain_array(line.types[v])]
        if not read:
            return None
        latest = found = max(read, key=line.depths.__getitem__)
        for _ in range(MAX_BACK):
            maker = line.maker(found)
            if maker is None or line.depths[found] < depth:
                break
            if line.stored[found]:
                if found in line.outer and is_plain_array(line.types[found]):
                    return line.own_value(found)
                break
            found = max(maker.operands, key=line.depths.__getitem__, default=found)
        return line.own_value(latest) if line.depths[latest] >= depth else None


def _is_cheap(signature: Signature) -> bool:
    name = signature.name
    return name in FUSED and name not in SLOW and is_plain_signature(signature)


# What programs need that caches hold, and values that are worth a call.
MIN_PEAK = 1_048_576
MIN_BYTES = 65_536
# What it may take of a program's time, by an estimate that leaves out what memory takes.
SLOWDOWN = 0.03
# What less would not be worth the calls: the part of a program's memory that it saves.
MIN_GAIN = 0.03


class SinkRecompute(Pass):
    """Compute values that are cheap to have late, not store them while most memory is needed.

    Options:
      min-peak: programs that need fewer bytes at once are left alone.
      min-bytes: values of fewer bytes are.
      slowdown: the part of a program's time that it may take, by an estimate.
      min-gain: the part of a program's memory that it has to save.
    """

    name: ClassVar[str] = "jaxpr-sink-recompute"
    # Other compilers decide by themselves.
    compilers: ClassVar = ("cpu",)
    min_peak: Count = MIN_PEAK
    min_bytes: Count = MIN_BYTES
    slowdown: Amount = SLOWDOWN
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        return compute_late(program, self) > 0


def compute_late(program: Module, options: SinkRecompute | None = None) -> int:
    """Has values computed late, in place; how many."""
    options = options or SinkRecompute()
    count = 0
    with scope():
        wait = waiting(program)
        for symbol in analyses_of(program).graph.entry_points():
            function = program.function(symbol)
            if not is_short(program, function):
                continue
            line = Timeline(program, function)
            memory = line.memory()
            if memory.max(initial=0) < max(options.min_peak, 1):
                continue
            choice = Choice(program, line, memory, options.min_bytes)
            for late in choice.find(options.slowdown, options.min_gain):
                _write(line, late, wait)
                count += 1
    if count:
        program.changed()
    return count


def _write(line: Timeline, late: Late, wait: Wait) -> None:
    """Computes a value where it is first read late."""
    root = line.maker(late.value)
    assert root is not None
    remark(root.op, f"computed late: {late.gain} bytes are not stored")
    values = {v: line.own_value(v) for v in late.leaves}
    with ir.InsertionPoint(line.body.ops[late.users[0]]), root.op.location:
        tied, _ = wait([values[v] for v in late.tied], late.after, ())
        values.update(zip(late.tied, tied, strict=True))
        for i in late.tree:
            step = line.step(i)
            results = copy(step.op, step.name, [values[v] for v in step.operands])
            values.update(zip(step.results, results, strict=True))
    before = set(map(line.body.value, line.outer[late.value]))
    for i in late.users:
        operands = line.body.ops[i].operation.operands
        for k, v in enumerate(operands):
            if v in before:
                operands[k] = values[late.value]

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
needed (:mod:`jaxmlir.optimize.memory.profile`).  A value that is in memory there
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

from math import isfinite
from typing import ClassVar, NamedTuple

import numpy as np

from jaxmlir.analysis.fusion import FUSED, SLOW, is_stored_if_shared
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_plain_array, is_plain_signature, size
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import copy
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.optimize.barriers import WaitFence, waiting
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.optimize.memory.profile import Timeline, is_short
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark

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


class LateValue(NamedTuple):
    """A value to be computed late."""

    value: int
    tree: list[int]
    """The steps that do so, in order."""
    leaves: list[int]
    """What they read, the largest first."""
    tied: list[int]
    """The leaves that have to wait."""
    after: ir.Value
    """What they wait for."""
    users: list[int]
    """The function's own ops that read it late."""
    start: int
    end: int
    """Between which steps it is not in memory any more."""
    gain: int
    """In bytes."""
    cost: float
    """In nanoseconds."""


class LateValueSearch:
    """The values of a function that are computed late."""

    def __init__(self, program: Module, line: Timeline, memory: np.ndarray, min_bytes: int):
        self._line = line
        self._memory = memory
        self._min_bytes = min_bytes
        self._costs = program.target.costs
        self._peak = int(np.argmax(memory))
        self._top = line.flat.tops[self._peak]
        prices, flat = Prices(program), line.flat
        ops = dict(zip(flat.signatures, flat.ops, strict=True))
        of_signatures = {s: prices.computing(op, s) for s, op in ops.items()}
        self._prices = [of_signatures[signature] for signature in flat.signatures]
        # Which of the function's own ops read a value of it.
        self._users: dict[int, list[int]] = {}
        for i, operands in enumerate(line.body.operands):
            for v in dict.fromkeys(operands):
                self._users.setdefault(v, []).append(i)

    def find(self, slowdown: float, min_gain: float) -> list[LateValue]:
        """The values to compute late, in the order in which they are needed: those that save most
        bytes for their time.

        Args:
          slowdown: the part of the function's time that it may take.
          min_gain: the part of its memory that it has to save.
        """
        candidates = map(self._candidate, sorted(self._line.outer))
        options = [c for c in candidates if c is not None]
        left = slowdown * sum(filter(isfinite, self._prices))
        memory = self._memory.copy()
        chosen: list[LateValue] = []
        gone: set[int] = set()
        leaves: set[int] = set()
        for c in sorted(options, key=lambda c: c.cost / c.gain):
            if c.cost > left or c.value in leaves or not gone.isdisjoint(c.leaves):
                continue
            left -= c.cost
            gone.add(c.value)
            leaves.update(c.leaves)
            memory[c.start + 1 : c.end] -= c.gain
            chosen.append(c)
        if memory.max() > (1 - min_gain) * self._memory.max():
            return []
        return sorted(chosen, key=lambda c: c.users[0])

    def _candidate(self, value: int) -> LateValue | None:
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
        window = self._read(value, late[0])
        if window is None:
            return None
        start, depth, end, twice = window
        recipe = self._made_of(value)
        if recipe is None or not start < self._peak < end:
            return None
        tree, leaves, tied = recipe
        after = self._late_value(value, late[0], depth + MIN_DEPTH)
        gain = whole - sum(size(line.types[v]) for v in leaves if not self._is_there(v))
        if after is None or gain <= 0:
            return None
        cost = self._costs.call + sum(self._prices[i] for i in tree)
        # What is computed a second time is written and read in a cache.
        cost += self._costs.stored_byte_cached * whole if twice else -self._prices[index]
        return LateValue(value, tree, leaves, tied, after, late, start, end, gain, cost)

    def _late_users(self, value: int) -> list[int]:
        """The function's own ops that read a value when most memory is needed, or later."""
        outer = self._line.outer[value]
        return sorted({i for v in outer for i in self._users.get(v, ()) if i >= self._top})

    def _read(self, value: int, late: int) -> tuple[int, int, int, bool] | None:
        """The last step that reads a value early, and the depth of what it gives; the first one
        that reads it late; whether it is stored for the early ones. ``None`` if kernels read it
        early and late at once, or what is cheap is stored for early ones: not all that seem to
        read it from memory do."""
        line = self._line
        maker = line.makers[value]
        assert maker is not None
        expensive = is_stored_if_shared(line.flat.signatures[maker])
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
        steps, leaves, pending, expensive = {first}, set[int](), [first], 0
        while pending:
            index = pending.pop()
            step = line.step(index)
            if step.name == "jaxpr.constant":
                continue
            expensive += is_stored_if_shared(line.flat.signatures[index])
            if (
                not _is_cheap(line.flat.signatures[index])
                or expensive > MAX_EXPENSIVE
                or len(steps) > MAX_OPS
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
                elif maker not in steps:
                    steps.add(maker)
                    pending.append(maker)
        ordered = sorted(leaves, key=lambda v: (-size(line.types[v]), v))
        tied = self._tied(root, sorted(steps), ordered)
        return None if tied is None else (sorted(steps), ordered, tied)

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
                elif is_stored_if_shared(line.flat.signatures[i]):
                    break
            else:
                if root in waiting:
                    return tied
        return None

    def _late_value(self, value: int, top: int, depth: int) -> ir.Value | None:
        """Something that an op of the function needs, and that is not there before so many steps
        one after another are done; if there is, something that is in memory."""
        line = self._line
        operands = [line.number(v) for v in line.body.operands[top]]
        operands = [v for v in operands if v != value and is_plain_array(line.types[v])]
        if not operands:
            return None
        latest = current = max(operands, key=line.depths.__getitem__)
        for _ in range(MAX_BACK):
            maker = line.maker(current)
            if maker is None or line.depths[current] < depth:
                break
            if line.stored[current]:
                if current in line.outer and is_plain_array(line.types[current]):
                    return line.own_value(current)
                break
            current = max(maker.operands, key=line.depths.__getitem__, default=current)
        return line.own_value(latest) if line.depths[latest] >= depth else None


def _is_cheap(signature: Signature) -> bool:
    name = signature.name
    return name in FUSED and name not in SLOW and is_plain_signature(signature)


# What programs need that caches hold, and values that are worth a call.  The gradient of a hidden
# Markov model that needs 1 MB took 1.1 times as long.
MIN_PEAK = 2_097_152
MIN_BYTES = 65_536
# What it may take of a program's time, by an estimate that leaves out what memory takes.
SLOWDOWN = 0.03
# What less would not be worth the calls: the part of a program's memory that it saves.  A mixture
# density network that needs 0.965 of its memory takes 1.3 times as long to compile.
MIN_GAIN = 0.1


class SinkRecompute(Pass):
    """Compute values that are cheap to have late, not store them while most memory is needed.

    Options:
      min-peak: programs that need fewer bytes at once are left alone.
      min-bytes: values of fewer bytes are.
      slowdown: the part of a program's time that it may take, by an estimate.
      min-gain: the part of a program's memory that it has to save.
      calls: how often the program is taken to be called: what is computed again has to save the
        time that it takes to compile within so many calls.
    """

    name: ClassVar[str] = "jaxpr-sink-recompute"
    # Other compilers decide by themselves.
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    min_peak: Count = MIN_PEAK
    min_bytes: Count = MIN_BYTES
    slowdown: Amount = SLOWDOWN
    min_gain: Amount = MIN_GAIN
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        changed = False
        wait = waiting(program)
        of_byte = program.target.costs.stored_byte_kept
        for symbol in analyses_of(program).graph.entry_points():
            function = program.function(symbol)
            if not is_short(program, function):
                continue
            line = Timeline(program, function)
            memory = line.bytes
            if memory.max(initial=0) < max(self.min_peak, 1):
                continue
            choice = LateValueSearch(program, line, memory, self.min_bytes)
            compile_time = CompileTime(program, self.calls)
            for late in choice.find(self.slowdown, self.min_gain):
                if compile_time.pays(symbol, len(late.tree), of_byte * late.gain):
                    _write(line, late, wait)
                    changed = True
        return changed


def _write(line: Timeline, late: LateValue, wait: WaitFence) -> None:
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

"""A model of which values of a function are in memory at each op; peaks, budgets and traffic are
read from it.

XLA inlines calls.  It computes cheap elementwise values in each kernel that reads them, and other
elementwise values if a single kernel reads them.  A kernel of its own stores every other value,
which stays in memory until its last reader has run.  Matrix products and reductions are library
kernels: their operands are stored, except for float arithmetic that only a sum, maximum or minimum
reads.  An elementwise kernel may write its result in the place of an operand that has no later
reader.  A loop, or a call that is not inlined, needs the memory of its function.

Compilers differ from this model.  It is good enough to compare two forms of a program, and to tell
kilobytes from megabytes; it does not predict :meth:`memory_analysis`.
"""

from __future__ import annotations

import copy
import functools
import heapq
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import (
    FUSIBLE,
    INDEXED,
    LIBRARY_REDUCTIONS,
    SLOW,
    is_kept_call,
    is_stored_if_shared,
)
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import aval_if_any, size
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import symbols_of
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, may_have_functions, with_trait

# Ops that are fused into the kernels that read them; ops whose result is their operand's memory.
FUSED = FUSIBLE - INDEXED
VIEWS = with_trait(Trait.RESHAPE)
# Ops that are computed as a part of the reduction that alone reads them.  By the temporary memory
# of the reduction, in jax 0.10 and 0.12, these include no selections, conversions, slices, or slow
# functions.
_SUMMED = (
    FUSED
    - SLOW.keys()
    - with_trait(Trait.SLICING)
    - {f"jaxpr.{name}" for name in ("clamp", "convert_element_type", "erf_inv", "rev", "select_n")}
)
Kernels = tuple[int, int, int]
"""The kernels that read a value: their least and their greatest number, and the step of the last.

The number of a kernel is its last step ``i``, or ``~i`` if that step reads the value from memory.
"""
_NONE: Kernels = (sys.maxsize, -sys.maxsize, -1)
# Calls are not inlined into functions that would be longer than this.
MAX_STEPS = 100_000


class MemoryProfile:
    """The ops of a function, called steps, and which of the values between them are in memory.

    Attributes:
      view: the function.
      users: for each value, the steps that read it.
      stored: for each value, whether it is in memory, rather than computed where it is read.
      ends: for each value, the last step of the last kernel that reads it; -1 if there is none.
    """

    def __init__(
        self,
        view: FunctionView,
        inner: Callable[[Any], float] = lambda op: 0.0,
        stored: Collection[str] = (),
        once: bool = False,
    ):
        """
        Args:
          inner: the bytes that the functions of an op need.
          stored: names of ops whose results are always stored.
          once: whether values that several ops read are always stored, so that they are computed
            once.  This comes nearest to what XLA reports for straight-line code.
        """
        self._once = once
        self.view = view
        self._inner = inner
        self._fused = FUSED.difference(stored)
        self.makers: list[int | None] = view.makers
        self.users: list[list[int]] = view.users
        self.returned: frozenset[int] = view.outputs
        sizes = {type_: size(type_) for type_ in set(view.types)}
        self.sizes: list[int] = [sizes[type_] for type_ in view.types]
        self._find_stored()

    # --- which values are in memory ---

    def _find_stored(self) -> None:
        """Finds the kernels that read each value, and whether it is stored, from the end."""
        view = self.view
        self.stored: list[bool] = [True] * len(view.types)
        self._summed: set[int] = set()
        self._kernels = [_NONE] * len(view.types)
        for index in reversed(range(len(view.ops))):
            name = view.names[index]
            is_fused = name in self._fused
            for v in range(*view.results[index]):
                self._find_kernels(v)
                if is_fused and v not in self.returned:
                    self.stored[v] = self._is_stored(index, v)
        for v in range(view.arity):
            self._find_kernels(v)
        self.ends: list[int] = [end for _, _, end in self._kernels]

    def _find_kernels(self, value: int) -> None:
        users = self.users[value]
        if len(users) == 1:
            self._kernels[value] = self.reading(users[0])
        elif users:
            least, greatest, ends = zip(*map(self.reading, users), strict=True)
            self._kernels[value] = min(least), max(greatest), max(ends)

    def reading(self, index: int) -> Kernels:
        """The kernels in which a step reads its operands."""
        name, (first, last) = self.view.names[index], self.view.results[index]
        if name not in self._fused:
            is_identity = self.is_identity(index)
            end = max([end for _, _, end in self._kernels[first:last]]) if is_identity else index
            return ~index, ~index, end
        if name not in VIEWS and self.stored[first]:
            return index, index, index
        return self._kernels[first]

    def _is_stored(self, index: int, value: int) -> bool:
        """Whether a result of a fusible op is in memory, unless it is returned anyway."""
        name, (least, greatest, _) = self.view.names[index], self._kernels[value]
        if self._once and len(self.users[value]) > 1:
            return True
        if least < greatest and is_stored_if_shared(self.view.signatures[index]):
            return True
        return least < 0 and not self._is_summed(name, value)

    def _is_summed(self, name: str, value: int) -> bool:
        """Whether an op is computed as a part of the reduction of its result; notes the result."""
        users, view = self.users[value], self.view
        if name not in _SUMMED or len(users) != 1 or not _is_float(view.types[value]):
            return False
        first = view.results[users[0]][0]
        is_part = view.names[users[0]] in LIBRARY_REDUCTIONS or first in self._summed
        if is_part:
            self._summed.add(value)
        return is_part

    def is_identity(self, index: int) -> bool:
        """Whether a step is a fence, whose results are its operands, in the same memory."""
        name, signature = self.view.names[index], self.view.signatures[index]
        if name == "jaxpr.jit":
            called = signature.named.get("name")
            return is_kept_call(signature) and called is not None and called.value == "fence"
        return name == "jaxpr.optimization_barrier"

    def is_counted(self, value: int) -> bool:
        """Whether a value takes memory of its own and is neither an argument nor a result."""
        return value not in self.returned and self._takes_memory(value)

    def _takes_memory(self, value: int) -> bool:
        maker = self.makers[value]
        if maker is None or not self.stored[value]:
            return False
        name = self.view.names[maker]
        return name not in VIEWS and name != "jaxpr.constant" and not self.is_identity(maker)

    # --- how many bytes that is ---

    @functools.cached_property
    def bytes(self) -> np.ndarray:
        """The bytes in memory at each step, besides arguments and results."""
        return self.needed(range(len(self.view.ops)), without=self.returned)

    def kernel(self, index: int) -> int:
        """The step in whose kernel a step is computed: itself, if its first result is stored."""
        first, last = self.view.results[index]
        return index if first == last or self.stored[first] else self.ends[first]

    @property
    def peak(self) -> float:
        """Bytes that the function needs at once, besides arguments and results."""
        return float(self.bytes.max(initial=0))

    def needed(
        self, steps: Iterable[int], before: Set[int] = frozenset(), without: Set[int] = frozenset()
    ) -> np.ndarray:
        """The bytes in memory at each of some steps, in order, of values that they have stored.

        Args:
          before: values that are in memory before the steps and count too.
          without: results of the steps that don't count.
        """
        names, results, sizes = self.view.names, self.view.results, self.sizes
        ending: defaultdict[int, list[int]] = defaultdict(list)
        for v in before:
            ending[self.ends[v]].append(sizes[v])
        ends = sorted(ending)
        live = sum([sizes[v] for v in before])
        needed = []
        for i in steps:
            while ends and ends[0] < i:
                live -= sum(ending.pop(heapq.heappop(ends)))
            for v in range(*results[i]):
                if v in without or not self._takes_memory(v):
                    continue
                if names[i] in ELEMENTWISE and sizes[v] in ending.get(i, ()):
                    ending[i].remove(sizes[v])
                else:
                    live += sizes[v]
                end = len(names) if v in self.returned else max(i, self.ends[v])
                if end not in ending:
                    heapq.heappush(ends, end)
                ending[end].append(sizes[v])
            inner = may_have_functions(names[i]) and not self.is_identity(i)
            needed.append(live + (self._inner(self.view.ops[i]) if inner else 0.0))
        return np.array(needed, float)


@functools.cache
def _is_float(type_: ir.Type) -> bool:
    dtype = getattr(aval_if_any(type_), "dtype", None)
    return dtype is not None and dtypes.issubdtype(dtype, np.floating)


class Timeline(MemoryProfile):
    """The profile of a function with those calls inlined that XLA inlines.

    Attributes:
      body: the function, in which values have numbers of their own.
      outer: of values the function's own values that are the same, the first first; what is
        computed in a call and not returned is not among them.
    """

    def __init__(self, program: Module, function: func.FuncOp, peaks: Peaks | None = None):
        self.body: FunctionView = analyses_of(program).body(function)
        steps = analyses_of(program).inlined(function, _inlined_callee)
        super().__init__(steps, (peaks or Peaks(program)).of_op)
        self.outer: dict[int, list[int]] = {}
        for own_number, number in enumerate(steps.own):
            self.outer.setdefault(number, []).append(own_number)

    def own_value(self, number: int) -> ir.Value:
        """The first of the function's own values that a value stands for."""
        return self.body.value(self.outer[number][0])

    def number(self, own: int) -> int:
        """The number of the value that stands for one of the function's own values."""
        return self.view.own[own]

    @functools.cached_property
    def depths(self) -> list[int]:
        """The length of the longest chain of steps that computes each value."""
        depths = [0] * self.view.arity
        for operands, (first, last) in zip(self.view.operands, self.view.results, strict=True):
            depths += [1 + max([depths[v] for v in operands], default=0)] * (last - first)
        return depths

    def unread(self, places: Mapping[int, int]) -> Timeline:
        """The timeline without the reads of some values from a step on.

        Args:
          places: for each of these values, that step.
        """
        timeline = copy.copy(self)
        timeline.__dict__.pop("bytes", None)
        timeline.users = [
            [i for i in users if i < places[v]] if v in places else users
            for v, users in enumerate(self.users)
        ]
        timeline._find_stored()
        return timeline


def _inlined_callee(op: Any, name: str, functions: Container[str]) -> str | None:
    """The callee of an op if XLA inlines it and the call has no context of its own."""
    if name != "jaxpr.jit" or "jaxpr.ctx" in op.attributes:
        return None
    return op.attributes["jaxpr"].value


def is_short(program: Module, function: func.FuncOp) -> bool:
    """Whether a function has no more than ``MAX_STEPS`` steps, calls inlined."""
    graph, symbol, lengths = analyses_of(program).graph, function.name.value, dict[str, int]()
    for callee in graph.callees_first([symbol]):
        calls = [_inlined_callee(op, name, graph.ops) for op, name in graph.ops[callee]]
        # A recursive call stays a call.
        inlined = [lengths.get(call, 1) for call in calls if call is not None]
        lengths[callee] = len(calls) + sum(inlined)
    return lengths[symbol] <= MAX_STEPS


# --- whole programs ---


class Peaks:
    """The bytes that functions of a program need at once, besides arguments and results."""

    def __init__(self, program: Module):
        self._program = program
        self._by_symbol: dict[str, float] = {}

    def of(self, symbol: str) -> float:
        if symbol not in self._by_symbol:
            # Callees first: programs may be nested deeper than Python's stack.
            for callee in analyses_of(self._program).graph.callees_first([symbol]):
                if callee not in self._by_symbol:
                    # A recursive call counts as needing nothing.
                    self._by_symbol[callee] = 0.0
                    self._by_symbol[callee] = self.profile(callee).peak
        return self._by_symbol[symbol]

    def of_op(self, op: Any) -> float:
        """The bytes that the functions of an op need: the maximum."""
        return max(map(self.of, symbols_of(op)), default=0.0)

    def profile(self, symbol: str) -> MemoryProfile:
        """The profile of a function, with calls inlined unless that makes it too long."""
        function = self._program.function(symbol)
        if is_short(self._program, function):
            return Timeline(self._program, function, self)
        return MemoryProfile(analyses_of(self._program).body(function), self.of_op)


def peak(program: Module) -> float:
    """Bytes that a program needs at once, besides arguments and results: the maximum over its entry
    points."""
    peaks, entries = Peaks(program), analyses_of(program).graph.entry_points()
    return max([peaks.profile(symbol).peak for symbol in entries], default=0.0)


def peak_beside_results(program: Module) -> float:
    """Bytes that a program needs at once besides its results, if each value is computed once and
    the memory of a result holds other values before."""
    peaks, needs = Peaks(program), [0.0]
    for symbol in analyses_of(program).graph.entry_points():
        body = analyses_of(program).body(program.function(symbol))
        profile = MemoryProfile(body, peaks.of_op, once=True)
        results = sum(profile.sizes[v] for v in body.outputs if v >= body.arity)
        needs.append(profile.needed(range(len(body.ops))).max(initial=0.0) - results)
    return float(max(needs))


def total(program: Module) -> int:
    """The bytes of all results of a program's ops: no fewer than it needs at once."""
    ops = analyses_of(program).graph.ops.values()
    return sum([size(type_) for pairs in ops for op, _ in pairs for type_ in op.results.types])

"""The ops of a function in their order, those of inlined calls in their place, and which of the
values between them are in memory when.

XLA inlines calls.  It computes cheap elementwise values in each kernel that reads them, and others
as well if that is a single one; all else is stored by a kernel of its own, and is there until the
last kernel that reads it has run.  Matrix products and reductions are kernels of a library: what
they read is stored, but for a product that is summed up by one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxmlir.analysis.fusion import FUSIBLE, SLOW, is_inlined
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import size
from jaxmlir.dialect.builder import symbols_of
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.optimize.memory.duplicate_producers import FUNCTIONS, REDUCTIONS, VIEWS
from jaxmlir.optimize.memory.remat.peak import Peaks

if TYPE_CHECKING:
    from jaxmlir.analysis.function_view import FunctionView
    from jaxmlir.dialect.module import Module

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
        new = copy(self)
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

"""The ops of a function in their order, those of inlined calls in their place, and which of the
values between them are in memory when.

XLA inlines calls.  It computes cheap elementwise values in each kernel that reads them, and others
as well if that is a single one; all else is stored by a kernel of its own, and is there until the
last kernel that reads it has run.  Matrix products and reductions are kernels of a library: what
they read is stored, but for a product that is summed up by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxmlir._pointwise import ELEMENTWISE
from jaxmlir.ir import func, ir
from jaxmlir.passes._build import may_have_functions, ops_of, returned, symbols_of
from jaxmlir.passes._fusion import MOVED, SLOW, is_inlined
from jaxmlir.passes._work import size
from jaxmlir.passes.recompute import FUNCTIONS, REDUCTIONS, VIEWS
from jaxmlir.passes.remat._peak import Peaks

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Elementwise functions that are not computed in several kernels. Powers may be quotients.
EXPENSIVE = FUNCTIONS | SLOW.keys() | {"jaxpr.integer_pow"}
# What is computed by the kernel that reads it.
FUSED = ELEMENTWISE | VIEWS | {"jaxpr.broadcast_in_dim"}
_FUSED = (FUSED | MOVED) - {f"jaxpr.{name}" for name in ("dynamic_slice", "gather", "stack")}
# Kernels of a value from which on they are many.
_MANY = 4
# Longer functions, calls inlined, are left alone.
MAX_STEPS = 100_000


# The arguments of a function, its ops with their names and operands, and what it returns.
_Function = tuple[list[ir.Value], list[tuple[Any, str, list[ir.Value]]], list[ir.Value]]


class Step(NamedTuple):
    """An op; its operands and results are numbers of values."""

    op: Any
    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    top: int
    """Which of the function's own ops it is, or is called by."""


def is_short(program: Program, function: func.FuncOp) -> bool:
    """Whether a function has no more than ``MAX_STEPS`` steps."""
    lengths: dict[str, int] = {}

    def length(of: func.FuncOp) -> int:
        found = 0
        for op, name, _ in ops_of(of):
            found += 1
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
      ops: the function's own.
      steps: in their order.
      types: of each value.
      outer: of each value the function's own values that are the same, the first first; what is
        computed in a call and not returned has none.
      makers: of each value the step that gives it; none, of an argument.
      users: of each value the steps that read it.
      depths: of each value how many steps one after another it takes.
      stored: of each value whether it is in memory.
      ends: of each value the last kernel that reads it, by its last step; -1 if there is none.
      returned: the values that the function returns.
    """

    def __init__(self, program: Program, function: func.FuncOp):
        self._program = program
        self._functions: dict[str, _Function] = {}
        self.ops: list[Any] = []
        self.steps: list[Step] = []
        self.types: list[ir.Type] = []
        self.outer: list[list[ir.Value]] = []
        self.makers: list[int | None] = []
        self.users: list[list[int]] = []
        self.depths: list[int] = []
        arguments = [self._new(v, None) for v in function.arguments]
        self.numbers: dict[ir.Value, int] = dict(zip(function.arguments, arguments, strict=True))
        for op, name, operands in ops_of(function):
            self.ops.append(op)
            self._add(op, name, operands, self.numbers, ())
        for value, number in self.numbers.items():
            self.outer[number].append(value)
        self.returned = {self.numbers[v] for v in returned(function)}
        self._find_stored()

    # --- steps ---

    def _new(self, value: ir.Value, maker: int | None, depth: int = 0) -> int:
        self.types.append(value.type)
        self.outer.append([])
        self.makers.append(maker)
        self.users.append([])
        self.depths.append(depth)
        return len(self.types) - 1

    def _add(
        self,
        op: Any,
        name: str,
        operands: list[ir.Value],
        numbers: dict[ir.Value, int],
        within: tuple[str, ...],
    ) -> None:
        """Adds an op of a function whose values have numbers; a call's ops in its place.

        Args:
          within: the functions that are being called.
        """
        given = [numbers[v] for v in operands]
        symbol = _callee(op, name)
        if symbol is None or symbol in within:
            results = self._step(op, name, given)
        else:
            arguments, ops, outs = self._read(symbol)
            inner = dict(zip(arguments, given, strict=True))
            for step in ops:
                self._add(*step, inner, (*within, symbol))
            results = [inner[v] for v in outs]
        numbers.update(zip(op.results, results, strict=True))

    def _read(self, symbol: str) -> _Function:
        """A called function, which may be called often."""
        if symbol not in self._functions:
            function = self._program.function(symbol)
            ops = list(ops_of(function))
            self._functions[symbol] = list(function.arguments), ops, returned(function)
        return self._functions[symbol]

    def _step(self, op: Any, name: str, operands: list[int]) -> list[int]:
        index = len(self.steps)
        depth = 1 + max((self.depths[v] for v in operands), default=0)
        results = [self._new(v, index, depth) for v in op.results]
        for v in dict.fromkeys(operands):
            self.users[v].append(index)
        self.steps.append(Step(op, name, tuple(operands), tuple(results), len(self.ops) - 1))
        return results

    def maker(self, value: int) -> Step | None:
        """The step that gives a value."""
        index = self.makers[value]
        return None if index is None else self.steps[index]

    # --- what is in memory ---

    def _find_stored(self) -> None:
        """Finds where values are read, from the end."""
        self.stored = [True] * len(self.types)
        self.ends = [-1] * len(self.types)
        # By the last step of each; ~i of one that reads the value from memory.
        self._kernels: list[set[int]] = [set() for _ in self.types]
        for step in reversed(self.steps):
            for v in step.results:
                self._find_kernels(v)
                self.stored[v] = v in self.returned or self._is_stored(step, v)
        for v, maker in enumerate(self.makers):
            if maker is None:
                self._find_kernels(v)

    def _find_kernels(self, value: int) -> None:
        found, last = set[int](), -1
        for i in self.users[value]:
            kernels, end = self.reading(i)
            found |= kernels
            if len(found) > _MANY:
                # Two stand for all: that one reads from memory is not to be lost.
                found = {min(found), max(found)}
            last = max(last, end)
        self._kernels[value], self.ends[value] = found, last

    def reading(self, index: int) -> tuple[set[int], int]:
        """The kernels in which a step reads its operands, and the last of them.

        A kernel is the number of its last step; ``~i`` if it has its operands in memory.
        """
        step = self.steps[index]
        if _is_identity(step):
            return {~index}, max(self.ends[v] for v in step.results)
        if step.name not in _FUSED:
            return {~index}, index
        (result,) = step.results
        if step.name not in VIEWS and self.stored[result]:
            return {index}, index
        return self._kernels[result], self.ends[result]

    def _is_stored(self, step: Step, value: int) -> bool:
        if step.name not in _FUSED:
            return True
        kernels = self._kernels[value]
        if step.name in EXPENSIVE and len(kernels) > 1:
            return True
        return any(k < 0 for k in kernels) and not self._is_summed(step)

    def _is_summed(self, step: Step) -> bool:
        """Whether an op is a part of the reduction of its result."""
        users = self.users[step.results[0]]
        return (
            step.name in ("jaxpr.mul", "jaxpr.square")
            and len(users) == 1
            and self.steps[users[0]].name in REDUCTIONS
        )

    def memory(self) -> np.ndarray:
        """The bytes that each step needs, with all steps of its kernels, besides arguments and
        results of the function."""
        change = np.zeros(len(self.steps) + 1)
        for v, maker in enumerate(self.makers):
            if maker is None or not self.stored[v] or v in self.returned:
                continue
            step = self.steps[maker]
            if step.name not in VIEWS and not _is_identity(step):
                change[maker] += size(self.types[v])
                change[max(maker, self.ends[v]) + 1] -= size(self.types[v])
        found = np.cumsum(change)[:-1]
        peaks = Peaks(self._program)
        for i, step in enumerate(self.steps):
            if may_have_functions(step.name) and not _is_identity(step):
                found[i] += max(map(peaks.of, symbols_of(step.op)), default=0.0)
        return found


def _callee(op: Any, name: str) -> str | None:
    """The function that an op calls and that XLA inlines, with nothing asked of the call."""
    if not is_inlined(op, name) or "jaxpr.ctx" in op.attributes:
        return None
    return op.attributes["jaxpr"].value


def _is_identity(step: Step) -> bool:
    """Whether an op is a fence: its results are its operands, in the same memory."""
    if step.name == "jaxpr.jit":
        return step.op.attributes["name"].value == "fence"
    return step.name == "jaxpr.optimization_barrier"

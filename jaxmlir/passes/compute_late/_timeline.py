"""The ops of a function in their order, those of inlined calls in their place, and which of the
values between them are in memory when.

XLA inlines calls.  It computes cheap elementwise values in each kernel that reads them, and others
as well if that is a single one; all else is stored by a kernel of its own, and is there until the
last kernel that reads it has run.  Matrix products and reductions are kernels of a library: what
they read is stored, but for a product that is summed up by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxmlir._pointwise import ELEMENTWISE
from jaxmlir._signature import Signature
from jaxmlir.ir import func, ir
from jaxmlir.passes._body import Body
from jaxmlir.passes._build import may_have_functions, symbols_of
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
        body = program.reading.body(of)
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
      steps: in their order.
      types: of each value.
      numbers: of each of the function's own values which one of these it is.
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
        self.body = body = program.reading.body(function)
        self.steps: list[Step] = []
        self.types: list[ir.Type] = []
        self.makers: list[int | None] = []
        self.users: list[list[int]] = []
        self.depths: list[int] = []
        self.numbers = self._new(body.types[: body.arity], None, 0)
        for top, (op, signature, operands) in enumerate(_ops(body)):
            given = [self.numbers[v] for v in operands]
            self.numbers += self._add(op, signature, given, top, ())
        self.outer: list[list[int]] = [[] for _ in self.types]
        for own, number in enumerate(self.numbers):
            self.outer[number].append(own)
        self.returned = {self.numbers[v] for v in body.returned}
        self._find_stored()

    # --- steps ---

    def _new(self, types: Sequence[ir.Type], maker: int | None, depth: int) -> list[int]:
        first, count = len(self.types), len(types)
        self.types += types
        self.makers += [maker] * count
        self.depths += [depth] * count
        self.users += [[] for _ in types]
        return list(range(first, first + count))

    def _add(
        self, op: Any, signature: Signature, operands: list[int], top: int, within: tuple[str, ...]
    ) -> list[int]:
        """Adds an op, or a call's ops in its place; its results.

        Args:
          within: the functions that are being called.
        """
        symbol = _callee(op, signature.name)
        if symbol is not None and symbol not in within:
            body, inner = self._program.reading.body(self._program.function(symbol)), operands
            for op, signature, places in _ops(body):
                given = [inner[v] for v in places]
                inner += self._add(op, signature, given, top, (*within, symbol))
            return [inner[v] for v in body.returned]
        index, depths, users = len(self.steps), self.depths, self.users
        depth = 1 + max([depths[v] for v in operands], default=0)
        results = self._new(signature.results, index, depth)
        for v in dict.fromkeys(operands):
            users[v].append(index)
        self.steps.append(Step(op, signature.name, tuple(operands), tuple(results), top))
        return results

    def own_value(self, number: int) -> ir.Value:
        """The first of the function's own values that are a value."""
        return self.body.value(self.outer[number][0])

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


def _ops(body: Body) -> Iterator[tuple[Any, Signature, list[int]]]:
    return zip(body.ops, body.signatures, body.operands, strict=True)


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

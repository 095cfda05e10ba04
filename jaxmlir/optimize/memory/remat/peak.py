"""An estimate of the memory that a program needs besides its arguments and results.

The ops run in their order; a value takes memory from the op that gives it to the last one that
reads it, unless it is fused: computed as part of its only reader.  A loop or call needs what the
function does that it runs.  What a compiler makes of it differs, so this compares two forms of one
program, no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import returned, symbols_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.optimize.memory.remat.price import (
    CACHED,
    KEPT,
    TRAFFIC,
    TRAFFIC_CACHED,
    TRAFFIC_KEPT,
    size_of,
)

if TYPE_CHECKING:
    from jaxmlir.analysis.function_view import FunctionView


def peak(program: Module) -> float:
    """Bytes that a program needs at once: its public function, or that which needs most of those
    that others call from elsewhere."""
    peaks, entries = Peaks(program), analyses_of(program).graph.entry_points()
    return max(map(peaks.of, entries), default=0.0)


def peak_beside_results(program: Module) -> float:
    """Likewise, of what comes nearer to what XLA does: a value is read by the kernel that its
    readers are fused into, and the memory of results is used for others before they are there."""
    peaks, found = Peaks(program), [0.0]
    for symbol in analyses_of(program).graph.entry_points():
        body = analyses_of(program).body(program.function(symbol))
        most = memory(body, kernels(body))
        for index, name in enumerate(body.names):
            if may_have_functions(name):
                most[index] += max(map(peaks.of, symbols_of(body.ops[index])), default=0.0)
        results = [v for v in dict.fromkeys(body.returned) if v >= body.arity]
        found.append(max(most, default=0.0) - sum(known_bytes(body.types[v]) for v in results))
    return float(max(found))


def memory(body: FunctionView, kernel: list[int]) -> np.ndarray:
    """The bytes that the values of a function take where each of its ops is, results included.

    Args:
      kernel: of each op the one that it is computed with.
    """
    change = np.zeros(len(body.ops) + 1)
    for index, (first, last) in enumerate(body.results):
        if kernel[index] != index:
            continue
        for v in range(first, last):
            change[index] += known_bytes(body.types[v])
            if v not in body.outputs:
                end = max([kernel[reader] for reader in body.users[v]], default=index)
                change[end + 1] -= known_bytes(body.types[v])
    return np.cumsum(change[:-1])


def kernels(body: FunctionView, stored: Container[str] = frozenset()) -> list[int]:
    """Of each op of a function the one that it is computed with: itself, if it is not fused.

    Args:
      stored: names of ops that are not.
    """
    kernel = [*range(len(body.ops))]
    for index in reversed(range(len(body.ops))):
        name, (first, _) = body.names[index], body.results[index]
        may_be_fused = name in FUSIBLE or name == "jaxpr.constant"
        may_be_fused = may_be_fused and name not in stored
        if may_be_fused and first not in body.outputs and len(body.users[first]) == 1:
            kernel[index] = kernel[body.users[first][0]]
    return kernel


def known_bytes(type_: ir.Type) -> float:
    """The bytes of a value, none where they are not known."""
    size = size_of(type_)
    return size if isfinite(size) else 0.0


def in_units(count: float) -> str:
    """Bytes, to be read: ``"1.5 MiB"``."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def traffic(program: Module) -> float:
    """What a stored byte takes in a program, in nanoseconds: the compiler has one block of memory
    for all that is not an argument or a result."""
    # Where that is little, the bytes of all values are no less, and quickly added up.
    most = total(program)
    if most > CACHED:
        most = peak(program)
    if most <= CACHED:
        return TRAFFIC_CACHED
    return TRAFFIC_KEPT if most < KEPT else TRAFFIC


def total(program: Module) -> float:
    """The bytes of all values that the ops of a program give: no less than it needs at once."""
    found = 0.0
    for function in program.functions.values():
        for op in function.entry_block.operations:
            found += sum(filter(isfinite, map(size_of, op.results.types)))
    return found


class Peaks:
    def __init__(self, program: Module):
        self._program = program
        self._found: dict[str, float] = {}

    def of(self, symbol: str) -> float:
        if symbol not in self._found:
            self._found[symbol] = 0.0
            self._found[symbol] = self._walk(symbol)
        return self._found[symbol]

    def _walk(self, symbol: str) -> float:
        function = self._program.function(symbol)
        steps = list(ops_of(function))
        uses = Counter(v for _, _, operands in steps for v in operands)
        given = set(returned(function))
        last: dict[ir.Value, int] = {}
        for i, (_, _, operands) in enumerate(steps):
            last.update(dict.fromkeys(operands, i))
        ends: dict[int, float] = {}
        live = most = 0.0
        for i, (op, name, _) in enumerate(steps):
            fused = name in FUSIBLE or name == "jaxpr.constant"
            for v in op.results:
                size = size_of(v.type)
                if v in given or not isfinite(size) or (fused and uses[v] <= 1):
                    continue
                live += size
                end = last.get(v, i)
                ends[end] = ends.get(end, 0.0) + size
            inner = (
                max(map(self.of, symbols_of(op)), default=0.0) if may_have_functions(name) else 0
            )
            most = max(most, live + inner)
            live -= ends.pop(i, 0.0)
        return most

"""An estimate of the memory that a program needs besides its arguments and results.

The ops run in their order; a value takes memory from the op that gives it to the last one that
reads it, unless it is fused: computed as part of its only reader.  A loop or call needs what the
function does that it runs.  What a compiler makes of it differs, so this compares two forms of one
program, no more.
"""

from __future__ import annotations

from collections import Counter
from math import isfinite

from jaxmlir.ir import ir
from jaxmlir.ops import may_have_functions
from jaxmlir.passes._build import ops_of, returned, symbols_of
from jaxmlir.passes._fusion import FUSED, MOVED
from jaxmlir.passes.remat._price import (
    CACHED,
    KEPT,
    TRAFFIC,
    TRAFFIC_CACHED,
    TRAFFIC_KEPT,
    size_of,
)
from jaxmlir.program import Program


def peak(program: Program) -> float:
    """Bytes that a program needs at once: its public function, or that which needs most of those
    that others call from elsewhere."""
    peaks, entries = Peaks(program), program.reading.graph.entry_points()
    return max(map(peaks.of, entries), default=0.0)


def peak_beside_results(program: Program) -> float:
    """The same, where the memory of results is used for other values before they are there, as XLA
    does: what is needed beyond it."""
    entries = program.reading.graph.entry_points()
    return max((Peaks(program).beside_results(symbol) for symbol in entries), default=0.0)


def traffic(program: Program) -> float:
    """What a stored byte takes in a program, in nanoseconds: the compiler has one block of memory
    for all that is not an argument or a result."""
    # Where that is little, the bytes of all values are no less, and quickly added up.
    most = _total(program)
    if most > CACHED:
        most = peak(program)
    if most <= CACHED:
        return TRAFFIC_CACHED
    return TRAFFIC_KEPT if most < KEPT else TRAFFIC


def _total(program: Program) -> float:
    """The bytes of all values that the ops of a program give."""
    found = 0.0
    for function in program.functions.values():
        for op in function.entry_block.operations:
            found += sum(filter(isfinite, map(size_of, op.results.types)))
    return found


class Peaks:
    def __init__(self, program: Program):
        self._program = program
        self._found: dict[str, float] = {}

    def of(self, symbol: str) -> float:
        if symbol not in self._found:
            self._found[symbol] = 0.0
            self._found[symbol] = self._walk(symbol)
        return self._found[symbol]

    def beside_results(self, symbol: str) -> float:
        """What a function that nothing calls needs besides its results."""
        given = dict.fromkeys(returned(self._program.function(symbol)))
        sizes = (size_of(v.type) for v in given if not isinstance(v.owner, ir.Block))
        results = sum(filter(isfinite, sizes))
        return max(0.0, self._walk(symbol, with_results=True) - results)

    def _walk(self, symbol: str, *, with_results: bool = False) -> float:
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
            fused = name in FUSED or name in MOVED or name == "jaxpr.constant"
            for v in op.results:
                size = size_of(v.type)
                if not isfinite(size) or (fused and uses[v] <= 1 and v not in given):
                    continue
                if v in given:
                    live += size if with_results else 0
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

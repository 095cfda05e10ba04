"""What it costs to compute a value again, and to store it: nanoseconds on a CPU core.

All constants of the choice are here.  Each was measured as the difference of the CPU time of two
scans, compiled by XLA, that differ in one thing: an op more in the body, a value more stored.  They
are the same on both ends of JAX's versions, and only their ratios matter.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.analysis.cost import CALLED, leaf_cost
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import aval_if_any
from jaxmlir.dialect import op_signature, ops
from jaxmlir.dialect.builder import returned, symbols_of, trip_count
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.devices import COLLECTIVES
from jaxmlir.dialect.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.analysis.function_view import FunctionView


ELEMENT = 0.05
"""An arithmetic operation on one element, fused with others: 0.01, a division up to 0.15."""
FUNCTIONS = {
    **dict.fromkeys(("sqrt", "rsqrt", "erf"), 0.25),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "tanh", "logistic"), 0.45),
    **dict.fromkeys(("expm1", "log1p"), 1.0),
}
"""Functions of one element that are a polynomial or two: 0.1 to 0.4, 0.25 to 0.6, 0.7 to 1.2."""
MOVES = {
    "gather": 0.4,
    **dict.fromkeys(("concatenate", "stack"), 0.4),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), 2.0),
    **dict.fromkeys(("argmax", "argmin"), 5.0),
    "sort": 120.0,
}
"""An element of what is not fused, or goes through elements one by one: 0.3 to 0.6, 0.1 to 0.6 (of
2 to 8 pieces, whatever their length), 1.4 to 2.2, 4.4 to 5.3, 70 to 160."""
TRANSCENDENTAL = 2.0
"""Others: ``sin``, ``cos``, ``pow`` 1.5 to 2.3, ``atan2`` and ``cbrt`` 5 to 12."""
CONTRACTION = 0.015
"""A floating-point operation of a matrix product or convolution: 0.010 of large matrices, 0.018 of
those of 32 rows."""
READING = 0.03
"""A byte that a matrix product reads or writes, which is what takes the time where a matrix is
multiplied by less than four vectors: 0.025 of a matrix of 1024 rows, 0.045 of one of 256."""
UNKNOWN = 20.0
"""Four bytes that an op without a formula reads or writes: 2 for the LU decomposition of 64 rows,
17 for their eigenvalues."""
TRAFFIC = 0.8
"""Writing a byte of a stored value in one loop and reading it in the other, where that is memory
which is mapped anew for each run: 0.6 to 0.85."""
TRAFFIC_KEPT = 0.25
"""The same where it is memory that a C library keeps: 0.1 at 16 MiB, 0.24 from 20 MiB on; more than
that where a kernel would have kept the value to itself."""
KEPT = 33_554_432
"""Bytes from which on a C library maps a block anew: 0.24 becomes 0.7 between 28 and 32 MiB."""
TRAFFIC_CACHED = 0.1
"""The same in few bytes, which caches hold: 0.06 to 0.14."""
CACHED = 4_194_304
"""Bytes up to which that is so: twice what two cores have of their own.  At 13 MiB a hidden Markov
model takes 1.5 times as long where its states are stored; at 2 MiB optimal transport takes 1.3
times as long where they are computed again."""
BUFFER = 4.0
"""Storing one value more, be it a scalar, for each iteration: 1 to 4."""
CALL = 2_000.0
"""A call that XLA does not inline."""
MEMORY = 1.0
"""What not occupying a byte is worth by default, beyond the time that its traffic takes: at most as
much as that, where it is dearest."""
SLOWDOWN = 0.05
"""What two loops may take longer by default, for the sake of memory."""


@functools.cache
def size_of(type_: ir.Type) -> float:
    """The bytes of a value; infinite where they are not known: symbolic shapes, references, types
    of other dialects."""
    aval = aval_if_any(type_)
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return inf
    return math.prod(shape) * getattr(dtype, "itemsize", 8)


@dataclass
class Prices:
    """The prices of a program's ops and values.

    Attributes:
      memory: what not occupying a byte is worth, in nanoseconds.
      traffic: what storing it takes.
      fence: an optimization barrier, which by default is not to be run twice: somebody put it there
        for a reason that is not known.
    """

    program: Module
    memory: float = MEMORY
    traffic: float = TRAFFIC
    fence: float = inf
    _functions: dict[str, float] = field(default_factory=dict)

    def within(self, length: int) -> Prices:
        """The prices inside of a loop: what is stored there is stored for one iteration only."""
        return replace(self, memory=self.memory / length)

    def storing(self, type_: ir.Type) -> float:
        """Keeping a value of each iteration for another loop."""
        return BUFFER + size_of(type_) * (self.traffic + self.memory)

    def at(self, body: FunctionView, index: int) -> float:
        """Running an op of a numbered function once more."""
        return self.computing(body.ops[index], body.signatures[index])

    def computing(self, op: Any, signature: Signature) -> float:
        """Running an op once more; infinite if it must not be run twice, or depends on symbolic
        sizes."""
        name = signature.name
        if name == "jaxpr.optimization_barrier":
            return self.fence
        found = _leaves.get(signature)
        if found is None:
            if signature.is_lasting or _is_distinct(name):
                found = inf
            elif may_have_functions(name) and any(True for _ in symbols_of(op)):
                return self._calling(OpView(op, name))
            else:
                found = _leaf(OpView(op, name), name.removeprefix("jaxpr."))
            _leaves[signature] = found
        return found

    def _calling(self, node: OpView) -> float:
        match node.name.removeprefix("jaxpr."):
            case "scan":
                count = trip_count(node.get("length"))
                return inf if count is None else self.function(node.get("jaxpr")) * count
            case "cond":
                return max(map(self.function, node.get("branches")))
            case "custom_linear_solve":
                return self.function(node.get("jaxprs").solve)
            case name if name in CALLED:
                return self.function(node.get(CALLED[name]))
        # Of others it is not known how often they call.
        return inf

    def function(self, symbol: str) -> float:
        """Running a function of the program once more."""
        found = self._functions.get(symbol)
        if found is None:
            # A function that calls itself: how often is not known.
            self._functions[symbol] = inf
            found = self._functions[symbol] = sum(
                self.computing(op, op_signature.of_op(op, name, operands))
                for op, name, operands in ops_of(self.program.function(symbol))
            )
        return found


@functools.cache
def _is_distinct(name: str) -> bool:
    """Whether two ops of a name are not one with the same operands, or are one that is not to be
    run twice."""
    record = ops.record_of(name)
    # To run a collective again is to communicate again.
    return record is not None and bool(record in COLLECTIVES.ops or record.distinct)


# By signature, of every program.
_leaves: dict[Signature, float] = {}


def _leaf(node: OpView, name: str) -> float:
    if name == "constant":
        return 0.0
    cost, counted = leaf_cost(node, name)
    if not all(isinstance(n, Real) for n in (cost.flops, cost.transcendentals, cost.bytes)):
        return inf
    if name in MOVES:
        return MOVES[name] * max(
            math.prod(v.shape) for v in [aval_of(v.type) for v in node.op.results]
        )
    if not counted:
        return UNKNOWN * cost.bytes / 4
    if node.name in ops.with_trait(ops.Trait.CONTRACTION):
        return max(cost.flops * CONTRACTION, cost.bytes * READING)
    each = FUNCTIONS.get(name, TRANSCENDENTAL)
    return cost.flops * ELEMENT + cost.transcendentals * each


# -- An estimate of the memory that a program needs besides its arguments and results --
#
# The ops run in their order; a value takes memory from the op that gives it to the last one that
# reads it, unless it is fused: computed as part of its only reader.  A loop or call needs what the
# function does that it runs.  What a compiler makes of it differs, so this compares two forms of
# one program, no more.


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

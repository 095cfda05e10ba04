"""What it costs to compute a value again, and to store it: nanoseconds on a CPU core.

All constants of the choice are here.  Each was measured as the difference of the CPU time of two
scans, compiled by XLA, that differ in one thing: an op more in the body, a value more stored.  They
are the same on both ends of JAX's versions, and only their ratios matter.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.cost import CALLED, leaf_cost
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.op_counts import aval_if_any
from jaxmlir.dialect import op_signature, ops
from jaxmlir.dialect.builder import symbols_of, trip_count
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.devices import COLLECTIVES
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.memory.profile import peak, total

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
                return self._calling(OpView(op, name, ()))
            else:
                found = _leaf(OpView(op, name, ()), name.removeprefix("jaxpr."))
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


def traffic(program: Module) -> float:
    """What a stored byte takes in a program, in nanoseconds: the compiler has one block of memory
    for all that is not an argument or a result."""
    # Where that is little, the bytes of all values are no less, and quickly added up.
    most: float = total(program)
    if most > CACHED:
        most = peak(program)
    if most <= CACHED:
        return TRAFFIC_CACHED
    return TRAFFIC_KEPT if most < KEPT else TRAFFIC

"""Finds sums whose operand ``jaxpr-materialize-shared`` stores, so that XLA stores nothing else for
them.

XLA's CPU compiler hands a sum to a library of reductions, together with the elementwise ops that
compute its operand, back to values that have other users.  It stores these values for the library,
even if every other user recomputes them.  It also stores smaller values, broadcast to the size of
the operand::

    d = x[:, None] - m;  t = w * d;  sum(t * d)        stores d beside t, for t * d

Storing the operand of the sum takes as much memory: one loop computes it from the operands of
``d``, and no sum is faster than that of a value in memory.  A value that several sums read is left
alone, because it is stored once for all of them.  So is a value that is stored for another reason,
or that takes long to compute, and the only array that a sum reads: summing, say, its squares takes
little longer than summing the array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSED, FUSIBLE, LIBRARY_REDUCTIONS, SLOW
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import FencedValue

# Times with the summed value stored / with the shared one, jax 0.10 and 0.12, two cores; sums of
# t (x - m) along the first axis, where t is stored and x - m is read by others as well:
#   5000 x 64 x 8   0.84, 0.61     100 x 100 x 64     0.90, 0.75     5000 x 512   0.88, 0.80
#   5000 x 64 x 4   0.81, 0.77     64 x 64 x 64       0.91, 1.01     20,000 x 64  0.84, 0.82
#   400 x 400 x 16  1.08, 0.82     64 x 128 x 256     0.97, 1.05     1000 x 64    0.87, 0.94
MIN_SUMMED = 1 << 17
# The most ops that are followed backwards from a sum.
MAX_WAY = 32

# Ops that are not computed again: XLA stores their results for the users.
_LONG = with_trait(Trait.TRANSCENDENTAL) | SLOW.keys()

# A value that is stored for a sum, and the type that it is stored with: larger if it is broadcast.
_Shared = tuple[int, ir.Type]


def summed_apart(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView]
) -> dict[str, list[FencedValue]]:
    """The values to store before they are summed, by function."""
    return {symbol: _summed_apart(bodies(symbol)) for symbol in symbols}


def _summed_apart(body: FunctionView) -> list[FencedValue]:
    if not any(
        name in LIBRARY_REDUCTIONS and elements(signature.operands[0]) >= MIN_SUMMED
        for name, signature in zip(body.names, body.signatures, strict=True)
    ):
        return []
    search = _SummedValues(body)
    reads = {
        body.makers[operands[0]]: search.reads(operands[0])
        for name, operands in zip(body.names, body.operands, strict=True)
        if name in LIBRARY_REDUCTIONS and search.is_summed_alone(operands[0])
    }
    sums = Counter(shared for sum_reads in reads.values() for shared in sum_reads.shared)
    reason = "XLA would otherwise store values that it is computed from, for the sum that reads it"
    return [
        FencedValue(i, 0, reason)
        for i, sum_reads in reads.items()
        if len(sum_reads.arrays) > 1 and any(sums[shared] == 1 for shared in sum_reads.shared)
    ]


@dataclass(eq=False)
class _SumReads:
    """The values that a sum reads.

    Attributes:
      arrays: all of them but single numbers.
      shared: the arrays that are stored for sums only.
    """

    arrays: set[int] = field(default_factory=set)
    shared: set[_Shared] = field(default_factory=set)


class _SummedValues:
    """Properties of the values of a function."""

    def __init__(self, body: FunctionView):
        self._body = body

    def is_summed_alone(self, value: int) -> bool:
        """Whether a value is large, computed by an elementwise op, and read by one op only."""
        i, type_ = self._body.makers[value], self._body.types[value]
        return (
            i is not None
            and self._body.names[i] in FUSED
            and elements(type_) >= MIN_SUMMED
            and aval_of(type_).dtype == np.float32
            and self._is_only_read_once(value)
        )

    def reads(self, summed: int) -> _SumReads:
        """The values that a sum reads, back to stored ones, and those stored for sums only."""
        reads, body, types = _SumReads(), self._body, self._body.types
        pending = [summed]
        for _ in range(MAX_WAY):
            if not pending:
                break
            value = pending.pop()
            i = body.makers[value]
            for operand in dict.fromkeys(body.operands[i]):
                is_small = elements(types[operand]) < elements(types[value])
                if not is_small and self._is_computed(operand) and self._is_only_read_once(operand):
                    pending.append(operand)
                elif elements(types[operand]) > 1:
                    reads.arrays.add(operand)
                    if is_small and self._is_spread_again(operand, i):
                        reads.shared.add((operand, types[value]))
                    elif not is_small and self._is_computed_again(operand):
                        reads.shared.add((operand, types[operand]))
        return reads

    def _is_only_read_once(self, value: int) -> bool:
        return len(self._body.users[value]) == 1 and value not in self._body.outputs

    def _is_computed(self, value: int) -> bool:
        i = self._body.makers[value]
        return i is not None and self._is_fused(i)

    def _is_fused(self, i: int) -> bool:
        return self._body.names[i] in FUSIBLE

    def _is_spread_again(self, value: int, reader: int) -> bool:
        """Whether another op also broadcasts an array to the type of the reader's result."""
        signatures = self._body.signatures
        result = signatures[reader].results[0]
        return any(
            self._is_fused(i) and signatures[i].results[0] == result
            for i in self._body.users[value]
            if i != reader
        )

    def _is_computed_again(self, value: int) -> bool:
        """Whether each user of a value recomputes it, as far as XLA decides that."""
        body = self._body
        if not self._is_computed(value) or value in body.outputs:
            return False
        if not all(map(self._is_fused, body.users[value])):
            return False
        ops, _ = body.backward_slice(
            body.operands[body.makers[value]],
            lambda v: not (self._is_computed(v) and self._is_only_read_once(v)),
        )
        names = [body.names[i] for i in (body.makers[value], *ops)]
        return len(names) < MAX_WAY and _LONG.isdisjoint(names)

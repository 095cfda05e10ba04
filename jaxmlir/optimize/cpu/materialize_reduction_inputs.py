"""Where ``jaxpr-materialize-shared`` cuts a sum off from what it sums, so that only that is stored.

XLA's CPU compiler hands a sum over to a library of reductions, together with the elementwise ops
that compute what is summed, back to those values that have other users.  These it stores for the
library, even where every other user computes them again on its way, and so does it with what is
spread to the size of the sum::

    d = x[:, None] - m;  t = w * d;  sum(t * d)        stores d beside t, for t * d

Stored is as much if the summed value is: one loop computes it, of what ``d`` is made of, and a sum
of what is in memory is the fastest that there is.  A value that several sums read is stored once
for all of them, and left alone; so is what is stored for another reason, or takes long to compute,
and the only array that a sum reads: its squares take little longer than it does.
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
# So many ops on the way back from a sum are looked at.
MAX_WAY = 32

# What is not computed again: XLA stores it for its users.
_LONG = with_trait(Trait.TRANSCENDENTAL) | SLOW.keys()

# What is stored for a sum: a value, or one that is spread to a shape.
_Shared = tuple[int, ir.Type]


def summed_apart(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView]
) -> dict[str, list[FencedValue]]:
    """What is to be stored before it is summed, by function."""
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
    return [
        FencedValue(i, 0, "a sum of it would store what others compute again")
        for i, sum_reads in reads.items()
        if len(sum_reads.arrays) > 1 and any(sums[shared] == 1 for shared in sum_reads.shared)
    ]


@dataclass(eq=False)
class _SumReads:
    """What a sum reads.

    Attributes:
      arrays: all of it but numbers.
      shared: of that, what is stored for sums only.
    """

    arrays: set[int] = field(default_factory=set)
    shared: set[_Shared] = field(default_factory=set)


class _SummedValues:
    """What is known of the values of a function."""

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
        """What a sum of a value reads, back to what is stored, and what is so only for it."""
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
        """Whether an array has the size of what an op makes of it for another op as well."""
        signatures = self._body.signatures
        result = signatures[reader].results[0]
        return any(
            self._is_fused(i) and signatures[i].results[0] == result
            for i in self._body.users[value]
            if i != reader
        )

    def _is_computed_again(self, value: int) -> bool:
        """Whether each user of a value computes it anew, as far as it is up to XLA."""
        body = self._body
        if not self._is_computed(value) or value in body.outputs:
            return False
        if not all(map(self._is_fused, body.users[value])):
            return False
        pending = [value]
        for _ in range(MAX_WAY):
            if not pending:
                return True
            i = body.makers[pending.pop()]
            if body.names[i] in _LONG:
                return False
            pending += [
                v for v in body.operands[i] if self._is_computed(v) and self._is_only_read_once(v)
            ]
        return False

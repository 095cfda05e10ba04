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
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSED, FUSIBLE, LIBRARY_REDUCTIONS, SLOW
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect.builder import ops_of, returned
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of

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
_Shared = tuple[ir.Value, ir.Type]


def summed_apart(body: FunctionView) -> list[tuple[int, int]]:
    """What is to be stored before it is summed: of which ops of a function it is which results."""
    if not any(
        name in LIBRARY_REDUCTIONS and elements(signature.operands[0]) >= MIN_SUMMED
        for name, signature in zip(body.names, body.signatures, strict=True)
    ):
        return []
    ops = list(ops_of(body.function))
    search = _Search(ops, returned(body.function))
    reads = {
        search.index[op.operands[0]]: search.reads(op.operands[0])
        for op, name, _ in ops
        if name in LIBRARY_REDUCTIONS and search.is_summed_alone(op.operands[0])
    }
    sums = Counter(one for found in reads.values() for one in found.shared)
    return sorted(
        (i, 0)
        for i, found in reads.items()
        if len(found.arrays) > 1 and any(sums[one] == 1 for one in found.shared)
    )


@dataclass
class _Reads:
    """What a sum reads.

    Attributes:
      arrays: all of it but numbers.
      shared: of that, what is stored for sums only.
    """

    arrays: set[ir.Value] = field(default_factory=set)
    shared: set[_Shared] = field(default_factory=set)


class _Search:
    """What is known of the values of a function."""

    def __init__(self, ops: Sequence[tuple[Any, str, list[ir.Value]]], outs: Collection[ir.Value]):
        self.ops = ops
        self.index = {v: i for i, (op, _, _) in enumerate(ops) for v in op.results}
        self._users: dict[ir.Value, list[int]] = {}
        for i, (_, _, operands) in enumerate(ops):
            for v in dict.fromkeys(operands):
                self._users.setdefault(v, []).append(i)
        self._outs = set(outs)

    def is_summed_alone(self, value: ir.Value) -> bool:
        """Whether a value is large, computed by an elementwise op, and read by one op only."""
        i = self.index.get(value)
        return (
            i is not None
            and self.ops[i][1] in FUSED
            and elements(value.type) >= MIN_SUMMED
            and aval_of(value.type).dtype == np.float32
            and self._is_only_read_once(value)
        )

    def reads(self, summed: ir.Value) -> _Reads:
        """What a sum of a value reads, back to what is stored, and what is so only for it."""
        found = _Reads()
        pending = [summed]
        for _ in range(MAX_WAY):
            if not pending:
                break
            value = pending.pop()
            i = self.index[value]
            for operand in dict.fromkeys(self.ops[i][2]):
                is_small = elements(operand.type) < elements(value.type)
                if not is_small and self._is_computed(operand) and self._is_only_read_once(operand):
                    pending.append(operand)
                elif elements(operand.type) > 1:
                    found.arrays.add(operand)
                    if is_small and self._is_spread_again(operand, i):
                        found.shared.add((operand, value.type))
                    elif not is_small and self._is_computed_again(operand):
                        found.shared.add((operand, operand.type))
        return found

    def _is_only_read_once(self, value: ir.Value) -> bool:
        return len(self._users[value]) == 1 and value not in self._outs

    def _is_computed(self, value: ir.Value) -> bool:
        i = self.index.get(value)
        return i is not None and self._is_fused(i)

    def _is_fused(self, i: int) -> bool:
        return self.ops[i][1] in FUSIBLE

    def _is_spread_again(self, value: ir.Value, reader: int) -> bool:
        """Whether an array has the size of what an op makes of it for another op as well."""
        result = self.ops[reader][0].results[0].type
        return any(
            self._is_fused(i) and self.ops[i][0].results[0].type == result
            for i in self._users[value]
            if i != reader
        )

    def _is_computed_again(self, value: ir.Value) -> bool:
        """Whether each user of a value computes it anew, as far as it is up to XLA."""
        if not self._is_computed(value) or value in self._outs:
            return False
        if not all(map(self._is_fused, self._users[value])):
            return False
        pending = [value]
        for _ in range(MAX_WAY):
            if not pending:
                return True
            _, name, operands = self.ops[self.index[pending.pop()]]
            if name in _LONG:
                return False
            pending += [v for v in operands if self._is_computed(v) and self._is_only_read_once(v)]
        return False

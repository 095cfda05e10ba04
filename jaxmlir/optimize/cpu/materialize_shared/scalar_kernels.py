"""Finds values that ``jaxpr-materialize-shared`` stores because XLA's CPU compiler would compute
them in a kernel that is not vectorized.

A kernel is a loop over the elements of its result.  It is vectorized if neighbours in the result
are neighbours in what it reads, but computes its elements one by one if

- a reshape or a scatter that merges dimensions is fused with ops that broadcast: the kernel finds
  the place of each element in the smaller arrays by division::

      reshape[n * m](x[:, None] * y)        x[i // m] * y[i % m]

- it is a reduction, whose operand it computes as it goes along.

If the value before the merge or the reduction is stored, one vectorized kernel computes it.  A
merged array is stored in any case, unless the kernel of another op reads it, so nothing is lost.
The operand of a reduction is stored if it takes several additions, products or the like to compute
it; functions such as exponentials take as long in either kernel.

From jax 0.11 on, an elementwise kernel also divides to read a stored array whose dimensions are
merged.  A fence after the reshape makes XLA merge the dimensions before the kernel, for nothing.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FEW_ELEMENTS, FUNCTIONS, FUSED, FUSIBLE, SLOW, inlined_calls
from jaxmlir.analysis.op_counts import elements, is_array, size
from jaxmlir.dialect import codec
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import FencedValue
from jaxmlir.targets import Target
from jaxmlir.targets.costs import Costs

# Nanoseconds that an addition, product or the like of an element takes longer in a kernel that is
# not vectorized; the second for rows of up to so many elements.  Microseconds of a kernel / of two,
# in a loop, jax 0.10 and 0.12:
#   merged products of 512 x 8 x 8   12/3.6, 14/5    merged 64 x 8 x 64        19/2, 21/3.1
#   products of 512 x 8 and 8 x 8, summed over 8, added elementwise and merged  12/2.3, 9.1/1.7;
#   scattered 8.9/4.8, 14/5.1; their maximum for each column 29/4.8, 32/7.6
#   sums of 9 ops on pairs: 4096 x 8 72/18, 91/25; 256 x 256 55/21, 38/22; 8 x 4096 19/10, 24/16;
#   64 x 64 6.3/7.4, 11/13; of 2 ops 256 x 256 14/8, 17/10; and of 2 ops and an exponential 32/28,
#   38/37, on two cores 31/28, 43/67
SAVED = 0.1
SAVED_IN_SHORT_ROWS = 0.25
SHORT_ROW = 8
# How many times the cost of storing a value must be saved.
MARGIN = 2.0
# From here on, elementwise kernels divide to read a stored array with merged dimensions.  An array
# times another of 512 x 8 x 8, read as 512 x 64: 0.10 13 us, 0.12 59 us, and 13 us with a fence.
DIVIDES_SINCE = (0, 11)
# The most ops that are followed backwards.
MAX_WAY = 64

_REDUCTIONS = frozenset(f"jaxpr.reduce_{name}" for name in ("max", "min", "prod", "sum"))
_SCATTERS = frozenset(
    f"jaxpr.scatter{suffix}" for suffix in ("", "_add", "_max", "_min", "_mul", "_sub")
)
_ARITHMETIC = FUSED - FUNCTIONS - SLOW.keys()
_FOLLOWED = FUSED | with_trait(Trait.VIEW) | {"jaxpr.slice"}


class _FusedOps(NamedTuple):
    """The elementwise ops that a kernel computes each element of a value by.

    Attributes:
      all: their number.
      arithmetic: the number of those that a vectorized kernel computes for many elements at once.
      broadcasts: whether the kernel reads elements of smaller arrays several times.
    """

    all: int = 0
    arithmetic: int = 0
    broadcasts: bool = False

    def plus(self, other: _FusedOps) -> _FusedOps:
        """The sum of these ops and others."""
        both = self.broadcasts or other.broadcasts
        return _FusedOps(self.all + other.all, self.arithmetic + other.arithmetic, both)


def computed_singly(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView], target: Target
) -> dict[str, list[FencedValue]]:
    """The values to store, by function.

    Args:
      symbols: the functions, callees first.
    """
    divides = target.compiler[:2] >= DIVIDES_SINCE
    fenced: dict[str, list[FencedValue]] = {}
    results: dict[str, list[_FusedOps]] = {}
    for symbol in symbols:
        body = bodies(symbol)
        search = _Search(body, results, target.costs, divides)
        fenced[symbol] = search.run()
        results[symbol] = [search.fused_ops(v) for v in body.returned]
    return fenced


class _Search:
    """A search for the values of a function to store.

    Args:
      of: has the ops fused with each result of each called function.  A recursive call has none.
      divides: whether elementwise kernels divide to read stored arrays with merged dimensions.
    """

    def __init__(
        self,
        body: FunctionView,
        of: Mapping[str, Sequence[_FusedOps]],
        costs: Costs,
        divides: bool,
    ):
        self._body = body
        self._of = of
        self._calls = inlined_calls(body)
        self._costs = costs
        self._divides = divides
        self._fenced: dict[int, FencedValue] = {}

    def run(self) -> list[FencedValue]:
        body = self._body
        for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
            if name in _REDUCTIONS:
                self._visit_reduction(operands[0])
            elif name == "jaxpr.reshape" and _merges(body.signatures[index]):
                self._visit_reshape(index, operands[0])
            elif name in _SCATTERS and _merges_updates(body.signatures[index]):
                self._visit_merged(operands[2], is_stored=True)
        return [*self._fenced.values()]

    def _visit_reduction(self, value: int) -> None:
        if self._pays(value, self.fused_ops(value)):
            self._fence(value, "the reduction that reads it is not vectorized")

    def _visit_reshape(self, index: int, value: int) -> None:
        result, users = self._body.results[index][0], self._body.users
        names = {self._body.names[user] for user in users[result]}
        is_fused = not names.isdisjoint(FUSIBLE | _REDUCTIONS) or any(
            user in self._calls for user in users[result]
        )
        self._visit_merged(value, is_stored=not is_fused)
        if (
            self._divides
            and not names.isdisjoint(FUSED)
            and not self.fused_ops(value).all
            and elements(self._body.types[result]) >= FEW_ELEMENTS
        ):
            self._fence(result, "its user would find each element by division")

    def _visit_merged(self, value: int, is_stored: bool) -> None:
        """Fences a value whose dimensions are merged.

        Args:
          is_stored: whether the merged value is stored, in whatever kernel.
        """
        ops = self.fused_ops(value)
        if (
            elements(self._body.types[value]) >= FEW_ELEMENTS
            and (ops.broadcasts or (self._divides and ops.all > 0))
            and (is_stored or self._pays(value, ops))
        ):
            self._fence(value, "a kernel that merges its dimensions is not vectorized")

    def _pays(self, value: int, ops: _FusedOps) -> bool:
        """Whether storing a value takes less time than computing it element by element."""
        type_ = self._body.types[value]
        if not is_array(type_) or size(type_) > self._costs.kept_block:
            return False
        is_short = aval_of(type_).shape[-1:] <= (SHORT_ROW,)
        saved = ops.arithmetic * (SAVED_IN_SHORT_ROWS if is_short else SAVED)
        return elements(type_) * saved > MARGIN * self._costs.stored(size(type_))

    def _fence(self, value: int, reason: str) -> None:
        index = self._body.makers[value]
        if value not in self._fenced and index is not None:
            result = value - self._body.results[index][0]
            self._fenced[value] = FencedValue(index, result, reason)

    def fused_ops(self, value: int) -> _FusedOps:
        """The ops fused with a value, without those that are computed once for several elements."""
        body, count = self._body, elements(self._body.types[value])
        seen, pending, ops = {value}, [value], _FusedOps()
        while pending and len(seen) < MAX_WAY:
            v = pending.pop()
            i = body.makers[v]
            if i is None or v in self._fenced:
                continue
            name = body.names[i]
            if i in self._calls:
                callee = self._of.get(self._calls[i])
                ops = ops.plus(callee[v - body.results[i][0]]) if callee else ops
            elif name in _FOLLOWED:
                counts = [elements(body.types[operand]) for operand in body.operands[i]]
                broadcasts = any(1 < n < elements(body.types[v]) for n in counts)
                ops = ops.plus(_FusedOps(name in FUSED, name in _ARITHMETIC, broadcasts))
            else:
                continue
            for operand in body.operands[i]:
                if operand not in seen and elements(body.types[operand]) > count // 2:
                    seen.add(operand)
                    pending.append(operand)
        return ops


@functools.cache
def _merges(reshape: Signature) -> bool:
    """Whether a reshape merges the last dimension with others, or dimensions before a short one."""
    if not all(map(is_array, reshape.types)) or not elements(reshape.operands[0]):
        return False
    old, new = ([n for n in aval_of(t).shape if n > 1] for t in reshape.types)
    inner_sizes = (set(itertools.accumulate(reversed(sizes), operator.mul)) for sizes in (old, new))
    if operator.le(*inner_sizes):
        return False
    return new[-1] > old[-1] or old[-1] <= SHORT_ROW


@functools.cache
def _merges_updates(scatter: Signature) -> bool:
    """Whether a scatter's updates have several dimensions that are not dimensions of windows."""
    if not all(map(is_array, scatter.types)):
        return False
    windows = codec.decode(scatter.named["dimension_numbers"]).update_window_dims
    shape = aval_of(scatter.operands[2]).shape
    merged = [d for d, n in enumerate(shape) if n > 1 and d not in windows]
    return len(merged) > 1 and (len(shape) - 1 not in windows or shape[-1] <= SHORT_ROW)

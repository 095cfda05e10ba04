"""Finds arrays that a pass has to store because they are compared with their own extremes.

The derivative of a maximum finds the elements that equal it::

    h = f(x, reduce_sum(g(x)));  m = reduce_max(h);  eq(h, broadcast(m))

XLA stores the sum, so that the kernels of ``m`` and of ``eq`` round ``h`` in the same way.  If the
sum is written as ops that XLA fuses into both kernels, these may differ: a kernel makes one op of a
product and a sum only where nothing else reads the product.  Then no element equals the maximum,
and its derivative is zero without a warning.  If ``h`` is stored, both kernels read its elements.

An array is stored if it is compared with elements that were selected from it, as by a maximum or by
sorting, and an op that is expanded computes it; or selects from it, and ops that may be rounded in
two ways compute it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import NamedTuple

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView, OpView
from jaxmlir.analysis.fusion import FUNCTIONS, FUSED, FUSIBLE, MOVED, SLOW
from jaxmlir.analysis.op_counts import is_narrow, is_plain_array
from jaxmlir.dialect import ops
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.barriers import FencedValue

COMPARISONS = frozenset(f"jaxpr.{name}" for name in ("eq", "ge", "gt", "le", "lt", "ne"))
EXTREMES = ops.names(r for r in ops.OPS.values() if r.combine in ("max", "min")) | {
    "jaxpr.sort",
    "jaxpr.top_k",
}
"""Ops that select elements of an operand by their order."""
# Ops that choose an element for each place of the result, by its place or among those at this one.
_CHOOSING = MOVED | {f"jaxpr.{name}" for name in ("clamp", "max", "min", "select_n")}
_PRODUCTS = frozenset({"jaxpr.integer_pow", "jaxpr.mul", "jaxpr.square"})
_ADDITIONS = with_trait(Trait.ADDITIVE)
# Of a value that has elements of more arrays than this, only the value itself is followed.
_MAX_ARRAYS = 8


def is_rounded_in_ways(computed: Mapping[str, Collection[str]], type_: ir.Type) -> bool:
    """Whether two kernels that compute the same ops may round the result in two ways.

    A kernel may make one op of a product and a sum, multiply by the reciprocal of a divisor that is
    broadcast, and keep bits that a narrow type lacks.

    Args:
      computed: the names of the ops, each with the names of those that may compute its operands.
      type_: the type of the result.
    """
    if is_narrow(aval_of(type_).dtype):
        return True
    if not (FUNCTIONS.isdisjoint(computed) and SLOW.keys().isdisjoint(computed)):
        return True
    return any(not _PRODUCTS.isdisjoint(computed[name]) for name in _ADDITIONS & computed.keys())


def may_compare(names: Set[str]) -> bool:
    """Whether a function with ops of these names may compare an array with its own elements."""
    return not (COMPARISONS.isdisjoint(names) or EXTREMES.isdisjoint(names))


def rounded_in_ways(body: FunctionView) -> set[int]:
    """The arrays that are compared with their own elements, and that kernels may round in two ways:
    they must not be computed again beside a copy of these elements that is stored."""
    if not may_compare(set(body.names)):
        return set()
    return {v for v in _own_extremes(body, ()) if _slice(body, v, FUSIBLE)[1]}


def _slice(body: FunctionView, value: int, fused: Collection[str]) -> tuple[list[int], bool]:
    """The ops of these names that a value is computed by, and whether it may be rounded in two
    ways."""
    within, _ = body.backward_slice([value], lambda v: body.names[body.makers[v]] not in fused)
    inside = {body.names[i] for i in within}
    return within, is_rounded_in_ways(dict.fromkeys(inside, inside), body.types[value])


def compared_arrays(
    symbols: Iterable[str],
    bodies: Callable[[str], FunctionView],
    expanded: Collection[str],
    expansion: Callable[[OpView], object | None],
) -> dict[str, list[FencedValue]]:
    """The arrays to store, by function.

    Args:
      expanded: the names of the ops that may be expanded.
      expansion: what one of them becomes; ``None`` where it stays.
    """
    return {symbol: _compared(bodies(symbol), expanded, expansion) for symbol in symbols}


def _compared(
    body: FunctionView, expanded: Collection[str], expansion: Callable[[OpView], object | None]
) -> list[FencedValue]:
    reason = "it is compared with its own elements, and kernels may round it in two ways"
    names, makers, stored = body.names, body.makers, []
    fused = FUSIBLE.union(expanded)
    for value, selecting in _own_extremes(body, expanded).items():
        within, is_rounded = _slice(body, value, fused)
        asked = [*within, *selecting] if is_rounded else within
        if any(names[i] in expanded and expansion(body.op_views[i]) for i in asked):
            stored.append(
                FencedValue(makers[value], value - body.results[makers[value]][0], reason)
            )
    return stored


class _Elements(NamedTuple):
    """Where the elements of a value come from."""

    arrays: frozenset[int] = frozenset()
    """The computed arrays, i.e. their values, that the value has elements of."""
    extremes: frozenset[tuple[int, int]] = frozenset()
    """The arrays that it has selected elements of, each with the op that selected them."""


def _own_extremes(body: FunctionView, expanded: Collection[str]) -> Mapping[int, set[int]]:
    """The arrays that are compared with extremes of their own, with the ops that select these."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    elements = [_Elements()] * body.arity
    for index, (name, operands, results) in enumerate(
        zip(body.names, body.operands, body.results, strict=True)
    ):
        read = [elements[v] for v in operands]
        arrays = frozenset[int]().union(*[of.arrays for of in read])
        extremes = frozenset[tuple[int, int]]().union(*[of.extremes for of in read])
        if name in COMPARISONS:
            for one, other in itertools.permutations(read):
                own = {(v, i) for v, i in other.extremes if v in one.arrays}
                # If a value is stored, so are the elements that it has of others.
                inner = {u for v, _ in own for u in elements[v].arrays if u != v}
                for v, i in own:
                    if v not in inner:
                        found[v].add(i)
        if name in EXTREMES:
            of_results = _Elements(frozenset(), extremes | {(v, index) for v in arrays})
        else:
            of_results = _Elements(arrays, extremes) if name in _CHOOSING else _Elements()
        for v in range(*results):
            of = of_results
            if (name in FUSED or name in expanded) and _is_rounded(body.types[v]):
                others = of.arrays if len(of.arrays) < _MAX_ARRAYS else ()
                of = of._replace(arrays=frozenset({v, *others}))
            elements.append(of)
    return found


def _is_rounded(type_: ir.Type) -> bool:
    """Whether a type is an array of floats."""
    return is_plain_array(type_) and dtypes.issubdtype(aval_of(type_).dtype, np.inexact)

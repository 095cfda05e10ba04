"""``sort``, by any comparator.

A comparator is most often an order by some operands, the keys, each up or down: JAX sorts so. Which
keys is seen from its truth table: it says what the comparator gives for each outcome of its
comparisons. Any other comparator is applied by a sorting network (Batcher's bitonic sort), which
takes O(log(n)^2) steps of comparisons of whole arrays.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import core
from jaxmlir.dialect.ir import ir
from jaxmlir.errors import ImportingError
from jaxmlir.raising.derivatives import function_of, on_arrays
from jaxmlir.raising.matching import region_by_jax, region_text
from jaxmlir.raising.reductions import three
from jaxmlir.raising.source import attribute, shape_of, tensor
from jaxmlir.raising.writer import BodyWriter, Values, rule


@rule("sort")
def sort(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX's comparator of several keys becomes ``sort`` by these keys; a comparator that orders by
    keys becomes ``sort`` up or down; any other one a sorting network."""
    rank = len(shape_of(operands[0]))
    dimension = attribute(op, "dimension", -1) % rank
    stable = attribute(op, "is_stable", False)
    types, block = w.types(op), op.regions[0].blocks[0]
    params = {"dimension": dimension, "is_stable": bool(stable)}
    text = region_text(op.regions[0])
    elements = tuple(v.type.element_type for v in operands)
    for num_keys in range(1, len(operands) + 1):
        if text == _comparator(elements, num_keys):
            return w.emit("sort", operands, types, num_keys=num_keys, **params)
    results = _sort_by(w, operands, types, _keys(block), params)
    if results is not None:
        return results
    size = shape_of(operands[0])[dimension]
    if not core.is_constant_dim(size):
        raise ImportingError(
            "expected a comparator that orders by keys, or an array of known size, got one of "
            f"size {size}"
        )
    network = functools.partial(_by_network, function_of(w, op.regions[0]), dimension)
    return w.traced(network, operands, types)


@functools.cache
def _comparator(elements: tuple[ir.Type, ...], num_keys: int) -> tuple[str, ...] | None:
    def sorted_(*xs: Any) -> Any:
        return lax.sort_p.bind(*xs, dimension=0, is_stable=True, num_keys=num_keys)

    return region_by_jax(sorted_, list(map(three, elements)), "stablehlo.sort")


# --- comparators that order by keys ---------------------------------------------------------------


class _Key(NamedTuple):
    """An operand that a comparator orders by, up or down, and whether by the total order."""

    operand: int
    down: bool
    total: bool


_LOGIC: dict[str, Callable[..., bool]] = {
    "stablehlo.and": operator.and_,
    "stablehlo.or": operator.or_,
    "stablehlo.xor": operator.xor,
    "stablehlo.not": operator.not_,
    "stablehlo.select": lambda which, a, b: a if which else b,
}
_MAX_KEYS = 5


def _keys(block: ir.Block) -> list[_Key] | None:
    """The keys that a region orders by; ``None`` if it is not such an order."""
    *ops, end = (view.operation for view in block.operations)
    compared: dict[Any, int] = {}
    total: dict[int, bool] = {}
    seen: set[Any] = set()
    arguments = list(block.arguments)
    for op in ops:
        if op.name == "stablehlo.compare":
            places = [arguments.index(v) if v in arguments else -1 for v in op.operands]
            operand = min(places) // 2
            if sorted(places) != [2 * operand, 2 * operand + 1]:
                return None
            kind = attribute(op, "compare_type") == "TOTALORDER"
            if total.setdefault(operand, kind) != kind:
                return None
            compared[op] = operand if places[0] < places[1] else ~operand
        elif op.name not in _LOGIC or any(v.owner not in seen for v in op.operands):
            return None
        seen.add(op)
    if not 0 < len(total) <= _MAX_KEYS or end.operands[0].owner not in seen:
        return None

    def comes_first(outcomes: Mapping[int, int]) -> bool:
        """What the region gives where, for each operand that it compares, the first element is
        below (-1), at (0) or above (1) the second."""
        values: dict[ir.Value, bool] = {}
        for op in ops:
            if op in compared:
                k = compared[op]
                outcome = outcomes[k] if k >= 0 else -outcomes[~k]
                compare = getattr(operator, attribute(op, "comparison_direction").lower())
                value = compare(outcome, 0)
            else:
                value = _LOGIC[op.name](*(values[v] for v in op.operands))
            values[op.results[0]] = value
        return values[end.operands[0]]

    table = {
        outcomes: comes_first(dict(zip(total, outcomes, strict=True)))
        for outcomes in itertools.product((-1, 0, 1), repeat=len(total))
    }
    order = _order(table, range(len(total)))
    operands = list(total)
    if order is None:
        return None
    return [_Key(operands[k], down, total[operands[k]]) for k, down in order]


def _order(
    table: Mapping[tuple[int, ...], bool], columns: Sequence[int]
) -> list[tuple[int, bool]] | None:
    """The columns of a truth table that it orders by, each with whether down; ``None`` if it does
    not. Whether equal elements come first makes no difference."""
    if len(set(table.values())) == 1:
        return []
    for k in columns:
        below, above = ({v for row, v in table.items() if row[k] == side} for side in (-1, 1))
        if len(below) == len(above) == 1 and below != above:
            equal = {row: value for row, value in table.items() if not row[k]}
            rest = _order(equal, [c for c in columns if c != k])
            return None if rest is None else [(k, above == {True}), *rest]
    return None


def _sort_by(
    w: BodyWriter,
    operands: Values,
    types: Values,
    keys: Sequence[_Key] | None,
    params: dict[str, Any],
) -> Values | None:
    """Sorts by keys; a descending sort is an ascending one by the negated or inverted key.

    Without a total order, the place of NaN is not specified; JAX puts NaNs last. In JAX's order -0
    is 0, and all NaNs are equal, so a total order is that of integers.
    """
    if not keys:
        return None
    by = [_ascending(w, operands[key.operand], key) for key in keys]
    if any(x is None for x in by):
        return None
    if by == operands[: len(by)]:
        return w.emit("sort", operands, types, num_keys=len(by), **params)
    key_types = [x.type for x in by]
    results = w.emit("sort", [*by, *operands], [*key_types, *types], num_keys=len(by), **params)
    return results[len(by) :]


def _ascending(w: BodyWriter, x: ir.Value, key: _Key) -> ir.Value | None:
    """The array whose ascending order is that by a key; ``None`` if JAX has no such order."""
    element = x.type.element_type
    if key.total and isinstance(element, ir.FloatType) and element.width >= _MIN_TOTAL:
        element = ir.IntegerType.get_signless(element.width)
        (x,) = w.traced(_in_total_order, [x], [tensor(shape_of(x), element)])
    elif isinstance(element, ir.ComplexType) or (
        key.total and not isinstance(element, ir.IntegerType)
    ):
        return None
    if not key.down:
        return x
    if isinstance(element, ir.FloatType) and element.width < _MIN_TOTAL:
        element = ir.F32Type.get()
        x = w.convert(x, element)
    return w.like("not" if isinstance(element, ir.IntegerType) else "neg", x)


# Formats of fewer bits may have no sign, or no negative zero.
_MIN_TOTAL = 16


def _in_total_order(x: Any) -> Any:
    """Integers that are ordered as the total order of floats has them."""
    bits = lax.bitcast_convert_type(x, np.dtype(f"int{8 * x.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


# --- any comparator -------------------------------------------------------------------------------


def _by_network(compare: Callable[..., Any], dimension: int, *xs: Any) -> list[Any]:
    """Sorts arrays along a dimension by a comparator of scalars; the sort is stable.

    The network orders indices. The array is extended to a power of two by indices that come last.
    """
    comes_first = on_arrays(compare, xs[0].ndim)
    size = xs[0].shape[dimension]
    doublings = max(size - 1, 0).bit_length()
    stages = [(2**run, 2**place) for run in range(1, doublings + 1) for place in range(run)[::-1]]
    stage_rows = np.array(stages, np.int32).reshape(-1, 2)
    # The order does not change with the values, so it has no derivative.
    held = lax.stop_gradient(xs)
    shape = list(xs[0].shape)
    shape[dimension] = 2**doublings
    places = lax.broadcasted_iota(np.int32, shape, dimension)

    def taken(x: Any, indices: Any) -> Any:
        return jnp.take_along_axis(x, indices, dimension, mode="clip")

    def exchange(order: Any, stage: Any) -> Any:
        run, distance = stage
        other = taken(order, places ^ distance)
        pairs = [taken(x, indices) for x in held for indices in (order, other)]
        swapped = [x for pair in zip(pairs[1::2], pairs[::2], strict=True) for x in pair]
        before, after = comes_first(*pairs)[0], comes_first(*swapped)[0]
        decides = (before != after) & (order < size) & (other < size)
        is_first = jnp.where(decides, before, order < other)
        keeps_first = ((places & run) == 0) == ((places & distance) == 0)
        return jnp.where(is_first == keeps_first, order, other), None

    order = lax.scan(exchange, places, stage_rows)[0]
    order = lax.slice_in_dim(order, 0, size, axis=dimension)
    return [taken(x, order) for x in xs]

"""Bounds of numbers that depend on the arguments: interval arithmetic, element by element.

An index that is computed from the arguments (an ``argmax``, a clipped number, a choice of two) has
only some values.  Bounds are arrays of float64, infinite where nothing is known.  float64 is exact
up to 2**53; a number that may be larger, or may leave the range of its type and wrap around, gets
the whole range of the type.  For floats, which round, only zeros are tracked: a product is zero
where a constant factor is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.lax import GatherScatterMode

from jaxmlir._compat import dtypes
from jaxmlir.dialect.ops import OPS
from jaxmlir.interpret.interpreter import Node
from jaxmlir.sparse.movement import MOVES


class Bounds(NamedTuple):
    """The least and the greatest value of each element."""

    low: np.ndarray
    high: np.ndarray

    @property
    def exact(self) -> bool:
        """Whether all elements are known."""
        return bool((self.low == self.high).all())


_EXACT = 2.0**53
_ORDERED = (np.bool_, np.integer, np.floating)


def exactly(array: Any) -> Bounds:
    """The bounds of known numbers; infinite for NaN, and for values that have no order."""
    if not any(dtypes.issubdtype(array.dtype, kind) for kind in _ORDERED):
        return unknown(array.shape)
    numbers = np.asarray(array).astype(np.float64)
    is_exact = np.abs(numbers) <= _EXACT
    return Bounds(np.where(is_exact, numbers, -np.inf), np.where(is_exact, numbers, np.inf))


def unknown(shape: Sequence[int]) -> Bounds:
    """Infinite bounds: nothing is known about the numbers."""
    return Bounds(np.full(shape, -np.inf), np.full(shape, np.inf))


def upper_triangular(shape: Sequence[int]) -> Bounds:
    """The bounds of matrices that are zero below the diagonal."""
    return _zeros_at(np.broadcast_to(np.tri(*shape[-2:], -1, bool), shape))


def _zeros_at(places: np.ndarray) -> Bounds:
    return Bounds(*(np.where(places, 0.0, end) for end in (-np.inf, np.inf)))


def of_result(node: Node, operands: Sequence[Bounds]) -> Bounds:
    """The bounds of the only result of an op, an array of integers or booleans."""
    (aval,) = node.avals()
    is_boolean = aval.dtype.kind == "b"
    least, most = (0, 1) if is_boolean else (np.iinfo(aval.dtype).min, np.iinfo(aval.dtype).max)
    rule = _RULES.get(node.name.removeprefix("jaxpr."))
    with np.errstate(all="ignore"):
        bounds = rule and rule(node, *operands)
        low, high = (np.broadcast_to(x, aval.shape) for x in bounds or unknown(()))
        inside = (low >= max(least, -_EXACT)) & (high <= min(most, _EXACT))
    return Bounds(np.where(inside, low, float(least)), np.where(inside, high, float(most)))


def zeros_of_result(node: Node, operands: Sequence[Bounds]) -> Bounds:
    """The bounds of the result of an op of :data:`KEEPS_ZEROS` or :data:`SUMS`: its zeros."""
    (aval,) = node.avals()
    if node.name in ("jaxpr.mul", *SUMS):
        of_any = np.logical_and if node.name in SUMS else np.logical_or
        is_zero = functools.reduce(of_any, ((x.low == 0) & (x.high == 0) for x in operands))
        bounds: Bounds | None = _zeros_at(is_zero)
    elif node.name == "jaxpr.select_n":
        bounds = _select(node, *operands)
    else:
        bounds = _moved(node, *operands)
    low, high = (np.broadcast_to(x, aval.shape) for x in bounds or unknown(()))
    return Bounds(low, high)


BoundsRule = Callable[..., "Bounds | None"]


def _hull(*ends: np.ndarray) -> Bounds:
    return Bounds(functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends))


def _monotone(function: Callable[..., np.ndarray]) -> BoundsRule:
    """The rule of an op that is monotonically increasing in each operand."""
    return lambda node, *xs: Bounds(*(function(*ends) for ends in zip(*xs, strict=True)))


def _compared(function: Callable[..., np.ndarray]) -> BoundsRule:
    """The rule of ``x < y`` or of ``x <= y``."""

    def rule(node: Node, x: Bounds, y: Bounds) -> Bounds:
        # An unknown number may be NaN.
        certain = function(x.high, y.low) & np.isfinite(x.high) & np.isfinite(y.low)
        return Bounds(certain.astype(float), function(x.low, y.high).astype(float))

    return rule


def _equal(node: Node, x: Bounds, y: Bounds) -> Bounds:
    certain = (x.low == x.high) & (y.low == y.high) & (x.low == y.low)
    return Bounds(certain.astype(float), ((x.low <= y.high) & (y.low <= x.high)).astype(float))


def _not(rule: BoundsRule) -> BoundsRule:
    def negated(node: Node, *operands: Bounds) -> Bounds:
        bounds = rule(node, *operands)
        return Bounds(1 - bounds.high, 1 - bounds.low)

    return negated


def _of_booleans(rule: BoundsRule) -> BoundsRule:
    """A rule for booleans only, of an op that works bit by bit on integers."""
    return lambda node, *xs: rule(node, *xs) if node.avals()[0].dtype.kind == "b" else None


def _converted(node: Node, x: Bounds) -> Bounds:
    """The rule of conversions: a number is true unless it is 0, and an integer has no fraction."""
    if node.avals()[0].dtype.kind == "b":
        return _not(_equal)(node, x, exactly(np.zeros(())))
    return Bounds(np.trunc(x.low), np.trunc(x.high))


def _absolute(node: Node, x: Bounds) -> Bounds:
    whole = _hull(np.abs(x.low), np.abs(x.high))
    return Bounds(np.where((x.low <= 0) & (x.high >= 0), 0, whole.low), whole.high)


def _times(node: Node, x: Bounds, y: Bounds) -> Bounds:
    return _hull(x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high)


def _power(node: Node, x: Bounds) -> Bounds | None:
    power = node.get("y", 2)
    if power < 0:
        return None
    if power % 2 or not power:
        return Bounds(x.low**power, x.high**power)
    return _monotone(lambda end: end**power)(node, _absolute(node, x))


def _quotient(node: Node, x: Bounds, y: Bounds) -> Bounds | None:
    if not (y.low > 0).all():
        return None
    return _hull(*(np.trunc(a / b) for a in x for b in y))


def _remainder(node: Node, x: Bounds, y: Bounds) -> Bounds | None:
    """The rule of ``x % y`` for positive ``y``: the result has the sign of ``x``."""
    if not (y.low > 0).all():
        return None
    low, high = (np.clip(end, 1 - y.high, y.high - 1) for end in x)
    return Bounds(np.minimum(low, 0), np.maximum(high, 0))


def _select(node: Node, which: Bounds, *cases: Bounds) -> Bounds:
    possible = [(which.low <= i) & (i <= which.high) for i in range(len(cases))]
    lows = [np.where(p, x.low, np.inf) for p, x in zip(possible, cases, strict=True)]
    highs = [np.where(p, x.high, -np.inf) for p, x in zip(possible, cases, strict=True)]
    return Bounds(functools.reduce(np.minimum, lows), functools.reduce(np.maximum, highs))


def _place(node: Node, x: Bounds) -> Bounds:
    """The rule of ``argmax`` and ``argmin``: any index along the axes."""
    last = math.prod(x.low.shape[d] for d in node.get("axes")) - 1
    return Bounds(np.zeros(()), np.array(float(last)))


def _reduced(function: Any, of_none: float) -> BoundsRule:
    """The rule of a reduction.

    Args:
      of_none: the result for no elements: a number that is none of the type, i.e. unknown.
    """
    return lambda node, x: Bounds(
        *(function.reduce(end, axis=node.get("axes"), initial=of_none) for end in x)
    )


def _moved(node: Node, *operands: Bounds) -> Bounds | None:
    """The rule of ops that move elements: with unknown indices, a result can be any element."""
    name = node.name.removeprefix("jaxpr.")
    indices = OPS[name].index_operands(len(operands))
    if name == "gather" and node.get("mode") == GatherScatterMode.FILL_OR_DROP:
        return None
    moved = [x for i, x in enumerate(operands) if i not in indices]
    if name in MOVES and all(operands[i].exact for i in indices):
        low, high = (MOVES[name](node, ends) for ends in zip(*operands, strict=True))
        if low is not None and len(low) == 1:
            return Bounds(*low, *high)
    if not all(x.low.size for x in moved):
        return None
    return Bounds(np.min([x.low.min() for x in moved]), np.max([x.high.max() for x in moved]))


_RULES: dict[str, BoundsRule] = {
    **dict.fromkeys((*MOVES, "gather"), _moved),
    **dict.fromkeys(("argmax", "argmin"), _place),
    "abs": _absolute,
    "add": _monotone(np.add),
    "and": _of_booleans(_monotone(np.minimum)),
    "clamp": _monotone(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "convert_element_type": _converted,
    "div": _quotient,
    "eq": _equal,
    "ge": lambda node, x, y: _compared(np.less_equal)(node, y, x),
    "gt": lambda node, x, y: _compared(np.less)(node, y, x),
    "integer_pow": _power,
    "square": _power,
    "le": _compared(np.less_equal),
    "lt": _compared(np.less),
    "max": _monotone(np.maximum),
    "min": _monotone(np.minimum),
    "mul": _times,
    "ne": _not(_equal),
    "neg": lambda node, x: Bounds(-x.high, -x.low),
    "not": _of_booleans(lambda node, x: Bounds(1 - x.high, 1 - x.low)),
    "or": _of_booleans(_monotone(np.maximum)),
    "reduce_and": _of_booleans(_reduced(np.minimum, np.inf)),
    "reduce_max": _reduced(np.maximum, -np.inf),
    "reduce_min": _reduced(np.minimum, np.inf),
    "reduce_or": _of_booleans(_reduced(np.maximum, -np.inf)),
    "rem": _remainder,
    "select_n": _select,
    "sign": _monotone(np.sign),
    "stop_gradient": lambda node, x: x,
    "sub": lambda node, x, y: Bounds(x.low - y.high, x.high - y.low),
}

SUMS = frozenset(f"jaxpr.{name}" for name in ("add", "add_any", "neg", "sub"))
"""Ops on floats whose result is zero where all operands are known to be zero."""

KEEPS_ZEROS = frozenset(f"jaxpr.{name}" for name in ("mul", "select_n", *MOVES))
"""Ops on floats whose result is zero where an operand is known to be zero."""

UPPER_TRIANGULAR = {"jaxpr.qr": 1}
"""Which result of an op is a matrix that is zero below the diagonal."""

"""Solves an equation of one unknown that occurs more than once, when the program runs.

``y = x + tanh(x)`` is strictly monotone in ``x``, but none of its ops gives ``x``.  The elementwise
ops between an unknown value and a known one make an equation for each element, which a loop solves.
Each step takes a Newton step from the last point, and halves a bracket of the root, in which the
next point must be.  Brackets are halved in the order of the floating-point numbers, not by their
size.  So any root is reached exactly in as many steps as a number has bits, whatever its magnitude;
if the function is smooth, a few steps suffice.

The derivative, of any order, is that of the implicit function, by ``lax.custom_root``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.inverses.rule import typed
from jaxmlir.transforms.inverses.solver import Site, Solver

SINGLE = with_trait(Trait.TRANSCENDENTAL) | {"jaxpr.polynomial"}
"""The ops that make an equation even alone: they may be monotone though they have no rule."""

_EXPONENTS = (0, 1, 2, 4, 8, 16, 32, 64)
"""The points where brackets are sought: plus and minus 2 to these powers and their negatives, zero,
the largest numbers and infinity."""


@dataclass(frozen=True)
class ElementwiseEquation:
    """An unknown value, a known one, and the elementwise ops in between."""

    unknown: ir.Value
    known: ir.Value
    sites: tuple[Site, ...]
    """The ops in between, in the order of the function."""
    others: tuple[ir.Value, ...]
    """The other values that the ops take, all known."""

    def function(self) -> Callable[..., Any]:
        """``(unknown, *others) -> known``."""

        def function(x: Any, *others: Any) -> Any:
            values = {self.unknown: x, **dict(zip(self.others, others, strict=True))}
            for site in self.sites:
                outs = site.apply(*(values[v] for v in site.operands))
                values.update(zip(site.results, outs, strict=True))
            return values[self.known]

        return function

    def key(self) -> Any:
        """Identifies the function, in all programs."""
        numbers = {v: i for i, v in enumerate((self.unknown, *self.others))}
        ops = []
        for site in self.sites:
            ops.append((site.signature, *[numbers[v] for v in site.operands]))
            numbers.update({v: len(numbers) + i for i, v in enumerate(site.results)})
        return ("newton", *ops)


def equation_of(solver: Solver) -> ElementwiseEquation | None:
    """The last equation of one unknown that is left to solve, if there is one."""
    makers = {v: site for site in solver.sites for v in site.results}
    for site in reversed(solver.sites):
        if len(site.results) == 1 and solver.whole(site.results[0]) is not None:
            if not all(site.known(site.operands)):
                equation = _before(solver, site, makers)
                if equation is not None:
                    return equation
    return None


def _before(solver: Solver, last: Site, makers: dict[ir.Value, Site]) -> ElementwiseEquation | None:
    """The equation that ends at an op, in the closest unknown value that all others depend on."""
    sites: list[Site] = []
    unknown = {last.results[0]}
    uses = 0
    while len(unknown) > 1 or not sites:
        latest = max(unknown, key=lambda v: makers[v].index if v in makers else -1)
        site = makers.get(latest)
        if site is None or site.name not in ELEMENTWISE:
            return None
        sites.append(site)
        unknown.remove(latest)
        missing = [v for v in site.operands if solver.whole(v) is None]
        uses += len(missing) - 1
        unknown.update(missing)
    (value,) = unknown
    result = last.results[0]
    aval, result_aval = aval_of(value.type), aval_of(result.type)
    if aval.shape != result_aval.shape or not jnp.issubdtype(aval.dtype, jnp.floating):
        return None
    if uses == 0 and not all(site.name in SINGLE for site in sites):
        return None
    inner = {v for site in sites for v in site.results} | {value}
    others = dict.fromkeys(v for site in sites for v in site.operands if v not in inner)
    return ElementwiseEquation(value, result, tuple(reversed(sites)), tuple(others))


def solve(solver: Solver, equation: ElementwiseEquation) -> None:
    """Tells the solver the unknown of an equation, and its share of the log-determinant."""
    function, key = equation.function(), equation.key()
    aval, dtype = aval_of(equation.unknown.type), solver.log_det
    others = [solver.whole(v) for v in equation.others]

    def solved(y: Any, *others: Any) -> list[Any]:
        return [typed(root(lambda x: function(typed(x, aval), *others), y, aval), aval)]

    def log_slope(x: Any, *others: Any) -> list[Any]:
        _, slope = jax.jvp(lambda x: function(x, *others), (x,), (jnp.ones_like(x),))
        return [jnp.sum(jnp.log(jnp.abs(slope)).astype(dtype))]

    with equation.sites[-1].op.location:
        (solution,) = solver.emit(key, solved, [solver.whole(equation.known), *others])
        if dtype is not None:
            cost_key = ("log_det", str(dtype), key)
            solver.costs += solver.emit(cost_key, log_slope, [solution, *others])
    solver.tell(equation.unknown, solution)


def root(function: Callable[[Any], Any], y: Any, aval: Any) -> Any:
    """The point where an elementwise, monotone function, with a result like ``aval`` and ``y``, has
    the value ``y``; NaN if none is found."""
    return lax.custom_root(
        lambda x: function(x) - y,
        jnp.zeros(aval.shape, aval.dtype),
        lambda _, start: _iterated(function, y, start),
        lambda linear, z: z / linear(jnp.ones_like(z)),
    )


def _iterated(function: Callable[[Any], Any], y: Any, start: Any) -> Any:
    bits = jnp.finfo(start.dtype).bits
    low, high, rises = _bracket(function, y, start)
    is_bracket = ~(jnp.isnan(low) | jnp.isnan(high))

    def narrowed(low: Any, high: Any, x: Any, value: Any) -> tuple[Any, Any]:
        """The bracket with ``x``, if it is inside, as its lower end, its upper end, or both."""
        inside = (low <= x) & (x <= high)
        below = jnp.where(rises, value <= y, value >= y)
        above = jnp.where(rises, value >= y, value <= y)
        return jnp.where(inside & below, x, low), jnp.where(inside & above, x, high)

    def is_open(low: Any, high: Any) -> Any:
        middle = _middle(low, high)
        return is_bracket & (middle > low) & (middle < high)

    def step(state: Any) -> Any:
        low, high, x, i = state
        value, slope = jax.jvp(function, (x,), (jnp.ones_like(x),))
        low, high = narrowed(low, high, x, value)
        correction = ((value - y) / slope).astype(x.dtype)
        is_settled = jnp.abs(correction) <= jnp.finfo(x.dtype).eps * jnp.abs(x)
        x = x - correction
        # The other end of the bracket may still be far away.
        low, high = jnp.where(is_settled, x, low), jnp.where(is_settled, x, high)
        middle = _middle(low, high)
        low, high = narrowed(low, high, middle, function(middle))
        x = jnp.where((low < x) & (x < high), x, _middle(low, high))
        return low, high, x, i + 1

    def goes_on(state: Any) -> Any:
        low, high, _, i = state
        return jnp.any(is_open(low, high)) & (i < bits)

    low, high, x, _ = lax.while_loop(goes_on, step, (low, high, _middle(low, high), 0))
    values = function(low), function(high)
    x = jnp.where(jnp.abs(values[0] - y) <= jnp.abs(values[1] - y), low, high)
    value, slope = jax.jvp(function, (x,), (jnp.ones_like(x),))
    # If the function jumps across y, there is no root.
    tolerance = float(jnp.finfo(x.dtype).eps) ** 0.5 * (jnp.abs(y) + jnp.abs(x * slope))
    is_root = (value == y) | (jnp.abs(value - y) <= tolerance)
    return jnp.where(is_bracket & is_root, x, jnp.nan)


def _bracket(function: Callable[[Any], Any], y: Any, start: Any) -> tuple[Any, Any, Any]:
    """The ends of an interval that contains the root, NaN if there is none, and whether the
    function rises; points where it is NaN are ignored."""
    info = jnp.finfo(start.dtype)
    least, most = float(info.tiny), float(info.max)
    powers = [2.0**k for e in _EXPONENTS for k in (e, -e)]
    positive = sorted({most, np.inf, *(p for p in powers if least <= p <= most)})
    points = jnp.array([-p for p in reversed(positive)] + [0.0, *positive], start.dtype)
    nan = jnp.full_like(start, jnp.nan)

    def look(i: Any, state: Any) -> Any:
        x = jnp.full_like(start, points[i])
        value = function(x)
        below, above = value <= y, value >= y
        last_below, first_above, last_above, first_below, first, last = state
        is_number = ~jnp.isnan(value)
        return (
            jnp.where(below, x, last_below),
            jnp.where(above & jnp.isnan(first_above), x, first_above),
            jnp.where(above, x, last_above),
            jnp.where(below & jnp.isnan(first_below), x, first_below),
            jnp.where(is_number & jnp.isnan(first), value, first),
            jnp.where(is_number, value, last),
        )

    values = jnp.full_like(y, jnp.nan)
    state = (nan, nan, nan, nan, values, values)
    state = lax.fori_loop(0, points.size, look, state)
    last_below, first_above, last_above, first_below, first, last = state
    rises = first <= last
    low, high = jnp.where(rises, last_below, last_above), jnp.where(rises, first_above, first_below)
    # The last point on one side is below the first one on the other, unless both are roots.
    return jnp.minimum(low, high), jnp.maximum(low, high), rises


def _middle(low: Any, high: Any) -> Any:
    """The number halfway between two, as floating-point numbers are ordered."""
    a, b = _ordered(low), _ordered(high)
    return lax.bitcast_convert_type(_flipped((a & b) + ((a ^ b) >> 1)), low.dtype)


def _ordered(x: Any) -> Any:
    """Numbers as integers in the same order."""
    bits = jnp.finfo(x.dtype).bits
    return _flipped(lax.bitcast_convert_type(x, jnp.dtype(f"int{bits}")))


def _flipped(i: Any) -> Any:
    info = jnp.iinfo(i.dtype)
    return i ^ ((i >> (info.bits - 1)) & i.dtype.type(info.max))

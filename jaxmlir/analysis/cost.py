"""``jaxpr-cost``: floating-point operations and bytes by source line.

A static count over the public function and everything it calls.  Arithmetic is counted as XLA
counts it: one operation for each element of an elementwise result, two for each multiply-add of a
contraction, and functions such as ``exp`` in a column of their own.  The traffic of an op is the
size of its operands and results, as if each op were a kernel.  This is an upper bound, because
fusion avoids part of the traffic.

A called function counts once per call, a scan body times the trip count, and a ``cond`` as its
costliest branch.  The trip count of a ``while``, or of a scan over a symbolic size, is unknown: the
body counts once, and its line is marked.  Some ops have no formula (factorizations, kernels,
callbacks), or none for symbolic sizes (a sort, the taps of a convolution).  They are listed by
name, and only their bytes are counted.
"""

from __future__ import annotations

import collections
import contextlib
import html
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect import locations, ops
from jaxmlir.dialect.builder import named_ops, trip_count
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.module import Module, check_program
from jaxmlir.dialect.ops import CALLEES, Trait, with_trait
from jaxmlir.dialect.ops.arrays import INDEXING, SHAPE
from jaxmlir.dialect.ops.devices import SHARDING
from jaxmlir.dialect.types import aval_of
from jaxmlir.passes.base import Count, Pass
from jaxmlir.support.files import source_line

SourceLine = tuple[str, int]
"""File and line of the user's frame."""
NOWHERE: SourceLine = "", 0
"""The line of ops without one.  An op of a JAX-internal function takes the line of the call."""


@dataclass(frozen=True)
class Cost:
    """The cost of some ops."""

    flops: int = 0
    transcendentals: int = 0
    """Evaluations of functions such as ``exp``, which take many operations each."""
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes + other.bytes,
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.transcendentals * times, self.bytes * times)


@dataclass(eq=False)
class FunctionCost:
    """The cost of a function."""

    by_line: dict[SourceLine, Cost] = field(default_factory=lambda: defaultdict(Cost))
    uncounted: collections.Counter[str] = field(default_factory=collections.Counter)
    """Ops whose arithmetic is not in ``by_line``, and how often they run."""
    unbounded: set[SourceLine] = field(default_factory=set)
    """Lines in loops with an unknown trip count, counted for one iteration."""

    def at(self, line: SourceLine) -> FunctionCost:
        """The cost of a call at a line: ops without a line take the call's."""
        if NOWHERE not in self.by_line or line == NOWHERE:
            return self
        call_cost = FunctionCost(uncounted=self.uncounted)
        for op_line, cost in self.by_line.items():
            call_cost.by_line[line if op_line == NOWHERE else op_line] += cost
        call_cost.unbounded = {
            line if op_line == NOWHERE else op_line for op_line in self.unbounded
        }
        return call_cost

    @property
    def total(self) -> Cost:
        return sum(self.by_line.values(), Cost())

    def add(self, other: FunctionCost, times: int = 1) -> None:
        """Adds the cost of another function that is called ``times`` times."""
        for line, cost in other.by_line.items():
            self.by_line[line] += cost * times
        for name, count in other.uncounted.items():
            self.uncounted[name] += count * times
        self.unbounded |= other.unbounded

    def table(self, top: int | None = None) -> str:
        """The lines in order of decreasing cost, each with its source."""
        rows = [_in_columns(row) for row in (_TITLES, *self._rows(top))]
        return "\n".join([*rows, *self._note()])

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        titles = "".join(f"<th>{title}</th>" for title in _TITLES)
        rows = (
            "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in self._rows()
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        note = "".join(f"<p>{html.escape(line)}</p>" for line in self._note())
        return f"<table><tr>{titles}</tr>{body}</table>{note}"

    def _rows(self, top: int | None = None) -> Iterator[tuple[Any, ...]]:
        order = list(self.by_line.items())
        # Symbolic costs may not be comparable.
        with contextlib.suppress(core.InconclusiveDimensionOperation):
            order.sort(key=lambda item: (-item[1].flops, -item[1].bytes))
        for (file, line), cost in order[:top]:
            source = source_line(file, line).strip()
            mark = " (per iteration)" if (file, line) in self.unbounded else ""
            yield _cost_row(cost, f"{file}:{line}{mark}  {source}" if line else "?")
        yield _cost_row(self.total, "total")

    def _note(self) -> list[str]:
        names = ", ".join(f"{n} x{c}" for n, c in sorted(self.uncounted.items()))
        return [f"arithmetic not counted: {names}"] if names else []


_TITLES = ("flops", "transcend.", "bytes", "flops/byte", "line")


def _cost_row(cost: Cost, where: str) -> tuple[Any, ...]:
    numbers = isinstance(cost.flops, int) and isinstance(cost.bytes, int) and cost.bytes
    intensity = f"{cost.flops / cost.bytes:.2f}" if numbers else "-"
    return cost.flops, cost.transcendentals, cost.bytes, intensity, where


def _in_columns(row: tuple[Any, ...]) -> str:
    flops, transcendentals, size, intensity, where = row
    counts = f"{flops!s:>16} {transcendentals!s:>12} {size!s:>16}"
    return f"{counts} {intensity:>11}  {where}".rstrip()


class PrintCost(Pass):
    """Print the floating-point operations and bytes of a function, by source line, on stderr.

    Options:
      func: the function; by default the public one.
      top: print so many of the costliest lines.
    """

    name: ClassVar[str] = "jaxpr-cost"
    func: str = ""
    top: Count = 20

    def run(self, program: Module) -> bool:
        print(costs(program, program.chosen(self.func)).table(self.top), file=sys.stderr)
        return False


def costs(program: Module, symbol: str = "") -> FunctionCost:
    """The costs of a call of ``@symbol``, by default of the public function.

    Raises:
      ArgumentError: ``program`` is not a program.
      JaxmlirError: it has no such function.
    """
    check_program(program)
    with scope():
        symbol = symbol or program.name
        place = locations.position(program._function(symbol).location)
        return CostCounter(program).function(symbol).at(place[:2])


class CostCounter:
    """Counts each function once.

    Args:
      by_line: count by source line, which takes longer; otherwise all cost is on one line.
    """

    def __init__(self, program: Module, by_line: bool = True):
        self.program = program
        self.by_line = by_line
        self.known: dict[str, FunctionCost] = {}

    def of(self, op: Any, name: str) -> FunctionCost:
        """The cost of an op, including the functions it refers to."""
        cost = FunctionCost()
        self.op(OpView(op, name), cost)
        return cost

    def function(self, symbol: str) -> FunctionCost:
        cost = self.known.get(symbol)
        if cost is None:
            cost = self.known[symbol] = FunctionCost()
            function = self.program._function(symbol)
            for op, name in named_ops(function):
                if name != "jaxpr.constant":
                    self.op(OpView(op, name), cost, function.location)
        return cost

    def op(self, node: OpView, total: FunctionCost, function: ir.Location | None = None) -> None:
        line = self.line(node.op.location, function)
        name = node.name.removeprefix("jaxpr.")
        if calls := calls_of(node):
            for call in calls:
                once = max(map(self.function, call.symbols), key=_order).at(line)
                total.add(once, 1 if call.times is None else call.times)
                if call.times is None:
                    total.unbounded |= once.by_line.keys()
        else:
            cost, counted = leaf_cost(node, name)
            total.by_line[line] += cost
            if not counted:
                total.uncounted[name] += 1

    def line(self, location: ir.Location, function: ir.Location | None) -> SourceLine:
        """The user's line of an op; ``NOWHERE`` if it has the line of its function's call."""
        if not self.by_line or (function and locations.is_of_function(location, function)):
            return NOWHERE
        return locations.position(location)[:2]


def _order(costs: FunctionCost) -> tuple[float, float]:
    """The sort key of functions; a symbolic number is greater than any other."""
    flops, size = (
        n if isinstance(n, Real) else math.inf for n in (costs.total.flops, costs.total.bytes)
    )
    return flops, size


def leaf_cost(node: OpView, name: str) -> tuple[Cost, bool]:
    """The cost of an op of a name that calls no function, and whether its arithmetic is counted."""
    operands = [aval_of(v.type) for v in node.op.operands]
    results = [aval_of(v.type) for v in node.op.results]
    size = sum(map(_bytes, operands)) + sum(map(_bytes, results))
    # A reshape reuses the memory.
    if node.name in with_trait(Trait.RESHAPE):
        return Cost(), True
    formula = _FORMULAS.get(name)
    if formula is None:
        return Cost(bytes=size), False
    count = formula(node, operands, results)
    if count is None:
        return Cost(bytes=size), False
    return (Cost(0, count, size) if node.name in _TRANSCENDENTAL else Cost(count, 0, size)), True


_CALLED = CALLEES | {
    f"jaxpr.{name}": ops.OPS[name].functions[0].name
    for name in ("linear_call", "remat_opt", "shard_map")
}
"""For each op that calls a function once, the attribute that names the function."""


class OpCalls(NamedTuple):
    """The calls that an op makes of one function, or of one of several alternatives.

    Attributes:
      symbols: the functions; if there are several, each call runs one of them.
      times: the number of calls; ``None`` if unknown.
    """

    symbols: tuple[str, ...]
    times: int | None = 1


def calls_of(node: OpView) -> list[OpCalls]:
    """The calls that an op makes; empty for ops that call functions in other ways."""
    match node.name:
        case "jaxpr.cond":
            return [OpCalls(tuple(node.get("branches")))]
        case "jaxpr.scan":
            return [OpCalls((node.get("jaxpr"),), trip_count(node.get("length")))]
        case "jaxpr.while":
            return [OpCalls((node.get(name),), None) for name in ("cond_jaxpr", "body_jaxpr")]
        case "jaxpr.custom_linear_solve":
            return [OpCalls((node.get("jaxprs").solve,))]
        case name if name in _CALLED:
            return [OpCalls((node.get(_CALLED[name]),))]
    return []


CostFormula = Callable[[OpView, list[Any], list[Any]], int | None]
"""A formula of an op and the abstract values of its operands and results.  For symbolic sizes it
gives a symbolic number, or ``None`` if it applies a non-polynomial function to the size."""


def _size(aval: Any) -> int:
    return math.prod(getattr(aval, "shape", ()))


def _bytes(aval: Any) -> int:
    dtype = getattr(aval, "dtype", None)
    return _size(aval) * getattr(dtype, "itemsize", 0)


def _each_result(node: OpView, operands: list[Any], results: list[Any]) -> int:
    return _size(results[0])


def _each_operand(node: OpView, operands: list[Any], results: list[Any]) -> int:
    return _size(operands[0])


def _reduction(node: OpView, operands: list[Any], results: list[Any]) -> int:
    return 0 if 0 in operands[0].shape else _size(operands[0]) - _size(results[0])


def _power(node: OpView, operands: list[Any], results: list[Any]) -> int:
    """Repeated squaring: one product for each bit of the exponent after the first, and one more for
    each of them that is set; one division if the exponent is negative."""
    exponent = abs(node.get("y"))
    products = max(exponent.bit_length() - 1, 0) + max(exponent.bit_count() - 1, 0)
    return _size(results[0]) * (products + (node.get("y") < 0))


def _sort(node: OpView, operands: list[Any], results: list[Any]) -> int | None:
    length = operands[0].shape[node.get("dimension", -1)]
    if not isinstance(length, int):
        return None
    return _size(operands[0]) * math.ceil(math.log2(max(length, 1)))


def _dot_general(node: OpView, operands: list[Any], results: list[Any]) -> int:
    (contracted, _), _ = node.get("dimension_numbers")
    return 2 * _size(results[0]) * math.prod(operands[0].shape[d] for d in contracted)


def _convolution(node: OpView, operands: list[Any], results: list[Any]) -> int | None:
    """Two operations for each product of a kernel and an input element; padding is left out."""
    numbers = node.get("dimension_numbers")
    (batch, feature, *spatial), (_, in_feature, *taps), (_, _, *out) = (
        numbers.lhs_spec,
        numbers.rhs_spec,
        numbers.out_spec,
    )
    del feature
    image, kernel, result = operands[0].shape, operands[1].shape, results[0].shape
    pairs = 1
    for i, (low, _) in enumerate(node.get("padding")):
        stride = node.get("window_strides")[i]
        spread, reach = node.get("lhs_dilation")[i], node.get("rhs_dilation")[i]
        size, places, count = image[spatial[i]], kernel[taps[i]], result[out[i]]
        if not all(isinstance(n, int) for n in (size, places, count, low)):
            return None
        pairs *= _Window(count, places, stride, reach).meets(size, spread, low)
    products = pairs * kernel[in_feature] * result[numbers.out_spec[1]] * image[batch]
    return 2 * products // node.get("batch_group_count", 1)


class _Window(NamedTuple):
    """How a kernel moves along a dimension."""

    results: int
    taps: int
    stride: int
    reach: int
    """The distance between two neighboring elements of the kernel."""

    def meets(self, size: int, spread: int, low: int) -> int:
        """How often an element of the kernel meets one of the ``size`` elements of the image, which
        has the padding ``low``.  For result ``o`` and tap ``t`` the kernel reads position ``o *
        stride + t * reach - low`` of an image whose elements are ``spread`` apart.  The ``o`` for
        which the position is a multiple of ``spread`` recur periodically.  Each residue class is
        thus a range, cut off at both ends."""
        period = spread // math.gcd(self.stride, spread)
        step, last = period * self.stride, (size - 1) * spread
        total = 0
        for o in range(min(period, self.results)):
            start = np.arange(self.taps) * self.reach + (o * self.stride - low)
            begin = np.maximum(-(start // step), 0)
            end = np.minimum((last - start) // step, (self.results - 1 - o) // period)
            total += int((np.maximum(end - begin + 1, 0) * (start % spread == 0)).sum())
        return total


def _fft(node: OpView, operands: list[Any], results: list[Any]) -> int | None:
    """5 n log2 n for a transform of n points (Cooley and Tukey 1965)."""
    points = math.prod(node.get("fft_lengths"))
    sizes = _size(operands[0]), _size(results[0])
    if not all(isinstance(n, int) for n in sizes):
        return None
    return int(5 * max(sizes) * math.log2(max(points, 1)))


def _free(node: OpView, operands: list[Any], results: list[Any]) -> int:
    return 0


def _scatter(node: OpView, operands: list[Any], results: list[Any]) -> int:
    return _size(operands[2])


def _window(node: OpView, operands: list[Any], results: list[Any]) -> int | None:
    places = math.prod(node.get("window_dimensions"))
    return _size(results[0]) * max(places - 1, 0) if isinstance(places, int) else None


_TRANSCENDENTAL = with_trait(Trait.TRANSCENDENTAL)


def _formulas() -> Mapping[str, CostFormula]:
    formulas: dict[str, CostFormula] = {}
    for family in (SHAPE, INDEXING, SHARDING):
        formulas.update(dict.fromkeys((record.name for record in family.ops), _free))
    for record in ops.OPS.values():
        if Trait.ELEMENTWISE in record.traits:
            formulas[record.name] = _each_result
        elif Trait.REDUCTION in record.traits:
            formulas[record.name] = _reduction
        elif Trait.CUMULATIVE in record.traits:
            formulas[record.name] = _each_operand
        elif Trait.UPDATE in record.traits and record.combine:
            formulas[record.name] = _scatter
    formulas.update(dict.fromkeys(("complex", "real", "imag", "name", "stop_gradient"), _free))
    for kind in ("sum", "max", "min"):
        formulas[f"reduce_window_{kind}"] = _window
    return formulas | {
        "argmax": _each_operand,
        "argmin": _each_operand,
        "integer_pow": _power,
        "dot_general": _dot_general,
        "conv_general_dilated": _convolution,
        "fft": _fft,
        "sort": _sort,
    }


_FORMULAS = _formulas()

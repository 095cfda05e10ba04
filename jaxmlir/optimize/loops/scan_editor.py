"""Editing loops in place: their operands, carried values and results, and their bodies.

A body with other users is copied first; :class:`LoopEditor` counts the users.  A
:class:`ScanEditor` holds a scan as lists of constants, carried values, slices and stacked results,
each with its argument or result of the body, and rewrites the op and the body from these lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from jaxmlir.analysis.call_graph import SCANS, CallGraph
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import (
    drop_dead_ops,
    erase,
    is_used,
    named_ops,
    references,
    returned,
    set_results,
    set_return,
    trip_count,
)
from jaxmlir.dialect.effect_attributes import effects_of, is_lasting
from jaxmlir.dialect.ir import body_of, func, ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.new_function import copy_function, set_arguments
from jaxmlir.transforms.templates import Rules


class LoopEditor:
    """Gives out functions of a program to be changed for one of the ops that use them.

    Args:
      rules: the rules of the program.
      graph: the call graph of the program.
    """

    def __init__(self, rules: Rules, graph: CallGraph):
        self.rules = rules
        self._uses = graph.counts()

    def own(self, symbol: str) -> func.FuncOp:
        """Returns ``@symbol`` if it is private and has one user, else a copy for this user."""
        function = self.rules.program.function(symbol)
        if self._uses[symbol] == 1 and is_private(function):
            return function
        self._uses[symbol] -= 1
        return self.copy(symbol)

    def give_back(self, symbol: str, function: func.FuncOp) -> None:
        """Undoes :meth:`own`."""
        if function.name.value != symbol:
            self._uses[symbol] += 1
            self.drop(function)

    def copy(self, symbol: str, body: FunctionView | None = None) -> func.FuncOp:
        """A private copy of ``@symbol``, for one op.

        Args:
          body: the view of ``@symbol``, if the caller has one.
        """
        function = copy_function(self.rules, symbol)
        self._uses.update(references(function) if body is None else body.references())
        self._uses[function.name.value] = 1
        return function

    def drop(self, function: func.FuncOp) -> None:
        """Erases a copy that is not needed after all."""
        self._uses.subtract(references(function))
        del self.rules.program.functions[function.name.value]
        function.operation.erase()


def can_change(function: func.FuncOp) -> bool:
    """Whether only the ops that call a function depend on its list of arguments."""
    return "jaxpr.num_constvars" not in function.attributes


LOOPS = frozenset({"jaxpr.scan", "jaxpr.while"})


def loops_of(function: func.FuncOp, names: Collection[str] = LOOPS) -> Iterator[tuple[Any, str]]:
    """The scans and whiles of a function, or one kind of them, that list no lasting effects."""
    for op, name in named_ops(function):
        if name in names and not is_lasting(name, effects_of(op)):
            yield op, name


def body_symbol(op: Any, name: str) -> str:
    """The symbol of the body of a scan or while."""
    return op.attributes["jaxpr" if name == "jaxpr.scan" else "body_jaxpr"].value


def loop_constants(program: Module) -> dict[ir.Value, int]:
    """The loop-invariant arguments of scan bodies, each with its least number of iterations."""
    # Scans are deduplicated by their attributes: there may be many, but few that differ.
    scans: dict[tuple[ir.Attribute, ...], None] = {}
    for function in outside_kernels(program, SCANS):
        for op, name in named_ops(function):
            if name == "jaxpr.scan" and "num_consts" in (attributes := op.attributes):
                scans[tuple(attributes[n] for n in ("jaxpr", "num_consts", "length"))] = None
    constants: dict[ir.Value, int] = {}
    for body, num_consts, length in scans:
        trips = trip_count(codec.decode(length))
        if not trips:
            continue
        arguments = list(body_of(program.function(body.value)).arguments)
        for argument in arguments[: codec.decode(num_consts)]:
            constants[argument] = min(trips, constants.get(argument, trips))
    return constants


@dataclass(eq=False)
class ConstantOperand:
    """An operand that is the same in every iteration."""

    operand: ir.Value
    arg: ir.Value


@dataclass(eq=False)
class CarriedValue:
    """A value that one iteration hands to the next."""

    init: ir.Value
    arg: ir.Value
    out: ir.Value | int
    """The value that the body returns for it, or the number of an existing result of the body."""
    result: ir.Value | None = None
    """The result of the old op that the final value replaces."""


@dataclass(eq=False)
class SlicedOperand:
    """An operand of which each iteration takes a row."""

    operand: ir.Value
    arg: ir.Value


@dataclass(eq=False)
class StackedResult:
    """A result to which each iteration adds a row."""

    out: ir.Value | int
    result: ir.Value | None = None
    written: ir.Value | None = None
    """The result of the new op."""


class ScanEditor:
    """A scan under change.

    Attributes:
      op: the old op.
      scan: the old op without its operands.
      body: the function that is its body, which no other op uses.
      written: the new op, once it is written; ``None`` if the loop has no results.
    """

    def __init__(self, bodies: LoopEditor, op: Any, scan: ScanOp | None = None):
        """
        Args:
          scan: the op without its operands, if the caller has it.
        """
        self.bodies = bodies
        self.written: Any | None = None
        self.rules: Rules = bodies.rules
        self.op = op
        self.scan: ScanOp = scan or ScanOp.of(op)
        self.body: Any = bodies.own(self.scan.body)
        operands = self.scan.operands(list(op.operands))
        arguments = self.scan.operands(list(body_of(self.body).arguments))
        pairs = [list(zip(*group, strict=True)) for group in zip(operands, arguments, strict=True)]
        final, rows = self.scan.results(list(op.results))
        self.consts: list[ConstantOperand] = [
            ConstantOperand(operand, arg) for operand, arg in pairs[0]
        ]
        self.carry: list[CarriedValue] = [
            CarriedValue(init, arg, i, final[i]) for i, (init, arg) in enumerate(pairs[1])
        ]
        self.xs: list[SlicedOperand] = [SlicedOperand(operand, arg) for operand, arg in pairs[2]]
        self.ys: list[StackedResult] = [
            StackedResult(len(final) + i, result) for i, result in enumerate(rows)
        ]

    def new_argument(self, type_: ir.Type) -> ir.Value:
        """Adds an argument to the body; the place of its record decides on its final place."""
        return body_of(self.body).add_argument(type_, ir.Location.unknown())

    def out(self, item: CarriedValue | StackedResult) -> ir.Value:
        """The value that the body returns for a carried or stacked item."""
        return returned(self.body)[item.out] if isinstance(item.out, int) else item.out

    def give(self, value: ir.Value) -> int:
        """Has the body return one more value; its number, which stays valid if it is replaced."""
        outs = returned(self.body)
        set_results(self.body, [*outs, value])
        return len(outs)

    def write(self) -> None:
        """Writes the new op before the old one, and replaces the old results that records name.

        Constants and slices that the body does not use any more are left out.
        """
        outs = returned(self.body)
        items = (*self.carry, *self.ys)
        outs = [outs[i.out] if isinstance(i.out, int) else i.out for i in items]
        types = [v.type for v in outs]
        set_return(self.body, outs)
        drop_dead_ops(self.body)
        self.consts = [item for item in self.consts if is_used(item.arg)]
        self.xs = [item for item in self.xs if is_used(item.arg)]
        arguments = [item.arg for item in (*self.consts, *self.carry, *self.xs)]
        arguments = set_arguments(self.body, arguments, types)
        new = self.scan.with_body(self.body.name.value, len(self.consts), len(self.carry))
        operands = [item.operand for item in self.consts]
        operands += [item.init for item in self.carry]
        operands += [item.operand for item in self.xs]
        with ir.InsertionPoint(self.op), self.op.location:
            results = new.write(self.rules, operands, types)
        self.written = results[0].owner if results else None
        final, rows = split(results, len(self.carry))
        for item, value in zip(items, results, strict=True):
            if item.result is not None:
                item.result.replace_all_uses_with(value)
        for item, value in zip(self.ys, rows, strict=True):
            item.written = value

    def cancel(self) -> None:
        """Gives back the body, which must not have been changed, and leaves the op as it was."""
        self.bodies.give_back(self.scan.body, self.body)

    def finish(self) -> None:
        """Erases the old op, whose results must have no users any more."""
        erase(self.op)

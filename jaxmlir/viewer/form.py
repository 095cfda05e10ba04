"""One form of a program as data: its text, its graph, the costs of its ops, and its memory.

A function is stored as columns with a row for each op; values have the numbers of
:class:`~jaxmlir.analysis.function_view.FunctionView`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Hashable, Iterator
from typing import Any, Generic, TypeVar

from jaxmlir.analysis.cost import Cost, CostCounter, FunctionCost, costs
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import aval_if_any
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import symbols_of
from jaxmlir.dialect.ir import body_of, frames, func, ir, is_private, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.errors import Diagnostic, JaxmlirError
from jaxmlir.optimize.memory.profile import MemoryProfile, Peaks
from jaxmlir.support.files import source_line
from jaxmlir.support.lazy import memoized

MAX_WIDTH = 2000
"""The page cuts lines to this many characters: constants and pytrees may be long."""
MAX_FRAMES = 8
"""The most frames of the user's stack that a place has."""


Row = TypeVar("Row", bound=Hashable)


class Table(Generic[Row]):
    """Distinct rows, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._numbers: dict[Row, int] = {}

    def number(self, row: Row) -> int:
        """The index of a row; a new row is added."""
        return self._numbers.setdefault(row, len(self._numbers))

    @property
    def rows(self) -> list[Row]:
        return list(self._numbers)


class Tables:
    """The tables of one page.

    Attributes:
      files: names of source files.
      positions: ``(file, line, column)``, with files by index; the first stands for no position.
      places: ``(name stack, positions of the user's frames, innermost first)``.
      types: types as JAX abbreviates them: ``f32[8,16]``.

    Args:
      source_info: whether the page may show the Python files and lines that ops come from.
    """

    def __init__(self, source_info: bool = True):
        self.source_info = source_info
        self.files: Table[str] = Table()
        self.positions: Table[tuple[int, int, int]] = Table()
        self.places: Table[tuple[str, tuple[int, ...]]] = Table()
        self.types: Table[str] = Table()
        self.position("", 0, 0)
        self.places.number(("", ()))
        self._of_locations: dict[Any, int] = {}

    @memoized
    def type(self, type_: ir.Type) -> int:
        """The index of a type, as JAX abbreviates it."""
        short = getattr(aval_if_any(type_), "str_short", None)
        return self.types.number(str(type_) if short is None else short(short_dtypes=True))

    def position(self, file: str, line: int, column: int) -> int:
        """The index of a position; that of no position if the page may not show any."""
        if not self.source_info:
            file, line, column = "", 0, 0
        return self.positions.number((self.files.number(file), line, column))

    def place(self, location: ir.Location) -> int:
        """The index of an op's place: the user's frames, or JAX's first if there are none."""
        key = location.attr
        index = self._of_locations.get(key)
        if index is None:
            index = 0
            if self.source_info:
                stack, _ = locations.split(location)
                every = frames(location)
                user_frames = [f for f in every if not locations.is_of_jax(f[0])] or every[:1]
                where = tuple([self.position(*frame) for frame in user_frames[:MAX_FRAMES]])
                index = self.places.number((stack, where))
            self._of_locations[key] = index
        return index

    def remark(self, said: Diagnostic) -> tuple[str, int]:
        """A remark's message, without the pass, and the position that it is about."""
        message = said.message.partition("] ")[2] or said.message
        return message, self.position(said.file, said.line, said.col)

    def source(self) -> list[dict[int, str]]:
        """The text of those lines of source files that positions refer to, if it can be read."""
        files = self.files.rows
        lines: list[dict[int, str]] = [{} for _ in files]
        for file, line, _ in self.positions.rows:
            text = source_line(files[file], line)
            if text:
                lines[file][line] = text[:MAX_WIDTH]
        return lines

    def written(self) -> dict[str, Any]:
        """The tables as data for JSON."""
        return {
            "files": self.files.rows,
            "positions": self.positions.rows,
            "places": self.places.rows,
            "types": self.types.rows,
            "source": self.source(),
        }


LOOPS = frozenset({"jaxpr.scan", "jaxpr.while"})
SHOWN_ELEMENTS = 16
"""The text leaves out the elements of constants that have more."""
# The first line of an op in a function, not the end of another dialect's region, or a label.
_OP = re.compile(r"  [^\s}^)]")


def form_of(program: Module, tables: Tables) -> dict[str, Any]:
    """A program as data.  What cannot be counted, such as ops on types of other dialects, is left
    out."""
    with scope():
        functions = program.functions
        analyses = analyses_of(program)
        counter, peaks = CostCounter(program, by_line=False), Peaks(program)
        return {
            "entry": program.name,
            "functions": [
                _function(analyses.body(function), functions, counter, peaks, tables)
                for function in functions.values()
            ],
            "timelines": {
                symbol: timeline(peaks.profile(symbol), tables)
                for symbol in _with_timelines(program)
            },
            "cost": _costs(program, tables),
        }


def text_of(function: func.FuncOp, tables: Tables) -> dict[str, Any]:
    """The lines of a function, the first line of each op, and the place of each op."""
    lines = str(function.operation.get_asm(large_elements_limit=SHOWN_ELEMENTS)).splitlines()
    # Aliases of attributes precede the function.
    first = next(i for i, line in enumerate(lines) if line.startswith(("func.func", '"func.func"')))
    begins = [i for i in range(first + 1, len(lines)) if _OP.match(lines[i])]
    *ops, _ = body_of(function).operations
    return {
        "lines": [line[:MAX_WIDTH] for line in lines],
        # Text of other dialects may have lines that look like the beginning of an op.
        "ops": begins[:-1] if len(begins) == len(ops) + 1 else [],
        "places": [tables.place(op.location) for op in ops],
    }


def _function(
    view: FunctionView,
    functions: Container[str],
    counter: CostCounter,
    peaks: Peaks,
    tables: Tables,
) -> dict[str, Any]:
    profile = MemoryProfile(view, peaks.of_op)
    stored = [any(map(profile.is_counted, range(*results))) for results in view.results]
    return {
        "name": view.function.name.value,
        "private": is_private(view.function),
        "arity": view.arity,
        "text": text_of(view.function, tables),
        "types": [tables.type(type_) for type_ in view.types],
        "sizes": profile.sizes,
        "names": view.names,
        "operands": view.operands,
        "results": view.results,
        "returned": view.returned,
        "calls": dict(calls_of(view, functions)),
        "costs": _op_costs(view, counter),
        "live": [int(n) for n in profile.bytes],
        "stored": [i for i, is_stored in enumerate(stored) if is_stored],
    }


def calls_of(view: FunctionView, functions: Container[str]) -> Iterator[tuple[int, list[str]]]:
    """The ops of a function that refer to other functions, by index, and these functions."""
    for index, name in enumerate(view.names):
        if may_have_functions(name):
            symbols = [s for s in dict.fromkeys(symbols_of(view.ops[index])) if s in functions]
            if symbols:
                yield index, symbols


def _op_costs(view: FunctionView, counter: CostCounter) -> list[list[int | str] | None]:
    """The cost of each op, and whether its arithmetic is counted; ``None`` if it has no cost."""
    by_signature: dict[Any, list[int | str] | None] = {}
    for op, signature in zip(view.ops, view.signatures, strict=True):
        if signature not in by_signature:
            try:
                cost = counter.of(op, signature.name)
                by_signature[signature] = [*_numbers(cost.total), not cost.uncounted]
            except JaxmlirError:
                by_signature[signature] = None
    return [by_signature[signature] for signature in view.signatures]


def _with_timelines(program: Module) -> list[str]:
    """The functions whose memory is drawn: entry points, and the functions of loops."""
    graph = analyses_of(program).graph
    run = (
        s for ops in graph.ops.values() for op, name in ops if name in LOOPS for s in symbols_of(op)
    )
    return list(dict.fromkeys([*graph.entry_points(), *run]))


def timeline(profile: MemoryProfile, tables: Tables) -> dict[str, Any]:
    """The live bytes at each step of a function, and the values that take them.  Steps are the ops
    of the function, and those of the calls in it that XLA inlines."""
    view = profile.view
    return {
        "bytes": [int(n) for n in profile.bytes],
        "names": view.names,
        "places": [tables.place(op.location) for op in view.ops],
        "tops": list(view.tops),
        "values": [
            (first, last, profile.sizes[v], tables.type(view.types[v]))
            for v, (first, last) in lifetimes(profile).items()
        ],
        "arguments": sum(profile.sizes[: view.arity]),
        "results": sum(profile.sizes[v] for v in view.outputs if v >= view.arity),
    }


def lifetimes(profile: MemoryProfile) -> dict[int, tuple[int, int]]:
    """The first and the last step at which each value takes memory, by the value's number.  The
    sizes add up to the profile's bytes, except for what functions of ops need. Arguments and
    results are not included."""
    spans: dict[int, tuple[int, int]] = {}
    ending: defaultdict[int, list[int]] = defaultdict(list)
    for step, (first, end) in enumerate(profile.view.results):
        for v in filter(profile.is_counted, range(first, end)):
            if profile.view.names[step] in ELEMENTWISE:
                same = (u for u in ending[step] if profile.sizes[u] == profile.sizes[v])
                operand = next(same, None)
                # The result is written in place of an operand.
                if operand is not None:
                    ending[step].remove(operand)
                    spans[operand] = spans[operand][0], step - 1
            last = max(step, profile.ends[v])
            spans[v] = step, last
            ending[last].append(v)
    return spans


def _numbers(cost: Cost) -> list[int | str]:
    """The numbers of a cost; numbers that depend on symbolic sizes are text."""
    every = (cost.flops, cost.transcendentals, cost.bytes)
    return [n if isinstance(n, int) else str(n) for n in every]


def _costs(program: Module, tables: Tables) -> dict[str, Any]:
    """The cost of each line of the user's program, and the total."""
    try:
        program_cost = costs(program)
    except JaxmlirError:
        program_cost = FunctionCost()
    return {
        "lines": [
            (tables.position(*line, 0), *_numbers(cost), line in program_cost.unbounded)
            for line, cost in program_cost.by_line.items()
        ],
        "total": _numbers(program_cost.total),
        "uncounted": dict(program_cost.uncounted),
    }

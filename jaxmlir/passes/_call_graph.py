"""Which functions of a program refer to which."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from jaxmlir import ops
from jaxmlir.ir import func, is_private
from jaxmlir.passes._build import may_have_functions, named_ops, reachable, symbols_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


class CallGraph:
    """The functions of a program and the symbols in them, from one walk over the ops.

    Attributes:
      uses: of each function the symbols that its ops refer to, as often as they do.
      names: of all ops.
    """

    def __init__(self, functions: dict[str, func.FuncOp]):
        self._functions = functions
        self.uses: dict[str, list[str]] = {}
        self.names: set[str] = set()
        self._of_kernels: set[str] = set()
        for symbol, function in functions.items():
            found = self.uses[symbol] = []
            for op, name in named_ops(function):
                self.names.add(name)
                if may_have_functions(name):
                    symbols = list(symbols_of(op))
                    found += symbols
                    if name in KERNELS:
                        self._of_kernels.update(symbols)

    def counts(self) -> collections.Counter[str]:
        """How often each symbol is referred to."""
        return collections.Counter(use for found in self.uses.values() for use in found)

    def entry_points(self) -> list[str]:
        """The public functions, and those that no other refers to."""
        referred = set().union(*self.uses.values())
        return [
            symbol
            for symbol, function in self._functions.items()
            if symbol not in referred or not is_private(function)
        ]

    def callees_first(self) -> Iterator[str]:
        """The functions, each after those that it refers to unless they refer to each other."""
        uses = {
            symbol: [use for use in dict.fromkeys(found) if use in self.uses]
            for symbol, found in self.uses.items()
        }
        seen: set[str] = set()
        for root in uses:
            stack = [(root, iter(uses[root]))] if root not in seen else []
            seen.add(root)
            while stack:
                symbol, rest = stack[-1]
                below = next((use for use in rest if use not in seen), None)
                if below is None:
                    stack.pop()
                    yield symbol
                else:
                    seen.add(below)
                    stack.append((below, iter(uses[below])))

    def kernels(self) -> set[str]:
        """The functions of kernels (Pallas and the like), in which not every op may stand."""
        found: set[str] = set()
        pending = list(self._of_kernels)
        while pending:
            symbol = pending.pop()
            if symbol in self.uses and symbol not in found:
                found.add(symbol)
                pending += self.uses[symbol]
        return found

    def outside_kernels(self) -> list[func.FuncOp]:
        """All other functions."""
        skipped = self.kernels()
        return [function for symbol, function in self._functions.items() if symbol not in skipped]


KERNELS = frozenset(f"jaxpr.{record.name}" for record in ops.hardware.OPS)


def outside_kernels(program: Program) -> list[func.FuncOp]:
    """The functions of a program, but those of its kernels."""
    return program.reading.graph.outside_kernels()


def visit_functions(
    program: Program, visit: Callable[[func.FuncOp], bool], graph: CallGraph
) -> None:
    """Has the functions changed in place, those called before their callers, but none of a kernel.

    What then nobody refers to goes.

    Args:
      visit: says whether it has changed anything.
    """
    entries, skipped = graph.entry_points(), graph.kernels()
    changed = [
        visit(program.function(symbol)) for symbol in graph.callees_first() if symbol not in skipped
    ]
    if any(changed):
        keep_reachable(program, entries)


def keep_reachable(program: Program, entries: Sequence[str]) -> None:
    """Erases the functions that no entry point refers to any more."""
    if not entries:
        return
    program.changed()
    functions = program.functions
    reached = set().union(*(reachable(functions, symbol) for symbol in entries))
    for name, op in functions.items():
        if name not in reached:
            op.operation.erase()
    program.changed()

"""The cache of analyses that passes share until the program changes.

Most passes of a pipeline find nothing to do, and reading an op costs as much as deciding that.  A
pass therefore says whether it changed anything (:meth:`Pass.run`), as MLIR's passes say which
analyses they preserve.  If it did not, later passes reuse what was read before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

from jaxmlir.analysis.call_graph import CallGraph, callee_of
from jaxmlir.analysis.function_view import FunctionView, InsertedOp
from jaxmlir.dialect.ir import func
from jaxmlir.dialect.module import Module

CalleeRule = Callable[[Any, str, dict[str, func.FuncOp]], str | None]
"""The callee to inline, given an op, its name and the program's functions; ``None`` for none."""


class AnalysisManager:
    """The functions of a program as they were when they were read.  A pass that has changed a
    function must not ask for it again before ``program.changed()``."""

    def __init__(self, functions: dict[str, func.FuncOp]):
        self._functions = functions
        self._bodies: dict[str, FunctionView] = {}
        self._inlined: dict[tuple[CalleeRule, str], FunctionView | None] = {}

    @functools.cached_property
    def graph(self) -> CallGraph:
        return CallGraph(self._functions)

    def body(self, function: func.FuncOp) -> FunctionView:
        symbol = function.name.value
        body = self._bodies.get(symbol)
        if body is None:
            # The call graph, if it exists, has the ops.
            graph = self.__dict__.get("graph")
            ops = graph and graph.ops.get(symbol)
            body = self._bodies[symbol] = FunctionView(function, ops)
        return body

    def put_in(self, symbol: str, ops: Iterable[InsertedOp]) -> None:
        """Updates the view of a function by ops that were inserted, given in program order: the
        function need not be read again."""
        self._bodies[symbol] = self.body(self._functions[symbol]).with_put_in(ops)
        self._inlined.clear()

    def inlined(self, function: func.FuncOp, rule: CalleeRule = callee_of) -> FunctionView:
        """A view of a function as if calls were inlined; the function itself does not change.  The
        rule chooses the callees, by default as for :func:`jaxmlir.rewriting.inline.inlined`."""
        body = self._with_calls_inlined(function.name.value, rule)
        assert body is not None
        return body

    def _with_calls_inlined(self, symbol: str, rule: CalleeRule) -> FunctionView | None:
        """The function with calls inlined; ``None`` within itself, where it stays a call."""
        if (rule, symbol) not in self._inlined:
            self._inlined[rule, symbol] = None

            def callee(op: Any, name: str) -> FunctionView | None:
                called = rule(op, name, self._functions)
                return None if called is None else self._with_calls_inlined(called, rule)

            body = self.body(self._functions[symbol])
            uses = self.graph.uses[symbol]
            self._inlined[rule, symbol] = body.with_calls_inlined(callee) if uses else body
        return self._inlined[rule, symbol]


def analyses_of(program: Module) -> AnalysisManager:
    """The analyses of a module, valid until it changes."""
    return program.get_analysis(_analyses)


def _analyses(program: Module) -> AnalysisManager:
    return AnalysisManager(program.functions)


def outside_kernels(program: Module, names: Collection[str] | None = None) -> list[func.FuncOp]:
    """The functions of a program, except those of its kernels; with names, those that have such an
    op."""
    return analyses_of(program).graph.outside_kernels(names)

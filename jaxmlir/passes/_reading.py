"""What passes read of a program again and again, kept until it changes.

Most passes of a pipeline find nothing to do, and reading an op costs as much as deciding that.  So
a pass says whether it changed anything (:meth:`Pass.run`), as MLIR's passes say which analyses they
preserve, and what was read before it serves those after it.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxmlir.ir import func
from jaxmlir.passes._body import Body
from jaxmlir.passes._call_graph import CallGraph
from jaxmlir.passes.inline import callee_of


class Reading:
    """The functions of a program as they were when they were read.

    A pass that has changed a function does not ask for it again before ``program.changed()``.
    """

    def __init__(self, functions: dict[str, func.FuncOp]):
        self._functions = functions
        self._bodies: dict[str, Body] = {}
        self._inlined: dict[str, Body] = {}

    @functools.cached_property
    def graph(self) -> CallGraph:
        return CallGraph(self._functions)

    def body(self, function: func.FuncOp) -> Body:
        symbol = function.name.value
        found = self._bodies.get(symbol)
        if found is None:
            # Once the graph is there, it has the ops.
            graph = self.__dict__.get("graph")
            found = self._bodies[symbol] = Body(function, graph and graph.ops.get(symbol))
        return found

    def inlined(self, function: func.FuncOp) -> Body:
        """A function as it would be read after :func:`jaxmlir.passes.inline.inlined`, of which
        nothing is written yet."""
        symbol = function.name.value
        found = self._inlined.get(symbol)
        if found is None:
            found = self.body(function)
            if self.graph.uses[symbol]:
                found = found.with_calls_inlined(self._callee)
            self._inlined[symbol] = found
        return found

    def _callee(self, op: Any, name: str) -> Body | None:
        symbol = callee_of(op, name, self._functions)
        return None if symbol is None else self.inlined(self._functions[symbol])

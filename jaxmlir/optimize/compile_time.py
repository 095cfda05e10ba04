"""Weighs the time to compile more ops against the time that they save in each run.

If a pass replaces one op by several, or duplicates ops, the compiler has to optimize and translate
all of them.  Every such pass asks :meth:`CompileTime.pays` whether the saved time makes up for that
within a number of calls of the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import attribute, symbols_of, trip_count
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions

PER_CONVOLUTION = 100
"""The number of ops that a convolution counts as: it takes 0.05 s to compile."""
CALLS = 1_000
"""The assumed number of calls of a program."""
ITERATIONS = 100
"""The assumed trip count of a loop where it is not known."""


class CompileTime:
    """Decides whether additional ops pay in the functions of a program as they are now.

    Args:
      calls: how often the program is called; if infinite, additional ops always pay.
    """

    def __init__(self, program: Module, calls: float = CALLS):
        self._calls = calls
        self._op = program.target.costs.compiled_op
        self._iterations = {} if calls == inf else program.get_analysis(_iterations)

    def pays(self, symbol: str, ops: float, saved: float) -> bool:
        """Whether additional ops in ``@symbol`` save more time than it takes to compile them.

        Args:
          ops: the number of additional ops.
          saved: the nanoseconds that they save in each run of the function.
        """
        if ops <= 0 or self._calls == inf:
            return True
        return saved * self._calls * self._iterations.get(symbol, 1.0) >= ops * self._op


def _iterations(program: Module) -> dict[str, float]:
    """How often a call of a program runs each copy of a function that XLA inlines."""
    copies, runs = runs_of(program, lambda op, name: 1.0), runs_of(program)
    return {symbol: runs[symbol] / copies[symbol] for symbol in copies if copies[symbol]}


def _times(op: Any, name: str) -> float:
    """How often an op runs its functions, estimated where that is not known."""
    if name == "jaxpr.scan":
        count = trip_count(attribute(op, "length"))
        return ITERATIONS if count is None else count
    return ITERATIONS if name == "jaxpr.while" else 1.0


def runs_of(program: Module, times: Callable[[Any, str], float] = _times) -> Mapping[str, float]:
    """How often a call of a program runs each function; all branches are counted.

    Args:
      times: how often an op with a name runs its functions.
    """
    graph = analyses_of(program).graph
    runs: defaultdict[str, float] = defaultdict(float, dict.fromkeys(graph.entry_points(), 1.0))
    # Callers before callees; in a cycle of calls one caller comes too late.
    for symbol in reversed([*graph.callees_first()]):
        if graph.uses[symbol]:
            for op, name in graph.ops[symbol]:
                if may_have_functions(name):
                    for callee in symbols_of(op):
                        runs[callee] += runs[symbol] * times(op, name)
    return runs

"""What it takes to compile an op more, against the time that it saves in each run.

A pass that writes several ops in the place of one, or ops a second time, has the compiler optimise
and translate them all.  :meth:`CompileTime.pays` is where every such pass asks whether that is made
up for within a number of calls of the program.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import attribute, symbols_of, trip_count
from jaxmlir.dialect.ops import may_have_functions

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

PER_OP = 500_000.0
"""Nanoseconds of CPU time for which XLA compiles an op more.

The CPU time of compiling by the ops that programs have, in ms for each op, jax 0.10 and 0.12: a
chain of products and sums in one kernel 0.6 and 0.5; products of slices of an array in one kernel
0.44 and 0.44; kernels of a product of matrices and a product by a number 0.26 and 0.27; of a sum
and three elementwise ops 0.30 and 0.29; steps of a spectral model of the atmosphere, in which
several kernels compute the same values, 1.1."""
PER_CONVOLUTION = 100
"""How many ops a convolution counts as: it takes 0.05 s to compile."""
CALLS = 1_000
"""How often a program is taken to be called."""
ITERATIONS = 100
"""How often a loop is taken to run its body where that is not known."""


class CompileTime:
    """Decides for the functions of a program whether more ops pay.

    Args:
      calls: how often the program is called; if that is infinite, all ops pay that save time.
    """

    def __init__(self, program: Module, calls: float = CALLS):
        self._program = program
        self._calls = calls

    def pays(self, symbol: str, ops: float, saved: float) -> bool:
        """Whether ops in ``@symbol`` save more time than it takes to compile them.

        Args:
          ops: how many there will be more than before.
          saved: nanoseconds in each run of the function.
        """
        return ops <= 0 or saved * self._calls * self._runs(symbol) >= ops * PER_OP

    def _runs(self, symbol: str) -> float:
        """How often a call of the program runs each copy of a function that XLA has inlined."""
        copies, runs = self._counts
        return runs[symbol] / copies[symbol] if copies[symbol] else 1.0

    @functools.cached_property
    def _counts(self) -> tuple[dict[str, float], dict[str, float]]:
        """Of each function how many copies there are after inlining, and how often all of them
        run."""
        graph = analyses_of(self._program).graph
        copies: defaultdict[str, float] = defaultdict(float)
        runs: defaultdict[str, float] = defaultdict(float)
        for symbol in graph.entry_points():
            copies[symbol] = runs[symbol] = 1.0
        # Callers before what they call; of functions that call each other one comes too late.
        for symbol in reversed([*graph.callees_first()]):
            if not graph.uses[symbol]:
                continue
            for op, name in graph.ops[symbol]:
                if may_have_functions(name):
                    times = _times(op, name)
                    for callee in symbols_of(op):
                        copies[callee] += copies[symbol]
                        runs[callee] += runs[symbol] * times
        return copies, runs


def _times(op: Any, name: str) -> float:
    """How often an op runs its functions."""
    if name == "jaxpr.scan":
        count = trip_count(attribute(op, "length"))
        return ITERATIONS if count is None else count
    return ITERATIONS if name == "jaxpr.while" else 1.0

"""``jaxpr-parallel-loops``: several threads compute large steps of a loop.

XLA's CPU compiler runs a large kernel on all its threads.  But that of jax 0.12 makes one kernel of
a whole loop, if nothing in it calls a library, and runs it on one thread.  That is right for
steps of a few hundred numbers, which take less time than starting a kernel, and a loss for large
steps.  Loops of large steps are marked, and lowered in a form that stays a loop of kernels
(:mod:`jaxmlir.analysis.parallel_loops`)::

    scan(f, c, xs)    ->    scan(f, c, xs) {jaxpr.parallel}

The ops are the same; XLA may round some of them otherwise in a kernel of their own.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE, inlined_calls
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import elements
from jaxmlir.analysis.parallel_loops import ATTRIBUTE
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.loops.scan_editor import LOOPS, body_symbol, loops_of
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark

# Milliseconds of 20 steps, one kernel / a loop of kernels, two CPU cores, jax 0.12:
#                            256 x 256     512 x 512    1024 x 1024
#   a sine                   3.6 / 2.1     15 / 7.5       55 / 30
#   a product and a sum      0.2 / 0.3    0.5 / 0.7      3.4 / 2.0
#   three kernels, rolled    0.6 / 1.0    4.3 / 4.9       26 / 14
# Two threads save half of the time, but starting and awaiting them takes 30 to 60 microseconds for
# each kernel, three times as long as for a small kernel.
FORKS = 3.75
# XLA starts no threads for kernels of fewer elements, however slow.
MIN_ELEMENTS = 16_384

_WRITTEN = frozenset(
    f"jaxpr.{name}"
    for name in ("concatenate", "dynamic_update_slice", "optimization_barrier", "pad")
)


class ParallelLoops(Pass):
    """Mark loops whose steps are large enough for several threads."""

    name: ClassVar[str] = "jaxpr-parallel-loops"
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)

    def run(self, program: Module) -> bool:
        changed = False
        steps, target = _FunctionTimes(program), program.target
        saved = 1 - 1 / target.threads
        for function in outside_kernels(program, LOOPS):
            for op, name in loops_of(function):
                if ATTRIBUTE in op.attributes:
                    continue
                time, kernels = steps.of(body_symbol(op, name))
                if time * saved > FORKS * target.costs.fork * max(kernels, 1):
                    step = f"an iteration takes about {time / 1e3:.0f} us"
                    remark(op, f"run on several threads: {step}")
                    op.attributes[ATTRIBUTE] = ir.UnitAttr.get()
                    changed = True
        return changed


class _FunctionTimes:
    """The time that functions of a program take, and the number of their kernels."""

    def __init__(self, program: Module):
        self._program = program
        self._prices = Prices(program)
        self._by_symbol: dict[str, tuple[float, int]] = {}

    def of(self, symbol: str) -> tuple[float, int]:
        """Nanoseconds of the large ops of ``@symbol``, and the number of their kernels."""
        totals = self._by_symbol.get(symbol)
        if totals is None:
            # A recursive call counts as nothing: the number of calls is unknown.
            self._by_symbol[symbol] = 0.0, 0
            function = self._program.function(symbol)
            totals = self._by_symbol[symbol] = self._of(analyses_of(self._program).body(function))
        return totals

    def _of(self, body: FunctionView) -> tuple[float, int]:
        calls = inlined_calls(body)
        time, kernels = 0.0, 0
        large = [elements(type_) >= MIN_ELEMENTS for type_ in body.types]
        for index, name in enumerate(body.names):
            if index in calls or name == "jaxpr.jit":
                inner_time, more = self.of(
                    calls.get(index) or body.signatures[index].named["jaxpr"].value
                )
                time, kernels = time + inner_time, kernels + more + (index not in calls)
                continue
            first, last = body.results[index]
            if name in _COMPUTED and any(large[first:last]):
                kernels += name in _WRITTEN
                if name != "jaxpr.optimization_barrier":
                    time += self._prices.at(body, index)
        results = {v for v in body.returned if v >= body.arity and large[v]}
        return time, kernels + len(results)


_COMPUTED = FUSIBLE | _WRITTEN

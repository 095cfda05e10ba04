"""``jaxpr-canonicalize``: simpler ops of the same value, by equations.

The equations of single ops are in the op table (``folds`` of the records in
``jaxmlir/dialect/ops/``).  Rewrites that one line of text cannot express are functions, each with
its equation above it: :mod:`.movement` has those of data movement, gathers and scatters,
:mod:`.equations` those that forward stores to loads, and :mod:`.control` those of calls, loops and
constants.  ``docs/canonicalize.md`` lists them all.

All are exact: NaN, infinities and the sign of zero are preserved, integers wrap as before, and the
new value has the same type, weak types included.  Equations that hold for real numbers but not for
floats need ``fast-math``.

Functions are simplified before their callers, and the ops of each function from the top.  A rewrite
looks at the operands of an op and their producers, never at its users.  So one walk reaches a fixed
point, except for bodies of branches and loops that were inlined: these are walked once more.
Functions of kernels stay as they are.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Pass
from jaxmlir.rewriting.driver import keep_reachable

MAX_SWEEPS = 10
"""A safeguard: three sweeps were enough for every program that was tried."""


class Canonicalize(Pass):
    """Replace ops by simpler ones of the same value.

    Options:
      fast-math: also use equations that NaN, infinities, the sign of zero or rounding break.
    """

    name: ClassVar[str] = "jaxpr-canonicalize"
    fast_math: bool = False

    def run(self, program: Module) -> bool:
        before = program.state
        canonicalize(program, self.fast_math)
        return program.state is not before


def canonicalize(program: Module, fast_math: bool = False) -> int:
    """Simplifies a program in place; returns the largest number of sweeps over a function."""
    from jaxmlir.optimize.simplify.canonicalize import control, equations, movement  # noqa: F401 (they register rewrites)
    from jaxmlir.optimize.simplify.canonicalize.rewriter import Rewriter

    most, changed = 0, False
    with scope():
        graph = analyses_of(program).graph
        entries, skipped = graph.entry_points(), graph.kernels()
        returned: dict = {}
        variants: dict = {}
        for symbol in graph.callees_first():
            if symbol in skipped:
                continue
            rewriter = Rewriter(program, program.function(symbol), fast_math, returned, variants)
            sweeps = 1
            while rewriter.sweep() and sweeps < MAX_SWEEPS:
                sweeps += 1
            most = max(most, sweeps)
            changed |= rewriter.changed
        if changed:
            keep_reachable(program, entries)
    return most

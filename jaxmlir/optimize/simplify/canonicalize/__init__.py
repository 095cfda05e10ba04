"""``jaxpr-canonicalize``: simpler ops of the same value, by equations.

The equations of single ops are in the op table (``folds`` of the records in
``jaxmlir/dialect/ops/``); those that a line of text cannot say are functions here, each with its
equation above it: of data movement, gathers and scatters in :mod:`.movement`, of what is read where
it was just written in :mod:`.equations`, of calls, loops and constants in :mod:`.control`.
``docs/canonicalize.md`` lists them all.

They are exact: NaN, infinities and the sign of zero stay what they are, integers wrap as before,
and a value is replaced by one of the same type only, weak types included.  Equations that hold of
real numbers but not of floats are used with ``fast-math``.

Functions are simplified before their callers, and in each the ops from the top.  A rewrite looks at
what an op is made of, never at what is made of it; so after one walk nothing is left to do, except
in bodies of branches and loops that were copied in: these are walked once more.  The functions of
kernels are left as they are.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.analysis.call_graph import keep_reachable
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Pass

MAX_SWEEPS = 10
"""A safeguard: three are enough for every program that was tried."""


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
    """Simplifies a program in place; how often the function that took longest was walked."""
    from jaxmlir.optimize.simplify.canonicalize import (  # noqa: F401 (they register rewrites)
        control,
        equations,
        movement,
    )
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

"""The base of passes that expand single ops into several others.

Such a pass has the names of the ops, and a method that returns the expansion of one: the new ops,
their number, and the time that they save.  The base class checks whether an expansion saves the
time that it takes to compile, and stores arrays that would be rounded in two ways after it
(:mod:`jaxmlir.optimize.compared_arrays`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.barriers import alone, fences
from jaxmlir.optimize.compared_arrays import compared_arrays, may_compare
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.cpu.materialize_shared import store
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_ops
from jaxmlir.transforms.templates import Rules

Values = ir.Value | Sequence[ir.Value]


class ExpansionWriter(NamedTuple):
    """Writes ops at the insertion point.

    Attributes:
      store: writes a fence on a value, so that it is stored.
    """

    rules: Rules
    store: Callable[[ir.Value], ir.Value]

    def emit(self, function: Callable[..., list[Any]], *operands: ir.Value) -> list[ir.Value]:
        """Writes the ops of a function of arrays; returns its results."""
        return self.rules.emit(function, operands)


def pad_dims(x: Any, edges: Mapping[int, tuple[int, int, int]]) -> Any:
    """An array with zeros before, after and between its elements, by dimension."""
    config = [edges.get(d, (0, 0, 0)) for d in range(x.ndim)]
    return lax.pad(x, np.zeros((), x.dtype), config)


class Expansion(NamedTuple):
    """The ops that replace an op.

    Attributes:
      reason: the remark on the op.
      write: a function of the operands as arrays, as :meth:`Rules.emit` takes it; or, if
        ``by_steps``, a function of an :class:`ExpansionWriter` and the operands as values of the
        IR.
      ops: about how many ops are added.
      saved: the nanoseconds that each run saves, about, at least.
    """

    reason: str
    write: Callable[..., Any]
    ops: float
    saved: float
    by_steps: bool = False

    def values(self, writer: ExpansionWriter, operands: Sequence[ir.Value]) -> Values:
        """Writes the ops; returns the values that replace the results."""
        if self.by_steps:
            return self.write(writer, *operands)
        return writer.emit(self.write, *operands)


class ExpandOps(Pass):
    """Base of passes that write ops as several others.

    Options:
      calls: the assumed number of calls of the program: an expansion has to save, in these, the
        time to compile it.
    """

    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        expanded = NEEDED_OPS[self.name]
        functions = outside_kernels(program, expanded)
        if not functions:
            return False
        expansion, put = self.expansions(program), alone(fences(program))
        compile_time = CompileTime(program, self.calls)

        def chosen(node: OpView) -> Expansion | None:
            candidate = expansion(node) if is_plain_op(node) else None
            if candidate is None:
                return None
            pays = compile_time.pays(function_of(node), candidate.ops, candidate.saved)
            return candidate if pays else None

        def write(node: OpView) -> Values | None:
            candidate = chosen(node)
            if candidate is None:
                return None
            remark(node.op, candidate.reason)
            return candidate.values(writer, node.operands)

        names = analyses_of(program).graph.names
        comparing = [s for s in (f.name.value for f in functions) if may_compare(names[s])]
        find = functools.partial(compared_arrays, expanded=expanded, expansion=chosen)
        if store(program, put, [find], comparing):
            program.changed()
            expansion = self.expansions(program)
        writer = ExpansionWriter(Rules(program), put)
        return rewrite_ops(program, dict.fromkeys(expanded, write), converts=True) > 0

    def expansions(self, program: Module) -> Callable[[OpView], Expansion | None]:
        """The function that gives the expansion of an op of a program; passes that look at more
        than the op override it."""
        return self.expansion

    def expansion(self, node: OpView) -> Expansion | None:
        """What an op on plain arrays is written as; ``None`` where it stays."""
        raise NotImplementedError


def function_of(node: OpView) -> str:
    """The symbol of the function that contains an op."""
    return node.op.operation.parent.attributes["sym_name"].value

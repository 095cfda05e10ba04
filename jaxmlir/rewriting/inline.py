"""``jaxpr-inline``: replaces calls by the bodies of the functions that they call.

A call is inlined if it is the only use of its function, or if the function is small.  Callees are
visited first, so that the size of a function includes what was inlined into it.  Calls with
attributes of their own (shardings, layouts, a mesh, compiler options) stay, and so do calls of
functions with the attribute ``no_inline``.  ``remat2``, custom derivatives and loops also stay:
they are more than calls.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Any, ClassVar

from jaxmlir.analysis.call_graph import CALLS, callee_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.builder import inline as inline_body
from jaxmlir.dialect.builder import ops_with_symbols, put_instead, references
from jaxmlir.dialect.ir import func, ir, is_private, new_function
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark


class Inline(Pass):
    """Replace calls by the bodies of the functions called.

    Options:
      max-ops: functions of at most so many ops are inlined into all callers.
      single-use: inline functions that are called once, whatever their size.
    """

    name: ClassVar[str] = "jaxpr-inline"
    max_ops: Count = 8
    single_use: bool = True

    def run(self, program: Module) -> bool:
        functions, graph = program.functions, analyses_of(program).graph
        uses = graph.counts()
        sizes: dict[str, int] = {}
        # Larger functions that are called once, with their callers.
        waiting: dict[str, str] = {}
        changed = False
        for symbol in graph.callees_first():
            function = functions[symbol]
            grown = 0
            for op, name in list(ops_with_symbols(function)):
                callee = callee_of(op, name, functions)
                if callee is None or callee not in sizes:
                    continue
                once = self.single_use and uses[callee] == 1 and is_private(functions[callee])
                if not once and sizes[callee] > self.max_ops:
                    continue
                reason = "called here only" if once else f"it is small ({sizes[callee]} ops)"
                remark(op, f"inlined @{callee}: {reason}")
                changed = True
                uses[callee] -= 1
                if sizes[callee] > self.max_ops:
                    # Inlined later: each call of a chain would copy the ops of the rest again.
                    waiting[callee] = symbol
                    grown += sizes[callee] - 1
                    continue
                _inline(op, name, functions[callee])
                if uses[callee] == 0 and is_private(functions[callee]):
                    functions[callee].operation.erase()
                else:
                    uses.update(references(functions[callee]))
            sizes[symbol] = sum(1 for _ in function.entry_block.operations) - 1 + grown
        for symbol in dict.fromkeys(waiting.values()):
            if symbol not in waiting:
                _inline_all(functions, functions[symbol], waiting)
        for callee in waiting:
            functions[callee].operation.erase()
        return changed


def inlined(functions: dict[str, func.FuncOp], function: func.FuncOp) -> func.FuncOp:
    """A function with all its plain calls inlined, whatever the size of the callees.  It is a copy,
    inserted before the function, or the function itself if it has no plain calls."""
    if all(callee_of(op, name, functions) is None for op, name in ops_with_symbols(function)):
        return function
    copy = function.operation.clone(ip=ir.InsertionPoint(function)).opview
    _inline_all(functions, copy, functions)
    return copy


def _inline_all(
    functions: dict[str, func.FuncOp], function: func.FuncOp, among: Container[str]
) -> None:
    """Inlines the calls of the functions ``among``, including those in inlined bodies.  Each op is
    copied once, however deeply it is nested, and moved to the end of the function.  The body of a
    callee is first written into a scratch function, whose ops are visited next."""
    *ops, last = function.entry_block.operations
    # The ops to visit, with their function, which keeps them alive.
    stack = [(iter(ops), function.operation)]
    while stack:
        op = next(stack[-1][0], None)
        if op is None:
            stack.pop()
            continue
        name = op.operation.name
        callee = callee_of(op, name, functions) if name in CALLS else None
        if callee is None or callee not in among:
            op.operation.move_before(last.operation)
            continue
        apart, block = new_function(callee, [], [], op.location, False)
        with ir.InsertionPoint(block), _location(op, name):
            values = inline_body(functions[callee], list(op.operands))
        put_instead(op, values)
        stack.append((iter(list(block.operations)), apart.operation))


def _inline(op: Any, name: str, function: func.FuncOp) -> None:
    with ir.InsertionPoint(op), _location(op, name):
        values = inline_body(function, list(op.operands))
    put_instead(op, values)


def _location(op: Any, name: str) -> ir.Location:
    """The location of inlined ops: it names the callee, so that profiles do, as without jaxmlir."""
    attributes = op.attributes
    called = attributes["name"] if "name" in attributes else None
    return locations.of_body(op.location, _scope(name, called))


@functools.cache
def _scope(name: str, called: ir.Attribute | None) -> str:
    """The scope that JAX's lowering adds to the name stack: ``jit(layer)``, ``closed_call``."""
    scope = name.removeprefix("jaxpr.")
    return scope if called is None else f"{scope}({codec.decode(called)})"

"""The driver of rewrites of single ops in place.

A rewrite is a function of an op.  It returns the values that replace the op's results, or ``None``
to keep the op.  A pass that rewrites op by op is a table of rewrites by op name.
:func:`rewrite_ops` does the rest: it walks the ops, sets the insertion point, checks types, erases
replaced ops, and reports the change to the program.

``jaxpr-canonicalize`` has its own driver, which also rewrites the ops that rewrites build
(:mod:`jaxmlir.optimize.simplify.canonicalize.rewriter`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jaxmlir._compat import core
from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import converted, drop_dead_ops, named_ops, reachable
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import PassError

Rewrite = Callable[[OpView], "ir.Value | Sequence[ir.Value] | None"]


def rewrite_ops(
    program: Module,
    rewrites: Mapping[str, Rewrite],
    *,
    drop_dead: bool = False,
    converts: bool = False,
) -> int:
    """Rewrites the ops of a program in place; returns how many.

    Each function is walked once, from the top, except functions of kernels.  A rewrite is called at
    each op with its name.  New ops are inserted before that op and get its location.  The rewrite
    returns the replacement of the results, as one value or a sequence.  Values are converted where
    they are weakly typed and the results are not, or the other way round.  A rewrite that returns
    ``None`` must not have written anything.

    Args:
      rewrites: by op name, such as ``"jaxpr.log"``.
      drop_dead: also drop dead ops of the functions that changed.
      converts: convert values of any element type to that of the result, because a rewrite that is
        written in JAX may promote types.

    Raises:
      PassError: values do not fit the results of an op, or a name is not that of an op.
    """
    if wrong := [name for name in rewrites if "." not in name]:
        raise PassError(
            f"rewrite_ops: expected names of ops with their dialect, such as 'jaxpr.{wrong[0]}', "
            f"got '{wrong[0]}'"
        )
    with scope():
        rewrite = functools.partial(_rewrite, rewrites=rewrites, converts=converts)
        return rewrite_functions(program, rewrites, rewrite, drop_dead=drop_dead)


def rewrite_functions(
    program: Module,
    names: Collection[str],
    rewrite: Callable[[func.FuncOp], int],
    *,
    drop_dead: bool = True,
) -> int:
    """Rewrites the functions of a program that have an op with one of the names, none of kernels,
    one by one in place; returns the number of rewrites, of which ``rewrite`` gives that of a
    function.  With ``drop_dead``, drops dead ops of the functions that changed."""
    count = 0
    for function in outside_kernels(program, names):
        rewritten = rewrite(function)
        if rewritten and drop_dead:
            drop_dead_ops(function)
        count += rewritten
    if count:
        program.changed()
    return count


def _rewrite(function: func.FuncOp, rewrites: Mapping[str, Rewrite], converts: bool) -> int:
    count = 0
    for op, name in named_ops(function):
        rewrite = rewrites.get(name)
        if rewrite is None:
            continue
        with ir.InsertionPoint(op), op.location:
            replacement = rewrite(OpView(op, name, list(op.operands)))
            if replacement is None:
                continue
            values = [replacement] if isinstance(replacement, ir.Value) else list(replacement)
            types = list(op.results.types)
            if converts or _fits(types, [value.type for value in values]):
                values = list(map(converted, values, types))
        replace(op, values)
        count += 1
    return count


def replace(op: Any, values: Sequence[ir.Value]) -> None:
    """Replaces an op's results by values of their number and types, and erases the op."""
    results = list(op.results)
    types, got = [r.type for r in results], [v.type for v in values]
    if types != got and not _fits(types, got):
        name, expected, actual = op.operation.name, _type_list(types), _type_list(got)
        message = f"'{name}' op: expected values of the types {expected} in its place, got {actual}"
        raise locations.error_at(PassError, op.location, message)
    for result, value in zip(results, values, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def _fits(types: list[ir.Type], got: list[ir.Type]) -> bool:
    """Whether types are equal up to weak types."""
    return len(types) == len(got) and all(
        core.typematch(aval_of(a), aval_of(b)) for a, b in zip(types, got, strict=True)
    )


def _type_list(types: Sequence[ir.Type]) -> str:
    return f"({', '.join(map(str, types))})"


def visit_functions(
    program: Module, visit: Callable[[func.FuncOp], bool], graph: CallGraph, names: Collection[str]
) -> bool:
    """Visits the functions that have an op with one of the names, callees before callers, to change
    them in place; returns whether any changed, as ``visit`` tells.  Functions of kernels are
    skipped.  Functions that nothing refers to afterwards are erased."""
    entries, skipped = graph.entry_points(), graph.kernels()
    changed = [
        visit(program.function(symbol))
        for symbol in graph.callees_first()
        if symbol not in skipped and graph.have(symbol, names)
    ]
    if any(changed):
        keep_reachable(program, entries)
    return any(changed)


def keep_reachable(program: Module, entries: Sequence[str]) -> None:
    """Erases the functions that no entry point reaches any more, after functions have changed."""
    program.changed()
    if not entries:
        return
    functions = program.functions
    reached = reachable(functions, *entries)
    remaining = {}
    for name, op in functions.items():
        if name in reached:
            remaining[name] = op
        else:
            op.operation.erase()
    program.changed(remaining)

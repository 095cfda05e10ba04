"""Everything that authors of passes need in one place: ``from jaxmlir.toolbox import ...``.

A pass walks ``program.functions`` with :func:`ops_of`, builds new ops at an op (``with
ir.InsertionPoint(op), op.location:``) and replaces the op by their results with :func:`replace`.
New ops come from JAX (:func:`emit`), from existing ones (:func:`copy`) or from MLIR's bindings
(``ir.Operation.create``).  All of that needs the context of the process, which the pass manager
enters.  Elsewhere, write ``with scope():``.

    ir, functions, scope      MLIR's bindings, the functions of a module, the context
    ops_of, returned          a function's ops with names and operands; the values that it returns
    definition                the op that gives a value
    attribute                 an op's attribute as a Python value
    constant, constant_value  writing and reading ``jaxpr.constant``
    rewrite_ops               rewriting op by op: a table of functions by op name
    copy, emit, replace       building ops, and replacing an op by values
    erase                     removing an op without uses
    remark                    telling the user what was done, and where
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.bridge import exporter
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect.builder import attribute, copy, erase, returned
from jaxmlir.dialect.ir import functions, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import PassError
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import replace, rewrite_ops


def definition(value: ir.Value) -> tuple[ir.Operation, str] | None:
    """The op that gives a value, and its name; ``None`` for a function's argument."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    return owner, owner.name


def constant(program: Module, value: Any, type_: ir.Type) -> ir.Value:
    """Writes an array as a ``jaxpr.constant`` at the insertion point; a large one goes to the
    program's side table."""
    attributes = Importer.into(program).constant_attributes(value, aval_of(type_))
    return ir.Operation.create("jaxpr.constant", [type_], [], attributes).result


def constant_value(program: Module, value: ir.Value) -> Any | None:
    """The array of a ``jaxpr.constant``; ``None`` for other values."""
    origin = definition(value)
    if origin is None or origin[1] != "jaxpr.constant":
        return None
    return exporter.constant_value(program, origin[0])


def emit(
    program: Module, function: Callable[..., Sequence[Any]], args: Sequence[ir.Value]
) -> list[ir.Value]:
    """Writes the ops of a JAX function applied to values at the insertion point; returns the
    results.

    Args:
      function: takes one array for each value and returns a sequence of arrays.  It is traced once
        for each combination of types; pass the same object each time so that it is recognized.

    Raises:
      PassError: ``function`` returns something else, or there is no insertion point.
    """
    from jaxmlir.transforms.templates import Rules

    def results(*xs: Any) -> list[Any]:
        outputs = function(*xs)
        if not isinstance(outputs, Sequence):
            name = getattr(function, "__name__", function)
            raise PassError(f"emit: expected {name} to return a list of arrays, got {outputs!r}")
        return list(outputs)

    try:
        _ = ir.InsertionPoint.current
    except ValueError:
        raise PassError(
            "emit: expected an insertion point, got none; it is set by "
            "'with ir.InsertionPoint(op), op.location:'"
        ) from None
    return Rules(program).emit(results, args, function)


__all__ = [
    "attribute",
    "constant",
    "constant_value",
    "copy",
    "definition",
    "emit",
    "erase",
    "functions",
    "ir",
    "ops_of",
    "remark",
    "replace",
    "returned",
    "rewrite_ops",
    "scope",
]

"""What writers of passes need, in one place: ``from jaxmlir.toolbox import ...``.

A pass walks ``program.functions`` with :func:`ops_of`, builds new ops at an op (``with
ir.InsertionPoint(op), op.location:``) and puts their results in its place with :func:`replace`.
New ops come from JAX (:func:`emit`), from existing ones (:func:`copy`) or from MLIR's bindings
(``ir.Operation.create``).  All of that needs the process's context: ``with scope():``.

    ir, functions, scope      MLIR's bindings, the functions of a module, the context
    ops_of, returned          the ops of a function with their names and operands; what it returns
    definition                the op that a value comes from
    attribute                 an op's attribute as a Python value
    constant, constant_value  writing and reading ``jaxpr.constant``
    copy, emit, replace       building ops, and putting them in another's place
    erase                     taking out an op that nobody uses
    remark                    telling the user what was done, and where
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.bridge import exporter
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import attribute, copy, erase, returned
from jaxmlir.dialect.ir import functions, ir, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import Diagnostic, PassError
from jaxmlir.passes.remarks import remark

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


def definition(value: ir.Value) -> tuple[Any, str] | None:
    """The op that gives a value, and its name; ``None`` of a function's argument."""
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
    """The array that a ``jaxpr.constant`` gives; ``None`` of other values."""
    found = definition(value)
    if found is None or found[1] != "jaxpr.constant":
        return None
    return exporter.constant_value(program, found[0])


def emit(
    program: Module, function: Callable[..., Sequence[Any]], args: Sequence[ir.Value]
) -> list[ir.Value]:
    """Writes the ops that a JAX function performs on values at the insertion point; its results.

    Args:
      function: takes one array for each value and returns a sequence of arrays.  It is traced once
        for each combination of types, and must be the same object to be known again.

    Raises:
      PassError: it returns something else, or there is no insertion point.
    """
    from jaxmlir.transforms.templates import Rules

    def results(*xs: Any) -> list[Any]:
        found = function(*xs)
        if not isinstance(found, Sequence):
            name = getattr(function, "__name__", function)
            raise PassError(f"emit: expected {name} to return a list of arrays, got {found!r}")
        return list(found)

    try:
        _ = ir.InsertionPoint.current
    except ValueError:
        raise PassError(
            "emit: expected an insertion point, got none; it is set by "
            "'with ir.InsertionPoint(op), op.location:'"
        ) from None
    return Rules(program).emit(results, args, function)


def replace(op: Any, values: Sequence[ir.Value]) -> None:
    """Uses values instead of an op's results, and removes the op.

    Raises:
      PassError: there are more or fewer of them, or they have other types.
    """
    results = list(op.results)
    types, got = [r.type for r in results], [v.type for v in values]
    if types != got and not _fits(types, got):
        name, wanted, given = op.operation.name, _type_list(types), _type_list(got)
        message = f"'{name}' op: expected values of the types {wanted} in its place, got {given}"
        raise PassError([Diagnostic("error", message, *locations.position(op.location))])
    for result, value in zip(results, values, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def _fits(types: list[ir.Type], got: list[ir.Type]) -> bool:
    """Whether types differ in nothing but being weak."""
    return len(types) == len(got) and all(
        core.typematch(aval_of(a), aval_of(b)) for a, b in zip(types, got, strict=True)
    )


def _type_list(types: list[ir.Type]) -> str:
    return f"({', '.join(map(str, types))})"


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
    "scope",
]

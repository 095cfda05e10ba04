"""The pattern of a program's Jacobian: index sets are propagated through the program's derivative.

``jaxpr-jacobian-sparsity`` and ``jaxpr-hessian-sparsity`` print it on stderr as a picture in
braille, eight elements per character, with the number of products with vectors that determine the
matrix.  For symbolic shapes, they print its pieces.  Remarks name the ops that make it dense, with
the user's line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax

from jaxmlir._compat import core
from jaxmlir.dialect import custom_rule_ops
from jaxmlir.dialect.builder import reached_ops, returned, set_results
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ArgumentError, Diagnostic, TransformError
from jaxmlir.interpret.interpreter import Frame
from jaxmlir.passes.base import Pass
from jaxmlir.sparse.index_sets import Columns, PatternTooDense, empty
from jaxmlir.sparse.pattern import SparsityPattern
from jaxmlir.sparse.relation_tracer import SymbolicTracer
from jaxmlir.sparse.relations import Arguments
from jaxmlir.sparse.rules import Value
from jaxmlir.sparse.symbolic import SymbolicPattern
from jaxmlir.sparse.tracer import Tracer
from jaxmlir.transforms.discharge_refs import discharge_refs
from jaxmlir.transforms.expand_custom_lin import expand_custom_lin
from jaxmlir.transforms.jvp import active_arguments, jvp
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vjp import grad

Pattern = SparsityPattern | SymbolicPattern


def jacobian_sparsity(program: Module, symbol: str, argnums: Sequence[int]) -> Pattern:
    """The pattern of the Jacobian of all results of ``@symbol`` in some of its flat arguments.

    Args:
      argnums: arguments that have tangents, in the order of the columns.

    Raises:
      ArgumentError: there is no argument.
      TransformError: an argument has no tangents, or an op cannot be differentiated; names it.
      PatternTooDense: there are more elements than the limit; names the ops that cause it.
    """
    copy = _copy(program)
    return _pattern(copy, symbol, argnums, symmetric=False)


def hessian_sparsity(program: Module, symbol: str, argnums: Sequence[int]) -> Pattern:
    """The pattern of the Hessian of ``@symbol``, i.e. of its gradient's Jacobian.

    It is symmetric, so an element is zero if its mirror image is.  With custom derivative rules the
    result of ``grad`` need not be a gradient, and no symmetry is assumed.

    Raises:
      ArgumentError, TransformError, PatternTooDense: as for :func:`jacobian_sparsity`; also if the
        function's result is no scalar.
    """
    copy = _copy(program)
    with scope():
        ops = reached_ops(copy.functions, symbol)
        has_rules = any(name in custom_rule_ops.OPS for _, name in ops)
        active = active_arguments(copy, symbol, tuple(argnums))
        gradient = grad(Rules(copy, reverse=True), symbol, active)
        _put_in_order(copy.function(gradient), active, argnums)
    copy.changed()
    return _pattern(copy, gradient, argnums, symmetric=not has_rules)


def _copy(program: Module) -> Module:
    """A copy of the program to differentiate."""
    copy = program.clone()
    # Derivatives can contain further ops with custom rules; they are traced when they are met.
    copy.rule_tracing.held = True
    discharge_refs(copy)
    return copy


def _put_in_order(gradient: Any, active: Sequence[bool], argnums: Sequence[int]) -> None:
    """Changes the order of a gradient's results from the arguments' order to ``argnums``."""
    by_argument = dict(zip((i for i, a in enumerate(active) if a), returned(gradient), strict=True))
    set_results(gradient, [by_argument[i] for i in argnums])


def _pattern(copy: Module, symbol: str, argnums: Sequence[int], *, symmetric: bool) -> Pattern:
    """The pattern of the Jacobian of ``@symbol``; changes the program."""
    if not argnums:
        raise ArgumentError(f"@{symbol} has no sparsity pattern: the arguments hold no arrays")
    with scope():
        function = copy.function(symbol)
        shapes = [tuple(aval_of(t).shape) for t in function.type.inputs]
        out_shapes = [tuple(aval_of(t).shape) for t in function.type.results]
        active = active_arguments(copy, symbol, tuple(argnums))
        rules = Rules(copy)
        derivative, active_out = jvp(rules, symbol, active)
        try:
            expand_custom_lin(rules, [derivative])
        except TransformError:
            # A backward rule whose ops do not show that it is linear counts as dense.
            pass
    copy.changed()
    in_shapes = [shapes[i] for i in argnums]
    is_symbolic = not all(map(core.is_constant_shape, (*shapes, *out_shapes)))
    inputs = Arguments(in_shapes) if is_symbolic else Columns(map(math.prod, in_shapes))
    values = [Value(shape) for shape in shapes]
    values += [
        Value(shapes[i], inputs.identity(argnums.index(i))) for i, a in enumerate(active) if a
    ]
    reasons: dict[Any, Diagnostic] = {}
    tracer = (SymbolicTracer if is_symbolic else Tracer)(copy, inputs, reasons)
    with jax.ensure_compile_time_eval():
        results = tracer.enter(Frame(derivative, None), values)
    tangents = iter(results[len(out_shapes) :])
    parts = [next(tangents).rows if a else None for a in active_out]
    options: Any = {"symmetric": symmetric, "reasons": tuple(reasons.values())}
    if is_symbolic:
        return SymbolicPattern([x or () for x in parts], in_shapes, out_shapes, **options)
    return _written_out(symbol, inputs, parts, in_shapes, out_shapes, options)


def _written_out(
    symbol: str,
    columns: Columns,
    parts: Sequence[Any],
    in_shapes: Sequence[tuple[int, ...]],
    out_shapes: Sequence[tuple[int, ...]],
    options: dict[str, Any],
) -> SparsityPattern:
    """The pattern of results with the index sets ``parts``."""
    pairs = zip(parts, out_shapes, strict=True)
    sets = [empty(math.prod(n), columns.width) if rows is None else rows for rows, n in pairs]
    try:
        rows = columns.written_out(columns.joined(sets))
    except PatternTooDense as e:
        size = f"{sum(map(math.prod, out_shapes)):,} x {columns.inputs:,}"
        what = "Hessian" if options["symmetric"] else "Jacobian"
        message = f"the {what} of @{symbol}, {size}, is too dense: {e}"
        raise PatternTooDense([Diagnostic("error", message, notes=options["reasons"])]) from None
    shapes = {"in_shapes": in_shapes, "out_shapes": out_shapes}
    return SparsityPattern.of_matrix(rows, **shapes, **options)


# --- passes that print patterns -------------------------------------------------------------------


class _PrintSparsity(Pass):
    """The base class of passes that print a pattern.

    Options:
      func: the function; by default the public one.
      argnums: the flat arguments to differentiate with respect to.
    """

    pattern: ClassVar[Callable[..., Any]]
    """Finds the pattern for a program, a function and its arguments."""
    func: str = ""
    argnums: tuple[int, ...] = (0,)

    def run(self, program: Module) -> bool:
        pattern = type(self).pattern(program, program.chosen(self.func), self.argnums)
        print(pattern, file=sys.stderr)
        if isinstance(pattern, SparsityPattern):
            print(pattern.coloring(), file=sys.stderr)
        return False


class PrintJacobianSparsity(_PrintSparsity):
    """Print which elements of a function's Jacobian can be nonzero, on stderr."""

    name: ClassVar[str] = "jaxpr-jacobian-sparsity"
    pattern: ClassVar = jacobian_sparsity


class PrintHessianSparsity(_PrintSparsity):
    """Print which elements of a function's Hessian can be nonzero, on stderr.

    Options:
      func: the function, which has one scalar result; by default the public one.
    """

    name: ClassVar[str] = "jaxpr-hessian-sparsity"
    pattern: ClassVar = hessian_sparsity

"""``jvp``, and the two halves of a program that ``linearize`` and ``vjp`` make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir.dialect.builder import reachable
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.types import aval_of, tangent_type_of, type_of
from jaxmlir.errors import ArgumentError
from jaxmlir.program.specialize import sizes_missing_in
from jaxmlir.program.transforms.ends import finish, start
from jaxmlir.program.transforms.trees import args_tree_of, arguments_of, tuple_of
from jaxmlir.transforms.imports import library_first
from jaxmlir.transforms.jvp import active_arguments
from jaxmlir.transforms.jvp import jvp as jvp_function
from jaxmlir.transforms.linearize import Linearized
from jaxmlir.transforms.linearize import linearize as linearize_function
from jaxmlir.transforms.new_function import adapt
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import cotangent_type
from jaxmlir.transforms.vjp import Pullback
from jaxmlir.transforms.vjp import vjp as vjp_function

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


@library_first
def jvp(program: Program, custom_vjp_forward: str = "error") -> Program:
    """The program ``(primals, tangents) -> (result, tangent of result)``.

    Args:
      custom_vjp_forward: what becomes of functions with a custom VJP rule, which have no JVP in
        JAX.  ``"error"``: running the result is an error that names the rule.  ``"transpose"``: the
        backward rule is transposed, if its ops show that it is linear in the cotangent.

    Raises:
      TransformError: an op cannot be differentiated, or a backward rule is not linear.
    """
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = args_tree_of(program, "jvp"), program.out_tree
    result, rules, symbol = start(program, lends=custom_vjp_forward == "error")
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        core_symbol, active_out = jvp_function(rules, symbol, active)
        inputs, outputs = list(function.type.inputs), list(function.type.results)
        arguments = [
            *((t, True) for t in inputs),
            *zip(map(tangent_type_of, inputs), active, strict=True),
        ]
        results = [
            *((t, True) for t in outputs),
            *zip(map(tangent_type_of, outputs), active_out, strict=True),
        ]
        if custom_vjp_forward == "transpose":
            _expand_custom_lin(rules, core_symbol)
        new = adapt(rules, core_symbol, f"{symbol}.jvp", arguments, results)
        copied = rules.functions.copy_in(new)
    in_tree, tree = arguments_of(args_tree, args_tree), tuple_of([out_tree, out_tree])
    return finish(result, new, in_tree, tree, f"{symbol}.jvp", copied=copied)


def _check_forward(custom_vjp_forward: str) -> None:
    if custom_vjp_forward not in ("error", "transpose"):
        raise ArgumentError(
            f"custom_vjp_forward must be 'error' or 'transpose', got {custom_vjp_forward!r}"
        )


def _expand_custom_lin(rules: Rules, symbol: str) -> None:
    from jaxmlir.transforms.expand_custom_lin import expand_custom_lin

    expand_custom_lin(rules, [symbol])


@library_first
def linearize(
    program: Program,
    while_loops: str = "error",
    checkpoints: int | None = None,
    custom_vjp_forward: str = "error",
) -> tuple[Program, Program]:
    """Two programs: ``fwd(*args) -> (result, residuals)`` and ``lin(residuals, *tangents) ->
    tangent of result``.

    Args:
      custom_vjp_forward: as for :func:`jvp`, in ``lin``.
    """
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = args_tree_of(program, "linearize"), program.out_tree
    lends = custom_vjp_forward == "error"
    result, rules, symbol = start(program, while_loops, checkpoints, lends=lends)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        found = linearize_function(rules, symbol, active)
        if custom_vjp_forward == "transpose":
            _expand_custom_lin(rules, found.lin)
        inputs, outputs = function.type.inputs, function.type.results
        tangents = list(zip(map(tangent_type_of, inputs), active, strict=True))
        results = list(zip(map(tangent_type_of, outputs), found.active_out, strict=True))
    trees = args_tree.children(), out_tree
    return _pair(program, rules, found, found.lin, f"{symbol}.lin", tangents, results, *trees)


@library_first
def vjp(
    program: Program, while_loops: str = "error", checkpoints: int | None = None
) -> tuple[Program, Program]:
    """Two programs: ``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, cotangent) ->
    (*cotangents of args)``."""
    args_tree, out_tree = args_tree_of(program, "vjp"), program.out_tree
    result, rules, symbol = start(program, while_loops, checkpoints, reverse=True, lends=True)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        found = vjp_function(rules, symbol, active)
        inputs, outputs = function.type.inputs, function.type.results
        cotangents = list(zip(map(cotangent_type, outputs), found.active_out, strict=True))
        results = list(zip(map(cotangent_type, inputs), active, strict=True))
    trees = [out_tree], args_tree
    return _pair(program, rules, found, found.bwd, f"{symbol}.bwd", cotangents, results, *trees)


def _pair(
    program: Program,
    rules: Rules,
    halves: Linearized | Pullback,
    linear: str,
    name: str,
    operands: Sequence[tuple[ir.Type, bool]],
    results: Sequence[tuple[ir.Type, bool]],
    in_trees: Sequence[Any],
    out_tree: Any,
) -> tuple[Program, Program]:
    """The program ``(*args) -> (result, residuals)``, and ``name``: ``(residuals, *operands) ->
    results``.

    Args:
      linear: the symbol of a function of the residuals, and of those operands that matter.
      operands: their types, and which ``@linear`` takes.
      results: their types, and which ``@linear`` gives; the others are zero.
      in_trees: the pytree of each operand of the program.
    """
    with scope():
        inputs = list(rules.program.function(linear).type.inputs)
        residuals = [(t, True) for t in inputs[: halves.num_residuals]]
        fwd, sizes = _with_sizes(program, rules, halves, [*residuals, *operands])
        residuals += [(t, False) for t in sizes]
        new = adapt(rules, linear, name, [*residuals, *operands], results)
        copied = rules.functions.copy_in(fwd, new)
        rules.program.changed()
        of_first = reachable(rules.program.functions, fwd, uses=copied.uses)
    residual_tree = jax.tree.structure((0,) * len(residuals))
    fwd_out = tuple_of([program.out_tree, residual_tree])
    in_tree = arguments_of(residual_tree, *in_trees)
    return (
        finish(
            rules.program.clone(among=of_first),
            fwd,
            program.in_tree,
            fwd_out,
            f"{program.name}.fwd",
            arg_names=program.arg_names,
            copied=copied,
        ),
        finish(rules.program, new, in_tree, out_tree, name, copied=copied),
    )


def _with_sizes(
    program: Program,
    rules: Rules,
    halves: Linearized | Pullback,
    operands: Sequence[tuple[ir.Type, bool]],
) -> tuple[str, list[ir.Type]]:
    """``@halves.fwd`` with what is to be handed on beside its residuals, and the types of that.

    The other half knows symbolic sizes by its operands' shapes.  Where these do not tell them, as
    ``f32[a * b]`` does not, it is given an array without elements whose shape does.
    """
    missing = sizes_missing_in([aval_of(type_) for type_, _ in operands], program)
    if missing is None:
        return halves.fwd, []
    type_, sizes = rules.program.function(halves.fwd).type, type_of(missing)
    taken, given = ([(t, True) for t in side] for side in (type_.inputs, type_.results))
    fwd = adapt(rules, halves.fwd, f"{program.name}.fwd", taken, [*given, (sizes, False)])
    num_residuals = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), halves.num_residuals + 1)
    rules.program.function(fwd).attributes["jaxpr.num_res"] = num_residuals
    return fwd, [sizes]

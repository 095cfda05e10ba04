"""Derivatives of programs: ``jvp``, halves of ``linearize`` and ``vjp``, gradients, Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxmlir._compat import core
from jaxmlir.analysis.liveness import liveness_of, whole
from jaxmlir.dialect.builder import instantiated, reachable, returned, set_results
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.module import at_public
from jaxmlir.dialect.types import aval_of, cotangent_type, tangent_type_of, type_of
from jaxmlir.errors import ArgumentError, JaxmlirError
from jaxmlir.program import arguments
from jaxmlir.program.specialize import sizes_missing_in
from jaxmlir.program.transforms.ends import (
    args_tree_of,
    arguments_of,
    finish,
    leaves_of,
    start,
    to_differentiate,
    tuple_of,
)
from jaxmlir.support.options import integer
from jaxmlir.transforms.jvp import active_arguments
from jaxmlir.transforms.jvp import jvp as jvp_function
from jaxmlir.transforms.linearize import linearize as linearize_function
from jaxmlir.transforms.new_function import SplitFunction, adapt
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vjp import grad as grad_function
from jaxmlir.transforms.vjp import vjp as vjp_function

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def jvp(program: Program, custom_vjp_forward: str = "error") -> Program:
    """The program that :meth:`Program.jvp` returns."""
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = args_tree_of(program, "jvp"), program.out_tree
    result, rules, symbol = start(program)
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
        adapted = adapt(rules, core_symbol, f"{symbol}.jvp", arguments, results)
    in_tree, tree = arguments_of(args_tree, args_tree), tuple_of([out_tree, out_tree])
    return finish(result, adapted, in_tree, tree, f"{symbol}.jvp")


def _check_forward(custom_vjp_forward: str) -> None:
    if custom_vjp_forward not in ("error", "transpose"):
        raise ArgumentError(
            f"custom_vjp_forward must be 'error' or 'transpose', got {custom_vjp_forward!r}"
        )


def _expand_custom_lin(rules: Rules, symbol: str) -> None:
    from jaxmlir.transforms.expand_custom_lin import expand_custom_lin

    expand_custom_lin(rules, [symbol])


def linearize(
    program: Program,
    while_loops: str = "error",
    checkpoints: int | None = None,
    custom_vjp_forward: str = "error",
) -> tuple[Program, Program]:
    """The programs that :meth:`Program.linearize` returns."""
    _check_forward(custom_vjp_forward)
    args_tree, out_tree = args_tree_of(program, "linearize"), program.out_tree
    result, rules, symbol = start(program, while_loops, checkpoints)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        halves = linearize_function(rules, symbol, active)
        if custom_vjp_forward == "transpose":
            _expand_custom_lin(rules, halves.second)
        inputs, outputs = function.type.inputs, function.type.results
        tangents = list(zip(map(tangent_type_of, inputs), active, strict=True))
        results = list(zip(map(tangent_type_of, outputs), halves.pattern, strict=True))
    trees = args_tree.children(), out_tree
    return _pair(program, rules, halves, f"{symbol}.lin", tangents, results, *trees)


def vjp(
    program: Program, while_loops: str = "error", checkpoints: int | None = None
) -> tuple[Program, Program]:
    """The programs that :meth:`Program.vjp` returns."""
    args_tree, out_tree = args_tree_of(program, "vjp"), program.out_tree
    result, rules, symbol = start(program, while_loops, checkpoints, reverse=True)
    with scope():
        function = result.function(symbol)
        active = active_arguments(result, symbol, ())
        halves = vjp_function(rules, symbol, active)
        inputs, outputs = function.type.inputs, function.type.results
        cotangents = list(zip(map(cotangent_type, outputs), halves.pattern, strict=True))
        results = list(zip(map(cotangent_type, inputs), active, strict=True))
    trees = [out_tree], args_tree
    return _pair(program, rules, halves, f"{symbol}.bwd", cotangents, results, *trees)


def _pair(
    program: Program,
    rules: Rules,
    halves: SplitFunction,
    name: str,
    operands: Sequence[tuple[ir.Type, bool]],
    results: Sequence[tuple[ir.Type, bool]],
    in_trees: Sequence[Any],
    out_tree: Any,
) -> tuple[Program, Program]:
    """Two programs: ``(*args) -> (result, residuals)``, and ``name``, which is ``(residuals,
    *operands) -> results``.  The second half takes some of the operands and gives some of the
    results, as the flags say; the other results are zero."""
    with scope():
        inputs = list(rules.program.function(halves.second).type.inputs)
        residuals = [(t, True) for t in inputs[: halves.num_residuals]]
        fwd, sizes = _with_sizes(program, rules, halves, [*residuals, *operands])
        residuals += [(t, False) for t in sizes]
        adapted = adapt(rules, halves.second, name, [*residuals, *operands], results)
        rules.program.changed()
        of_first = reachable(rules.program.functions, fwd)
    residual_tree = jax.tree.structure((0,) * len(residuals))
    fwd_out = tuple_of([program.out_tree, residual_tree])
    in_tree = arguments_of(residual_tree, *in_trees)
    first, names = rules.program.clone(among=of_first), (f"{program.name}.fwd", program.arg_names)
    return (
        finish(first, fwd, program.in_tree, fwd_out, *names),
        finish(rules.program, adapted, in_tree, out_tree, name),
    )


def _with_sizes(
    program: Program, rules: Rules, halves: SplitFunction, operands: Sequence[tuple[ir.Type, bool]]
) -> tuple[str, list[ir.Type]]:
    """``@halves.first``, with a further residual for symbolic sizes if one is needed, and its type.
    The other half finds symbolic sizes in its operands' shapes.  Some shapes do not determine them,
    such as ``f32[a * b]``.  Then the residual is an array without elements whose shape does."""
    missing = sizes_missing_in([aval_of(type_) for type_, _ in operands], program)
    if missing is None:
        return halves.first, []
    type_, sizes = rules.program.function(halves.first).type, type_of(missing)
    taken, given = ([(t, True) for t in side] for side in (type_.inputs, type_.results))
    fwd = adapt(rules, halves.first, f"{program.name}.fwd", taken, [*given, (sizes, False)])
    num_residuals = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), halves.num_residuals + 1)
    rules.program.function(fwd).attributes["jaxpr.num_res"] = num_residuals
    return fwd, [sizes]


# --- gradients, Jacobians and Hessians ------------------------------------------------------------


def grad(
    program: Program,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
    value: bool = False,
    while_loops: str = "error",
    checkpoints: int | None = None,
) -> Program:
    """The program of :meth:`Program.grad` or, with ``value``, of :meth:`Program.value_and_grad`."""
    (args_tree, _), out_tree = program.in_tree.children(), program.out_tree
    positions = to_differentiate(argnums, args_tree)
    chosen = leaves_of(args_tree, positions)
    value_tree, aux_tree = _value_and_aux(program) if has_aux else (out_tree, None)
    if not jax.tree_util.treedef_is_leaf(value_tree):
        is_pair = not has_aux and _is_pair(out_tree)
        hint = "; with has_aux=True, the second of a pair is auxiliary" if is_pair else ""
        raise at_public(
            program,
            f"grad of @{program.name}: expected one scalar as its result, got "
            f"{arguments.structure(value_tree)}{hint}",
        )
    _check_types(program, chosen, holomorphic, allow_int)
    result, rules, symbol = start(program, while_loops, checkpoints, reverse=True)
    with scope():
        inputs = list(result.function(symbol).type.inputs)
        tangible = active_arguments(result, symbol, ())
        selected = frozenset(chosen)
        active = tuple(i in selected and a for i, a in enumerate(tangible))
        gradient = grad_function(rules, symbol, active, has_aux=has_aux, value=value)
        function = result.function(gradient)
        outs = returned(function)
        values, outs = (outs[:1], outs[1:]) if value else ([], outs)
        n = sum(active)
        cotangents = dict(zip((i for i, a in enumerate(active) if a), outs[:n], strict=True))
        aux = outs[n:]
        with ir.InsertionPoint.at_block_terminator(function.entry_block), function.location:
            types = [cotangent_type(inputs[i]) for i in chosen]
            gradients = instantiated(map(cotangents.get, chosen), types)
        results = [*values, *aux, *gradients] if value else [*gradients, *aux]
        set_results(function, results)
    pieces = [args_tree.children()[i] for i in positions]
    grads = tuple_of(pieces) if integer(argnums) is None else pieces[0]
    if value:
        first_tree = value_tree if aux_tree is None else tuple_of([value_tree, aux_tree])
        tree = tuple_of([first_tree, grads])
    else:
        tree = grads if aux_tree is None else tuple_of([grads, aux_tree])
    return finish(result, gradient, program.in_tree, tree, f"{symbol}.grad", program.arg_names)


def _value_and_aux(program: Program) -> list[Any]:
    """The pytrees of the two elements of the pair that a program returns."""
    tree = program.out_tree
    if not _is_pair(tree):
        raise at_public(
            program,
            f"has_aux: @{program.name} must return a pair (value, auxiliary), got "
            f"{arguments.structure(tree)}",
        )
    return tree.children()


def _is_pair(tree: Any) -> bool:
    node = tree.node_data()
    return node is not None and issubclass(node[0], (tuple, list)) and len(tree.children()) == 2


def _check_types(
    program: Program, chosen: Sequence[int], holomorphic: bool, allow_int: bool
) -> None:
    """Checks the conditions of ``jax.grad`` on the types of arguments and result."""
    kind = jnp.complexfloating if holomorphic else jnp.inexact
    first_of: dict[Any, int] = {}
    for i in chosen:
        first_of.setdefault(program.in_avals[i].dtype, i)
    for dtype, i in first_of.items():
        if not jax.dtypes.issubdtype(dtype, kind) and not (allow_int and not holomorphic):
            raise at_public(
                program,
                f"grad of @{program.name}: argument {program.name_of_argument(i)} must have a "
                f"sub-dtype of {kind.__name__}, got {dtype}"
                + ("" if holomorphic else "; allow_int=True gives integers a gradient of float0"),
            )
    dtype = program.out_avals[0].dtype if program.out_avals else None
    result_kind = jnp.complexfloating if holomorphic else jnp.floating
    if dtype is None or not jax.dtypes.issubdtype(dtype, result_kind):
        raise at_public(
            program,
            f"grad of @{program.name}: the result must have a sub-dtype of {result_kind.__name__}, "
            f"got {dtype}",
        )
    if program.out_avals[0].shape:
        raise at_public(
            program,
            f"the gradient of @{program.name}: expected a scalar result, got "
            f"{program.out_avals[0].str_short()}; jacrev differentiates all its elements",
        )


def jacobian(
    program: Program,
    kind: str,
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    while_loops: str = "error",
    checkpoints: int | None = None,
    **options: Any,
) -> Program:
    """``jax.jacfwd``, ``jax.jacrev`` or ``jax.hessian`` of a program, as a program.

    They are compositions of jvp, vjp and vmap with pytree bookkeeping.  JAX composes them, and the
    passes do the work, since they transform a program that is called inside JAX code.

    A Hessian is forward over reverse.  A function with a custom VJP rule has no derivative in
    forward mode; a Hessian that meets one is reverse over reverse.

    Raises:
      ArgumentError: ``argnums`` name no argument.
      ForwardModeError: ``jax.jacfwd`` meets such a function.
      TransformError: an argument or result has no such derivative, or an op cannot be
        differentiated.
    """
    to_differentiate(argnums, program.in_tree.children()[0])
    options |= {"argnums": argnums, "has_aux": has_aux, "holomorphic": holomorphic}
    program, _, _ = start(program, while_loops, checkpoints, custom_rules="all")
    derivative = composed(program, kind, getattr(jax, kind)(program, **options))
    if not _needs_forward_mode(derivative):
        return derivative
    if kind == "hessian":
        return composed(program, kind, jax.jacrev(jax.jacrev(program, **options), **options))
    # Lowering raises the error, which names the function and the user's line.
    by_keyword = program.in_tree.children()[1].num_leaves
    (derivative if by_keyword else program.jvp()).lower()
    return derivative


def _needs_forward_mode(program: Program) -> bool:
    """Whether a program runs a ``custom_lin`` that was not transposed."""
    liveness = liveness_of(program)
    if not any(name == "jaxpr.custom_lin" for _, name in liveness.all_ops()):
        return False
    for symbol, results, _ in liveness.needed([whole(program._function(program.name))]):
        dead = liveness.of(symbol, results).dead
        ops = enumerate(liveness.ops(symbol))
        if any(name == "jaxpr.custom_lin" and i not in dead for i, (_, name) in ops):
            return True
    return False


def composed(program: Program, kind: str, of_jax: Callable[..., Any]) -> Program:
    """The program of a function that JAX composes of transformations of ``program``."""
    from jaxmlir.program.staging import trace

    transformed = arguments.called(program, of_jax, f"{program.name}.{kind}")
    try:
        with program.widths:
            args, kwargs = arguments.abstract(program)
            return trace(transformed)(*args, **kwargs)
    except JaxmlirError:
        raise
    except (TypeError, ValueError) as e:  # JAX's errors about dtypes, ``has_aux``, no results
        raise at_public(program, f"{kind} of @{program.name}: {e}") from e
    except core.InconclusiveDimensionOperation as e:  # JAX splits the Jacobian at sums of sizes
        advice = f"use program.specialize(...).{kind}() for given sizes"
        raise at_public(program, f"{kind} of @{program.name}: {advice}; {e}") from e

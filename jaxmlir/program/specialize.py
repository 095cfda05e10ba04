"""Specialization: symbolic shapes to concrete sizes, and abstract meshes to a kind of device.

A program that was traced for shapes such as ``f32[b, 2*b]`` has dimensions that are expressions of
variables, in its types and among its attributes.  At given sizes every expression is a number, and
the result is a program like any other.  The sizes may also be expressions themselves, over the
variables of a caller that is traced for symbolic shapes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from jaxmlir._compat import core, shape_poly
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import func, parse_module, scope
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArgumentError
from jaxmlir.rewriting.sizes import Sizes, SizeSubstitution, evaluate, plain

M = TypeVar("M", bound="Module")


def is_symbolic(aval: Any) -> bool:
    """Whether an abstract value has a dimension that is not a number."""
    return not core.is_constant_shape(getattr(aval, "shape", ()))


def solve(program: Module, shapes: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The sizes of a program's dimension variables for arguments of some shapes.

    Args:
      shapes: the shapes of the flat arguments; they agree with constant dimensions of the program.

    Raises:
      ArgumentError: no sizes fit, or they violate a constraint or may do so; names the constraint.
    """
    avals = program.in_avals
    try:
        solution, constraints, measured = shape_poly.solve_dim_vars(avals, program.in_tree)
        evaluator = shape_poly.ShapeEvaluator({name: shapes[i][dim] for name, i, dim in measured})
        sizes = {name: plain(evaluator.evaluate(size)) for name, size in solution.items()}
        _check_explicit(program, avals, sizes)
        variables = {name for size in solution.values() for name in size._get_vars()}
        found_in = {(i, dim) for name, i, dim in measured if name in variables}
        _check_shapes(program, shapes, sizes, found_in)
        constraints.check_statically(evaluator)
    except (ValueError, shape_poly.UnexpectedDimVar, core.InconclusiveDimensionOperation) as e:
        raise ArgumentError(f"@{program.name}: {e}") from None
    return sizes


def sizes_missing_in(avals: Sequence[Any], program: Module) -> Any | None:
    """The argument that a function of ``avals`` lacks to determine a program's symbolic sizes: an
    abstract value without elements, whose shape has all dimension variables of the program's
    arguments; ``None`` where the shapes of ``avals`` determine these."""
    symbolic = [dim for aval in program.in_avals if is_symbolic(aval) for dim in aval.shape]
    symbolic = [dim for dim in symbolic if not core.is_constant_dim(dim)]
    if not symbolic:
        return None
    variables = sorted({name for dim in symbolic for name in dim._get_vars()})
    try:
        tree = jax.tree.structure((tuple(avals), {}))
        solution = shape_poly.solve_dim_vars(tuple(avals), tree)[0]
    except (ValueError, shape_poly.UnexpectedDimVar):
        solution = {}
    if solution.keys() >= set(variables):
        return None
    sizes = [shape_poly._DimExpr._from_var(name, symbolic[0].scope) for name in variables]
    return core.ShapedArray((0, *sizes), np.dtype(bool))


def _check_explicit(program: Module, avals: Sequence[Any], sizes: Sizes) -> None:
    """Checks the constraints that the user has set; errors quote them as they were written."""
    dims = (dim for aval in avals for dim in getattr(aval, "shape", ()))
    symbolic = next((dim for dim in dims if not core.is_constant_dim(dim)), None)
    if symbolic is None:
        return
    explicit = symbolic.scope._explicit_constraints
    states = [(_holds(constraint, sizes), f"'{constraint.debug_str}'") for constraint in explicit]
    violated = [text for holds, text in states if holds is False]
    undecided = [text for holds, text in states if holds is None]
    sizes_text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    if violated:
        raise ArgumentError(
            f"@{program.name}: the arguments' shapes give {sizes_text}, which violates the "
            f"constraint {' and '.join(violated)} that the program was traced with"
        )
    if undecided:
        raise ArgumentError(
            f"@{program.name}: the arguments' shapes give {sizes_text}, for which nothing implies "
            f"the constraint {' and '.join(undecided)}; add constraints that imply it to the scope "
            "of the arguments' sizes"
        )


def _check_shapes(
    program: Module,
    shapes: Sequence[tuple[Any, ...]],
    sizes: Sizes,
    found_in: Collection[tuple[int, int]],
) -> None:
    """Checks the shapes of arguments against those of the program at given sizes.  Symbolic sizes,
    and the dimensions ``(argument, axis)`` in which the sizes were found, are not compared."""
    for i, (aval, shape) in enumerate(zip(program.in_avals, shapes, strict=True)):
        expected = [evaluate(dim, sizes) for dim in getattr(aval, "shape", ())]
        pairs = enumerate(zip(expected, shape, strict=True))
        others = [pair for dim, pair in pairs if (i, dim) not in found_in]
        if any(core.is_constant_shape(pair) and pair[0] != pair[1] for pair in others):
            sizes_text = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise ArgumentError(
                f"@{program.name}: argument {program.name_of_argument(i)} is "
                f"{aval.str_short(short_dtypes=True)}, with {sizes_text} by the arguments' shapes; "
                f"expected the shape [{', '.join(map(str, expected))}], got "
                f"[{', '.join(map(str, shape))}]"
            )


def _holds(constraint: Any, sizes: Sizes) -> bool | None:
    """Whether a constraint holds at given sizes; ``None`` if symbolic sizes leave it open."""
    try:
        difference = evaluate(constraint.diff, sizes)
        if constraint.cmp.name != "EQ":
            return difference >= 0
        return difference == 0 if core.is_constant_dim(difference) else None
    except ZeroDivisionError:  # `floordiv(a, b)` with b = 0, which is no valid size
        return False
    except core.InconclusiveDimensionOperation:
        return None


def specialize(program: M, sizes: Sizes) -> M:
    """A copy of a program with its dimension variables fixed."""
    result = program.clone()
    scopes = (size.scope for size in sizes.values() if not core.is_constant_dim(size))
    result.sizes_scope = next(scopes, None)
    with scope():
        substitution = SizeSubstitution(sizes)
        for op in result.module.body.operations:
            if isinstance(op, func.FuncOp):
                substitution.function(op)
    result.changed()
    return result


def for_device_of(program: Module, flat: Sequence[Any]) -> Any:
    """The program, with its arguments' kind of device in meshes that do not name a kind.  Programs
    loaded from files have such meshes.  JAX compares types with the kind of device in them, so it
    has to be the same in all."""
    meshes = [aval.sharding.mesh for aval in program.in_avals if hasattr(aval, "sharding")]
    if all(mesh.empty or mesh.abstract_device is not None for mesh in meshes):
        return program
    shardings = (getattr(core.typeof(value), "sharding", None) for value in flat)
    kinds = (sharding.mesh.abstract_device for sharding in shardings if sharding is not None)
    kind = next((kind for kind in kinds if kind is not None), None)
    specialized = program._specialized
    if kind is not None and kind not in specialized:
        with scope():
            text = f"{{AbstractMesh = {{abstract_device = {codec.encode(kind)}, axis_names = "
        whole = program.as_text(debug_info=True)
        specialized[kind] = program.clone()
        # A quotation mark within a string is escaped.
        whole = re.sub(r"\{AbstractMesh = \{axis_names = (?=[\[{])", lambda _: text, whole)
        specialized[kind].module = parse_module(whole)
        specialized[kind].changed()
    return program if kind is None else specialized[kind]

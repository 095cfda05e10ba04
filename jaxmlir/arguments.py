"""The arguments of a program: their pytree, shapes and dtypes against what it was traced for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir import specialize as specialization
from jaxmlir._compat import core
from jaxmlir.errors import ArgumentError

if TYPE_CHECKING:
    from jaxmlir.program import Program


def flatten(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call, flat and of the program's types.

    Raises:
      ArgumentError: they have another pytree, shape or dtype.
    """
    flat = check_tree(program, args, kwargs)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path((args, kwargs))[0]]
    return [
        _convert(program, value, aval, path)
        for value, aval, path in zip(flat, program.in_avals, paths, strict=True)
    ]


def check_tree(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The leaves of arguments that have the program's pytree.

    Raises:
      ArgumentError: they have another.
    """
    flat, tree = jax.tree.flatten((args, kwargs))
    if tree != program.in_tree:
        raise ArgumentError(
            f"@{program.name} takes arguments of the pytree {_tree_text(program.in_tree)}, "
            f"got {_tree_text(tree)}"
        )
    return flat


def abstract(program: Program) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments that stand for the ones a program takes."""
    return jax.tree.unflatten(program.in_tree, map(_abstract, program.in_avals))


def _abstract(aval: Any) -> Any:
    if isinstance(aval, core.ShapedArray):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    return aval


def refines(value: Any, aval: Any) -> bool:
    """Whether an argument of concrete shape stands where the shape is symbolic."""
    return specialization.is_symbolic(aval) and core.is_constant_shape(np.shape(value))


def _convert(program: Program, value: Any, aval: Any, path: Any) -> Any:
    """A flat argument with the aval that the program was traced for."""
    have = core.typeof(value)
    if not isinstance(aval, core.ShapedArray) or not isinstance(have, core.ShapedArray):
        return value
    same_shape = have.shape == aval.shape or not all(type(d) is int for d in aval.shape)
    if have.dtype != aval.dtype and have.weak_type and _widens(have.dtype, aval.dtype):
        value = jax.lax.convert_element_type(value, aval.dtype)
        have = have.update(dtype=aval.dtype)
    if not same_shape or have.dtype != aval.dtype:
        raise ArgumentError(
            f"@{program.name}: argument {_argument_name(path)} must be "
            f"{aval.str_short(short_dtypes=True)}, got {have.str_short(short_dtypes=True)}"
        )
    if have.weak_type != aval.weak_type:
        value = jax.lax.convert_element_type_p.bind(
            value, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
        )
    return value


def _widens(have: Any, want: Any) -> bool:
    """Whether a Python scalar of dtype ``have`` may stand for one of ``want``: 1 for a float."""
    order = [jax.numpy.integer, jax.numpy.floating, jax.numpy.complexfloating]

    def rank(dtype: Any) -> int:
        return next((i for i, k in enumerate(order) if jax.dtypes.issubdtype(dtype, k)), -1)

    return 0 <= rank(have) <= rank(want)


def _tree_text(tree: Any) -> str:
    args, kwargs = jax.tree.unflatten(tree, ["*"] * tree.num_leaves)
    parts = [*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())]
    return f"({', '.join(parts)})".replace("'*'", "*")


def _argument_name(path: Any) -> str:
    (side, first, *rest) = path
    name = str(first.idx) if side.idx == 0 else str(first.key)
    return name + jax.tree_util.keystr(rest)

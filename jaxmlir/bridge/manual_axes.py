"""A program called where values vary over the axes of a mesh: inside ``jax.shard_map``.

A type there says over which *manual* axes a value varies (``check_vma=True``), and JAX's functions
cast operands of one op to the same axes: a value that is the same on all devices is cast by
``pcast``, whose transpose sums the devices' cotangents.  A program's ops have the types of its
trace, which mostly knew of no axes.  So its call is treated as one op: arguments are cast to all
axes that one of them varies over, beyond those that it was traced with, and so are its results.
Where its ops take the place of the call, they get types that vary so (:func:`retyped`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxmlir._compat import config, core

Axes = frozenset[Any]


def axes_of(aval: Any) -> Axes:
    """The axes that a value varies over."""
    return aval.mat.varying if isinstance(aval, core.ShapedArray) else frozenset()


def added(operands: Sequence[Any], avals: Sequence[Any]) -> list[Axes]:
    """For each argument of a call, the axes that it varies over and its operand does not.

    Args:
      operands: the abstract values that the function was traced for.
      avals: those of the arguments.
    """
    if not config._check_vma.value:
        return [frozenset()] * len(operands)
    return [axes_of(aval) - axes_of(operand) for aval, operand in zip(avals, operands, strict=True)]


def cast(operands: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arguments of a call, each varying over what one of them adds to its operand."""
    avals = list(map(core.typeof, args))
    axes = frozenset().union(*added(operands, avals))
    if not axes:
        return list(args)

    def cast_one(arg: Any, aval: Any, operand: Any) -> Any:
        if not isinstance(aval, core.ShapedArray):
            return arg
        missing = (axes | axes_of(operand)) - axes_of(aval)
        order = [axis for axis in jax.sharding.get_abstract_mesh().axis_names if axis in missing]
        return jax.lax.pcast(arg, tuple(order), to="varying")

    return list(map(cast_one, args, avals, operands))


def results(signature: Any, avals: Sequence[Any]) -> list[Any]:
    """The abstract values of a call's results, for arguments of these abstract values."""
    axes = frozenset().union(*added(signature.operands, avals))
    if not axes:
        return list(signature.results)
    mesh = _mesh_of(axes, avals)
    return [varying(aval, axes, mesh) for aval in signature.results]


def _mesh_of(axes: Axes, avals: Sequence[Any]) -> Any:
    """The abstract mesh that values vary over axes of."""
    return next(aval.sharding.mesh for aval in avals if axes & axes_of(aval))


def varying(aval: Any, axes: Axes, mesh: Any) -> Any:
    """An abstract value inside a mesh that varies over more axes of it."""
    if not isinstance(aval, core.ShapedArray):
        return aval
    sharding = aval.sharding
    spec = PartitionSpec(*[None] * aval.ndim) if sharding.mesh.empty else sharding.spec
    sharding = NamedSharding(inside(sharding.mesh, mesh), spec)
    kind = aval.mat.update(varying=aval.mat.varying | axes)
    return aval.update(sharding=sharding, manual_axis_type=kind)


def inside(own: Any, mesh: Any) -> Any:
    """An abstract mesh where the manual axes of another are manual."""
    if own.empty:
        return mesh
    manual = [axis for axis in mesh.manual_axes if axis in own.axis_names]
    return own.update_axis_types(dict.fromkeys(manual, AxisType.Manual))


def retyped(callee: Any, avals: Sequence[Any]) -> Any:
    """The callee of a call with arguments of these abstract values, typed as these vary.

    Raises:
      TransformError: JAX refuses an op of it on operands that vary so.
    """
    pairs = zip(avals, callee.signature.operands, strict=True)
    axes = frozenset().union(*[axes_of(aval) - axes_of(operand) for aval, operand in pairs])
    if not axes:
        return callee
    program, symbol = callee.derived("vary", (axes, _mesh_of(axes, avals)))
    return program.callee(symbol)


def classes(
    axes: Sequence[Axes], n: int, needed: Callable[[int], Sequence[bool]]
) -> dict[Axes, list[int]]:
    """The indices of ``n`` results by the axes of the arguments that they depend on.

    Args:
      axes: those of each argument.
      needed: which arguments a result depends on.
    """
    if len(set(axes)) <= 1:
        return {frozenset().union(*axes): list(range(n))}
    indices: dict[Axes, list[int]] = {}
    for i in range(n):
        needed_axes = [a for a, need in zip(axes, needed(i), strict=True) if need]
        indices.setdefault(frozenset().union(*needed_axes), []).append(i)
    return indices

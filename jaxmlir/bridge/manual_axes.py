"""Calls of a program inside ``jax.shard_map``, where values vary over the axes of a mesh.

With ``check_vma=True`` a type says over which *manual* axes a value varies, and JAX's functions
cast the operands of an op to the same axes: ``pcast`` casts a value that is the same on all
devices, and its transpose sums the devices' cotangents.  A program was mostly traced without such
axes.  So its call is treated as one op: if an argument varies over axes that its operand was not
traced with, all arguments are cast to these axes, and all results vary over them.  Where the
program's ops replace the call, they get such types (:func:`retyped`).
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
    """For each argument of a call, the axes that it varies over and the operand that the function
    was traced for does not."""
    if not config._check_vma.value:
        return [frozenset()] * len(operands)
    return [axes_of(aval) - axes_of(operand) for aval, operand in zip(avals, operands, strict=True)]


def cast(operands: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The arguments of a call, all cast to the axes that any of them adds to its operand."""
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
    """The abstract mesh that has the axes, taken from a value that varies over one of them."""
    return next(aval.sharding.mesh for aval in avals if axes & axes_of(aval))


def varying(aval: Any, axes: Axes, mesh: Any) -> Any:
    """The abstract value made to vary over more axes, inside the mesh that has these axes."""
    if not isinstance(aval, core.ShapedArray):
        return aval
    sharding = aval.sharding
    spec = PartitionSpec(*[None] * aval.ndim) if sharding.mesh.empty else sharding.spec
    sharding = NamedSharding(inside(sharding.mesh, mesh), spec)
    kind = aval.mat.update(varying=aval.mat.varying | axes)
    return aval.update(sharding=sharding, manual_axis_type=kind)


def inside(own: Any, mesh: Any) -> Any:
    """The abstract mesh ``own`` with the manual axes of ``mesh`` made manual."""
    if own.empty:
        return mesh
    manual = [axis for axis in mesh.manual_axes if axis in own.axis_names]
    return own.update_axis_types(dict.fromkeys(manual, AxisType.Manual))


def retyped(callee: Any, avals: Sequence[Any]) -> Any:
    """The callee, with types that vary over the axes that the arguments of the call add."""
    pairs = zip(avals, callee.signature.operands, strict=True)
    axes = frozenset().union(*[axes_of(aval) - axes_of(operand) for aval, operand in pairs])
    if not axes:
        return callee
    program, symbol = callee.derived("vary", (axes, _mesh_of(axes, avals)))
    return program.callee(symbol)


def classes(
    axes: Sequence[Axes], n: int, needed: Callable[[int], Sequence[bool]]
) -> dict[Axes, list[int]]:
    """The indices of ``n`` results, grouped by the axes of the arguments that they depend on, which
    ``needed`` tells for an index."""
    if len(set(axes)) <= 1:
        return {frozenset().union(*axes): list(range(n))}
    indices: dict[Axes, list[int]] = {}
    for i in range(n):
        needed_axes = [a for a, need in zip(axes, needed(i), strict=True) if need]
        indices.setdefault(frozenset().union(*needed_axes), []).append(i)
    return indices

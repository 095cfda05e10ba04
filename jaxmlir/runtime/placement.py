"""Makes the devices that a program mentions known to JAX."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxmlir._compat import close_jaxpr, core, debug_info, dispatch, named_sharding, pe
from jaxmlir.bridge.exporter import equation
from jaxmlir.dialect.ir import context
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import JaxmlirError, LoweringError, count

# Primitives whose parameters say on which devices values are.  Added to these are the primitives
# that JAX can lower only if it knows the devices.
_PLACED = frozenset(
    {"call_exported", "compute_on", "device_put", "jit", "shard_map", "sharding_constraint"}
)

# Whether a program is lowered for given platforms, whose devices need not be present.
_ELSEWHERE: ContextVar[bool] = ContextVar("elsewhere", default=False)


def placement_of(program: Module, ops: Iterable[tuple[Any, str]]) -> Any | None:
    """A jaxpr of the program's equations, among those ops, that mention devices; ``None`` if there
    are none.  JAX decides on which devices a computation runs by searching its equations for
    shardings, including sub-jaxprs in parameters.  A call of a program hides its body, so JAX finds
    the shardings in this jaxpr."""
    needs_devices = {p.name for p in dispatch.prim_requires_devices_during_lowering}
    names = {f"jaxpr.{name}" for name in _PLACED | needs_devices}
    eqns = []
    with context():
        for op, name in ops:
            if name in names:
                invars = [core.Var(aval_of(v.type)) for v in op.operands]
                eqn = equation(program.stubs, op, name, invars)
                if name != "jaxpr.jit" or _has_shardings(eqn.params):
                    eqns.append(eqn)
    return _placement(eqns) if eqns else None


def _placement(eqns: Sequence[Any]) -> Any:
    """A jaxpr of the equations, which is never run."""
    invars = [v for eqn in eqns for v in eqn.invars]
    info = debug_info("jit", "placement", len(invars), 0)
    effects = pe.make_jaxpr_effects([], invars, [], eqns)
    return close_jaxpr(core.Jaxpr([], invars, [], eqns, effects, info))


def devices_of(arrays: Iterable[Any]) -> int:
    """The number of devices that a computation is partitioned over, as far as tracing knows it from
    types or shardings of the arguments."""
    shardings = (getattr(x, "sharding", x) for x in arrays)
    return max((_partitions(getattr(sharding, "mesh", None)) for sharding in shardings), default=1)


def _partitions(mesh: Any) -> int:
    """The number of devices of a mesh along axes that are not manual."""
    if mesh is None or mesh.empty:
        return 1
    manual = jax.sharding.AxisType.Manual
    sizes = zip(mesh.axis_types, mesh.shape.values(), strict=True)
    return math.prod(size for kind, size in sizes if kind != manual)


def _open_mesh(placement: Any | None) -> Any | None:
    """The mesh that a program mentions without naming devices, as in a file; ``None`` if there is
    none."""
    for eqn in () if placement is None else placement.eqns:
        for value in jax.tree.leaves(eqn.params):
            mesh = getattr(value, "mesh", value)
            if isinstance(mesh, jax.sharding.AbstractMesh) and mesh.size > 1:
                return mesh
    return None


@contextlib.contextmanager
def default_mesh(program: Module, values: Any) -> Iterator[None]:
    """Sets a mesh for a program that names no devices, unless JAX is tracing or a mesh is set.  Its
    devices are those of an argument's mesh of that size, or else the first local ones; a
    :class:`LoweringError` if there are too few."""
    mesh = _open_mesh(program.placement)
    if mesh is None or _is_set() or not core.trace_state_clean():
        yield
        return
    devices = jax.devices()
    for value in jax.tree.leaves(values):
        on = getattr(getattr(value, "sharding", None), "mesh", None)
        if isinstance(on, Mesh) and on.size == mesh.size:
            devices = [*on.devices.flat]
    if len(devices) < mesh.size:
        raise LoweringError(
            f"@{program.name} is for {_described(mesh)}, but there are {len(devices)} here: choose "
            "devices by jax.set_mesh(mesh), or lower it for a platform"
        )
    with jax.set_mesh(_on_devices(mesh, devices)):
        yield


def _is_set() -> bool:
    return not jax.sharding.get_abstract_mesh().empty


def _on_devices(mesh: Any, devices: Sequence[Any]) -> Mesh:
    """The mesh on the first of the devices."""
    places = np.array(devices[: mesh.size]).reshape(mesh.axis_sizes)
    return Mesh(places, mesh.axis_names, axis_types=mesh.axis_types)


def with_devices(placement: Any | None) -> Any | None:
    """The placement of a call.  If it has a mesh without devices and no mesh is set, the first
    local devices are added, if there are enough."""
    mesh = _open_mesh(placement)
    if mesh is None or _is_set():
        return placement
    return _with_first_devices(placement, mesh, _ELSEWHERE.get())


# Cached because JAX and jaxmlir compare the placements of calls by identity.
@functools.lru_cache(256)
def _with_first_devices(placement: Any, mesh: Any, elsewhere: bool) -> Any:
    devices = jax.devices()
    if len(devices) >= mesh.size:
        mesh = _on_devices(mesh, devices)
    elif not elsewhere:
        return placement
    sharding = NamedSharding(mesh, PartitionSpec())
    # JAX takes a mesh without devices from the shardings of a jit only.
    more = jax.make_jaxpr(jax.jit(lambda x: x, out_shardings=sharding))(0.0)
    return _placement([*placement.eqns, *more.eqns])


def on_mesh(program: Module, jitted: Any) -> Any:
    """The compiled call of a program; sets the default mesh if the mesh is chosen at the call."""
    return _MeshCall(program, jitted) if _open_mesh(program.placement) is not None else jitted


class _MeshCall:
    def __init__(self, program: Module, jitted: Any):
        self._program, self._jitted = program, jitted
        self.lower, self.trace = jitted.lower, jitted.trace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with default_mesh(self._program, (args, kwargs)):
            return self._jitted(*args, **kwargs)


def check_devices(placement: Any | None, axis_context: Any) -> None:
    """Fails if a computation with an open mesh is lowered, in JAX's axis context, for another
    number of devices than the placement has."""
    mesh = _open_mesh(placement)
    num_devices = getattr(axis_context, "num_devices", None)
    if mesh is not None and num_devices not in (None, mesh.size):
        raise LoweringError(
            f"a program for {_described(mesh)} is lowered for {count(num_devices, 'device')}: "
            "call it inside jax.set_mesh(mesh), or on arrays that are on such a mesh"
        )
    _check_axes(placement, jax.sharding.get_abstract_mesh())


def _check_axes(placement: Any | None, chosen: Any) -> None:
    """Fails if a ``shard_map`` has other mesh axes than the mesh that is set.  Its function was
    traced for shards of arrays, and collectives number devices in the order of the axes."""
    for eqn in () if placement is None or chosen.empty else placement.eqns:
        if eqn.primitive.name != "shard_map" or _axes(eqn.params["mesh"]) == _axes(chosen):
            continue
        raise LoweringError(
            f"a shard_map over {_described(eqn.params['mesh'])} is lowered for "
            f"{_described(chosen)}: set a mesh of the same axes in the same order"
        )


def _axes(mesh: Any) -> list[tuple[Any, int]]:
    return [axis for axis in mesh.shape.items() if axis[1] != 1]


def _described(mesh: Any) -> str:
    axes = ", ".join(f"{name}: {size}" for name, size in mesh.shape.items())
    return f"a mesh of {mesh.size} devices ({axes})"


@contextlib.contextmanager
def mesh_wanted(name: str) -> Iterator[None]:
    """Turns JAX's errors about a missing mesh into a :class:`LoweringError`."""
    try:
        yield
    except JaxmlirError:
        raise
    except ValueError as e:
        if "mesh" not in str(e).lower():
            raise
        raise LoweringError(
            f"@{name} uses arrays that are sharded over a mesh, but no mesh of devices is set: "
            "lower, compile and call it inside jax.set_mesh(mesh), or lower it for a platform "
            f"({type(e).__name__}: {' '.join(str(e).split())})"
        ) from e


@contextlib.contextmanager
def mesh_for(program: Module, platforms: Any | None) -> Iterator[None]:
    """Lowers a program on the mesh that is set, or a default one; for given platforms, on none."""
    with mesh_wanted(program.name):
        if platforms is not None:
            token = _ELSEWHERE.set(True)
            try:
                yield
            finally:
                _ELSEWHERE.reset(token)
            return
        with default_mesh(program, ()):
            yield


def _has_shardings(parameters: dict[str, Any]) -> bool:
    shardings = (*parameters["in_shardings"], *parameters["out_shardings"])
    return any(s is not named_sharding.UNSPECIFIED for s in shardings)

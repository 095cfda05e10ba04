"""Where JAX finds the devices that a program mentions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jaxmlir._compat import close_jaxpr, core, debug_info, dispatch, named_sharding, pe
from jaxmlir.bridge.exporter import equation
from jaxmlir.dialect.ir import context
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import JaxmlirError, LoweringError

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Ops whose parameters say where values live; and any that JAX lowers knowing the devices.
_PLACED = frozenset(
    {"call_exported", "compute_on", "device_put", "jit", "shard_map", "sharding_constraint"}
)


def placement_of(program: Module, ops: Iterable[tuple[Any, str]]) -> Any | None:
    """A jaxpr of the program's equations that mention devices; ``None`` if there are none.

    JAX decides on which devices a computation runs by searching its equations, sub-jaxprs in
    parameters included, for shardings.  It finds them here, in an equation that hides its body.

    Args:
      ops: those that count, with their names.
    """
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
    if not eqns:
        return None
    invars = [v for eqn in eqns for v in eqn.invars]
    info = debug_info("jit", "placement", len(invars), 0)
    effects = pe.make_jaxpr_effects([], invars, [], eqns)
    return close_jaxpr(core.Jaxpr([], invars, [], eqns, effects, info))


@contextlib.contextmanager
def mesh_wanted(name: str) -> Iterator[None]:
    """Has what JAX says of a mesh, whose devices a program does not name, be an error of ours."""
    try:
        yield
    except JaxmlirError:
        raise
    except ValueError as e:
        if "mesh" not in str(e).lower():
            raise
        raise LoweringError(
            f"@{name} is of arrays that are sharded over a mesh, and no mesh of devices is set: "
            "lower, compile and call it inside jax.set_mesh(mesh), or lower it for a platform "
            f"({type(e).__name__}: {' '.join(str(e).split())})"
        ) from e


def _has_shardings(parameters: dict[str, Any]) -> bool:
    shardings = (*parameters["in_shardings"], *parameters["out_shardings"])
    return any(s is not named_sharding.UNSPECIFIED for s in shardings)

"""Examples of placement on devices and in memory."""

from __future__ import annotations

from typing import Any

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from lit_examples._example import example, f32

X = f32(1, 2, 3, 4)


def mesh(axis_type: AxisType = AxisType.Auto) -> jax.sharding.Mesh:
    """Two of the CPU devices that ``--xla_force_host_platform_device_count`` makes."""
    return jax.make_mesh((2,), ("i",), axis_types=(axis_type,), devices=jax.devices()[:2])


BY_ROWS = P("i")


def on_each(function: Any, out: Any = BY_ROWS, **options: Any) -> Any:
    """Runs the function on each device of the mesh, on that device's part of the argument."""
    return jax.shard_map(function, mesh=mesh(), in_specs=BY_ROWS, out_specs=out, **options)


def _constrained(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh(), P("i")))


EXAMPLES = {
    "shard_map": example(lambda x: on_each(lambda part: part + part[0])(x), X),
    "device_put": example(
        lambda x: jax.device_put(x, jax.devices()[0]) + 1, X, hlo=("stablehlo.add",)
    ),
    "sharding_constraint": example(
        _constrained, X, hlo=('sdy.sharding_constraint %{{.*}} <@mesh, [{"i"}]>',)
    ),
    "layout_constraint": example(lambda x: with_layout_constraint(x, Layout((1, 0))), f32([1, 2])),
}

OWN_HOSTS = "It needs a program over several hosts."
WITHOUT = {
    "reshard": "It needs a mesh with explicit axes, in the context that the types come from.",
    "relayout": "It needs types with layouts.",
    "shard_alike": "Only JAX 0.10 has it, and deprecates it.",
    "inspect_sharding": "It calls Python from the compiler, and has no result.",
    "with_memory_space_constraint": "It stands in kernels only.",
    "remove_memory_space": "It stands in kernels only.",
    "global_array_to_host_local_array": OWN_HOSTS,
    "host_local_array_to_global_array": OWN_HOSTS,
}

"""Ops on several devices: placement and communication."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, family, group, op, unary, variadic

SHARDING = family(
    "sharding",
    "Placement: devices, shardings, layouts and memory spaces. The values do not change.",
    variadic(
        "shard_map",
        "Calls a function on every device of a mesh, each with its own shard of the operands.",
        "jaxpr: function, mesh: mesh, in_specs: each operand's any, out_specs: each result's any, "
        "check_vma: bool = true, newly_manual_axes: any",
        inverse="no rule: it runs on several devices, which exchange values",
    ),
    variadic(
        "device_put",
        "Moves each operand to a device, a sharding or a memory space.",
        "devices: any, srcs: any, copy_semantics: any",
        linear=(0, ...),
        inverse="the result itself",
    ),
    unary(
        "sharding_constraint",
        "The operand, constrained to a sharding.",
        "sharding: sharding, layout: layout?, context_mesh: mesh?, unconstrained_dims: any?",
        linear=(0,),
        inverse="the result itself",
    ),
    unary(
        "reshard",
        "The operand, with another sharding in its type.",
        "dst_sharding: sharding, concrete_mesh: mesh?",
        linear=(0,),
    ),
    unary(
        "layout_constraint",
        "The operand, constrained to a memory layout.",
        "layout: layout",
        linear=(0,),
        inverse="the result itself",
    ),
    unary(
        "relayout",
        "The operand, with another memory layout in its type.",
        "dst_layout: layout",
        jax=">=0.11",
        linear=(0,),
    ),
    op(
        "shard_alike",
        2,
        2,
        "Both operands, constrained to one sharding.",
        jax="<0.11",
        linear=(0, 1),
    ),
    op(
        "inspect_sharding",
        1,
        0,
        "Calls a Python function with the sharding that the compiler chose for the operand.",
        "callback: handle",
    ),
    unary(
        "with_memory_space_constraint",
        "The operand, constrained to a memory space.",
        "memory_space: any",
    ),
    unary("remove_memory_space", "The operand, without a memory space in its type."),
    unary(
        "global_array_to_host_local_array",
        "This host's part of an array over all hosts.",
        "global_mesh: mesh, pspec: spec",
        linear=(0,),
    ),
    unary(
        "host_local_array_to_global_array",
        "The array over all hosts, from this host's part.",
        "global_mesh: mesh, pspec: spec",
        linear=(0,),
    ),
    traits=(Trait.IMPURE,),
    inverse="no rule: it changes where a value is, not what it is",
)

_AXES = "axes: axes"
_NAME = "axis_name: axes"
_GROUPS = "axis_index_groups: any?"
_GATHER = f"all_gather_dimension: int, {_NAME}, axis_size: int, tiled: bool"
_SCATTER = f"{_NAME}, scatter_dimension: int, axis_size: int, tiled: bool"
_EXCHANGE = f"split_axis: int, concat_axis: int, {_NAME}, {_GROUPS}, tiled: bool = false"

_ONCE = "a future is waited for once"


def _start(name: str, *attributes: str, **fields: object) -> Op:
    """The asynchronous half of a collective, which returns a future that ``*_done`` waits for."""
    return unary(
        f"{name}_start",
        f"Starts {name}; the result is a future.",
        *attributes,
        distinct=_ONCE,
        **fields,
    )


def _done(name: str, **fields: object) -> Op:
    return unary(
        f"{name}_done",
        f"Waits for the future of {name}_start; the result is its value.",
        distinct=_ONCE,
        **fields,
    )


_REDUCTIONS = group(
    unary("psum", "Sum over the devices of mesh axes.", _AXES, _GROUPS, linear=(0,)),
    unary("pmax", "Maximum over the devices of mesh axes.", _AXES, _GROUPS),
    unary("pmin", "Minimum over the devices of mesh axes.", _AXES, _GROUPS),
    unary(
        "psum_invariant",
        "psum whose result is typed as equal on all devices of the axes.",
        _AXES,
        linear=(0,),
    ),
    unary("unreduced_psum", "Sums an operand typed as unreduced.", _AXES, linear=(0,)),
    unary("unreduced_pmax", "Maximum of an operand typed as unreduced.", _AXES, jax=">=0.11"),
    unary("unreduced_pmin", "Minimum of an operand typed as unreduced.", _AXES, jax=">=0.11"),
    unary(
        "reduce_scatter",
        "psum whose result is scattered: each device keeps its part along a dimension.",
        _SCATTER,
        _GROUPS,
        linear=(0,),
    ),
    unary(
        "unreduced_reduce_scatter",
        "reduce_scatter of an operand typed as unreduced.",
        _SCATTER,
        linear=(0,),
    ),
    inverse="not invertible: a reduction over devices is many-to-one",
)

COLLECTIVES = family(
    "collectives",
    "Collectives: communication over named mesh axes, inside `shard_map`.",
    op("axis_index", 0, 1, "This device's index along mesh axes, a scalar integer.", _NAME),
    *_REDUCTIONS,
    # Movement
    unary(
        "all_gather",
        "Every device's operand, joined (tiled) or stacked along a dimension.",
        _GATHER,
        _GROUPS,
        linear=(0,),
    ),
    unary(
        "all_gather_invariant",
        "all_gather whose result is typed as equal on all devices of the axes.",
        _GATHER,
        linear=(0,),
    ),
    unary(
        "all_gather_reduced", "all_gather whose result is typed as reduced.", _GATHER, linear=(0,)
    ),
    unary(
        "all_to_all",
        "Splits along one dimension, sends a part to each device, joins along another.",
        _EXCHANGE,
        linear=(0,),
    ),
    op(
        "ragged_all_to_all",
        6,
        1,
        "all_to_all with parts of run-time sizes; operands (operand, output, input_offsets, "
        "send_sizes, output_offsets, recv_sizes).",
        _NAME,
        _GROUPS,
        linear=(0, 1),
    ),
    unary(
        "ppermute",
        "Sends the operand along (source, destination) pairs; zeros where nothing arrives.",
        _NAME,
        "perm: any",
        linear=(0,),
    ),
    unary(
        "pbroadcast",
        "One device's operand, on every device of the axes.",
        _NAME,
        "source: int",
        linear=(0,),
        inverse="not invertible: the other devices' operands are lost",
    ),
    binary(
        "pbroadcast_dynamic",
        "The operand of the device whose index is the second operand, on every device of the axes.",
        _NAME,
        jax=">=0.12",
        linear=(0,),
    ),
    unary(
        "psend",
        "Sends the operand along (source, destination) pairs; the result is a token.",
        _NAME,
        "perm: any",
        distinct="every message is sent",
    ),
    unary(
        "precv",
        "Receives an array along (source, destination) pairs; the operand is a token.",
        "out_shape: type",
        _NAME,
        "perm: any",
        distinct="every message is received once",
    ),
    # Types that say over which axes a value varies
    unary("pvary", "The operand, typed as varying over mesh axes.", _AXES, linear=(0,)),
    unary("preduced", "The operand, typed as reduced over mesh axes.", _AXES, linear=(0,)),
    unary(
        "reduced_vary_cast",
        "The operand, typed as varying where it was reduced.",
        _AXES,
        linear=(0,),
        primitives=("reduced_vary_cast", "reduced_vary_cast_p"),
    ),
    unary(
        "vary_unreduced_cast",
        "The operand, typed as unreduced where it was varying.",
        _AXES,
        linear=(0,),
        primitives=("vary_unreduced_cast", "vary_unreduced_cast_p"),
    ),
    # Asynchronous collectives
    _start("all_gather", _GATHER, _GROUPS),
    _start("all_gather_reduced", _GATHER),
    _done("all_gather"),
    _start("all_to_all", _EXCHANGE),
    _done("all_to_all"),
    _start("pbroadcast", _NAME, "source: int", jax="<0.11"),
    _done("pbroadcast", jax="<0.11"),
    _start("ppermute", _NAME, "perm: any"),
    _done("ppermute"),
    _start("psum", _AXES, _GROUPS, jax="<0.11"),
    _start("psum_invariant", _AXES),
    _start("unreduced_psum", _AXES, jax="<0.11"),
    _done("psum"),
    _start("reduce_scatter", _SCATTER, _GROUPS),
    _start("unreduced_reduce_scatter", _SCATTER, jax="<0.11"),
    _done("reduce_scatter"),
    traits=(Trait.IMPURE,),
    inverse="no rule: it needs the values of other devices",
)

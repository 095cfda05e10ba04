"""Placement: devices, shardings, layouts and memory spaces. The values stay what they are."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary, with_traits, without_inverse

OPS: tuple[Op, ...] = (
    op(
        "shard_map",
        None,
        None,
        "Calls a function on every device of a mesh, each with its own part of the operands.",
        "jaxpr: function",
        "mesh: mesh",
        "in_specs: any",
        "out_specs: any",
        "check_vma: bool = true",
        "newly_manual_axes: any",
        inverse="no rule: it runs on several devices, which exchange values",
    ),
    op(
        "device_put",
        None,
        None,
        "Moves each operand to a device, a sharding or a memory space.",
        "devices: any",
        "srcs: any",
        "copy_semantics: any",
        linear=(0, ...),
        inverse="the result itself",
    ),
    unary(
        "sharding_constraint",
        "The operand, laid out over devices as told.",
        "sharding: sharding",
        "layout: layout?",
        "context_mesh: mesh?",
        "unconstrained_dims: any?",
        linear=(0,),
        inverse="the result itself",
    ),
    unary(
        "reshard",
        "The operand, under another sharding in its type.",
        "dst_sharding: sharding",
        "concrete_mesh: mesh?",
        linear=(0,),
    ),
    unary(
        "layout_constraint",
        "The operand, in a layout of memory as told.",
        "layout: layout",
        linear=(0,),
        inverse="the result itself",
    ),
    unary(
        "relayout",
        "The operand, under another memory layout in its type.",
        "dst_layout: layout",
        jax=">=0.11",
        linear=(0,),
    ),
    op(
        "shard_alike",
        2,
        2,
        "Both operands, laid out over devices alike.",
        jax="<0.11",
        linear=(0, 1),
    ),
    op(
        "inspect_sharding",
        1,
        0,
        "Calls back with the sharding that the compiler chose for the operand.",
        "callback: handle",
    ),
    unary(
        "with_memory_space_constraint",
        "The operand, in a memory space as told.",
        "memory_space: any",
    ),
    unary(
        "remove_memory_space",
        "The operand, its type without a memory space.",
    ),
    unary(
        "global_array_to_host_local_array",
        "This host's part of an array over all hosts.",
        "global_mesh: mesh",
        "pspec: spec",
        linear=(0,),
    ),
    unary(
        "host_local_array_to_global_array",
        "An array over all hosts, of this host's part.",
        "global_mesh: mesh",
        "pspec: spec",
        linear=(0,),
    ),
)

OPS = with_traits(
    without_inverse("no rule: it changes where a value is, not what it is", OPS), Trait.IMPURE
)

"""Examples of calls."""

from __future__ import annotations

from typing import Any

import jax
from jax import export, lax
from jax.ad_checkpoint import checkpoint_name
from jax.custom_batching import custom_vmap
from jax.experimental import compute_on, custom_partitioning, xla_metadata

import jaxmlir
from lit_examples._example import Example, bind, bound, example, f32

X = f32(1, 2)


def square(x: Any) -> Any:
    return x * x


def _call(primitive: str, **options: str) -> Example:
    def function(x: Any) -> Any:
        jaxpr = jax.make_jaxpr(square)(x)
        if primitive == "call":
            jaxpr = jaxpr.jaxpr
        return bind(primitive, x, call_jaxpr=jaxpr)

    return example(function, X, **options)


@custom_vmap
def batched_in_its_own_way(x: Any) -> Any:
    return x * x


@batched_in_its_own_way.def_vmap
def _batching_rule(axis_size: int, in_batched: Any, x: Any) -> Any:
    return x * x, True


@jaxmlir.custom_inverse
def inverted_in_its_own_way(x: Any) -> Any:
    return x * x


inverted_in_its_own_way.definverse(lax.sqrt, lambda x, y: lax.reduce_sum(lax.log(2 * x), [0]))


@custom_partitioning.custom_partitioning
def partitioned_in_its_own_way(x: Any) -> Any:
    return x * x


def _partition(mesh: Any, arg_shapes: Any, result_shape: Any) -> Any:
    return mesh, square, arg_shapes[0].sharding, (arg_shapes[0].sharding,)


partitioned_in_its_own_way.def_partition(partition=_partition, sharding_rule="i -> i")


def _in_order(x: Any) -> Any:
    import jax.experimental.overlap  # Registers the primitive.

    return bind(
        "program_order",
        x,
        call_jaxpr=jax.make_jaxpr(square)(x),
        enforce=True,
        strict_in=False,
        strict_out=False,
        exclude_mask=(False,),
    )


def _on_host(x: Any) -> Any:
    space = jax.typeof(x).memory_space
    return compute_on.compute_on2(square, compute_type="device_host", out_memory_spaces=space)(x)


NO_USER = "The primitives of `hijax` are instances of a user's classes."

EXAMPLES = {
    "jit": example(lambda x: jax.jit(square)(x), X),
    "call": _call("call"),
    "closed_call": _call("closed_call"),
    "eval_jaxpr": _call("eval_jaxpr", requires="jax-0.12"),
    "program_order": example(_in_order, X),
    "remat2": example(jax.checkpoint(lambda x: lax.sin(lax.sin(x))), X),
    "name": example(lambda x: checkpoint_name(x, "hidden"), X),
    "composite": example(lax.composite(square, "my.square", version=2), X),
    "custom_vmap_call": example(lambda x: batched_in_its_own_way(x), X),
    "custom_inverse_call": example(inverted_in_its_own_way, X),
    "custom_partitioning": example(lambda x: partitioned_in_its_own_way(x), X),
    "call_exported": bound("call_exported", X, exported=export.export(jax.jit(square))(X)),
    "compute_on": example(_on_host, X, hlo=("call @",)),
    "xla_metadata_call": example(
        lambda x: xla_metadata.xla_metadata_call(square, scheduling_group="1")(x),
        X,
        hlo=("call @",),
        requires="jax-0.12",
    ),
    "xla_metadata_value": example(
        lambda x: xla_metadata.set_xla_metadata(x * x, kind="square"),
        X,
        hlo=('stablehlo.multiply %{{.*}}, %{{.*}} {mhlo.frontend_attributes = {kind = "square"}}',),
    ),
}
WITHOUT = {
    "call_hi_primitive": NO_USER,
    "call_hi_primitive_linearized": NO_USER,
    "fused_call": "It fuses over memory spaces that CPU does not have.",
    "unreachable": "It raises an error as soon as it is compiled.",
}

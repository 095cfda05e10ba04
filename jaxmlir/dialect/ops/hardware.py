"""Kernels for one kind of hardware, as JAX calls them: cuDNN, Pallas, Mosaic."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, attr, op, with_traits, without_inverse

_ATTENTION = (
    "scale: float",
    "seed: int",
    "dropout_rate: float",
    "variadic_args: any",
    "mask_type: any",
    "layout: any",
    "sliding_window_length: int?",
)
# A function that changes scores: the call is given its jaxpr.
_SCORE_MOD = {
    "inside": ("score_mod_jaxpr: any? @ >=0.12", "score_mod_name: str? @ >=0.12"),
    "outside": ("score_mod: any? @ >=0.12",),
}
_FP8 = ("scale: float", "use_causal_mask: bool", "layout: any")
_RNN = (
    "input_size: int",
    "hidden_size: int",
    "num_layers: int",
    "dropout: float",
    "bidirectional: bool",
    "cudnn_allow_tf32: bool",
)


def _attention(
    direction: str,
    summary: str,
    *attributes: str,
    inside: tuple[str, ...] = (),
    outside: tuple[str, ...] = (),
) -> tuple[Op, ...]:
    """The cuDNN call, and the wrapper around it that batching and partitioning see.

    Args:
      inside, outside: attributes of the one and of the other only.
    """
    name, wrapped = f"dot_product_attention_{direction}", f"{summary}, batched and partitioned."
    return (
        op(name, None, None, f"{summary} by cuDNN.", *attributes, *inside),
        op(f"{name}_wrapper", None, None, wrapped, *attributes, *outside),
    )


OPS: tuple[Op, ...] = (
    # cuDNN
    *_attention("fwd", "Attention", *_ATTENTION, "is_training: bool", **_SCORE_MOD),
    *_attention("bwd", "Gradient of attention", *_ATTENTION, **_SCORE_MOD),
    *_attention("fp8_fwd", "Attention in fp8", *_FP8, "is_training: bool"),
    *_attention("fp8_bwd", "Gradient of attention in fp8", *_FP8),
    op(
        "cudnn_fusion",
        None,
        None,
        "Calls a function that cuDNN fuses into one kernel.",
        "name: str",
        "jaxpr: function",
    ),
    op("rnn_fwd", 5, None, "A cuDNN LSTM, of operands (x, h0, c0, weights, lengths).", *_RNN),
    op("rnn_bwd", 10, None, "Gradient of a cuDNN LSTM.", *_RNN),
    op(
        "scaled_matmul",
        4,
        None,
        "Product of block-scaled matrices by cuDNN, of operands (a, b, a_scale, b_scale).",
        "preferred_element_type: dtype",
    ),
    op(
        "scaled_matmul_wrapper",
        4,
        None,
        "scaled_matmul, batched and partitioned.",
        "preferred_element_type: dtype",
    ),
    # Kernels
    op(
        "pallas_call",
        None,
        None,
        "Runs a kernel, a function on references to blocks, over a grid.",
        "jaxpr: function",
        "grid_mapping: record GridMapping",
        "out_avals: types",
        "input_output_aliases: any = ()",
        "name: str?",
        "mesh: mesh?",
        "compiler_params: any?",
        "cost_estimate: any?",
        "metadata: any?",
        "interpret: any = false",
        "debug: bool = false",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "mpmd_map",
        None,
        None,
        "Runs a kernel on each of several meshes of cores at once.",
        "jaxprs: functions",
        "meshes: any",
        "external_meshes: any = ()",
        "out_avals: types",
        "input_output_aliases: any = ()",
        "name: str?",
        "compiler_params: any?",
        "cost_estimate: any?",
        "metadata: any?",
        "interpret: any = false",
        "debug: bool = false",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "core_map",
        None,
        None,
        "Runs a function on every core of a mesh.",
        "jaxpr: function",
        "mesh: mesh",
        "debug_info: handle?",
        "name: str?",
        "compiler_params: any?",
        "cost_estimate: any?",
        "metadata: any?",
        "interpret: any = false",
        "debug: bool = false",
        jax="<0.11",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "tpu_custom_call",
        None,
        None,
        "A compiled TPU kernel.",
        "config: handle",
        "kernel_name: str?",
        "out_avals: types",
        "has_side_effects: any = false",
        "input_output_aliases: any = ()",
        "metadata: any?",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "mosaic_gpu_p",
        None,
        None,
        "A compiled Mosaic GPU kernel.",
        "module: handle",
        "out_types: types",
        "inout_types: types",
        "input_output_aliases: any = ()",
        "use_custom_barrier: bool = false",
        "cost_estimate: any? @ >=0.12",
        "skip_device_barrier: bool = false @ >=0.11",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "custom_fusion",
        None,
        None,
        "Calls a function that says itself how Pallas fuses it.",
        "jaxpr: function",
        "num_consts: int = 0",
        "eval_rule: handle",
        "pull_block_spec_rule: handle?",
        "push_block_spec_rule: handle?",
        "pallas_jaxpr: function?",
        "pallas_num_consts: int = 0",
        "in_tree: tree @ <0.12",
        "out_tree: tree @ <0.12",
        "kernel_out_tree: tree @ <0.12",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "fusible",
        None,
        None,
        "Calls a function that Pallas may fuse with its producers and consumers.",
        "jaxpr: function",
        "num_consts: int = 0",
        "in_tree: tree",
        "out_tree: tree",
        "func: handle",
        "output_fusion_prefix: any?",
        jax="<0.11",
    ),
    op(
        "thunky_inline_constant",
        0,
        1,
        "Bytes embedded in the executable, as an array of unsigned 8-bit integers.",
        attr("value: any"),
        primitives=("thunky.inline_constant",),
        jax=">=0.12",
        traits=(Trait.CUSTOM_CALL,),
    ),
)

OPS = with_traits(without_inverse("no rule: what the kernel computes is opaque", OPS), Trait.IMPURE)

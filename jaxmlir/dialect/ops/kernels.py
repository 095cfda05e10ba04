"""Kernels, and the ops inside them."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, attr, family, op, unary, variadic

_ATTENTION = (
    "scale: float, seed: int, dropout_rate: float, variadic_args: any, mask_type: any, "
    "layout: any, sliding_window_length: int?"
)
# A function that changes scores, whose jaxpr the call gets.
_SCORE_MOD = {
    "inside": "score_mod_jaxpr: any? @ >=0.12, score_mod_name: str? @ >=0.12",
    "outside": "score_mod: any? @ >=0.12",
}
_FP8 = "scale: float, use_causal_mask: bool, layout: any"
_RNN = (
    "input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool, "
    "cudnn_allow_tf32: bool"
)


def _attention(
    direction: str, summary: str, attributes: str, inside: str = "", outside: str = ""
) -> tuple[Op, ...]:
    """The cuDNN call, with attributes ``inside``, and the wrapper around it that is batched and
    partitioned, with attributes ``outside``."""
    name, wrapped = f"dot_product_attention_{direction}", f"{summary}, batched and partitioned."
    return (
        variadic(name, f"{summary} by cuDNN.", attributes, inside),
        variadic(f"{name}_wrapper", wrapped, attributes, outside),
    )


HARDWARE = family(
    "hardware",
    "Kernels for one kind of hardware, as JAX calls them: cuDNN, Pallas, Mosaic.",
    # cuDNN
    *_attention("fwd", "Attention", f"{_ATTENTION}, is_training: bool", **_SCORE_MOD),
    *_attention("bwd", "Gradient of attention", _ATTENTION, **_SCORE_MOD),
    *_attention("fp8_fwd", "Attention in fp8", f"{_FP8}, is_training: bool"),
    *_attention("fp8_bwd", "Gradient of attention in fp8", _FP8),
    variadic(
        "cudnn_fusion",
        "Calls a function that cuDNN fuses into one kernel.",
        "name: str, jaxpr: function",
    ),
    op("rnn_fwd", 5, None, "A cuDNN LSTM; operands (x, h0, c0, weights, lengths).", _RNN),
    op("rnn_bwd", 10, None, "Gradient of a cuDNN LSTM.", _RNN),
    op(
        "scaled_matmul",
        4,
        None,
        "Product of block-scaled matrices by cuDNN; operands (a, b, a_scale, b_scale).",
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
    variadic(
        "pallas_call",
        "Runs a kernel, a function on references to blocks, over a grid.",
        "jaxpr: function, grid_mapping: record GridMapping, out_avals: types, "
        "input_output_aliases: any = (), name: str?, mesh: mesh?, compiler_params: any?, "
        "cost_estimate: any?, metadata: any?, interpret: any = false, debug: bool = false",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "mpmd_map",
        "Runs a kernel on each of several meshes of cores at once.",
        "jaxprs: functions, meshes: any, external_meshes: any = (), out_avals: types, "
        "input_output_aliases: any = (), name: str?, compiler_params: any?, cost_estimate: any?, "
        "metadata: any?, interpret: any = false, debug: bool = false",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "core_map",
        "Runs a function on every core of a mesh.",
        "jaxpr: function, mesh: mesh, debug_info: handle?, name: str?, compiler_params: any?, "
        "cost_estimate: any?, metadata: any?, interpret: any = false, debug: bool = false",
        jax="<0.11",
        bodies="inspected",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "tpu_custom_call",
        "A compiled TPU kernel.",
        "config: handle, kernel_name: str?, out_avals: types, has_side_effects: any = false, "
        "input_output_aliases: any = (), metadata: any?",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "mosaic_gpu_p",
        "A compiled Mosaic GPU kernel.",
        "module: handle, out_types: types, inout_types: types, input_output_aliases: any = (), "
        "use_custom_barrier: bool = false, cost_estimate: any? @ >=0.12, "
        "skip_device_barrier: bool = false @ >=0.11",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "custom_fusion",
        "Calls a function that has its own rules for fusion by Pallas.",
        "jaxpr: function, num_consts: int = 0, eval_rule: handle, pull_block_spec_rule: handle?, "
        "push_block_spec_rule: handle?, pallas_jaxpr: function?, pallas_num_consts: int = 0, "
        "in_tree: tree @ <0.12, out_tree: tree @ <0.12, kernel_out_tree: tree @ <0.12",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "fusible",
        "Calls a function that Pallas may fuse with its producers and consumers.",
        "jaxpr: function, num_consts: int = 0, in_tree: tree, out_tree: tree, func: handle, "
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
    traits=(Trait.IMPURE,),
    inverse="no rule: what the kernel computes is opaque",
    distinct="a kernel may do anything",
)

_TREE = "args_tree: tree"
_DMA = "tree: tree, device_id_type: any"

KERNEL = family(
    "kernel",
    """Ops inside the kernels of `pallas_call`: on blocks of references, on every platform.

Instructions of one backend (tensor memory, warp groups, matrix units) are not in the table: they
are imported like a user's own primitive, and stay in the kernel that they were written for.
""",
    # The grid
    op("program_id", 0, 1, "This program's index along a grid axis.", "axis: int"),
    op("num_programs", 0, 1, "The number of programs along a grid axis.", "axis: int"),
    # Masked access
    op(
        "masked_load",
        None,
        1,
        "Reads ref[indices] where the mask holds; operands are the leaves of args_tree.",
        _TREE,
        "eviction_policy: any?, cache_modifier: any?, is_volatile: bool = false",
    ),
    op(
        "masked_swap",
        None,
        1,
        "Writes ref[indices] where the mask holds and returns the old values.",
        _TREE,
        "eviction_policy: any?",
    ),
    # Facts for the compiler
    unary("multiple_of", "The operand, known to be a multiple of each value.", "values: any"),
    unary(
        "max_contiguous",
        "The operand, known to rise by ones in runs of these lengths.",
        "values: any",
    ),
    # Elementwise and shape
    unary(
        "reciprocal", "1 / x, fast if approximate.", "approx: bool = false, full_range: bool = true"
    ),
    unary("broadcast_to", "Broadcasts as numpy does.", "shape: ints", linear=(0,)),
    unary(
        "bitcast",
        "The same bits as another type.",
        # The backend of the kernel determines which of the attributes are present.
        "ty: any = absent, dim: int = absent, dtype: dtype = absent",
    ),
    op(
        "roll",
        2,
        1,
        "Rolls along an axis by the second operand, by `stride` more for each index of "
        "stride_axis.",
        "axis: int, stride: int?, stride_axis: int?",
        linear=(0,),
    ),
    unary(
        "einshape_lo",
        "Splits, merges and permutes dimensions as an equation says.",
        "equation: str, sizes: any, assert_is_tile_preserving: bool = false",
        linear=(0,),
    ),
    # Copies and synchronisation
    op("dma_start", None, 0, "Starts a copy between references.", _DMA, "priority: int, add: bool"),
    op(
        "dma_wait",
        None,
        0,
        "Waits for a copy.",
        _DMA,
        "insert_dummy_device: bool? @ <0.12, is_wait_send: bool? @ >=0.11",
    ),
    op("semaphore_read", None, 1, "A semaphore's count.", _TREE),
    op(
        "semaphore_signal",
        None,
        0,
        "Raises a semaphore's count, on any device.",
        _TREE,
        "device_id_type: any, memory_scope: str = absent",
    ),
    op(
        "semaphore_wait",
        None,
        0,
        "Waits for a semaphore's count.",
        _TREE,
        "memory_scope: str = absent",
    ),
    op(
        "get_barrier_semaphore", 0, 1, "The semaphore that all devices share.", "tag: any? @ >=0.11"
    ),
    op("get_global", 0, 1, "A reference to memory that all programs share.", "what: any"),
    op("delay", 1, 0, "Waits for the operand's number of nanoseconds."),
    traits=(Trait.IMPURE,),
    inverse="no rule: kernels are not inverted",
    distinct="it acts on the memory of a kernel",
)

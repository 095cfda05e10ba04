"""Examples of kernels, which run here in Pallas' interpreter, and of the ops inside them."""

from __future__ import annotations

from typing import Any

import jax
from jax.experimental import pallas as pl

from lit_examples._example import Example, example, f32

X = f32(1, 2, 3, 4)


def _kernel(body: Any, grid: tuple[int, ...] = ()) -> Example:
    """A kernel ``body(x_ref, out_ref)`` on vectors of four elements."""

    def run(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, out_shape=shape, grid=grid, interpret=True)(x)

    return example(run, X)


def _doubled(x_ref: Any, out_ref: Any) -> None:
    out_ref[...] = 2 * x_ref[...]


def _counted(x_ref: Any, out_ref: Any) -> None:
    i = pl.program_id(0)
    out_ref[i] = x_ref[i] + 10 * i


EXAMPLES = {
    "pallas_call": _kernel(_doubled),
    "program_id": _kernel(_counted, (4,)),
}

CUDNN = "It calls cuDNN, which only a GPU has."
GPU = "It stands in GPU kernels only."
TPU = "It stands in TPU kernels only."
FUSER = "Pallas' fuser makes it for itself, out of a user's Python functions."
WITHOUT = {
    **dict.fromkeys(
        (
            "dot_product_attention_fwd",
            "dot_product_attention_fwd_wrapper",
            "dot_product_attention_bwd",
            "dot_product_attention_bwd_wrapper",
            "dot_product_attention_fp8_fwd",
            "dot_product_attention_fp8_fwd_wrapper",
            "dot_product_attention_fp8_bwd",
            "dot_product_attention_fp8_bwd_wrapper",
            "cudnn_fusion",
            "rnn_fwd",
            "rnn_bwd",
            "scaled_matmul",
            "scaled_matmul_wrapper",
        ),
        CUDNN,
    ),
    **dict.fromkeys(
        (
            "mpmd_map",
            "core_map",
            "tpu_custom_call",
            "roll",
            "einshape_lo",
            "dma_start",
            "dma_wait",
            "semaphore_read",
            "semaphore_signal",
            "semaphore_wait",
            "get_barrier_semaphore",
            "get_global",
            "delay",
            "bitcast",
        ),
        TPU,
    ),
    **dict.fromkeys(
        ("mosaic_gpu_p", "masked_load", "masked_swap", "multiple_of", "max_contiguous"), GPU
    ),
    "num_programs": "Where the grid is known, a number takes its place.",
    "reciprocal": "It stands in kernels only.",
    "broadcast_to": "It stands in kernels only.",
    "custom_fusion": FUSER,
    "fusible": FUSER,
    "thunky_inline_constant": "It embeds bytes of an executable that only its own package makes.",
}

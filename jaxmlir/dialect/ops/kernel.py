"""Ops inside the kernels of `pallas_call`: on blocks of references, on every platform.

Instructions of one backend (tensor memory, warp groups, matrix units) are not in the table: they
are imported like a user's own primitive, and stay in the kernel that they were written for.
"""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary, with_traits, without_inverse

_TREE = "args_tree: tree"
_DMA = ("tree: tree", "device_id_type: any")

OPS: tuple[Op, ...] = (
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
        "eviction_policy: any?",
        "cache_modifier: any?",
        "is_volatile: bool = false",
    ),
    op(
        "masked_swap",
        None,
        1,
        "Writes ref[indices] where the mask holds and gives the old values.",
        _TREE,
        "eviction_policy: any?",
    ),
    # Facts for the compiler
    unary(
        "multiple_of",
        "The operand, known to be a multiple of each value.",
        "values: any",
    ),
    unary(
        "max_contiguous",
        "The operand, known to rise by ones in runs of each value.",
        "values: any",
    ),
    # Elementwise and shape
    unary(
        "reciprocal",
        "1 / x, fast if approximate.",
        "approx: bool = false",
        "full_range: bool = true",
    ),
    unary("broadcast_to", "Broadcasts as numpy does.", "shape: ints", linear=(0,)),
    unary(
        "bitcast",
        "The same bits as another type.",
        # Which of them there are depends on the backend whose kernel it is.
        "ty: any = absent",
        "dim: int = absent",
        "dtype: dtype = absent",
    ),
    op(
        "roll",
        2,
        1,
        "Rolls along an axis by the second operand, by `stride` more for each index of "
        "stride_axis.",
        "axis: int",
        "stride: int?",
        "stride_axis: int?",
        linear=(0,),
    ),
    unary(
        "einshape_lo",
        "Splits, merges and permutes dimensions as an equation says.",
        "equation: str",
        "sizes: any",
        "assert_is_tile_preserving: bool = false",
        linear=(0,),
    ),
    # Copies and synchronisation
    op(
        "dma_start",
        None,
        0,
        "Starts a copy between references.",
        *_DMA,
        "priority: int",
        "add: bool",
    ),
    op(
        "dma_wait",
        None,
        0,
        "Waits for a copy.",
        *_DMA,
        "insert_dummy_device: bool? @ <0.12",
        "is_wait_send: bool? @ >=0.11",
    ),
    op("semaphore_read", None, 1, "A semaphore's count.", _TREE),
    op(
        "semaphore_signal",
        None,
        0,
        "Raises a semaphore's count, on any device.",
        _TREE,
        "device_id_type: any",
        "memory_scope: str = absent",
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
)

OPS = with_traits(without_inverse("no rule: kernels are not inverted", OPS), Trait.IMPURE)

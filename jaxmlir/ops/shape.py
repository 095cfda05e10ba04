"""Shapes and layouts of elements: creation, broadcasting, permutation, joining, conversion."""

from __future__ import annotations

from jaxmlir.ops._record import OURS, Op, binary, op, unary

OPS: tuple[Op, ...] = (
    # Creation
    op(
        "constant",
        0,
        1,
        "An array known when the program was written: `value`, or under `name` in the side table "
        "of large constants.",
        "value: any?",
        "name: str?",
        jax=OURS,
    ),
    op(
        "iota",
        0,
        1,
        "x[i] = i along one dimension, constant along the others.",
        "dtype: dtype",
        "shape: ints",
        "dimension: int",
        "sharding: sharding?",
    ),
    op(
        "iota_2x32_shape",
        0,
        2,
        "The high and the low 32 bits of a 64-bit row-major counter of the given shape.",
        "shape: ints",
    ),
    op(
        "empty",
        0,
        1,
        "An array whose elements are not defined.",
        "shape: ints",
        "dtype: dtype",
        "out_sharding: sharding?",
    ),
    op(
        "empty2",
        0,
        1,
        "A scalar placeholder in a memory space, its value not defined.",
        "dtype: dtype",
        "memory_space: any?",
    ),
    unary(
        "zeros_like",
        "Zeros of the operand's shape and dtype.",
        inverse="not invertible: it is constant",
    ),
    # Rearrangement: each result element is one operand element
    unary(
        "broadcast_in_dim",
        "Repeats the operand: its dimension i becomes result dimension broadcast_dimensions[i].",
        "shape: ints",
        "broadcast_dimensions: ints",
        "sharding: sharding?",
        linear=(0,),
        inverse="the first element along each repeated dimension",
    ),
    unary(
        "reshape",
        "The same elements in row-major order in another shape; `dimensions` permutes first.",
        "new_sizes: ints",
        "dimensions: ints?",
        "sharding: sharding?",
        linear=(0,),
        inverse="reshape",
    ),
    unary(
        "squeeze",
        "Drops dimensions of size 1.",
        "dimensions: ints",
        linear=(0,),
        inverse="broadcast_in_dim",
    ),
    unary(
        "transpose",
        "Permutes the dimensions: result dimension i is operand dimension permutation[i].",
        "permutation: ints",
        linear=(0,),
        inverse="transpose",
    ),
    unary(
        "rev",
        "Reverses the order of the elements along dimensions.",
        "dimensions: ints",
        linear=(0,),
        inverse="rev",
    ),
    unary(
        "tile",
        "Repeats the operand reps[i] times along dimension i.",
        "reps: ints",
        linear=(0,),
        inverse="slice",
    ),
    unary(
        "copy",
        "A copy in a buffer of its own.",
        linear=(0,),
        inverse="copy",
        distinct="each copy has a buffer of its own",
    ),
    # Joining and parting
    op(
        "concatenate",
        None,
        1,
        "Joins the operands along a dimension.",
        "dimension: int",
        linear=(0, ...),
    ),
    op(
        "stack",
        None,
        1,
        "Joins operands of one shape along a new axis.",
        "axis: int",
        linear=(0, ...),
    ),
    op(
        "unstack",
        1,
        None,
        "Parts the operand along an axis, which disappears.",
        "axis: int",
        linear=(0,),
    ),
    op(
        "split",
        1,
        None,
        "Parts the operand along an axis into pieces of the given sizes.",
        "sizes: ints",
        "axis: int",
        linear=(0,),
    ),
    binary(
        "pad",
        "Surrounds and interleaves the operand with the second operand, a scalar: (low, high, "
        "interior) for each dimension.",
        "padding_config: any",
        linear=(0, 1),
    ),
    # Conversion
    unary(
        "convert_element_type",
        "Converts to another dtype.",
        "new_dtype: dtype",
        "weak_type: bool = false",
        "sharding: sharding?",
        linear=(0,),
        inverse="convert_element_type where no bits were lost",
    ),
    unary(
        "bitcast_convert_type",
        "The same bits as another dtype; widths that differ add or drop a last dimension.",
        "new_dtype: dtype",
        inverse="bitcast_convert_type",
    ),
    unary(
        "to_edtype",
        "An array of the representation type as one of an extended dtype.",
        "edtype: dtype",
        inverse="from_edtype",
    ),
    unary(
        "from_edtype",
        "An array of an extended dtype as one of its representation type.",
        "dtype: dtype",
        inverse="to_edtype",
    ),
    # Dimensions known only when the program runs
    op(
        "dimension_size",
        1,
        1,
        "Size of one dimension of the operand, a scalar integer.",
        "dimension: int",
    ),
    op(
        "dim_as_value",
        0,
        1,
        "Value of a symbolic dimension expression, a scalar integer.",
        "dim: any",
    ),
    op(
        "shape_assertion",
        None,
        0,
        "Stops the program unless the first operand is true; the others complete the message.",
        "error_message: str",
    ),
)

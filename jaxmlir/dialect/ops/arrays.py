"""Ops that make, move, select and replace elements."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import OURS, Op, Trait, binary, family, group, op, unary

_MOVEMENT = group(
    # Rearrangement: each result element is one operand element
    unary(
        "broadcast_in_dim",
        "Repeats the operand: its dimension i becomes result dimension broadcast_dimensions[i].",
        "shape: ints, broadcast_dimensions: ints, sharding: sharding?",
        inverse="the first element along each repeated dimension",
        traits=(Trait.VIEW,),
    ),
    unary(
        "reshape",
        "The same elements in row-major order in another shape; `dimensions` permutes first.",
        "new_sizes: ints, dimensions: ints?, sharding: sharding?",
        inverse="reshape",
        traits=(Trait.RESHAPE, Trait.VIEW),
    ),
    unary(
        "squeeze",
        "Drops dimensions of size 1.",
        "dimensions: dimensions",
        inverse="broadcast_in_dim",
        traits=(Trait.RESHAPE, Trait.VIEW),
    ),
    unary(
        "transpose",
        "Permutes the dimensions: result dimension i is operand dimension permutation[i].",
        "permutation: dimensions",
        inverse="transpose",
        traits=(Trait.VIEW,),
    ),
    unary(
        "rev",
        "Reverses the order of the elements along dimensions.",
        "dimensions: dimensions",
        inverse="rev",
    ),
    unary(
        "tile",
        "Repeats the operand reps[i] times along dimension i.",
        "reps: ints",
        inverse="slice",
    ),
    unary(
        "copy",
        "A copy in a buffer of its own.",
        distinct="each copy has a buffer of its own",
        inverse="the result itself",
    ),
    # Joining and splitting
    op(
        "concatenate",
        None,
        1,
        "Joins the operands along a dimension.",
        "dimension: dimension",
        linear=(0, ...),
        inverse="slices",
        traits=(Trait.JOINING,),
    ),
    op(
        "stack",
        None,
        1,
        "Joins operands of one shape along a new axis.",
        "axis: int",
        linear=(0, ...),
        inverse="slices",
        traits=(Trait.JOINING,),
    ),
    op(
        "unstack",
        1,
        None,
        "Splits the operand along an axis, which disappears.",
        "axis: dimension",
        inverse="stack",
        traits=(Trait.SPLITTING,),
    ),
    op(
        "split",
        1,
        None,
        "Splits the operand along an axis into pieces of the given sizes.",
        "sizes: ints, axis: dimension",
        inverse="concatenate",
        traits=(Trait.SPLITTING,),
    ),
    binary(
        "pad",
        "Pads the operand with the second operand, a scalar, by (low, high, interior) in each "
        "dimension.",
        "padding_config: any",
        linear=(0, 1),
        inverse="slice; y from the padding",
    ),
    linear=(0,),
    traits=(Trait.MOVEMENT,),
)

SHAPE = family(
    "shape",
    "Shapes and layouts of elements: creation, broadcasting, permutation, joining, conversion.",
    # Creation
    op(
        "constant",
        0,
        1,
        "A constant array: `value`, or the entry `name` in the side table of large constants.",
        "value: any?, name: str?",
        jax=OURS,
        inverse="not invertible: it has no operand",
    ),
    op(
        "iota",
        0,
        1,
        "x[i] = i along one dimension, constant along the others.",
        "dtype: dtype, shape: ints, dimension: int, sharding: sharding?",
        inverse="not invertible: it has no operand",
    ),
    op(
        "iota_2x32_shape",
        0,
        2,
        "The high and the low 32 bits of a 64-bit row-major counter of the given shape.",
        "shape: ints",
        inverse="not invertible: it has no operand",
    ),
    op(
        "empty",
        0,
        1,
        "An array whose elements are not defined.",
        "shape: ints, dtype: dtype, out_sharding: sharding?",
        inverse="not invertible: it has no operand",
    ),
    op(
        "empty2",
        0,
        1,
        "A scalar placeholder in a memory space, whose value is not defined.",
        "dtype: dtype, memory_space: any?",
        inverse="not invertible: it has no operand",
    ),
    unary(
        "zeros_like",
        "Zeros of the operand's shape and dtype.",
        inverse="not invertible: it is constant",
    ),
    *_MOVEMENT,
    # Conversion
    unary(
        "convert_element_type",
        "Converts to another dtype.",
        "new_dtype: dtype, weak_type: bool = false, sharding: sharding?",
        linear=(0,),
        inverse="convert_element_type",
        domain="the new dtype holds every value of the old one",
        traits=(Trait.ELEMENTWISE,),
    ),
    unary(
        "bitcast_convert_type",
        "Reads the bits as another dtype; if the widths differ, a last dimension is added or "
        "dropped.",
        "new_dtype: dtype",
        inverse="bitcast_convert_type",
    ),
    unary(
        "to_edtype",
        "An array of an extended dtype, from an array of its representation.",
        "edtype: dtype",
        inverse="no rule: extended dtypes are opaque",
    ),
    unary(
        "from_edtype",
        "The representation of an array of an extended dtype.",
        "dtype: dtype",
        inverse="no rule: extended dtypes are opaque",
    ),
    # Dimensions known only when the program runs
    op(
        "dimension_size",
        1,
        1,
        "Size of one dimension of the operand, a scalar integer.",
        "dimension: int",
        inverse="not invertible: a size says nothing about elements",
    ),
    op(
        "dim_as_value",
        0,
        1,
        "Value of a symbolic dimension expression, a scalar integer.",
        "dim: any",
        inverse="not invertible: it has no operand",
    ),
    op(
        "shape_assertion",
        None,
        0,
        "Stops the program unless the first operand is true; the others are put into the message.",
        "error_message: str",
        inverse="not invertible: it has no result",
    ),
)

_IN_PART = "in part if the indices are constants and distinct"


def _scatter(suffix: str, summary: str, **fields: object) -> Op:
    """A scatter op: all share an algorithm, and differ in how they combine two elements."""
    return op(
        f"scatter{suffix}",
        3,
        1,
        summary,
        # In JAX's lowering, a scatter without this overwrites elements, whatever its name.
        "update_jaxpr: function" if suffix else "update_jaxpr: function?",
        "update_consts: any = (), dimension_numbers: record ScatterDimensionNumbers, "
        "indices_are_sorted: bool = false, unique_indices: bool = false, "
        "mode: enum GatherScatterMode",
        primitives=(f"scatter{suffix.replace('_', '-')}",),
        bodies="inspected",
        traits=(Trait.UPDATE,) if suffix else (Trait.MOVEMENT, Trait.UPDATE),
        combine=suffix.removeprefix("_"),
        indices=(1,),
        update=2,
        **fields,
    )


INDEXING = family(
    "indexing",
    "Slicing, gathering and scattering.",
    unary(
        "slice",
        "Rectangular slice, x[start:limit:stride] along every dimension.",
        "start_indices: ints, limit_indices: ints, strides: ints?",
        linear=(0,),
        inverse="a slice of x; all slices together are x",
        traits=(Trait.MOVEMENT, Trait.SLICING),
    ),
    op(
        "dynamic_slice",
        None,
        1,
        "Slice of static sizes at run-time indices, clamped into bounds; operands (x, *indices).",
        "slice_sizes: ints",
        linear=(0,),
        inverse="a slice of x; all slices together are x",
        domain="the indices are constants",
        traits=(Trait.MOVEMENT, Trait.SLICING),
        indices=(1, ...),
    ),
    op(
        "dynamic_update_slice",
        None,
        1,
        "x with a slice overwritten at run-time indices; operands (x, update, *indices).",
        linear=(0, 1),
        inverse="the update, and the part of x around it",
        domain="the indices are constants",
        traits=(Trait.MOVEMENT, Trait.UPDATE),
        indices=(2, ...),
        update=1,
    ),
    op(
        "gather",
        2,
        1,
        "Slices of the first operand at the indices in the second; the mode says what happens to "
        "indices out of bounds.",
        "dimension_numbers: record GatherDimensionNumbers, slice_sizes: ints, "
        "unique_indices: bool = false, indices_are_sorted: bool = false, "
        "mode: enum GatherScatterMode, fill_value: any?",
        linear=(0,),
        inverse="a part of x; all of x if its elements are permuted",
        domain="the indices are constants, or all positions in some order",
        traits=(Trait.MOVEMENT, Trait.SLICING),
        indices=(1,),
    ),
    _scatter(
        "",
        "x with slices overwritten; operands (x, indices, updates).",
        inverse="the updates, and the part of x around them",
        domain="the indices are constants and distinct",
    ),
    _scatter(
        "_add",
        "x with slices added, x[indices] += updates.",
        linear=(0, 2),
        inverse="x = y - updates",
        domain=_IN_PART,
    ),
    _scatter(
        "_sub",
        "x with slices subtracted, x[indices] -= updates.",
        linear=(0, 2),
        inverse="x = y + updates",
        domain=_IN_PART,
    ),
    _scatter(
        "_mul",
        "x with slices multiplied, x[indices] *= updates.",
        inverse="x = y / updates",
        domain="the updates are not 0; integers are odd, or nothing overflows; " + _IN_PART,
    ),
    _scatter(
        "_min",
        "x with slices lowered, x[indices] = min(x[indices], updates).",
        inverse="not invertible: elements above the updates are lost",
    ),
    _scatter(
        "_max",
        "x with slices raised, x[indices] = max(x[indices], updates).",
        inverse="not invertible: elements below the updates are lost",
    ),
)

"""Slicing, gathering and scattering."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary

_IN_PART = "in part if the indices are constants, no two alike"


def _scatter(suffix: str, summary: str, **fields: object) -> Op:
    """Scatters are one algorithm with different ways to combine two elements."""
    return op(
        f"scatter{suffix}",
        3,
        1,
        summary,
        # By JAX's lowering a scatter without it overwrites, whatever it is called.
        "update_jaxpr: function" if suffix else "update_jaxpr: function?",
        "update_consts: any = ()",
        "dimension_numbers: record ScatterDimensionNumbers",
        "indices_are_sorted: bool = false",
        "unique_indices: bool = false",
        "mode: enum GatherScatterMode",
        primitives=(f"scatter{suffix.replace('_', '-')}",),
        bodies="inspected",
        traits=(Trait.UPDATE,) if suffix else (Trait.MOVEMENT, Trait.UPDATE),
        combine=suffix.removeprefix("_"),
        indices=(1,),
        update=2,
        **fields,
    )


OPS: tuple[Op, ...] = (
    unary(
        "slice",
        "Rectangular part, x[start:limit:stride] along every dimension.",
        "start_indices: ints",
        "limit_indices: ints",
        "strides: ints?",
        linear=(0,),
        inverse="a piece of x; all pieces together are x",
        traits=(Trait.MOVEMENT, Trait.SLICING),
    ),
    op(
        "dynamic_slice",
        None,
        1,
        "Part of static sizes at run-time indices, clamped into bounds; operands (x, *indices).",
        "slice_sizes: ints",
        linear=(0,),
        inverse="a piece of x; all pieces together are x",
        domain="the indices are constants",
        traits=(Trait.MOVEMENT, Trait.SLICING),
        indices=(1, ...),
    ),
    op(
        "dynamic_update_slice",
        None,
        1,
        "x with a part overwritten at run-time indices; operands (x, update, *indices).",
        linear=(0, 1),
        inverse="the update, and the piece of x around it",
        domain="the indices are constants",
        traits=(Trait.MOVEMENT, Trait.UPDATE),
        indices=(2, ...),
        update=1,
    ),
    op(
        "gather",
        2,
        1,
        "Slices of the first operand at the indices in the second; the mode rules indices out "
        "of bounds.",
        "dimension_numbers: record GatherDimensionNumbers",
        "slice_sizes: ints",
        "unique_indices: bool = false",
        "indices_are_sorted: bool = false",
        "mode: enum GatherScatterMode",
        "fill_value: any?",
        linear=(0,),
        inverse="a piece of x; x itself where its elements are permuted",
        domain="the indices are constants, or all positions in some order",
        traits=(Trait.MOVEMENT, Trait.SLICING),
        indices=(1,),
    ),
    _scatter(
        "",
        "x with slices overwritten; operands (x, indices, updates).",
        inverse="the updates, and the piece of x around them",
        domain="the indices are constants, no two alike",
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
        domain="the updates are not 0; of integers they are odd, or nothing overflows; " + _IN_PART,
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

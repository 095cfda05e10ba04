"""Mutable references, ``!jaxpr.ref<tensor<...>>``, and buffers whose lifetime is explicit."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary, with_traits, without_inverse

_SPACE = "memory_space: any?"

OPS: tuple[Op, ...] = (
    unary(
        "new_ref",
        "A new reference that holds the operand.",
        _SPACE,
        "kind: any?",
        "pin: bool = false @ >=0.11",
    ),
    op(
        "empty_ref",
        0,
        1,
        "A new reference whose value is not defined.",
        "ty: type",
        _SPACE,
        "pin: bool = false @ >=0.11",
    ),
    unary(
        "freeze",
        "The value of a reference, which ends here.",
    ),
    op("free_ref", 1, 0, "Ends a reference without reading it."),
    op("get", None, 1, "Reads ref[indices], of operands (ref, *indices).", "tree: tree"),
    op(
        "swap",
        None,
        1,
        "Writes ref[indices] and gives its old value, of operands (ref, value, *indices).",
        "tree: tree",
        # A kernel on a SparseCore may mask, add or compress as it writes.
        "has_mask: bool = absent",
        "add: bool = absent",
        "compress: bool = absent",
    ),
    op(
        "addupdate",
        None,
        0,
        "Adds to ref[indices], of operands (ref, value, *indices).",
        "tree: tree",
    ),
    unary(
        "accum_grad_in_ref",
        "The operand; its gradient is accumulated in a reference.",
        linear=(0,),
    ),
    op(
        "run_state",
        None,
        None,
        "Calls a function on references that hold the operands: gives their values at the end.",
        "jaxpr: function",
        "which_linear: bools",
        "is_initialized: bools",
        bodies="inspected",
    ),
    op(
        "run_scoped",
        None,
        None,
        "Calls a function on references that live as long as the call; operands are its consts.",
        "jaxpr: function",
        "collective_axes: any = ()",
        "ref_transforms: any? = none",
        bodies="inspected",
    ),
    # Buffers whose lifetime the program states itself
    op("create_linear", 0, 1, "A new buffer: a value to be used exactly once.", "ty: type", _SPACE),
    unary(
        "pin",
        "The operand in a buffer of a memory space: a value to be used exactly once.",
        "to: str?",
    ),
    unary(
        "unpin",
        "The value of a pinned buffer.",
    ),
    unary(
        "stage",
        "The operand, a value of the program even where it was a literal.",
        linear=(0,),
    ),
)

OPS = with_traits(
    without_inverse("no rule: what a reference held before is not kept", OPS), Trait.IMPURE
)

MAKERS = frozenset({"jaxpr.new_ref", "jaxpr.empty_ref"})
"""The ops that make references."""

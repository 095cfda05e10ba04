"""Ops that read or change state other than values: references, callbacks, tokens."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Trait, binary, family, op, unary, variadic

_SPACE = "memory_space: any?"

STATE = family(
    "state",
    "Mutable references, ``!jaxpr.ref<tensor<...>>``, and buffers whose lifetime is explicit.",
    unary(
        "new_ref",
        "A new reference that holds the operand.",
        _SPACE,
        "kind: any?, pin: bool = false @ >=0.11",
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
    unary("freeze", "Ends a reference and returns its value."),
    op("free_ref", 1, 0, "Ends a reference without reading it."),
    op("get", None, 1, "Reads ref[indices]; operands (ref, *indices).", "tree: tree"),
    op(
        "swap",
        None,
        1,
        "Writes ref[indices] and returns its old value; operands (ref, value, *indices).",
        "tree: tree",
        # A kernel on a SparseCore may mask, add or compress as it writes.
        "has_mask: bool = absent, add: bool = absent, compress: bool = absent",
    ),
    op(
        "addupdate", None, 0, "Adds to ref[indices]; operands (ref, value, *indices).", "tree: tree"
    ),
    unary(
        "accum_grad_in_ref", "The operand; its gradient is accumulated in a reference.", linear=(0,)
    ),
    variadic(
        "run_state",
        "Calls a function on references that hold the operands; the results are their final "
        "values.",
        "jaxpr: function, which_linear: bools, is_initialized: bools",
        bodies="inspected",
    ),
    variadic(
        "run_scoped",
        "Calls a function on references that live as long as the call; the operands are its "
        "consts.",
        "jaxpr: function, collective_axes: any = (), ref_transforms: any? = none",
        bodies="inspected",
    ),
    # Buffers whose lifetime the program states itself
    op("create_linear", 0, 1, "A new buffer: a value to be used exactly once.", "ty: type", _SPACE),
    unary(
        "pin",
        "The operand in a buffer of a memory space: a value to be used exactly once.",
        "to: str?",
    ),
    unary("unpin", "The value of a pinned buffer."),
    unary("stage", "The operand, as a value of the program even if it was a literal.", linear=(0,)),
    traits=(Trait.IMPURE,),
    inverse="no rule: what a reference held before is not kept",
    distinct="it depends on what a reference or buffer holds",
)

MAKERS = frozenset({"jaxpr.new_ref", "jaxpr.empty_ref"})
"""The ops that create references."""

_OPAQUE = "no rule: what the function computes is opaque"

EFFECTS = family(
    "effects",
    "Side effects: callbacks into Python, foreign functions, tokens, barriers, run-time checks.",
    # Callbacks
    variadic(
        "pure_callback",
        "Calls a Python function that has no side effects.",
        "callback: handle, result_avals: types, sharding: sharding?, vmap_method: str?",
        inverse=_OPAQUE,
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "io_callback",
        "Calls a Python function for its side effects too, in program order if `ordered`.",
        "callback: handle, result_avals: types, sharding: sharding?, ordered: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "debug_callback",
        None,
        0,
        "Calls a Python function for its side effects only.",
        "callback: handle, effect: any, partitioned: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "debug_print",
        None,
        0,
        "Prints a format string with the operands in its fields.",
        "fmt: str, ordered: bool = false, partitioned: bool = false, in_tree: tree, "
        "static_args: any = (), np_printoptions: any = (), has_placeholders: bool = true, "
        "logging_record: handle?",
    ),
    variadic(
        "buffer_callback",
        "Calls a Python function on device buffers, without a copy to the host.",
        "callback: handle, result_avals: types, in_tree: tree, out_tree: tree, vmap_method: str?, "
        "has_side_effect: bool = false, input_output_aliases: any = (), "
        "command_buffer_compatible: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "ffi_call",
        "Calls a registered foreign function.",
        "target_name: str, result_avals: types, attributes: any = (), "
        "has_side_effect: bool = false, input_layouts: any, output_layouts: any, "
        "input_output_aliases: any = (), custom_call_api_version: int = 4, "
        "legacy_backend_config: any?, vmap_method: str?",
        inverse=_OPAQUE,
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "check",
        None,
        0,
        "A run-time check of `jax.experimental.checkify` that is not functionalized yet.",
        "err_tree: tree, debug: bool = false",
    ),
    # Order
    op("create_token", None, 1, "A new token."),
    op("after_all", None, 1, "A token that comes after all of the operands."),
    variadic(
        "optimization_barrier",
        "The operands; no optimization moves an op across it.",
        linear=(0, ...),
        inverse="the results themselves",
    ),
    op(
        "dce_sink",
        1,
        0,
        "Uses the operand, so that it is not dead.",
        "prevent_mlir_dce: bool = false",
    ),
    binary("tie", "The second operand, made to depend on the first.", inverse="y = z"),
    traits=(Trait.IMPURE,),
    inverse="not invertible: a side effect is not undone",
    distinct="its place in the program matters",
)

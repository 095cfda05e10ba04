"""Side effects: callbacks into Python, foreign functions, tokens, barriers, run-time checks."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, op, with_traits, without_inverse

_OPAQUE = "no rule: what the function computes is opaque"

OPS: tuple[Op, ...] = (
    # Callbacks
    op(
        "pure_callback",
        None,
        None,
        "Calls a Python function that has no side effects.",
        "callback: handle",
        "result_avals: types",
        "sharding: sharding?",
        "vmap_method: str?",
        inverse=_OPAQUE,
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "io_callback",
        None,
        None,
        "Calls a Python function for its side effects too, in program order if `ordered`.",
        "callback: handle",
        "result_avals: types",
        "sharding: sharding?",
        "ordered: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "debug_callback",
        None,
        0,
        "Calls a Python function for its side effects only.",
        "callback: handle",
        "effect: any",
        "partitioned: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "debug_print",
        None,
        0,
        "Prints a format string with the operands in its fields.",
        "fmt: str",
        "ordered: bool = false",
        "partitioned: bool = false",
        "in_tree: tree",
        "static_args: any = ()",
        "np_printoptions: any = ()",
        "has_placeholders: bool = true",
        "logging_record: handle?",
    ),
    op(
        "buffer_callback",
        None,
        None,
        "Calls a Python function on device buffers, without a copy to the host.",
        "callback: handle",
        "result_avals: types",
        "in_tree: tree",
        "out_tree: tree",
        "vmap_method: str?",
        "has_side_effect: bool = false",
        "input_output_aliases: any = ()",
        "command_buffer_compatible: bool = false",
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "ffi_call",
        None,
        None,
        "Calls a registered foreign function.",
        "target_name: str",
        "result_avals: types",
        "attributes: any = ()",
        "has_side_effect: bool = false",
        "input_layouts: any",
        "output_layouts: any",
        "input_output_aliases: any = ()",
        "custom_call_api_version: int = 4",
        "legacy_backend_config: any?",
        "vmap_method: str?",
        inverse=_OPAQUE,
        traits=(Trait.CUSTOM_CALL,),
    ),
    op(
        "check",
        None,
        0,
        "A run-time check of `jax.experimental.checkify` that nobody has collected yet.",
        "err_tree: tree",
        "debug: bool = false",
    ),
    # Order
    op("create_token", None, 1, "A new token."),
    op("after_all", None, 1, "A token that comes after all of the operands."),
    op(
        "optimization_barrier",
        None,
        None,
        "The operands; no optimisation moves anything across.",
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
    binary(
        "tie",
        "The second operand, made to depend on the first.",
        inverse="the result itself, of the second operand",
    ),
)

OPS = with_traits(without_inverse("not invertible: a side effect is not undone", OPS), Trait.IMPURE)

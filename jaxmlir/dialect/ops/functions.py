"""Ops with functions: loops, branches, calls, custom derivative rules."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Trait, attr, call, family, op, unary, variadic

CONTROL_FLOW = family(
    "control_flow",
    "Control flow: loops, branches, and linear solves given by functions.",
    variadic(
        "scan",
        "Loop with a static trip count: (*consts, *carry, *xs) -> (*carry, *ys); step i sees xs[i] "
        "and writes ys[i].",
        "jaxpr: function, length: int",
        # JAX from 0.11 on packs the two counts into `ft_in` and `ft_out`.
        "num_consts: int = 0, num_carry: int = 0, reverse: bool = false, unroll: any = 1",
        inverse="the scan of the body's inverse, backwards in time if the final carry is known, "
        "forwards if the initial carry is",
        domain="the constants of the loop are known",
    ),
    variadic(
        "while",
        "Loop while a condition holds: (*condition consts, *body consts, *carry) -> carry.",
        "cond_jaxpr: function, body_jaxpr: function, cond_nconsts: int = 0, body_nconsts: int = 0",
        inverse="a while that runs the body's inverse the same number of times",
        domain="the condition depends on known values only",
    ),
    variadic(
        "cond",
        "Calls one of several functions, branches[i]; operands (i, *args).",
        "branches: functions",
        # For a cond on `platform_index`: the platforms of each branch.
        "branches_platforms: platforms = absent",
        inverse="a cond of the branches' inverses",
        domain="the index is known",
    ),
    op(
        "platform_index",
        0,
        1,
        "The index of the group of platforms that the program is compiled for, a scalar integer; "
        "a `cond` over implementations takes it.",
        "platforms: platforms",
        inverse="not invertible: it has no operand",
    ),
    variadic(
        "custom_linear_solve",
        "The x with matvec(x) = b, found by the function solve; operands (*consts, *b).",
        "const_lengths: record _LinearSolveTuple, jaxprs: record _LinearSolveTuple",
        inverse="b = matvec(x)",
    ),
)

CHECKPOINTING = family(
    "checkpointing",
    """Loops that can be reversed with a fixed number of states in memory.

These are primitives of jaxmlir. They have rules for all that JAX does with its own primitives.
""",
    variadic(
        "checkpointed_while",
        "As while; with `record`, buffers of the kept states and their positions follow the carry: "
        "(*condition consts, *body consts, *carry) -> (*carry, *buffers, rows, positions, steps).",
        "cond_jaxpr: function, body_jaxpr: function, checkpoints: int, cond_nconsts: int = 0, "
        "body_nconsts: int = 0, record: bool = false",
    ),
    variadic(
        "reverse_sweep",
        "Visits the states of a loop backwards: (a[k], y[k]) = step(*consts, *x[k], *y[k+1]); "
        "operands (*condition consts, *consts, *x[0], *record, *y[last]); results (*sums of a, "
        "*y[0]).",
        "cond_jaxpr: function, advance_jaxpr: function, step_jaxpr: function, "
        "cond_nconsts: int = 0, nconsts: int = 0",
    ),
    variadic(
        "linear_map",
        "Calls a function that is linear in its last operands and has its own transpose; operands "
        "(*residuals, *linear operands).",
        "call_jaxpr: function, transpose_jaxpr: function, num_res: int = 0",
    ),
    inverse="no rule: it occurs in derivatives only",
)

CALLS = family(
    "calls",
    "Ops that call a function and define how it is compiled, differentiated or batched.",
    call(
        "jit",
        "Calls a function that is compiled as a unit.",
        'jaxpr: function, name: str = "jit"',
        "in_shardings: each operand's sharding? = none, "
        "out_shardings: each result's sharding? = none, "
        "in_layouts: each operand's layout? = none, out_layouts: each result's layout? = none, "
        "donated_invars: each operand's bool = false, ctx_mesh: mesh?, keep_unused: bool = false, "
        "inline: any = false, compiler_options_kvs: any = ()",
    ),
    call("call", "Calls a function.", "call_jaxpr: function", jax="<0.11"),
    call("closed_call", "Calls a function.", "call_jaxpr: function", jax="<0.11"),
    call(
        "eval_jaxpr",
        "Calls a function that is evaluated in place.",
        attr("call_jaxpr: function", jaxpr="<0.11"),
    ),
    call(
        "program_order",
        "Calls a function whose ops run in the order in which they are written, enforced or as a "
        "hint.",
        "call_jaxpr: function, enforce: bool, strict_in: bool, strict_out: bool, "
        "exclude_mask: bools",
        jax=">=0.11",
    ),
    call(
        "remat2",
        "Calls a function whose intermediate values are recomputed in the backward pass, save "
        "those that the policy keeps.",
        "jaxpr: function, prevent_cse: bool or bools = true, differentiated: bool = false, "
        "policy: policy?",
        distinct="the recomputation is intended",
    ),
    unary(
        "name",
        "The operand, under a name that checkpoint policies can ask for.",
        "name: str",
        linear=(0,),
        inverse="the result itself",
    ),
    call(
        "composite",
        "Calls a function that a compiler may replace by its own op of that name and version.",
        attr("call_jaxpr: function", jaxpr="<0.11"),
        "name: str, attributes: any = (), version: int = 0",
    ),
    call(
        "custom_vmap_call",
        "Calls a function that has its own batching rule.",
        "call: function, rule: handle, in_tree: tree, out_tree: tree",
    ),
    call(
        "custom_inverse_call",
        "Calls a function that has its own inverses: the k-th computes the operands operands[k] "
        "from the results and the other operands, and log|det| of the function's derivative with "
        "respect to them.",
        "call_jaxpr: function, inverses: functions, log_dets: functions, operands: any",
        inverse="a call of the given inverse, or else of the function's inverse",
    ),
    call(
        "custom_partitioning",
        "Calls a function that has its own partitioning rule.",
        "call: function, partition: handle?, propagate_user_sharding: handle?, "
        "infer_sharding_from_operands: handle?, decode_shardings: bool = true, "
        "sharding_rule: any?, in_tree: tree, out_tree: tree, static_args: any = ()",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "call_exported",
        "Calls a function that `jax.export` serialised.",
        "exported: handle",
        inverse="no rule: the function is opaque",
        traits=(Trait.CUSTOM_CALL,),
    ),
    variadic(
        "call_hi_primitive",
        "Applies a primitive over user-defined types, which carries its own rules.",
        "_prim: any",
        inverse="no rule: the primitive is opaque",
    ),
    variadic(
        "call_hi_primitive_linearized",
        "The linear part of a primitive over user-defined types; operands (*residuals, *tangents).",
        "_prim: any, residuals_tree: tree, nz_in_flat: bools, nz_out_flat: bools @ >=0.11, "
        "has_sres: bool @ >=0.11",
        inverse="no rule: the primitive is opaque",
    ),
    call(
        "compute_on",
        "Calls a function on another kind of processor, such as the host.",
        "jaxpr: function, compute_type: str, out_memory_spaces: any, compiler_options_json: str?",
    ),
    call(
        "xla_metadata_call",
        "Calls a function whose ops carry metadata for XLA, such as a scheduling group.",
        "jaxpr: function, xla_metadata: any",
        # The metadata of derivatives; JAX before 0.11 uses the same metadata there.
        'ad_metadata: any? = "same" @ >=0.11',
    ),
    unary(
        "xla_metadata_value",
        "The operand, with metadata for XLA attached.",
        "xla_metadata_kvs: any",
        linear=(0,),
        inverse="the result itself",
    ),
    call(
        "fused_call",
        "Calls a function that has to become one kernel.",
        "jaxpr: function, out_spaces: any",
    ),
    variadic(
        "unreachable",
        "Raises an error if the program is compiled with it.",
        "out_avals: types, exc_type: handle, message: str",
        inverse="not invertible: it never returns",
    ),
)

CUSTOM_DERIVATIVES = family(
    "custom_derivatives",
    """
Ops that carry a user's own derivative rules, as functions, and the one that has no derivative.

The rules live in the program, so they can be saved, inspected and transformed. If a rule could not
be traced, its function is absent and ``*_error`` has the reason: running the program works, and
only differentiating it raises that error. JAX's params hold Python callables in place of these
functions.

Attributes of a rule's function describe the rule:

- ``jaxpr.out_zeros``: the results that are zero, which the rule does not return.
- ``jaxpr.num_res``: the number of residuals of a forward rule.
- ``jaxpr.input_fwds``: for each residual of a forward rule, the index of the operand that it is, if
  it is one. The rule does not return these residuals.
- ``jaxpr.in_zeros``: the tangents of a JVP rule, or the cotangents of a backward rule, that are
  zero, which the rule does not take. There is a rule for each pattern of zeros, or, where patterns
  are many, for each single nonzero tangent. Of a forward rule: the operands that have no tangents,
  as the rule was told when it was traced. Each forward rule has residuals of its own, and so
  backward rules of its own. An operand that a rule closes over and reads has no tangent for it,
  either.

A function that stands for a primitive of another process has the other rules of that primitive,
too. A transpose takes the operands that ``jaxpr.linear`` does not mark and the cotangents of the
results, and returns the cotangents of the operands that ``jaxpr.linear`` marks. A batching rule
takes the operands that ``jaxpr.batched`` marks with a leading dimension of the symbolic size
``jaxpr.batch_size``, and returns the results that ``jaxpr.out_batched`` marks with one.
""",
    call(
        "custom_jvp_call_jaxpr",
        "Calls a function whose JVP is jvp_jaxpr: (*primals, *tangents) -> (*primals, *tangents).",
        "call_jaxpr: function, jvp_jaxpr: function?, jvp_error: str?",
        # For functions with symbolic_zeros: rules that are told which tangents are zero.
        "jvp_with_zeros: functions = ()",
        # The other rules of a primitive, if the function stands for one.
        "transposes: functions = (), transpose_error: str?, batches: functions = (), "
        "batch_error: str?, num_consts: int = 0, symbolic_zeros: bool = false",
        primitives=("custom_jvp_call", "custom_jvp_call_jaxpr"),
    ),
    call(
        "custom_vjp_call_jaxpr",
        "Calls a function whose VJP is fwd_jaxpr: (*primals) -> (*residuals, *results), then "
        "bwd_jaxpr: (*residuals, *cotangents) -> (*cotangents).",
        "call_jaxpr: function, fwd_jaxpr: function?, bwd_jaxpr: function?, fwd_error: str?, "
        "bwd_error: str?",
        # For functions with symbolic_zeros, one list for each set of tangents that a forward rule
        # is told are zero: the forward rule, then backward rules told which cotangents are zero.
        "vjp_with_zeros: lists of functions = (), num_consts: int = 0, "
        "symbolic_zeros: bool = false",
        primitives=("custom_vjp_call",),
    ),
    variadic(
        "custom_lin",
        "The unknown linear map from tangents to tangents whose transpose is bwd: (*residuals, "
        "*cotangents) -> (*cotangents); operands (*residuals, *nonzero tangents).",
        "bwd: function?, bwd_error: str?",
        # Backward rules that are told which cotangents are zero.
        "bwd_with_zeros: functions = (), num_res: int = 0",
        # The input tangents that are zero: they are no operands, and bwd's results are dropped.
        "in_zeros: bools = (), symbolic_zeros: bool = false",
        inverse="no rule: the linear map is known by its transpose only",
    ),
    variadic(
        "linear_call",
        "Calls a function that is linear in its last operands and has its own transpose; operands "
        "(*callee consts, *residuals, *linear operands).",
        "callee: function, transpose: function = absent",
        # For a transpose that closes over values.
        "transpose_thunk: handle = absent, num_callee_consts: int = 0, num_res: int = 0",
        inverse="no rule: it occurs in derivatives only",
    ),
    variadic(
        "remat_opt",
        "The forward rule of a custom_vjp whose residuals may be recomputed: results (*residuals, "
        "*results); if no residual is used, a call of fun_jaxpr on the operands without the "
        "consts.",
        "fwd_jaxpr: function, fun_jaxpr: function = absent",
        # For a function that closes over values.
        "fun_jaxpr_thunk: handle = absent, num_consts: int = 0, num_res: int = 0",
        distinct="the recomputation is intended",
        inverse="no rule: it occurs in derivatives only",
    ),
    unary(
        "stop_gradient",
        "The operand, treated as constant by differentiation.",
        inverse="the result itself",
        traits=(Trait.ELEMENTWISE,),
    ),
)

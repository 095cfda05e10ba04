"""Ops that carry a user's own derivative rules, as functions, and the one that has no derivative.

The rules live in the program, so they can be saved, inspected and transformed. A rule that could
not be traced leaves its function out and the reason in ``*_error``: running the program works, and
only differentiating it raises that error. JAX's params hold Python callables in place of these
functions.

What belongs to a rule rather than to a call of it stands on the rule's function:
``jaxpr.out_zeros`` tells which of its results are zero and left out, ``jaxpr.num_res`` how many
residuals a forward rule gives, and ``jaxpr.input_fwds`` which of them are operands, by index, and
so left out too.  ``jaxpr.in_zeros`` tells which of its tangents a JVP rule, or which of its
cotangents a backward rule, takes for zero, and so does not take; there is a rule for each of these
patterns, or for those of a single tangent, where there are more than a few.  Of a forward rule it
tells which operands have no tangents: that is what it was told.  Each has its own residuals, and so
backward rules of its own.  Operands that a rule closes over, and reads, have no tangents for it
either.

A function that stands for a primitive of another process has that one's other rules, too.  A
transpose takes the operands in which ``jaxpr.linear`` does not tell that it is one, and the
cotangents of results, and gives those of the others.  A batching rule takes the operands that
``jaxpr.batched`` tells with a dimension in front, of the symbolic size ``jaxpr.batch_size``, and
gives the results that ``jaxpr.out_batched`` tells with one.
"""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary

OPS: tuple[Op, ...] = (
    op(
        "custom_jvp_call_jaxpr",
        None,
        None,
        "Calls a function whose JVP is jvp_jaxpr: (*primals, *tangents) -> (*primals, *tangents).",
        "call_jaxpr: function",
        "jvp_jaxpr: function?",
        "jvp_error: str?",
        # Rules that are told which tangents are zero, of a function with symbolic_zeros.
        "jvp_with_zeros: functions = ()",
        # What a primitive has too that the function stands for.
        "transposes: functions = ()",
        "transpose_error: str?",
        "batches: functions = ()",
        "batch_error: str?",
        "num_consts: int = 0",
        "symbolic_zeros: bool = false",
        primitives=("custom_jvp_call", "custom_jvp_call_jaxpr"),
        inverse="the call of the function's inverse",
        traits=(Trait.CALL,),
    ),
    op(
        "custom_vjp_call_jaxpr",
        None,
        None,
        "Calls a function whose VJP is fwd_jaxpr: (*primals) -> (*residuals, *results), then "
        "bwd_jaxpr: (*residuals, *cotangents) -> (*cotangents).",
        "call_jaxpr: function",
        "fwd_jaxpr: function?",
        "bwd_jaxpr: function?",
        "fwd_error: str?",
        "bwd_error: str?",
        # Of a function with symbolic_zeros, by which tangents a forward rule is told to be zero:
        # the forward rule, and backward rules that are told which cotangents are.
        "vjp_with_zeros: lists of functions = ()",
        "num_consts: int = 0",
        "symbolic_zeros: bool = false",
        primitives=("custom_vjp_call",),
        inverse="the call of the function's inverse",
        traits=(Trait.CALL,),
    ),
    op(
        "custom_lin",
        None,
        None,
        "The unknown linear map from tangents to tangents whose transpose is bwd: (*residuals, "
        "*cotangents) -> (*cotangents); operands (*residuals, *nonzero tangents).",
        "bwd: function?",
        "bwd_error: str?",
        # Backward rules that are told which cotangents are zero.
        "bwd_with_zeros: functions = ()",
        "num_res: int = 0",
        # Which tangents in are zero: these are no operands, and bwd's results for them are dropped.
        "in_zeros: bools = ()",
        "symbolic_zeros: bool = false",
        inverse="no rule: the linear map is known by its transpose only",
    ),
    op(
        "linear_call",
        None,
        None,
        "Calls a function that is linear in its last operands and has its own transpose; operands "
        "(*callee consts, *residuals, *linear operands).",
        "callee: function",
        "transpose: function = absent",
        # Of a transpose that closes over values.
        "transpose_thunk: handle = absent",
        "num_callee_consts: int = 0",
        "num_res: int = 0",
        inverse="no rule: it belongs to derivatives",
    ),
    op(
        "remat_opt",
        None,
        None,
        "The forward rule of a custom_vjp whose residuals may be recomputed: results (*residuals, "
        "*results); where no residual is used, a call of fun_jaxpr on the operands but the consts.",
        "fwd_jaxpr: function",
        "fun_jaxpr: function = absent",
        # Of a function that closes over values.
        "fun_jaxpr_thunk: handle = absent",
        "num_consts: int = 0",
        "num_res: int = 0",
        distinct="what is recomputed is meant to be",
        inverse="no rule: it belongs to derivatives",
    ),
    unary(
        "stop_gradient",
        "The operand, treated as constant by differentiation.",
        inverse="the result itself",
        traits=(Trait.ELEMENTWISE,),
    ),
)

"""Loops that can be reversed with a fixed number of states in memory.

These are primitives of jaxmlir, with rules for all that JAX does with its own.
"""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, op, without_inverse

OPS: tuple[Op, ...] = (
    op(
        "checkpointed_while",
        None,
        None,
        "As while; with record, buffers of the states that were kept follow the carry, and where "
        "they are: (*condition consts, *body consts, *carry) -> (*carry, *buffers, rows, "
        "positions, steps).",
        "cond_jaxpr: function",
        "body_jaxpr: function",
        "checkpoints: int",
        "cond_nconsts: int = 0",
        "body_nconsts: int = 0",
        "record: bool = false",
    ),
    op(
        "reverse_sweep",
        None,
        None,
        "Visits the states of a loop backwards: (a[k], y[k]) = step(*consts, *x[k], *y[k+1]), of "
        "operands (*condition consts, *consts, *x[0], *record, *y[last]); results (*sums of a, "
        "*y[0]).",
        "cond_jaxpr: function",
        "advance_jaxpr: function",
        "step_jaxpr: function",
        "cond_nconsts: int = 0",
        "nconsts: int = 0",
    ),
    op(
        "linear_map",
        None,
        None,
        "Calls a function that is linear in its last operands and has its own transpose; operands "
        "(*residuals, *linear operands).",
        "call_jaxpr: function",
        "transpose_jaxpr: function",
        "num_res: int = 0",
    ),
)

OPS = without_inverse("no rule: it belongs to derivatives", OPS)

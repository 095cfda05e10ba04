"""Control flow: loops, branches, and linear solves given by functions."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, op

OPS: tuple[Op, ...] = (
    op(
        "scan",
        None,
        None,
        "Loop with a static trip count: (*consts, *carry, *xs) -> (*carry, *ys); step i sees xs[i] "
        "and writes ys[i].",
        "jaxpr: function",
        "length: int",
        # JAX from 0.11 packs the two counts into `ft_in` and `ft_out`.
        "num_consts: int = 0",
        "num_carry: int = 0",
        "reverse: bool = false",
        "unroll: any = 1",
        inverse="the scan of the body's inverse, backwards in time if the final carry is known, "
        "forwards if the initial carry is",
        domain="the constants of the loop are known",
    ),
    op(
        "while",
        None,
        None,
        "Loop while a condition holds: (*condition consts, *body consts, *carry) -> carry.",
        "cond_jaxpr: function",
        "body_jaxpr: function",
        "cond_nconsts: int = 0",
        "body_nconsts: int = 0",
        inverse="a while that runs the body's inverse as many times",
        domain="the condition depends on known values only",
    ),
    op(
        "cond",
        None,
        None,
        "Calls one of several functions, branches[i](*args), of operands (i, *args).",
        "branches: functions",
        # Of a cond over `platform_index`: the platforms of each branch.
        "branches_platforms: platforms = absent",
        inverse="a cond of the branches' inverses",
        domain="the index is known",
    ),
    op(
        "platform_index",
        0,
        1,
        "Which group of platforms the program is compiled for, a scalar integer: the index that "
        "a `cond` over implementations takes.",
        "platforms: platforms",
        inverse="not invertible: it has no operand",
    ),
    op(
        "custom_linear_solve",
        None,
        None,
        "The x with matvec(x) = b, found by the function solve; operands (*consts, *b).",
        "const_lengths: record _LinearSolveTuple",
        "jaxprs: record _LinearSolveTuple",
        inverse="b = matvec(x)",
    ),
)

"""Elementwise comparisons and selection. The results of comparisons are booleans."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, op, with_traits, without_inverse

OPS: tuple[Op, ...] = (
    binary(
        "eq",
        "x == y; false where either is NaN.",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "eq(x, x) = ~0 if integer or boolean or fast-math",
            "eq(x, ~0) = x if boolean",
        ),
    ),
    binary(
        "ne",
        "x != y; true where either is NaN.",
        traits=(Trait.COMMUTATIVE,),
        folds=(
            "ne(x, x) = 0 if integer or boolean or fast-math",
            "ne(x, 0) = x if boolean",
        ),
    ),
    binary(
        "lt",
        "x < y.",
        folds=("lt(x, x) = 0 if integer or boolean or fast-math",),
    ),
    binary(
        "le",
        "x <= y.",
        folds=("le(x, x) = ~0 if integer or boolean or fast-math",),
    ),
    binary(
        "gt",
        "x > y.",
        folds=("gt(x, x) = 0 if integer or boolean or fast-math",),
    ),
    binary(
        "ge",
        "x >= y.",
        folds=("ge(x, x) = ~0 if integer or boolean or fast-math",),
    ),
    # The total order puts -NaN < -inf < ... < -0 < +0 < ... < inf < NaN: what sorting needs.
    binary("eq_to", "x == y in the total order of floats: NaN equals NaN, -0 is not 0."),
    binary("lt_to", "x < y in the total order of floats: -0 before 0, NaN last."),
    binary("le_to", "x <= y in the total order of floats: -0 before 0, NaN last."),
    op(
        "select_n",
        None,
        1,
        "Elementwise choice cases[which], of operands (which, *cases); which is boolean or "
        "integer.",
        linear=(1, ...),
        folds=(
            "select_n(p, x) = x",
            "select_n(p, x, x) = x",
            "select_n(0, x, y) = x",
            "select_n(1, x, y) = y",
            "select_n(not(p), x, y) = select_n(p, y, x) if boolean",
            "select_n(p, 0, ~0) = p if boolean",
        ),
        inverse="what each case is where it is selected, put together",
        domain="which is known",
    ),
)

OPS = with_traits(
    without_inverse("not invertible: a comparison is many-to-one", OPS), Trait.ELEMENTWISE
)

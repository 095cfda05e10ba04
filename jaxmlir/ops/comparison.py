"""Elementwise comparisons and selection. The results of comparisons are booleans."""

from __future__ import annotations

from jaxmlir.ops._record import Op, binary, op

OPS: tuple[Op, ...] = (
    binary("eq", "x == y; false where either is NaN.", commutative=True),
    binary("ne", "x != y; true where either is NaN.", commutative=True),
    binary("lt", "x < y."),
    binary("le", "x <= y."),
    binary("gt", "x > y."),
    binary("ge", "x >= y."),
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
    ),
)

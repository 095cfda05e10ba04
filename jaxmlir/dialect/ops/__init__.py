"""The op table: every primitive that JAX can lower, one record each, one file a family.

``OPS`` maps an op's name to its record, ``BY_PRIMITIVE`` a JAX primitive's name, in the spelling of
any supported version. A primitive without a record is no error: it is imported under its own name
with whatever params it has.
"""

from __future__ import annotations

from jaxmlir.dialect.ops import (
    bitwise,
    calls,
    checkpointing,
    collectives,
    comparison,
    contraction,
    control_flow,
    custom_derivatives,
    effects,
    elementwise,
    hardware,
    indexing,
    kernel,
    linalg,
    random,
    reduction,
    shape,
    sharding,
    sparse,
    special,
    state,
    transcendental,
)
from jaxmlir.dialect.ops.record import OURS, REQUIRED, Attr, Op, holds

__all__ = [
    "BY_PRIMITIVE",
    "FAMILIES",
    "FUNCTIONS_IN_RECORDS",
    "OPS",
    "OURS",
    "REQUIRED",
    "Attr",
    "Op",
    "distinct",
    "holds",
    "may_have_functions",
]

# In the order of the reference: from the elementwise to the exotic.
FAMILIES = (
    elementwise,
    transcendental,
    bitwise,
    comparison,
    special,
    shape,
    indexing,
    reduction,
    contraction,
    linalg,
    random,
    control_flow,
    checkpointing,
    calls,
    custom_derivatives,
    state,
    effects,
    sharding,
    collectives,
    sparse,
    hardware,
    kernel,
)

OPS: dict[str, Op] = {op.name: op for family in FAMILIES for op in family.OPS}

# Ops whose functions are inside of an attribute.
FUNCTIONS_IN_RECORDS = frozenset(
    {"call_hi_primitive", "call_hi_primitive_linearized", "custom_linear_solve"}
)


def may_have_functions(name: str) -> bool:
    """Whether ops of a name can refer to functions; looking for these costs more than asking."""
    found = _with_functions.get(name)
    if found is None:
        record = OPS.get(name.removeprefix("jaxpr."))
        found = record is None or bool(record.functions) or record.name in FUNCTIONS_IN_RECORDS
        _with_functions[name] = found
    return found


_with_functions: dict[str, bool] = {}

# Families of which no two ops are one: what they do depends on more than their operands.
_DISTINCT = {
    effects: "its place in the program matters",
    state: "it depends on what a reference or buffer holds",
    hardware: "a kernel may do anything",
    kernel: "it acts on the memory of a kernel",
}


def distinct(record: Op) -> str:
    """Why two of an op with equal attributes and operands are not one; ``""`` where they are."""
    for family, reason in _DISTINCT.items():
        if record in family.OPS:
            return reason
    return record.distinct


BY_PRIMITIVE: dict[str, Op] = {
    primitive: op for op in OPS.values() if op.jax != OURS for primitive in op.primitive_names
}

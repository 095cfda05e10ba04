"""The op table: every primitive that JAX can lower, one record each, one file a family.

``OPS`` maps an op's name to its record, ``BY_PRIMITIVE`` a JAX primitive's name, in the spelling of
any supported version. A primitive without a record is no error: it is imported under its own name
with whatever params it has.
"""

from __future__ import annotations

from jaxmlir.ops import (
    bitwise,
    calls,
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
from jaxmlir.ops._record import OURS, REQUIRED, Attr, Op, holds

__all__ = ["BY_PRIMITIVE", "FAMILIES", "OPS", "OURS", "REQUIRED", "Attr", "Op", "holds"]

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

BY_PRIMITIVE: dict[str, Op] = {
    primitive: op for op in OPS.values() if op.jax != OURS for primitive in op.primitive_names
}

"""The op table: every primitive that JAX can lower, one record each, in families.

``OPS`` maps an op's name to its record. ``BY_PRIMITIVE`` maps a JAX primitive's name, as in any
supported version, to the record. A primitive without a record is not an error: it is imported under
its own name with whatever params it has.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from jaxmlir.dialect.ops.arrays import INDEXING, SHAPE
from jaxmlir.dialect.ops.devices import COLLECTIVES, SHARDING
from jaxmlir.dialect.ops.effects import EFFECTS, STATE
from jaxmlir.dialect.ops.elementwise import (
    BITWISE,
    COMPARISON,
    ELEMENTWISE,
    SPECIAL,
    TRANSCENDENTAL,
)
from jaxmlir.dialect.ops.functions import CALLS, CHECKPOINTING, CONTROL_FLOW, CUSTOM_DERIVATIVES
from jaxmlir.dialect.ops.kernels import HARDWARE, KERNEL
from jaxmlir.dialect.ops.linalg import LINALG, SPARSE
from jaxmlir.dialect.ops.random import RANDOM
from jaxmlir.dialect.ops.record import OURS, REQUIRED, Attr, Family, Op, Trait, holds, spelling
from jaxmlir.dialect.ops.reductions import CONTRACTION, REDUCTION

__all__ = [
    "BY_PRIMITIVE",
    "CALLEES",
    "FAMILIES",
    "FUNCTIONS_IN_RECORDS",
    "OPS",
    "OURS",
    "REQUIRED",
    "Attr",
    "Family",
    "Op",
    "Trait",
    "holds",
    "spelling",
    "may_have_functions",
    "names",
    "record_of",
    "with_trait",
]

# In the order of the reference, from elementwise to rarely used ops.
FAMILIES = (
    ELEMENTWISE,
    TRANSCENDENTAL,
    BITWISE,
    COMPARISON,
    SPECIAL,
    SHAPE,
    INDEXING,
    REDUCTION,
    CONTRACTION,
    LINALG,
    RANDOM,
    CONTROL_FLOW,
    CHECKPOINTING,
    CALLS,
    CUSTOM_DERIVATIVES,
    STATE,
    EFFECTS,
    SHARDING,
    COLLECTIVES,
    SPARSE,
    HARDWARE,
    KERNEL,
)

OPS: dict[str, Op] = {op.name: op for family in FAMILIES for op in family.ops}


def record_of(name: str) -> Op | None:
    """The record of an op by its full name, ``jaxpr.add``; ``None`` if it has no record."""
    return OPS.get(name.removeprefix("jaxpr."))


def names(records: Iterable[Op]) -> frozenset[str]:
    """The full names of some records' ops."""
    return frozenset(f"jaxpr.{record.name}" for record in records)


@functools.cache
def with_trait(*traits: Trait) -> frozenset[str]:
    """The full names of the ops that have all the given traits."""
    # Search in a tuple compares by identity, which is faster than hashing members of an enum.
    return names(r for r in OPS.values() if all(trait in r.traits for trait in traits))


CALLEES = {
    name: OPS[name.removeprefix("jaxpr.")].functions[0].name for name in with_trait(Trait.CALL)
}
"""The attribute that names the callee of each op that calls one function; by the op's full name."""

# Ops that refer to functions inside an attribute of another kind.
FUNCTIONS_IN_RECORDS = frozenset(
    {"call_hi_primitive", "call_hi_primitive_linearized", "custom_linear_solve"}
)


@functools.cache
def may_have_functions(name: str) -> bool:
    """Whether ops of a name can refer to functions; looking for these costs more than asking."""
    op = record_of(name)
    return op is None or bool(op.functions) or op.name in FUNCTIONS_IN_RECORDS


BY_PRIMITIVE: dict[str, Op] = {
    primitive: op for op in OPS.values() if op.jax != OURS for primitive in op.primitive_names
}

"""``jaxpr-cse``: common subexpression elimination.

Two ops of a function are one if they have the same name, attributes and operands: the later one's
results become the earlier one's.  Operands of commutative ops (their records say which) may stand
in another order.  As operands are looked at after what they came from was merged, one walk over a
function finds whole common subtrees.

Ops with effects are left alone, and so are those that are not the same thing twice: barriers,
fresh buffers, stateful generators, recomputation that was asked for (``remat2``); their records
say why.  Functions are not looked into from outside: ``jaxpr-inline`` does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir import codec, ops
from jaxmlir._compat import core
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import ops_of
from jaxmlir.passes._remarks import remark, remarks_wanted
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


class Cse(Pass):
    """Merge ops that compute the same value of the same operands."""

    name: ClassVar[str] = "jaxpr-cse"

    def run(self, program: Program) -> None:
        cse(program)


def cse(program: Program) -> int:
    """Merges common subexpressions in place; how many ops went."""
    with scope():
        merged = sum(map(_merge, program.functions.values()))
    program.changed()
    return merged


def _merge(function: func.FuncOp) -> int:
    numbers: dict[ir.Value, int] = {v: i for i, v in enumerate(function.arguments)}
    first: dict[Any, Any] = {}
    doubles = []
    for op, name, operands in ops_of(function):
        attributes = op.attributes
        results = op.results
        count = len(results)
        if count and _is_mergeable(name) and not _has_effects(attributes):
            inputs = [numbers[v] for v in operands]
            if len(inputs) == 2 and inputs[0] > inputs[1] and _commutes(name, results[0].type):
                inputs.reverse()
            key = (
                name,
                tuple(inputs),
                tuple(attributes.items()) if len(attributes) else (),
                results[0].type if count == 1 else tuple(results.types),
            )
            known = first.setdefault(key, op)
            if known is not op:
                doubles.append(op)
                for old, new in zip(results, known.results, strict=True):
                    numbers[old] = numbers[new]
                    old.replace_all_uses_with(new)
                continue
        for result in results:
            numbers[result] = len(numbers)
    for op in doubles:
        if remarks_wanted():
            remark(op, f"removed '{op.operation.name}': computed before from the same operands")
        op.operation.erase()
    return len(doubles)


def _has_effects(attributes: Any) -> bool:
    """Whether an op has an effect besides naming a mesh axis."""
    if not len(attributes) or "jaxpr.effects" not in attributes:
        return False
    return not all(
        isinstance(codec.decode(item), core.NamedAxisEffect) for item in attributes["jaxpr.effects"]
    )


def _is_mergeable(name: str) -> bool:
    found = _mergeable.get(name)
    if found is None:
        record = ops.OPS.get(name.removeprefix("jaxpr."))
        # Of an op without a record we do not know what it does.
        found = _mergeable[name] = record is not None and not ops.distinct(record)
    return found


def _commutes(name: str, type_: ir.Type) -> bool:
    """Whether the operands of an op with such a result may be exchanged, bit for bit."""
    key = (name, type_)
    found = _commuting.get(key)
    if found is None:
        record = ops.OPS.get(name.removeprefix("jaxpr."))
        found = record is not None and record.commutative
        if found:
            # A product of complex numbers may be computed with fused multiply-adds, which round
            # one of its two terms only.
            dtype = getattr(aval_of(type_), "dtype", None)
            found = dtype is not None and getattr(dtype, "kind", "V") != "c"
        _commuting[key] = found
    return found


_mergeable: dict[str, bool] = {}
_commuting: dict[tuple[str, ir.Type], bool] = {}

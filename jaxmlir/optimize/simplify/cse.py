"""``jaxpr-cse``: common subexpression elimination.

Two ops of a function are one if they have the same name, attributes and operands: the later one's
results become the earlier one's.  Operands of commutative ops (their records say which) may stand
in another order.  As operands are looked at after what they came from was merged, one walk over a
function finds whole common subtrees.

Ops with effects are left alone, and so are those that are not the same thing twice: barriers,
fresh buffers, stateful generators, recomputation that was asked for (``remat2``); their records
say why.  Calls with a VJP rule are not merged either: a backward rule, one that clips a cotangent
say, need not give for the sum of two what it gives for each.  Functions are looked into for these
and for stateful generators alone: what else two of them have in common is for ``jaxpr-inline`` to
show.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.purity import CountedOps
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark, remarks_wanted


class Cse(Pass):
    """Merge ops that compute the same value of the same operands."""

    name: ClassVar[str] = "jaxpr-cse"

    def run(self, program: Module) -> bool:
        counted, body = CountedOps(program), analyses_of(program).body
        return sum(_merge(body(f), counted) for f in program.functions.values()) > 0


def _merge(body: FunctionView, counted: CountedOps) -> int:
    """Merges common subexpressions of a function; how many ops went."""
    # Of each value the number of the first one that is the same.
    same = list(range(len(body.types)))
    first: dict[Any, int] = {}
    doubles: list[tuple[int, int]] = []
    for i, signature in enumerate(body.signatures):
        kind = _kind_of(signature)
        if kind is None or counted(signature):
            continue
        inputs = [same[v] for v in body.operands[i]]
        if kind.commutes and len(inputs) == 2:
            inputs.sort()
        earlier = first.setdefault((kind.key, *inputs), i)
        if earlier != i:
            doubles.append((i, earlier))
            same[slice(*body.results[i])] = range(*body.results[earlier])
    for i, earlier in doubles:
        for old, new in zip(body.ops[i].results, body.ops[earlier].results, strict=True):
            old.replace_all_uses_with(new)
        if remarks_wanted():
            message = f"removed '{body.names[i]}': computed before from the same operands"
            remark(body.ops[i], message)
        body.ops[i].operation.erase()
    return len(doubles)


class _Opcode(NamedTuple):
    """Ops that compute the same of the same operands.

    Attributes:
      key: an object for each name, attributes and result types; operands tell their own types.
      commutes: whether the operands may be exchanged, bit for bit.
    """

    key: object
    commutes: bool


@functools.cache
def _kind_of(signature: Signature) -> _Opcode | None:
    """The kind of a signature's ops; ``None`` if these are not merged."""
    record = ops.record_of(signature.name)
    # Of an op without a record we do not know what it does.
    if record is None or record.distinct or not signature.results or _has_effects(signature):
        return None
    key = (signature.name, signature.attributes, signature.results)
    # A product of complex numbers may be computed with fused multiply-adds, which round one of its
    # two terms only.
    dtype = getattr(aval_of(signature.results[0]), "dtype", None)
    exact = dtype is not None and getattr(dtype, "kind", "V") != "c"
    return _Opcode(
        _keys.setdefault(key, object()), ops.Trait.COMMUTATIVE in record.traits and exact
    )


_keys: dict[Any, object] = {}


def _has_effects(signature: Signature) -> bool:
    """Whether ops have an effect besides naming a mesh axis."""
    return signature.effects is not None and not all(
        isinstance(codec.decode(item), core.NamedAxisEffect) for item in signature.effects
    )

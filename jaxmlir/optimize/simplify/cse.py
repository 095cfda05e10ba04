"""``jaxpr-cse``: common subexpression elimination.

Two ops of a function are merged if they have the same name, attributes and operands: the results
of the earlier op replace those of the later one.  Operands of commutative ops (marked in the op
records) may be in another order.  An op is looked up after the producers of its operands have been
merged, so one walk over a function finds whole common subtrees.

Ops with effects are left alone, and so are ops whose duplicates are distinct: barriers, fresh
buffers, stateful generators, requested recomputation (``remat2``); their records say why.  Calls
with a VJP rule are not merged either: a backward rule need not be linear, for example if it clips
the cotangent, so it may return for the sum of two cotangents another value than the sum of its
results for each.  The pass looks into called functions for VJP rules and stateful generators only;
other common subexpressions of functions appear once ``jaxpr-inline`` has run.
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
    """Merges common subexpressions of a function; returns the number of erased ops."""
    # For each value the number of the first equal value.
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
    """A class of ops that compute the same results if they have the same operands.

    Attributes:
      key: a unique object for a name, attributes and result types; operand types follow from the
        operands.
      commutes: whether exchanging the operands changes no bit of the result.
    """

    key: object
    commutes: bool


@functools.cache
def _kind_of(signature: Signature) -> _Opcode | None:
    """The opcode of a signature's ops; ``None`` if these are not merged."""
    record = ops.record_of(signature.name)
    # Nothing is known about an op without a record.
    if record is None or record.distinct or not signature.results or _has_effects(signature):
        return None
    key = (signature.name, signature.attributes, signature.results)
    # A complex product may be computed with fused multiply-adds, which round only one of the two
    # terms, so exchanging the factors may change the result.
    dtype = getattr(aval_of(signature.results[0]), "dtype", None)
    exact = dtype is not None and getattr(dtype, "kind", "V") != "c"
    return _Opcode(
        _keys.setdefault(key, object()), ops.Trait.COMMUTATIVE in record.traits and exact
    )


_keys: dict[Any, object] = {}


def _has_effects(signature: Signature) -> bool:
    """Whether ops of a signature have an effect other than naming a mesh axis."""
    return signature.effects is not None and not all(
        isinstance(codec.decode(item), core.NamedAxisEffect) for item in signature.effects
    )

"""``jaxpr-roll-calls``: calls that draw random numbers, each with its own key, become a loop::

    f(k0), f(k1), f(k2), f(k3)    ->    map(f, stack(k0, k1, k2, k3))

A network draws a mask in each of its layers, and initializes each of its matrices, by calls of the
same few functions with different keys.  XLA compiles each call separately, and the hash that makes
random bits of a key is the longest code in most programs: it takes nine tenths of the time to
compile the forward pass of a transformer with dropout.  In a loop it is compiled once.

The operands of all calls are computed before the first call.  A call with larger operands than keys
and a few numbers stays where it is.  A loop never contains two calls that depend on each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import starmap
from typing import Any, ClassVar

from jaxmlir._compat import jax_version
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FEW_ELEMENTS, inlined_calls
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import elements, is_array, size
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.vectorize.isomorphic import Group, independent_groups
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.support.lazy import memoized
from jaxmlir.transforms.templates import Rules

# Six masks, or six arrays of normal numbers, each used once, on two cores: CPU time of the loop /
# of the calls, and seconds to compile the calls, the loop.
#                   jax 0.12                    jax 0.10
#   masks    2^8    0.45  0.94, 0.24            0.60  0.46, 0.30
#            2^12   0.86  0.75, 0.18            1.0   0.52, 0.31
#            2^16   0.92  0.56, 0.13            0.90  0.45, 0.26
#            2^20   0.81  0.56, 0.14            0.84  0.46, 0.27
#   numbers  2^8    0.48  0.95, 0.22            0.57  0.48, 0.26
#            2^12   0.85  0.76, 0.18            1.2   0.57, 0.34
#            2^16   0.95  0.61, 0.16            1.1   0.48, 0.26
#            2^20   0.98  0.65, 0.15            0.98  0.51, 0.27
# Compiling takes 0.16 and 0.08 s per call, and for a loop as long as for one or two, and for four
# calls.  The loop takes 0.5 to 0.85 of the memory.
MIN_CALLS = 4
# Before this version only masks are stacked: XLA's loops copy their stacked results.
NUMBERS_SINCE = (0, 11)


class RollCalls(Pass):
    """Turn calls that draw random numbers, each with a key of its own, into one loop.

    Options:
      min-calls: fewer calls are left alone.
    """

    name: ClassVar[str] = "jaxpr-roll-calls"
    # On a GPU each iteration of a loop starts its kernels.
    compilers: ClassVar[tuple[str, ...]] = ("cpu",)
    min_calls: Count = MIN_CALLS

    def run(self, program: Module) -> bool:
        changed = False
        mapping = _CallMapper(Rules(program), self.min_calls)
        for function in outside_kernels(program, NEEDED_OPS["jaxpr-roll-calls"]):
            body = analyses_of(program).body(function)
            while mapping.visit(body):
                changed = True
                # Calls that were moved above one of these loops may make a loop of their own.
                body = FunctionView(function)
        return changed


class _CallMapper:
    def __init__(self, rules: Rules, min_calls: int):
        self.rules = rules
        self.min_calls = min_calls

    def visit(self, body: FunctionView) -> bool:
        """Makes loops of the calls in a function; whether there are any."""
        alike: dict[int, Signature] = {}
        for index, callee in inlined_calls(body).items():
            signature = body.signatures[index]
            if signature.name == "jaxpr.jit" and _is_small(signature) and self.draws(callee):
                alike[index] = signature
        above: set[int] = set()
        for calls in independent_groups(body.operands, starmap(range, body.results), alike):
            if len(calls) < self.min_calls or not above.isdisjoint(calls):
                continue
            behind = _computed_behind(body, calls, above)
            if body.effects.keys().isdisjoint(behind):
                for index in sorted(behind):
                    body.ops[index].operation.move_before(body.ops[calls[0]].operation)
                self.write(body, calls)
                above.update(behind, calls)
        return bool(above)

    @memoized
    def draws(self, symbol: str) -> bool:
        """Whether a function, or a callee, makes random bits by the hash that compiles slowly."""
        ops = reached_ops(self.rules.program.functions, symbol, custom_rules=False)
        return any(_is_hash(op, name) for op, name in ops)

    def write(self, body: FunctionView, calls: list[int]) -> None:
        """Writes one loop in place of calls, at the first of them."""
        first, signature = body.ops[calls[0]], body.signatures[calls[0]]
        remark(first, f"rolled {len(calls)} calls that draw random numbers into one loop")
        group = Group(self.rules, body, [tuple(calls)])
        columns = group.results(group.packs[0])
        name = f"{signature.named['jaxpr'].value}.map"
        rows = group.write_scan(name, {}, columns, first, first.location)
        with ir.InsertionPoint(first), first.location:
            for column, values in zip(columns, rows, strict=True):
                group.use_rows(column, values)
        group.erase()


def _is_hash(op: Any, name: str) -> bool:
    """Whether an op is a threefry hash; for keys of other kinds, bits are one instruction."""
    if name == "jaxpr.random_bits":
        return aval_of(op.operands[0].type).dtype.name == "key<fry>"
    return name == "jaxpr.threefry2x32"


def _is_small(signature: Signature) -> bool:
    """Whether a call takes only keys and few numbers, and its results may be stacked."""
    numbers = jax_version() >= NUMBERS_SINCE
    return (
        signature.effects is None
        and all(is_array(t) and elements(t) <= FEW_ELEMENTS for t in signature.operands)
        and all(is_array(t) and (numbers or size(t) <= elements(t)) for t in signature.results)
    )


def _computed_behind(body: FunctionView, calls: Sequence[int], above: Collection[int]) -> set[int]:
    """The ops behind the first of some calls that the calls depend on.

    Args:
      above: the ops that were moved above an earlier loop, or replaced by it.
    """
    needed: set[int] = set()
    pending = list(calls)
    while pending:
        for value in body.operands[pending.pop()]:
            maker = body.makers[value]
            if maker is None or maker < calls[0] or maker in above or maker in needed:
                continue
            needed.add(maker)
            pending.append(maker)
    return needed

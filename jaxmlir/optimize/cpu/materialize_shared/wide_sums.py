"""Finds the partial sums that ``jaxpr-materialize-shared`` stores, so that no kernel reads too many
arrays.

The gradient with respect to a value that all steps of an unrolled loop share is a sum over the
steps.  XLA fuses this sum and its terms into one last kernel, and keeps the stored values of all
steps until then.  If partial sums are stored, these values are freed step by step; and a kernel of
few arrays is faster than one of many.

The arrays that a kernel reads are counted as if every fusible op were fused::

    reads(v) = union of reads(u) over the operands u of v's op, if XLA fuses that into its users
    reads(v) = {v}    otherwise, and for a function's argument; arrays of few elements do not count

The result of a call reads those of its arguments that it depends on, and values that the callee
stores.  A sum that reads more than ``MAX_READ`` arrays is stored; any other value that reads so
many counts as stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FEW_ELEMENTS, FUSIBLE, inlined_calls
from jaxmlir.analysis.op_counts import ADDITIONS, elements
from jaxmlir.optimize.barriers import FencedValue

# Gradients without a limit / at 4 / 8 / 12 / 16 arrays, ms of CPU time on jax 0.12 and on 0.10: a
# loop of Lorenz-96 10.5 / 9.3 / 8.8 / 10.7 / 10.5 and 14.8 / 10.5 / 9.6 / 14.3 / 14.7; twelve steps
# of Newton's method 4.6 / 4.1 / 4.3 / 4.2 / 4.1 and 4.3 / 4.8 / 4.3 / 4.2 / 4.1, in 13.4 / 9.8 /
# 10.0 / 10.8 / 11.6 MB.
MAX_READ = 8
_REASON = f"the terms of this sum read more than {MAX_READ} arrays"

# An argument of the function is its number, a value that the function stores is its number in a
# tuple, and a value that a callee stores is a pair of the number of the call's first result and the
# callee's element for the value.
_ReadSet = frozenset[object]
_NOTHING: _ReadSet = frozenset()


class _ValueReads(NamedTuple):
    """The arrays that a value reads, and whether it is a sum."""

    reads: _ReadSet
    is_sum: bool = False


def crowded_sums(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView]
) -> dict[str, list[FencedValue]]:
    """The sums to store, by function.

    Args:
      symbols: the functions, callees first.
    """
    sums: dict[str, list[FencedValue]] = {}
    results: dict[str, list[_ValueReads]] = {}
    for symbol in symbols:
        sums[symbol] = []
        results[symbol] = _walk(bodies(symbol), results, sums[symbol])
    return sums


def _walk(
    body: FunctionView, of: Mapping[str, list[_ValueReads]], sums: list[FencedValue]
) -> list[_ValueReads]:
    """The arrays that each result of a function reads, and whether it is a sum.

    Args:
      of: has the same for each called function.  A recursive call reads nothing.
      sums: receives the sums to store.
    """
    calls = inlined_calls(body)
    large = {type_ for type_ in set(body.types) if elements(type_) >= FEW_ELEMENTS}
    facts = [
        _ValueReads(frozenset({i}) if type_ in large else _NOTHING)
        for i, type_ in enumerate(body.types[: body.arity])
    ]
    for index, (name, operands, (first, last)) in enumerate(
        zip(body.names, body.operands, body.results, strict=True)
    ):
        if index in calls:
            of_operands = [facts[v].reads for v in operands]
            of_callee = of.get(calls[index]) or [_ValueReads(_NOTHING)] * (last - first)
            out_facts = [
                _ValueReads(_of_call(first, reads, of_operands), is_sum)
                for reads, is_sum in of_callee
            ]
        elif name in FUSIBLE:
            reads = _NOTHING.union(*[facts[v].reads for v in operands])
            out_facts = [_ValueReads(reads, name in ADDITIONS)]
        else:
            out_facts = None
        for v in range(first, last):
            is_large = body.types[v] in large
            stored = _ValueReads(frozenset({(v,)}) if is_large else _NOTHING)
            of_result = stored if out_facts is None else out_facts[v - first]
            if is_large and len(of_result.reads) > MAX_READ:
                if of_result.is_sum:
                    sums.append(FencedValue(index, v - first, _REASON))
                of_result = stored
            facts.append(of_result)
    return [facts[v] for v in body.returned]


def _of_call(call: int, of_result: _ReadSet, of_operands: list[_ReadSet]) -> _ReadSet:
    """The arrays that a result of a call reads, given those that it reads in the callee.

    Args:
      call: the number of the call's first result.
    """
    return _NOTHING.union(
        *(
            of_operands[source] if isinstance(source, int) else {(call, source)}
            for source in of_result
        )
    )

"""Where ``jaxpr-fence`` cuts a sum of many arrays, so that no kernel reads them all.

The gradient in what all steps of an unrolled loop share is a sum over the steps.  XLA fuses it, and
what is added up, into one last kernel, and what the steps have stored is kept until then.  Partial
sums that are stored let it go step by step, and a kernel of few arrays is faster than one of many.

How many arrays a kernel reads is counted as if all were fused that can be::

    reads(v) = union of reads(u) over the operands u of v's op, if XLA fuses that into its users
    reads(v) = {v}    otherwise, and of a function's argument; nothing of few elements counts

The results of a call read what they read of the arguments, and what the called function stores. A
sum of more than ``MAX_READ`` arrays is stored, and anything else of so many is taken for stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import ops_of, returned
from jaxmlir.passes._fusion import FEW_ELEMENTS, FUSED, MOVED, is_inlined
from jaxmlir.passes._work import ADDITIONS, elements

# Gradients without a limit / at 4 / 8 / 12 / 16 arrays, ms of CPU time on jax 0.12 and on 0.10: a
# loop of Lorenz-96 10.5 / 9.3 / 8.8 / 10.7 / 10.5 and 14.8 / 10.5 / 9.6 / 14.3 / 14.7; twelve steps
# of Newton's method 4.6 / 4.1 / 4.3 / 4.2 / 4.1 and 4.3 / 4.8 / 4.3 / 4.2 / 4.1, in 13.4 / 9.8 /
# 10.0 / 10.8 / 11.6 MB.
MAX_READ = 8

# Numbers stand for the arguments of the function at hand, values for what is stored in it, and
# pairs of a call's result and one of these for what is stored in the called function.
_Reads = frozenset[object]
_NOTHING: _Reads = frozenset()


class _Found(NamedTuple):
    """What has been found about a value."""

    reads: _Reads
    is_sum: bool = False


def crowded_sums(functions: Mapping[str, func.FuncOp]) -> dict[str, list[tuple[int, int]]]:
    """The sums to store: for each function, of which of its ops they are which results."""
    search = _Search(functions)
    for symbol in functions:
        search.results(symbol)
    return search.sums


class _Search:
    """What has been found in the functions so far."""

    def __init__(self, functions: Mapping[str, func.FuncOp]):
        self.sums: dict[str, list[tuple[int, int]]] = {}
        self._functions = functions
        self._results: dict[str, list[_Found]] = {}

    def results(self, symbol: str) -> list[_Found]:
        """What the results of a function are."""
        if symbol not in self._results:
            function = self._functions[symbol]
            # A rule that calls its own function: in itself this reads nothing.
            self._results[symbol] = [_Found(_NOTHING)] * len(function.type.results)
            self._results[symbol] = self._walk(symbol, function)
        return self._results[symbol]

    def _walk(self, symbol: str, function: func.FuncOp) -> list[_Found]:
        sums = self.sums[symbol] = []
        known = {v: _itself(v, i) for i, v in enumerate(function.arguments)}
        for index, (op, name, operands) in enumerate(ops_of(function)):
            found = self._of_op(op, name, [known[v].reads for v in operands])
            for number, (v, of_result) in enumerate(zip(op.results, found, strict=True)):
                known[v] = of_result
                if len(of_result.reads) > MAX_READ and _is_large(v):
                    known[v] = _itself(v, v)
                    if of_result.is_sum:
                        sums.append((index, number))
        return [known[v] for v in returned(function)]

    def _of_op(self, op: Any, name: str, read: list[_Reads]) -> list[_Found]:
        if is_inlined(op, name):
            callee = self.results(op.attributes["jaxpr"].value)
            return [_Found(_of_call(op, reads, read), is_sum) for reads, is_sum in callee]
        if name in FUSED or name in MOVED:
            return [_Found(_NOTHING.union(*read), name in ADDITIONS)]
        return [_itself(v, v) for v in op.results]


def _itself(value: ir.Value, name: object) -> _Found:
    return _Found(frozenset({name}) if _is_large(value) else _NOTHING)


def _of_call(call: ir.OpView, of_result: _Reads, of_operands: list[_Reads]) -> _Reads:
    """What a result of a call reads, given what it reads in the called function."""
    return _NOTHING.union(
        *(
            of_operands[read] if isinstance(read, int) else {(call.results[0], read)}
            for read in of_result
        )
    )


def _is_large(value: ir.Value) -> bool:
    return elements(value.type) >= FEW_ELEMENTS

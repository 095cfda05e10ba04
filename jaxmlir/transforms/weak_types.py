"""Gives the values that rules have written the weak types that JAX infers.

A rule is run on the types of an op's operands and results, and the outcome is copied in wherever
there is such an op.  JAX runs the rule on the actual tangents and cotangents, and these need not be
weakly typed where the values are: the tangent of ``x ** 2`` has the factor ``2 * x``, which is not.
An array that is weakly typed by mistake gets another dtype once it meets one of fewer bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxmlir.dialect.builder import named_ops, returned
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import CALLEES, may_have_functions
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.verify.verifier import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from jaxmlir.dialect.module import Module


def infer_weak_types(program: Module, symbols: Iterable[str]) -> None:
    """Makes values weakly typed where JAX does, in functions and in those that they call.

    A function that is called with several types gets those of the first call.  The results of loops
    keep their types.
    """
    inference = _Inference(program)
    for symbol in symbols:
        if any(map(_is_weak, program.function(symbol).type.inputs)):
            inference.function(symbol)


def _is_weak(type_: ir.Type) -> bool:
    return getattr(aval_of(type_), "weak_type", False)


class _Inference:
    def __init__(self, program: Module):
        self.program = program
        self.results: dict[str, Sequence[ir.Type]] = {}

    def function(self, symbol: str, arguments: Sequence[ir.Value] = ()) -> Sequence[ir.Type]:
        """The types of a function's results; its arguments become as weak as the values passed."""
        if symbol not in self.results:
            function = self.program.function(symbol)
            own = list(function.entry_block.arguments)
            for argument, value in zip(own, arguments, strict=False):
                _set_weak(argument, _is_weak(value.type))
            for op, name in named_ops(function):
                if any(_is_weak(v.type) for v in (*op.operands, *op.results)):
                    for result, is_weak in zip(op.results, self.inferred(op, name), strict=True):
                        _set_weak(result, is_weak)
            types = self.results[symbol] = [v.type for v in returned(function)]
            type_ = ir.FunctionType.get([v.type for v in own], types)
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
        return self.results[symbol]

    def inferred(self, op: Any, name: str) -> list[bool]:
        """For each result of an op, whether it is weakly typed."""
        if name == "jaxpr.cond":
            branches = [self.function(branch.value) for branch in op.attributes["branches"]]
            return [all(map(_is_weak, types)) for types in zip(*branches, strict=True)]
        if name in CALLEES:
            # JAX transposes all other callees for the types that their results have.
            arguments = list(op.operands) if name == "jaxpr.jit" else []
            symbol = op.attributes[CALLEES[name]].value
            return list(map(_is_weak, self.function(symbol, arguments)))
        if name == "jaxpr.constant" or may_have_functions(name):
            return [_is_weak(result.type) for result in op.results]
        _, avals, _ = evaluate(self.program.stubs, op, name, check_vma=True)
        return [getattr(aval, "weak_type", False) for aval in avals]


def _set_weak(value: ir.Value, is_weak: bool) -> None:
    if _is_weak(value.type) != is_weak:
        value.set_type(type_of(aval_of(value.type).update(weak_type=is_weak)))

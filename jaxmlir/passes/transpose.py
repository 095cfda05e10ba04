"""``jaxpr-transpose``: reverse a linear function.

The ops that do not depend on linear arguments are computed forwards.  Then the linear ones are
visited backwards, each handing the cotangents of its results to its operands by its primitive's
transpose rule; a value used more than once sums what it is handed.  Cotangents that are zero are
never written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir import codec
from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import (
    NewFunction,
    copy,
    ops_of,
    returned,
    set_attribute,
    signature,
    zeros,
)
from jaxmlir.passes._rules import Rules
from jaxmlir.types import aval_of, type_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class Transpose(Pass):
    """Add ``@f.transpose``: (*nonlinear arguments, *cotangents of results) -> (*cotangents of
    linear arguments).

    Options:
      func: the linear function; by default the public one.
      linear: its linear flat arguments; by default all but the residuals (``jaxpr.num_res``).
    """

    name: ClassVar[str] = "jaxpr-transpose"
    func: str = ""
    linear: tuple[int, ...] = ()

    def run(self, program: Program) -> None:
        with scope():
            symbol = self.func or program.name
            function = program.function(symbol)
            first = 0
            if "jaxpr.num_res" in function.attributes:
                first = codec.decode(function.attributes["jaxpr.num_res"])
            linear = tuple(
                i in self.linear if self.linear else i >= first
                for i in range(len(function.arguments))
            )
            transpose(Rules(program), symbol, linear, f"{symbol}.transpose")
        program.changed()


def transpose(rules: Rules, symbol: str, linear: Sequence[bool], name: str) -> str:
    """Writes the transpose of ``@symbol`` in its ``linear`` arguments as ``@name``.

    It takes the cotangents of all results, and gives those of all linear arguments.

    Raises:
      TransformError: the function is not linear, or an op has no transpose rule.
    """
    results = rules.program.function(symbol).type.results
    name, _ = _transpose(rules, symbol, linear, name, (True,) * len(results), linear)
    return name


def transpose_nonzero(
    rules: Rules,
    symbol: str,
    linear: Sequence[bool],
    name: str,
    nonzero: Sequence[bool],
    required: Sequence[bool] | None = None,
) -> tuple[str, tuple[bool, ...]]:
    """Like :func:`transpose`, for results of which only some have cotangents.

    Args:
      nonzero: which results have one.
      required: the arguments whose cotangents are to be given, be they zero; by default none.

    Returns:
      The symbol, and which linear arguments it gives cotangents of.
    """
    required = (False,) * len(linear) if required is None else required
    return _transpose(rules, symbol, linear, name, nonzero, required)


def linear_results(rules: Rules, symbol: str, linear: Sequence[bool]) -> tuple[bool, ...]:
    """Which results of ``@symbol`` depend on its linear arguments."""
    function = rules.program.function(symbol)
    dependent = {v for v, lin in zip(function.arguments, linear, strict=True) if lin}
    for op, _, operands in ops_of(function):
        if not dependent.isdisjoint(operands):
            dependent.update(op.results)
    return tuple([v in dependent for v in returned(function)])


def reached_arguments(
    rules: Rules, symbol: str, linear: Sequence[bool], nonzero: Sequence[bool]
) -> tuple[bool, ...]:
    """Which linear arguments of ``@symbol`` its results with cotangents may depend on."""
    function = rules.program.function(symbol)
    reached = {v for v, n in zip(returned(function), nonzero, strict=True) if n}
    for op, _, operands in reversed(list(ops_of(function))):
        if not reached.isdisjoint(op.results):
            reached.update(operands)
    arguments = zip(function.arguments, linear, strict=True)
    return tuple([lin and v in reached for v, lin in arguments])


def _transpose(
    rules: Rules,
    symbol: str,
    linear: Sequence[bool],
    name: str,
    nonzero: Sequence[bool],
    required: Sequence[bool],
) -> tuple[str, tuple[bool, ...]]:
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    outs = [v for v, n in zip(returned(function), nonzero, strict=True) if n]
    fixed = [v for v, lin in zip(arguments, linear, strict=True) if not lin]
    types = [*(v.type for v in fixed), *(cotangent_type(v.type) for v in outs)]
    new = NewFunction(rules, name, types, function)
    values = dict(zip(fixed, new.args, strict=False))
    tangents = {v for v, lin in zip(arguments, linear, strict=True) if lin}
    tape: list[tuple[Any, str, list[ir.Value]]] = []
    cotangents = _Cotangents()
    with new.body():
        for op, op_name, operands in ops_of(function):
            if tangents.isdisjoint(operands):
                args = [values[v] for v in operands]
                values.update(zip(op.results, copy(op, op_name, args), strict=True))
            else:
                tangents.update(op.results)
                tape.append((op, op_name, operands))
        for out, ct in zip(outs, new.args[len(fixed) :], strict=True):
            if out in tangents:
                cotangents.add(out, ct)
            # A result that is no linear function of the arguments is a constant: no cotangent.
        for op, op_name, operands in reversed(tape):
            _transpose_op(rules, op, op_name, operands, values, tangents, cotangents)
        results = []
        given = []
        for v, lin, needs_one in zip(arguments, linear, required, strict=True):
            if lin:
                ct = cotangents.pop(v)
                if ct is None and needs_one:
                    ct = zeros(cotangent_type(v.type))
                given.append(ct is not None)
                results.extend([ct] if ct is not None else [])
    new.finish(results)
    set_attribute(new.op, "jaxpr.num_res", len(fixed))
    return new.name, tuple(given)


def _transpose_op(
    rules: Rules,
    op: Any,
    name: str,
    operands: list[ir.Value],
    values: dict[ir.Value, ir.Value],
    tangents: set[ir.Value],
    cotangents: _Cotangents,
) -> None:
    cts = [cotangents.pop(v) for v in op.results]
    nonzero = tuple([ct is not None for ct in cts])
    if True not in nonzero:
        return
    linear = tuple([v in tangents for v in operands])
    rule = rules.transpose(op, name, linear, nonzero, signature(op, name, operands))
    args = [values[v] for v in operands if v not in tangents]
    args += [ct for ct in cts if ct is not None]
    handed = iter(rule.inline(args, op.location))
    with op.location:
        receivers = [v for v in operands if v in tangents]
        for v, has_cotangent in zip(receivers, rule.pattern, strict=True):
            if has_cotangent:
                cotangents.add(v, next(handed))


class _Cotangents:
    """The sum of what each value has been handed."""

    def __init__(self) -> None:
        self._sums: dict[ir.Value, ir.Value] = {}

    def add(self, value: ir.Value, cotangent: ir.Value) -> None:
        known = self._sums.get(value)
        if known is not None:
            operands = [known, cotangent]
            cotangent = ir.Operation.create("jaxpr.add_any", [known.type], operands).result
        self._sums[value] = cotangent

    def pop(self, value: ir.Value) -> ir.Value | None:
        return self._sums.pop(value, None)


def cotangent_type(type_: ir.Type) -> ir.Type:
    """The type of cotangents of values of a type."""
    return type_of(aval_of(type_).to_ct_aval())

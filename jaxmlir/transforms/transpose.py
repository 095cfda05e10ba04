"""``jaxpr-transpose``: reverse a linear function.

The ops that do not depend on linear arguments are computed forwards.  Then the linear ops are
visited backwards: each passes the cotangents of its results to its operands by its primitive's
transpose rule.  The cotangents of a value with several uses are summed.  Zero cotangents are never
written down.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.builder import copy, set_attribute, zeros
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module, at_function, named_arguments
from jaxmlir.dialect.types import aval_of, linear_aval, type_of
from jaxmlir.errors import TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import Mask, chosen
from jaxmlir.transforms.emitters import Emitter, Template
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


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

    def run(self, program: Module) -> None:
        symbol = program.chosen(self.func)
        function = program.function(symbol)
        first = _num_residuals(function)
        linear = named_arguments(program, symbol, self.linear)
        if not self.linear:
            linear = tuple(i >= first for i in range(len(linear)))
        transpose(Rules(program), symbol, linear, f"{symbol}.transpose")


def _num_residuals(function: func.FuncOp) -> int:
    """The number of leading arguments that a function declares to be residuals."""
    if "jaxpr.num_res" not in function.attributes:
        return 0
    said, total = function.attributes["jaxpr.num_res"], len(function.arguments)
    n_res = codec.decode(said)
    if type(n_res) is not int or not 0 <= n_res <= total:
        message = (
            f"@{function.name.value} attribute 'jaxpr.num_res': expected an integer from 0 to "
            f"{total}, got {said}"
        )
        raise at_function(function, message)
    return n_res


def transpose(rules: Rules, symbol: str, linear: Sequence[bool], name: str) -> str:
    """Writes the transpose of ``@symbol`` in its ``linear`` arguments as ``@name``: it takes the
    cotangents of all results, and gives those of all linear arguments.  Fails on a function that is
    not linear, or an op without a transpose rule."""
    results = rules.program.function(symbol).type.results
    name, _ = transpose_nonzero(rules, symbol, linear, name, (True,) * len(results), linear)
    return name


@derived
def transpose_of(rules: Rules, symbol: str, linear: Mask, nonzero: Mask) -> tuple[str, Mask]:
    """The result of :func:`transpose_nonzero` for these, written once."""
    name = f"{symbol.removesuffix('.lin')}.bwd"
    return transpose_nonzero(rules, symbol, linear, name, nonzero)


def transpose_nonzero(
    rules: Rules,
    symbol: str,
    linear: Sequence[bool],
    name: str,
    nonzero: Sequence[bool],
    required: Sequence[bool] | None = None,
) -> tuple[str, Mask]:
    """Like :func:`transpose`, but only some results have cotangents (see
    :func:`transpose_function`).  Returns the symbol, and the linear arguments whose cotangents it
    gives."""
    body = rules.functions.body(symbol)
    transposed, pattern = transpose_function(rules, body, linear, name, nonzero, required)
    return transposed.name.value, pattern


def transpose_function(
    rules: Rules,
    body: FunctionView,
    linear: Sequence[bool],
    name: str,
    nonzero: Sequence[bool],
    required: Sequence[bool] | None = None,
    *,
    detached: bool = False,
) -> tuple[func.FuncOp, Mask]:
    """Writes the transpose of any function in some arguments.

    Args:
      linear: the arguments in which it is linear.
      nonzero: which results have cotangents.
      required: the arguments whose cotangents are given even if they are zero; by default none.
      detached: leave the transpose outside the module.

    Returns:
      The transpose, and the linear arguments whose cotangents it gives.
    """
    types = body.types
    fixed = [i for i, lin in enumerate(linear) if not lin]
    outs = chosen(body.returned, nonzero)
    arg_types = [*(types[i] for i in fixed), *(linear_type(types[v]) for v in outs)]
    new = NewFunction(rules, name, arg_types, body.function, detached=detached)
    cotangents = Cotangents(body)
    with new.body():
        dependent = _dependent(body, linear)
        values = _write_values(body, dependent, dict(zip(fixed, new.args, strict=False)))
        for v, ct in zip(outs, new.args[len(fixed) :], strict=True):
            # A result that does not depend on linear arguments is constant: no cotangent.
            if dependent[v]:
                cotangents.add(v, ct)
        _write_transposes(rules, body, values, dependent, cotangents)
        in_cts = cotangents.sums[: body.arity]
        for i, needs_one in enumerate(required or ()):
            if linear[i] and needs_one and in_cts[i] is None:
                in_cts[i] = zeros(linear_type(types[i]))
    in_cts = chosen(in_cts, linear)
    new.finish([ct for ct in in_cts if ct is not None])
    set_attribute(new.op, "jaxpr.num_res", len(fixed))
    return new.op, tuple([ct is not None for ct in in_cts])


def _dependent(body: FunctionView, linear: Sequence[bool]) -> list[bool]:
    """Which values depend on linear arguments."""
    dependent = [*linear, *[False] * (len(body.types) - body.arity)]
    for operands, (first, last) in zip(body.operands, body.results, strict=True):
        if any([dependent[v] for v in operands]):
            dependent[first:last] = [True] * (last - first)
    return dependent


def _write_values(
    body: FunctionView, dependent: Sequence[bool], arguments: dict[int, ir.Value]
) -> list[Any]:
    """Writes the values that do not depend on linear arguments."""
    values: list[Any] = [arguments.get(i) for i in range(len(body.types))]
    for i, operands in enumerate(body.operands):
        if not any([dependent[v] for v in operands]):
            first, last = body.results[i]
            values[first:last] = copy(body.ops[i], body.names[i], [values[v] for v in operands])
    return values


def _write_transposes(
    rules: Rules,
    body: FunctionView,
    values: list[Any],
    dependent: list[bool],
    cotangents: Cotangents,
) -> None:
    """Writes the transposes of the ops that depend on linear arguments, the last one first."""
    cache: dict[Any, Template | Emitter] = {}
    for i in reversed(range(len(body.ops))):
        operands = body.operands[i]
        linear = tuple([dependent[v] for v in operands])
        if True not in linear:
            continue
        handed, nonzero = cotangents.of_results(i)
        if True not in nonzero:
            continue
        op, signature = body.ops[i], body.signatures[i]
        rule = cache.get((signature, linear, nonzero))
        if rule is None:
            rule = rules.transpose(op, signature, linear, nonzero)
            cache[signature, linear, nonzero] = rule
        args = [values[v] for v in operands if not dependent[v]]
        results = rule.inline([*args, *handed], op.location)
        receivers = [v for v in operands if dependent[v]]
        cotangents.hand(chosen(receivers, rule.pattern), results, op.location)


def linear_results(rules: Rules, symbol: str, linear: Sequence[bool]) -> Mask:
    """Which results of ``@symbol`` depend on its linear arguments."""
    body = rules.functions.body(symbol)
    dependent = _dependent(body, linear)
    return tuple([dependent[v] for v in body.returned])


def reached_arguments(
    rules: Rules, symbol: str, linear: Sequence[bool], nonzero: Sequence[bool]
) -> Mask:
    """Which linear arguments of ``@symbol`` its results with cotangents may depend on."""
    body = rules.functions.body(symbol)
    reached = [False] * len(body.types)
    for v in chosen(body.returned, nonzero):
        reached[v] = True
    for operands, (first, last) in zip(
        reversed(body.operands), reversed(body.results), strict=True
    ):
        if any(reached[first:last]):
            for v in operands:
                reached[v] = True
    return tuple([lin and reached[i] for i, lin in enumerate(linear)])


class Cotangents:
    """The sum of the cotangents that each value of a function received, by number, or ``None``."""

    def __init__(self, body: FunctionView):
        self.sums: list[ir.Value | None] = [None] * len(body.types)
        self._body = body

    def of_results(
        self, index: int, depends: Sequence[bool] | None = None
    ) -> tuple[list[ir.Value], Mask]:
        """The cotangents of an op's results, of all or of those in ``depends``, and which have
        one; fails if one has another dtype than cotangents of its value."""
        first, last = self._body.results[index]
        cts = self.sums[first:last]
        for value, cotangent in enumerate(cts, first):
            if cotangent is not None and cotangent.type != self._body.types[value]:
                self._check(value, cotangent.type)
        if depends is not None:
            cts = chosen(cts, depends)
        return [ct for ct in cts if ct is not None], tuple([ct is not None for ct in cts])

    def add(self, value: int, cotangent: ir.Value, location: ir.Location | None = None) -> None:
        """Adds to a value's cotangent, by default at the function's location."""
        total = self.sums[value]
        if total is not None:
            if total.type != cotangent.type:
                self._check(value, total.type)
                self._check(value, cotangent.type)
            operands, location = [total, cotangent], location or self._body.function.location
            add = ir.Operation.create("jaxpr.add_any", [total.type], operands, loc=location)
            cotangent = add.result
        self.sums[value] = cotangent

    def hand(
        self, values: Sequence[int], cotangents: Sequence[ir.Value], location: ir.Location
    ) -> None:
        """Adds the cotangents that an op gives to its operands, at the location of the op."""
        for value, cotangent in zip(values, cotangents, strict=True):
            self.add(value, cotangent, location)

    def _check(self, value: int, given: ir.Type) -> None:
        """Checks the dtype of a cotangent: JAX lets a backward rule give any type, as long as
        nothing is computed from it."""
        body = self._body
        expected = linear_type(body.types[value])
        if _dtype(expected) == _dtype(given):
            return
        owner, what = body.value(value).owner, f"argument {value} of @{body.function.name.value}"
        location = body.function.location
        if not isinstance(owner, ir.Block):
            what, location = f"'{owner.operation.name}' op", owner.location
        message = (
            f"{what} cannot be transposed: expected a cotangent of type {expected}, got {given} "
            "from the backward rule of a custom_vjp function"
        )
        raise locations.error_at(TransformError, location, message)


def _dtype(type_: ir.Type) -> Any:
    return getattr(aval_of(type_), "dtype", None)


@functools.cache
def linear_type(type_: ir.Type) -> ir.Type:
    """The type that a transpose takes for results of a type, and gives for linear arguments."""
    return type_of(linear_aval(aval_of(type_)))

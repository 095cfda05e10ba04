"""``jaxpr-vjp`` and ``jaxpr-grad``: reverse-mode differentiation.

Reverse mode is linearization followed by transposition.  A composition is transposed part by part,
in the opposite order.  So the linear half of each op is transposed alone, once per signature, and
the linear function as a whole (``@f.lin`` of ``jaxpr-linearize``) is never written.  ``@f.fwd``
computes the results and the residuals for the backward pass, ``@f.bwd`` takes cotangents back.  The
gradient of a scalar function runs both, one after the other, from a cotangent of 1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import clone, filled, returned, set_attribute, zeros
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module, at_function
from jaxmlir.dialect.types import cotangent_type, has_tangent, tangent_type_of
from jaxmlir.errors import TransformError
from jaxmlir.support.masks import Mask, chosen
from jaxmlir.transforms.activity import activity_of
from jaxmlir.transforms.emitters import Emitter, Template
from jaxmlir.transforms.linearize import LinearOp, ReversePass, write_forward, write_primals
from jaxmlir.transforms.new_function import NewFunction, SplitFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import Cotangents, transpose_function


class Vjp(ReversePass):
    """Add ``@f.fwd``: (*primals) -> (*results, *residuals), and ``@f.bwd``: (*residuals,
    *cotangents of results that depend on the arguments) -> (*cotangents of arguments).
    """

    name: ClassVar[str] = "jaxpr-vjp"

    def run(self, program: Module) -> None:
        symbol, active = self.prepared(program)
        vjp(Rules(program, reverse=True), symbol, active)


class Grad(ReversePass):
    """Add ``@f.grad``: (*arguments) -> (*gradients), the derivative of a scalar result.

    Options:
      argnums: the flat arguments to differentiate with respect to; by default the first.
      has-aux: the function returns auxiliary results after the scalar; they follow the gradients.
      value: return the value first.
    """

    name: ClassVar[str] = "jaxpr-grad"
    argnums: tuple[int, ...] = (0,)
    has_aux: bool = False
    value: bool = False

    def run(self, program: Module) -> None:
        symbol, active = self.prepared(program)
        rules = Rules(program, reverse=True)
        grad(rules, symbol, active, has_aux=self.has_aux, value=self.value)


def vjp(rules: Rules, symbol: str, active: Mask) -> SplitFunction:
    """Writes ``@symbol.fwd`` and ``@symbol.bwd``, which takes the cotangents of the results that
    depend on the arguments.

    Raises:
      TransformError: an op cannot be linearized or transposed.
    """
    activity = activity_of(rules, symbol, active, "linearize")
    body, active_out = activity.body, activity.results
    outs = chosen(body.returned, active_out)
    fwd, linear, saved, written_again = write_forward(rules, symbol, activity, active_out)
    types = [*(v.type for v in saved), *(cotangent_type(body.types[v]) for v in outs)]
    bwd = NewFunction(rules, f"{symbol}.bwd", types, body.function)
    handed = dict(zip(saved, bwd.args, strict=False))
    with bwd.body():
        handed.update((v, clone(v)) for v in written_again)
        linear = [op._replace(residuals=[handed[v] for v in op.residuals]) for op in linear]
        cotangents = zip(outs, bwd.args[len(saved) :], strict=True)
        bwd.finish(write_cotangents(rules, body, linear, cotangents, active))
    set_attribute(bwd.op, "jaxpr.num_res", len(saved))
    return SplitFunction(fwd, bwd.name, len(saved), active_out)


def grad(
    rules: Rules, symbol: str, active: Mask, *, has_aux: bool = False, value: bool = False
) -> str:
    """Writes ``@symbol.grad``.

    Raises:
      TransformError: the function is not scalar-valued, or an op cannot be differentiated.
    """
    function = rules.program.function(symbol)
    results = list(function.type.results)
    if not results or (len(results) > 1 and not has_aux):
        raise at_function(
            function,
            f"the gradient of @{symbol}: expected one scalar result, got {len(results)} results"
            + ("" if has_aux else " (has-aux allows others after the scalar)"),
        )
    tangible = has_tangent(returned(function)[0])
    if not tangible or results[0].shape:
        raise at_function(
            function,
            f"the gradient of @{symbol}: expected a scalar result, got {results[0]}"
            + ("" if tangible else ", which has no tangents"),
        )
    activity = activity_of(rules, symbol, active, "linearize")
    active_out = (activity.results[0], *[False] * (len(results) - 1))
    new = NewFunction(rules, f"{symbol}.grad", function.type.inputs, function)
    with new.body():
        values, linear = write_primals(rules, activity, active_out, new.args)
        with function.location:
            seed = [(activity.body.returned[0], filled(results[0], 1))] if active_out[0] else []
        gradients = write_cotangents(rules, activity.body, linear, seed, active)
    first, *rest = (values[v] for v in activity.body.returned)
    new.finish([*([first] if value else []), *gradients, *rest])
    return new.name


def write_cotangents(
    rules: Rules,
    body: FunctionView,
    linear: Sequence[LinearOp],
    seeds: Iterable[tuple[int, ir.Value]],
    active: Sequence[bool],
) -> list[ir.Value]:
    """Writes the transposes of linear ops, the last one first; the cotangents of active arguments.
    The ops' residuals are available at the current insertion point; ``seeds`` are numbers of
    values, and their cotangents."""
    cotangents = Cotangents(body)
    for value, cotangent in seeds:
        cotangents.add(value, cotangent)
    for op in reversed(linear):
        # A result whose tangent is zero after all does not count.
        handed, nonzero = cotangents.of_results(op.index, op.halves.tangent.pattern)
        if True not in nonzero:
            continue
        transpose = functools.partial(_transposed, rules, body, op, nonzero)
        rule = rules.pullback(op.halves, nonzero, transpose)
        location = body.ops[op.index].location
        results = rule.inline([*op.residuals, *handed], location)
        receivers = chosen(body.operands[op.index], op.halves.uses)
        cotangents.hand(chosen(receivers, rule.pattern), results, location)
    return [
        zeros(cotangent_type(body.types[i])) if cotangents.sums[i] is None else cotangents.sums[i]
        for i in range(body.arity)
        if active[i]
    ]


# --- transposes of linear halves -----------------------------------------------------------------


def _transposed(
    rules: Rules, body: FunctionView, op: LinearOp, nonzero: Mask
) -> tuple[Template | Emitter, bool]:
    """The rule that :meth:`Rules.pullback` gives, and whether it holds in every program."""
    try:
        if op.halves.pull is not None:
            return op.halves.pull(nonzero), False
        half = FunctionView(_function_of(rules, body, op))
        linear = [i >= len(op.residuals) for i in range(half.arity)]
        pullback, pattern = transpose_function(
            rules, half, linear, "pullback", nonzero, detached=True
        )
    except TransformError as e:
        place = locations.position(body.ops[op.index].location)
        raise _at(e, *place) from e.__cause__
    return Template(pullback, pattern), all(
        s.is_portable for s in FunctionView(pullback).signatures
    )


def _function_of(rules: Rules, body: FunctionView, op: LinearOp) -> func.FuncOp:
    """The linear half, as a detached function: ``(*residuals, *tangents) -> (*tangents)``."""
    tangent = op.halves.tangent
    if isinstance(tangent, Template):
        return tangent.function
    operands = chosen(body.operands[op.index], op.halves.uses)
    types = [*(v.type for v in op.residuals), *(tangent_type_of(body.types[v]) for v in operands)]
    new = NewFunction(rules, "tangent", types, body.function, detached=True)
    with new.body():
        results = tangent.inline(new.args, ir.Location.unknown())
    new.finish(results)
    return new.op


def _at(error: TransformError, file: str, line: int, col: int) -> TransformError:
    """The error, located here unless it has a location already."""
    if error.diagnostics[0].line:
        return error
    return TransformError([d._replace(file=file, line=line, col=col) for d in error.diagnostics])

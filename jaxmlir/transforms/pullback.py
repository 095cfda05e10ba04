"""The transpose of the linear half of one op, as a template.

What calls a function is a call of the transpose of that.  Any other half is written into a function
of its own if it is none yet, and that is transposed as any function is: op by op, by JAX's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import tangent_type_of
from jaxmlir.errors import TransformError
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.emitters import Template
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import transpose_function

if TYPE_CHECKING:
    from jaxmlir.transforms.emitters import Emitter
    from jaxmlir.transforms.linearize import LinearOp


def pullback_of(
    rules: Rules, body: FunctionView, op: LinearOp, nonzero: tuple[bool, ...]
) -> Template | Emitter:
    """The rule that :meth:`Rules.pullback` gives of an op, made once.

    Raises:
      TransformError: the op cannot be transposed; names the op and the user's line.
    """
    return rules.pullback(op.halves, nonzero, lambda: _transposed(rules, body, op, nonzero))


def _transposed(
    rules: Rules, body: FunctionView, op: LinearOp, nonzero: tuple[bool, ...]
) -> tuple[Template | Emitter, bool]:
    """The rule, and whether it holds in every program."""
    try:
        if op.halves.pull is not None:
            return op.halves.pull(nonzero), False
        half = FunctionView(_function_of(rules, body, op))
        linear = [i >= len(op.residuals) for i in range(half.arity)]
        new, given = transpose_function(rules, half, linear, "pullback", nonzero, detached=True)
    except TransformError as e:
        place = locations.position(body.ops[op.index].location)
        raise _at(e, *place) from e.__cause__
    return Template(new, given), all(s.is_portable for s in FunctionView(new).signatures)


def _function_of(rules: Rules, body: FunctionView, op: LinearOp) -> func.FuncOp:
    """The linear half, in no module: ``(*residuals, *tangents) -> (*tangents)``."""
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
    """The error about this place, unless it points somewhere already."""
    if error.diagnostics[0].line:
        return error
    return TransformError([d._replace(file=file, line=line, col=col) for d in error.diagnostics])

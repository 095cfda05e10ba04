"""``jaxpr-vjp`` and ``jaxpr-grad``: reverse-mode differentiation.

Reverse mode is linearization followed by transposition: ``@f.fwd`` computes the results and what
the backward pass needs, ``@f.bwd`` takes cotangents back.  The gradient of a scalar function is one
after the other, from a cotangent of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxmlir.errors import TransformError
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import NewFunction, filled, take_in
from jaxmlir.passes._rules import Rules
from jaxmlir.passes.checkpoint_while import checkpoint_while
from jaxmlir.passes.discharge_refs import discharge_refs
from jaxmlir.passes.jvp import active_arguments
from jaxmlir.passes.linearize import Linearized, linearize
from jaxmlir.passes.transpose import transpose

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class Vjp(Pass):
    """Add ``@f.fwd``: (*primals) -> (*results, *residuals), and ``@f.bwd``: (*residuals,
    *cotangents of results that depend on the arguments) -> (*cotangents of arguments).

    Options:
      func: the function to differentiate; by default the public one.
      argnums: the flat arguments to differentiate in; by default all that have tangents.
      while: ``checkpointed`` differentiates loops of unknown length, which are an error by default.
      checkpoints: how many states of such a loop are kept.
    """

    name: ClassVar[str] = "jaxpr-vjp"
    func: str = ""
    argnums: tuple[int, ...] = ()
    while_: Literal["error", "checkpointed"] = "error"
    checkpoints: int | None = None

    def run(self, program: Program) -> None:
        discharge_refs(program)
        with scope():
            symbol = self.func or program.name
            checkpoint_while(program, symbol, self.while_, self.checkpoints)
            vjp(Rules(program), symbol, active_arguments(program, symbol, self.argnums))
        program.changed()


@dataclass(frozen=True)
class Grad(Pass):
    """Add ``@f.grad``: (*arguments) -> (*gradients), the derivative of a scalar result.

    Options:
      func: the function to differentiate; by default the public one.
      argnums: the flat arguments to differentiate in; by default the first.
      has-aux: the function returns auxiliary results after the scalar; they follow the gradients.
      value: return the value first.
      while: ``checkpointed`` differentiates loops of unknown length, which are an error by default.
      checkpoints: how many states of such a loop are kept.
    """

    name: ClassVar[str] = "jaxpr-grad"
    func: str = ""
    argnums: tuple[int, ...] = (0,)
    has_aux: bool = False
    value: bool = False
    while_: Literal["error", "checkpointed"] = "error"
    checkpoints: int | None = None

    def run(self, program: Program) -> None:
        discharge_refs(program)
        with scope():
            symbol = self.func or program.name
            checkpoint_while(program, symbol, self.while_, self.checkpoints)
            active = active_arguments(program, symbol, self.argnums)
            grad(Rules(program), symbol, active, has_aux=self.has_aux, value=self.value)
        program.changed()


@dataclass(frozen=True)
class Pullback:
    """What :func:`vjp` writes: the linearization, and the transpose of its linear function."""

    linearized: Linearized
    bwd: str


def vjp(
    rules: Rules, symbol: str, active: tuple[bool, ...], wanted: tuple[bool, ...] | None = None
) -> Pullback:
    """Writes ``@symbol.fwd``, ``@symbol.lin`` and ``@symbol.bwd``.

    Args:
      wanted: the results to differentiate; by default all.

    Raises:
      TransformError: an op cannot be linearized or transposed.
    """
    linearized = linearize(rules, symbol, active, wanted)
    n = linearized.num_residuals
    linear = [False] * n + [True] * sum(active)
    return Pullback(linearized, transpose(rules, linearized.lin, linear, f"{symbol}.bwd"))


def grad(
    rules: Rules,
    symbol: str,
    active: tuple[bool, ...],
    *,
    has_aux: bool = False,
    value: bool = False,
) -> str:
    """Writes ``@symbol.grad``.

    Raises:
      TransformError: the function is not scalar-valued, or an op cannot be differentiated.
    """
    function = rules.program.function(symbol)
    results = list(function.type.results)
    if not results or (len(results) > 1 and not has_aux):
        raise TransformError(
            f"the gradient of @{symbol} is that of one scalar result; it has {len(results)}"
            + ("" if has_aux else " (has-aux keeps results after the first)")
        )
    if not isinstance(results[0], ir.RankedTensorType) or results[0].shape:
        raise TransformError(
            f"the gradient of @{symbol} is that of a scalar; its result is {results[0]}"
        )
    wanted = (True, *[False] * (len(results) - 1))
    pullback = vjp(rules, symbol, active, wanted)
    new = NewFunction(rules, f"{symbol}.grad", function.type.inputs, function)
    with new.body(), function.location:
        outs = call(rules, pullback.linearized.fwd, new.args)
        values, residuals = outs[: len(results)], outs[len(results) :]
        cotangents = [filled(results[0], 1)] if pullback.linearized.active_out[0] else []
        gradients = call(rules, pullback.bwd, [*residuals, *cotangents])
    new.finish([*(values[:1] if value else []), *gradients, *values[1:]])
    return new.name


def call(rules: Rules, symbol: str, args: Sequence[ir.Value]) -> list[ir.Value]:
    """The body of ``@symbol`` on ``args``, at the current insertion point."""
    function: func.FuncOp = rules.program.function(symbol)
    return take_in(function, args)

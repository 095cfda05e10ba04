"""Evaluating a program op by op, and interpreters of one's own.

``program.eval(*args)`` runs every op by itself, as JAX's eager mode does, and goes into called
functions, loops, branches and the functions of custom derivative rules, so that hooks see each op
with its operands and results.  An op without a body of its own is its primitive, bound; the
callable is kept per signature, so a loop compiles its body once.

An :class:`Interpreter` computes with arrays.  Other domains (intervals, sparsity patterns, units)
subclass it: :meth:`~Interpreter.leaf` says what an op does to their values, and four small methods
say how loops and branches read them; calls and control flow are inherited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.dialect import custom_calls, locations
from jaxmlir.dialect.ir import context, frames
from jaxmlir.dialect.module import check_program
from jaxmlir.dialect.types import widths_of
from jaxmlir.errors import (
    ArgumentError,
    Diagnostic,
    EvaluationError,
    JaxmlirError,
    count,
    deep_calls_as,
    message_of,
)
from jaxmlir.interpret.control_flow import INTERPRETATIONS, Frame
from jaxmlir.interpret.plans import Node, array_of, constant_of, plan_of
from jaxmlir.support.files import source_line

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class Step:
    """One op being evaluated, as hooks see it.

    Attributes:
      name: ``"jaxpr.sin"``.
      op: the MLIR op.
      operands: their values.
      results: their values; ``None`` before the op has run.
      stack: the functions that are being evaluated, outermost first.
    """

    __slots__ = ("name", "node", "op", "operands", "results", "stack")

    def __init__(self, node: Node, operands: list[Any], stack: tuple[Frame, ...]):
        self.node = node
        self.name = node.name
        self.op = node.op
        self.operands = operands
        self.results: list[Any] | None = None
        self.stack = stack

    @property
    def location(self) -> Any:
        """The MLIR location: the user's Python frames under JAX's name stack."""
        return self.op.location

    @property
    def position(self) -> tuple[str, int, int]:
        """File, line and column of the user's frame; ``("", 0, 0)`` where there is none."""
        with context():
            return locations.position(self.op.location)

    @property
    def frames(self) -> list[tuple[str, int, int]]:
        """File, line and column of all of the user's frames, innermost first."""
        with context():
            return frames(self.op.location)

    @property
    def source(self) -> str:
        """The user's source line, ``""`` where it cannot be read."""
        file, line, _ = self.position
        return source_line(file, line).strip()

    @property
    def iterations(self) -> tuple[int, ...]:
        """The passes of the loops around the op, outermost first."""
        return tuple(f.iteration for f in self.stack if f.iteration is not None)

    def __str__(self) -> str:
        """``'jaxpr.sin' op at model.py:12``"""
        file, line, _ = self.position
        return f"'{self.name}' op" + (f" at {file}:{line}" if line else "")


class Hook:
    """What is called around every op; subclasses override what they need.

    An op that calls functions is seen before and after the ops of these.  A hook may assign to
    elements of ``step.operands`` before, and of ``step.results`` after the op: evaluation goes on
    with those.
    """

    def before(self, step: Step) -> None:
        """Called with the operands."""

    def after(self, step: Step) -> None:
        """Called with operands and results."""


class Interpreter:
    """Evaluates functions of a program op by op.

    Args:
      program: its module must not change meanwhile.
      hooks: called around every op, in order.
    """

    def __init__(self, program: Module, hooks: Sequence[Hook] = ()):
        check_program(program)
        self.program = program
        if not isinstance(hooks, Sequence) or not all(isinstance(h, Hook) for h in hooks):
            raise ArgumentError(f"hooks: expected a list of Hooks, got {hooks!r}")
        self.hooks = tuple(hooks)
        self.stack: tuple[Frame, ...] = ()

    def run(self, symbol: str, args: Sequence[Any]) -> list[Any]:
        """The results of ``@symbol`` for flat arguments.

        What an op raises while it runs (a callback's error, JAX's ``FloatingPointError``) goes
        through as it is, with a note that names the op and the user's line.

        Raises:
          ArgumentError: the function takes another number of arguments.
          EvaluationError: an op cannot be evaluated; names it and the user's line.
          LoweringError: the program was loaded, and may not use what it reaches for.
        """
        custom_calls.check(self.program)
        takes = len(self.program.function(symbol).type.inputs)
        if len(args) != takes:
            raise ArgumentError(f"@{symbol} takes {count(takes, 'argument')}, got {len(args)}")
        with deep_calls_as(EvaluationError):
            return self.enter(Frame(symbol, None), args)

    def evaluate(self, op: Any, operands: Sequence[Any]) -> list[Any]:
        """The results of one op of the program for values of its operands."""
        name = op.operation.name
        if name == "jaxpr.constant":
            return [self.constant(constant_of(self.program, op))]
        results = range(len(op.results))
        return self._step(Node(op, name, "", range(len(operands)), results), list(operands))

    # -- for interpretations of ops with functions (``_control``) --

    def enter(self, frame: Frame, args: Sequence[Any]) -> list[Any]:
        """Evaluates a function on a new level of the stack."""
        plan = plan_of(self.program, frame.symbol)
        outer = self.stack
        self.stack = (*outer, frame)
        values: list[Any] = [None] * plan.size
        values[: len(args)] = args
        for number, array in plan.constants:
            values[number] = self.constant(array)
        try:
            for node in plan.nodes:
                outs = self._step(node, [values[i] for i in node.operands])
                if len(outs) != len(node.results):
                    wanted = count(len(node.results), "result")
                    raise _located(JaxmlirError(f"expected {wanted}, got {len(outs)}"), node)
                for number, out in zip(node.results, outs, strict=True):
                    values[number] = out
        finally:
            self.stack = outer
        return [values[i] for i in plan.results]

    def _step(self, node: Node, operands: list[Any]) -> list[Any]:
        if not self.hooks:
            return self._evaluate(node, operands)
        step = Step(node, operands, self.stack)
        for hook in self.hooks:
            hook.before(step)
        step.results = self._evaluate(node, operands)
        for hook in self.hooks:
            hook.after(step)
        return step.results

    def _evaluate(self, node: Node, operands: list[Any]) -> list[Any]:
        control = INTERPRETATIONS.get(node.name)
        if control is not None:
            outs = control(self, node, operands)
            if outs is not None:
                return outs
        try:
            return self.leaf(node, operands)
        except EvaluationError:
            raise
        except (JaxmlirError, NotImplementedError) as e:
            raise _located(e, node) from e
        except Exception as e:
            # Raised while the op ran: a NaN that JAX looks for, a callback's own error.
            e.add_note(str(Diagnostic("note", f"raised by '{node.name}' op", *_position(node))))
            raise

    # -- the domain of values: arrays; subclasses override these --

    def leaf(self, node: Node, operands: list[Any]) -> list[Any]:
        """The results of an op that is not taken apart."""
        return node.bind(self.program)(*operands)

    def constant(self, array: Any) -> Any:
        """The value of a constant of the program."""
        return array

    def concrete(self, value: Any) -> np.ndarray | None:
        """The array that decides about a branch or a loop; ``None`` where it is not known, and the
        op is then evaluated as a whole."""
        return None if isinstance(value, core.Tracer) else np.asarray(value)

    def slice(self, value: Any, index: int) -> Any:
        """``value[index]``, of what a scan goes over."""
        if isinstance(value, core.Tracer):
            return jax.lax.dynamic_index_in_dim(value, index, keepdims=False)
        return _slice(value, index)

    def stack_up(self, values: list[Any], aval: Any) -> Any:
        """What a scan gives: the values of all iterations along a new first axis.

        Args:
          aval: the type of the result, which is all there is to go by if ``values`` is empty.
        """
        if not values:
            with widths_of((aval,)):
                if isinstance(aval.dtype, dtypes.ExtendedDType):
                    return jax.lax.full(aval.shape, 0, aval.dtype)
                return array_of(np.zeros(aval.shape, aval.dtype), aval)
        if any(isinstance(v, core.Tracer) or _is_key(v) for v in values):
            return jax.numpy.stack(values)
        # Concatenating a thousand arrays would have to be compiled for a thousand operands.
        return array_of(np.stack([np.asarray(v) for v in values]), aval)


_slice = jax.jit(lambda value, index: jax.lax.dynamic_index_in_dim(value, index, keepdims=False))


def _is_key(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), dtypes.ExtendedDType)


def _located(error: Exception, node: Node) -> EvaluationError:
    """The error as one about the op."""
    text = message_of(error).strip().partition("\n")[0]
    message = f"'{node.name}' op cannot be evaluated: {text}"
    return EvaluationError([Diagnostic("error", message, *_position(node))])


def _position(node: Node) -> tuple[str, int, int]:
    with context():
        return locations.position(node.op.location)


__all__ = ["Frame", "Hook", "Interpreter", "Step"]

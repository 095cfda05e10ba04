"""``jaxpr-fold-constants``: what depends on constants alone is computed once, before the program.

    // Pattern: f(c0, c1, ...) -> c, the value of f

XLA folds constants when it compiles a program, so that ``(A @ B) @ x`` with constants ``A`` and
``B`` costs one product a call.  Passes that look at what products cost would take the first one for
work of each call, and write ``A @ (B @ x)``; and XLA folds neither what a library computes, such as
factors of a matrix, nor loops.  So values are folded first, with what XLA makes of the same ops on
the same constants: the numbers are those that it would fold to.

What is folded is limited:

* it takes as much work as starting a kernel or more, which is worth to compile something for (less
  is folded by ``jaxpr-canonicalize`` and by XLA), and at most :data:`MAX_WORK`, about a second;
* it is no larger than the constants that it is made of, or than :data:`MAX_GROWTH` bytes: of larger
  values that are made of folded ones the ops stay;
* it is made of an array at least: identity matrices and masks, which are made of numbers and iotas,
  are recognised by other passes;
* ops have no effects, draw no random numbers, call nothing beyond XLA and its libraries, and run
  loops of a known number of iterations only;
* values are plain arrays, on no mesh, and constants that are JAX's arrays are on one device of the
  platform that they are folded for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from jaxmlir import toolbox
from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import Work, is_plain_signature, size
from jaxmlir.analysis.purity import is_pure
from jaxmlir.dialect import custom_calls, ops
from jaxmlir.dialect.builder import drop_dead_ops, reachable, symbols_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops.random import RANDOM
from jaxmlir.dialect.types import aval_of, is_key, widths_of
from jaxmlir.errors import LoweringError, count
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.runtime.program_primitive import call
from jaxmlir.targets import default_target
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules

MAX_WORK = 2e10
"""The most work, in flops: a second of one core, which is what XLA would take to fold it."""
MAX_GROWTH = 64 * 1024
"""The bytes of a value that may be larger than the constants that it is made of."""

# How often they run their body is not known.
_NEVER = frozenset({"jaxpr.while", "jaxpr.checkpointed_while"})
_RANDOM = frozenset(f"jaxpr.{op.name}" for op in RANDOM.ops)
_CONSTANT = "jaxpr.constant"


class FoldConstants(Pass):
    """Compute what depends on constants alone, where that takes long and gives no more than it
    takes.

    Options:
      min-work: the least number of operations; by default that of starting a kernel.
      max-work: the largest.
    """

    name: ClassVar[str] = "jaxpr-fold-constants"
    min_work: Amount | None = None
    max_work: Amount = MAX_WORK

    def run(self, program: Module) -> bool:
        # Values are computed here.
        if program.target.platform != default_target().platform:
            return False
        return fold_constants(program, self.min_work, self.max_work)


def fold_constants(
    program: Module, min_work: float | None = None, max_work: float = MAX_WORK
) -> bool:
    """Folds constants in all functions of a program, in place; whether there was anything.

    Args:
      min_work, max_work: the limits of the work that a value takes.
    """
    foldable, work = _FoldableOps(program), Work(program)
    min_work = work.kernel if min_work is None else min_work
    lines = []
    for function in outside_kernels(program, NEEDED_OPS[FoldConstants.name]):
        line = _FoldableValues(analyses_of(program).body(function), foldable, work)
        line.choose(min_work, max_work)
        if line.chosen:
            lines.append(line)
    arrays = _evaluated(program, lines) if lines else None
    if arrays is None:
        return False
    for line in lines:
        for number in line.chosen:
            line.replace(program, number, next(arrays))
        drop_dead_ops(line.body.function)
    program.changed()
    return True


def _evaluated(program: Module, lines: Sequence[_FoldableValues]) -> Iterator[np.ndarray] | None:
    """The values that were chosen, as XLA computes them; ``None`` where it cannot."""
    scratch = program.clone(hold_rules=True)
    new = NewFunction(Rules(scratch), "constants", [], lines[0].body.function)
    with new.body():
        symbol = new.finish([v for line in lines for v in line.write()])
    scratch.changed()
    avals = call_signature(scratch, symbol).results
    # Constants are known in a function that is being traced, too.  No keys are among them; where a
    # value is not finite, the debugging flags say so when the program runs.
    with (
        jax.ensure_compile_time_eval(),
        widths_of(avals),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.debug_key_reuse(False),
    ):
        try:
            values = jax.jit(lambda: call(scratch, symbol, []))()
        except (LoweringError, jax.errors.JaxRuntimeError):
            return None
        return iter([np.asarray(x) for x in values])


class _FoldableOps:
    """Which ops of a program may be computed before it runs, if their operands are known."""

    def __init__(self, program: Module):
        self._program = program
        self._functions: dict[str, bool] = {}

    def __call__(self, op: Any, signature: Signature) -> bool:
        """Whether an op with known operands may be."""
        if not is_plain_signature(signature) or not self._may_run(op, signature.name):
            return False
        if any(is_key(aval_of(t)) for t in (*signature.operands, *signature.results)):
            return False
        if signature.name == _CONSTANT:
            return self._is_here(op)
        if not signature.operands and signature.name != "jaxpr.iota":
            return False
        return all(map(self._function, symbols_of(op, custom_rules=False)))

    def _is_here(self, op: Any) -> bool:
        """Whether a constant is one array, in the memory of this process or of the device on which
        it is computed with."""
        if "name" not in op.attributes:
            return isinstance(op.attributes["value"], ir.DenseElementsAttr)
        array = self._program.constants.unread(ir.StringAttr(op.attributes["name"]).value)
        if not isinstance(array, jax.Array):
            return array is not None
        is_known = not isinstance(array, jax.core.Tracer) and not array.is_deleted()
        return is_known and array.devices() == {jax.devices()[0]}

    def _function(self, symbol: str) -> bool:
        if symbol not in self._functions:
            functions = self._program.functions
            self._functions[symbol] = all(
                self._may_run(op, name)
                for reached in reachable(functions, symbol, custom_rules=False)
                for op, name in analyses_of(self._program).graph.ops[reached]
            )
        return self._functions[symbol]

    @staticmethod
    def _may_run(op: Any, name: str) -> bool:
        return (
            name.removeprefix("jaxpr.") in ops.OPS
            and name not in _NEVER
            and name not in _RANDOM
            and is_pure(name)
            and "jaxpr.effects" not in op.attributes
            and not any(True for _ in custom_calls.among([(op, name)]))
        )


class _FoldableValues:
    """A function, and those of its values that depend on constants alone.

    Attributes:
      chosen: the values to fold, by number.
    """

    def __init__(self, body: FunctionView, foldable: _FoldableOps, work: Work):
        self.body = body
        self.chosen: list[int] = []
        self._work = work
        self._constant = [False] * len(body.types)
        # Of known values, the work of what they are made of, of each part as often as it is read.
        self._bounds = [0.0] * len(body.types)
        for index, (operands, (first, last)) in enumerate(
            zip(body.operands, body.results, strict=True)
        ):
            is_known = all([self._constant[v] for v in operands])
            if is_known and foldable(body.ops[index], body.signatures[index]):
                bound = work.at(body, index) + sum([self._bounds[v] for v in operands])
                self._constant[first:last] = [True] * (last - first)
                self._bounds[first:last] = [bound] * (last - first)

    def choose(self, min_work: float, max_work: float) -> None:
        """Chooses the last values, those that others read, if they take enough work and not too
        much, and are small; else values that they are made of."""
        body, chosen, seen = self.body, set[int](), set[int]()
        pending = [v for v in body.returned if self._constant[v]]
        for operands, (first, last) in zip(body.operands, body.results, strict=True):
            if first == last or not self._constant[first]:
                pending += [v for v in operands if self._constant[v]]
        while pending:
            value = pending.pop()
            if value in seen or self._bounds[value] < min_work:
                continue
            seen.add(value)
            (cone, _), maker = body.backward_slice([value]), body.makers[value]
            work = sum([self._work.at(body, index) for index in cone])
            if work < min_work or not any(map(self._is_array, cone)):
                continue
            # To see an array in another shape or order is no work.
            is_view = not self._work.at(body, maker)
            if not is_view and work <= max_work and self._is_small(value, cone):
                chosen.add(value)
            else:
                pending += body.operands[maker]
        self.chosen = sorted(chosen)

    def write(self) -> list[ir.Value]:
        """Writes the ops that the chosen values are made by at the insertion point; the values
        there."""
        body, values = self.body, dict[int, ir.Value]()
        made_by, _ = body.backward_slice(self.chosen)
        body.copy_ops(made_by, values)
        return [values[v] for v in self.chosen]

    def replace(self, program: Module, value: int, array: np.ndarray) -> None:
        """Reads an array where a value was read."""
        op, old = self.body.ops[self.body.makers[value]], self.body.value(value)
        made_by, _ = self.body.backward_slice([value])
        remark(op, f"computed once: {count(len(made_by), 'op')} on constants")
        with ir.InsertionPoint(op), op.location:
            old.replace_all_uses_with(toolbox.constant(program, array, old.type))

    def _is_array(self, index: int) -> bool:
        """Whether an op is a constant of several elements."""
        body = self.body
        return (
            body.names[index] == _CONSTANT and aval_of(body.types[body.results[index][0]]).size > 1
        )

    def _is_small(self, value: int, cone: Iterable[int]) -> bool:
        body = self.body
        made_of = [body.results[index][0] for index in cone if body.names[index] == _CONSTANT]
        bytes_ = sum([size(body.types[v]) for v in made_of])
        return size(body.types[value]) <= max(bytes_, MAX_GROWTH)

"""``jaxpr-fold-constants``: computes values that depend on constants alone before the program runs.

    // Pattern: f(c0, c1, ...) -> c, the value of f

XLA folds constants when it compiles a program, so ``(A @ B) @ x`` with constants ``A`` and ``B``
costs one product per call.  Passes that weigh the costs of products would count the first one for
each call, and write ``A @ (B @ x)``.  Besides, XLA folds neither loops nor library calls, such as
matrix factorizations.  So values are folded here first.  XLA compiles the same ops on the same
constants, so the numbers are those that it would fold to.

A value is folded under these conditions:

* It takes at least as much work as starting a kernel, which makes compiling worthwhile
  (``jaxpr-canonicalize`` and XLA fold less), and at most :data:`MAX_WORK`, about a second.
* It is no larger than the constants it is computed from, or than :data:`MAX_GROWTH` bytes.  Larger
  values are still computed by their ops, from folded values.
* It is computed from at least one array.  Other passes recognize identity matrices and masks, which
  are computed from numbers and iotas.
* Its ops have no effects, draw no random numbers, call nothing beyond XLA and its libraries, and
  run only loops with a known trip count.
* Values are plain arrays on no mesh, and constants that are JAX arrays are on one device of the
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
"""The most work, in flops: a second of one core, as XLA would take to fold it."""
MAX_GROWTH = 64 * 1024
"""The most bytes of a value that is larger than the constants it is computed from."""

# Loops with an unknown trip count.
_NEVER = frozenset({"jaxpr.while", "jaxpr.checkpointed_while"})
_RANDOM = frozenset(f"jaxpr.{op.name}" for op in RANDOM.ops)
_CONSTANT = "jaxpr.constant"


class FoldConstants(Pass):
    """Fold values that depend on constants alone, if they take long to compute and are small.

    Options:
      min-work: the least number of operations; by default that of starting a kernel.
      max-work: the largest.
    """

    name: ClassVar[str] = "jaxpr-fold-constants"
    min_work: Amount | None = None
    max_work: Amount = MAX_WORK

    def run(self, program: Module) -> bool:
        # Values are computed on the default device of this process.
        if program.target.platform != default_target().platform:
            return False
        foldable, work = _FoldableOps(program), Work(program)
        min_work = work.kernel if self.min_work is None else self.min_work
        lines = []
        for function in outside_kernels(program, NEEDED_OPS[self.name]):
            line = _FoldableValues(analyses_of(program).body(function), foldable, work)
            line.choose(min_work, self.max_work)
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
    """The chosen values, computed by XLA; ``None`` if it fails."""
    scratch = program.clone(hold_rules=True)
    new = NewFunction(Rules(scratch), "constants", [], lines[0].body.function)
    with new.body():
        symbol = new.finish([v for line in lines for v in line.write()])
    scratch.changed()
    avals = call_signature(scratch, symbol).results
    # Constants can be evaluated while a function is being traced, too.  No keys are among them.  If
    # a value is not finite, the debugging flags report it when the program runs.
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
    """Which ops of a program may be computed before it runs if their operands are known."""

    def __init__(self, program: Module):
        self._program = program
        self._functions: dict[str, bool] = {}

    def __call__(self, op: Any, signature: Signature) -> bool:
        """Whether an op with known operands may be computed before the program runs."""
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
        """Whether a constant is an array in the memory of this process or of the device that
        computes the values."""
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
    """A function, and its values that depend on constants alone.

    Attributes:
      chosen: the numbers of the values to fold.
    """

    def __init__(self, body: FunctionView, foldable: _FoldableOps, work: Work):
        self.body = body
        self.chosen: list[int] = []
        self._work = work
        self._constant = [False] * len(body.types)
        # An upper bound of the work of each known value: shared operands count once per use.
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
        """Chooses the known values that other ops read, if they take enough but not too much work
        and are small; otherwise, values among their operands."""
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
            # A view of an array takes no work.
            is_view = not self._work.at(body, maker)
            if not is_view and work <= max_work and self._is_small(value, cone):
                chosen.add(value)
            else:
                pending += body.operands[maker]
        self.chosen = sorted(chosen)

    def write(self) -> list[ir.Value]:
        """Copies the ops of the chosen values to the insertion point; returns the values there."""
        body, values = self.body, dict[int, ir.Value]()
        made_by, _ = body.backward_slice(self.chosen)
        body.copy_ops(made_by, values)
        return [values[v] for v in self.chosen]

    def replace(self, program: Module, value: int, array: np.ndarray) -> None:
        """Replaces the uses of a value by an array constant."""
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

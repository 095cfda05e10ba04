"""What rules return: a template or an emitter, two of them for the halves of an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxmlir._compat import jax_mlir_ext
from jaxmlir.dialect.builder import create
from jaxmlir.dialect.ir import func, ir
from jaxmlir.support.masks import Mask, chosen, filled, inverted, split


class Template(NamedTuple):
    """A function whose copy replaces an op, and what its results stand for."""

    function: func.FuncOp
    """The method of ``Rules`` that made it says what it takes and returns."""
    pattern: tuple[Any, ...]
    """For each result of the op: whether it has a tangent, or its batch dimension."""

    def inline(self, args: list[ir.Value], location: ir.Location | None = None) -> list[ir.Value]:
        """Copies the template in at the current insertion point, at the location of the op to
        replace, by default the current one; gives its results."""
        return jax_mlir_ext.inlined_func_call(self.function.operation, args, location)


class Emitter(NamedTuple):
    """A transformed op that is written by Python, not by copying a template."""

    pattern: tuple[Any, ...]
    """For each result of the op: whether it has a tangent, or its batch dimension."""
    write: Callable[[Sequence[ir.Value]], list[ir.Value]]
    """Writes ops on the arguments at the current insertion point; gives their results."""

    def inline(self, args: list[ir.Value], location: ir.Location | None = None) -> list[ir.Value]:
        """Writes the ops, at the location of the op they replace; by default the current one."""
        with location or ir.Location.current:
            return self.write(args)


@dataclass(frozen=True, eq=False)
class Linearization:
    """The two halves of a linearized op."""

    primal: Template | Emitter
    """``(*operands) -> (*results, *residuals)``."""
    tangent: Template | Emitter
    """``(*residuals, *tangents of used operands) -> (*tangents of results)``; the pattern tells
    which results have tangents."""
    uses: Mask
    """The operands whose tangents ``tangent`` takes: those that have one, and that matter."""
    pullbacks: dict[Mask, Template] = field(default_factory=dict)
    """Transposes of ``tangent``, by the mask of cotangents there are (see ``Rules.pullback``)."""
    pull: Callable[[Mask], Emitter] | None = None
    """Makes the pullbacks, where that does not need the ops that ``tangent`` writes."""
    origin: bytes | None = None
    """The key under which later processes find it on disk, if they do."""

    def jvp(self, active: Mask, num_results: int) -> Emitter:
        """Both halves together, as :meth:`HigherOrderRule.jvp` gives them, for the active
        operands."""
        n = len(active)
        used = chosen(self.uses, active)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            outs = self.primal.inline(list(args[:n]))
            in_tangents = chosen(args[n:], used)
            tangents = self.tangent.inline([*outs[num_results:], *in_tangents])
            return [*outs[:num_results], *tangents]

        return Emitter(self.tangent.pattern, write)


class PartialEvaluation(NamedTuple):
    """The two parts of an op that is split by which of its operands are known."""

    known: Template | Emitter
    """``(*known operands) -> (*known results, *residuals)``."""
    unknown: Template | Emitter
    """``(*residuals, *unknown operands) -> (*unknown results)``; the pattern marks them."""


def waiting(op: Any, unknown: Sequence[bool]) -> PartialEvaluation:
    """The parts of an op that waits as a whole for its unknown operands."""
    name, types = op.operation.name, [v.type for v in op.results]
    attributes, later = dict(op.attributes.items()), (True,) * len(types)

    def rest(args: Sequence[ir.Value]) -> list[ir.Value]:
        known, waited = split(args, len(unknown) - sum(unknown))
        operands = filled(waited, unknown, filled(known, inverted(unknown)))
        return create(name, types, operands, attributes)

    return PartialEvaluation(Emitter(later, list), Emitter(later, rest))

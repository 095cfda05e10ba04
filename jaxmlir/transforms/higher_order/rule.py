"""What a rule for an op with functions is, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jaxmlir.dialect.custom_rule_ops import MARK
from jaxmlir.dialect.ir import ir

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules, Template


class Emitter(NamedTuple):
    """A transformed op that is written by Python, as a template is by copying it."""

    pattern: tuple[Any, ...]
    """For each result of the op: whether it has a tangent, or its batch dimension."""
    write: Callable[[Sequence[ir.Value]], list[ir.Value]]
    """Writes ops on the arguments at the current insertion point; their results."""

    def inline(self, args: list[ir.Value], location: ir.Location | None = None) -> list[ir.Value]:
        """The same, at the location of the op that it stands for; by default the current one."""
        with location or ir.Location.current:
            return self.write(args)


@dataclass(frozen=True, eq=False)
class Linearization:
    """The two halves of a linearized op."""

    primal: Template | Emitter
    """``(*operands) -> (*results, *residuals)``."""
    tangent: Template | Emitter
    """``(*residuals, *tangents of used operands) -> (*tangents of results)``; the pattern tells
    which results it gives tangents of."""
    uses: tuple[bool, ...]
    """Which operands' tangents it takes: those that have one, and that matter."""
    pullbacks: dict[tuple[bool, ...], Template] = field(default_factory=dict)
    """Transposes of ``tangent``, by which results have cotangents (see ``Rules.pullback``)."""
    pull: Callable[[tuple[bool, ...]], Emitter] | None = None
    """Gives these, where it takes no look at what ``tangent`` writes."""
    origin: bytes | None = None
    """Under which key later processes find it, if they do."""

    def jvp(self, active: tuple[bool, ...], num_results: int) -> Emitter:
        """Both halves together, as :meth:`HigherOrderRule.jvp` gives them.

        Args:
          active: which operands have tangents.
          num_results: of the op.
        """
        n = len(active)
        used = [u for u, a in zip(self.uses, active, strict=True) if a]

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            outs = self.primal.inline(list(args[:n]))
            given = [t for t, u in zip(args[n:], used, strict=True) if u]
            tangents = self.tangent.inline([*outs[num_results:], *given])
            return [*outs[:num_results], *tangents]

        return Emitter(self.tangent.pattern, write)


class PartialEvaluation(NamedTuple):
    """The two parts of an op of which some operands are known."""

    known: Template | Emitter
    """``(*known operands) -> (*known results, *residuals)``."""
    unknown: Template | Emitter
    """``(*residuals, *unknown operands) -> (*unknown results)``; the pattern tells which results
    these are."""


def waiting(op: Any, unknown: Sequence[bool]) -> PartialEvaluation:
    """The parts of an op that waits as a whole for the operands that are unknown."""
    name, types = op.operation.name, [v.type for v in op.results]
    attributes, later = dict(op.attributes.items()), (True,) * len(types)

    def rest(args: Sequence[ir.Value]) -> list[ir.Value]:
        known, waited = iter(args), iter(args[len(unknown) - sum(unknown) :])
        operands = [next(waited) if u else next(known) for u in unknown]
        return list(ir.Operation.create(name, types, operands, attributes).results)

    return PartialEvaluation(Emitter(later, list), Emitter(later, rest))


class HigherOrderRule:
    """The rule of one kind of op.

    A method may return ``None``, and does so here: then JAX's rule is run.  What the methods return
    is kept per signature and pattern, so it may hold on to attributes, but not to the op.
    """

    plain: ClassVar[frozenset[str]] = frozenset()
    """The attributes that the rule understands; an op with another one is left to JAX."""

    def handles(self, op: Any) -> bool:
        """Whether the rule is for this op at all."""
        return all(key in self.plain or key == MARK for key, _ in op.attributes.items())

    def activity(
        self, rules: Rules, op: Any, kind: str, active: tuple[bool, ...]
    ) -> tuple[bool, ...] | None:
        """Which results :meth:`jvp` or :meth:`linearize` (the ``kind``) gives tangents of.

        ``None``: this is not known before the method has been called.
        """
        return None

    def uses(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[bool, ...] | None:
        """The ``uses`` of the :meth:`linearize` for these results, likewise."""
        return None

    def jvp(self, rules: Rules, op: Any, active: tuple[bool, ...]) -> Emitter | None:
        """``(*operands, *tangents of active ones) -> (*results, *tangents of active ones)``."""
        return None

    def linearize(
        self, rules: Rules, op: Any, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Linearization | None:
        """The op's results with residuals, and the linear map of tangents that uses these.

        Args:
          active: which operands have tangents.
          wanted: which results' tangents are used; the tangents of others need not be given.
        """
        return None

    def transpose(
        self, rules: Rules, op: Any, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> Emitter | None:
        """``(*nonlinear operands, *nonzero cotangents) -> (*nonzero cotangents of linear ones)``.

        The pattern tells for each linear operand whether its cotangent is nonzero.
        """
        return None

    def batch(
        self, rules: Rules, op: Any, dims: tuple[int | None, ...], axis: Any
    ) -> Emitter | None:
        """The op on operands batched along ``dims``; the pattern: the results' dimensions."""
        return None

    def partial_eval(
        self, rules: Rules, op: Any, unknown: tuple[bool, ...]
    ) -> PartialEvaluation | None:
        """The op split by which operands are unknown."""
        return None

    def batched(
        self, rules: Rules, op: Any, dims: tuple[int | None, ...], axis: Any
    ) -> tuple[int | None, ...] | None:
        """The pattern of :meth:`batch`; ``None``: not known before that has been called."""
        return None

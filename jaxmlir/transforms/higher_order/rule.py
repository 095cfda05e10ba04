"""The interface of rules for ops with functions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.dialect.custom_rule_ops import MARK
from jaxmlir.dialect.ops import record_of
from jaxmlir.support.masks import Dims, Mask

if TYPE_CHECKING:
    from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation
    from jaxmlir.transforms.templates import Rules


@functools.cache
def _attributes_of(name: str) -> frozenset[str]:
    record = record_of(name)
    return frozenset({"jaxpr.ctx", *(a.name for a in record.attributes)} if record else ())


class HigherOrderRule:
    """The rule of one kind of op.  A method may return ``None``, as all do here: then JAX's rule is
    run.  The results of methods are kept per signature and pattern, so they may hold on to
    attributes, but not to the op."""

    plain: ClassVar[frozenset[str] | None] = None
    """The attributes that the rule understands; an op with another one is left to JAX.  By default
    all that the dialect knows of."""

    def handles(self, op: Any) -> bool:
        """Whether the rule is for this op at all."""
        plain = _attributes_of(op.operation.name) if self.plain is None else self.plain
        return all(key in plain or key == MARK for key, _ in op.attributes.items())

    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask | None:
        """Which results :meth:`jvp` or :meth:`linearize` (the ``kind``) gives tangents of.
        ``None`` if this is not known before the method has been called."""
        return None

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask | None:
        """The ``uses`` of :meth:`linearize` for the wanted results; ``None`` if not known yet."""
        return None

    def jvp(self, rules: Rules, op: Any, active: Mask) -> Emitter | None:
        """``(*operands, *tangents of active ones) -> (*results, *tangents of active ones)``.  An op
        without a JVP rule of its own uses its :meth:`linearize`, if any."""
        n = len(op.results)
        linearization = self.linearize(rules, op, active, (True,) * n)
        return None if linearization is None else linearization.jvp(active, n)

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization | None:
        """The op's results and residuals, and the linear map of tangents that takes the residuals.

        Args:
          active: which operands have tangents.
          wanted: which results' tangents are used; the tangents of others need not be given.
        """
        return None

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter | None:
        """``(*nonlinear operands, *nonzero cotangents) -> (*nonzero cotangents of linear ones)``.
        The pattern tells for each linear operand whether its cotangent is nonzero."""
        return None

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter | None:
        """The op on operands batched along ``dims``; the pattern: the results' batch dimensions."""
        return None

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation | None:
        """The op split by which operands are unknown."""
        return None

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
        """The pattern of :meth:`batch`; ``None`` if not known before that has been called."""
        return None

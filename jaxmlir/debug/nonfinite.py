"""``find_nan``: the op that makes the first NaN or Inf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.debug.values import Place, Range, check, host, is_inexact
from jaxmlir.interpret.interpreter import Hook, Step

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


@dataclass(frozen=True)
class NonFinite:
    """An op that makes a number that is not finite of operands that have none of that kind."""

    kind: str
    """``"NaN"`` or ``"Inf"``."""
    place: Place
    operands: tuple[Range, ...]
    results: tuple[Range, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind} made by {self.place}", *self.place.lines()]
        for what, ranges in (("operand", self.operands), ("result", self.results)):
            lines += [f"  {what} #{i}: {text}" for i, text in enumerate(ranges)]
        return "\n".join(lines)


class _Found(Exception):
    """Ends the evaluation."""

    def __init__(self, report: NonFinite):
        self.report = report


class _Watch(Hook):
    def __init__(self, inf: bool):
        self.kinds = {"NaN": np.isnan, "Inf": np.isinf} if inf else {"NaN": np.isnan}

    def after(self, step: Step) -> None:
        results = [x for x in map(host, step.results or ()) if x is not None and is_inexact(x)]
        if all(np.isfinite(x).all() for x in results):
            return
        operands = [x for x in map(host, step.operands) if x is not None and is_inexact(x)]
        for kind, holds in self.kinds.items():
            made = any(holds(x).any() for x in results)
            if made and not any(holds(x).any() for x in operands):
                raise _Found(
                    NonFinite(
                        kind,
                        Place.of(step),
                        tuple(map(Range.of, step.operands)),
                        tuple(map(Range.of, step.results or ())),
                    )
                )


def find_nan(program: Program, *args: Any, inf: bool = True, **kwargs: Any) -> NonFinite | None:
    """Evaluates a program until an op makes a NaN or Inf; ``None`` if none does.

    An op makes one if a result has a NaN (an Inf) and no operand has: passing on a given ``-inf``,
    as a masked softmax does, is not making it.  Derivatives are programs too:
    ``find_nan(program.grad(), x)``.

    Args:
      inf: look for Infs as well as NaNs.

    Returns:
      The op with the user's source line, its operands' ranges, and the iterations of the loops that
      it is in; ``print`` it.

    Raises:
      ArgumentError: it is no program, or the arguments do not fit it.
      EvaluationError: an op cannot be evaluated; names it and the user's line.
    """
    check(program, args, kwargs)
    try:
        program.eval(*args, hooks=[_Watch(inf)], **kwargs)
    except _Found as found:
        return found.report
    return None

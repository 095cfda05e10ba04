"""Loops that share a body, raised once for those of which the same is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir import toolbox
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import inline
from jaxmlir.dialect.ir import func, ir
from jaxmlir.errors import Diagnostic
from jaxmlir.optimize.loops.raise_loops.known import Known
from jaxmlir.passes.remarks import recording, repeat
from jaxmlir.transforms.new_function import NewFunction

if TYPE_CHECKING:
    import numpy as np

    from jaxmlir.transforms.templates import Rules

Raise = Callable[[Any, str, Known, int], int]
"""Raises a loop, in place, by what is known around it; how often something was raised."""


class _Raised(NamedTuple):
    template: func.FuncOp
    """Detached: from the operands of the loop to its results."""
    count: int
    remarks: list[Diagnostic]
    """What was said of it; without a place, where it was said of the loop itself."""


class Alike:
    """What becomes of loops that share a body.

    Args:
      raise_: raises a loop that is the only one.
    """

    def __init__(self, rules: Rules, raise_: Raise):
        self._rules = rules
        self._raise = raise_
        self._found: dict[Any, _Raised | None] = {}

    def __call__(self, op: Any, name: str, known: Known, depth: int) -> int:
        """Raises a loop as ``raise_`` does."""
        operands = list(op.operands)
        given = [known.get(v) for v in operands]
        numbers = tuple([None if n is None else (n.shape, n.tobytes()) for n in given])
        key = (op_signature.of_op(op, name, operands), depth, numbers)
        if key not in self._found:
            self._found[key] = self._make(op, name, given, depth)
        raised = self._found[key]
        if raised is None:
            return 0
        repeat(raised.remarks, op)
        with ir.InsertionPoint(op), op.location:
            toolbox.replace(op, inline(raised.template, operands))
        return raised.count

    def _make(
        self, op: Any, name: str, given: Sequence[np.ndarray | None], depth: int
    ) -> _Raised | None:
        """The loop raised in a function of its own."""
        like = op.operation.parent.opview
        new = NewFunction(self._rules, "loop", [v.type for v in op.operands], like, detached=True)
        types, attributes = list(op.results.types), dict(op.attributes.items())
        with new.body(), ir.Location.unknown():
            loop = ir.Operation.create(name, types, new.args, attributes)
        new.finish(list(loop.results))
        known = {v: n for v, n in zip(new.args, given, strict=True) if n is not None}
        with recording() as remarks:
            count = self._raise(loop.opview, name, Known(known, depth), depth)
        return _Raised(new.op, count, remarks) if count else None

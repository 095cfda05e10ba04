"""``fold-constants``: ops whose operands are known are evaluated when the program is compiled.

    // Pattern: f(constant, ..., constant) -> constant

The interpreter evaluates them: every op folds by its own primitive, and a call, branch or loop of
constants folds as a whole.  No op needs a folding rule here.  (Algebraic identities such as
``x + 0 -> x`` are not folded: they need no values.)

Ops with effects stay.  So do ops that have a purpose beyond their value: barriers, placement,
collectives.

    jaxmlir-opt program.mlir --load fold_constants --fold-constants
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax

from jaxmlir.dialect import ops
from jaxmlir.dialect.types import aval_of
from jaxmlir.interpret import Interpreter
from jaxmlir.passes import Pass
from jaxmlir.toolbox import constant, ir, ops_of, remark, replace

_FAMILIES = """
    elementwise transcendental bitwise comparison special shape indexing reduction contraction
    linalg control_flow calls custom_derivatives
""".split()
FOLDABLE = frozenset(
    f"jaxpr.{record.name}"
    for family in ops.FAMILIES
    if family.name in _FAMILIES
    for record in family.ops
    if not record.name.startswith(("remat", "compute_on", "platform_index"))
)


class FoldConstants(Pass):
    """Replace ops on constants by their values.

    Options:
      max-elements: leave results of more elements to be computed at run time.
    """

    name: ClassVar[str] = "fold-constants"
    max_elements: int = 4096

    def run(self, program: Any) -> None:
        interpreter = Interpreter(program)
        for function in program.functions.values():
            known: dict[ir.Value, Any] = {}
            for op, name, operands in ops_of(function):
                if name == "jaxpr.constant":
                    known[op.results[0]] = interpreter.evaluate(op, [])[0]
                elif self.folds(op, name) and all(v in known for v in operands):
                    values = interpreter.evaluate(op, [known[v] for v in operands])
                    self.write(program, op, name, values, known)
        program.changed()

    def folds(self, op: Any, name: str) -> bool:
        """Whether an op has no purpose beyond its value, and the value is small enough."""
        avals = [aval_of(v.type) for v in op.results]
        return (
            name in FOLDABLE
            and len(op.operands) > 0
            and "jaxpr.effects" not in op.attributes
            and all(isinstance(a, jax.core.ShapedArray) for a in avals)
            and not any(jax.dtypes.issubdtype(a.dtype, jax.dtypes.extended) for a in avals)
            and sum(math.prod(a.shape) for a in avals) <= self.max_elements
        )

    def write(
        self, program: Any, op: Any, name: str, values: list[Any], known: dict[ir.Value, Any]
    ) -> None:
        """Replaces an op by constants."""
        remark(op, f"'{name}' of constants is computed now")
        with ir.InsertionPoint(op), op.location:
            written = [
                constant(program, x, v.type) for x, v in zip(values, op.results, strict=True)
            ]
        known.update(zip(written, values, strict=True))
        replace(op, written)

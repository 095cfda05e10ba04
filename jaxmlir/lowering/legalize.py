"""``jaxpr-legalize-to-stablehlo``: leave the dialect for what PJRT compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.dialect.ir import TREES
from jaxmlir.passes.base import Pass

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

MAKE_PRIVATE = "symbol-privatize{{exclude={}}} makes the others private"


class LegalizeToStablehlo(Pass):
    """Legalize every jaxpr op to StableHLO; custom derivative rules are dropped here.

    The module becomes what JAX lowers a call of its public function to: JAX's own lowering rules
    run, once per signature of an op.

    Options:
      platforms: the platforms to lower for (``cpu``, ``cuda``, ``rocm``, ``tpu``), comma-separated;
        by default that of JAX's default backend.
    """

    name: ClassVar[str] = "jaxpr-legalize-to-stablehlo"
    platforms: tuple[str, ...] = ()

    def run(self, program: Module) -> None:
        from jaxmlir.lowering.lowering import legalize

        program.chosen("", how=MAKE_PRIVATE)
        before = _counts(program)
        legalize(program, self.platforms or None)
        attributes = program.function(program.name).attributes
        for tree, had, has in zip(TREES, before, _counts(program), strict=True):
            # For several platforms, or ordered effects, JAX adds operands and results: the
            # platform's index, tokens. The pytrees do not have them.
            if has != had and tree in attributes:
                del attributes[tree]


def _counts(program: Module) -> tuple[int, int]:
    """How many values the public function takes and gives."""
    type_ = program.function(program.name).type
    return len(type_.inputs), len(type_.results)

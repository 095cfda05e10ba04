"""``jaxpr-legalize-to-stablehlo``: leave the dialect for what PJRT compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.errors import PassError
from jaxmlir.ir import is_private
from jaxmlir.passes._base import Pass

if TYPE_CHECKING:
    from jaxmlir.program import Program


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

    def run(self, program: Program) -> None:
        from jaxmlir.lowering import legalize

        public = [f"@{name}" for name, f in program.functions.items() if not is_private(f)]
        if len(public) > 1:
            raise PassError(
                f"expected one public function to lower, got {', '.join(public)}; "
                f"symbol-privatize{{exclude={program.name}}} makes the others private"
            )
        operands = len(program.function(program.name).type.inputs)
        legalize(program, self.platforms or None)
        function = program.function(program.name)
        if len(function.type.inputs) != operands and "jaxpr.in_tree" in function.attributes:
            # For several platforms, or ordered effects, JAX adds operands: the platform's index,
            # tokens. The pytree does not have them.
            del function.attributes["jaxpr.in_tree"]

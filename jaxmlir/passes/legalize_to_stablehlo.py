"""``jaxpr-legalize-to-stablehlo``: leave the dialect for what PJRT compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.errors import PassError
from jaxmlir.ir import ir, module_bytecode, parse_module, scope
from jaxmlir.passes._base import Pass

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class LegalizeToStablehlo(Pass):
    """Legalize every jaxpr op to StableHLO; custom derivative rules are dropped here.

    Calls and control flow are legalized natively, all other ops through the lowering rules that JAX
    has registered for their primitive, once per signature.

    Options:
      platforms: the platforms to lower for (``cpu``, ``cuda``, ``rocm``, ``tpu``), comma-separated;
        by default that of JAX's default backend.
    """

    name: ClassVar[str] = "jaxpr-legalize-to-stablehlo"
    platforms: tuple[str, ...] = ()

    def run(self, program: Program) -> None:
        legalize(program, self.platforms or None)


def legalize(program: Program, platforms: Sequence[str] | None = None) -> None:
    """Replaces the program's module by StableHLO, as JAX lowers a call of the program.

    The function is named ``main``, as compilers of StableHLO expect, and keeps the pytrees of its
    arguments and results.

    Raises:
      LoweringError: an op has no lowering for a platform.
      PassError: the module has several public functions.
    """
    import jax

    from jaxmlir import runtime

    public = [name for name, op in program.functions.items() if op.visibility.value == "public"]
    if len(public) != 1:
        raise PassError(
            f"the module has {len(public)} public functions ({', '.join(public) or 'none'}); "
            "legalization makes a module with one, '@main': make the others private first"
        )
    (symbol,) = public

    def call(*args: Any) -> Any:
        return runtime.call(program, symbol, list(args))

    call.__name__ = symbol
    traced = jax.jit(call, keep_unused=True).trace(*program.signature(symbol).operands)
    lowered = traced.lower(lowering_platforms=tuple(platforms)) if platforms else traced.lower()
    pytrees = _pytrees(program.functions[symbol])
    # JAX lowers in a context of its own.
    bytecode = module_bytecode(lowered.compiler_ir("stablehlo"))
    program.module = parse_module(bytecode)
    program.changed()
    for name, text in pytrees.items():
        with scope():
            program.functions["main"].attributes[name] = ir.Attribute.parse(text)


def _pytrees(function: Any) -> dict[str, str]:
    attributes = function.attributes
    names = ("jaxpr.in_tree", "jaxpr.out_tree")
    return {name: str(attributes[name]) for name in names if name in attributes}

"""A function lowered for each of the targets that JAX lowers a module for.

A module for one platform gets the program for that.  One for several, which ``jax.export`` makes,
has a case for each group of platforms whose programs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxlib.mlir.dialects import stablehlo

from jaxmlir import targets
from jaxmlir._compat import mlir
from jaxmlir.dialect.ir import ir, module_text
from jaxmlir.lowering.deferred_bodies import share_nesting

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.targets import Target

Lowered = tuple[list[Any], Any]
"""Results, and the tokens after the last op."""


def lower_for_targets(
    ctx: Any,
    effects: Any,
    form_of: Callable[[Target], Module],
    lower: Callable[[Any, Module], Lowered],
) -> Lowered:
    """Emits what a program is for the targets of a module, at JAX's current insertion point.

    Args:
      ctx: JAX's ``LoweringRuleContext`` of the calling equation.
      effects: those of the function.
      form_of: the program for a target.
      lower: emits the function of such a program in a context.
    """
    axes = ctx.module_context.axis_context
    devices = getattr(axes, "num_devices", 1)
    forms = {
        platform: form_of(targets.target_on(platform, devices))
        for platform in mlir._platforms_for_eqn(ctx)
    }
    first, *others = {id(form): form for form in forms.values()}.values()
    if not others:
        return lower(ctx, first)
    groups: dict[str, list[str]] = {}
    for platform, form in forms.items():
        groups.setdefault(module_text(form.module_as_is), []).append(platform)
    if len(groups) == 1:
        return lower(ctx, first)

    def rule_for(platform: str) -> Any:
        def rule(ctx: Any) -> list[Any]:
            alone = _alone(ctx)
            results, tokens = lower(alone, forms[platform])
            if len(tokens):
                ctx.set_tokens_out(tokens)
            if len(ctx.platforms) > 1:
                number = alone.dim_var_values[0].owner
                if next(iter(number.results[0].uses), None) is None:
                    number.erase()
            return results

        return rule

    *rest, most = sorted(groups.values(), key=len)
    rules = {platform: rule_for(platform) for group in rest for platform in group}
    outer = ctx.replace(tokens_out=None, avals_out=[*ctx.avals_out])
    name = "the call of a program"
    results = mlir.lower_per_platform(outer, name, rules, rule_for(most[0]), effects)
    return [*results], outer.tokens_out or ctx.tokens_in


def _alone(ctx: Any) -> Any:
    """A context for those platforms only that one branch of a case is for.

    What JAX keeps of rules, and we, is not shared with the other branches.
    """
    outer, platforms = ctx.module_context, tuple(ctx.platforms)
    known, key = outer.lowering_cache, ("platforms", platforms)
    number, *sizes = ctx.dim_var_values
    if key not in known:
        names = tuple(outer.shape_poly_state.dim_vars[1:])
        known[key] = outer.replace(
            platforms=platforms,
            lowering_cache={},
            cached_primitive_lowerings={},
            shape_poly_state=mlir.ShapePolyLoweringState(names, platforms),
        )
        share_nesting(outer, known[key])
    if len(platforms) > 1:
        sizes = [_renumbered(number, outer.platforms, platforms), *sizes]
    return ctx.replace(module_context=known[key], platforms=None, dim_var_values=sizes)


def _renumbered(number: ir.Value, platforms: Sequence[str], left: Sequence[str]) -> ir.Value:
    """The number of the platform that a module runs on, among those that are left in a branch."""
    branches = stablehlo.CaseOp([number.type], index=_as_int32(number), num_branches=len(platforms))
    for region, platform in zip(branches.regions, platforms, strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            place = left.index(platform) if platform in left else 0
            place_of = ir.IntegerAttr.get(number.type.element_type, place)
            dense = ir.DenseElementsAttr.get_splat(number.type, place_of)
            stablehlo.return_([stablehlo.constant(dense)])
    return branches.result


def _as_int32(number: ir.Value) -> ir.Value:
    int32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return number if number.type == int32 else stablehlo.convert(int32, number)

"""Lowering of a program's functions: deeply nested bodies late, and a version for each target.

A function's body is lowered within the rule of the op that calls it, a dozen or two Python frames
below the caller's body.  JAX needs fewer, so it could trace functions that are nested too deeply to
be lowered.  From some depth on, a placeholder op therefore replaces the body.  When the outermost
function is done, the bodies are written at their placeholders, again from the top of the stack.

A module for one platform gets the program's version for it.  A module for several platforms, which
``jax.export`` makes, has a case for each group of platforms whose versions differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir.dialects import stablehlo

from jaxmlir import targets
from jaxmlir._compat import config, mlir
from jaxmlir.dialect.ir import ir, module_text
from jaxmlir.dialect.module import Module
from jaxmlir.targets import Target

MAX_DEPTH = 10
"""The depth up to which nested functions are lowered within the rules that call them."""
_TARGET = "jaxmlir.nested_body"
_KEY = "functions within functions"


class _QueuedBody(NamedTuple):
    """A body that is not written yet."""

    ctx: Any
    callee: Any


class Nesting:
    """The nesting depth of the lowering of one module, and its queued bodies."""

    def __init__(self) -> None:
        self.depth: int = 0
        self.environment: Any = None
        # By number: the output of rules is cached and copied, so placeholders may be repeated.
        self.waiting: list[_QueuedBody] = []

    @classmethod
    def of(cls, module_context: Any) -> Nesting:
        cache = module_context.lowering_cache
        nesting = cache.get(_KEY)
        if nesting is None:
            nesting = cache[_KEY] = cls()
        return nesting

    def enter(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.environment = config.trace_context()

    def leave(self) -> None:
        self.depth -= 1

    def placeholder(
        self, ctx: Any, callee: Any, args: Sequence[Any]
    ) -> tuple[list[Any], Any] | None:
        """A placeholder for the results of a call and the tokens after it; ``None`` if the body
        must be lowered now.  It must if it depends on where it is written: within a context manager
        of JAX's, or with constants that are passed to the enclosing function."""
        if (
            self.depth < MAX_DEPTH
            or ctx.const_lowering
            or config.trace_context() != self.environment
        ):
            return None
        types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out]
        tokens = ctx.tokens_in.items()
        operands = [*ctx.dim_var_values, *[token for _, token in tokens], *args]
        if not all(isinstance(v, ir.Value) for v in operands) or not all(
            isinstance(t, ir.Type) for t in types
        ):
            return None
        results = _custom_call(
            str(len(self.waiting)), [*[token.type for _, token in tokens], *types], operands
        ).results
        self.waiting.append(_QueuedBody(ctx, callee))
        after = {effect: token for (effect, _), token in zip(tokens, results, strict=False)}
        return [*results][len(tokens) :], mlir.TokenSet(after) if tokens else ctx.tokens_in

    def finish(
        self, module_context: Any, results: Sequence[Any], tokens: Any
    ) -> tuple[list[Any], Any]:
        """Writes the queued bodies; returns the outermost function's final results and tokens."""
        if not self.waiting:
            return [*results], tokens
        flat, tree = mlir.ir_tree_registry.flatten(([*results], [t for _, t in tokens.items()]))
        # An op that uses the results: its operands are updated when placeholders are replaced.
        end = _custom_call("", [], [v for v in flat if v is not None])
        roots = {_root(end), _root(module_context.module.operation)}
        while placeholders := [op for root in roots for op in _placeholders(root)]:
            for op in placeholders:
                self._write(op)
        final = iter([*end.operands])
        results, after = tree.unflatten([v if v is None else next(final) for v in flat])
        end.erase()
        effects = [effect for effect, _ in tokens.items()]
        return results, mlir.TokenSet(dict(zip(effects, after, strict=True))) if effects else tokens

    def _write(self, op: ir.Operation) -> None:
        ctx, callee = self.waiting[int(ir.StringAttr(op.attributes["backend_config"]).value)]
        operands, effects = [*op.operands], [effect for effect, _ in ctx.tokens_in.items()]
        n, m = len(ctx.dim_var_values), len(effects)
        tokens = mlir.TokenSet(dict(zip(effects, operands[n : n + m], strict=True)))
        ctx = ctx.replace(dim_var_values=operands[:n], tokens_in=tokens, tokens_out=None)
        with ir.InsertionPoint(op), op.location:
            results, after = callee.lower(ctx, operands[n + m :])
        outputs = [*[after.get(effect) for effect in effects], *results]
        for result, value in zip(op.results, outputs, strict=True):
            result.replace_all_uses_with(value)
        op.erase()


def share_nesting(module_context: Any, other: Any) -> None:
    """Shares the depth of nesting with another context of the same module."""
    other.lowering_cache[_KEY] = Nesting.of(module_context)


def _custom_call(config_: str, types: Sequence[ir.Type], operands: Sequence[Any]) -> ir.Operation:
    attributes = {
        "call_target_name": ir.StringAttr.get(_TARGET),
        "backend_config": ir.StringAttr.get(config_),
        "has_side_effect": ir.BoolAttr.get(True),
    }
    return ir.Operation.create(
        "stablehlo.custom_call", results=types, operands=operands, attributes=attributes
    )


def _root(op: ir.Operation) -> ir.Operation:
    """The outermost op around an op: the module, or a function that is in no module yet."""
    while (parent := op.parent) is not None:
        op = parent.operation
    return op


def _placeholders(root: ir.Operation) -> list[ir.Operation]:
    placeholders: list[ir.Operation] = []

    def see(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call":
            attributes = op.attributes
            is_one = ir.StringAttr(attributes["call_target_name"]).value == _TARGET
            if is_one and ir.StringAttr(attributes["backend_config"]).value:
                placeholders.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(see)
    return placeholders


LoweredResults = tuple[list[Any], Any]
"""Results, and the tokens after the last op."""


def lower_for_targets(
    ctx: Any,
    effects: Any,
    form_of: Callable[[Target], Module],
    lower: Callable[[Any, Module], LoweredResults],
) -> LoweredResults:
    """Emits a program for the targets of a module at JAX's current insertion point.

    Args:
      ctx: JAX's ``LoweringRuleContext`` of the calling equation.
      effects: the effects of the function.
      form_of: gives the version of the program for a target.
      lower: emits the function of a version in a context.
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
    """A context for the platforms of one branch of a case, with caches of its own."""
    outer, platforms = ctx.module_context, tuple(ctx.platforms)
    cache, key = outer.lowering_cache, ("platforms", platforms)
    number, *sizes = ctx.dim_var_values
    if key not in cache:
        names = tuple(outer.shape_poly_state.dim_vars[1:])
        cache[key] = outer.replace(
            platforms=platforms,
            lowering_cache={},
            cached_primitive_lowerings={},
            shape_poly_state=mlir.ShapePolyLoweringState(names, platforms),
        )
        share_nesting(outer, cache[key])
    if len(platforms) > 1:
        sizes = [_renumbered(number, outer.platforms, platforms), *sizes]
    return ctx.replace(module_context=cache[key], platforms=None, dim_var_values=sizes)


def _renumbered(number: ir.Value, platforms: Sequence[str], left: Sequence[str]) -> ir.Value:
    """The index of the platform that a module runs on among the platforms of a branch."""
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

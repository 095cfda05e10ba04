"""Calls in calls in calls: what is nested deep is lowered when all around it has been.

A function's body is lowered within the rule of the op that calls it, a dozen of Python's frames or
two below the caller's.  JAX takes fewer, so what it can trace could be too deep to be lowered.
From some depth on, a placeholder takes the body's place.  When the outermost function is done, the
bodies are written where the placeholders are by then, from the top of the stack again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from jaxmlir._compat import config, mlir

# How many functions within one another are lowered as rules come to them.
_DEEP = 10
_TARGET = "jaxmlir.nested_body"
_KEY = "functions within functions"


class _Waiting(NamedTuple):
    """A body that is not written yet."""

    ctx: Any
    callee: Any


class Nesting:
    """How deep the lowering of one module is, and what waits in it."""

    def __init__(self) -> None:
        self.depth = 0
        self.environment: Any = None
        # By number: rules' output is kept and copied, so any may stand in the module again.
        self.waiting: list[_Waiting] = []

    @classmethod
    def of(cls, module_context: Any) -> Nesting:
        cache = module_context.lowering_cache
        found = cache.get(_KEY)
        if found is None:
            found = cache[_KEY] = cls()
        return found

    def enter(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.environment = config.trace_context()

    def leave(self) -> None:
        self.depth -= 1

    def placeholder(
        self, ctx: Any, callee: Any, args: Sequence[Any]
    ) -> tuple[list[Any], Any] | None:
        """What stands for the results of a call and the tokens after it, if its body may wait.

        It may not where it would be written in another place than here: in a context of JAX's, or
        with constants that the function around it is passed.
        """
        if self.depth < _DEEP or ctx.const_lowering or config.trace_context() != self.environment:
            return None
        types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out]
        tokens = ctx.tokens_in.items()
        given = [*ctx.dim_var_values, *[token for _, token in tokens], *args]
        if not all(isinstance(v, ir.Value) for v in given) or not all(
            isinstance(t, ir.Type) for t in types
        ):
            return None
        results = _custom_call(
            str(len(self.waiting)), [*[token.type for _, token in tokens], *types], given
        ).results
        self.waiting.append(_Waiting(ctx, callee))
        after = {effect: token for (effect, _), token in zip(tokens, results, strict=False)}
        return [*results][len(tokens) :], mlir.TokenSet(after) if tokens else ctx.tokens_in

    def finish(
        self, module_context: Any, results: Sequence[Any], tokens: Any
    ) -> tuple[list[Any], Any]:
        """Writes all that waits; the results and tokens of the outermost function after that."""
        if not self.waiting:
            return [*results], tokens
        flat, tree = mlir.ir_tree_registry.flatten(([*results], [t for _, t in tokens.items()]))
        # Its operands become what values are replaced by.
        end = _custom_call("", [], [v for v in flat if v is not None])
        roots = {_root(end), _root(module_context.module.operation)}
        while found := [op for root in roots for op in _placeholders(root)]:
            for op in found:
                self._write(op)
        final = iter([*end.operands])
        results, after = tree.unflatten([v if v is None else next(final) for v in flat])
        end.erase()
        effects = [effect for effect, _ in tokens.items()]
        return results, mlir.TokenSet(dict(zip(effects, after, strict=True))) if effects else tokens

    def _write(self, op: ir.Operation) -> None:
        ctx, callee = self.waiting[int(ir.StringAttr(op.attributes["backend_config"]).value)]
        given, effects = [*op.operands], [effect for effect, _ in ctx.tokens_in.items()]
        n, m = len(ctx.dim_var_values), len(effects)
        tokens = mlir.TokenSet(dict(zip(effects, given[n : n + m], strict=True)))
        ctx = ctx.replace(dim_var_values=given[:n], tokens_in=tokens, tokens_out=None)
        with ir.InsertionPoint(op), op.location:
            results, after = callee.lower(ctx, given[n + m :])
        new = [*[after.get(effect) for effect in effects], *results]
        for old, value in zip(op.results, new, strict=True):
            old.replace_all_uses_with(value)
        op.erase()


def share_nesting(module_context: Any, other: Any) -> None:
    """Has another context of the same module count on where this one is."""
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
    """The outermost op around an op: the module, or a function that is in none yet."""
    while (parent := op.parent) is not None:
        op = parent.operation
    return op


def _placeholders(root: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def see(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call":
            attributes = op.attributes
            is_one = ir.StringAttr(attributes["call_target_name"]).value == _TARGET
            if is_one and ir.StringAttr(attributes["backend_config"]).value:
                found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(see)
    return found

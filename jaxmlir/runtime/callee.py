"""A function of a program, as the parameter of equations that call it.

A callee caches what the passes derive from it, by pattern, and can be pruned to some results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.analysis.liveness import FunctionVariant, Mask, liveness_of
from jaxmlir.caching import setting
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import named_ops, reachable
from jaxmlir.dialect.custom_rule_ops import HIGH_LEVEL_OPS
from jaxmlir.dialect.ir import context, functions, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import TransformError, deep_calls_as
from jaxmlir.lowering.functions import lower_for_targets
from jaxmlir.lowering.lowering import lower_function
from jaxmlir.optimize.simplify.dce import prune
from jaxmlir.runtime.differentiation import as_given
from jaxmlir.runtime.placement import placement_of, with_devices
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.masks import chosen, filled
from jaxmlir.targets import Target


class Callee:
    """One function of one program; equal to itself only."""

    __slots__ = ("__weakref__", "_derived", "program", "symbol")

    def __init__(self, program: Module, symbol: str):
        self.program: Module = program
        self.symbol: str = symbol
        self._derived: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"@{self.symbol}"

    def twin(self) -> Callee:
        """A new callee of the same function, without the cache of derived functions."""
        return Callee(self.program, self.symbol)

    def derived(self, transformation: str, pattern: Any) -> Any:
        """The function transformed, made once per pattern and setting (see :func:`derive`)."""
        with as_given():
            return self.once(
                (transformation, pattern, setting()),
                lambda: derive(self.portable, self.symbol, transformation, pattern),
            )

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, which runs once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @property
    def signature(self) -> Any:
        """The types of the function's operands and results, and its effects."""
        return call_signature(self.program, self.symbol)

    @property
    def sizes_scope(self) -> Any | None:
        """The scope of symbolic sizes, if they are the caller's."""
        return self.program.sizes_scope

    # -- targets --

    @property
    def whole(self) -> Module:
        """The program with the whole function."""
        return self.program

    @property
    def has_versions(self) -> bool:
        """Whether other targets may have other versions of the function."""
        return self.whole.recipe is not None and self.symbol == self.whole.name

    def _fits(self, version: Module) -> bool:
        """Whether the call has all arguments that a version of the program needs."""
        return True

    def _cut(self, version: Module) -> Module:
        """A version of the program, pruned to what the call needs."""
        return version

    @property
    def portable(self) -> Module:
        """The version to transform: the program before the passes that decide what is stored."""
        return self._cut(self.whole.versions.portable) if self.has_versions else self.program

    @property
    def closed_jaxpr(self) -> Any:
        """The function as a jaxpr, for JAX's own interpreters to transform."""
        return self.portable.exporter.jaxpr(self.symbol)

    @property
    def is_high(self) -> bool:
        """Whether there are values of a high-level type (JAX's ``HiType``) in the program, or among
        the function's operands."""
        return self.once("high", lambda: _has_high_types(self.program, self.signature))

    def jaxpr_for(self, target: Target | None) -> Any:
        """The function for a target, by default as it is, to become part of another program.  If it
        is not decided yet what is stored, it is decided together with the other program."""
        version = self.whole
        if target is not None and self.has_versions:
            version = version.versions.for_target(target, stored=version.when_lowered is None)
        return self._cut(version).exporter.jaxpr(self.symbol)

    @property
    def placement(self) -> Any | None:
        """The placement of the function (:func:`jaxmlir.runtime.placement.placement_of`)."""
        return with_devices(self.program.placement)

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        """Emits the function's body; see :func:`jaxmlir.lowering.lowering.lower_function`."""
        return self._lower(ctx, lambda ctx, form: lower_function(ctx, form, self.symbol, args))

    def _lower(
        self, ctx: Any, lower: Callable[[Any, Module], tuple[list[Any], Any]]
    ) -> tuple[list[Any], Any]:
        """Emits the versions of the function for the targets of a module."""
        whole, has_versions = self.whole, self.has_versions
        if not has_versions and whole.when_lowered is None:
            return lower(ctx, whole)

        def form_of(target: Target) -> Module:
            version = whole.versions.for_target(target) if has_versions else whole
            return (version if self._fits(version) else whole).versions.lowered(target)

        return lower_for_targets(ctx, self.signature.effects, form_of, lower)

    def pruned(self, results: Mask) -> tuple[Mask, Callee] | None:
        """The arguments that the results need, and a callee with only these arguments and results.
        ``None`` if this drops nothing from the function and the functions it calls."""
        key = ("prune", results)
        if key not in self._derived:
            with context():
                self._derived[key] = self._prune(results)
        return self._derived[key]

    def _prune(self, results: Mask) -> tuple[Mask, Callee] | None:
        # Another thread may be tracing rules, which are written into the module.
        with self.program.rule_tracing.lock:
            liveness = liveness_of(self.program)
            arguments = liveness.arguments(self.symbol, results)
            entry = FunctionVariant(self.symbol, results, arguments)
            if not liveness.drops(entry):
                return None
            if liveness.met_custom_rules:
                # Arguments that only custom rules need are kept: the variant may be differentiated.
                needed = liveness.with_custom_rules().arguments(self.symbol, results)
                entry = entry._replace(arguments=needed)
            return entry.arguments, PrunedCallee(self.program, entry)


class PrunedCallee(Callee):
    """A callee with some of a function's arguments and results.  Lowering leaves out what the
    variant does not need.  For transformations, it becomes a function of a pruned program."""

    __slots__ = ("variant", "whole")

    def __init__(self, whole: Module, variant: FunctionVariant):
        self.whole: Module = whole
        self.variant: FunctionVariant = variant
        self.symbol: str = variant.symbol
        self._derived = {}

    def twin(self) -> PrunedCallee:
        return PrunedCallee(self.whole, self.variant)

    @property
    def program(self) -> Module:
        return self._cut(self.whole)

    def _cut(self, version: Module) -> Module:
        def cut() -> Module:
            program = version.clone(hold_rules=True)
            prune(program, self.variant)
            return program

        return self.once(("cut", version), cut) if self._fits(version) else self.program

    def _fits(self, version: Module) -> bool:
        if version is self.whole:
            return True
        with context():
            needed = liveness_of(version).arguments(self.symbol, self.variant.results)
        return all(
            is_kept or not n for n, is_kept in zip(needed, self.variant.arguments, strict=True)
        )

    @property
    def signature(self) -> Any:
        whole = call_signature(self.whole, self.symbol)
        with context():
            left = liveness_of(self.whole).effects(self.variant)
            named = {codec.decode(item) for item in left}
        return whole._replace(
            operands=tuple(chosen(whole.operands, self.variant.arguments)),
            results=tuple(chosen(whole.results, self.variant.results)),
            effects=whole.effects & named,
        )

    @property
    def sizes_scope(self) -> Any | None:
        return self.whole.sizes_scope

    @property
    def placement(self) -> Any | None:
        with context():
            liveness, ops = liveness_of(self.whole), []
            for symbol, results, _ in liveness.needed([self.variant]):
                dead = liveness.of(symbol, results).dead
                ops += [pair for i, pair in enumerate(liveness.ops(symbol)) if i not in dead]
            return with_devices(placement_of(self.whole, ops))

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        variant = self.variant
        every = filled(args, variant.arguments)

        def lower(ctx: Any, form: Module) -> tuple[list[Any], Any]:
            results, tokens = lower_function(ctx, form, self.symbol, every, variant.results)
            return chosen(results, variant.results), tokens

        return self._lower(ctx, lower)

    def _prune(self, results: Mask) -> tuple[Mask, Callee] | None:
        if all(results):
            return None
        left, variant = iter(results), self.variant
        pruned = Callee(self.whole, self.symbol).pruned(
            tuple(is_kept and next(left) for is_kept in variant.results)
        )
        if pruned is None:
            return None
        arguments, callee = pruned
        return tuple(chosen(arguments, variant.arguments)), callee


def _has_high_types(program: Module, signature: Any) -> bool:
    def is_high(aval: Any) -> bool:
        return getattr(aval, "is_high", False)

    if any(map(is_high, (*signature.operands, *signature.results))):
        return True
    with context():
        # Only these primitives make values of such types from others.  The module is read as it is,
        # since an analysis would trace custom rules.
        return any(
            is_high(aval_of(result.type))
            for function in functions(program.module_as_is).values()
            for op, name in named_ops(function)
            if name in HIGH_LEVEL_OPS
            for result in op.results
        )


@collector_paused
def derive(program: Module, symbol: str, transformation: str, pattern: Any) -> Any:
    """A copy of the program with the transformed function, and the pass's description of it."""
    try:
        return _derive(program, symbol, transformation, pattern)
    except TransformError:
        # Retried as in methods of the program: see `derived_once`.
        if not program.rule_tracing.reads_as_another or symbol != program.name:
            raise
        program.rule_tracing.looked_at()
        return _derive(program, symbol, transformation, pattern)


def _derive(program: Module, symbol: str, transformation: str, pattern: Any) -> Any:
    from jaxmlir.transforms.higher_order.call import linearize_call, partial_eval_call
    from jaxmlir.transforms.jvp import jvp
    from jaxmlir.transforms.retyping import infer_weak_types, vary
    from jaxmlir.transforms.templates import Rules
    from jaxmlir.transforms.transpose import transpose_nonzero
    from jaxmlir.transforms.vmap import vmap

    # Another thread may be tracing rules, which are written into the module.
    with program.rule_tracing.lock:
        if transformation == "vary":
            program.trace_rules()
        elif transformation != "vmap" and program.has_untraced_rules:
            program.trace_rules(within=reachable(program._functions, symbol, custom_rules=False))
        # Nobody inspects the copy, so rules of functions that it does not run stay untraced, and
        # so do rules that are told which tangents are zero.
        result = program.clone(hold_rules=True)
    with deep_calls_as(TransformError), scope():
        rules = Rules(result)
        if transformation == "jvp":
            derived = jvp(rules, symbol, pattern)
        elif transformation == "linearize":
            active, rules.reverse = pattern
            derived = linearize_call(rules, symbol, active)
        elif transformation == "partial_eval":
            derived = partial_eval_call(rules, symbol, pattern)
        elif transformation == "transpose":
            linear, nonzero = pattern
            derived = transpose_nonzero(rules, symbol, linear, f"{symbol}.transpose", nonzero)
        elif transformation == "vary":
            derived = vary(rules, symbol, *pattern)
        else:
            axis, dims = pattern
            derived = vmap(rules, symbol, dims, axis)
        if isinstance(derived, tuple):
            infer_weak_types(result, (item for item in derived if isinstance(item, str)))
    result.changed()
    return result, derived

"""A function of a program, as the parameter of equations that call it.

It is transformed by the passes once per pattern, and cut down to what some of its results need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.call_signature import call_signature
from jaxmlir.analysis.liveness import Mask, Variant, liveness_of
from jaxmlir.caching.configuration_key import setting
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, scope
from jaxmlir.errors import TransformError, deep_calls_as
from jaxmlir.lowering.lowering import lower_function
from jaxmlir.optimize.simplify.dce import prune
from jaxmlir.runtime.placement import placement_of
from jaxmlir.support.collector import collector_paused
from jaxmlir.support.masks import chosen

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class Callee:
    """One function of one program; equal to itself only."""

    __slots__ = ("__weakref__", "_derived", "program", "symbol")

    def __init__(self, program: Module, symbol: str):
        self.program = program
        self.symbol = symbol
        self._derived: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"@{self.symbol}"

    def twin(self) -> Callee:
        """Another one of the same function, that knows of nothing derived from it."""
        return Callee(self.program, self.symbol)

    def derived(self, transformation: str, pattern: Any) -> Any:
        """The function transformed, made once per pattern and setting (see :func:`derive`)."""
        return self.once(
            (transformation, pattern, setting()),
            lambda: derive(self.program, self.symbol, transformation, pattern),
        )

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, or gave before."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @property
    def signature(self) -> Any:
        """What the function takes and gives."""
        return call_signature(self.program, self.symbol)

    @property
    def sizes_scope(self) -> Any | None:
        """The caller's scope of symbolic sizes, where they are a caller's."""
        return self.program.sizes_scope

    @property
    def closed_jaxpr(self) -> Any:
        return self.program.exporter.jaxpr(self.symbol)

    @property
    def placement(self) -> Any | None:
        """What JAX must know of the devices that the function mentions."""
        return self.program.placement

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        """Emits the function's body; see :func:`jaxmlir.lowering.lowering.lower_function`."""
        return lower_function(ctx, self.program.lowered_form, self.symbol, args)

    def pruned(self, results: Mask) -> tuple[Mask, Callee] | None:
        """The arguments that those results need, and a callee that takes and gives only these.

        ``None`` where nothing would be dropped from the function and those that it calls.
        """
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
            entry = Variant(self.symbol, results, arguments)
            if not liveness.drops(entry):
                return None
            if liveness.met_custom_rules:
                # What only a custom rule may need is an argument all the same: the variant can be
                # differentiated.
                needed = liveness.with_custom_rules().arguments(self.symbol, results)
                entry = entry._replace(arguments=needed)
            return entry.arguments, Pruned(self.program, entry)


class Pruned(Callee):
    """A variant of a function.

    Lowering leaves out what it lacks; to be transformed it becomes the function of a program that
    is cut down to it.
    """

    __slots__ = ("_program", "_whole", "variant")

    def __init__(self, whole: Module, variant: Variant):
        self._whole, self.variant = whole, variant
        self._program: Module | None = None
        self.symbol = variant.symbol
        self._derived = {}

    def twin(self) -> Pruned:
        return Pruned(self._whole, self.variant)

    @property
    def program(self) -> Module:
        if self._program is None:
            self._program = self._whole.clone(hold_rules=True)
            prune(self._program, self.variant)
        return self._program

    @property
    def signature(self) -> Any:
        whole = call_signature(self._whole, self.symbol)
        with context():
            left = liveness_of(self._whole).effects(self.variant)
            named = {codec.decode(item) for item in left}
        return whole._replace(
            operands=tuple(chosen(whole.operands, self.variant.arguments)),
            results=tuple(chosen(whole.results, self.variant.results)),
            effects=whole.effects & named,
        )

    @property
    def sizes_scope(self) -> Any | None:
        return self._whole.sizes_scope

    @property
    def placement(self) -> Any | None:
        with context():
            liveness, ops = liveness_of(self._whole), []
            for symbol, results, _ in liveness.needed([self.variant]):
                dead = liveness.of(symbol, results).dead
                ops += [pair for i, pair in enumerate(liveness.ops(symbol)) if i not in dead]
            return placement_of(self._whole, ops)

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        variant, given = self.variant, iter(args)
        every = [next(given) if kept else None for kept in variant.arguments]
        form = self._whole.lowered_form
        results, tokens = lower_function(ctx, form, self.symbol, every, variant.results)
        return chosen(results, variant.results), tokens

    def _prune(self, results: Mask) -> tuple[Mask, Callee] | None:
        if all(results):
            return None
        left, variant = iter(results), self.variant
        found = Callee(self._whole, self.symbol).pruned(
            tuple(kept and next(left) for kept in variant.results)
        )
        if found is None:
            return None
        arguments, callee = found
        return tuple(chosen(arguments, variant.arguments)), callee


@collector_paused
def derive(program: Module, symbol: str, transformation: str, pattern: Any) -> Any:
    """A copy of the program with the transformed function in it, and what the pass says of it."""
    try:
        return _derive(program, symbol, transformation, pattern)
    except TransformError:
        # As methods of the program do: see `derived_once`.
        if not program.rule_tracing.reads_as_another or symbol != program.name:
            raise
        program.rule_tracing.looked_at()
        return _derive(program, symbol, transformation, pattern)


def _derive(program: Module, symbol: str, transformation: str, pattern: Any) -> Any:
    from jaxmlir.dialect.builder import reachable
    from jaxmlir.transforms.higher_order.residuals import linearize_call, partial_eval_call
    from jaxmlir.transforms.jvp import jvp
    from jaxmlir.transforms.retype_varying_axes import vary
    from jaxmlir.transforms.templates import Rules
    from jaxmlir.transforms.transpose import transpose_nonzero
    from jaxmlir.transforms.vmap import vmap

    # Another thread may be tracing rules, which are written into the module.
    with program.rule_tracing.lock:
        if transformation == "vary":
            program.trace_rules()
        elif transformation != "vmap" and program.has_untraced_rules:
            program.trace_rules(within=reachable(program._functions, symbol, custom_rules=False))
        # Nobody looks at it: the rules of what it does not run wait, and those that are told zeros.
        result = program.clone(hold_rules=True)
    with deep_calls_as(TransformError), scope():
        rules = Rules(result)
        if transformation == "jvp":
            found = jvp(rules, symbol, pattern)
        elif transformation == "linearize":
            active, rules.reverse = pattern
            found = linearize_call(rules, symbol, active)
        elif transformation == "partial_eval":
            found = partial_eval_call(rules, symbol, pattern)
        elif transformation == "transpose":
            linear, nonzero = pattern
            found = transpose_nonzero(rules, symbol, linear, f"{symbol}.transpose", nonzero)
        elif transformation == "vary":
            found = vary(rules, symbol, *pattern)
        else:
            axis, dims = pattern
            found = vmap(rules, symbol, dims, axis)
    result.changed()
    return result, found

"""A program as a JAX primitive: ``jaxmlir_call``.

Calling a program inside JAX code binds one equation.  Its lowering splices in the program's
StableHLO.  So a program runs under ``jax.jit``, with JAX's C++ dispatch, donation, sharding, async
execution and compilation cache.  Its derivative and batching rules run the passes on the function.

Some of JAX's interpreters look at each equation, and have a rule per primitive:
``jax.experimental.jet`` computes Taylor series, ``sparsify`` computes with sparse arrays,
``checkify`` finds run-time errors, and ``jax_debug_key_reuse`` finds random keys that are used
twice.  They treat a call of a program as a ``jit`` of its equations.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir._compat import (
    ad,
    ad_util,
    batching,
    close_jaxpr,
    config,
    core,
    debug_info,
    defer_mhlo_classes,
    effects,
    mlir,
    pe,
    register_dce,
    register_linearization,
    resolve,
    source_info_util,
)
from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.analysis.liveness import FunctionVariant, PrunedOp, liveness_of
from jaxmlir.bridge import manual_axes
from jaxmlir.bridge.exporter import Exporter, count_constvars
from jaxmlir.dialect.ir import context, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import in_scope, is_differentiable
from jaxmlir.lowering.functions import Nesting
from jaxmlir.optimize.simplify.dce import reduced
from jaxmlir.runtime.callee import Callee, PrunedCallee
from jaxmlir.runtime.placement import check_devices
from jaxmlir.support.masks import chosen, filled, left_out

if TYPE_CHECKING:
    from jaxmlir.runtime.callee import Callee


# Parameters: ``callee``, and ``placement``, the shardings of the function that JAX must see before
# it lowers the call (see :mod:`jaxmlir.runtime.placement`).
call_p: Any = core.Primitive("jaxmlir_call")
call_p.multiple_results = True


@call_p.def_impl
def _impl(*args: Any, **params: Any) -> list[Any]:
    callee = params["callee"]
    if jax.config.jax_disable_jit:
        return core.jaxpr_as_fun(callee.closed_jaxpr)(*args)

    def jitted() -> Any:
        # The traced jaxpr must not keep the callee alive.
        twin = callee.twin()

        def called(*xs: Any) -> list[Any]:
            if isinstance(core.trace_ctx.trace, core.EvalTrace):
                # The compiled function gave a NaN, and JAX runs it again to find the op.
                from jaxmlir.interpret.interpreter import Interpreter

                return Interpreter(twin.program).run(twin.symbol, xs)
            # Otherwise a call without arguments would be evaluated eagerly, which ends here again.
            with config.eager_constant_folding(False):
                return call_p.bind(*xs, **params | {"callee": twin})

        return jax.jit(called)

    # The same function each time, so that JAX compiles it once.
    return callee.once(("jitted", params["placement"]), jitted)(*args)


@call_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, callee: Callee, placement: Any) -> tuple[list[Any], Any]:
    signature = callee.signature
    return _results_for(callee, avals), signature.effects


def _results_for(callee: Callee, avals: Sequence[Any]) -> list[Any]:
    """The abstract values of a call's results.  Symbolic sizes get the arguments' scope: the scope
    of a program's equations is another one."""
    results = manual_axes.results(callee.signature, avals)
    if all(core.is_constant_shape(getattr(aval, "shape", ())) for aval in results):
        return results
    sizes = (size for aval in avals for size in getattr(aval, "shape", ()))
    symbolic = next((size for size in sizes if not core.is_constant_dim(size)), None)
    sizes_scope = callee.sizes_scope if symbolic is None else symbolic.scope
    return results if sizes_scope is None else [in_scope(aval, sizes_scope) for aval in results]


def _stage(trace: Any, source_info: Any, *tracers: Any, **params: Any) -> list[Any]:
    """Stages a call out.  JAX's default staging caches result types by parameters, and would keep
    thousands of programs alive."""
    results, effects_ = call_p.abstract_eval(*(t.aval for t in tracers), **params)
    trace.frame.is_high |= params["callee"].is_high
    return trace.emit_eqn(tracers, results, call_p, params, effects_, source_info)


pe.custom_staging_rules[call_p] = _stage


def _to_lojax(*args: Any, callee: Callee, placement: Any) -> list[Any]:
    """Evaluates the function's equations.  JAX lowers values of high-level types to arrays in the
    whole jaxpr, by expanding the primitives that take or return such values."""
    return core.jaxpr_as_fun(callee.closed_jaxpr)(*args)


call_p.is_high = lambda *_, callee, placement: callee.is_high
call_p.to_lojax = _to_lojax


def _lowering(ctx: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    check_devices(placement, ctx.module_context.axis_context)
    placeholder = Nesting.of(ctx.module_context).placeholder(ctx, callee, args)
    results, tokens = placeholder or callee.lower(ctx, args)
    if ctx.tokens_in is not tokens or len(tokens):
        ctx.set_tokens_out(tokens)
    return results


mlir.register_lowering(call_p, _lowering, cacheable=False)
defer_mhlo_classes()


def _lower_hi_primitives() -> None:
    """Gives JAX's high-level primitives a lowering rule: lower their expansion.  JAX expands them
    (since 0.11.2 ``lax.custom_root`` is one) in the whole jaxpr before lowering.  In a program they
    stay, with their derivative rules, until they are lowered.  A primitive that only has a
    transpose expands to JAX's error."""
    for name in ("call_hi_primitive_p", "call_hi_primitive_linearized_p"):
        hi_p = resolve("jax._src.hijax", name)
        if hi_p is not None and hi_p not in mlir._lowerings:
            rule = mlir.lower_fun(hi_p.to_lojax, multiple_results=True)
            mlir.register_lowering(hi_p, rule)


_lower_hi_primitives()


def _equation(like: Any, callee: Callee, invars: Any, outvars: Any) -> Any:
    """A call of another function, in place of the equation ``like``."""
    # Without a placement, the equation is in a function whose callers have the placement.
    placement = like.params["placement"] and callee.placement
    return core.new_jaxpr_eqn(
        invars,
        outvars,
        call_p,
        {"callee": callee, "placement": placement},
        callee.signature.effects,
        like.source_info,
        like.ctx,
    )


def _dce(used: list[bool], eqn: Any) -> tuple[list[bool], Any | None]:
    """The rule of JAX's dead code elimination; it also prunes the called function."""
    if not any(used) and all(pe.dceable_effects.contains(e) for e in eqn.effects):
        return [False] * len(eqn.invars), None
    pruned = eqn.params["callee"].pruned(tuple(used))
    if pruned is None:
        return [True] * len(eqn.invars), eqn
    arguments, callee = pruned
    pruned_eqn = _equation(eqn, callee, chosen(eqn.invars, arguments), chosen(eqn.outvars, used))
    return list(arguments), pruned_eqn


register_dce(call_p, _dce)


def call(program: Module, symbol: str, args: list[Any]) -> list[Any]:
    """Calls a function of a program on flat arguments, under the current trace.  References that
    the program makes itself are discharged first.  A function that takes references is evaluated
    equation by equation instead: JAX discharges references by looking at equations."""
    if call_signature(program, symbol).uses_refs:
        pure = program.versions.pure
        if pure is None or call_signature(pure, symbol).uses_refs:
            return core.jaxpr_as_fun(program.exporter.jaxpr(symbol))(*args)
        program = pure
    return _call(program.callee(symbol), args)


def _call(callee: Callee, args: list[Any]) -> list[Any]:
    """Binds a call; in ``jax.shard_map``, one for each set of axes that results vary over."""
    signature = callee.signature
    n = len(signature.results)

    def part(indices: Sequence[int]) -> tuple[Sequence[bool], Callee]:
        """The arguments that these results need, and the callee that gives the results."""
        pruned = callee.pruned(tuple(i in indices for i in range(n)))
        return pruned or ([True] * len(args), callee)

    axes = manual_axes.added(signature.operands, list(map(core.typeof, args)))
    classes = manual_axes.classes(axes, n, lambda i: part([i])[0])
    if len(classes) <= 1 or signature.effects:
        return _bind_callee(callee, args)
    results: dict[int, Any] = {}
    for indices in classes.values():
        arguments, less = part(indices)
        outs = _bind_callee(less, chosen(args, arguments))
        results |= zip(indices if less is not callee else range(n), outs, strict=True)
    return [results[i] for i in range(n)]


# --- transformation rules: the passes, applied to the called function ------------------------


def _bind(program: Module, symbol: str, args: list[Any]) -> list[Any]:
    return _bind_callee(program.callee(symbol), args)


def _bind_callee(callee: Callee, args: list[Any]) -> list[Any]:
    cast = manual_axes.cast(callee.signature.operands, args)
    return call_p.bind(*cast, callee=callee, placement=callee.placement)


def _results(callee: Callee, primals: Any) -> list[Any]:
    """The abstract values of a call's results."""
    return _results_for(callee, list(map(core.typeof, primals)))


def _active(tangents: Any) -> tuple[bool, ...]:
    return tuple(
        type(t) is not ad_util.Zero and is_differentiable(core.typeof(t)) for t in tangents
    )


def _or_zeros(avals: Any, nonzero: Any, values: Any) -> list[Any]:
    """Tangents of primals of those types, symbolic zeros where none is given."""
    return filled(values, nonzero, [ad_util.Zero(a.to_tangent_aval()) for a in avals])


def _jvp(
    primals: Any, tangents: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[Any]]:
    active = _active(tangents)
    program, (symbol, active_out) = callee.derived("jvp", active)
    directions = chosen(tangents, active)
    outs = _bind(program, symbol, [*primals, *directions])
    n = len(active_out)
    return outs[:n], _or_zeros(_results(callee, primals), active_out, outs[n:])


ad.primitive_jvps[call_p] = _jvp


def _linearize(
    is_vjp: bool, nonzeros: Any, *primals: Any, callee: Callee, placement: Any
) -> tuple[list[Any], list[bool], list[Any], Any]:
    results = _results(callee, primals)
    operands = call_signature(callee.program, callee.symbol).operands
    active = tuple(nz and is_differentiable(a) for nz, a in zip(nonzeros, operands, strict=True))
    program, halves = callee.derived("linearize", (active, is_vjp))
    outs, saved = halves.values(primals, _bind(program, halves.first, list(primals)))

    def linearized(residuals: list[Any], *tangents: Any) -> list[Any]:
        directions = chosen(tangents, active)
        values = _bind(program, halves.second, [*residuals, *directions])
        return _or_zeros(results, halves.pattern, values)

    return outs, list(halves.pattern), saved, linearized


register_linearization(call_p, _linearize)


def _transpose(cotangents: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    linear = tuple(map(ad.is_undefined_primal, args))
    nonzero = tuple(type(ct) is not ad_util.Zero for ct in cotangents)
    program, (symbol, pattern) = callee.derived("transpose", (linear, nonzero))
    fixed = left_out(args, linear)
    handed = chosen(cotangents, nonzero)
    outs = _bind(program, symbol, [*fixed, *handed])
    zeros = [ad_util.Zero(a.aval) for a in chosen(args, linear)]
    return filled(filled(outs, pattern, zeros), linear)


ad.primitive_transposes[call_p] = _transpose


def _batch(
    axis_data: Any, args: Any, dims: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[Any]]:
    if axis_data.explicit_mesh_axis is not None and not _knows_meshes(callee):
        # The ops have no mesh with an axis for the batch dimension.
        name, size, spmd_name = axis_data.name, axis_data.size, axis_data.spmd_name
        axis_data = batching.AxisData(name, size, spmd_name, None)
    program, (symbol, out_dims) = callee.derived("vmap", (axis_data, tuple(dims)))
    return _bind(program, symbol, list(args)), list(out_dims)


def _knows_meshes(callee: Callee) -> bool:
    """Whether a function was traced for arrays on a mesh."""
    arrays = [aval for aval in callee.signature.operands if isinstance(aval, core.ShapedArray)]
    return not all(aval.sharding.mesh.empty for aval in arrays)


batching.fancy_primitive_batchers[call_p] = _batch


# --- partial evaluation of a call with some known operands -------------------------------------
#
# JAX splits equations in this way when it transposes a remat that was differentiated in forward
# mode, and when it decides which residuals a loop or a remat stores for the backward pass.


def _partial_eval(trace: Any, *tracers: Any, callee: Callee, placement: Any) -> list[Any]:
    """Computes what the known operands allow, and makes an equation for the rest."""
    unknown = tuple(not t.is_known() for t in tracers)
    known = [t.pval.get_known() for t, u in zip(tracers, unknown, strict=True) if not u]
    if not any(unknown):
        return call_p.bind(*known, callee=callee, placement=placement)
    program, split = callee.derived("partial_eval", unknown)
    results, residuals = split.values(known, _bind(program, split.first, known))
    rest = chosen(tracers, unknown)
    operands = [*map(trace.instantiate_const, map(trace.new_const, residuals)), *rest]
    rest_of = program.callee(split.second)
    second = {"callee": rest_of, "placement": rest_of.placement}
    signature = rest_of.signature
    avals = _results_for(rest_of, [tracer.aval for tracer in operands])
    later = [pe.JaxprTracer(trace, pe.PartialVal.unknown(aval), None) for aval in avals]
    source = source_info_util.current().replace(name_stack=trace._current_truncated_name_stack())
    recipe = pe.new_eqn_recipe(trace, operands, later, call_p, second, signature.effects, source)
    for tracer in later:
        tracer.recipe = recipe
    if effects.partial_eval_kept_effects.filter_in(signature.effects):
        trace.effect_handles.append(pe.EffectHandle(operands, recipe))
    first, second = iter(results), iter(later)
    return [next(second if u else first) for u in split.pattern]


pe.custom_partial_eval_rules[call_p] = _partial_eval


_SAVE_ALL = (jax.checkpoint_policies.everything_saveable, pe.everything_saveable)


def _partial_eval_by_policy(
    saveable: Any, unknown: Any, instantiated: Any, eqn: Any
) -> tuple[Any, Any, list[bool], list[bool], list[Any]]:
    """Splits an equation into one for now and one for the backward pass, which has all operands.

    Args:
      saveable: the policy that chooses the values of the first that are stored for the second; the
        second recomputes the others.
      unknown: the operands that the first does not have.
      instantiated: the operands that the second has without storing them.

    Returns:
      The two equations, which results the first does not give, which the second gives, and the
      values to store for the second.
    """
    callee, unknown = eqn.params["callee"], tuple(unknown)
    again = saveable is jax.checkpoint_policies.nothing_saveable
    if callee.signature.effects or not (again or saveable in _SAVE_ALL):
        # The policy must be applied to each equation of the function.
        rule = pe.partial_eval_jaxpr_custom_rules[core.closed_call_p]
        retyped = manual_axes.retyped(callee, [x.aval for x in eqn.invars])
        body = {"call_jaxpr": retyped.closed_jaxpr}
        called = eqn.replace(primitive=core.closed_call_p, params=body)
        return rule(saveable, unknown, instantiated, called)
    program, split = callee.derived("partial_eval", unknown)
    later = split.pattern
    known = left_out(eqn.invars, unknown)
    outs = left_out(eqn.outvars, later)
    results = [core.Var(v.aval) if isinstance(v, core.DropVar) else v for v in outs]
    first = program.callee(split.first)
    avals = _results_for(first, [x.aval for x in known])
    extra = [core.Var(aval) for aval in avals[len(results) :]]
    now = _equation(eqn, first, known, [*results, *extra])
    if again:
        _, now = _dce([True] * len(results) + [False] * len(extra), now)
        then = eqn
    else:
        _, residuals = split.values(known, [*results, *extra])
        rest = chosen(eqn.invars, unknown)
        outvars = chosen(eqn.outvars, later)
        then = _equation(eqn, program.callee(split.second), [*residuals, *rest], outvars)
    has = {id(x) for x, i in zip(eqn.invars, instantiated, strict=True) if i}
    saved = [x for x in then.invars if type(x) is core.Var and id(x) not in has]
    return now, then if then.outvars else None, list(later), [again or u for u in later], saved


pe.partial_eval_jaxpr_custom_rules[call_p] = _partial_eval_by_policy


class StubReader:
    """A ``Reader`` whose jaxprs have one ``jaxmlir_call`` equation, for rules that only call them.
    Functions that take or make references keep their equations (see :func:`call`)."""

    leaves_rules = False
    """Custom rules that are not traced yet are traced when they are read."""

    def __init__(self, program: Module):
        self.program = program
        self._jaxprs: dict[Any, Any] = {}
        # The verifier also reads custom calls that a loaded program may not run.  Lowering checks
        # them before it begins.
        is_own = program.custom_calls is None
        self._exporter = program.exporter if is_own else Exporter(program, to_run=False)

    def jaxpr(self, symbol: str) -> Any:
        jaxpr = self._jaxprs.get(symbol)
        if jaxpr is None:
            signature = call_signature(self.program, symbol)
            if signature.uses_refs:
                jaxpr = self._exporter.jaxpr(symbol)
            else:
                num_constvars = count_constvars(self.program._function(symbol))
                jaxpr = _stub(self.program.callee(symbol), signature, num_constvars)
            self._jaxprs[symbol] = jaxpr
        return jaxpr

    def bound(self, symbol: str, values: str) -> Any:
        jaxpr = self._jaxprs.get((symbol, values))
        if jaxpr is None:
            jaxpr = close_jaxpr(self.jaxpr(symbol), self._exporter.values(values))
            self._jaxprs[symbol, values] = jaxpr
        return jaxpr

    def reduced(self, op: Any, cut: PrunedOp) -> ir.Operation:
        """The remaining part of a pruned op, to be read by this reader."""
        with context():
            return reduced(op, cut, self._name, liveness_of(self.program), ip=False)

    def _name(self, variant: FunctionVariant) -> str:
        """A name for a variant of a function, which has no symbol."""
        symbol, results, arguments = variant
        masks = ["".join("01"[is_kept] for is_kept in mask) for mask in (arguments, results)]
        name = f"{symbol} {masks[0]} -> {masks[1]}"
        if name not in self._jaxprs:
            if call_signature(self.program, symbol).uses_refs:
                whole = self._exporter.jaxpr(symbol)
                pruned, _ = pe.dce_jaxpr(whole.jaxpr, results, instantiate=arguments)
                self._jaxprs[name] = close_jaxpr(pruned)
            else:
                callee = PrunedCallee(self.program, variant)
                self._jaxprs[name] = _stub(callee, callee.signature)
        return name


def _stub(callee: Callee, signature: Any, num_constvars: int = 0) -> Any:
    """The jaxpr of one call; it is open if its op passes the constants."""
    operands = [core.Var(aval) for aval in signature.operands]
    outvars = [core.Var(aval) for aval in signature.results]
    params = {"callee": callee, "placement": None}
    eqn = core.new_jaxpr_eqn(operands, outvars, call_p, params, signature.effects)
    constvars, invars = operands[:num_constvars], operands[num_constvars:]
    info = debug_info("jit", callee.symbol, len(invars), len(outvars))
    jaxpr = core.Jaxpr(constvars, invars, outvars, [eqn], signature.effects, info)
    return jaxpr if num_constvars else close_jaxpr(jaxpr)


def _register_interpreters(primitive: Any) -> None:
    """Adds the rules of the call primitive to the interpreters when these are imported.  Importing
    them here would take longer than loading a small program, and adding the rules when a program is
    traced would miss interpreters that are imported later."""
    for module in _INTERPRETERS.keys() & sys.modules.keys():
        _add_rule(primitive, module)
    sys.meta_path.insert(0, _AfterImport(primitive))


def _add_rule(primitive: Any, module: str) -> None:
    registry, make = _INTERPRETERS[module]
    rules = resolve(module, registry)
    if rules is not None:
        rules[primitive] = make(rules)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds the interpreters' modules as Python does, and adds the rules after their import."""

    def __init__(self, primitive: Any):
        self.primitive = primitive

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in _INTERPRETERS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _add_rule(self.primitive, name)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _series(rules: Any) -> Callable[..., Any]:
    def rule(primals: Any, series: Any, *, callee: Callee, placement: Any) -> Any:
        eqn = _as_jit(callee, map(core.typeof, primals))
        return rules[eqn.primitive](primals, series, **eqn.params)

    return rule


def _checks(rules: Any) -> Callable[..., Any]:
    def rule(*args: Any, callee: Callee, placement: Any) -> Any:
        # The errors so far come before the operands, with further arguments in some JAX versions.
        operands = args[len(args) - len(callee.signature.operands) :]
        eqn = _as_jit(callee, map(core.typeof, operands))
        return rules[eqn.primitive](*args, **eqn.params)

    return rule


def _on_sparse_arrays(rules: Any) -> Callable[..., Any]:
    avals_of = resolve(_SPARSE, "spvalues_to_avals")

    def rule(arrays: Any, *operands: Any, callee: Callee, placement: Any) -> Any:
        eqn = _as_jit(callee, avals_of(arrays, operands))
        return rules[eqn.primitive](arrays, *operands, **eqn.params)

    return rule


def _uses_of_keys(rules: Any) -> Any:
    def signature(call: Any) -> Any:
        eqn = _as_jit(call.params["callee"], [v.aval for v in call.invars])
        return rules[eqn.primitive].signature(eqn)

    return resolve(_KEY_REUSE, "DynamicKeyReuseSignature")(signature)


_KEY_REUSE = "jax.experimental.key_reuse._core"
_SPARSE = "jax.experimental.sparse.transform"

# By module: the name of its table of rules, and the function that makes a rule.
_INTERPRETERS = {
    "jax.experimental.jet": ("jet_rules", _series),
    _SPARSE: ("sparse_rules_bcoo", _on_sparse_arrays),
    "jax._src.checkify": ("error_checks", _checks),
    _KEY_REUSE: ("key_reuse_signatures", _uses_of_keys),
}


def _as_jit(callee: Callee, avals: Iterable[Any]) -> Any:
    """The equation of a jit of the function."""

    def function(*xs: Any) -> list[Any]:
        return core.jaxpr_as_fun(callee.closed_jaxpr)(*xs)

    function.__name__ = callee.symbol
    with jax.disable_jit(False):
        (eqn,) = jax.make_jaxpr(jax.jit(function))(*avals).eqns
    return eqn


_register_interpreters(call_p)

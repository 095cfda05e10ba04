"""A program as a JAX primitive: ``jaxmlir_call``.

Calling a program inside JAX code binds one equation.  Its lowering splices in the program's
StableHLO; so a program runs under ``jax.jit``, with JAX's C++ dispatch, donation, sharding, async
execution and compilation cache.  Its derivative and batching rules run the passes on the function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir import params
from jaxmlir._compat import (
    ad,
    ad_util,
    batching,
    close_jaxpr,
    core,
    debug_info,
    dispatch,
    mlir,
    named_sharding,
    pe,
    register_dce,
    register_linearization,
    resolve,
)
from jaxmlir._lists import chosen
from jaxmlir.ir import context, ir, scope
from jaxmlir.lowering import lower_function
from jaxmlir.passes._liveness import Liveness, Variant
from jaxmlir.passes.dce import prune
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


class Callee:
    """One function of one program; equal to itself only."""

    __slots__ = ("__weakref__", "_derived", "program", "symbol")

    def __init__(self, program: Program, symbol: str):
        self.program = program
        self.symbol = symbol
        self._derived: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"@{self.symbol}"

    def derived(self, transformation: str, pattern: Any) -> Any:
        """The function transformed, made once per pattern (see :func:`derive`)."""
        key = (transformation, pattern)
        if key not in self._derived:
            self._derived[key] = derive(self.program, self.symbol, transformation, pattern)
        return self._derived[key]

    @property
    def body(self) -> Program:
        """The program that is lowered; its custom rules need not be traced."""
        return self.program

    @property
    def signature(self) -> Any:
        """What the function takes and gives."""
        return self.body.signature(self.symbol)

    @property
    def closed_jaxpr(self) -> Any:
        return self.program.exporter.jaxpr(self.symbol)

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        """Emits the function's body; see :func:`jaxmlir.lowering.lower_function`."""
        return lower_function(ctx, self.body, self.symbol, args)

    def pruned(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        """The arguments that those results need, and a callee that takes and gives only these.

        ``None`` where nothing would be dropped from the function and those that it calls.
        """
        key = ("prune", results)
        if key not in self._derived:
            with context():
                self._derived[key] = self._prune(results)
        return self._derived[key]

    def _prune(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        liveness = Liveness(self.body._functions, custom_rules=False)
        arguments = liveness.arguments(self.symbol, results)
        entry = Variant(self.symbol, results, arguments)
        inside = [v for v in liveness.needed([entry]) if v != entry and liveness.drops(v)]
        if not inside and not liveness.drops(entry):
            return None
        if liveness.met_custom_rules:
            # What only a custom rule may need is an argument all the same: the variant can be
            # differentiated.
            needed = liveness.with_custom_rules().arguments(self.symbol, results)
            entry = entry._replace(arguments=needed)
        dead = None if inside else frozenset(liveness.of(self.symbol, results).dead)
        return entry.arguments, _Pruned(self, entry, dead)


class _Pruned(Callee):
    """A variant of a function.

    Where only ops of the function itself are ``dead``, lowering leaves these out; otherwise, and to
    transform it, it is the function of a program that is cut down to it.
    """

    __slots__ = ("_body", "_entry", "_program", "_whole", "dead")

    def __init__(self, whole: Callee, entry: Variant, dead: frozenset[int] | None):
        self._whole, self._entry, self.dead = whole, entry, dead
        self._body: Program | None = None
        self._program: Program | None = None
        self.symbol = whole.symbol
        self._derived = {}

    @property
    def body(self) -> Program:
        if self.dead is not None:
            return self._whole.body
        if self._body is None:
            self._body = self._whole.body.clone(trace_rules=False)
            prune(self._body, self._entry, custom_rules=False)
        return self._body

    @property
    def signature(self) -> Any:
        if self.dead is None:
            return super().signature
        whole = self._whole.signature
        return dataclasses.replace(
            whole,
            operands=tuple(chosen(whole.operands, self._entry.arguments)),
            results=tuple(chosen(whole.results, self._entry.results)),
        )

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = self._whole.program.clone()
            prune(self._program, self._entry)
        return self._program

    def pruned(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        if self.dead is None:
            return super().pruned(results)
        if all(results):
            return None
        left = iter(results)
        found = self._whole.pruned(tuple(kept and next(left) for kept in self._entry.results))
        if found is None:
            return None
        arguments, callee = found
        return tuple(chosen(arguments, self._entry.arguments)), callee

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        if self.dead is None:
            return super().lower(ctx, args)
        given = iter(args)
        every = [next(given) if kept else None for kept in self._entry.arguments]
        results, tokens = lower_function(ctx, self.body, self.symbol, every, self.dead)
        return chosen(results, self._entry.results), tokens


# Parameters: ``callee``, and ``placement``, what JAX must see of the function before it lowers it
# (see :func:`placement_of`).
call_p = core.Primitive("jaxmlir_call")
call_p.multiple_results = True


@call_p.def_impl
def _impl(*args: Any, **params: Any) -> list[Any]:
    return jax.jit(lambda *xs: call_p.bind(*xs, **params))(*args)


@call_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, callee: Callee, placement: Any) -> tuple[list[Any], Any]:
    signature = callee.signature
    return list(signature.results), signature.effects


def _lowering(ctx: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    results, tokens = callee.lower(ctx, args)
    if ctx.tokens_in is not tokens or len(tokens):
        ctx.set_tokens_out(tokens)
    return results


mlir.register_lowering(call_p, _lowering, cacheable=False)


def _lower_hi_primitives() -> None:
    """Gives JAX's high-level primitive a lowering rule: what it expands to.

    JAX expands them (since 0.12 ``lax.custom_root`` is one) in the whole jaxpr before it lowers; in
    a program they stay, with their derivative rules, until they are lowered.
    """
    hi_p = resolve("jax._src.hijax", "call_hi_primitive_p")
    if hi_p is not None and hi_p not in mlir._lowerings:
        rule = mlir.lower_fun(hi_p.to_lojax, multiple_results=True)
        mlir.register_lowering(hi_p, rule)


_lower_hi_primitives()


def _dce(used: list[bool], eqn: Any) -> tuple[list[bool], Any | None]:
    """JAX drops what is dead before it lowers: here, what is dead inside the called function."""
    if not any(used) and all(pe.dceable_effects.contains(e) for e in eqn.effects):
        return [False] * len(eqn.invars), None
    found = eqn.params["callee"].pruned(tuple(used))
    if found is None:
        return [True] * len(eqn.invars), eqn
    arguments, callee = found
    # Of a function whose body is only skipped in part, the whole one's says enough.
    placement = eqn.params["placement"] and callee.body.placement
    new = core.new_jaxpr_eqn(
        chosen(eqn.invars, arguments),
        chosen(eqn.outvars, used),
        call_p,
        {"callee": callee, "placement": placement},
        callee.signature.effects,
        eqn.source_info,
        eqn.ctx,
    )
    return list(arguments), new


register_dce(call_p, _dce)


def call(program: Program, symbol: str, args: list[Any]) -> list[Any]:
    """Calls a function of a program on flat arguments, under whatever trace is current.

    A program that uses mutable references is evaluated equation by equation instead: JAX turns
    references into values by looking at the equations.
    """
    signature = program.signature(symbol)
    if signature.uses_refs:
        return core.jaxpr_as_fun(program.exporter.jaxpr(symbol))(*args)
    return call_p.bind(*args, callee=program.callee(symbol), placement=program.placement)


# --- transformation rules: the passes, applied to the called function ------------------------


def _bind(program: Program, symbol: str, args: list[Any]) -> list[Any]:
    return call_p.bind(*args, callee=program.callee(symbol), placement=program.placement)


def _active(tangents: Any) -> tuple[bool, ...]:
    return tuple(
        type(t) is not ad_util.Zero and core.typeof(t).dtype != jax.dtypes.float0 for t in tangents
    )


def _or_zeros(avals: Any, given: Any, values: Any) -> list[Any]:
    """Tangents of results, symbolic zeros where none is given."""
    it = iter(values)
    return [
        next(it) if g else ad_util.Zero(a.to_tangent_aval())
        for a, g in zip(avals, given, strict=True)
    ]


def _jvp(
    primals: Any, tangents: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[Any]]:
    active = _active(tangents)
    program, (symbol, active_out) = callee.derived("jvp", active)
    given = [t for t, a in zip(tangents, active, strict=True) if a]
    outs = _bind(program, symbol, [*primals, *given])
    n = len(active_out)
    results = callee.program.signature(callee.symbol).results
    return outs[:n], _or_zeros(results, active_out, outs[n:])


ad.primitive_jvps[call_p] = _jvp


def _linearize(
    is_vjp: bool, nonzeros: Any, *primals: Any, callee: Callee, placement: Any
) -> tuple[list[Any], list[bool], list[Any], Any]:
    results = callee.program.signature(callee.symbol).results
    operands = callee.program.signature(callee.symbol).operands
    active = tuple(
        nz and a.to_tangent_aval().dtype != jax.dtypes.float0
        for nz, a in zip(nonzeros, operands, strict=True)
    )
    program, found = callee.derived("linearize", active)
    outs = _bind(program, found.fwd, list(primals))
    n = len(results)

    def linearized(residuals: list[Any], *tangents: Any) -> list[Any]:
        given = [t for t, a in zip(tangents, active, strict=True) if a]
        values = _bind(program, found.lin, [*residuals, *given])
        return _or_zeros(results, found.active_out, values)

    return outs[:n], list(found.active_out), outs[n:], linearized


register_linearization(call_p, _linearize)


def _transpose(cotangents: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    linear = tuple(ad.is_undefined_primal(a) for a in args)
    program, symbol = callee.derived("transpose", linear)
    fixed = [a for a, lin in zip(args, linear, strict=True) if not lin]
    found = iter(_bind(program, symbol, [*fixed, *map(ad.instantiate_zeros, cotangents)]))
    return [next(found) if lin else None for lin in linear]


ad.primitive_transposes[call_p] = _transpose


def _batch(
    axis_data: Any, args: Any, dims: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[Any]]:
    program, (symbol, out_dims) = callee.derived("vmap", (axis_data, tuple(dims)))
    return _bind(program, symbol, list(args)), list(out_dims)


batching.fancy_primitive_batchers[call_p] = _batch


def derive(program: Program, symbol: str, transformation: str, pattern: Any) -> Any:
    """A copy of the program with the transformed function in it, and what the pass says of it."""
    from jaxmlir.passes._rules import Rules
    from jaxmlir.passes.jvp import jvp
    from jaxmlir.passes.linearize import linearize
    from jaxmlir.passes.transpose import transpose
    from jaxmlir.passes.vmap import vmap

    result = program.clone()
    with scope():
        rules = Rules(result)
        if transformation == "jvp":
            found = jvp(rules, symbol, pattern)
        elif transformation == "linearize":
            found = linearize(rules, symbol, pattern)
        elif transformation == "transpose":
            found = transpose(rules, symbol, pattern, f"{symbol}.transpose")
        else:
            axis, dims = pattern
            found = vmap(rules, symbol, dims, axis)
    result.changed()
    return result, found


# Ops whose parameters say where values live; and any that JAX lowers knowing the devices.
_PLACED = frozenset(
    {"call_exported", "compute_on", "device_put", "jit", "shard_map", "sharding_constraint"}
)


def placement_of(program: Program) -> Any | None:
    """A jaxpr of the program's equations that mention devices; ``None`` if there are none.

    JAX decides on which devices a computation runs by searching its equations, sub-jaxprs in
    parameters included, for shardings.  It finds them here, in an equation that hides its body.
    """
    needs_devices = {p.name for p in dispatch.prim_requires_devices_during_lowering}
    names = {f"jaxpr.{name}" for name in _PLACED | needs_devices}
    eqns = []
    with context():
        for function in program._functions.values():
            for op in function.entry_block.operations:
                name = op.name if type(op) is ir.OpView else op.operation.name
                if name in names:
                    primitive, parameters = params.of_op(op, name, program.stubs)
                    if name != "jaxpr.jit" or _has_shardings(parameters):
                        invars = [core.Var(aval_of(v.type)) for v in op.operands]
                        outvars = [core.Var(aval_of(v.type)) for v in op.results]
                        eqns.append(
                            core.new_jaxpr_eqn(
                                invars, outvars, primitive, parameters, core.no_effects
                            )
                        )
    if not eqns:
        return None
    invars = [v for eqn in eqns for v in eqn.invars]
    info = debug_info("jit", "placement", len(invars), 0)
    return close_jaxpr(core.Jaxpr([], invars, [], eqns, core.no_effects, info))


def _has_shardings(parameters: dict[str, Any]) -> bool:
    shardings = (*parameters["in_shardings"], *parameters["out_shardings"])
    return any(s is not named_sharding.UNSPECIFIED for s in shardings)


class Stubs:
    """A ``Reader`` whose jaxprs are one ``jaxmlir_call`` equation each, for rules that only call.

    Functions that take or make references keep their equations (see :func:`call`).
    """

    def __init__(self, program: Program):
        self.program = program
        self._jaxprs: dict[str, Any] = {}

    def jaxpr(self, symbol: str) -> Any:
        found = self._jaxprs.get(symbol)
        if found is None:
            signature = self.program.signature(symbol)
            found = (
                self.program.exporter.jaxpr(symbol)
                if signature.uses_refs
                else _stub(self.program.callee(symbol), signature)
            )
            self._jaxprs[symbol] = found
        return found


def _stub(callee: Callee, signature: Any) -> Any:
    invars = [core.Var(aval) for aval in signature.operands]
    outvars = [core.Var(aval) for aval in signature.results]
    params = {"callee": callee, "placement": None}
    eqn = core.new_jaxpr_eqn(invars, outvars, call_p, params, signature.effects)
    info = debug_info("jit", callee.symbol, len(invars), len(outvars))
    return close_jaxpr(core.Jaxpr([], invars, outvars, [eqn], signature.effects, info))

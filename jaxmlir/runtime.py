"""A program as a JAX primitive: ``jaxmlir_call``.

Calling a program inside JAX code binds one equation.  Its lowering splices in the program's
StableHLO; so a program runs under ``jax.jit``, with JAX's C++ dispatch, donation, sharding, async
execution and compilation cache.  Its derivative and batching rules hand JAX the program's jaxpr.
"""

from __future__ import annotations

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
)
from jaxmlir.ir import context, ir
from jaxmlir.lowering import lower_function
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


class Callee:
    """One function of one program; equal to itself only."""

    __slots__ = ("__weakref__", "program", "symbol")

    def __init__(self, program: Program, symbol: str):
        self.program = program
        self.symbol = symbol

    def __repr__(self) -> str:
        return f"@{self.symbol}"

    @property
    def closed_jaxpr(self) -> Any:
        return self.program.exporter.jaxpr(self.symbol)


# Parameters: ``callee``, and ``placement``, what JAX must see of the function before it lowers it
# (see :func:`placement_of`).
call_p = core.Primitive("jaxmlir_call")
call_p.multiple_results = True


@call_p.def_impl
def _impl(*args: Any, **params: Any) -> list[Any]:
    return jax.jit(lambda *xs: call_p.bind(*xs, **params))(*args)


@call_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, callee: Callee, placement: Any) -> tuple[list[Any], Any]:
    signature = callee.program.signature(callee.symbol)
    return list(signature.results), signature.effects


def _lowering(ctx: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    results, tokens = lower_function(ctx, callee.program, callee.symbol, args)
    if ctx.tokens_in is not tokens or len(tokens):
        ctx.set_tokens_out(tokens)
    return results


mlir.register_lowering(call_p, _lowering, cacheable=False)


def call(program: Program, symbol: str, args: list[Any]) -> list[Any]:
    """Calls a function of a program on flat arguments, under whatever trace is current.

    A program that uses mutable references is evaluated equation by equation instead: JAX turns
    references into values by looking at the equations.
    """
    signature = program.signature(symbol)
    if signature.uses_refs:
        return core.jaxpr_as_fun(program.exporter.jaxpr(symbol))(*args)
    return call_p.bind(*args, callee=program.callee(symbol), placement=program.placement)


def _jvp(
    primals: Any, tangents: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[Any]]:
    """Forward mode in the nonzero tangents."""
    function = core.jaxpr_as_fun(callee.closed_jaxpr)
    active = [i for i, t in enumerate(tangents) if type(t) is not ad_util.Zero]

    def of_active(*args: Any) -> list[Any]:
        full = list(primals)
        for i, arg in zip(active, args, strict=True):
            full[i] = arg
        return function(*full)

    out, out_tangents = jax.jvp(
        of_active, [primals[i] for i in active], [tangents[i] for i in active]
    )
    return out, [
        ad_util.Zero.from_primal_value(o) if t.dtype == jax.dtypes.float0 else t
        for o, t in zip(out, out_tangents, strict=True)
    ]


ad.primitive_jvps[call_p] = _jvp


def _transpose(cotangents: Any, *args: Any, callee: Callee, placement: Any) -> list[Any]:
    function = core.jaxpr_as_fun(callee.closed_jaxpr)
    linear = [i for i, a in enumerate(args) if ad.is_undefined_primal(a)]

    def of_linear(*xs: Any) -> list[Any]:
        full = list(args)
        for i, x in zip(linear, xs, strict=True):
            full[i] = x
        return function(*full)

    avals = [args[i].aval for i in linear]
    transposed = jax.linear_transpose(of_linear, *avals)
    found = dict(zip(linear, transposed([ad.instantiate_zeros(ct) for ct in cotangents]), strict=True))
    return [found.get(i) for i in range(len(args))]


ad.primitive_transposes[call_p] = _transpose


def _batch(
    axis_data: Any, args: Any, dims: Any, *, callee: Callee, placement: Any
) -> tuple[list[Any], list[int]]:
    function = core.jaxpr_as_fun(callee.closed_jaxpr)
    in_axes = [d if isinstance(d, int) else None for d in dims]
    outs = jax.vmap(
        lambda *xs: function(*xs),
        in_axes=tuple(in_axes),
        axis_size=axis_data.size,
        axis_name=axis_data.name if axis_data.name is not core.no_axis_name else None,
        spmd_axis_name=axis_data.spmd_name,
    )(*args)
    return outs, [0] * len(outs)


batching.fancy_primitive_batchers[call_p] = _batch


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
        for function in program.functions.values():
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



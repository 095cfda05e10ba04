"""``linear_map``: a linear function together with its transpose.

``(*residuals, *x) -> y``, linear in ``x``; the transpose takes ``(*residuals, *cotangents of y)``.
Each is an ordinary function of all of its arguments, so the derivative with respect to a residual
is the function's.  The module also has what the primitives of this package share: tracing
functions, and primitives that are made of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxmlir._compat import (
    ad,
    ad_util,
    batching,
    close_jaxpr,
    core,
    debug_info,
    mlir,
    pe,
    trace_flat,
)
from jaxmlir.support.masks import chosen, filled, split


def traced(function: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str) -> Any:
    """The closed jaxpr of a function of flat arguments, without dead code."""
    info = debug_info(name, name, len(avals), 0)
    jaxpr, consts = trace_flat(lambda *args: list(function(*args)), avals, info)
    live, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return close_jaxpr(live, consts)


def name_of(jaxpr: Any) -> str:
    """The name of a closed jaxpr's function."""
    info = jaxpr.debug_info if hasattr(jaxpr, "debug_info") else jaxpr.jaxpr.debug_info
    return info.func_name.split(" ")[0].strip("<>") or "function"


def call(jaxpr: Any, *args: Any) -> list[Any]:
    """Evaluates a closed jaxpr."""
    return core.jaxpr_as_fun(jaxpr)(*args)


def zeros(aval: Any) -> Any:
    """Zeros of the tangent type of an aval."""
    return ad_util.instantiate(ad_util.Zero(aval.to_tangent_aval()))


def has_tangent(tangent: Any) -> bool:
    return type(tangent) is not ad_util.Zero and core.typeof(tangent).dtype != jax.dtypes.float0


def spread(primals: Sequence[Any], active: Sequence[bool], tangents: Sequence[Any]) -> list[Any]:
    """The tangent of each of some primals, a symbolic zero for those that have none."""
    none = [ad_util.Zero(core.typeof(x).to_tangent_aval()) for x in primals]
    return filled(tangents, active, none)


def check_types(what: str, expected: Sequence[Any], given: Sequence[Any]) -> None:
    """Checks that values have the types that they must have, weak types aside."""
    if len(expected) != len(given) or not all(map(core.typematch, expected, given)):
        have, want = (", ".join(a.str_short(True) for a in avals) for avals in (given, expected))
        raise TypeError(f"{what}: expected ({want}), got ({have})")


def primitive(name: str, abstract_eval: Callable[..., Any], evaluate: Callable[..., Any]) -> Any:
    """A primitive with several results that is lowered to the ops of a JAX function."""
    prim = core.Primitive(name)
    prim.multiple_results = True
    prim.def_abstract_eval(abstract_eval)
    prim.def_impl(lambda *args, **params: jax.jit(lambda *xs: prim.bind(*xs, **params))(*args))
    mlir.register_lowering(prim, mlir.lower_fun(evaluate, multiple_results=True))
    return prim


def jvp_jaxpr(jaxpr: Any, active: Sequence[bool], keep: Sequence[bool]) -> tuple[Any, list[bool]]:
    """``(*args, *tangents of active) -> (*results, *tangents)``, and which results have tangents.
    Results in ``keep`` have one even if it is zero."""
    derivative, active_out = ad.jvp_jaxpr(jaxpr, tuple(active), instantiate=tuple(keep))
    return derivative, list(active_out)


def _evaluate(*args: Any, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int) -> list[Any]:
    return call(call_jaxpr, *args)


def _abstract_eval(*avals: Any, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int) -> list[Any]:
    residuals, xs = split(avals, num_res)
    outs = list(call_jaxpr.out_avals)
    check_types("arguments of the function", avals, call_jaxpr.in_avals)
    check_types("arguments of the transpose", [*residuals, *outs], transpose_jaxpr.in_avals)
    check_types("results of the transpose", xs, transpose_jaxpr.out_avals)
    return outs


linear_map_p: Any = primitive("linear_map", _abstract_eval, _evaluate)


def _jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    residuals, _ = split(primals, params["num_res"])
    dresiduals, dxs = split(tangents, params["num_res"])
    if all(type(t) is ad_util.Zero for t in dresiduals):
        outs = linear_map_p.bind(*primals, **params)
        return outs, linear_map_p.bind(*residuals, *map(ad.instantiate_zeros, dxs), **params)
    active = [type(t) is not ad_util.Zero for t in tangents]

    def of_active(*values: Any) -> list[Any]:
        return call(params["call_jaxpr"], *filled(values, active, primals))

    return jax.jvp(of_active, chosen(primals, active), chosen(tangents, active))


ad.primitive_jvps[linear_map_p] = _jvp


def _transpose(
    cotangents: Any, *args: Any, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int
) -> list[Any]:
    residuals, xs = split(args, num_res)
    cotangents = map(ad.instantiate_zeros, cotangents)
    outs = call(transpose_jaxpr, *residuals, *cotangents)
    linear = [ad.is_undefined_primal(x) for x in xs]
    return [None] * num_res + [ct if lin else None for ct, lin in zip(outs, linear, strict=True)]


ad.primitive_transposes[linear_map_p] = _transpose


def _batch(
    axis: Any, args: Any, dims: Any, *, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int
) -> tuple[list[Any], list[int]]:
    """Batches both functions; unbatched residuals stay so, all other values are batched."""
    batched = [d is not None or i >= num_res for i, d in enumerate(dims)]
    args = [
        batching.bdim_at_front(x, d, axis.size) if b else x
        for x, d, b in zip(args, dims, batched, strict=True)
    ]
    forth, _ = batching.batch_jaxpr(call_jaxpr, axis, batched, True)
    cotangents = [True] * len(call_jaxpr.out_avals)
    back, _ = batching.batch_jaxpr(transpose_jaxpr, axis, batched[:num_res] + cotangents, True)
    outs = linear_map_p.bind(*args, call_jaxpr=forth, transpose_jaxpr=back, num_res=num_res)
    return outs, [0] * len(outs)


batching.fancy_primitive_batchers[linear_map_p] = _batch

"""``linear_map``: a linear function together with its transpose.

``(*residuals, *x) -> y``, linear in ``x``; the transpose takes ``(*residuals, *cotangents of y)``.
Each is an ordinary function of all of its arguments, so the derivative with respect to a residual
is that of the function.
"""

from __future__ import annotations

from typing import Any

import jax

from jaxmlir._compat import ad, ad_util, batching
from jaxmlir.support.masks import chosen, split
from jaxmlir.transforms.checkpointing.jaxprs import call, check_types, filled, primitive


def _evaluate(*args: Any, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int) -> list[Any]:
    return call(call_jaxpr, *args)


def _abstract_eval(*avals: Any, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int) -> list[Any]:
    residuals, xs = split(avals, num_res)
    outs = list(call_jaxpr.out_avals)
    check_types("arguments of the function", avals, call_jaxpr.in_avals)
    check_types("arguments of the transpose", [*residuals, *outs], transpose_jaxpr.in_avals)
    check_types("results of the transpose", xs, transpose_jaxpr.out_avals)
    return outs


linear_map_p = primitive("linear_map", _abstract_eval, _evaluate)


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
    given = call(transpose_jaxpr, *residuals, *cotangents)
    linear = [ad.is_undefined_primal(x) for x in xs]
    return [None] * num_res + [ct if lin else None for ct, lin in zip(given, linear, strict=True)]


ad.primitive_transposes[linear_map_p] = _transpose


def _batch(
    axis: Any, args: Any, dims: Any, *, call_jaxpr: Any, transpose_jaxpr: Any, num_res: int
) -> tuple[list[Any], list[int]]:
    """Both functions batched; the residuals that are not stay so, all else is."""
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

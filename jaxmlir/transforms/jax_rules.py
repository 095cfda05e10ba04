"""Applies JAX's rules to one equation: jaxprs, from a closed jaxpr of that equation alone."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxmlir import _compat
from jaxmlir._compat import (
    ad,
    ad_util,
    batching,
    cells_of,
    close_jaxpr,
    core,
    debug_info,
    dtypes,
    flatten_primals,
    is_made_by,
    linearity,
    mlir,
    open_jaxpr,
    pe,
    source_info_util,
    transposes_linearized,
)
from jaxmlir.dialect.codec.pytrees import BoolNode
from jaxmlir.dialect.custom_rule_ops import HIGH_LEVEL
from jaxmlir.dialect.types import linear_aval
from jaxmlir.support.masks import Dims, Mask, chosen, filled, inverted, left_out, split


def jvp(closed: Any, active: Mask) -> tuple[Any, Mask]:
    """The jaxpr ``(*operands, *tangents of active ones) -> (*results, *tangents)`` of an equation,
    and which results have tangents."""
    if parts := _linear_in(closed, active):
        return _jvp_of_linear(closed, active, parts)
    differentiated, active_out = ad.jvp_jaxpr(closed, active, instantiate=False)
    jaxpr, consts = open_jaxpr(differentiated)
    jaxpr, active_out = _without_trivial(jaxpr, active_out)
    results = len(active_out)
    _check_types(closed, [v.aval for v in jaxpr.outvars[:results]])
    _check_tangents(closed, jaxpr.outvars[results:], active_out)
    return close_jaxpr(jaxpr, consts), active_out


def batch(closed: Any, dims: Dims, axis: Any) -> tuple[Any, Any]:
    """The jaxpr of an equation on operands batched along ``dims``, and the results' dimensions."""
    if _exchanges_the_same(closed, dims, axis):
        # JAX's rule would give a batch of batches, so the operand is broadcast first.
        inner, out_dims = batch(closed, (0,), axis)
        batched = trace_flat(
            lambda x: core.jaxpr_as_fun(inner)(jax.lax.broadcast(x, (axis.size,))),
            closed.in_avals,
            "batch",
        )
        return batched, out_dims
    batched, out_dims = batching.batch_jaxpr2(closed, axis, dims)
    pairs = zip(open_jaxpr(batched)[0].outvars, out_dims, strict=True)
    _check_types(closed, [_without_dim(v.aval, dim) for v, dim in pairs])
    return batched, out_dims


def bound(axis: Any) -> contextlib.AbstractContextManager[None]:
    """Binds the name of a batch's axis, if it has one, for the rules that are traced."""
    named = [] if axis.name is core.no_axis_name else [(axis.name, axis.size)]
    return core.extend_axis_env_nd(named)


def _exchanges_the_same(closed: Any, dims: Dims, axis: Any) -> bool:
    """Whether an equation is an ``all_to_all`` along the axis, of an operand that is unbatched."""
    (eqn,) = open_jaxpr(closed)[0].eqns
    if eqn.primitive.name != "all_to_all" or dims != (None,):
        return False
    names = eqn.params["axis_name"]
    return axis.name in (names if isinstance(names, (tuple, list)) else (names,))


def linearize(closed: Any, active: Mask, reverse: bool) -> tuple[Any, Any, Mask]:
    """Linearizes one equation: a jaxpr from operands to results and residuals, a jaxpr from
    residuals and tangents to tangents, and which results have tangents."""
    if parts := _linear_in(closed, active):
        return _halves_of_linear(closed, active, parts)
    (eqn,) = open_jaxpr(closed)[0].eqns
    traced: dict[str, Any] = {}
    plain = _has_plain_jvp(eqn)
    # With such a backward rule JAX transposes all of the tangent's ops; our rules cover more.
    reverse = reverse and not transposes_linearized(eqn)

    def primal(*args: Any) -> list[Any]:
        out, residuals, traced["tangent"], traced["active"] = (
            split_jvp(closed, args, active) if plain else _split(closed, args, active, reverse)
        )
        return [*out, *residuals]

    jaxpr = trace_flat(primal, closed.in_avals, "linearize")
    tangent, active_out = _without_trivial(traced["tangent"], traced["active"])
    _check_types(closed, [v.aval for v in open_jaxpr(jaxpr)[0].outvars[: len(active_out)]])
    _check_tangents(closed, tangent.outvars, active_out)
    return jaxpr, close_jaxpr(tangent), active_out


def _linear_in(closed: Any, active: Mask) -> list[Sequence[int]]:
    """The sets of active operands that each give one term of the results' tangents: the equation
    itself, on the tangents of these operands and the values of the others.  Empty unless JAX made
    the JVP rule from the primitive's linearity.  With such sets nothing needs to be traced."""
    (eqn,) = open_jaxpr(closed)[0].eqns
    operands = [i for i, a in enumerate(active) if a]
    kind = linearity(eqn.primitive)
    variables = (*chosen(eqn.invars, active), *eqn.outvars)
    if (
        kind is None
        or (kind == "linear" and not all(active))
        or not _has_plain_jvp(eqn)
        or any(v.aval.weak_type or v.aval.to_tangent_aval() != v.aval for v in variables)
    ):
        return []
    return [operands] if kind == "linear" else [[i] for i in operands]


def _tangent_eqns(eqn: Any, tangents: dict[int, Any], parts: list[Sequence[int]]) -> list[Any]:
    """The equations that compute the tangents of an equation's results; the last one gives them."""
    eqns = []
    for part in parts:
        invars = [tangents[i] if i in part else v for i, v in enumerate(eqn.invars)]
        eqns.append(eqn.replace(invars=invars, outvars=[core.Var(v.aval) for v in eqn.outvars]))
    if len(parts) == 2:
        terms = [e.outvars[0] for e in eqns]
        total = core.Var(terms[0].aval)
        about = core.no_effects, eqn.source_info, eqn.ctx
        eqns.append(core.new_jaxpr_eqn(terms, [total], ad_util.add_any_p, {}, *about))
    return eqns


def _jvp_of_linear(closed: Any, active: Mask, parts: list[Sequence[int]]) -> tuple[Any, Mask]:
    (eqn,) = open_jaxpr(closed)[0].eqns
    tangents = {i: core.Var(eqn.invars[i].aval) for i, a in enumerate(active) if a}
    eqns = _tangent_eqns(eqn, tangents, parts)
    results = eqns[-1].outvars
    jaxpr = _jaxpr([*eqn.invars, *tangents.values()], [*eqn.outvars, *results], [eqn, *eqns])
    return jaxpr, (True,) * len(results)


def _halves_of_linear(
    closed: Any, active: Mask, parts: list[Sequence[int]]
) -> tuple[Any, Any, Mask]:
    (eqn,) = open_jaxpr(closed)[0].eqns
    fixed = [v for part in parts for i, v in enumerate(eqn.invars) if i not in part]
    tangents = {i: core.Var(eqn.invars[i].aval) for i, a in enumerate(active) if a}
    eqns = _tangent_eqns(eqn, tangents, parts)
    primal = _jaxpr(eqn.invars, [*eqn.outvars, *fixed], [eqn])
    tangent = _jaxpr([*fixed, *tangents.values()], eqns[-1].outvars, eqns)
    return primal, tangent, (True,) * len(eqn.outvars)


def _jaxpr(invars: Sequence[Any], outvars: Sequence[Any], eqns: Sequence[Any]) -> Any:
    """A closed jaxpr without effects."""
    info = debug_info("jit", eqns[0].primitive.name, len(invars), len(outvars))
    return close_jaxpr(core.Jaxpr([], [*invars], [*outvars], [*eqns], core.no_effects, info))


def _without_trivial(jaxpr: Any, active: Sequence[bool]) -> tuple[Any, Mask]:
    """A jaxpr that gives tangents of active results last, without the trivial ones: for an integer,
    a rule may give a ``float0`` array where JAX's own give a symbolic zero."""
    start = len(jaxpr.outvars) - sum(active)
    nontrivial = [getattr(v.aval, "dtype", None) != dtypes.float0 for v in jaxpr.outvars[start:]]
    if all(nontrivial):
        return jaxpr, tuple(active)
    jaxpr, _ = pe.dce_jaxpr(jaxpr, [True] * start + nontrivial, True)
    rest = iter(nontrivial)
    return jaxpr, tuple(a and next(rest) for a in active)


def _check_types(closed: Any, avals: Sequence[Any]) -> None:
    """Fails if a rule gives values of other types than the results of an equation have.  JAX trusts
    all rules; the error would appear in the ops that use the values."""
    _check_avals("value", [v.aval for v in open_jaxpr(closed)[0].outvars], avals)


def _check_tangents(closed: Any, tangents: Sequence[Any], active: Sequence[bool]) -> None:
    """Checks the types of the tangents of the active results."""
    results = chosen(open_jaxpr(closed)[0].outvars, active)
    expected = [v.aval.to_tangent_aval() for v in results]
    _check_avals("tangent", expected, [v.aval for v in tangents])


def _check_avals(what: str, wanted: Sequence[Any], got: Sequence[Any]) -> None:
    for want, have in zip(wanted, got, strict=True):
        arrays = isinstance(want, core.ShapedArray) and isinstance(have, core.ShapedArray)
        if arrays and (want.shape, want.dtype) != (have.shape, have.dtype):
            raise TypeError(
                f"its rule gives a {what} of type {have.str_short(short_dtypes=True)}, expected "
                f"{want.str_short(short_dtypes=True)}"
            )


def _without_dim(aval: Any, dim: Any) -> Any:
    """The type of the elements that are stacked along a dimension."""
    if isinstance(aval, core.ShapedArray) and isinstance(dim, int):
        return core.ShapedArray((*aval.shape[:dim], *aval.shape[dim + 1 :]), aval.dtype)
    return aval


_JaxLinearization = tuple[Sequence[Any], Sequence[Any], Any, Mask]
"""Values, residuals, the jaxpr from residuals and tangents to tangents, and the active results."""


def _split(closed: Any, args: Sequence[Any], active: Mask, reverse: bool) -> _JaxLinearization:
    """JAX's linearization."""
    function = core.jaxpr_as_fun(closed)

    def of_active(*xs: Any) -> list[Any]:
        return function(*filled(xs, active, args))

    primals = flatten_primals(chosen(args, active))
    out, out_zeros, jaxpr, consts, *structured = ad.linearize(of_active, primals, is_vjp=reverse)
    jaxpr = pe.convert_constvars_jaxpr(jaxpr)
    # Since JAX 0.11.1: residuals that a rule gives as a pytree, which the jaxpr takes at the end.
    more = jax.tree.leaves(structured)
    if more:
        cut, end = len(consts), len(jaxpr.invars) - len(more)
        invars = [*jaxpr.invars[:cut], *jaxpr.invars[end:], *jaxpr.invars[cut:end]]
        jaxpr = jaxpr.replace(invars=invars)
    active_out = inverted(out_zeros)
    return out, *_with_flags([*consts, *more], jaxpr), active_out


def _with_flags(residuals: Sequence[Any], jaxpr: Any) -> tuple[Sequence[Any], Any]:
    """Removes from the residuals the booleans whose values a high-level primitive's rule knows,
    such as whether a tangent is zero.  The other half of the rule branches on them in Python, so
    they become part of the residuals' tree."""
    if not any(eqn.primitive.name == _OTHER_HALF for eqn in jaxpr.eqns):
        return residuals, jaxpr
    by_invar = dict(zip(jaxpr.invars, residuals, strict=False))
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == _OTHER_HALF:
            tree = eqn.params["residuals_tree"]
            values, tangents = eqn.invars[: tree.num_leaves], eqn.invars[tree.num_leaves :]
            flags = [_flag(v.val if type(v) is core.Literal else by_invar.get(v)) for v in values]
            leaves = [0 if flag is None else flag for flag in flags]
            flagged = jax.tree.structure(jax.tree.unflatten(tree, leaves))
            kept = chosen(values, [flag is None for flag in flags])
            params = {**eqn.params, "residuals_tree": flagged}
            eqn = eqn.replace(invars=[*kept, *tangents], params=params)
        eqns.append(eqn)
    cut = len(residuals)
    kept = [False] * cut + [True] * (len(jaxpr.invars) - cut)
    jaxpr, used = pe.dce_jaxpr(jaxpr.replace(eqns=eqns), [True] * len(jaxpr.outvars), kept)
    return chosen(residuals, used[:cut]), jaxpr


_OTHER_HALF = "call_hi_primitive_linearized"


def _flag(value: Any) -> BoolNode | None:
    """The value of a boolean that is known; ``None`` for anything else."""
    is_known = isinstance(value, (bool, np.bool_, np.ndarray))
    return (
        BoolNode(bool(value)) if is_known and core.typeof(value).str_short() == "bool[]" else None
    )


def _has_plain_jvp(eqn: Any) -> bool:
    """Whether an equation's only derivative rule is a JVP rule that binds plain arrays."""
    primitive = eqn.primitive
    return (
        primitive in ad.primitive_jvps
        and primitive not in ad.primitive_linearizations
        and not eqn.effects
        and not any(core.jaxprs_in_params(eqn.params))
        and all(type(v.aval) is core.ShapedArray for v in (*eqn.invars, *eqn.outvars))
    )


def split_jvp(closed: Any, args: Sequence[Any], active: Mask) -> _JaxLinearization:
    """Linearizes a primitive that has only a JVP rule, at half of JAX's cost.  The rule runs once,
    under a trace that computes what is known and records the ops that depend on tangents.  JAX does
    so as well, but then traces the recorded ops a second time."""
    (eqn,) = open_jaxpr(closed)[0].eqns
    with core.take_current_trace() as parent:
        nameless = source_info_util.new_name_stack()
        trace = pe.JaxprTrace(parent, nameless, core.TraceTag())
        avals = [v.aval.to_tangent_aval() for v in eqn.invars]
        tangents = [
            trace.new_arg(pe.PartialVal.unknown(aval)) if a else ad_util.Zero(aval)
            for aval, a in zip(avals, active, strict=True)
        ]
        traceback = eqn.source_info.traceback
        with (
            core.set_current_trace(trace),
            source_info_util.user_context(traceback, name_stack=nameless),
            eqn.ctx.manager,
        ):
            rule = ad.primitive_jvps[eqn.primitive]
            out, out_tangents = rule(tuple(args), tuple(tangents), **eqn.params)
        if not eqn.primitive.multiple_results:
            out, out_tangents = [out], [out_tangents]
        out = [trace.to_jaxpr_tracer(x).pval.get_known() for x in out]
        out_tracers = [
            None if type(t) is ad_util.Zero else trace.to_jaxpr_tracer(t) for t in out_tangents
        ]
        out_tracers = [None if t is None or t.is_known() else t for t in out_tracers]
        info = debug_info("linearize", eqn.primitive.name, sum(active), len(out_tracers))
        about = trace.effect_handles, info.with_unknown_names()
        outs = [t for t in out_tracers if t is not None]
        jaxpr, consts, _ = pe.tracers_to_jaxpr(chosen(tangents, active), outs, *about)
    jaxpr = pe.convert_constvars_jaxpr(jaxpr)
    instantiate = [False] * len(consts) + [True] * sum(active)
    jaxpr, used = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate)
    residuals = chosen(consts, used[: len(consts)])
    return out, residuals, jaxpr, tuple(t is not None for t in out_tracers)


def transpose(closed: Any, linear: Mask, nonzero: Mask) -> tuple[Any, Mask]:
    """The transpose of a jaxpr in some operands, given which cotangents are nonzero."""
    jaxpr, consts = open_jaxpr(closed)
    # JAX's rules, of a scan for example, expect that results without cotangents are gone.
    jaxpr, _ = pe.dce_jaxpr(jaxpr, list(nonzero), True)
    ct_avals = [linear_aval(v.aval) for v in jaxpr.outvars]
    traced: dict[str, Any] = {}

    def transposed(*args: Any) -> list[Any]:
        fixed, cotangents = split(args, linear.count(False))
        undefined = [ad.UndefinedPrimal(linear_aval(v.aval)) for v in jaxpr.invars]
        primals = filled(fixed, inverted(linear), undefined)
        outs = chosen(ad.backward_pass(jaxpr, False, consts, primals, cotangents), linear)
        traced["nonzero"] = tuple(type(ct) is not ad_util.Zero for ct in outs)
        return [ct for ct in outs if type(ct) is not ad_util.Zero]

    in_avals = [*(v.aval for v in left_out(jaxpr.invars, linear)), *ct_avals]
    return trace_flat(transposed, in_avals, "transpose"), traced["nonzero"]


def trace_flat(function: Callable[..., list[Any]], avals: Sequence[Any], name: str) -> Any:
    """The closed jaxpr of a function of flat arguments."""
    info = debug_info(name, name, len(avals), 0)
    return close_jaxpr(*_compat.trace_flat(function, avals, info))


# --- implementations ------------------------------------------------------------------------------


def lowered_function(primitive: Any) -> tuple[Callable[..., Any], bool] | None:
    """The JAX function that a primitive is lowered by, and whether it returns a list."""
    rule = getattr(mlir._lowerings.get(primitive), "rule", None)
    if isinstance(rule, types.FunctionType) and is_made_by(rule, mlir.__name__, ("lower_fun",)):
        cells = cells_of(rule)
        return cells["fun"].cell_contents, cells["multiple_results"].cell_contents
    return None


def implementation(eqn: Any) -> Callable[..., list[Any]]:
    """The computation of an equation, as a function of its operands."""
    primitive, params = eqn.primitive, eqn.params
    if primitive.name in HIGH_LEVEL:
        return lambda *operands: list(primitive.to_lojax(*operands, **params))
    default = primitive.impl, primitive.multiple_results
    function, several = lowered_function(primitive) or default

    def implementation(*operands: Any) -> list[Any]:
        results = function(*operands, **params)
        results = list(results) if several else [results]
        return list(map(_as_type, results, [v.aval for v in eqn.outvars]))

    return implementation


def _as_type(value: Any, aval: Any) -> Any:
    """A result, converted to the type that the primitive's abstract evaluation gives."""
    have = core.typeof(value)
    if (have.dtype, have.weak_type) == (aval.dtype, aval.weak_type):
        return value
    return jax.lax.convert_element_type_p.bind(
        value, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )

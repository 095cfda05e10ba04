"""Custom derivative rules in JAX's other form: methods of a high-level primitive.

Under ``jax_custom_vjp3`` and ``jax_custom_jvp3``, a call of a function with a custom rule is a
``call_hi_primitive`` of an object that has the function and its rules, in place of a
``custom_vjp_call`` or ``custom_jvp_call``.  Its derivative is the object's
``call_hi_primitive_linearized``, in place of a ``custom_lin``.  :func:`ordinary` converts these
equations to those that JAX makes without the flags, so all other code knows only one form.

A rule is a method that takes and returns pytrees, and internal zeros:

============================  ==================================================================
``vjp_fwd(nonzero, *args)``   results and residuals
``vjp_bwd(res, ct, *sums)``   adds the cotangents of arguments to what is given for each
``jvp(primals, tangents)``    results and tangents
============================  ==================================================================

The first operands are those that the function closes over.  Some that only the forward rule takes
may follow (values that JAX has saved for a rematerialised one).  Neither have cotangents.

``generic_batching`` and rules for ``jax.remat`` define JAX's transformations of the call: an
equation with these is not converted (:func:`unmatched`).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxmlir import _compat
from jaxmlir._compat import (
    ad,
    ad_util,
    api_util,
    bind_leading,
    close_jaxpr,
    constvars_as_arguments,
    core,
    custom_derivatives,
    dtypes,
    hijax,
    lu,
    open_jaxpr,
    pe,
    rebound,
    trace_flat,
    tree_util,
    wrap_bwd,
)
from jaxmlir.errors import JaxmlirError
from jaxmlir.support.masks import filled, inverted, left_out

# The parameters of primitives with custom rules that a program can represent, and those that it can
# ignore: `bwd_accums`, i.e. how a backward rule returns cotangents, and `with_logs`.
_MATCHED = frozenset(
    "traced fwd bwd jvp_fun jvp_rule symbolic_zeros static_argnums opt_remat bwd_accums "
    "with_logs".split()
)


def _classes(*names: str) -> tuple[type, ...]:
    """The classes of these names, as far as the installed JAX has them."""
    classes = (getattr(hijax, name, None) for name in names)
    return tuple(cls for cls in classes if cls is not None)


_VJP = _classes("CustomVJPTraced")
_JVP = _classes("CustomJVPTraced")
_BATCHED = _classes("VmapOf")
_REMAT = _classes("OptRemat")
OBJECTS = (*_VJP, *_JVP, *_BATCHED)
"""The classes of primitives that have, or may have, custom rules."""

FUNCTIONS = _classes("custom_vjp3", "custom_jvp3")
"""The classes of functions with custom rules."""

STATIC = _classes("Static")
"""The class of arguments that are not arrays."""


def ordinary(eqn: Any) -> Any:
    """The equation that JAX makes without the flags, or ``eqn`` itself if there is none."""
    prim = eqn.params["_prim"]
    if isinstance(prim, _REMAT):
        return _optimized_remat(eqn, prim)
    owner = _owner(prim)
    if not isinstance(owner, _VJP + _JVP) or unmatched(prim):
        return eqn
    # Before JAX 0.11 neither the equation nor its enclosing ones have the function's effects.
    if owner.traced.jaxpr.effects and not eqn.effects:
        return eqn
    with _compat.in_context(eqn.ctx):
        if eqn.primitive.name == "call_hi_primitive_linearized":
            return eqn if eqn.params.get("has_sres") else _custom_lin(eqn, prim)
        return (_custom_vjp if isinstance(owner, _VJP) else _custom_jvp)(eqn, prim)


def unmatched(prim: Any) -> list[str]:
    """The options of a primitive with custom rules that no op can represent."""
    owner = _owner(prim)
    params = owner.params if isinstance(owner, _VJP + _JVP) else {}
    return [name for name, value in params.items() if value and name not in _MATCHED]


def _owner(prim: Any) -> Any:
    """The primitive that has the rules; for a batched one, the primitive that was batched."""
    while isinstance(prim, _BATCHED):
        prim = prim.prim
    return prim


def _custom_vjp(eqn: Any, prim: Any) -> Any:
    owner, n = _owner(prim), _num_consts(prim)
    traced = lu.Store()
    called = _called(eqn, prim)
    optimized = getattr(owner, "opt_remat", False) and not owner.symbolic_zeros and not n
    remat = CalledFunction(called) if optimized else None

    def out_trees() -> tuple[Any, Any, list[int | None]]:
        res_tree, forwarded = traced.val
        # JAX also counts the operands in front, which the function closes over.
        return prim.out_tree, res_tree, [i if i is None else n + i for i in forwarded]

    forward, backward = HijaxRule(prim, owner.fwd), HijaxRule(prim, owner.bwd)
    fwd = _forward(forward, [v.aval for v in eqn.invars], n, traced, remat)
    bwd = _backward(backward, n, traced)
    params = {
        "call_jaxpr": called,
        "fwd_jaxpr_thunk": lu.wrap_init(fwd, debug_info=forward.info("custom_vjp fwd")),
        "bwd": wrap_bwd(bwd, backward.info("custom_vjp bwd")),
        "num_consts": n,
        "out_trees": out_trees,
        "symbolic_zeros": bool(owner.symbolic_zeros),
    }
    return eqn.replace(primitive=custom_derivatives.custom_vjp_call_p, params=params)


def _custom_jvp(eqn: Any, prim: Any) -> Any:
    owner, n = _owner(prim), _num_consts(prim)
    rule = HijaxRule(prim, owner.params["jvp_rule" if "jvp_rule" in owner.params else "jvp_fun"])
    thunk = _jvp(rule, [v.aval for v in eqn.invars], n)
    params = {
        "call_jaxpr": _called(eqn, prim),
        "jvp_jaxpr_fun": lu.wrap_init(thunk, debug_info=rule.info("custom_jvp jvp")),
        "num_consts": n,
        "symbolic_zeros": bool(owner.symbolic_zeros),
    }
    return eqn.replace(primitive=custom_derivatives.custom_jvp_call_p, params=params)


def _custom_lin(eqn: Any, prim: Any) -> Any:
    params, owner = eqn.params, _owner(prim)
    tree = params["residuals_tree"]
    nonzero = params.get("nz_out_flat", (True,) * len(prim.out_avals_flat))
    out_avals = [aval.to_ct_aval() for aval in prim.out_avals_flat]
    rule = HijaxRule(prim, owner.bwd if isinstance(owner, _VJP) else owner.jvp)

    def bwd(*args: Any) -> list[Any]:
        cotangents = filled(args[tree.num_leaves :], nonzero, map(ad_util.Zero, out_avals))
        residuals = tree_util.tree_unflatten(tree, args[: tree.num_leaves])
        return cotangents_of(rule.prim, [residuals], cotangents)

    params = {
        "num_res": tree.num_leaves,
        "bwd": wrap_bwd(bwd, rule.info("custom_vjp bwd")),
        "out_avals": [v.aval for v in eqn.outvars],
        "symbolic_zeros": bool(owner.symbolic_zeros),
        "in_zeros": list(inverted(params["nz_in_flat"])),
    }
    return eqn.replace(primitive=ad.custom_lin_p, params=params)


def _optimized_remat(eqn: Any, prim: Any) -> Any:
    """Converts a forward rule that is replaced by the function where no residual is used.  The
    equation that JAX makes without the flag has the residuals as its first results."""
    count = len(prim.orig.out_avals_flat)
    fwd, consts = open_jaxpr(prim.traced_fwd.jaxpr)
    # Operands are missing if a constant was a tracer; such a rule is not converted.
    if len(fwd.invars) != len(eqn.invars):
        return eqn
    results = [*fwd.outvars[count:], *fwd.outvars[:count]]
    with _compat.in_context(eqn.ctx):
        called = _called(eqn, prim.orig)
    fwd = core.Jaxpr(
        fwd.constvars,
        fwd.invars,
        results,
        fwd.eqns,
        fwd.effects,
        _compat.debug_info("jit", fwd.debug_info.func_name, len(fwd.invars), len(results)),
    )
    params = _remat_params(close_jaxpr(fwd, consts), 0, len(results) - count, called)
    outvars = [*eqn.outvars[count:], *eqn.outvars[:count]]
    remat_opt = custom_derivatives.remat_opt_p
    return eqn.replace(primitive=remat_opt, params=params, outvars=outvars)


def _remat_params(fwd: Any, num_consts: int, num_res: int, called: Any) -> dict[str, Any]:
    return {
        "num_consts": num_consts,
        "num_res": num_res,
        "fwd_jaxpr": fwd,
        "fun_jaxpr_thunk": lambda: open_jaxpr(called),
    }


# --- the function -------------------------------------------------------------------------------


def _called(eqn: Any, prim: Any) -> Any:
    """The jaxpr of the function, with all operands as arguments."""
    owner = _owner(prim)
    if prim is not owner:
        return _expanded(prim, [v.aval for v in eqn.invars], owner.traced.jaxpr.debug_info)
    if not hasattr(prim, "drop_fwd_consts"):
        return prim.traced.jaxpr
    closed_over, others = map(_leaves, prim.in_avals[:2])
    if not others:
        return prim.traced.jaxpr
    jaxpr, consts = open_jaxpr(prim.traced.jaxpr)
    n = len(closed_over)
    invars = [*jaxpr.invars[:n], *map(core.Var, others), *jaxpr.invars[n:]]
    return close_jaxpr(rebound(jaxpr, list(jaxpr.constvars), invars), consts)


def _expanded(prim: Any, avals: Sequence[Any], info: core.DebugInfo) -> Any:
    def flat(*leaves: Any) -> list[Any]:
        return prim.out_tree.flatten_up_to(prim.expand(*args_of(prim, leaves)))

    return close_jaxpr(*trace_flat(flat, avals, info))


def _num_consts(prim: Any) -> int:
    """How many of the first operands are values that the function closes over."""
    owner = _owner(prim)
    # Before JAX 0.12 a custom_jvp function may not close over values of a trace.
    takes = hasattr(owner, "drop_fwd_consts") or "jvp_rule" in owner.params
    return len(_leaves(owner.in_avals[0])) if takes else 0


# --- rules --------------------------------------------------------------------------------------


class HijaxRule:
    """One of the rules of a primitive: the user's function, or a wrapper of JAX's around it."""

    def __init__(self, prim: Any, function: Any):
        self.prim = prim
        self.function = function

    def info(self, kind: str) -> core.DebugInfo:
        """Debug information of the user's function."""
        source = api_util.fun_sourceinfo(_users(self.function))
        return core.DebugInfo(kind, source, None, None)

    @property
    def parts(self) -> tuple[Any, ...]:
        """Objects that may close over values: the function, and arguments that are not arrays."""
        return self.function, self.prim.in_avals


class CalledFunction:
    """A function that a rule calls.  Its equations identify it: each call has its own jaxpr."""

    def __init__(self, jaxpr: Any):
        self.jaxpr = jaxpr

    @property
    def parts(self) -> tuple[Any, ...]:
        jaxpr, consts = open_jaxpr(self.jaxpr)
        return str(jaxpr), consts


def _forward(
    rule: HijaxRule, avals: Sequence[Any], n: int, traced: lu.Store, remat: CalledFunction | None
) -> Callable[..., tuple[Any, Sequence[Any]]]:
    """A function that traces a forward rule, given which operands have tangents.

    Args:
      avals: the types of the operands.
      n: how many of the first operands the function closes over; these have no tangents.
      traced: receives the pytree of the residuals, and for each residual the index of the operand
        that it is, or ``None``.
      remat: the function to call instead where no residual is used.
    """

    def fwd(*nonzeros: bool) -> tuple[Any, Sequence[Any]]:
        prim = rule.prim
        traced.reset()

        def flat(*leaves: Any) -> list[Any]:
            nonzero = args_of(prim, [*[False] * n, *nonzeros])
            # Before JAX 0.12 the rule also returns that all results have tangents.
            out, res, *_ = prim.vjp_fwd(nonzero, *args_of(prim, leaves))
            residuals, res_tree = tree_util.tree_flatten(res)
            operands = {id(leaf): i for i, leaf in enumerate(leaves[n:])}
            forwarded = [operands.get(id(residual)) for residual in residuals]
            traced.store((res_tree, forwarded))
            unforwarded = [r for r, i in zip(residuals, forwarded, strict=True) if i is None]
            return [*unforwarded, *prim.out_tree.flatten_up_to(out)]

        info = rule.info("custom_vjp fwd")
        jaxpr, consts = _without_leading(*trace_flat(flat, avals, info), n)
        if remat is None:
            return jaxpr, consts
        num_res = len(jaxpr.outvars) - len(prim.out_avals_flat)
        params = _remat_params(
            close_jaxpr(constvars_as_arguments(jaxpr)), len(consts), num_res, remat.jaxpr
        )
        bind = custom_derivatives.remat_opt_p.bind
        return trace_flat(lambda *leaves: bind(*consts, *leaves, **params), avals, info)

    return fwd


def _backward(rule: HijaxRule, n: int, traced: lu.Store) -> Callable[..., list[Any]]:
    """The backward rule for the residuals that :func:`_forward` described in ``traced`` last.  It
    gives no cotangents of the first ``n`` operands, which the function closes over."""

    def bwd(*args: Any) -> list[Any]:
        tree, _ = traced.val
        residuals = tree_util.tree_unflatten(tree, args[: tree.num_leaves])
        return cotangents_of(rule.prim, [residuals], args[tree.num_leaves :])[n:]

    return bwd


def cotangents_of(prim: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents that the backward rule of a primitive gives for all operands; the residuals of
    its forward rule are in one or several pytrees."""
    converted = [
        ad_util.Zero(ct.aval) if type(ct) is ad_util.SymbolicZero else ct for ct in cotangents
    ]
    sums = [CotangentSum(_ct_aval(aval)) for aval in prim.in_avals_flat]
    prim.vjp_bwd(
        *residuals, tree_util.tree_unflatten(prim.out_tree, converted), *args_of(prim, sums)
    )
    return [
        ad_util.Zero(s.aval) if getattr(s.aval, "dtype", None) == dtypes.float0 else s.freeze()
        for s in sums
    ]


class CotangentSum(ad.ValAccum):
    """The sum of an operand's cotangents.  It skips zeros, which may have a reference's type."""

    def accum(self, x: Any) -> None:
        if type(x) is not ad_util.Zero:
            super().accum(x)


def _ct_aval(aval: Any) -> Any:
    """The type of an operand's cotangent; for a reference, that of its value's cotangent."""
    return getattr(aval, "inner_aval", aval).to_ct_aval()


def _jvp(
    rule: HijaxRule, avals: Sequence[Any], n: int
) -> Callable[..., tuple[Any, Sequence[Any], list[bool]]]:
    """A function that traces a JVP rule for operands of types ``avals``, given which tangents are
    zero.  The first ``n`` operands are values that the function closes over; they have none."""

    def jvp(*in_zeros: bool) -> tuple[Any, Sequence[Any], list[bool]]:
        prim = rule.prim
        out_zeros: list[bool] = []
        tangents = [aval.to_tangent_aval() for aval in avals]
        all_zeros = [True] * n + list(in_zeros)

        def flat(*values: Any) -> list[Any]:
            zeros = map(ad_util.Zero, tangents)
            in_tangents = filled(values[len(avals) :], inverted(all_zeros), zeros)
            out, out_tangents = prim.jvp(
                args_of(prim, values[: len(avals)]), args_of(prim, in_tangents)
            )
            leaves = prim.out_tree.flatten_up_to(out_tangents)
            zero_types = ad_util.Zero, ad_util.SymbolicZero
            out_zeros[:] = [isinstance(t, zero_types) for t in leaves]
            return [*prim.out_tree.flatten_up_to(out), *left_out(leaves, out_zeros)]

        taken = left_out(tangents, all_zeros)
        traced = trace_flat(flat, [*avals, *taken], rule.info("custom_jvp jvp"))
        jaxpr, consts = _without_leading(*traced, n)
        return jaxpr, consts, out_zeros

    return jvp


def args_of(prim: Any, leaves: Sequence[Any]) -> Any:
    """One leaf for each operand, arranged as the arguments of the function."""
    return tree_util.tree_unflatten(prim.in_tree, leaves)


def _leaves(avals: Any) -> list[Any]:
    return tree_util.tracing_registry.flatten(avals)[0]


def _without_leading(jaxpr: Any, consts: list[Any], n: int) -> tuple[Any, list[Any]]:
    """A rule's jaxpr without the first ``n`` operands, which it is not given and must not use."""
    if not n:
        return jaxpr, consts
    jaxpr, m = constvars_as_arguments(jaxpr), len(consts)
    instantiate = [True] * m + [False] * n + [True] * (len(jaxpr.invars) - m - n)
    jaxpr, used = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate)
    if any(used[m : m + n]):
        raise JaxmlirError(
            "it uses a value that the function closes over; pass the value as an argument"
        )
    return open_jaxpr(bind_leading(close_jaxpr(jaxpr), consts))


# The names of a user's rule in the closures of JAX's wrappers around it.
_RULE_CELLS = ("fwd", "bwd", "jvp_fun")


def _users(rule: Any) -> Any:
    """The user's rule inside JAX's wrappers, if ``rule`` is one of these."""
    while _is_of_hijax(rule):
        cells = _compat.cells_of(rule)
        inner = next((cells[name] for name in _RULE_CELLS if name in cells), None)
        if "__wrapped__" in rule.__dict__:
            rule = rule.__wrapped__
        elif inner is not None:
            rule = inner.cell_contents
        else:
            break
    return rule


def _is_of_hijax(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and function.__globals__ is vars(hijax)


# --- what tells rules apart ---------------------------------------------------------------------


def rule_parts(prim: Any) -> Iterator[Any]:
    """The parts of a primitive, except its function, that distinguish its rules from others."""
    arguments, tree = tree_util.tracing_registry.flatten(
        prim.in_avals, lambda leaf: isinstance(leaf, STATIC)
    )
    yield from (tree, arguments, prim.out_tree, prim.out_avals_flat)
    yield {name: value for name, value in prim.params.items() if name != "traced"}


# Variables in the closures of JAX's wrappers that describe the function and the pytree of its
# arguments.  The primitive identifies these already.
_TOLD = frozenset({"traced", "in_avals", "in_avals_", "in_tree"})


def telling_cells(function: types.FunctionType) -> Sequence[Any]:
    """The cells of a function that identify it; for a wrapper of JAX's around a rule, only some."""
    if not _is_of_hijax(function):
        return function.__closure__ or ()
    return [cell for name, cell in _compat.cells_of(function).items() if name not in _TOLD]


def function_parts(function: Any) -> tuple[Any, ...]:
    """A function with custom rules, and its rules."""
    names = ("f", "fwd", "bwd", "jvp_fun", "remat_rules")
    return tuple(getattr(function, name, None) for name in names)

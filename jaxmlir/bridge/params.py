"""Converts between an op's attributes and the parameters of the installed JAX's primitive.

The dialect's schema is stable: what JAX renamed or repacked is undone on import and redone on
export, so that a module written under one supported version reads under another.
``TO_DIALECT[primitive](params, eqn)`` returns new parameters, and
``FROM_DIALECT[primitive](params, op)`` may change those that it is given; primitives that need
neither are not listed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxmlir import _compat
from jaxmlir._compat import (
    OPEN_JAXPR_PARAMS,
    closed_and_open_differ,
    core,
    jax_version,
    mesh_lib,
    named_sharding,
    tree_util,
    without_consts,
)
from jaxmlir.dialect import codec, custom_rule_ops, ops, primitives
from jaxmlir.dialect.codec import pytrees
from jaxmlir.errors import ExportError

_NEW_INLINE = jax_version() >= (0, 11) and _compat.resolve("jax._src.api", "Inline") is not None
_PACKED_SCAN = _compat.resolve("jax._src.flattree", "pack") is not None

Params = dict[str, Any]


def _jit_to_dialect(params: Params, eqn: Any) -> Params:
    """``None`` is an unspecified sharding and an absent mesh; ``inline`` is what all versions have,
    or the name of a value that only newer versions of JAX know."""
    params = dict(params)
    for name in ("in_shardings", "out_shardings"):
        params[name] = tuple(None if s is named_sharding.UNSPECIFIED else s for s in params[name])
    if params["ctx_mesh"].empty:
        params["ctx_mesh"] = None
    if _NEW_INLINE:
        inline = params["inline"].name
        params["inline"] = {"JAX_LATE": True, "AUTO": False}.get(inline, inline)
    return params


def _jit_from_dialect(params: Params, op: Any) -> Params:
    for name in ("in_shardings", "out_shardings"):
        params[name] = tuple(named_sharding.UNSPECIFIED if s is None else s for s in params[name])
    if params["ctx_mesh"] is None:
        params["ctx_mesh"] = mesh_lib.empty_concrete_mesh
    params["inline"] = _inline_from_dialect(params["inline"])
    return params


def _inline_from_dialect(inline: Any) -> Any:
    if not _NEW_INLINE:
        # Other values tell XLA what to do with the function; only for true does JAX inline it.
        return inline is True
    kinds = _compat.resolve("jax._src.api", "Inline")
    if isinstance(inline, bool):
        return kinds.JAX_LATE if inline else kinds.AUTO
    if isinstance(inline, str) and inline in kinds.__members__:
        return kinds[inline]
    if isinstance(inline, kinds):
        return inline
    names = ", ".join(f'"{name}"' for name in kinds.__members__)
    raise ExportError(f"attribute 'inline': expected a bool or one of {names}, got {inline!r}")


def _scan_to_dialect(params: Params, eqn: Any) -> Params:
    """Two counts say how operands and results divide into constants, carry and slices."""
    params = dict(params)
    consts, carry, _ = params.pop("ft_in").unpack()
    params.pop("ft_out")
    return {**params, "num_consts": len(list(consts)), "num_carry": len(list(carry))}


def _scan_from_dialect(params: Params, op: Any) -> Params:
    pack = _compat.resolve("jax._src.flattree", "pack")
    nones = _compat.resolve("jax._src.flattree", "nones")
    consts, carry = params.pop("num_consts"), params.pop("num_carry")
    params["ft_in"] = pack((nones(consts), nones(carry), nones(len(op.operands) - consts - carry)))
    params["ft_out"] = pack((nones(carry), nones(len(op.results) - carry)))
    return params


def _metadata_to_dialect(params: Params, eqn: Any) -> Params:
    """What stands for XLA is one parameter, not keywords beside the function."""
    metadata = {key: value for key, value in params.items() if key != "jaxpr"}
    return {"jaxpr": params["jaxpr"], "xla_metadata": tuple(sorted(metadata.items()))}


def _metadata_from_dialect(params: Params, op: Any) -> Params:
    return {"jaxpr": params["jaxpr"], **dict(params["xla_metadata"])}


def _reduce_to_dialect(params: Params, eqn: Any) -> Params:
    """The computation is there twice, as a Python function and as a jaxpr."""
    return {name: value for name, value in params.items() if name != "computation"}


def _reduce_from_dialect(params: Params, op: Any) -> Params:
    return {**params, "computation": core.jaxpr_as_fun(params["jaxpr"])}


def _linear_call_to_dialect(params: Params, eqn: Any) -> Params:
    """The transpose is a thunk that traces it; its jaxpr can be written down."""
    params = dict(params)
    try:
        transpose, consts = params["transpose_thunk"]()
    except Exception:
        # JAX raises the error when somebody transposes the call.
        return params
    if not consts:
        params["transpose"] = transpose
        del params["transpose_thunk"]
    return params


def _linear_call_from_dialect(params: Params, op: Any) -> Params:
    if "transpose" in params:
        transpose = params.pop("transpose")
        params["transpose_thunk"] = lambda: (transpose, [])
    return params


def _remat_opt_to_dialect(params: Params, eqn: Any) -> Params:
    """The function that is to be called where no residual is used is a thunk that traces it."""
    try:
        jaxpr, consts = params["fun_jaxpr_thunk"]()
    except Exception:
        return params
    out_avals = [v.aval for v in jaxpr.outvars]
    results = [v.aval for v in eqn.outvars[params["num_res"] :]]
    # JAX's dead code elimination drops results of the op, but not of the function.
    fits = len(out_avals) == len(results) and all(map(core.typematch, out_avals, results))
    if not fits or any(isinstance(const, core.Tracer) for const in consts):
        return params
    params = {key: value for key, value in params.items() if key != "fun_jaxpr_thunk"}
    return {**params, "fun_jaxpr": _compat.close_jaxpr(jaxpr, consts)}


def _remat_opt_from_dialect(params: Params, op: Any) -> Params:
    if "fun_jaxpr" in params:
        opened = _compat.open_jaxpr(params.pop("fun_jaxpr"))
        params["fun_jaxpr_thunk"] = lambda: opened
    return params


def _custom_vmap_from_dialect(params: Params, op: Any) -> Params:
    """JAX refuses to make a tuple of trees of its registry for traces and of the other one."""
    values = pytrees.of_placeholders(params["in_tree"])
    return {**params, "in_tree": tree_util.tracing_registry.flatten(values)[1]}


def _run_scoped_to_dialect(params: Params, eqn: Any) -> Params:
    """What the jaxpr closes over is an operand, and so an argument before those of the scope."""
    return {**params, "jaxpr": _compat.constvars_as_arguments(params["jaxpr"])}


def _run_scoped_from_dialect(params: Params, op: Any) -> Params:
    return {**params, "jaxpr": _compat.arguments_as_constvars(params["jaxpr"], len(op.operands))}


TO_DIALECT: dict[str, Callable[[Params, Any], Params]] = {
    "jit": _jit_to_dialect,
    "linear_call": _linear_call_to_dialect,
    "reduce": _reduce_to_dialect,
    "remat_opt": _remat_opt_to_dialect,
    "run_scoped": _run_scoped_to_dialect,
}
FROM_DIALECT: dict[str, Callable[[Params, Any], Params]] = {
    "jit": _jit_from_dialect,
    "linear_call": _linear_call_from_dialect,
    "reduce": _reduce_from_dialect,
    "remat_opt": _remat_opt_from_dialect,
    "run_scoped": _run_scoped_from_dialect,
}
if _PACKED_SCAN:
    TO_DIALECT["scan"] = _scan_to_dialect
    FROM_DIALECT["scan"] = _scan_from_dialect
if jax_version() >= (0, 11, 2):
    FROM_DIALECT["custom_vmap_call"] = _custom_vmap_from_dialect
if jax_version() < (0, 11):
    TO_DIALECT["xla_metadata_call"] = _metadata_to_dialect
    FROM_DIALECT["xla_metadata_call"] = _metadata_from_dialect


_NO_DEFAULT = object()
# The default of a parameter that JAX itself leaves out, testing for its presence.
_ABSENT = object()


def of_op(op: Any, name: str, reader: codec.Reader) -> tuple[Any, Params]:
    """The primitive of an op called ``name``, and its parameters.

    Raises:
      ExportError: the installed JAX lacks the primitive or a parameter, or one cannot be read.
    """
    if name in custom_rule_ops.OPS:
        from jaxmlir.bridge.custom_rules import export

        return export.read(op, name, reader)
    attributes = op.attributes
    undecoded = {key: attributes[key] for key in attributes}
    foreign = undecoded.get("jaxpr.primitive")
    primitive = codec.decode(foreign) if foreign is not None else primitives.of_op(name)
    defaults = {} if foreign is not None else _defaults(name)
    params: Params = {}
    for key, (param, default, each) in defaults.items():
        attr = undecoded.pop(key, None)
        if attr is not None:
            params[param] = codec.decode(attr, reader)
        elif default is _ABSENT:
            continue
        elif default is not _NO_DEFAULT:
            count = {"": 0, "operands": len(op.operands), "results": len(op.results)}[each]
            params[param] = (default,) * count if each else default
        else:
            raise ExportError(f"'{name}' op requires attribute '{key}'")
    for key, attr in undecoded.items():
        if not key.startswith("jaxpr."):
            params[key] = codec.decode(attr, reader)
    rewrite = FROM_DIALECT.get(primitive.name)
    if rewrite is not None:
        params = rewrite(params, op)
    if closed_and_open_differ():
        for key in params:
            if (primitive.name, key) in OPEN_JAXPR_PARAMS and params[key] is not None:
                params[key] = without_consts(params[key])
    return primitive, params


@functools.cache
def _defaults(name: str) -> dict[str, tuple[str, Any, str]]:
    """For each attribute of an op's record: the installed JAX's name of the parameter, its default,
    and whether the default holds per operand or per result."""
    record = ops.record_of(name)
    defaults = {}
    for param, attr in (record.params(jax_version()) if record else {}).items():
        default = _NO_DEFAULT if attr.required else _ABSENT if attr.optional else attr.default
        defaults[attr.name] = (param, default, attr.each)
    return defaults

"""What the rules of this package share: tracing functions, and primitives of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxmlir._compat import ad, ad_util, close_jaxpr, core, debug_info, lu, mlir, pe


def traced(function: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str) -> Any:
    """The closed jaxpr of a function of flat arguments, without what no result needs."""
    info = debug_info(name, name, len(avals), 0)._replace(arg_names=None, result_paths=None)
    wrapped = lu.wrap_init(lambda *args: list(function(*args)), debug_info=info)
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(wrapped, list(avals))
    live, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return close_jaxpr(live, consts)


def name_of(jaxpr: Any) -> str:
    """What the function of a closed jaxpr was called."""
    info = jaxpr.debug_info if hasattr(jaxpr, "debug_info") else jaxpr.jaxpr.debug_info
    return info.func_name.split(" ")[0].strip("<>") or "function"


def call(jaxpr: Any, *args: Any) -> list[Any]:
    """A closed jaxpr, evaluated."""
    return core.jaxpr_as_fun(jaxpr)(*args)


def filled(given: Sequence[Any], which: Sequence[bool], others: Sequence[Any]) -> list[Any]:
    """``given`` where ``which``, and ``others`` where not."""
    it = iter(given)
    return [next(it) if w else o for w, o in zip(which, others, strict=True)]


def zeros(aval: Any) -> Any:
    """Zeros of the tangent type of an aval."""
    return ad_util.instantiate(ad_util.Zero(aval.to_tangent_aval()))


def has_tangent(tangent: Any) -> bool:
    return type(tangent) is not ad_util.Zero and core.typeof(tangent).dtype != jax.dtypes.float0


def spread(primals: Sequence[Any], active: Sequence[bool], tangents: Sequence[Any]) -> list[Any]:
    """A tangent, or a symbolic zero, for each of some primals."""
    none = [ad_util.Zero(core.typeof(x).to_tangent_aval()) for x in primals]
    return filled(tangents, active, none)


def check_types(what: str, expected: Sequence[Any], given: Sequence[Any]) -> None:
    """Compares the types of values with those that they must have, weak types aside.

    Raises:
      TypeError: there are more or fewer, or one has another type.
    """
    if len(expected) != len(given) or not all(map(core.typematch, expected, given)):
        have, want = (", ".join(a.str_short(True) for a in avals) for avals in (given, expected))
        raise TypeError(f"{what}: expected ({want}), got ({have})")


def primitive(name: str, abstract_eval: Callable[..., Any], evaluate: Callable[..., Any]) -> Any:
    """A primitive with several results that is lowered to what a JAX function does."""
    new = core.Primitive(name)
    new.multiple_results = True
    new.def_abstract_eval(abstract_eval)
    new.def_impl(lambda *args, **params: jax.jit(lambda *xs: new.bind(*xs, **params))(*args))
    mlir.register_lowering(new, mlir.lower_fun(evaluate, multiple_results=True))
    return new


def jvp_jaxpr(jaxpr: Any, active: Sequence[bool], keep: Sequence[bool]) -> tuple[Any, list[bool]]:
    """``(*args, *tangents of active) -> (*results, *tangents)``, and which results have one.

    Those to ``keep`` have one, be it zero.
    """
    new, active_out = ad.jvp_jaxpr(jaxpr, tuple(active), instantiate=tuple(keep))
    return new, list(active_out)

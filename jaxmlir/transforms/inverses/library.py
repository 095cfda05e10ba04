"""Functions of JAX's own library that are known as a whole.

``jax.nn.softplus`` is made of ops that are many-to-one, though it is one-to-one.  So a called
function that has a known name, and whose ops are those that the installed JAX traces for the
function of that name, is inverted by a formula.  A user's own function of such a name has other
ops, and is inverted by these.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.bridge.importer import import_jaxpr
from jaxmlir.caching.configuration_key import setting
from jaxmlir.dialect import custom_rule_ops
from jaxmlir.dialect.builder import returned
from jaxmlir.dialect.ir import func, functions
from jaxmlir.dialect.types import aval_of, widths_of
from jaxmlir.transforms.inverses import formulas
from jaxmlir.transforms.inverses.formulas import Formulas
from jaxmlir.transforms.inverses.numerics import log_difference
from jaxmlir.transforms.inverses.rule import Formula
from jaxmlir.transforms.inverses.solver import NotInvertible, Site


@dataclass(frozen=True)
class Known:
    """A function of JAX's library."""

    module: str
    formulas: Formulas
    inverse: str
    """What the formulas are, in words."""
    positive: str = ""
    """The parameter, the second one, for which the function is many-to-one if it is not positive.
    """

    def check(self, site: Site) -> None:
        """Fails where that is known; what is an argument is the caller's to mind."""
        if not self.positive or len(site.operands) < 2:
            return
        static = site.solver.static(site.operands[1])
        if static is not None and not (static > 0).all():
            least = f"{self.positive} {float(static.min()):g}"
            raise NotInvertible(f"of {least}, which is not positive, it is many-to-one")


def _unary(solve: Callable[..., Any], log_slope: Callable[..., Any]) -> Formulas:
    return Formulas({(0,): Formula(solve, log_slope)}, elementwise=True)


_LOGADDEXP = Formula(log_difference, lambda x, z, b: x - z)


# A parameter of a call is an operand, or, left at its default, a constant in the called function.


def _unleaky(y: Any, slope: Any = None, *, negative_slope: Any) -> Any:
    return jnp.where(y >= 0, y, y / (negative_slope if slope is None else slope))


def _leaky_log_slope(x: Any, y: Any, slope: Any = None, *, negative_slope: Any) -> Any:
    slope = negative_slope if slope is None else slope
    return jnp.where(y >= 0, 0.0, jnp.log(jnp.abs(slope)))


def _unelu(y: Any, scale: Any = None, *, alpha: Any) -> Any:
    return jnp.where(y > 0, y, lax.log1p(jnp.minimum(y, 0) / (alpha if scale is None else scale)))


def _elu_log_slope(x: Any, y: Any, scale: Any = None, *, alpha: Any) -> Any:
    return jnp.where(y > 0, 0.0, jnp.log(alpha if scale is None else scale) + x)


def _soft_sign_log_slope(x: Any, y: Any) -> Any:
    # Of complex numbers it is not holomorphic: (1 + |x|)**-2 along x, (1 + |x|)**-1 across.
    power = -1.5 if jnp.iscomplexobj(x) else -2
    return power * lax.log1p(lax.abs(x))


def _parametric(name: str, solve: Callable[..., Any], log_slope: Callable[..., Any]) -> Formulas:
    formula = Formula(solve, log_slope)
    return Formulas({(0,): formula}, attributes=(name,), elementwise=True)


LIBRARY: dict[str, Known] = {
    "logaddexp": Known(
        "jax.numpy",
        Formulas({(0,): _LOGADDEXP, (1,): _LOGADDEXP}, elementwise=True),
        "x = log(exp(z) - exp(y)), and so `jax.nn.softplus` and `jax.nn.log_sigmoid`",
    ),
    "logit": Known(
        "jax.scipy.special",
        _unary(lax.logistic, lambda x, y: -lax.log(x) - lax.log1p(-x)),
        "logistic",
    ),
    "leaky_relu": Known(
        "jax.nn",
        _parametric("negative_slope", _unleaky, _leaky_log_slope),
        "y, and y / negative_slope where y < 0; of a positive slope",
        "negative_slope",
    ),
    "elu": Known(
        "jax.nn",
        _parametric("alpha", _unelu, _elu_log_slope),
        "y, and log1p(y / alpha) where y < 0; of a positive alpha",
        "alpha",
    ),
    "soft_sign": Known(
        "jax.nn",
        _unary(lambda y: y / (1 - lax.abs(y)), _soft_sign_log_slope),
        "y / (1 - abs(y))",
    ),
}
"""By name."""


def learn(site: Site, symbol: str) -> bool:
    """Applies the rule of a call of a library function; false if it is none."""
    name = re.sub(r"(_\d+)+$", "", symbol)
    if name not in LIBRARY:
        return False
    if "library" not in site.memory:
        avals = tuple(aval_of(v.type) for v in site.operands)
        text = _text(site.solver.rules.program.functions, symbol)
        site.memory["library"] = text == _traced(name, avals, setting())
    if not site.memory["library"]:
        return False
    LIBRARY[name].check(site)
    formulas.learn(LIBRARY[name].formulas, site, _defaults(name))
    return True


def _function(name: str) -> Callable[..., Any] | None:
    return getattr(importlib.import_module(LIBRARY[name].module), name, None)


def _defaults(name: str) -> dict[str, Any]:
    """The parameters of a library function that may be left out."""
    parameters = inspect.signature(_function(name)).parameters.values()
    return {p.name: p.default for p in parameters}


@functools.cache
def _traced(name: str, avals: tuple[Any, ...], _: object) -> str | None:
    """JAX's function for arguments of these types, as :func:`_text` gives it in a setting."""
    function = _function(name)
    if function is None or not all(isinstance(a, core.ShapedArray) for a in avals):
        return None
    # It is found by its name, as a call.
    with widths_of(avals), jax.disable_jit(False):
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
        try:
            closed = jax.make_jaxpr(lambda *xs: function(*xs))(*args)
        except TypeError:  # Not for arguments of this kind.
            return None
    traced = functions(import_jaxpr(closed, "main").module)
    found = [s for s in traced if re.fullmatch(rf"{name}(_\d+)*", s)]
    return _text(traced, found[-1]) if found else None


# Rules of derivatives say nothing about the value.
_DERIVATIVES = custom_rule_ops.ATTRIBUTES | {
    "jvp_error",
    "fwd_error",
    "bwd_error",
    custom_rule_ops.MARK,
}
_SYMBOL = re.compile(r"@([\w.]+)")


def _text(functions: Mapping[str, func.FuncOp], symbol: str) -> str:
    """A function and those it calls as a text that does not depend on their names."""
    numbers = {symbol: 0}
    lines = []
    for name in (pending := [symbol]):
        function = functions[name]
        values = {v: i for i, v in enumerate(function.arguments)}
        lines.append(str(function.type))
        for op, op_name, operands in ops_of(function):
            attributes = [f"{k}={a}" for k, a in op.attributes.items() if k not in _DERIVATIVES]
            text = " ".join(sorted(attributes))
            for called in _SYMBOL.findall(text):
                if called not in numbers:
                    numbers[called] = len(numbers)
                    pending.append(called)
            text = _SYMBOL.sub(lambda m: f"@{numbers[m[1]]}", text)
            types = ", ".join(str(t) for t in op.results.types)
            lines.append(f"{op_name} {[values[v] for v in operands]} {text} {types}")
            values.update({v: len(values) + i for i, v in enumerate(op.results)})
        lines.append(str([values[v] for v in returned(function)]))
    return "\n".join(lines)


__all__ = ["LIBRARY", "Known", "learn"]

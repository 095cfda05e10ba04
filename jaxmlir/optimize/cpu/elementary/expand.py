"""``jaxpr-expand-elementary``: writes elementary functions so that XLA vectorizes them.

XLA's CPU compiler writes ``exp``, ``log`` and ``tanh`` of 32-bit floats as polynomials, which it
vectorizes.  For other functions, and for most of complex numbers, it calls a C library, element by
element.  This pass writes them as polynomials, too, of 64-bit floats, which have digits to spare
(``trigonometric.py``, ``powers.py``, ``complex_numbers.py``).  Functions of 16-bit floats become
those of 32-bit floats.

Each expansion is a function with a custom derivative rule: the derivative of the op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxmlir._compat import dtypes, jax_version
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.fusion import LIBRARY_REDUCTIONS, MIN_ELEMENTS_OF_POLYNOMIALS
from jaxmlir.dialect.builder import only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.elementary import complex_numbers, powers, trigonometric
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion
from jaxmlir.passes.base import Count
from jaxmlir.toolbox import constant_value, definition

# Since this version, XLA writes arctangents as polynomials.
_ARCTANGENTS_SINCE = (0, 12)


class Elementary(NamedTuple):
    """An elementary function.

    Attributes:
      write: the function of arrays; its result is converted to the type of the first argument.
      saved: the nanoseconds per element that it saves, about, at least.
      ops: about how many ops it consists of.
    """

    write: Callable[..., Any]
    saved: float
    ops: int


def _in_32_bits(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(lax.convert_element_type(x, np.float32))


# Nanoseconds per element of XLA, jax 0.10 and 0.12, and of the expansion, two cores shared:
# sin 9, 8, 3; cos 8, 8, 3; tan 20, 17, 4; asin 26, 30, 3.5; acos 34, 30, 3.3; atan 15, 1, 1.4;
# atan2 40, 30, 2; cbrt 25, 24, 4; pow 9, 9, 4; rem 25, 20, 5.
_REAL = {
    "sin": Elementary(trigonometric.sin, 6.0, 70),
    "cos": Elementary(trigonometric.cos, 6.0, 70),
    "tan": Elementary(trigonometric.tan, 6.0, 70),
    "asin": Elementary(trigonometric.asin, 20.0, 60),
    "acos": Elementary(trigonometric.acos, 20.0, 60),
    "atan": Elementary(trigonometric.atan, 10.0, 50),
    "atan2": Elementary(trigonometric.atan2, 15.0, 55),
    "cbrt": Elementary(powers.cbrt, 15.0, 80),
    "pow": Elementary(powers.pow, 4.0, 105),
    "rem": Elementary(powers.rem, 10.0, 75),
}
# As above: exp 15, 13, 4; log 40, 35, 5; sqrt 6.3, 6.6, 2.5; sin and cos 15, 14, 6; tanh 13, 14, 5.
_COMPLEX = {
    "exp": Elementary(complex_numbers.exp, 8.0, 100),
    "log": Elementary(complex_numbers.log, 20.0, 110),
    "sqrt": Elementary(complex_numbers.sqrt, 3.5, 30),
    "sin": Elementary(complex_numbers.sin, 6.0, 120),
    "cos": Elementary(complex_numbers.cos, 6.0, 120),
    "tanh": Elementary(complex_numbers.tanh, 6.0, 125),
}
# As above: exp 7, 8, 1.5; log 9, 6, 2.
_HALF = {
    "exp": Elementary(_in_32_bits(lax.exp), 4.0, 2),
    "log": Elementary(_in_32_bits(lax.log), 3.0, 2),
}
FUNCTIONS: dict[tuple[str, np.dtype], Elementary] = {
    (f"jaxpr.{name}", np.dtype(dtype)): function
    for dtypes_, functions in (
        ((np.float32, np.float16, dtypes.bfloat16), _REAL),
        ((np.complex64,), _COMPLEX),
        ((np.float16,), _HALF),
    )
    for dtype in dtypes_
    for name, function in functions.items()
}
# The exponents of powers that XLA simplifies.
_SIMPLE_EXPONENTS = (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0)

# The ops that XLA fuses into a reduction that follows.  Since jax 0.11 a library computes such a
# reduction, and vectorizes sines: ``sum(sin(x))`` of a million elements by XLA, with this pass, ms:
# jax 0.10 7.5, 1.5, 0.11 0.2, 0.8, 0.12 0.35, 1.5.  It does not do so if anything else uses the
# sine, or if another op is in between.
_REDUCTIONS_SINCE = (0, 11)
_IN_LIBRARY = frozenset({"jaxpr.cos", "jaxpr.sin", "jaxpr.tan"})
_FUSED_BEFORE = _IN_LIBRARY | {
    f"jaxpr.{name}"
    for name in (
        *("abs", "ceil", "erf", "exp", "exp2", "expm1", "floor", "integer_pow", "log", "log1p"),
        *("logistic", "neg", "rsqrt", "sign", "sqrt", "square", "tanh"),
        *("add", "add_any", "div", "max", "min", "mul", "sub"),
        *("broadcast_in_dim", "convert_element_type", "reshape"),
    )
}


class ExpandElementary(ExpandOps):
    """Write elementary functions of 32-bit and complex numbers as polynomials of 64-bit floats.

    Options:
      min-elements: functions of fewer elements are left alone.
    """

    name: ClassVar[str] = "jaxpr-expand-elementary"
    min_elements: Count = MIN_ELEMENTS_OF_POLYNOMIALS

    def expansions(self, program: Module) -> Callable[[OpView], Expansion | None]:
        reduced: dict[ir.Value, bool] = {}

        def expansion(node: OpView) -> Expansion | None:
            aval = aval_of(node.op.results[0].type)
            function = FUNCTIONS.get((node.name, aval.dtype))
            if function is None or aval.size < self.min_elements:
                return None
            if node.get("accuracy") is not None or not _is_slow(program, node, aval.dtype):
                return None
            if node.name in _IN_LIBRARY and _is_reduced(node.op, reduced):
                return None
            write = function.write
            if node.name == "jaxpr.rem":
                divisor = _constant(program, node.operands[1])
                write = write if divisor is None else powers.rem_by(divisor)
            write = _with_rule(node.name, write)
            saved = function.saved * aval.size
            return Expansion("expanded into a polynomial", write, function.ops, saved)

        return expansion


def _is_slow(program: Module, node: OpView, dtype: np.dtype) -> bool:
    """Whether XLA calls a library for an op of the table."""
    if any(aval_of(v.type).dtype != dtype for v in node.operands):
        return False
    match node.name:
        case "jaxpr.atan":
            return jax_version()[:2] < _ARCTANGENTS_SINCE
        case "jaxpr.pow":
            exponent = _constant(program, node.operands[1])
            return exponent is None or not np.isin(exponent, _SIMPLE_EXPONENTS).all()
    return True


def _constant(program: Module, value: ir.Value) -> Any | None:
    """The elements of a constant that may have been broadcast; ``None`` for other values."""
    while (origin := definition(value)) is not None and origin[1] == "jaxpr.broadcast_in_dim":
        value = origin[0].operands[0]
    return constant_value(program, value)


@functools.cache
def _with_rule(name: str, function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function as :meth:`ExpansionWriter.emit` takes it, with the derivative of the op.

    It computes with 64 bits, whether JAX has these enabled or not.
    """
    name = name.removeprefix("jaxpr.")
    of_lax = getattr(lax, name)

    def written(*xs: Any) -> Any:
        with jax.enable_x64(True):
            return lax.convert_element_type(function(*xs), xs[0].dtype)

    def rule(xs: Any, tangents: Any) -> Any:
        return expanded(*xs), jax.jvp(of_lax, xs, tangents)[1]

    # The names of the functions of the program.
    written.__name__, rule.__name__ = name, f"{name}_jvp"
    expanded = jax.custom_jvp(written)
    expanded.defjvp(rule)

    def of_any(*xs: Any) -> list[Any]:
        # Some operands may be single numbers.
        shape = np.broadcast_shapes(*[x.shape for x in xs])
        return [expanded(*[lax.broadcast(x, shape[: len(shape) - x.ndim]) for x in xs])]

    return of_any


def _is_reduced(op: Any, known: dict[ir.Value, bool]) -> bool:
    """Whether XLA lets the library for reductions compute an op.

    Args:
      known: for values that several ops may lead to, whether a reduction follows.
    """
    if jax_version()[:2] < _REDUCTIONS_SINCE:
        return False
    value, way = op.results[0], []
    while True:
        user = only_user(value)
        if user is None or user.name not in _FUSED_BEFORE:
            is_reduced = user is not None and user.name in LIBRARY_REDUCTIONS
            break
        (value,) = user.results
        if value in known:
            is_reduced = known[value]
            break
        # Ops that are expanded later are erased then, and erased values must not be in a table.
        if (user.name, aval_of(value.type).dtype) not in FUNCTIONS:
            way.append(value)
    known.update(dict.fromkeys(way, is_reduced))
    return is_reduced

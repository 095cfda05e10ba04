"""Elementwise ops; for some of them, JAX has a function instead of a primitive."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import dtypes, lax
from jaxlib.mlir.dialects import stablehlo

from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, dtype_of
from jaxmlir.errors import ImportingError
from jaxmlir.raising.broadcasts import BROADCASTING
from jaxmlir.raising.derivatives import function_of, on_arrays
from jaxmlir.raising.sizes import ARITH
from jaxmlir.raising.source import StandInOp, attribute, outer_of, shape_of, tensor
from jaxmlir.raising.writer import PLAIN, RULES, BodyWriter, Values, computed_by, renamed, rule

_SAME = """
abs atan2 ceil complex cosine:cos count_leading_zeros:clz divide:div exponential:exp
exponential_minus_one:expm1 floor is_finite log log_plus_one:log1p logistic
negate:neg not or popcnt:population_count remainder:rem rsqrt shift_left
shift_right_arithmetic shift_right_logical sign sine:sin sqrt subtract:sub tan tanh xor and
"""
_SAME_IN_CHLO = """
acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma mulhi
next_after:nextafter polygamma sinh square tan zeta
"""
_DIALECTS = {"stablehlo": _SAME, "chlo": _SAME_IN_CHLO}
PLAIN.update(
    (f"{dialect}.{name.partition(':')[0]}", f"jaxpr.{name.rpartition(':')[2]}")
    for dialect, names in _DIALECTS.items()
    for name in names.split()
)


def _with_accuracy(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Writes one op of the same meaning, with the accuracy that the source op asks for."""
    params = {}
    accuracy = op.attributes["result_accuracy"] if "result_accuracy" in op.attributes else None
    if accuracy is not None and "DEFAULT" not in (text := str(accuracy)):
        if "HIGHEST" in text:
            params["accuracy"] = lax.AccuracyMode.HIGHEST
        else:
            tolerance = stablehlo.ResultAccuracyAttr(accuracy)
            params["accuracy"] = lax.Tolerance(
                atol=tolerance.atol, rtol=tolerance.rtol, ulps=tolerance.ulps
            )
    name = PLAIN.get(op.name, op.name).rpartition(".")[2]
    return w.emit(name, operands, w.types(op), **params)


RULES.update(dict.fromkeys(PLAIN, _with_accuracy))

_LOGIC = ("and", "or", "xor", "select")

# On booleans, JAX has these as bitwise ops.
_ARITHMETIC = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
_NAMES = {"multiply": "mul", "maximum": "max", "minimum": "min", "subtract": "sub"}


@rule(*_ARITHMETIC)
def arithmetic(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """``add`` of numbers stays ``add``, and of booleans becomes ``or``. A number times itself
    becomes ``integer_pow``, as in JAX, whose derivative is a single product."""
    (type_,) = w.types(op)
    name = arithmetic_name(op.name, type_)
    if name == "mul" and operands[0] == operands[1]:
        return w.emit("integer_pow", operands[:1], [type_], y=2)
    return w.emit(name, operands, [type_])


def arithmetic_name(name: str, type_: ir.Type) -> str:
    """The dialect's name of a StableHLO op; JAX has some for numbers only, not for booleans."""
    name = name.removeprefix("stablehlo.")
    if name in ("add", "multiply") and str(type_.element_type) == "i1":
        return _ARITHMETIC[name]
    return _NAMES.get(name, name)


@rule(*ARITH)
def of_tensors(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The op of StableHLO that an op of arith is on tensors. Booleans are added modulo 2 there."""
    name, (type_,) = ARITH[op.name], w.types(op)
    if str(type_.element_type) == "i1" and name.removeprefix("stablehlo.") not in _LOGIC:
        raise ImportingError(f"expected numbers, got {type_}")
    return RULES[name](w, StandInOp(name, op.results, op.attributes), operands)


@rule("round_nearest_afz", "round_nearest_even")
def rounding(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    to_even = op.name.endswith("even")
    method = lax.RoundingMethod.TO_NEAREST_EVEN if to_even else lax.RoundingMethod.AWAY_FROM_ZERO
    return w.emit("round", operands, w.types(op), rounding_method=method)


@rule("power")
def power(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    if isinstance(type_.element_type, ir.IntegerType):
        return w.traced(_integer_power, operands, [type_])
    return w.emit("pow", operands, [type_])


def _integer_power(x: Any, y: Any) -> Any:
    """Square and multiply; for a negative exponent, 1 / x**-y rounded towards zero."""
    result = jnp.ones_like(x)
    base, left = x, y
    for _ in range(jnp.iinfo(x.dtype).bits):
        result = jnp.where((left & 1) != 0, result * base, result)
        base, left = base * base, lax.shift_right_logical(left, jnp.ones_like(left))
    if not jnp.issubdtype(x.dtype, jnp.signedinteger):
        return result
    parity = jnp.where((y & 1) != 0, -jnp.ones_like(x), jnp.ones_like(x))
    inverse = jnp.where(x == 1, jnp.ones_like(x), jnp.where(x == -1, parity, jnp.zeros_like(x)))
    return jnp.where(y < 0, inverse, result)


@rule("real", "imag")
def part(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A real number is its own real part."""
    if isinstance(operands[0].type.element_type, ir.ComplexType):
        return w.emit(op.name.removeprefix("stablehlo."), operands, w.types(op))
    return operands if op.name == "stablehlo.real" else [w.filled(operands[0].type, 0)]


@rule("clamp")
def clamp(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Scalar bounds are broadcast: the derivative of JAX's ``clamp`` needs a single shape."""
    (type_,) = w.types(op)
    full = operands[1].type
    same = [v if shape_of(v) else w.broadcast(v, full) for v in operands]
    return w.emit("clamp", same, [type_])


@rule("chlo.conj")
def conj(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A real number is its own conjugate."""
    if isinstance(operands[0].type.element_type, ir.ComplexType):
        return w.traced(lax.conj, operands, w.types(op))
    return operands


@rule("cbrt")
def cbrt(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX's op is for real numbers only; the cube root of a complex one is the principal root."""
    if not isinstance(operands[0].type.element_type, ir.ComplexType):
        return _with_accuracy(w, op, operands)
    return w.traced(lambda z: z ** np.asarray(1 / 3, z.dtype), operands, w.types(op))


_TOTAL = {"EQ": "eq_to", "LT": "lt_to", "LE": "le_to"}


@rule("compare")
def compare(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    direction = attribute(op, "comparison_direction")
    kind = attribute(op, "compare_type")
    element = operands[0].type.element_type
    if kind == "TOTALORDER" and not isinstance(element, (ir.IntegerType, ir.ComplexType)):
        if direction in ("GT", "GE"):
            operands, direction = operands[::-1], {"GT": "LT", "GE": "LE"}[direction]
        if direction == "NE":
            (type_,) = w.types(op)
            return [w.like("not", w.one("eq_to", operands, type_))]
        return w.emit(_TOTAL[direction], operands, w.types(op))
    return w.emit(direction.lower(), operands, w.types(op))


@rule("select")
def select(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    which, on_true, on_false = operands
    return w.emit("select_n", [which, on_false, on_true], w.types(op))


@rule("convert")
def convert(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    if type_.element_type == operands[0].type.element_type and str(type_.element_type) == "i1":
        # JAX converts to booleans by a comparison.
        return operands
    return [w.convert(operands[0], type_.element_type)]


@rule("bitcast_convert")
def bitcast_convert(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX's op is for real numbers only: a complex number is bitcast as two of them, and a boolean
    as one bit of an integer."""
    (type_,) = w.types(op)
    elements = [type_.element_type, operands[0].type.element_type]
    special = any(str(e) == "i1" or isinstance(e, ir.ComplexType) for e in elements)
    if special and elements[0] != elements[1]:
        return w.traced(functools.partial(_bitcast, type_=aval_of(type_)), operands, [type_])
    return w.emit("bitcast_convert_type", operands, [type_], new_dtype=type_of_elements(type_))


def _bitcast(x: Any, type_: Any) -> Any:
    """Reinterprets the bits of an array as another type, the lowest bit first."""
    if 0 in type_.shape:
        return jnp.zeros(type_.shape, type_.dtype)
    bits = _bits_of(x)
    width = bits.size // math.prod(type_.shape)
    return _of_bits(bits.reshape(*type_.shape, width), type_.dtype)


def _bits_of(x: Any) -> Any:
    """The bits of each element as booleans, along a new last dimension."""
    if x.dtype == np.bool_:
        return x[..., None]
    if jnp.iscomplexobj(x):
        return jnp.concatenate([_bits_of(x.real), _bits_of(x.imag)], -1)
    width = x.dtype.itemsize * 8
    unsigned = np.dtype(f"uint{width}")
    places = jnp.arange(width, dtype=unsigned)
    return (lax.bitcast_convert_type(x, unsigned)[..., None] >> places) % 2 != 0


def _of_bits(bits: Any, dtype: Any) -> Any:
    """The array of a dtype whose elements have the bits along the last dimension."""
    if dtype == np.bool_:
        return bits[..., 0]
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = np.finfo(dtype).dtype
        return lax.complex(*(_of_bits(half, part) for half in jnp.split(bits, 2, -1)))
    width = bits.shape[-1]
    unsigned = np.dtype(f"uint{width}")
    shifted = bits.astype(unsigned) << jnp.arange(width, dtype=unsigned)
    return lax.bitcast_convert_type(jnp.sum(shifted, -1, dtype=unsigned), dtype)


def type_of_elements(type_: ir.Type) -> Any:
    """The dtype of the elements of a tensor."""
    return dtype_of(type_.element_type)


rule("reduce_precision")(renamed("reduce_precision", "exponent_bits", "mantissa_bits"))
rule("optimization_barrier")(renamed("optimization_barrier"))


@rule("map")
def mapped(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Applies the region, a function of scalars, to each element."""
    outer = outer_of(op.regions[0].blocks)
    function, num_held = function_of(w, op.regions[0], outer), len(outer.values)

    def on_all(*args: Any) -> Any:
        arrays = args[num_held:]
        return on_arrays(functools.partial(function, *args[:num_held]), arrays[0].ndim)(*arrays)

    return w.traced(on_all, [*(w.env[v] for v in outer.values), *operands], w.types(op))


# --- CHLO's, and StableHLO's that JAX has no primitive for ----------------------------------------


rule("chlo.is_inf")(computed_by(jnp.isinf))
rule("chlo.is_pos_inf")(computed_by(jnp.isposinf))
rule("chlo.is_neg_inf")(computed_by(jnp.isneginf))

_BROADCASTING = {
    f"chlo.broadcast_{name.partition('.')[2]}": name
    for name in (
        *BROADCASTING,
        "stablehlo.select",
        "chlo.zeta",
        "chlo.polygamma",
        "chlo.next_after",
    )
}
"""The op that an op of CHLO is on its operands, broadcast."""


@rule(*_BROADCASTING)
def broadcasting(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The op of operands that are broadcast as numpy does, or as ``broadcast_dimensions`` says."""
    inner, rank = _BROADCASTING[op.name], w.types(op)[0].rank
    broadcast_dims = attribute(op, "broadcast_dimensions")
    wide = []
    for value in operands:
        sizes = shape_of(value)
        dims: Sequence[int] = range(rank - len(sizes), rank)
        if broadcast_dims is not None and len(sizes) < rank and len(broadcast_dims) == len(sizes):
            dims = broadcast_dims
        placed = dict(zip(dims, sizes, strict=True))
        shape = [placed.get(d, 1) for d in range(rank)]
        wide.append(w.broadcast(value, tensor(shape, value.type.element_type), dims))
    shape = lax.broadcast_shapes(*map(shape_of, wide))
    spread = [w.broadcast(v, tensor(shape, v.type.element_type), range(rank)) for v in wide]
    return RULES[inner](w, StandInOp(inner, op.results, op.attributes), spread)

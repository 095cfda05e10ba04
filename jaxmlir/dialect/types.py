"""Abstract values of types, and related types from JAX: of tangents, batches, wider elements.

:mod:`jaxmlir.dialect.codec.types` converts abstract values to types and back.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxmlir._compat import config, core, dtypes, prng, state_types
from jaxmlir.dialect.codec.types import (
    aval_of,
    constraints_of,
    dtype_called,
    dtype_of,
    element_of,
    symbolic_shape,
    type_of,
)
from jaxmlir.dialect.ir import ir

__all__ = [
    "aval_of",
    "batched_type",
    "constraints_of",
    "cotangent_type",
    "dtype_called",
    "dtype_of",
    "element_of",
    "has_tangent",
    "holds",
    "in_scope",
    "is_narrowed",
    "is_wide",
    "linear_aval",
    "size_variable",
    "tangent_type",
    "tangent_type_of",
    "type_of",
    "widths_of",
]


def shape_of(value: ir.Value) -> tuple[Any, ...]:
    """The dimensions of an array."""
    return tuple(aval_of(value.type).shape)


def has_tangent(value: ir.Value) -> bool:
    """Whether a value's type has a nontrivial tangent type: not integers, booleans or keys."""
    return _has_tangent(value.type)


@functools.cache
def _has_tangent(type_: ir.Type) -> bool:
    return is_differentiable(aval_of(type_))


def is_differentiable(aval: Any) -> bool:
    """Whether a value is an array with a nontrivial tangent type."""
    return isinstance(aval, core.ShapedArray) and aval.to_tangent_aval().dtype != dtypes.float0


@functools.cache
def scalar_type(dtype: Any) -> ir.Type:
    """The type of a single number."""
    return type_of(core.ShapedArray((), np.dtype(dtype)))


def tangent_type(value: ir.Value) -> ir.Type:
    """The type of a value's tangents."""
    return tangent_type_of(value.type)


@functools.cache
def tangent_type_of(type_: ir.Type) -> ir.Type:
    """The tangent type of a type; for integers ``float0``, and for a token a token."""
    return _never_weak(aval_of(type_).to_tangent_aval())


@functools.cache
def cotangent_type(type_: ir.Type) -> ir.Type:
    """The type of cotangents of values of a type."""
    return _never_weak(aval_of(type_).to_ct_aval())


def _never_weak(aval: Any) -> ir.Type:
    """The type of (co)tangents; ``float0`` is never weakly typed."""
    is_float0 = getattr(aval, "dtype", None) == dtypes.float0
    return type_of(aval.strip_weak_type() if is_float0 else aval)


def size_variable(name: str, avals: Iterable[Any]) -> Any:
    """A dimension variable that can be used along with the symbolic dimensions of some values."""
    dims = (dim for aval in avals for dim in getattr(aval, "shape", ()))
    symbolic = next((dim for dim in dims if not core.is_constant_dim(dim)), None)
    return symbolic_shape(name, () if symbolic is None else constraints_of(symbolic))[0]


@functools.lru_cache(maxsize=1 << 16)
def batched_type(type_: ir.Type, dim: int | None, size: int, mesh_axis: Any = None) -> ir.Type:
    """The type with a dimension of ``size``, sharded over an explicit mesh axis or axes, inserted
    at ``dim``."""
    if dim is None:
        return type_
    return type_of(core.unmapped_aval(size, dim, aval_of(type_), mesh_axis))


def linear_aval(aval: Any) -> Any:
    """The cotangent type that a transpose takes for a result and gives for a linear argument.  An
    integer function can be linear, too, though it has no derivative."""
    is_integer = isinstance(aval, core.ShapedArray) and dtypes.issubdtype(aval.dtype, np.integer)
    return aval if is_integer else aval.to_ct_aval()


def is_wide(aval: Any) -> bool:
    """Whether a value's elements have 64 bits, or 128 if they are complex."""
    return getattr(aval, "dtype", None) in _WIDE


def is_key(aval: Any) -> bool:
    """Whether a value is an array of typed random keys."""
    return isinstance(getattr(aval, "dtype", None), prng.KeyTy)


def is_dynamic(type_: ir.Type) -> bool:
    """Whether a type is that of an array with sizes that are not numbers."""
    return isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape


def is_reference(type_: ir.Type) -> bool:
    """Whether values of a type are references."""
    return isinstance(aval_of(type_), state_types.AbstractRef)


def is_narrowed(aval: Any) -> bool:
    """Whether JAX narrows values of this type because ``jax_enable_x64`` is off."""
    return not config.enable_x64.value and is_wide(aval)


_WIDE = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))


def widths_of(avals: Iterable[Any]) -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX keeps 64-bit types while it works on some values.  JAX's rules convert
    their results to the types of their operands, which JAX narrows unless ``jax_enable_x64`` is
    set; but a program has the same types wherever it is read."""
    narrowed = any(map(is_narrowed, avals))
    return jax.enable_x64(True) if narrowed else contextlib.nullcontext()


@functools.cache
def holds(wide: np.dtype, narrow: np.dtype) -> bool:
    """Whether dtype ``wide`` can represent every value of ``narrow``, including infinities and
    -0.0."""
    if wide == narrow:
        return True
    if narrow.kind == "c" or wide.kind == "c":
        parts = [dtypes.finfo(t).dtype if t.kind == "c" else t for t in (wide, narrow)]
        return wide.kind == "c" and holds(*parts)
    if not all(dtypes.issubdtype(t, np.number) or t == np.bool_ for t in (wide, narrow)):
        return False
    if narrow.itemsize <= 2:
        return _holds_each(wide, _values_of(narrow))
    whole, wide_is_whole = (dtypes.issubdtype(t, np.integer) for t in (narrow, wide))
    if wide == np.bool_ or (wide_is_whole and not whole):
        return False
    a = dtypes.iinfo(narrow) if whole else dtypes.finfo(narrow)
    b = dtypes.iinfo(wide) if wide_is_whole else dtypes.finfo(wide)
    if not whole:
        return a.nmant <= b.nmant and a.maxexp <= b.maxexp and a.minexp >= b.minexp
    if wide_is_whole:
        return b.min <= a.min and a.max <= b.max
    exact = 2 ** (b.nmant + 1)
    return -exact <= a.min and a.max <= exact <= b.max


def _values_of(dtype: np.dtype) -> np.ndarray:
    """All values of a dtype with few bits."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        return np.arange(info.min, info.max + 1).astype(dtype)
    return np.arange(2 ** dtypes.finfo(dtype).bits).astype(f"u{dtype.itemsize}").view(dtype)


def _holds_each(dtype: np.dtype, values: np.ndarray) -> bool:
    """Whether a conversion to a dtype leaves all values unchanged."""
    with np.errstate(all="ignore"):
        before = values.astype(np.float64)
        after = before.astype(dtype).astype(np.float64)
    same = (before == after) & (np.signbit(before) == np.signbit(after))
    return bool(np.all(same | (np.isnan(before) & np.isnan(after))))


def in_scope(aval: Any, sizes_scope: Any) -> Any:
    """An abstract value whose symbolic dimensions are moved, by name, to another scope."""
    from jax import export

    shape = getattr(aval, "shape", ())
    if all(core.is_constant_dim(size) or size.scope is sizes_scope for size in shape):
        return aval
    text = ", ".join(map(str, shape)) + ","
    return aval.update(shape=export.symbolic_shape(text, scope=sizes_scope))


def with_shape(type_: ir.Type, shape: Sequence[int]) -> ir.Type:
    """The type of an array with the same elements in another shape."""
    return _with_shape(type_, tuple(shape))


@functools.cache
def _with_shape(type_: ir.Type, shape: tuple[int, ...]) -> ir.Type:
    aval = aval_of(type_)
    return type_of(core.ShapedArray(shape, aval.dtype, aval.weak_type))

"""Converts abstract values to MLIR types and back, one to one.

===============================  ==========================================================
``f32[4]``                       ``tensor<4xf32>``
weakly typed ``f32[]``           ``tensor<f32, {weak_type}>``
``f32[b, 128]``                  ``tensor<?x128xf32, {shape = "b, 128"}>``
``key<fry>[4]``                  ``tensor<4x!jaxpr.key<"fry">>``
``semaphore[4]``                ``tensor<4x!jaxpr.extended<{pallas.core.Semaphore = {}}>>``
``float0[3]``                    ``tensor<3x!jaxpr.float0>``
``Ref{f32[4]}``                  ``!jaxpr.ref<tensor<4xf32>>``; its memory space and kind are in the
                                tensor's encoding
a token                          ``!jaxpr.token``
===============================  ==========================================================

The tensor's encoding, a dictionary, has what an aval holds beyond shape and dtype: weak type,
symbolic shape, sharding, varying manual axes, memory space.  It is absent if it would be empty.  So
a value's type determines its aval without the op that made it, and equal signatures have equal
types.

An aval that no type describes (an accumulator of a kernel, or a user's own aval) becomes
``!jaxpr.aval<"name", "handle">``; it lives as long as the process (see
:mod:`jaxmlir.dialect.handles`).
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from jaxmlir._compat import core, dtypes, prng, state_types
from jaxmlir.dialect import handles
from jaxmlir.dialect.codec.registry import (
    Reader,
    attribute_decoders,
    decode,
    depends_on_module,
    encode,
    record,
)
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.errors import ImportingError, JaxmlirError

_ELEMENT_NAMES = {
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}
# int1/uint1 exist in newer ml_dtypes; MLIR's i1 is taken by bool.
_OPAQUE_ELEMENTS = {"int1": "!jaxpr.int1", "uint1": "!jaxpr.uint1"}
_DTYPE_NAMES = {e: name for name, e in (*_ELEMENT_NAMES.items(), *_OPAQUE_ELEMENTS.items())}

# Keys in the encoding of a reference's value that describe the reference.
_OF_REFERENCES = ("memory_space", "kind")
# Keys in the encoding of a tensor.
_OF_TENSORS = tuple("weak_type shape constraints mesh spec manual memory_space layout".split())

_type_of_aval: dict[Any, ir.Type] = {}
_aval_of_type: dict[ir.Type, Any] = {}


def type_of(aval: Any) -> ir.Type:
    """The MLIR type of an abstract value."""
    # JAX ignores the kind when it compares references, but derivatives depend on it.
    key = (aval, aval.kind) if type(aval) is state_types.AbstractRef else aval
    type_ = _type_of_aval.get(key)
    if type_ is None:
        aval = _without_auto_mesh(aval)
        with scope():
            type_ = _make_type(aval)
        _type_of_aval[key] = type_
        if core.is_constant_shape(getattr(aval, "shape", ())):
            _aval_of_type.setdefault(type_, aval)
        # Avals with symbolic dimensions are read back from the type, so that all are in the scope
        # first seen: dimensions of one op must be comparable.
    return type_


def aval_of(type_: ir.Type) -> Any:
    """The abstract value that :func:`type_of` wrote as ``type_``.

    Raises:
      JaxmlirError: it is not a type of the dialect, or refers to an object of another process.
    """
    aval = _aval_of_type.get(type_)
    if aval is None:
        try:
            with scope():
                aval = _aval_of_type[type_] = _make_aval(type_)
        except JaxmlirError:
            raise
        except Exception as e:  # from JAX's classes, which check their fields
            raise ImportingError(f"{type_} cannot be read: {type(e).__name__}: {e}") from e
    return aval


@functools.cache
def element_of(dtype: Any) -> ir.Type:
    """The MLIR element type of a dtype, extended dtypes included."""
    with scope():
        return _make_element(dtype)


def _make_element(dtype: Any) -> ir.Type:
    if isinstance(dtype, dtypes.ExtendedDType):
        impl = getattr(dtype, "_impl", None)
        if isinstance(impl, prng.PRNGImpl) and prng.prngs.get(impl.name) is impl:
            return ir.Type.parse(f"!jaxpr.key<{json.dumps(impl.tag)}>")
        attribute = record(dtype)
        if attribute is not None:
            return ir.Type.parse(f"!jaxpr.extended<{attribute}>")
        return ir.Type.parse(f'!jaxpr.dtype<{json.dumps(str(dtype))}, "{handles.keep(dtype)}">')
    dtype = np.dtype(dtype)
    if dtype == dtypes.float0:
        return ir.Type.parse("!jaxpr.float0")
    name = _ELEMENT_NAMES.get(dtype.name) or _OPAQUE_ELEMENTS.get(dtype.name)
    if name is None:
        raise ImportingError(f"no MLIR element type for dtype {dtype}")
    return ir.Type.parse(name)


@functools.cache
def dtype_of(element: ir.Type) -> Any:
    """The dtype that :func:`element_of` wrote as ``element``."""
    text = str(element)
    if text.startswith("!jaxpr.key<"):
        (tag,) = _string_parameters(text)
        for impl in prng.prngs.values():
            if impl.tag == tag:
                return prng.KeyTy(impl)
        tags = ", ".join(sorted(impl.tag for impl in prng.prngs.values()))
        raise ImportingError(
            f'{text}: no random-number generator "{tag}" is registered, only {tags}'
        )
    if text.startswith("!jaxpr.extended<"):
        return decode(ir.Attribute.parse(text[len("!jaxpr.extended<") : -1]))
    if text.startswith("!jaxpr.dtype<"):
        return handles.get(_string_parameters(text)[1])
    if text == "!jaxpr.float0":
        return dtypes.float0
    dtype = dtype_called(text)
    if dtype is None:
        raise ImportingError(f"{text} is not the element type of a dtype of JAX")
    return dtype


def dtype_called(element: str) -> np.dtype | None:
    """The numeric dtype whose element type has this text, if this process has it."""
    if element not in _DTYPE_NAMES:
        return None
    name = _DTYPE_NAMES[element]
    scalar = getattr(np if hasattr(np, name) else ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)


def _string_parameters(text: str) -> list[str]:
    try:
        return json.loads("[" + text[text.index("<") + 1 : text.rindex(">")] + "]")
    except ValueError as e:
        raise ImportingError(f"the parameters of {text} are not strings in quotes: {e}") from None


def _make_type(aval: Any) -> ir.Type:
    if type(aval) is core.ShapedArray:
        return _make_tensor(aval)
    if isinstance(aval, core.AbstractToken):
        return ir.Type.parse("!jaxpr.token")
    if type(aval) is state_types.AbstractRef and type(aval.inner_aval) is core.ShapedArray:
        extras = {name: getattr(aval, name) for name in _OF_REFERENCES}
        encoded = {name: encode(v) for name, v in extras.items() if v is not None}
        # A type cannot refer to a Python object of a module; then the whole aval is a handle.
        if not any(map(depends_on_module, encoded.values())):
            return ir.Type.parse(f"!jaxpr.ref<{_make_tensor(aval.inner_aval, encoded)}>")
    return ir.Type.parse(f'!jaxpr.aval<{json.dumps(str(aval))}, "{handles.keep(aval)}">')


def _make_tensor(aval: Any, more: Mapping[str, ir.Attribute] | None = None) -> ir.Type:
    """The type of an array.

    Args:
      more: additional entries of its encoding.
    """
    extras = dict(more or {})
    if aval.weak_type:
        extras["weak_type"] = ir.UnitAttr.get()
    shape = aval.shape
    if not all(type(d) is int for d in shape):
        constraints = remember_scope(next(d for d in shape if not core.is_constant_dim(d)))
        extras["shape"] = ir.StringAttr.get(", ".join(map(str, shape)))
        if constraints:
            extras["constraints"] = encode(constraints)
        dynamic = ir.ShapedType.get_dynamic_size()
        shape = [d if core.is_constant_dim(d) else dynamic for d in shape]
    if not aval.sharding.mesh.empty:
        extras["mesh"] = encode(aval.sharding.mesh)
        extras["spec"] = encode(aval.sharding.spec)
        if not aval.mat.empty:
            extras["manual"] = encode(aval.mat)
    if aval.memory_space is not core.MemorySpace.Device:
        extras["memory_space"] = encode(aval.memory_space)
    layout = getattr(aval, "layout", None)
    if layout is not None and layout is not core.ShapedArray((), np.float32).layout:
        extras["layout"] = encode(layout)
    encoding = ir.DictAttr.get(extras) if extras else None
    return ir.RankedTensorType.get(shape, element_of(aval.dtype), encoding)


def _without_auto_mesh(aval: Any) -> Any:
    """The aval without its mesh if all axes are automatic, which its type does not record."""
    if type(aval) is not core.ShapedArray or aval.sharding.mesh.empty:
        return aval
    if not aval.sharding.mesh.are_all_axes_auto:
        return aval
    plain = core.ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    return plain.update(memory_space=aval.memory_space)


_scopes: dict[tuple[str, ...], Any] = {}


def constraints_of(dim: Any) -> tuple[str, ...]:
    """The constraints of a symbolic dimension's scope."""
    return tuple(c.debug_str for c in dim.scope._explicit_constraints)


def remember_scope(dim: Any) -> tuple[str, ...]:
    """The constraints of a dimension's scope, by which :func:`symbolic_shape` finds the scope."""
    constraints = constraints_of(dim)
    _scopes.setdefault(constraints, dim.scope)
    return constraints


# A dimension raised to a higher power exceeds 64 bits, and takes long to compute.
_MAX_POWER = 64


def symbolic_shape(shape: str, constraints: tuple[str, ...]) -> tuple[Any, ...]:
    """The dimensions in a text such as ``"b, 2*b"``, in the scope with these constraints.

    Raises:
      ImportingError: a dimension is raised to too high a power.
    """
    from jax import export

    for text in (shape, *constraints):
        # JAX uses Python's parser: a number may have underscores, and be on the next line.
        for power in re.findall(r"\^([\w\s\\]*+)", text):
            digits = re.sub(r"\D", "", power)
            if len(digits) > 2 or int(digits or 0) > _MAX_POWER:
                raise ImportingError(
                    f"the symbolic dimension {text[:200]!r}: expected powers up to {_MAX_POWER}"
                )
    scope = _scopes.get(constraints)
    if scope is None:
        scope = _scopes[constraints] = export.SymbolicScope(constraints)
    return export.symbolic_shape(shape, scope=scope)


def _make_aval(type_: ir.Type) -> Any:
    if isinstance(type_, ir.RankedTensorType):
        return _make_shaped_array(type_)
    text = str(type_)
    if text == "!jaxpr.token":
        return core.abstract_token
    if text.startswith("!jaxpr.ref<"):
        return _make_reference(ir.Type.parse(text[len("!jaxpr.ref<") : -1]))
    if text.startswith("!jaxpr.aval<"):
        return handles.get(_string_parameters(text)[1])
    is_number = isinstance(type_, (ir.IntegerType, ir.FloatType, ir.ComplexType))
    meant = f"tensor<{text}>" if is_number else "tensor<4xf32>"
    raise ImportingError(
        f"{text} is not a type of the jaxpr dialect; the type of an array is one like {meant}"
    )


def _shape_said(type_: ir.RankedTensorType, extras: Mapping[str, ir.Attribute]) -> tuple[Any, ...]:
    """The shape that an encoding gives for a type."""
    said = decode(extras["shape"])
    constraints = decode(extras["constraints"]) if "constraints" in extras else ()
    if not all(isinstance(text, str) for text in (said, *constraints)):
        raise ImportingError(f"{type_}: expected strings as shape and constraints")
    shape = symbolic_shape(said, tuple(constraints))
    static = [None if type_.is_dynamic_dim(i) else d for i, d in enumerate(type_.shape)]
    if [d if core.is_constant_dim(d) else None for d in shape] != static:
        raise ImportingError(f'{type_}: the shape "{said}" does not match the tensor')
    return shape


def _make_reference(inner: ir.Type) -> Any:
    """The reference to a value of a type, whose encoding also describes the reference."""
    extras: dict[str, ir.Attribute] = {}
    if isinstance(inner, ir.RankedTensorType) and isinstance(inner.encoding, ir.DictAttr):
        extras = {item.name: item.attr for item in inner.encoding}
    ref_params = {name: decode(extras.pop(name)) for name in _OF_REFERENCES if name in extras}
    if ref_params:
        encoding = ir.DictAttr.get(extras) if extras else None
        inner = ir.RankedTensorType.get(inner.shape, inner.element_type, encoding)
    return state_types.AbstractRef(aval_of(inner), **ref_params)


def _make_shaped_array(type_: ir.RankedTensorType) -> Any:
    encoding = type_.encoding
    dtype = dtype_of(type_.element_type)
    if encoding is None:
        if not type_.has_static_shape:
            raise ImportingError(f'{type_}: a dynamic shape needs an encoding {{shape = "b, ..."}}')
        return core.ShapedArray(tuple(type_.shape), dtype)
    if not isinstance(encoding, ir.DictAttr):
        raise ImportingError(f"{type_}: the encoding is not a dictionary")
    extras = {item.name: item.attr for item in encoding}
    if unknown := sorted(extras.keys() - _OF_TENSORS):
        expected = ", ".join(map(repr, _OF_TENSORS))
        raise ImportingError(
            f"{type_}: expected an encoding with keys among {expected}, got '{unknown[0]}'"
        )
    shape = _shape_said(type_, extras) if "shape" in extras else tuple(type_.shape)
    kwargs: dict[str, Any] = {}
    if "mesh" in extras:
        from jax.sharding import NamedSharding

        kwargs["sharding"] = NamedSharding(decode(extras["mesh"]), decode(extras["spec"]))
        if "manual" in extras:
            kwargs["manual_axis_type"] = decode(extras["manual"])
    for name in ("memory_space", "layout"):
        if name in extras:
            kwargs[name] = decode(extras[name])
    space = kwargs.get("memory_space", core.MemorySpace.Device)
    if not isinstance(space, core.MemorySpace):
        raise ImportingError(f"{type_}: expected a MemorySpace as memory_space, got {space!r}")
    return core.ShapedArray(shape, dtype, "weak_type" in extras, **kwargs)


def _decode_type(attr: ir.TypeAttr, _: Reader) -> Any:
    """The abstract value, or the dtype, that a type represents as a parameter."""
    type_ = attr.value
    if isinstance(type_, ir.NoneType):
        return None
    text = str(type_)
    if isinstance(type_, ir.RankedTensorType) or text.startswith(
        ("!jaxpr.ref<", "!jaxpr.token", "!jaxpr.aval<")
    ):
        return aval_of(type_)
    return dtype_of(type_)


attribute_decoders[ir.TypeAttr] = _decode_type


def dense(value: np.ndarray) -> ir.Attribute:
    """``dense<...> : tensor<...>`` with exactly the bits of ``value``."""
    if value.shape:
        return _dense(value)
    key = value.dtype, value.tobytes()
    attr = _scalars.get(key)
    if attr is None:
        attr = _scalars[key] = _dense(value)
    return attr


# Keyed by dtype and bits.  MLIR keeps the attributes alive anyway.
_scalars: dict[tuple[np.dtype, bytes], ir.Attribute] = {}


def _dense(value: np.ndarray) -> ir.Attribute:
    with scope():
        if value.dtype == dtypes.float0:
            value = np.zeros(value.shape, np.bool_)
        # The bindings assume the machine's byte order.
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        return ir.DenseElementsAttr.get(
            np.ascontiguousarray(value), type=element_of(value.dtype), shape=value.shape
        )


# Element types that the bindings give to numpy exactly; others are read from the printed form.
_BUFFER_TYPES = {f"{s}{n}" for s in ("i", "ui") for n in (8, 16, 32, 64)} | {"f16", "f32", "f64"}
_BUFFER_TYPES.add("i1")
_LARGE_BYTES = 1 << 20


def undense(attr: ir.DenseElementsAttr) -> np.ndarray:
    """The array that :func:`dense` wrote as ``attr``, bit for bit."""
    type_ = attr.type
    dtype = np.dtype(dtype_of(type_.element_type))
    shape = tuple(type_.shape)
    if math.prod(shape) * dtype.itemsize > _LARGE_BYTES and attr.is_splat:
        # A few bytes of text may represent any number of elements, so this stays a broadcast.
        return np.broadcast_to(_parse_dense(str(attr), dtype, ()), shape)
    if str(type_.element_type) in _BUFFER_TYPES:
        return np.array(attr, dtype=dtype).reshape(shape)
    return _parse_dense(str(attr), dtype, shape)


_ATOM = r"true|false|0x[0-9A-Fa-f]+|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?"


def _parse_dense(text: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Reads MLIR's printed elements: decimals round-trip, hexadecimals are bit patterns."""
    body = text[text.index("<") + 1 : text.rindex("> : ")]
    size = int(np.prod(shape, dtype=np.int64))
    if body.startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
        return np.broadcast_to(flat, size).reshape(shape).copy()
    part = np.empty((), dtype).real.dtype if dtype.kind == "c" else dtype
    atoms = [_parse_atom(match[0], part) for match in re.finditer(_ATOM, body)]
    flat = np.array(atoms, part)
    if dtype.kind == "c":
        flat = flat.view(dtype)
    return np.broadcast_to(flat, size).reshape(shape).copy() if size else np.zeros(shape, dtype)


def _parse_atom(text: str, dtype: np.dtype) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x"):
        bits = np.array(int(text, 16), f"u{dtype.itemsize}")
        return bits.view(dtype)[()]
    if "int" in dtype.name:
        return np.array(int(text)).astype(dtype)[()]
    return np.array(float(text)).astype(dtype)[()]


def _decode_dense(attr: ir.DenseElementsAttr, _: Reader) -> np.ndarray:
    """The array, which every program that has the attribute gets, and so must not be written to."""
    array = undense(attr)
    array.flags.writeable = False
    return array


attribute_decoders[ir.DenseElementsAttr] = _decode_dense

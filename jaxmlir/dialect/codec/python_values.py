"""Codecs of values of Python and numpy: numbers, strings, tuples, dictionaries, dtypes, arrays."""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxmlir.dialect import handles
from jaxmlir.dialect.codec.registry import (
    HANDLE,
    NO_MODULE,
    Reader,
    Writer,
    array,
    bases,
    by_value,
    cache,
    cached,
    decode,
    decoders,
    encode,
    encode_handle,
    encoders,
    string,
    tagged,
    tagged_as,
)
from jaxmlir.dialect.codec.types import dense, element_of, undense
from jaxmlir.dialect.ir import context, ir, scope
from jaxmlir.errors import ImportingError


def _int(value: int) -> ir.Attribute:
    if -(2**63) <= value < 2**63:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))
    return tagged("int", ir.StringAttr.get(str(int(value))))


def _float(value: float, _: Writer = NO_MODULE) -> ir.Attribute:
    with scope():
        return ir.FloatAttr.get(ir.F64Type.get(), float(value))


def _tuple(value: tuple, writer: Writer) -> ir.Attribute:
    try:
        # As a key, this distinguishes 1, True and 1.0, which are equal.
        key = marshal.dumps(value, 2)
    except ValueError:
        return _uncached_tuple(value, writer)
    encoded = cache.get(key)
    if encoded is None:
        encoded = _uncached_tuple(value, writer)
        if _is_plain(value):
            cache[key] = encoded
    return encoded


_PLAIN = frozenset({int, bool, float, str, type(None)})


def _is_plain(value: tuple) -> bool:
    """Whether a tuple holds only numbers, strings and such tuples; others may share their bytes."""
    return all(_is_plain(v) if type(v) is tuple else type(v) in _PLAIN for v in value)


def _uncached_tuple(value: tuple, writer: Writer) -> ir.Attribute:
    kinds = set(map(type, value))
    if np.int64 in kinds and kinds <= {int, np.int64}:
        # Rules compute axes and sizes with numpy; JAX treats these as plain integers.
        value, kinds = tuple(map(int, value)), {int}
    with context():
        if kinds == {int} and all(-(2**63) <= v < 2**63 for v in value):
            return ir.DenseI64ArrayAttr.get(list(value))
        if kinds == {bool}:
            return ir.DenseBoolArrayAttr.get(list(value))
        return array([encode(v, writer) for v in value])


def _items(value: Iterable[Any], writer: Writer) -> ir.Attribute:
    return array([encode(v, writer) for v in value])


def _pairs(value: dict, writer: Writer) -> ir.Attribute:
    return array([_items(pair, writer) for pair in value.items()])


def _sorted(value: frozenset | set, writer: Writer) -> ir.Attribute:
    return array(sorted((encode(v, writer) for v in value), key=str))


_encode_set = tagged_as(
    "set", _sorted, lambda attr, reader: frozenset(decode(item, reader) for item in attr)
)


def encode_dtype(value: Any) -> ir.Attribute:
    return ir.TypeAttr.get(element_of(value))


_PYTHON_SCALARS = (bool, int, float, complex)

# The factories that a `defaultdict`, and so the data of a pytree, may have.
_CONTAINERS = {cls.__name__: cls for cls in (bytes, dict, frozenset, list, set, str, tuple)}


def encode_class(value: type, writer: Writer) -> ir.Attribute:
    if _CONTAINERS.get(value.__name__) is value:
        with context():
            return tagged("container_type", ir.StringAttr.get(value.__name__))
    try:
        dtype = np.dtype(value) if value is not object else None
    except TypeError:
        dtype = None
    if dtype is None or value not in (dtype.type, *_PYTHON_SCALARS):
        return encode_handle(value, writer)
    with context():
        if value in _PYTHON_SCALARS:
            return tagged("scalar_type", ir.StringAttr.get(value.__name__))
        return tagged("scalar_type", encode_dtype(dtype))


def _decode_scalar_type(attr: ir.Attribute, _: Reader) -> type:
    if isinstance(attr, ir.StringAttr):
        return {cls.__name__: cls for cls in _PYTHON_SCALARS}[attr.value]
    return decode(attr).type


def _ndarray(value: np.ndarray, writer: Writer) -> ir.Attribute:
    if value.dtype == object:
        with context():
            items = array([encode(item, writer) for item in value.flat])
            return tagged("objects", array([encode(value.shape, writer), items]))
    if not _has_tensors(value.dtype):
        return encode_handle(value, writer)
    return dense(np.asarray(value))


def _has_tensors(dtype: np.dtype) -> bool:
    """Whether tensors can have a dtype; not those of strings, dates and records."""
    try:
        element_of(dtype)
    except ImportingError:
        return False
    return True


def _decode_objects(attr: ir.Attribute, reader: Reader) -> np.ndarray:
    shape, items = (decode(part, reader) for part in attr)
    objects = np.empty(len(items), object)
    for i, item in enumerate(items):
        # A single assignment would take tuples of the same length for rows.
        objects[i] = item
    objects = objects.reshape(shape)
    objects.flags.writeable = False
    return objects


def _tensor_of_scalar(value: np.generic, _: Writer) -> ir.Attribute | None:
    return dense(np.asarray(value)) if _has_tensors(value.dtype) else None


encoders.update(
    {
        type(None): cached(lambda _: ir.TypeAttr.get(ir.NoneType.get())),
        bool: cached(ir.BoolAttr.get),
        int: cached(_int),
        float: _float,
        complex: by_value(
            "complex", lambda value: (value.real, value.imag), lambda parts: complex(*parts)
        ),
        str: cached(ir.StringAttr.get),
        bytes: cached(lambda value: tagged("bytes", ir.StringAttr.get(value.hex()))),
        # An element of an array of strings; it is equal to the string.
        np.str_: cached(lambda value: ir.StringAttr.get(str(value))),
        tuple: _tuple,
        # JAX treats a sequence of axes as a tuple, however a caller of `lax` wrote it.
        range: lambda value, writer: _tuple(tuple(value), writer),
        list: tagged_as(
            "list", _items, lambda attr, reader: [decode(item, reader) for item in attr]
        ),
        dict: tagged_as(
            "dict", _pairs, lambda attr, reader: dict(decode(item, reader) for item in attr)
        ),
        **dict.fromkeys((frozenset, set), _encode_set),
    }
)
bases.update(
    {
        np.dtype: cached(encode_dtype),
        np.generic: tagged_as("scalar", _tensor_of_scalar, lambda attr, _: undense(attr)[()]),
        np.ndarray: _ndarray,
    }
)
decoders.update(
    {
        "int": lambda attr, _: int(string(attr)),
        "bytes": lambda attr, _: bytes.fromhex(string(attr)),
        "objects": _decode_objects,
        "scalar_type": _decode_scalar_type,
        "container_type": lambda attr, _: _CONTAINERS[string(attr)],
        HANDLE: lambda attr, _: handles.get(string(attr)),
    }
)

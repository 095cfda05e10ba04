"""Arrays as ``dense`` attributes, with exactly their bits.

NaN payloads, signed zeros, 4- and 8-bit floats, small integers and complex numbers all survive.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.dialect.codec.registry import attribute_decoders
from jaxmlir.dialect.codec.types import dtype_of, element_of
from jaxmlir.dialect.ir import ir, scope


def dense(value: np.ndarray) -> ir.Attribute:
    """``dense<...> : tensor<...>`` with exactly the bits of ``value``."""
    if value.shape:
        return _dense(value)
    key = value.dtype, value.tobytes()
    found = _scalars.get(key)
    if found is None:
        found = _scalars[key] = _dense(value)
    return found


# By dtype and bits.  MLIR keeps the attributes anyway.
_scalars: dict[tuple[np.dtype, bytes], ir.Attribute] = {}


def _dense(value: np.ndarray) -> ir.Attribute:
    with scope():
        if value.dtype == dtypes.float0:
            value = np.zeros(value.shape, np.bool_)
        # The bindings take the bytes for those of the machine's order.
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        return ir.DenseElementsAttr.get(
            np.ascontiguousarray(value), type=element_of(value.dtype), shape=value.shape
        )


# What the bindings hand to numpy exactly; the rest is read from the printed form.
_BUFFER_TYPES = {f"{s}{n}" for s in ("i", "ui") for n in (8, 16, 32, 64)} | {"f16", "f32", "f64"}
_BUFFER_TYPES.add("i1")
_LARGE_BYTES = 1 << 20


def undense(attr: ir.DenseElementsAttr) -> np.ndarray:
    """The array that :func:`dense` wrote as ``attr``, bit for bit."""
    type_ = attr.type
    dtype = np.dtype(dtype_of(type_.element_type))
    shape = tuple(type_.shape)
    if math.prod(shape) * dtype.itemsize > _LARGE_BYTES and attr.is_splat:
        # A few bytes of text may stand for any number of elements: they stay one.
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


attribute_decoders[ir.DenseElementsAttr] = lambda attr, _: undense(attr)

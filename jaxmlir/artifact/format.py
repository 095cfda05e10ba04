"""What the parts of an artifact are called, and how arrays of each dtype are stored."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np

from jaxmlir.artifact.container import Part
from jaxmlir.errors import ArtifactError

# The version of the container's contents; that of the dialect is the module's.
VERSION = 1

MODULE = "module"
CONSTANT = "constant."
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,254}"

# Element types of the dialect that safetensors has a dtype for.
_DTYPES = {
    "i1": "BOOL", "i8": "I8", "ui8": "U8", "i16": "I16", "ui16": "U16", "i32": "I32",
    "ui32": "U32", "i64": "I64", "ui64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32",
    "f64": "F64", "complex<f32>": "C64", "f8E5M2": "F8_E5M2", "f8E4M3FN": "F8_E4M3",
    "f8E8M0FNU": "F8_E8M0",
}  # fmt: skip


def digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def check_name(name: Any) -> str:
    """A constant's name, which is one word: no path, no blank.

    Raises:
      ArtifactError: it is something else.
    """
    if isinstance(name, str) and re.fullmatch(_NAME, name) and ".." not in name:
        return name
    raise ArtifactError(
        f"{name!r} cannot name a constant: expected up to 255 letters, digits, '_', '-' and '.', "
        "but not '..'"
    )


def part_of(array: np.ndarray) -> tuple[str, Part]:
    """The element type and the part of an array.

    A dtype that safetensors lacks (four-bit numbers, complex128 ...) is stored as the bytes of each
    element, in a last dimension of their number.
    """
    from jaxmlir.dialect.types import element_of

    element = str(element_of(array.dtype))
    # `np.ascontiguousarray` would give a scalar a dimension.
    array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    data = array.reshape(-1).view(np.uint8).data
    if element in _DTYPES:
        return element, Part(_DTYPES[element], array.shape, data)
    return element, Part("U8", (*array.shape, array.dtype.itemsize), data)


def array_type(name: str, element: Any, part: Part) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype and shape of a stored array.

    Raises:
      ArtifactError: the part cannot be an array of that element type.
    """
    from jaxmlir.dialect.types import dtype_called

    dtype = dtype_called(element) if isinstance(element, str) else None
    if dtype is None:
        raise ArtifactError(f"constant {name!r} has the unknown element type {element!r}")
    if element in _DTYPES:
        expected, shape = _DTYPES[element], part.shape
    else:
        expected, shape = "U8", part.shape[:-1]
        if part.shape[-1:] != (dtype.itemsize,):
            expected = f"U8 with a last dimension of {dtype.itemsize}"
    if part.dtype != expected:
        raise ArtifactError(
            f"constant {name!r} of {element} is stored as {part.dtype}{list(part.shape)}, "
            f"expected {expected}"
        )
    return dtype, shape


def array_of(part: Part, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A part's data as an array that shares it; read-only."""
    return np.frombuffer(part.data, dtype).reshape(shape)

"""The file format: a safetensors file of named byte arrays, sealed by digests.

::

    8 bytes        length N of the header, little-endian; 8 + N is a multiple of 64
    N bytes        the header, JSON padded with spaces
    ...            the data of the tensors, without gaps, in the order of their offsets

Any reader of safetensors can read the arrays of an artifact. The reader here is stricter, since it
trusts nothing, and maps the file instead of reading it. The writer replaces a file completely or
not at all. See ``docs/artifact.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import mmap
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir.errors import ArgumentError, ArtifactError

# Header and data begin at multiples of this, where a device can use mapped data as it is.
ALIGNMENT = 64
MAX_HEADER = 16 << 20

# By element type of the dialect, safetensors' name and the bytes of an element; what it has no name
# for is stored as bytes.
_DTYPES = {
    "i1": ("BOOL", 1), "i8": ("I8", 1), "ui8": ("U8", 1), "i16": ("I16", 2), "ui16": ("U16", 2),
    "i32": ("I32", 4), "ui32": ("U32", 4), "i64": ("I64", 8), "ui64": ("U64", 8),
    "f8E5M2": ("F8_E5M2", 1), "f8E4M3FN": ("F8_E4M3", 1), "f8E8M0FNU": ("F8_E8M0", 1),
    "f16": ("F16", 2), "bf16": ("BF16", 2), "f32": ("F32", 4), "f64": ("F64", 8),
    "complex<f32>": ("C64", 8),
}  # fmt: skip
ITEM_SIZES = dict(_DTYPES.values())
METADATA = "jaxmlir"
SEAL = "seal"


class StoredArray(NamedTuple):
    """A named array of the file: its safetensors type, shape and bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: Any


def parse_json(text: str | bytes, what: str) -> Any:
    """JSON without duplicate keys; an :class:`ArtifactError` if it is malformed."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as e:
        raise ArtifactError(f"{what} is not well-formed JSON: {e}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has the same key twice")
    return members


# --- reading ----------------------------------------------------------------------------------


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The contents of a file, mapped: the operating system reads them when they are accessed."""
    with open(os.fspath(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


def contents(source: Any) -> tuple[memoryview, str]:
    """The contents of a file, and its name in errors.

    Args:
      source: a path; or the contents: bytes, or a binary stream, which is read to its end.

    Raises:
      ArgumentError: it is none of these.
      OSError: it cannot be read.
    """
    # A path may be bytes, too; contents are told apart by a zero byte, which an artifact begins
    # with, or a line break, which a text has.
    if isinstance(source, bytearray | memoryview) or (
        isinstance(source, bytes) and (not source or 0 in source or b"\n" in source)
    ):
        return memoryview(source).cast("B").toreadonly(), "<bytes>"
    if isinstance(source, str | bytes | os.PathLike):
        return map_file(source), os.fsdecode(source)
    if hasattr(source, "read"):
        data = source.read()
        if isinstance(data, bytes):
            return memoryview(data), str(getattr(source, "name", "<stream>"))
        raise ArgumentError(f"{source!r} was opened as text; an artifact is read in mode 'rb'")
    raise ArgumentError(
        f"expected a path, bytes or a binary stream of an artifact, got {type(source).__name__}"
    )


def unpack(buffer: memoryview) -> tuple[dict[str, Any], dict[str, StoredArray]]:
    """The metadata and the parts of a file; the parts' data are views of ``buffer``.

    The seal of the header is checked; the caller has to check the digests of the parts.

    Raises:
      ArtifactError: the file breaks the format.
    """
    start, header = _header(buffer)
    parts: dict[str, StoredArray] = {}
    position = start
    metadata = header.pop("__metadata__", None)
    for name, entry in header.items():
        parts[name], position = _part(name, entry, buffer, start, position)
    if position != len(buffer):
        raise ArtifactError(f"expected a file of {position} bytes by its header, got {len(buffer)}")
    seal = parts.pop(SEAL, None)
    if seal is None or bytes(seal.data) != hashlib.sha256(buffer[:start]).digest():
        raise ArtifactError("the header is damaged: its SHA-256 digest is absent or does not match")
    if not isinstance(metadata, dict) or not isinstance(metadata.get(METADATA), str):
        raise ArtifactError(
            f'this is a safetensors file, but not an artifact: its metadata has no "{METADATA}"'
        )
    return parse_json(metadata[METADATA], f'the metadata "{METADATA}"'), parts


def _header(buffer: memoryview) -> tuple[int, dict[str, Any]]:
    """The offset at which the data begins, and the header's entries."""
    if not len(buffer):
        raise ArtifactError("the file is empty: writing it was interrupted, or has not ended")
    length = int.from_bytes(buffer[:8], "little")
    start = 8 + length
    if len(buffer) < 8 or length > MAX_HEADER or start > len(buffer):
        if buffer[:4] == b"ML\xefR" or re.fullmatch(rb"[\t\n\r -~]+", buffer[:256]):
            raise ArtifactError(
                "expected an artifact, as program.save writes, got text or bytecode; read a "
                "program's text with jaxmlir.parse"
            )
        if 8 <= len(buffer) and length <= MAX_HEADER and buffer[8:10] in (b"", b"{", b'{"'):
            missing = f"its header ends at byte {start}"
            raise ArtifactError(f"the file is truncated to {len(buffer)} bytes: {missing}")
        from jaxmlir.dialect.bytecode import hint_of_exported

        raise ArtifactError(
            f"this is not an artifact: its first 8 bytes announce a header of {length} bytes (at "
            f"most {MAX_HEADER} are allowed), the file has {len(buffer)}{hint_of_exported(buffer)}"
        )
    if start % ALIGNMENT:
        raise ArtifactError(f"the data begins at byte {start}, expected a multiple of {ALIGNMENT}")
    header = parse_json(bytes(buffer[8:start]), "the header")
    if not isinstance(header, dict):
        raise ArtifactError("the header is not a JSON object")
    return start, header


def _part(
    name: str, entry: Any, buffer: memoryview, start: int, position: int
) -> tuple[StoredArray, int]:
    """One tensor of the header, which must begin where the previous one ends, and its end."""
    expected = {"dtype", "shape", "data_offsets"}
    if not isinstance(entry, dict) or entry.keys() != expected:
        raise ArtifactError(f"the header's entry {name!r} must have the keys {sorted(expected)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (_is_sizes(shape) and _is_sizes(offsets) and len(offsets) == 2):
        raise ArtifactError(f"the header's entry {name!r} has a malformed shape or data_offsets")
    if dtype not in ITEM_SIZES:
        raise ArtifactError(f"the header's entry {name!r} has the unknown dtype {dtype!r}")
    begin, end = start + offsets[0], start + offsets[1]
    size = math.prod(shape) * ITEM_SIZES[dtype]
    if begin == position and end - begin == size and end > len(buffer):
        missing = f"its part {name!r} ends at byte {end}"
        raise ArtifactError(f"the file is truncated to {len(buffer)} bytes: {missing}")
    if begin != position or end - begin != size:
        raise ArtifactError(
            f"the header's entry {name!r} has bytes {begin} to {end}, expected {size} bytes from "
            f"byte {position} on"
        )
    return StoredArray(dtype, tuple(shape), buffer[begin:end]), end


def _is_sizes(value: Any) -> bool:
    """Whether a JSON value is a list of dimensions or offsets."""
    return (
        isinstance(value, list)
        and len(value) <= 64
        and all(type(n) is int and 0 <= n < 1 << 63 for n in value)
    )


# --- writing ----------------------------------------------------------------------------------


def pack(metadata: Mapping[str, Any], parts: Mapping[str, StoredArray]) -> list[Any]:
    """The pieces of a file with these parts in this order, to be written one after another."""
    header: dict[str, Any] = {"__metadata__": {METADATA: _compact(metadata)}}
    position = 0
    pieces: list[Any] = []
    for name, part in {**parts, SEAL: StoredArray("U8", (32,), bytes(32))}.items():
        size = math.prod(part.shape) * ITEM_SIZES[part.dtype]
        header[name] = {
            "dtype": part.dtype,
            "shape": list(part.shape),
            "data_offsets": [position, position + size],
        }
        position += size
        pieces.append(part.data)
    text = _compact(header).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    start = len(text).to_bytes(8, "little") + text
    return [start, *pieces[:-1], hashlib.sha256(start).digest()]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def write(target: Any, pieces: Sequence[Any]) -> None:
    """Writes the pieces of a file to a path, by :func:`write_atomically`, or to a binary stream.

    Raises:
      ArgumentError: the target is neither.
      OSError: it cannot be written.
    """
    if isinstance(target, str | bytes | os.PathLike):
        write_atomically(target, pieces)
    elif hasattr(target, "write") and not isinstance(target, io.TextIOBase):
        for piece in pieces:
            target.write(piece)
    else:
        raise ArgumentError(f"expected a path or a binary stream to write to, got {target!r}")


def write_atomically(path: str | os.PathLike[str], pieces: Sequence[Any]) -> None:
    """Writes a file so that its name always refers to the old contents or to all of the new.

    The new contents are on the disk before the file gets its name. A device or a pipe keeps its
    name, and is written to directly.

    Raises:
      OSError: the file cannot be written; no temporary file is left beside it.
    """
    if _is_no_file(path):
        with open(path, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
        return
    path = os.path.realpath(os.fsdecode(path))
    try:
        with _temporary_beside(path) as (file, temporary):
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
    except OSError as e:
        # The error names the path, not the temporary file.
        raise OSError(e.errno, e.strerror, path) from None
    with contextlib.suppress(OSError):  # Not every system can open a directory.
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _is_no_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path names something that is neither a file nor a directory."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def _temporary_beside(path: str) -> Iterator[tuple[Any, str]]:
    """A temporary file beside ``path``, with the permissions of the file that it replaces."""
    directory, name = os.path.split(path)
    # A file name has at most 255 bytes, and a character up to four.
    temporary = os.path.join(directory, f".{name[:50]}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            with contextlib.suppress(OSError):
                os.chmod(temporary, os.stat(path).st_mode & 0o777)
            yield file, temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


# --- what the parts are ---------------------------------------------------------------------------

# The version of the container's contents; the module has that of the dialect.
VERSION = 1

MODULE = "module"
CONSTANT = "constant."
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,254}"


def dtype_called(name: str) -> np.dtype | None:
    """The dtype that safetensors has this name for; ``None`` if that is none of JAX's."""
    from jaxmlir.dialect import types

    elements = {stored: element for element, (stored, _) in _DTYPES.items()}
    return types.dtype_called(elements[name]) if name in elements else None


def digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def check_name(name: Any) -> str:
    """Checks a constant's name, which is one word, no path and no blank; else an ArtifactError."""
    if isinstance(name, str) and re.fullmatch(_NAME, name) and ".." not in name:
        return name
    raise ArtifactError(
        f"{name!r} cannot name a constant: expected up to 255 letters, digits, '_', '-' and '.', "
        "but not '..'"
    )


def part_of(array: np.ndarray) -> tuple[str, StoredArray]:
    """The element type and the stored form of an array.  A dtype that safetensors lacks (four-bit
    numbers, complex128 ...) is stored as bytes, with the bytes of an element along an additional
    last dimension."""
    from jaxmlir.dialect.types import element_of

    element = str(element_of(array.dtype))
    # `np.ascontiguousarray` would give a scalar a dimension.
    array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    data = array.reshape(-1).view(np.uint8).data
    if element in _DTYPES:
        return element, StoredArray(_DTYPES[element][0], array.shape, data)
    return element, StoredArray("U8", (*array.shape, array.dtype.itemsize), data)


def array_type(name: str, element: Any, part: StoredArray) -> tuple[np.dtype, tuple[int, ...]]:
    """The dtype and shape of a stored array; an :class:`ArtifactError` if the part cannot be
    one."""
    from jaxmlir.dialect.types import dtype_called

    dtype = dtype_called(element) if isinstance(element, str) else None
    if dtype is None:
        raise ArtifactError(f"constant {name!r} has the unknown element type {element!r}")
    if element in _DTYPES:
        expected, shape = _DTYPES[element][0], part.shape
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


def array_of(part: StoredArray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A part's data as a read-only array that shares its memory."""
    return np.frombuffer(part.data, dtype).reshape(shape)

"""Bytes under digests, in files that several processes read and add to without waiting.

A file is written once, under another name first, and never changed: readers see all of it or none,
whoever is interrupted.  Each process writes what it has made to a file of its own.  A process that
finds many files writes one in their place; whoever looks for one meanwhile misses what was in it,
and makes it again.

A file is ``MAGIC``, the number of its entries, a digest of their rows, the rows, and the values::

    row    key (16 bytes), digest of key and value (16), the value's place (8) and size (4)

Each value is checked against its digest when it is read, so that a damaged one is missing.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b

MAGIC = b"jxmlrul1"
SUFFIX = ".rules"
_UNFINISHED = ".new"
MAX_FILES = 8
"""A process that finds as many writes one file in their place."""
MAX_BYTES = 64 << 20
"""Of values in that one; the oldest are left out."""

_HEAD = struct.Struct("<8sI16s")
_ROW = struct.Struct("<16s16sQI")


def digest(*parts: bytes) -> bytes:
    """16 bytes that tell values apart."""
    return blake2b(b"".join(parts), digest_size=16).digest()


class RuleFiles:
    """The entries in a directory, and those that this process has made.

    Whatever goes wrong with files means that entries are missing, or stay unwritten.
    """

    def __init__(self, directory: str):
        self.directory = directory
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._files: dict[str, mmap.mmap] = {}
        # Where each value is: the file, the value's digest, its place and its size.
        self._rows: dict[bytes, tuple[mmap.mmap, bytes, int, int]] = {}
        self._new: dict[bytes, Callable[[], bytes | None]] = {}
        with contextlib.suppress(OSError):
            for name in self._names():
                self._open(name)

    def after_fork(self) -> None:
        """To be called in a child process: it is the parent that writes what the parent made."""
        self._lock = threading.Lock()
        self._new.clear()

    def find(self, key: bytes) -> bytes | None:
        """The value that was kept for a key by another process."""
        value = self._value(key)
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
        return value

    def add(self, key: bytes, make: Callable[[], bytes | None]) -> None:
        """Keeps a value for a key, as soon as :meth:`write` is called.

        Args:
          make: gives the value, or ``None`` where there is nothing to keep after all.
        """
        self._new[key] = make

    @property
    def waiting(self) -> int:
        """How many entries have been added and not written."""
        return len(self._new)

    def write(self) -> None:
        """Writes what was added to a file."""
        with self._lock:
            new: dict[bytes, bytes] = {}
            while self._new:
                key, make = self._new.popitem()
                value = make()
                if value is not None:
                    new[key] = value
            if not new:
                return
            with contextlib.suppress(OSError):
                os.makedirs(self.directory, 0o700, exist_ok=True)
                names = self._names()
                if len(names) < MAX_FILES:
                    self._write_file(new)
                else:
                    self._merge(names, new)

    def _names(self) -> list[str]:
        """The files in the directory, the oldest first."""
        return [name for _, name in sorted(self._entries(SUFFIX))]

    def _left_behind(self) -> list[str]:
        """What processes began to write that were ended."""
        long_ago = time.time_ns() - 3600 * 10**9
        return [name for written, name in self._entries(_UNFINISHED) if written < long_ago]

    def _entries(self, suffix: str) -> Iterator[tuple[int, str]]:
        """When files with a suffix were written, in nanoseconds, and their names."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                # Another process may remove it meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    if entry.name.endswith(suffix):
                        yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.name

    def _open(self, name: str) -> None:
        """Reads the rows of a file that this user wrote."""
        flags = os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")
        try:
            descriptor = os.open(os.path.join(self.directory, name), flags)
        except OSError:
            return
        try:
            if not _is_own(os.fstat(descriptor)):
                return
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            return
        finally:
            os.close(descriptor)
        self._files[name] = data
        for key, check, place, size in _rows(data):
            self._rows[key] = data, check, place, size

    def _value(self, key: bytes) -> bytes | None:
        row = self._rows.get(key)
        if row is None:
            return None
        data, check, place, size = row
        value = data[place : place + size]
        if digest(key, value) != check:
            del self._rows[key]
            return None
        return value

    def _write_file(self, values: Mapping[bytes, bytes]) -> None:
        path = os.path.join(self.directory, f"{os.urandom(8).hex()}{SUFFIX}")
        other = path + _UNFINISHED
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("O_BINARY")
        try:
            with open(os.open(other, flags, 0o600), "wb") as file:
                file.writelines(_parts(values))
            os.replace(other, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(other)
            raise

    def _merge(self, names: list[str], new: dict[bytes, bytes]) -> None:
        """Writes one file of what is in several, and new entries."""
        for name in names:
            if name not in self._files:
                self._open(name)
        left = MAX_BYTES - sum(map(len, new.values()))
        # The last that were opened are the newest.
        for key in reversed(list(self._rows)):
            value = None if key in new else self._value(key)
            if value is not None:
                left -= len(value)
                if left < 0:
                    break
                new[key] = value
        self._write_file(new)
        for name in [*names, *self._left_behind()]:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.directory, name))


def _flags(*names: str) -> int:
    """Those flags of ``os.open`` that this system has."""
    return sum(getattr(os, name, 0) for name in names)


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is a plain one of this user's, that no other may write to."""
    mine = not hasattr(os, "getuid") or (
        status.st_uid == os.getuid() and not status.st_mode & 0o022
    )
    return mine and stat.S_ISREG(status.st_mode)


def _rows(data: mmap.mmap) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The rows of a file; none of one that is no such file or is damaged there."""
    if len(data) < _HEAD.size:
        return iter(())
    magic, count, check = _HEAD.unpack(data[: _HEAD.size])
    rows = data[_HEAD.size : _HEAD.size + count * _ROW.size]
    if magic != MAGIC or len(rows) != count * _ROW.size or digest(rows) != check:
        return iter(())
    return _ROW.iter_unpack(rows)


def _parts(values: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """What a file of these values consists of."""
    place = _HEAD.size + len(values) * _ROW.size
    rows = bytearray()
    for key, value in values.items():
        rows += _ROW.pack(key, digest(key, value), place, len(value))
        place += len(value)
    yield _HEAD.pack(MAGIC, len(values), digest(rows))
    yield bytes(rows)
    yield from values.values()

"""A cache on disk of the output of JAX's rules for ops.

A fresh process that differentiates and lowers a program runs JAX's rules some two hundred times,
and gets the same output as the process before it: templates, which are text.  Templates are cached
by the op's signature.  The results of an optimization level (:mod:`jaxmlir.passes.kept`) are cached
by the module and the target.  Keys also contain everything else that the output may depend on:

* The versions of Python and of the packages that JAX computes with, and the sources of JAX and of
  this package.  Each combination has its own directory.
* JAX's configuration, flags and contexts.  In a context that is not a plain value, such as a mesh
  or a named axis, the cache is not used.
* The rules themselves.  JAX's own rules are trusted, including the functions that they close over.
  The output for ops with a rule from elsewhere is never cached.  Because rules use each other, the
  code of such rules and the values that it reads are part of all keys.  If these cannot be
  determined, the cache is not used.

Nothing that is read is executed: values are parsed as MLIR, after their digest was checked.

``JAXMLIR_CACHE_DIR`` in the environment names the directory; without it there is no cache.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import functools
import itertools
import json
import mmap
import os
import shutil
import stat
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import jax
import jaxlib
import ml_dtypes
import numpy as np

from jaxmlir._compat import config, core, mlir
from jaxmlir.dialect import ops, primitives
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.support.files import PACKAGE, directory

MAGIC = b"jxmlrul1"
SUFFIX = ".rules"
_UNFINISHED = ".new"
MAX_FILES = 8
"""A process that finds this many files merges them into one."""
MAX_BYTES = 64 << 20
"""The most bytes of values in the merged file; the oldest are left out."""

_HEAD = struct.Struct("<8sI16s")
_ROW = struct.Struct("<16s16sQI")


def digest(*parts: bytes) -> bytes:
    """A 16-byte hash of the concatenated parts."""
    return blake2b(b"".join(parts), digest_size=16).digest()


class RuleFiles:
    """The entries in a directory, and the new ones of this process.  Errors of the file system only
    cause entries to be missing or unwritten."""

    def __init__(self, directory: str):
        self.directory = directory
        self.hits: int = 0
        self.misses: int = 0
        self._lock = threading.Lock()
        self._files: dict[str, mmap.mmap] = {}
        # For each key: the file, the value's digest, its offset and its size.
        self._rows: dict[bytes, tuple[mmap.mmap, bytes, int, int]] = {}
        self._new: dict[bytes, Callable[[], bytes | None]] = {}
        with contextlib.suppress(OSError):
            for name in self._names():
                self._open(name)

    def after_fork(self) -> None:
        """Forgets, in a child process, the new entries of the parent, which writes them itself."""
        self._lock = threading.Lock()
        self._new.clear()

    def find(self, key: bytes) -> bytes | None:
        """The value that another process has stored for a key; ``None`` if there is none."""
        value = self._value(key)
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
        return value

    def add(self, key: bytes, make: Callable[[], bytes | None]) -> None:
        """Stores a value for a key when :meth:`write` is called next; ``make`` may give ``None``
        after all."""
        self._new[key] = make

    @property
    def waiting(self) -> int:
        """The number of entries that were added and not yet written."""
        return len(self._new)

    def write(self) -> None:
        """Writes the added entries to a file."""
        with self._lock:
            entries: dict[bytes, bytes] = {}
            while self._new:
                key, make = self._new.popitem()
                value = make()
                if value is not None:
                    entries[key] = value
            if not entries:
                return
            with contextlib.suppress(OSError):
                os.makedirs(self.directory, 0o700, exist_ok=True)
                names = self._names()
                if len(names) < MAX_FILES:
                    self._write_file(entries)
                else:
                    self._merge(names, entries)

    def _names(self) -> list[str]:
        """The files in the directory, the oldest first."""
        return [name for _, name in sorted(self._entries(SUFFIX))]

    def _left_behind(self) -> list[str]:
        """Unfinished files of processes that ended while they wrote."""
        long_ago = time.time_ns() - 3600 * 10**9
        return [name for mtime, name in self._entries(_UNFINISHED) if mtime < long_ago]

    def _entries(self, suffix: str) -> Iterator[tuple[int, str]]:
        """Modification time, in nanoseconds, and name of each file with a suffix."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                # Another process may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    if entry.name.endswith(suffix):
                        yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.name

    def _open(self, name: str) -> None:
        """Reads the rows of a file, if this user owns it."""
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
        """Merges several files and new entries into one file."""
        for name in names:
            if name not in self._files:
                self._open(name)
        left = MAX_BYTES - sum(map(len, new.values()))
        # The rows opened last are the newest.
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
    """The combined flags of ``os.open``, without those that this system lacks."""
    return sum(getattr(os, name, 0) for name in names)


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is regular, owned by this user, and writable by no other."""
    mine = not hasattr(os, "getuid") or (
        status.st_uid == os.getuid() and not status.st_mode & 0o022
    )
    return mine and stat.S_ISREG(status.st_mode)


def _rows(data: mmap.mmap) -> Iterator[tuple[bytes, bytes, int, int]]:
    """The rows of a file; none if it is of another kind, or its rows are damaged."""
    if len(data) < _HEAD.size:
        return iter(())
    magic, count, check = _HEAD.unpack(data[: _HEAD.size])
    rows = data[_HEAD.size : _HEAD.size + count * _ROW.size]
    if magic != MAGIC or len(rows) != count * _ROW.size or digest(rows) != check:
        return iter(())
    return _ROW.iter_unpack(rows)


def _parts(values: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """The parts of a file with these values."""
    place = _HEAD.size + len(values) * _ROW.size
    rows = bytearray()
    for key, value in values.items():
        rows += _ROW.pack(key, digest(key, value), place, len(value))
        place += len(value)
    yield _HEAD.pack(MAGIC, len(values), digest(rows))
    yield bytes(rows)
    yield from values.values()


MAX_VERSIONS = 8
"""The number of versions of JAX and this package, the last ones used, whose entries are kept."""
INTERVAL = 10
"""The least time, in seconds, between two writes of a process."""


class RuleCache:
    """The cache for one configuration, ``without`` ops whose rules are not all JAX's own."""

    def __init__(self, files: RuleFiles, configuration: str, without: frozenset[str]):
        self.without = without
        self._files = files
        self._configuration = digest(configuration.encode())

    def key(self, *parts: str) -> bytes:
        """The key made of these texts and the configuration."""
        return digest(self._configuration, "\0".join(parts).encode())

    def key_of(self, signature: Signature, *parts: str) -> bytes | None:
        """The key of a rule's output for ops of a signature; ``None`` if it must not be stored."""
        if signature.text is None or signature.name in self.without:
            return None
        return self.key(signature.text, *parts)

    def find(self, key: bytes) -> bytes | None:
        """The value that an earlier process has stored for a key; ``None`` if there is none."""
        return self._files.find(key)

    def keep(self, key: bytes, make: Callable[[], bytes | None]) -> None:
        """Stores the result of ``make`` for later processes, unless it is ``None``."""
        self._files.add(key, make)

    def find_alike(self, key: bytes) -> tuple[bytes, tuple[int, ...]] | None:
        """The template of an earlier process for pointwise ops of a kind, and its shape."""
        entry = self._files.find(key)
        value = entry and self._files.find(entry[:16])
        return (value, tuple(json.loads(entry[16:]))) if entry and value else None

    def keep_alike(self, key: bytes, like: bytes, shape: tuple[int, ...]) -> None:
        """Stores the key of a template that serves pointwise ops of all shapes, and its shape."""
        self._files.add(key, lambda: like + json.dumps(shape).encode())


def current() -> RuleCache | None:
    """The cache for the present configuration; ``None`` if it must not be used."""
    files = kept_files()
    if files is None:
        return None
    registered = _rules.registered()
    if registered.fingerprint is None:
        return None
    contexts = list(map(plain_key, config.trace_context()))
    if None in contexts:
        return None
    # A rule may depend on flags that are not part of JAX's trace context.
    flags = config.config.values
    configuration = f"{contexts}\0{sorted(flags.items())}\0{registered.fingerprint}"
    return RuleCache(files, configuration, registered.ops)


def settle() -> None:
    """Writes new entries, unless the process did so a moment ago.  A server may be killed at any
    time, but makes most entries when it lowers its first program."""
    files = kept_files()
    if files is not None and files.waiting and time.monotonic() > _settled[0] + INTERVAL:
        _write(files)


_settled = [float("-inf")]


def _write(files: RuleFiles) -> None:
    _settled[0] = time.monotonic()
    if not os.path.isdir(files.directory):
        drop_versions(os.path.dirname(files.directory))
    files.write()


def drop_versions(root: str) -> None:
    """Removes the oldest versions to make room for one more."""
    with contextlib.suppress(OSError):
        versions = [e for e in os.scandir(root) if e.name.startswith(_PREFIX) and e.is_dir()]
        versions.sort(key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
        for entry in versions[MAX_VERSIONS - 1 :]:
            shutil.rmtree(entry.path, ignore_errors=True)


def plain_key(value: Any) -> str | None:
    """A text that identifies a value of JAX's configuration; ``None`` if there is no such text."""
    if value is None or isinstance(value, (bool, int, float, str, enum.Enum)):
        return repr(value)
    if isinstance(value, (tuple, frozenset)):
        items = list(map(plain_key, value))
        if None in items:
            return None
        return f"tuple{items}" if isinstance(value, tuple) else f"frozenset{sorted(items)}"
    is_default = value is _NO_AXES or getattr(value, "empty", False) is True
    return type(value).__name__ if is_default else None


_NO_AXES = core.AxisEnv()


# -- where --

_PREFIX = "rules-"
_opening = threading.Lock()


@functools.cache
def kept_files() -> RuleFiles | None:
    """The files in the directory that the environment names; ``None`` if it names none."""
    with _opening:
        return _open_files()


@functools.cache
def _open_files() -> RuleFiles | None:
    root = directory()
    if not root:
        return None
    try:
        version = digest(repr(version_key()).encode()).hex()
    except OSError:  # The package is no folder of files.
        return None
    files = RuleFiles(os.path.join(root, f"{_PREFIX}{version}"))
    atexit.register(lambda: files.waiting and _write(files))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=files.after_fork)
    return files


def version_key() -> tuple[Any, ...]:
    """The versions and sources of the code that contains or runs the rules."""
    jaxs = os.path.dirname(os.path.abspath(jax.__file__))
    sources = sorted((*sources_in(PACKAGE), *sources_in(os.path.join(jaxs, "_src"))))
    packages = (jax, jaxlib, ml_dtypes, np)
    return *(package.__version__ for package in packages), sys.version_info[:2], sources


def sources_in(folder: str) -> Iterator[tuple[str, int, int]]:
    """The path, size and modification time of each source file and each table of costs."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".toml")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from sources_in(entry.path)


# -- whose rules --


class ForeignRules(NamedTuple):
    """The rules for JAX's primitives that are not JAX's own."""

    ops: frozenset[str]
    """The ops of these primitives."""
    fingerprint: str | None
    """Identifies the rules; ``None`` if they cannot be identified."""


class _RuleRegistry:
    """The rules that are registered with JAX."""

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._own: dict[int, Any] = {}
        self._registered = ForeignRules(frozenset(), "")

    def registered(self) -> ForeignRules:
        """The rules of JAX's primitives that are not JAX's own."""
        registries = primitives.registries()
        seen = [rule for registry in registries for rule in registry.values()]
        # Comparing lists is fast: identical elements count as equal.
        if seen != self._seen:
            items = [item for registry in registries for item in registry.items()]
            rules = {id(rule): (p, rule) for p, rule in items if _is_known(p)}
            new = [rule for key, (_, rule) in rules.items() if key not in self._own]
            self._own = {}
            if not foreign(new) and not self._registered.ops:
                self._own = rules
            else:
                self._registered = _registered(rules.values())
            self._seen = seen
        return self._registered


_rules = _RuleRegistry()


def _registered(rules: Iterable[tuple[Any, Any]]) -> ForeignRules:
    functions = {(p.name, function) for p, rule in rules for function in foreign([rule])}
    names = frozenset(primitives.op_name(name) for name, _ in functions)
    texts = [(name, _text(function, set())) for name, function in functions]
    complete = all(text for _, text in texts)
    fingerprint = digest(str(sorted(texts)).encode()).hex() if complete else None
    return ForeignRules(names, fingerprint)


def _text(value: Any, seen: set[int]) -> str | None:
    """A text that identifies a rule, or a value that it reads; ``None`` if there is none."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return f"{type(value).__qualname__} {value!r}"
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, core.Primitive):
        return value.name if _is_known(value) else None
    if isinstance(value, functools.partial):
        return _texts([value.func, *value.args, value.keywords], seen)
    if not foreign([value]) and (name := getattr(value, "__qualname__", None)):
        return f"{value.__module__}.{name}"
    if id(value) in seen:
        return "seen"
    seen.add(id(value))
    if isinstance(value, (tuple, list)):
        return _texts(value, seen)
    if isinstance(value, dict):
        return _texts(itertools.chain(*value.items()), seen)
    if not isinstance(value, types.FunctionType):
        return None
    globals_ = value.__globals__
    held = _texts(
        [
            *_contents(value.__closure__ or ()),
            *(value.__defaults__, value.__kwdefaults__),
            *(globals_[name] for name in _names(value.__code__) if name in globals_),
        ],
        seen,
    )
    name = f"{value.__module__}.{value.__qualname__}"
    return held and f"{name} {_code(value.__code__)} {held}"


def _texts(values: Iterable[Any], seen: set[int]) -> str | None:
    texts = [_text(value, seen) for value in values]
    return None if None in texts else str(texts)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a code object and the functions in it look up."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _code(code: types.CodeType) -> tuple[Any, ...]:
    consts = [_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, consts


def _is_known(primitive: Any) -> bool:
    return isinstance(primitive, core.Primitive) and primitive.name in ops.BY_PRIMITIVE


def foreign(functions: Iterable[Any]) -> list[Any]:
    """The functions that are not JAX's, among the given ones and those that they close over."""
    pending, seen, modules = [*functions], set(), {*_MODULES}
    others = []
    # Each process that uses the cache runs this for thousands of functions.
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is types.FunctionType:
            cells = value.__closure__
            if cells is not None and id(value) not in seen:
                seen.add(id(value))
                pending += _contents(cells)
        elif kind is functools.partial:
            pending.append(value.func)
            pending += value.args
            pending += value.keywords.values()
            continue
        elif kind is tuple or kind is list:
            pending += value
            continue
        elif kind is dict:
            pending += value.values()
            continue
        elif kind is mlir.LoweringRuleEntry:
            pending.append(value.rule)
            continue
        elif not callable(value):
            continue
        module = getattr(value, "__module__", None)
        if module not in modules:
            if isinstance(module, str) and module.partition(".")[0] in _MODULES:
                modules.add(module)
            else:
                others.append(value)
    return others


def _contents(cells: Iterable[types.CellType]) -> Iterator[Any]:
    for cell in cells:
        with contextlib.suppress(ValueError):  # It has no value yet.
            yield cell.cell_contents


# The packages whose functions count as JAX's own.
_MODULES = frozenset({"jax", "jaxlib", "jaxmlir", "numpy", "ml_dtypes", "builtins"})

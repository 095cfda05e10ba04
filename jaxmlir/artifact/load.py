"""Loads a program from a file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator
from typing import Any, TypeVar

from jaxmlir.artifact import container, module_text
from jaxmlir.dialect.handles import Constants, UnreadArray
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module, version_fault
from jaxmlir.errors import ArtifactError, DiagnosticError, JaxmlirError
from jaxmlir.support.lazy import collector_paused

M = TypeVar("M", bound="Module")

# Up to this total size, arrays are checked when the file is opened, else when they are used.
EAGER_BYTES = 16 << 20


@collector_paused
def read(
    kind: type[M],
    buffer: memoryview,
    filename: str,
    as_flat: bool = False,
    allow_custom_calls: Collection[str] | None = (),
    verify: bool = True,
) -> M:
    """The program of an artifact's contents, as an object of class ``kind``; see
    :func:`jaxmlir.program.staging.load`."""
    from jaxmlir.artifact.decompose import adapt
    from jaxmlir.verify.verifier import verify as verify_program

    with refused(filename):
        allowed = None if allow_custom_calls is None else frozenset(allow_custom_calls)
        contents = Contents(buffer)
        program = kind(contents.module(), contents.constants, custom_calls=allowed)
        module_text.read_trees(program, as_flat)
        adapt(program, str(contents.metadata.get("jax")))
        if verify:
            _check_trees(program)
            verify_program(program, filename)
    return program


@contextlib.contextmanager
def refused(filename: str) -> Iterator[None]:
    """Turns any failure on a file's contents into an error that names the file."""
    try:
        yield
    except ArtifactError as e:
        if e.diagnostics[0].line:
            raise ArtifactError([d.placed(filename) for d in e.diagnostics]) from None
        raise ArtifactError(f"cannot load {filename}: {e.diagnostics[0].message}") from None
    except JaxmlirError:
        raise
    except Exception as e:
        # JAX's rules may raise anything on a malformed module.
        raise ArtifactError(
            f"cannot load {filename}: its program is malformed: {type(e).__name__}: {e}"
        ) from e


class Contents:
    """The parts of an artifact, which are checked except for large arrays.

    Attributes:
      metadata: the header's description of the artifact.
      constants: the arrays.
    """

    def __init__(self, buffer: memoryview):
        metadata, parts = container.unpack(buffer)
        self.metadata: dict[str, Any] = metadata
        self._check_versions()
        module = parts.pop(container.MODULE, None)
        if module is None or module.dtype != "U8":
            got = "none" if module is None else module.dtype
            raise ArtifactError(f"expected a part {container.MODULE!r} of dtype U8, got {got}")
        self._module = module.data
        _check_digest(self._module, self._field("module", "sha256", str), "the module")
        self.constants: Constants = Constants(self._arrays(parts))

    @property
    def module_size(self) -> int:
        """The number of bytes of the compressed module."""
        return len(self._module)

    def module(self) -> ir.Module:
        """The module, as far as MLIR verifies it."""
        return module_text.decompress(bytes(self._module), self._field("module", "bytes", int))

    def _field(self, name: str, key: str, cls: type) -> Any:
        entry = self.metadata.get(name)
        value = entry.get(key) if isinstance(entry, dict) else None
        if type(value) is not cls:
            raise ArtifactError(f'the metadata\'s "{name}" has no "{key}" of type {cls.__name__}')
        return value

    def _check_versions(self) -> None:
        metadata = self.metadata
        if not isinstance(metadata, dict):
            raise ArtifactError("the metadata is not a JSON object")
        version, dialect = metadata.get("artifact"), metadata.get("dialect")
        if version != container.VERSION:
            is_newer = isinstance(version, int) and version > container.VERSION
            raise ArtifactError(
                f"it has version {version!r} of the artifact format; this jaxmlir reads version "
                f"{container.VERSION}{': install a newer jaxmlir' if is_newer else ''}"
            )
        if fault := version_fault(dialect):
            raise ArtifactError(f"it has {fault}")

    def _arrays(self, parts: dict[str, container.StoredArray]) -> dict[str, Any]:
        described = self.metadata.get("constants")
        prefix = container.CONSTANT
        stored = {n.removeprefix(prefix): part for n, part in parts.items() if n.startswith(prefix)}
        if len(stored) != len(parts):
            raise ArtifactError(
                f"it has a part that is neither {container.MODULE!r} nor a constant"
            )
        if not isinstance(described, dict) or described.keys() != stored.keys():
            raise ArtifactError("the constants in the metadata do not match those in the file")
        eager = sum(len(part.data) for part in stored.values()) <= EAGER_BYTES
        arrays: dict[str, Any] = {}
        for name, part in stored.items():
            self._constant_entry(name, described[name])
            dtype, shape = container.array_type(name, described[name]["type"], part)
            loader = functools.cache(
                functools.partial(_read, name, part, described[name]["sha256"], dtype, shape)
            )
            arrays[name] = loader() if eager else UnreadArray(loader, shape, dtype)
        return arrays

    def _constant_entry(self, name: str, entry: Any) -> None:
        container.check_name(name)
        strings = isinstance(entry, dict) and all(isinstance(v, str) for v in entry.values())
        if not strings or entry.keys() != {"type", "sha256"}:
            raise ArtifactError(
                f"constant {name!r}: expected strings 'type' and 'sha256', got {entry!r}"
            )


def _read(name: str, part: Any, sha256: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    _check_digest(part.data, sha256, f"constant {name!r}")
    return container.array_of(part, dtype, shape)


def _check_digest(data: memoryview, expected: str, what: str) -> None:
    if container.digest(data) != expected:
        raise ArtifactError(f"{what} is damaged: its SHA-256 digest is not {expected}")


def _check_trees(program: Module) -> None:
    try:
        _ = program.in_tree, program.out_tree
    except DiagnosticError as e:
        raise ArtifactError(
            f"{e.diagnostics[0].message}; or load it with as_flat=True, as a program that takes "
            "and returns the leaves"
        ) from None

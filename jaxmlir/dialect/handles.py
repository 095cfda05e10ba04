"""Objects that a module names instead of holding them: Python objects, and large arrays.

A parameter such as a ``pure_callback``'s function has no textual form.  In the IR it is a handle,
``{handle = "h3"}``; the object is in a box of this name.  A
:class:`~jaxmlir.program.program.Program` holds the boxes of the handles its module names, so an
object lives as long as a program that needs it, and the program's text can be parsed again in the
same process.  Saving such a program is an error.

An array of an artifact stays in its file, which is mapped into memory.  It is only read, and its
bytes checked against those that were saved, when it is first used.
"""

from __future__ import annotations

import itertools
import weakref
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxmlir.errors import JaxmlirError


class Box:
    """Keeps one object alive under one name."""

    __slots__ = ("__weakref__", "name", "value")

    def __init__(self, name: str, value: Any):
        self.name: str = name
        self.value: Any = value


_counter = itertools.count()
_by_name: weakref.WeakValueDictionary[str, Box] = weakref.WeakValueDictionary()
# id() is a safe key: while the box exists, its object is alive.
_by_id: weakref.WeakValueDictionary[int, Box] = weakref.WeakValueDictionary()
_immortal: dict[str, Box] = {}


def box(value: Any) -> Box:
    """The box of an object, made on first use.  Its handle is valid while the box is alive."""
    boxed = _by_id.get(id(value))
    if boxed is None:
        boxed = Box(f"h{next(_counter)}", value)
        _by_name[boxed.name] = boxed
        _by_id[id(value)] = boxed
    return boxed


def keep(value: Any) -> str:
    """The handle of an object that is kept alive for the whole process, for avals and dtypes: MLIR
    types that name them are never freed."""
    boxed = box(value)
    _immortal[boxed.name] = boxed
    return boxed.name


def find_box(name: str) -> Box | None:
    """The box behind a handle; ``None`` if nothing holds it."""
    return _by_name.get(name)


def get(name: str) -> Any:
    """The object behind a handle.

    Raises:
      JaxmlirError: no living program of this process holds it.
    """
    boxed = find_box(name)
    if boxed is None:
        raise JaxmlirError(
            f'handle "{name}" stands for a Python object of another process, or of a program that '
            "no longer exists: a program with Python callbacks can only be used where it was traced"
        )
    return boxed.value


def _unwritable(value: Any) -> Any:
    """An array, or a copy if somebody can write to it."""
    base = value
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            value = value.copy()
            value.flags.writeable = False
            return value
        base = base.base
    return value


class UnreadArray(NamedTuple):
    """An array that has not been read yet.

    Attributes:
      read: checks the bytes and returns the array.
      shape, dtype: those of the array.
    """

    read: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: Any


class Constants(UserDict[str, Any]):
    """Arrays by the name that ``jaxpr.constant`` ops give them.

    An array of numpy's that can be written to is copied, so that a program stays what it is.

    Attributes:
      copies: whether it is so; a program that is lowered at once shares its constants with JAX's
        own part of the module, which names each once.
    """

    copies: bool = True

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()):
        # Copying does not read the arrays.
        self.data: dict[str, Any] = dict(values.data) if isinstance(values, Constants) else {}
        if not isinstance(values, Constants):
            self.update(values)

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name] = _unwritable(value) if self.copies else value

    def __getitem__(self, name: str) -> Any:
        """The array.

        Raises:
          ArtifactError: its bytes in an artifact are not those that were saved.
        """
        value = self.data[name]
        if isinstance(value, UnreadArray):
            value = self.data[name] = value.read()
        return value

    def __repr__(self) -> str:
        return f"Constants({', '.join(self)})"

    def unread(self, name: str) -> Any:
        """The array, its :class:`UnreadArray` if it is unread, or ``None`` if it is absent."""
        return self.data.get(name)

"""In-process handles: how a module refers to a Python object that cannot be written down.

A parameter such as a ``pure_callback``'s function has no textual form.  In the IR it is a name,
``{handle = "h3"}``; the object waits here.  A :class:`~jaxmlir.program.program.Program` holds the
boxes of the handles its module names, so an object lives as long as a program that needs it, and
text of that program can be parsed again in the same process.  Saving such a program is an error.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from jaxmlir.errors import JaxmlirError


class Box:
    """Keeps one object alive under one name."""

    __slots__ = ("__weakref__", "name", "value")

    def __init__(self, name: str, value: Any):
        self.name = name
        self.value = value


_counter = itertools.count()
_by_name: weakref.WeakValueDictionary[str, Box] = weakref.WeakValueDictionary()
# id() is a safe key: while the box is here, its object is alive.
_by_id: weakref.WeakValueDictionary[int, Box] = weakref.WeakValueDictionary()
_kept: dict[str, Box] = {}


def box(value: Any) -> Box:
    """The box of an object, made on first sight.  Drop it and the handle is gone."""
    found = _by_id.get(id(value))
    if found is None:
        found = Box(f"h{next(_counter)}", value)
        _by_name[found.name] = found
        _by_id[id(value)] = found
    return found


def keep(value: Any) -> str:
    """The handle of an object that must live as long as the process: avals and dtypes, which the
    MLIR types that name them outlive."""
    found = box(value)
    _kept[found.name] = found
    return found.name


def find_box(name: str) -> Box | None:
    """The box behind a handle, ``None`` where nothing holds it."""
    return _by_name.get(name)


def get(name: str) -> Any:
    """The object behind a handle."""
    return get_box(name).value


def get_box(name: str) -> Box:
    """The box behind a handle.

    Raises:
      JaxmlirError: no living program of this process holds it.
    """
    found = find_box(name)
    if found is None:
        raise JaxmlirError(
            f'handle "{name}" stands for a Python object of another process, or of a program that '
            "no longer exists: a program with Python callbacks can only be used where it was traced"
        )
    return found

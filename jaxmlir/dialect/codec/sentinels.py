"""Sentinels: objects without state that a module has for what is missing, or not specified.

One is written as where it is found, ``{sentinel = "package.module:MISSING"}``: its class and a name
for it are in that module.  Reading looks there, and imports and calls nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from jaxmlir.errors import ExportError


def name_of(value: Any) -> str | None:
    """``module:NAME`` of a sentinel; ``None`` of any other object."""
    cls = type(value)
    module = sys.modules.get(cls.__module__)
    if module is None or callable(value) or _has_state(value):
        return None
    for name, candidate in vars(module).items():
        if candidate is value:
            return f"{cls.__module__}:{name}"
    return None


def _has_state(value: Any) -> bool:
    """Whether anything but its class tells an object from others."""
    slots = any(getattr(cls, "__slots__", ()) for cls in type(value).__mro__)
    # What is written in C has neither a dictionary nor slots, and any state.
    return slots or not hasattr(value, "__dict__") or bool(vars(value))


def find(name: str) -> Any:
    """The sentinel that :func:`name_of` names so.

    Raises:
      ExportError: this process has none of that name.
    """
    module, _, attribute = name.partition(":")
    found = sys.modules.get(module)
    value = vars(found).get(attribute) if isinstance(found, ModuleType) else None
    if name_of(value) != name:
        raise ExportError(f'the sentinel "{name}" is not known to this process: import its module')
    return value

"""Records of JAX's kernel packages, and the sentinels of modules.

Equations may contain some hundred enums, named tuples, frozen dataclasses, effects and dtypes of
Pallas, which change with each release.  A record's tag is the path of its class in JAX:
``{pallas.core.Blocked = {block_size = 32 : i64}}``.  Reading looks for the class in these
packages only, and calls nothing but the constructor of such a record.  It may import the packages,
but never a module just because a text names it.

A sentinel is a stateless object that a module holds under a name, such as equinox's.  It is
written as ``module:NAME``, and looked up there when it is read.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from types import ModuleType
from typing import Any

from jaxmlir import _compat
from jaxmlir._compat import dtypes, effects
from jaxmlir.errors import ExportError

# JAX's kernel packages, and the packages that contain them.
_PACKAGES = {"pallas": "jax._src", "cudnn": "jax._src", "mosaic": "jax.experimental"}


def tag_of(cls: type) -> str | None:
    """The tag of a record's class; ``None`` for other classes."""
    place = f"{cls.__module__}.{cls.__qualname__}"
    for package, parent in _PACKAGES.items():
        if place.startswith(f"{parent}.{package}.") and _is_record(cls):
            return place.removeprefix(f"{parent}.")
    return None


def find(tag: str) -> type | None:
    """The class of a tag; ``None`` if the installed JAX has no such record."""
    module, _, name = tag.rpartition(".")
    parent = _PACKAGES.get(tag.partition(".")[0])
    if parent is None:
        return None
    place = f"{parent}.{module}"
    if place not in sys.modules:
        _compat.kernel_modules()
    cls = vars(sys.modules[place]).get(name) if place in sys.modules else None
    return cls if isinstance(cls, type) and tag_of(cls) == tag else None


def is_effect(cls: type) -> bool:
    """Whether a class is an effect, which has a single instance."""
    return issubclass(cls, effects.Effect)


def has_fields(cls: type) -> bool:
    """Whether fields distinguish the records of a class."""
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")


def can_be_made_again(value: Any) -> bool:
    """Whether a record equals what its constructor makes of its fields.

    The constructor may refuse the fields of a record that was made in another way.
    """
    if isinstance(value, (enum.Enum, tuple)):
        return True
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    try:
        return type(value)(**{f.name: getattr(value, f.name) for f in fields if f.init}) == value
    except Exception:  # the constructor may raise anything
        return False


def _is_record(cls: type) -> bool:
    """Whether a class only has fields, so that constructing it has no side effects."""
    if issubclass(cls, (enum.Enum, effects.Effect)):
        return True
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    if dataclasses.is_dataclass(cls):
        return cls.__dataclass_params__.frozen
    return issubclass(cls, dtypes.ExtendedDType)


def sentinel_name(value: Any) -> str | None:
    """The ``module:NAME`` of a sentinel; ``None`` for any other object."""
    cls = type(value)
    module = sys.modules.get(cls.__module__)
    if module is None or callable(value) or _has_state(value):
        return None
    for name, candidate in vars(module).items():
        if candidate is value:
            return f"{cls.__module__}:{name}"
    return None


def _has_state(value: Any) -> bool:
    """Whether an object differs from others of its class."""
    slots = any(getattr(cls, "__slots__", ()) for cls in type(value).__mro__)
    # An object implemented in C has neither a dictionary nor slots, but may have any state.
    return slots or not hasattr(value, "__dict__") or bool(vars(value))


def sentinel_called(name: str) -> Any:
    """The sentinel with a name given by :func:`sentinel_name`.

    Raises:
      ExportError: this process has no sentinel of that name.
    """
    module, _, attribute = name.partition(":")
    imported = sys.modules.get(module)
    value = vars(imported).get(attribute) if isinstance(imported, ModuleType) else None
    if sentinel_name(value) != name:
        raise ExportError(f'the sentinel "{name}" is not known to this process: import its module')
    return value

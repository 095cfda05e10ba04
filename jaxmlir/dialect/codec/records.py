"""Records of JAX's packages of kernels, and the sentinels of modules.

Pallas has some hundred enums, named tuples, frozen dataclasses, effects and dtypes that may stand
in an equation, other ones in each release.  One is written with the place of its class in JAX as
its tag: ``{pallas.core.Blocked = {block_size = 32 : i64}}``.  Reading looks for the class
there, in these packages only, and calls nothing but the constructor of such a record.  It may
import the packages, but no module because a text names it.

A sentinel is an object without state that a module holds under a name, as equinox's do: it is
written as ``module:NAME``, and found there again.
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

# The packages, and what they are in.
_PACKAGES = {"pallas": "jax._src", "cudnn": "jax._src", "mosaic": "jax.experimental"}


def tag_of(cls: type) -> str | None:
    """The tag of a record's class; ``None`` for other classes."""
    place = f"{cls.__module__}.{cls.__qualname__}"
    for package, parent in _PACKAGES.items():
        if place.startswith(f"{parent}.{package}.") and _is_record(cls):
            return place.removeprefix(f"{parent}.")
    return None


def find(tag: str) -> type | None:
    """The class of a tag; ``None`` where this JAX has no such record."""
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
    """Whether it is an effect, of which there is one instance."""
    return issubclass(cls, effects.Effect)


def has_fields(cls: type) -> bool:
    """Whether the records of a class are told apart by fields."""
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")


def can_be_made_again(value: Any) -> bool:
    """Whether a record is what its constructor makes of its fields.

    It may refuse them: those of a record that was made in another way.
    """
    if isinstance(value, (enum.Enum, tuple)):
        return True
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    try:
        return type(value)(**{f.name: getattr(value, f.name) for f in fields if f.init}) == value
    except Exception:  # whatever it says of them
        return False


def _is_record(cls: type) -> bool:
    """Whether a class has fields and no more: nothing else happens where one is made."""
    if issubclass(cls, (enum.Enum, effects.Effect)):
        return True
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    if dataclasses.is_dataclass(cls):
        return cls.__dataclass_params__.frozen
    return issubclass(cls, dtypes.ExtendedDType)


def sentinel_name(value: Any) -> str | None:
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


def sentinel_called(name: str) -> Any:
    """The sentinel that :func:`sentinel_name` names so.

    Raises:
      ExportError: this process has none of that name.
    """
    module, _, attribute = name.partition(":")
    imported = sys.modules.get(module)
    value = vars(imported).get(attribute) if isinstance(imported, ModuleType) else None
    if sentinel_name(value) != name:
        raise ExportError(f'the sentinel "{name}" is not known to this process: import its module')
    return value

"""Records of JAX's packages of kernels: grids, block mappings, compiler parameters, memory spaces.

Pallas has some hundred enums, named tuples, frozen dataclasses, effects and dtypes that may stand
in an equation, other ones in each release.  One is written with the place of its class in JAX as
its tag: ``{pallas.core.Blocked = {block_size = 32 : i64}}``.  Reading looks for the class
there, in these packages only, and calls nothing but the constructor of such a record.  It may
import the
packages, but no module because a text names it.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any

from jaxmlir import _compat
from jaxmlir._compat import dtypes, effects

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
    found = vars(sys.modules[place]).get(name) if place in sys.modules else None
    return found if isinstance(found, type) and tag_of(found) == tag else None


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
    own = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    try:
        return type(value)(**{f.name: getattr(value, f.name) for f in own if f.init}) == value
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

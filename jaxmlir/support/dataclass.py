"""``dataclass`` as Python's, of which each class costs an import little.

Python writes the methods of a dataclass as text, and compiles five or six for each class as it is
defined: half a millisecond, for hundreds of classes of which a process uses some.  Here all classes
share what compares, hashes and shows them, and ``__init__`` is compiled when it is first called.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        unsafe_hash: bool = False,
        slots: bool = False,
    ) -> Any:
        """``dataclasses.dataclass``, with its options of these names, but for keyword-only fields.

        A frozen class has no slots.
        """
        if cls is None:
            return lambda cls: dataclass(
                cls, frozen=frozen, eq=eq, unsafe_hash=unsafe_hash, slots=slots
            )
        # Without one, Python makes up the signature.
        cls.__doc__ = cls.__doc__ or cls.__name__
        own = {*vars(cls)}
        hashed = own.issuperset(("__hash__",)) and cls.__hash__ is not None
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        fields = dataclasses.fields(cls)
        compared = [field.name for field in fields if field.compare]
        methods = {"__init__": _late_init(cls, frozen), "__repr__": _shown}
        if eq:
            methods["__eq__"] = _equal_by(_values_of(compared))
        if frozen:
            methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        for name, method in methods.items():
            if name not in own:
                setattr(cls, name, method)
        if not hashed and (unsafe_hash or eq):
            cls.__hash__ = _hash_by(_values_of(compared)) if unsafe_hash or frozen else None
        return cls


def _late_init(cls: type, frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        made = _init_of(cls, frozen)
        cls.__init__ = made  # type: ignore[misc]
        made(self, *args, **kwargs)

    return __init__


_MADE: Any = type("_Made", (), {"__repr__": lambda _: "<made>"})()


def _init_of(cls: Any, frozen: bool) -> Callable[..., None]:
    """The ``__init__`` of a class with some fields."""
    scope: dict[str, Any] = {"_MADE": _MADE}
    # The attributes of a frozen class are set where they are.
    place, takes, lines = ("known[{!r}]" if frozen else "self.{}"), [], []
    for field in dataclasses.fields(cls):
        name, default, value = field.name, "", field.name
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"], default = field.default, f"=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_factory_{name}"], default = field.default_factory, "=_MADE"
            value = f"_factory_{name}() if {name} is _MADE else {name}"
        # What is none of its parameters has the default of its class, or is set later.
        if field.init:
            takes.append(name + default)
            lines.append(f"{place.format(name)} = {value}")
    if frozen and lines:
        lines.insert(0, "known = self.__dict__")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(['self', *takes])}):\n " + "\n ".join(lines or ["pass"]), scope)
    made = scope["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return made


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of some attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equal_by(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash_by(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


@reprlib.recursive_repr()
def _shown(self: Any) -> str:
    fields = [field.name for field in dataclasses.fields(self) if field.repr]
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
    return f"{type(self).__qualname__}({values})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

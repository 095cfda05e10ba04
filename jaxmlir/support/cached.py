"""What is found out once; of a program until that is changed: its analyses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class lazy(functools.cached_property[T]):
    """A cached property for which, as in Python 3.12, no lock is taken: of many small objects that
    would take as long as to find it out."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = instance.__dict__[self.attrname] = self.func(instance)
        return found


class analysis(lazy[T]):
    """A cached property of a program's core that :func:`forget_analyses` makes it find out anew."""

    def __init__(self, func: Callable[[Any], T]):
        super().__init__(functools.wraps(func)(lambda instance: func(instance.core)))


def forget_analyses(of: Any) -> None:
    """Has the analyses of an object found out again when they are next asked for."""
    known = of.__dict__
    for name in _analyses(type(of)).intersection(known):
        known.pop(name, None)


@functools.cache
def _analyses(cls: type) -> frozenset[str]:
    return frozenset(
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, analysis)
    )

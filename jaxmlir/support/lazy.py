"""Work that is put off or done once: properties, methods, names of packages, and Python's garbage
collector."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


def collector_paused(function: Callable[P, R]) -> Callable[P, R]:
    """Runs a function with Python's garbage collector paused.

    The cyclic collector runs after a number of allocations, and looks at all live objects.  With
    JAX imported these are over 100,000, which takes 50 ms, several times while a program is loaded,
    differentiated or lowered, without finding anything.  Objects allocated there live on or are
    freed by their reference count; cycles wait for the next collection.
    """

    @functools.wraps(function)
    def paused(*args: P.args, **kwargs: P.kwargs) -> R:
        # Overlapping threads are safe: the first to finish enables the collector again, for all.
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return paused


class lazy(functools.cached_property[T]):
    """A cached property without a lock, as in Python 3.12: in many small objects, locking would
    take as long as computing the property."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


def memoized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that runs once for the same arguments: its object keeps the results.  Arguments are
    hashed, and are given by position.  ``functools.cache`` would keep objects alive."""
    attribute = f"_{method.__name__}_by_arguments"

    @functools.wraps(method)
    def once(self: Any, *args: Any) -> Any:
        results = self.__dict__.setdefault(attribute, {})
        if args not in results:
            results[args] = method(self, *args)
        return results[args]

    return once


class analysis(lazy[T]):
    """A cached property of a program's core that :func:`forget_analyses` drops."""

    def __init__(self, func: Callable[[Any], T]):
        super().__init__(functools.wraps(func)(lambda instance: func(instance.core)))


def forget_analyses(of: Any) -> None:
    """Drops the cached analyses of an object; they are computed again on the next use."""
    attributes = of.__dict__
    for name in _analyses(type(of)).intersection(attributes):
        attributes.pop(name, None)


@functools.cache
def _analyses(cls: type) -> frozenset[str]:
    members = (item for base in cls.__mro__ for item in vars(base).items())
    return frozenset(name for name, value in members if isinstance(value, analysis))


def lazy_names(
    package: str, exports: Mapping[str, str], submodules: Collection[str]
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
      exports: the submodule that defines each name.  A submodule must not have the name that it
        defines, because importing it overwrites the package's attribute of that name.
      submodules: the submodules that are public names of the package.
    """
    assert all(name != submodule for name, submodule in exports.items())
    namespace = vars(sys.modules[package])

    # Modules live on, so their import has nothing to collect.
    @collector_paused
    def __getattr__(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{exports[name]}"), name)
        namespace[name] = value
        return value

    return __getattr__

"""Examples of the ops, one table a family, from which their lit tests are generated."""

from __future__ import annotations

import importlib
import pkgutil

from lit_examples._example import Example


def examples() -> dict[str, Example]:
    """Op name -> its example, for the ops that the installed JAX has."""
    found: dict[str, Example] = {}
    for module in _tables():
        found.update(module.EXAMPLES)
    return found


def without() -> dict[str, str]:
    """Op name -> why there is no example."""
    found: dict[str, str] = {}
    for module in _tables():
        found.update(getattr(module, "WITHOUT", {}))
    return found


def _tables() -> list:
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}") for name in names]

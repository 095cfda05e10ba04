"""Examples of the ops, one table for each family; the ops' lit tests are generated from them."""

from __future__ import annotations

import importlib
import pkgutil

from lit_examples._example import Example


def examples() -> dict[str, Example]:
    """Maps op names to examples, for the ops that the installed JAX has."""
    found: dict[str, Example] = {}
    for module in _tables():
        found.update(module.EXAMPLES)
    return found


def without() -> dict[str, str]:
    """Maps the names of ops without an example to the reason."""
    found: dict[str, str] = {}
    for module in _tables():
        found.update(getattr(module, "WITHOUT", {}))
    return found


def _tables() -> list:
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return [importlib.import_module(f"{__name__}.{name}") for name in names]

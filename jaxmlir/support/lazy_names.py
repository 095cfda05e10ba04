"""Names of packages that are loaded on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jaxmlir.support.collector import collector_paused


def lazy_names(
    package: str, exports: Mapping[str, str], submodules: Collection[str]
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
      exports: the submodule that each name is taken from.
      submodules: those that are names of the package themselves.
    """
    namespace = vars(sys.modules[package])

    # Modules live on: there is nothing in them to collect.
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

"""JAX's configuration, as part of the keys of what is kept.

What JAX's rules write and find valid depends on it.
"""

from __future__ import annotations

from typing import Any

from jaxmlir._compat import config

_settings: dict[Any, object] = {}


def setting() -> object:
    """An object for each configuration, which is long to compare."""
    return _settings.setdefault(config.trace_context(), object())

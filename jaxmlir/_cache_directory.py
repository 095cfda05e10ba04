"""Where what JAX's rules gave is kept for later processes (:mod:`jaxmlir.rule_cache`)."""

from __future__ import annotations

import os
from types import ModuleType


def directory() -> str:
    """The directory that the environment names, empty if nothing is to be kept."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""


def rule_cache() -> ModuleType | None:
    """:mod:`jaxmlir.rule_cache`, which need not be imported where nothing is to be kept."""
    if not directory():
        return None
    from jaxmlir import rule_cache

    return rule_cache

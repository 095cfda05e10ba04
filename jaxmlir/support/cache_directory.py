"""Where what JAX's rules gave is kept for later processes (:mod:`jaxmlir.caching.rule_cache`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxmlir.caching.rule_cache import RuleCache


def directory() -> str:
    """The directory that the environment names, empty if nothing is to be kept."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""


def rule_cache() -> RuleCache | None:
    """The cache for the present configuration; ``None`` where nothing is to be kept, and then its
    module is not imported."""
    if not directory():
        return None
    from jaxmlir.caching.rule_cache import current

    return current()

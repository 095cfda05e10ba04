"""Where what JAX's rules gave is kept for later processes (:mod:`jaxmlir.rule_cache`)."""

from __future__ import annotations

import os


def directory() -> str:
    """The directory that the environment names, empty if nothing is to be kept."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""

"""The directory for what later processes can use, which the environment names."""

from __future__ import annotations

import os


def directory() -> str:
    """The directory that the environment names, empty if nothing is to be kept."""
    root = os.environ.get("JAXMLIR_CACHE_DIR")
    return os.path.abspath(root) if root else ""

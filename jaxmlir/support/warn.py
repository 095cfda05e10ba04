"""Warnings at the user's line."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_OURS = (str(Path(__file__).resolve().parents[1]), contextlib.__file__)


def warn(message: str) -> None:
    """Warns at the user's line: the innermost frame outside of jaxmlir and JAX."""
    level, frame = 2, sys._getframe(1)
    jax = getattr(sys.modules.get("jax"), "__file__", None)
    inside = _OURS if jax is None else (*_OURS, str(Path(jax).parent))
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)

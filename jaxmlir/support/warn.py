"""Warnings at the user's line."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_OURS = (str(Path(__file__).resolve().parents[1]), contextlib.__file__)


def warn(message: str) -> None:
    """Warns at the line that called into the package, from however deep in it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
